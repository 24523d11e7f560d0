"""Turns variables into constants and everything that reads them into plain tensor ops, in graphs and in functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from tfsmith.errors import InvalidModelError, LimitError, UnsupportedError
from tfsmith.ir.body import Body, Part, Use, free_name
from tfsmith.ir.graph import Function, FunctionParts, Graph
from tfsmith.ir.node import Func, Node, parse_input
from tfsmith.ir.opdef import ArgDef, OpDef
from tfsmith.ir.tensor import FilledTensor, Tensor
from tfsmith.ir.types import SCALAR, DType, Shape, dtype_named
from tfsmith.limits import MAX_DEPTH, MAX_FROZEN_FUNCTIONS, MAX_RANK
from tfsmith.ops import CALLS, HANDLE_ENDS, HANDLE_WRITES, HANDS_ON
from tfsmith.records import field, record

__all__ = [
    "added_read",
    "added_reads",
    "const_to_handle",
    "handle_to_const",
    "identity_to_read",
    "read_to_identity",
    "renamed_input",
    "without_reads",
    "Value",
    "Conversion",
    "convert_variables",
]

_MARK = "_tfsmith_thawed"
"""The attribute with the op that a node had before; empty for a read that was not there. TensorFlow keeps attributes
that begin with an underscore, and asks nothing about them."""
_HANDLE_ATTRS = ("shape", "shared_name", "container", "debug_name", "allowed_devices")


def const_to_handle(const: Node, tensor: Tensor) -> Node:
    """The variable in the constant's place."""
    attrs: dict[str, object] = {"value": None, "shape": tensor.shape, "shared_name": const.name, "container": ""}
    attrs[_MARK] = "Const"
    if "_output_shapes" in const.attrs:  # TensorFlow compares them with what it infers, and a handle is a scalar
        attrs["_output_shapes"] = (SCALAR,)
    return const.replace(op="VarHandleOp", attrs=attrs)


def handle_to_const(variable: Node, tensor: Tensor) -> Node:
    """The constant in the variable's place; if it was one before, with all that it had then."""
    if variable.get(_MARK) != b"Const":
        kind = variable.get("dtype", tensor.dtype)
        return Node(variable.name, "Const", (), {"dtype": kind, "value": tensor})
    attrs: dict[str, object] = {"value": tensor, _MARK: None, **dict.fromkeys(_HANDLE_ATTRS)}
    if "_output_shapes" in variable.attrs:
        attrs["_output_shapes"] = (tensor.shape,)
    return variable.replace(op="Const", attrs=attrs)


def identity_to_read(node: Node, kind: DType) -> Node:
    """The read of a variable of this type in the place of an Identity of the constant."""
    return node.replace(op="ReadVariableOp", attrs={"T": None, "dtype": kind, _MARK: "Identity"})


def read_to_identity(node: Node) -> Node | None:
    """The Identity that a read was before; None if it was none."""
    if node.get(_MARK) != b"Identity":
        return None
    return node.replace(op="Identity", attrs={"dtype": None, "T": node.get("dtype"), _MARK: None})


def added_read(name: str, variable: Node) -> Node:
    """A read of a variable for whatever took the constant itself."""
    return Node(name, "ReadVariableOp", (variable.name,), {"dtype": variable.get("dtype"), _MARK: ""})


def added_reads(graph: Graph, variables: Collection[str]) -> dict[str, str]:
    """The reads of these variables that thawing added: their names, and their variables' names."""
    return {
        node.name: node.inputs[0]
        for node in graph
        if node.op == "ReadVariableOp" and len(node.inputs) == 1 and node.inputs[0] in variables
        if node.get(_MARK) == b""
    }


def without_reads(nodes: Iterable[Node], reads: Mapping[str, str]) -> list[Node]:
    """The nodes without these reads; what took them takes what they read."""
    found: list[Node] = []
    for node in nodes:
        if node.name in reads:
            continue
        inputs = tuple(renamed_input(text, reads) for text in node.inputs)
        found.append(node if inputs == node.inputs else node.replace(inputs=inputs))
    return found


def renamed_input(text: str, names: Mapping[str, str]) -> str:
    """An input in the form that it had ("a", "a:0", "^a"), from a node of another name."""
    name = parse_input(text).node
    return text.replace(name, names[name], 1) if name in names else text


# What is left of an assignment when its variable is a constant: the value that it would have stored.
_REF_ASSIGNMENTS = MappingProxyType({"AssignSub": "Sub", "AssignAdd": "Add"})
_DROPPED = HANDLE_WRITES | HANDLE_ENDS
_RESOURCE = dtype_named("resource")
_DAMAGED = "the file is damaged; fetch it again"
_INDEX_TYPES = (dtype_named("int32"), dtype_named("int64"))


