"""Makes weights smaller: they are stored as a narrow type, and cast back to their own where the graph reads them.

The rest of the graph stays as it is: a read keeps its name and becomes the cast, with the real read behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tfsmith.errors import InvalidModelError, LimitError, UnsupportedError
from tfsmith.ir.body import FreeNames, Part, Use, free_name
from tfsmith.ir.graph import Function, FunctionParts, Graph
from tfsmith.ir.node import Func, Node
from tfsmith.ir.tensor_views import cast_tensor
from tfsmith.ir.types import DType, dtype_named
from tfsmith.limits import MAX_DEPTH, MAX_FROZEN_FUNCTIONS
from tfsmith.ops import CALLS, HANDLE_ENDS, HANDLE_FACTS, HANDLE_READS, HANDLE_WRITES, HANDS_ON, REF_WRITES, SWITCHES
from tfsmith.passes.inline import rename_output, rename_outputs
from tfsmith.records import replace

__all__ = ["cast_constants", "cast_variables", "is_wide"]

_DAMAGED = "the file is damaged; fetch it again"
_RESOURCE = dtype_named("resource")
_WIDE = frozenset({"float32", "float64"})
# What functions call the result of a read.
_OUTPUT = MappingProxyType({"ReadVariableOp": "value", "Const": "output"})


def is_wide(dtype: DType) -> bool:
    """Whether values of this type can be made smaller."""
    return dtype.base.name in _WIDE


def cast_variables(graph: Graph, names: Iterable[str], dtype: DType) -> Graph:
    """The graph whose variables of these names have another type; all reads of them are cast back. No value is read.

    Raises:
        UnsupportedError: Something writes to such a variable or takes it in a way that a cast cannot serve.
    """
    library = _Library(graph, dtype)
    work = _Work(graph, dtype, library)
    for name in names:
        node = graph[name]
        old = node.get("dtype")
        if not isinstance(old, DType) or not is_wide(old):
            what = f"it is of type {old}, but its values in the checkpoint are of a floating one"
            raise InvalidModelError(what, where=f"node {name!r}", remedy="graph and checkpoint do not belong together")
        work.changes[name] = node.replace(attrs={"dtype": dtype})
        work.follow(name, old.base, is_ref=node.op != "VarHandleOp")
    nodes = work.finish()
    if not library.made:
        return graph.replace(nodes=nodes)
    return graph.replace(nodes=nodes, library=graph.library.replace({**graph.library, **library.made}))


def cast_constants(graph: Graph, names: Iterable[str], dtype: DType, *, saturate: bool = False) -> Graph:
    """The graph whose constants of these names have another type; what takes them is cast back.

    Constants of functions are named "function/constant". Values are cast when the graph is written.
    """
    wanted = frozenset(names)
    changed = graph.replace(nodes=_constants_work(graph, wanted, "", dtype, saturate).finish())
    functions = dict(graph.library)
    for name, function in graph.library.items():
        prefix = f"{name}/"
        if any(node.op == "Const" and prefix + node.name in wanted for node in function):
            functions[name] = _with_constants(function, wanted, dtype, saturate)
    if all(functions[name] is graph.library[name] for name in functions):
        return changed
    return changed.replace(library=graph.library.replace(functions))


def _with_constants(function: Function, wanted: frozenset[str], dtype: DType, saturate: bool) -> Function:
    parts = function.part.value
    work = _constants_work(function, wanted, f"{function.name}/", dtype, saturate)
    ret = {key: rename_output(text, work.renamed) for key, text in parts.ret.items()}
    return Function(function.name, Part.of(replace(parts, nodes=work.finish(), ret=ret)), function.op_def)


def _constants_work(body: Graph | Function, wanted: frozenset[str], prefix: str, dtype: DType, saturate: bool) -> _Work:
    work = _Work(body, dtype, None)
    for node in body.nodes:
        if node.op != "Const" or prefix + node.name not in wanted:
            continue
        tensor, label = node.get("value"), f"constant {prefix + node.name!r}"
        value = cast_tensor(tensor, dtype, label, saturate=saturate)
        work.changes[node.name] = node.replace(attrs={"dtype": dtype, "value": value})
        work.follow(node.name, tensor.dtype.base, is_ref=True)
    return work


class _Work:
    """One body under change."""

    def __init__(self, body: Graph | Function, dtype: DType, library: _Library | None) -> None:
        self._body = body
        self._dtype = dtype
        self._library = library
        self._in_function = not isinstance(body, Graph)
        self._names = FreeNames([*body.by_name, *body.args])
        self._casts: dict[tuple[str, int], str] = {}
        self._calls: dict[str, dict[int, DType]] = {}
        self.changes: dict[str, Node] = {}
        self.added: dict[str, list[Node]] = {}
        """New nodes, by the node that they stand behind."""
        self.renamed: dict[str, str] = {}
        """In functions: for a node that became another op, the new name of its output."""

    def follow(self, name: str, old: DType, *, is_ref: bool) -> None:
        """Changes all that takes a variable (a reference or a resource), a constant, or an argument."""
        todo, seen = [(name, 0)], {(name, 0)}
        while todo:
            source = todo.pop()
            for use in self._body.uses.get(source[0], ()):
                if use.output != source[1]:
                    continue
                found = self._change_ref(use, old) if is_ref else self._change_resource(use, old)
                for output in found:
                    if (use.node.name, output) not in seen:
                        seen.add((use.node.name, output))
                        todo.append((use.node.name, output))

    def finish(self) -> tuple[Node, ...]:
        """The nodes: those that changed in their places, new ones behind the nodes that they belong to."""
        for name, arguments in self._calls.items():
            assert self._library is not None
            node = self.changes.get(name, self._body[name])
            self.changes[name] = self._library.changed_call(node, arguments, self._body.title)
        nodes: list[Node] = []
        for node in self._body.nodes:
            nodes += [*self.added.get(f"<{node.name}", ()), self.changes.get(node.name, node)]
            nodes += self.added.get(node.name, ())
        lonely = [node for name in self._body.args for node in self.added.get(name, ())]
        found = (*lonely, *nodes)
        return rename_outputs(found, self.renamed) if self._in_function else found

    def _change_resource(self, use: Use, old: DType) -> tuple[int, ...]:
        """Changes one user of a resource; gives the outputs that hand the resource on."""
        node, op = use.node, use.node.op
        if op in CALLS and use.input >= CALLS[op].first:
            index = use.input - CALLS[op].first
            self._calls.setdefault(node.name, {})[index] = old
            return (index,) if op.endswith("While") else ()
        if HANDS_ON.get(op) == op and node.get("T") == _RESOURCE:
            used = {found.output for found in self._body.uses.get(node.name, ()) if found.output >= 0}
            return tuple(used) if op in SWITCHES else (0,)
        if op in HANDLE_READS and use.input == 0:
            self._change_read(node, old)
            return ()
        if op in HANDLE_WRITES and use.input == 0:
            self._change_write(node, old, "dtype")
            return ()
        if op in HANDLE_FACTS or op in HANDLE_ENDS:
            return ()
        raise self._refusal(node)

    def _change_ref(self, use: Use, old: DType) -> tuple[int, ...]:
        """Changes one user of a reference or a constant; gives the outputs that hand the reference on."""
        node, op = self.changes.get(use.node.name, use.node), use.node.op
        if op == "Identity" and use.input == 0:
            attrs = {"T": None, "SrcT": self._dtype, "DstT": old}
            self.changes[node.name] = node.replace(op="Cast", attrs=attrs)
            self.renamed[node.name] = "y"
            return ()
        if op in REF_WRITES and use.input == 0:
            self._change_write(use.node, old, "T")
            return (0,)
        if op == "IsVariableInitialized":
            self.changes[node.name] = node.replace(attrs={"dtype": self._dtype})
            return ()
        if op in HANDS_ON and op.startswith("Ref"):
            self.changes[node.name] = node.replace(attrs={"T": self._dtype})
            return (0, 1) if op == "RefSwitch" else (0,)
        if self._takes_reference(use):
            raise self._refusal(use.node)
        self._set_input(use, self._cast_of(use, old))
        return ()

    def _change_read(self, node: Node, old: DType) -> None:
        """The read moves behind its name, which the cast of it gets."""
        if node.name in self.changes:
            return
        name = self._names.take(f"{node.name}/{self._dtype.name}")
        output = _OUTPUT.get(node.op, "output")
        source = f"{name}:{output}:0" if self._in_function else name
        self.added.setdefault(f"<{node.name}", []).append(node.replace(name=name, attrs={"dtype": self._dtype}))
        kept = {key: node.attrs[key] for key in ("_class", "_output_shapes") if key in node.attrs}
        attrs = {"SrcT": self._dtype, "DstT": old, **kept}
        self.changes[node.name] = Node(node.name, "Cast", (source,), attrs, node.device)
        self.renamed[node.name] = "y"

    def _change_write(self, node: Node, old: DType, attr: str) -> None:
        """What is written is made small first."""
        if node.name in self.changes:
            return
        if len(node.data_inputs) < 2:
            raise self._refusal(node)
        name = self._names.take(f"{node.name}/{self._dtype.name}")
        attrs = {"SrcT": old, "DstT": self._dtype}
        self.added.setdefault(f"<{node.name}", []).append(Node(name, "Cast", (node.inputs[1],), attrs, node.device))
        value = f"{name}:y:0" if self._in_function else name
        inputs = (node.inputs[0], value, *node.inputs[2:])
        self.changes[node.name] = node.replace(inputs=inputs, attrs={attr: self._dtype})

    def _cast_of(self, use: Use, old: DType) -> str:
        """The cast that all who take this output as a value share."""
        text = use.node.inputs[use.input]
        source, output = self._body.resolve(text)
        name = self._casts.get((source, output))
        if name is None:
            name = self._casts[source, output] = self._names.take(f"{source}/{old.name}")
            attrs = {"SrcT": self._dtype, "DstT": old}
            device = self._body[source].device
            self.added.setdefault(source, []).append(Node(name, "Cast", (text,), attrs, device))
        return f"{name}:y:0" if self._in_function else name

    def _set_input(self, use: Use, text: str) -> None:
        node = self.changes.get(use.node.name, use.node)
        inputs = (*node.inputs[: use.input], text, *node.inputs[use.input + 1 :])
        self.changes[node.name] = node.replace(inputs=inputs)

    def _takes_reference(self, use: Use) -> bool:
        op = self._body.op_def(use.node.op)
        if op is None:
            return False
        position = use.input
        for arg in op.inputs:
            count = arg.count(use.node.attrs)
            if position < count:
                return arg.is_ref
            position -= count
        return False

    def _refusal(self, node: Node) -> UnsupportedError:
        what = f"op {node.op} takes a variable in a way that a cast cannot serve"
        remedy = (
            "drop what only trains ({inference_only=True}), or leave this variable as it is ({only} names the others)"
        )
        return UnsupportedError(what, where=f"{self._body.title}, node {node.name!r}", remedy=remedy)


class _Library:
    """Makes the copies of functions in which some arguments are variables of the other type."""

    def __init__(self, graph: Graph, dtype: DType) -> None:
        self._graph = graph
        self._dtype = dtype
        self._known: dict[tuple[str, tuple[tuple[int, DType], ...]], str] = {}
        self.made: dict[str, Function] = {}
        self._depth = 0

    def changed_call(self, node: Node, arguments: Mapping[int, DType], title: str) -> Node:
        """The call with copies of its functions."""
        where, changes = f"{title}, node {node.name!r}", dict[str, object]()
        for key in CALLS[node.op].functions:
            found = node.attrs.get(key)
            if found is None or found.kind not in ("func", "list(func)"):
                raise InvalidModelError(f"attribute {key!r} names no function", where=where, remedy=_DAMAGED)
            changed = tuple(self._changed(func, arguments, where) for func in found.funcs)
            changes[key] = changed[0] if found.kind == "func" else changed
        return node.replace(attrs=changes)

    def _changed(self, func: Func, arguments: Mapping[int, DType], where: str) -> Func:
        key = (func.name, tuple(sorted(arguments.items(), key=lambda item: item[0])))
        if key not in self._known:
            function = self._graph.library.get(func.name)
            if function is None:
                what = f"it calls {func.name!r}, which is not in the library"
                raise InvalidModelError(what, where=where, remedy=_DAMAGED)
            if self._depth >= MAX_DEPTH or len(self._known) > MAX_FROZEN_FUNCTIONS:
                what = "functions hand a variable on to each other without end"
                raise LimitError(what, where=where, remedy="do not trust the file")
            name = free_name(f"{func.name}_{self._dtype.name}", self.made, self._graph.library)
            self._known[key] = name
            self.made[name] = function  # takes the name, should the function call itself
            self._depth += 1
            self.made[name] = self._copy(function, name, arguments)
            self._depth -= 1
        return Func(self._known[key], func.attrs)

    def _copy(self, function: Function, name: str, arguments: Mapping[int, DType]) -> Function:
        parts: FunctionParts = function.part.value
        work = _Work(function, self._dtype, self)
        if max(arguments) >= len(function.args):
            what = f"it is called with {max(arguments) + 1} arguments or more, but takes {len(function.args)}"
            raise InvalidModelError(what, where=function.title, remedy=_DAMAGED)
        for index, old in arguments.items():
            work.follow(function.args[index], old, is_ref=False)
        nodes = work.finish()
        ret = {key: rename_output(text, work.renamed) for key, text in parts.ret.items()}
        signature = replace(parts.signature, name=name)
        return Function(name, Part.of(replace(parts, signature=signature, nodes=nodes, ret=ret)), function.op_def)