@record
class Value:
    """What a variable became: the type and shape of its tensor."""

    dtype: DType
    shape: Shape


@record(frozen=False)
class Conversion:
    """What a conversion did; filled while it runs.

    Attributes:
        graph: The graph without those variables.
        dropped: Nodes that only changed a variable, and are gone.
        rewritten: Reference assignments that became plain arithmetic.
    """

    graph: Graph
    dropped: list[str] = field(default_factory=list)
    rewritten: list[str] = field(default_factory=list)


def convert_variables(graph: Graph, values: Mapping[str, Tensor], kept: Collection[str] = ()) -> Conversion:
    """Replaces variables by constants. What was thawed becomes the very nodes that it was before.

    Args:
        graph: The graph.
        values: For each variable's node, by name, its value. Values are not read.
        kept: Nodes that must stay whatever they are, because they are outputs.

    Raises:
        UnsupportedError: Something uses a variable in a way that no constant can serve.
    """
    library = _Library(graph)
    changes = {name: handle_to_const(graph[name], tensor) for name, tensor in values.items()}
    start = {name: Value(tensor.dtype, tensor.shape) for name, tensor in values.items()}
    by_reference = {name for name in values if graph[name].op != "VarHandleOp"}
    work = _Work(graph, changes, library)
    work.follow(start, by_reference)
    nodes = [changes.get(node.name, node) for node in graph if node.name not in work.dropped]
    if work.dropped:
        nodes = [_without_controls(node, work.dropped) for node in nodes]
    reads = {name: source for name, source in added_reads(graph, values).items() if name not in kept}
    if reads:
        nodes = without_reads(nodes, reads)
    nodes += work.added
    functions = dict(graph.library) | library.made
    result = graph.replace(
        nodes=tuple(nodes), library=graph.library.replace(functions) if library.made else graph.library
    )
    return Conversion(result, sorted(work.dropped | library.dropped), work.rewritten)


class _Work:
    """One body under conversion."""

    def __init__(self, body: Body, changes: dict[str, Node], library: _Library, *, in_loop: bool = False) -> None:
        self._body = body
        self._in_loop = in_loop
        self._library = library
        self.changes = changes
        self.added: list[Node] = []
        self.dropped: set[str] = set()
        self.rewritten: list[str] = []
        self.renamed_outputs: dict[str, str] = {}
        """In functions: for a node whose op changed, the new name of its output."""

    def follow(self, start: Mapping[str, Value], by_reference: set[str]) -> None:
        """Converts everything that takes these nodes or arguments."""
        todo = [(name, value, name in by_reference) for name, value in start.items()]
        seen = set(start)
        while todo:
            name, value, is_ref = todo.pop()
            for use in self._body.uses.get(name, ()):
                if use.output < 0:
                    continue
                if self._convert_use(use, value, is_ref) and use.node.name not in seen:
                    seen.add(use.node.name)
                    todo.append((use.node.name, value, is_ref))

    def _convert_use(self, use: Use, value: Value, is_ref: bool) -> bool:
        """Converts one user of a variable; says whether the variable goes on behind it."""
        node = self.changes.get(use.node.name, use.node)
        op = use.node.op
        if op in CALLS:
            self.changes[node.name] = self._library.converted_call(
                node, use.input, value, self._body.title, in_loop=self._in_loop
            )
            return False
        if op in HANDS_ON and op != "Merge" and use.input == 0:
            self.changes[node.name] = _with_type(node, HANDS_ON[op], value.dtype)
            return True
        if op == "Merge" and node.get("T") == _RESOURCE:
            self.changes[node.name] = _with_type(node, "Merge", value.dtype)
            return True
        convert = _READERS.get(op)
        if convert is not None and use.input == 0:
            self.changes[node.name] = convert(self, use.node, value)
            return False
        if is_ref:
            return self._convert_reference(use, node)
        if op in _DROPPED and not self._in_loop:  # in a loop, the next turn would read what this one assigned
            self.dropped.add(node.name)
            return False
        raise UnsupportedError(
            f"op {op} takes a variable in a way that no constant can serve",
            where=f"{self._body.title}, node {node.name!r}",
            remedy="choose outputs that do not train or change the model, or leave the variable out ({excluded})",
        )

    def _convert_reference(self, use: Use, node: Node) -> bool:
        """A TF1 reference is taken by any op; only those that would write to it must change."""
        op = use.node.op
        if use.input != 0 or not op.startswith(("Assign", "Scatter", "IsVariableInitialized", "Apply", "CountUpTo")):
            return False
        kind = {"T": node.get("T")}
        data = use.node.data_inputs
        controls = tuple(text for text in use.node.inputs if text.startswith("^"))
        if op == "Assign":
            self.changes[node.name] = Node(node.name, "Identity", (data[1], *controls), kind, node.device)
        elif op in _REF_ASSIGNMENTS:
            self.changes[node.name] = Node(node.name, _REF_ASSIGNMENTS[op], (*data, *controls), kind, node.device)
        elif op == "IsVariableInitialized":
            self.changes[node.name] = _true(node.name)
        else:
            raise UnsupportedError(
                f"op {op} writes to a variable",
                where=f"{self._body.title}, node {node.name!r}",
                remedy="choose outputs that do not train or change the model, or leave the variable out ({excluded})",
            )
        self.rewritten.append(node.name)
        return op != "IsVariableInitialized"

    def read(self, node: Node, value: Value) -> Node:
        """ReadVariableOp: hands the tensor on."""
        self.renamed_outputs[node.name] = "output"
        before = read_to_identity(node)
        if before is not None:
            return before
        return _like(node, "Identity", (node.inputs[0],), {"T": node.get("dtype", value.dtype)})

    def gather(self, node: Node, value: Value) -> Node:
        """ResourceGather: GatherV2, with its axis as a new constant behind the graph."""
        axis, index_type = f"{node.name}/axis", node.get("Tindices", dtype_named("int32"))
        batch_dims = node.get("batch_dims", 0)
        if index_type not in _INDEX_TYPES or not isinstance(batch_dims, int) or abs(batch_dims) > MAX_RANK:
            what = f"a gather by {index_type} with batch_dims {batch_dims!r} cannot be"
            where = f"{self._body.title}, node {node.name!r}"
            raise InvalidModelError(what, where=where, remedy=_DAMAGED)
        self.added.append(_scalar(axis, index_type, batch_dims))
        attrs = {"Tparams": node.get("dtype", value.dtype), "Tindices": index_type, "Taxis": index_type}
        if batch_dims:
            attrs["batch_dims"] = batch_dims
        axis_input = axis if isinstance(self._body, Graph) else f"{axis}:output:0"
        return _like(node, "GatherV2", (*node.inputs[:2], axis_input), attrs)

    def gather_nd(self, node: Node, value: Value) -> Node:
        """ResourceGatherNd: GatherNd."""
        attrs = {"Tparams": node.get("dtype", value.dtype), "Tindices": node.get("Tindices")}
        return _like(node, "GatherNd", node.inputs[:2], attrs)

    def shape(self, node: Node, value: Value) -> Node:
        """VariableShape: Shape of the tensor."""
        out_type = node.get("out_type", dtype_named("int32"))
        return _like(node, "Shape", (node.inputs[0],), {"T": value.dtype, "out_type": out_type})

    def initialized(self, node: Node, value: Value) -> Node:
        """VarIsInitializedOp: a constant always is."""
        self.renamed_outputs[node.name] = "output"
        return _true(node.name)


_READERS: Mapping[str, Callable[[_Work, Node, Value], Node]] = MappingProxyType(
    {
        "ReadVariableOp": _Work.read,
        "ResourceGather": _Work.gather,
        "ResourceGatherNd": _Work.gather_nd,
        "VariableShape": _Work.shape,
        "VarIsInitializedOp": _Work.initialized,
    }
)


def _like(node: Node, op: str, inputs: tuple[str, ...], attrs: Mapping[str, object]) -> Node:
    """A new node in a node's place, which keeps its name and its colocation, as TensorFlow's own freezing does."""
    kept = {"_class": node.attrs["_class"]} if "_class" in node.attrs else {}
    return Node(node.name, op, inputs, {**attrs, **kept})


def _with_type(node: Node, op: str, kind: DType) -> Node:
    types = node.get("T")
    if isinstance(types, tuple):
        return node.replace(op=op, attrs={"T": (kind, *types[1:]), "_output_shapes": None})
    return node.replace(op=op, attrs={"T": kind, "_output_shapes": None})


def _true(name: str) -> Node:
    return _scalar(name, dtype_named("bool"), 1)


def _scalar(name: str, kind: DType, value: int) -> Node:
    """A constant of one number; made of its bytes, for which numpy need not be loaded."""
    data = value.to_bytes(kind.itemsize, "little", signed=kind.name != "bool")
    return Node(name, "Const", (), {"dtype": kind, "value": FilledTensor(kind, Shape(()), data)})


def _without_controls(node: Node, gone: set[str]) -> Node:
    kept = tuple(text for text in node.inputs if not (text.startswith("^") and text[1:] in gone))
    return node if len(kept) == len(node.inputs) else node.replace(inputs=kept)


class _Library:
    """Makes the copies of functions in which a resource argument is a tensor, one for each need."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[tuple[str, int, Value, bool], str] = {}
        self.made: dict[str, Function] = {}
        self.dropped: set[str] = set()
        self._depth = 0

    def _function(self, name: str, where: str) -> Function:
        found = self.made.get(name) or self._graph.library.get(name)
        if found is None:
            what = f"it calls {name!r}, which is not in the library"
            raise UnsupportedError(what, where=where, remedy="the file is damaged")
        return found

    def converted_call(self, node: Node, position: int, value: Value, title: str, *, in_loop: bool) -> Node:
        """The call with copies of its functions that take a tensor where they took a variable."""
        where = f"{title}, node {node.name!r}"
        call = CALLS[node.op]
        types_attr, index = call.types, position - call.first
        if index < 0:
            return node
        types = node.attrs[types_attr].dtypes
        if index >= len(types):
            what = f"attribute {types_attr!r} does not say the type of input {position}"
            raise InvalidModelError(what, where=where, remedy=_DAMAGED)
        changes: dict[str, object] = {types_attr: (*types[:index], value.dtype, *types[index + 1 :])}
        in_loop = in_loop or node.op.endswith("While")
        for key in call.functions:
            found = node.attrs[key]
            is_body = found.kind == "func" and key == "body"
            made = tuple(self._converted(func, index, value, where, in_loop, is_body=is_body) for func in found.funcs)
            changes[key] = made[0] if found.kind == "func" else made
        for key in ("output_shapes", "_output_shapes"):  # a loop gives what it takes
            shapes = node.attrs.get(key)
            if node.op.endswith("While") and shapes is not None and shapes.kind == "list(shape)":
                changes[key] = (*shapes.items[:index], value.shape, *shapes.items[index + 1 :])
        return node.replace(attrs=changes)

    def _converted(
        self, func: Func, index: int, value: Value, where: str, in_loop: bool, *, is_body: bool = False
    ) -> Func:
        key = (func.name, index, value, in_loop)
        if key not in self._known:
            name = self._fresh(func.name)
            self._known[key] = name
            if self._depth >= MAX_DEPTH or len(self._known) > MAX_FROZEN_FUNCTIONS:
                what = "functions hand a variable on to each other without end"
                raise LimitError(what, where=where, remedy="do not trust the file")
            self._depth += 1
            self.made[name] = self._convert(self._function(func.name, where), name, index, value, in_loop, is_body)
            self._depth -= 1
        return Func(self._known[key], func.attrs)

    def _fresh(self, name: str) -> str:
        base = name.partition("_frozen_")[0]
        return free_name(f"{base}_frozen_{len(self.made)}", self.made, self._graph.library)

    def _convert(
        self, function: Function, name: str, index: int, value: Value, in_loop: bool, is_body: bool
    ) -> Function:
        parts = function.part.value
        results = parts.signature.outputs if is_body else function.args
        if index >= min(len(function.args), len(results)):
            what = f"it is called with {index + 1} arguments or more, but takes {len(function.args)}"
            raise InvalidModelError(what, where=function.title, remedy=_DAMAGED)
        work = _Work(function, {}, self, in_loop=in_loop)
        work.follow({function.args[index]: value}, set())
        self.dropped |= work.dropped
        nodes = [work.changes.get(node.name, node) for node in function if node.name not in work.dropped]
        nodes = [_without_controls(node, work.dropped) for node in nodes]
        control_ret = {key: node for key, node in parts.control_ret.items() if node not in work.dropped}
        from tfsmith.passes.inline import rename_output, rename_outputs

        nodes = [*rename_outputs(nodes, work.renamed_outputs), *work.added]
        ret = {key: rename_output(text, work.renamed_outputs) for key, text in parts.ret.items()}
        arg_attrs = {number: attrs for number, attrs in parts.arg_attrs.items() if number != index}
        attrs = {key: found for key, found in parts.attrs.items() if key != "_input_shapes"}
        made = FunctionParts(
            _retyped(parts.signature, name, index, value, is_body, tuple(control_ret)),
            tuple(nodes),
            ret,
            control_ret,
            attrs,
            arg_attrs,
        )
        return Function(name, Part.of(made), function.op_def)


def _retyped(
    signature: OpDef, name: str, index: int, value: Value, is_body: bool, control_outputs: tuple[str, ...]
) -> OpDef:
    def retype(args: tuple[ArgDef, ...]) -> tuple[ArgDef, ...]:
        return (*args[:index], ArgDef(args[index].name, value.dtype), *args[index + 1 :])

    return OpDef(
        name,
        retype(signature.inputs),
        retype(signature.outputs) if is_body else signature.outputs,
        signature.attrs,
        control_outputs,
        signature.is_stateful,
        signature.is_commutative,
        signature.is_aggregate,
    )
