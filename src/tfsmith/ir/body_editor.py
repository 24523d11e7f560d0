"""`BodyEditor`: collects changes of the nodes of a graph or function, and checks them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

from tfsmith.errors import InvalidModelError, TfsmithError, UsageError, nearest
from tfsmith.ir.body import BACK_EDGES, NODE_NAME, Body, free_name
from tfsmith.ir.check import attr_problem, find_cycle, input_problems, node_problems, tensor_type
from tfsmith.ir.graph import Function
from tfsmith.ir.node import CONTROL, Attr, Endpoint, Node, attr
from tfsmith.ir.opdef import ArgDef, OpDef, builtin_ops
from tfsmith.ir.tensor import Tensor, make_tensor
from tfsmith.ir.types import UNKNOWN, DType, Shape, as_dtype

__all__ = ["BodyEditor", "Operand", "TensorName", "renamed"]

_SHAPELESS = frozenset({"float", "type", "list(float)", "list(type)"})
"""Attributes of these kinds say nothing about shapes."""
_NameSet: TypeAlias = "set[str]"
"""In the class below, `set` is a method."""


class TensorName(str):
    """The name of a tensor that was added, such as "relu:0", to be used as an input.

    Attributes:
        node: The name of its node.
        outputs: The names of all tensors of that node; of an op that nobody defines, only the first is known.
    """

    node: str
    outputs: tuple[str, ...]

    @staticmethod
    def of(node: str, outputs: Sequence[str]) -> TensorName:
        """The first of some outputs; of a node without any, the name is that of its control output."""
        made = TensorName(outputs[0] if outputs else f"^{node}")
        made.node, made.outputs = node, tuple(outputs)
        return made


Operand: TypeAlias = "str | Node | Endpoint | object"
"""An input: the name of a tensor ("x:0", "x", "^x"), a node (its first output), or values that become a Const."""


class BodyEditor(ABC):
    """Changes the nodes of a graph or of a function; `Editor` and `FunctionEditor` say where."""

    def __init__(self, body: Body, owner: BodyEditor | None) -> None:
        self._owner = owner
        self._before = body
        self._nodes: dict[str, Node] = dict(body.by_name)
        self._places = {name: place for place, name in enumerate(self._nodes)}
        self._next_place = count(len(self._nodes))
        self._body = body
        self._look_at_nodes()
        self._users: dict[str, set[str]] = {}
        for node in self._nodes.values():
            self._note_inputs(node)
        self._touched: set[str] = set()
        self._reshaped: set[str] = set()
        self._names: dict[str, str] = {}  # of nodes that were renamed: what each was called at first

    # Looking

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, name: str) -> Node:
        """The node as it is now; it does not change with later edits."""
        return self._body[name]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._before.title}, {len(self)} nodes>"

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes as they are now: those of the file in its order, then the added ones."""
        return tuple(sorted(self._nodes.values(), key=lambda node: self._places[node.name]))

    def users(self, tensor: Operand) -> tuple[str, ...]:
        """The names of the nodes that take this tensor, or, of "^node", that wait for the node."""
        wanted = self._endpoint(tensor)
        found = self._users.get(wanted.node, ())
        return tuple(name for name in found if any(self._is(text, wanted) for text in self._nodes[name].inputs))

    # Changing

    def add(
        self,
        op: str,
        inputs: Operand | Sequence[Operand] = (),
        /,
        attrs: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        device: str = "",
        custom: bool = False,
        **more: Any,
    ) -> TensorName:
        """Adds a node.

        Args:
            op: Its op.
            inputs: The tensors that it takes, in the order of the op's definition, by name; "^node" to wait for a
                node. A list inside of the list stands for an argument that takes several tensors. Numbers and
                arrays become constants.
            attrs: Attributes. Those that the inputs say (`T`, `N`) or that have a default may be left out.
            name: Its name, which nothing else may have; without it, the op's name, with a number if it is taken.
            device: Where to place it.
            custom: Whether this is an op that TensorFlow does not have and that the model does not define. Nothing
                can be checked then, and all attributes must be there.
            more: Attributes, as keywords.

        Returns:
            The name of its first output, with the others in `outputs`.

        Raises:
            UsageError: There is no such op or attribute, the name is taken, or the inputs do not fit the op.
        """
        self._check_open()
        if not isinstance(op, str):
            raise UsageError(f"{op!r} is no op", remedy='pass the name of one, such as "Relu"')
        definition = self._definition(op, custom)
        full = self._new_name(name, op)
        if attrs is not None and not isinstance(attrs, Mapping):
            raise UsageError("attributes are values by name", where=f"node {full!r}", remedy="pass a dict, or keywords")
        given = self._coerced(op, full, definition, {**(attrs or {}), **more})
        is_one = isinstance(inputs, (str, Node, Endpoint)) or hasattr(inputs, "__array__")
        listed = list(inputs) if isinstance(inputs, Iterable) and not is_one else [inputs]
        waits = [one for one in listed if isinstance(one, str) and one.startswith("^")]
        taken = [one for one in listed if one not in waits] if waits else listed
        if definition is None:
            texts = [self._input(one, full, str(number), None) for number, one in enumerate(taken)]
        else:
            texts = self._typed_inputs(definition, full, taken, given)
        node = Node(full, op, (*texts, *(self._text(self._endpoint(one)) for one in waits)), given, device)
        self._put(node, next(self._next_place))
        return self._outputs(node, definition)

    def const(self, value: Any, *, name: str | None = None, dtype: Any = None) -> TensorName:
        """Adds a Const.

        Args:
            value: An array, which is copied, a tensor, or plain values: numbers are int32 or float32.
            name: Its name; without it, "Const", with a number if that is taken.
            dtype: Another dtype for plain values, such as "int64".
        """
        kind = None if dtype is None else as_dtype(dtype)
        tensor: Tensor = value if hasattr(value, "parts") else make_tensor(value, kind)
        return self.add("Const", (), {"value": tensor, "dtype": tensor.dtype}, name=name)

    def placeholder(self, dtype: Any, shape: Any = None, *, name: str | None = None) -> TensorName:
        """Adds a Placeholder.

        Args:
            dtype: Its dtype, such as "float32".
            shape: Its shape, such as `(None, 20)`; None if even the number of dimensions is open.
            name: Its name; without it, "Placeholder", with a number if that is taken.
        """
        return self.add("Placeholder", (), {"dtype": dtype, "shape": shape}, name=name)

    def rename(self, old: str, new: str) -> None:
        """Gives a node another name, here and wherever it is named: inputs, signatures, collections, saver.

        Raises:
            NotFoundInModelError: There is no such node.
            UsageError: The new name is taken, or no node can have it.
        """
        self._check_open()
        node = self._node(old)
        if old == new:
            return
        self._check_name(new)
        place = self._places.pop(old)
        self._drop(node)
        self._touched.discard(old)
        self._put(node.replace(name=new), place)
        for name in sorted(self._users.get(old, ())):
            user = self._nodes[name]
            self._put(user.replace(inputs=tuple(renamed(text, old, new) for text in user.inputs)))
        self._reshaped = {new if name == old else name for name in self._reshaped}
        self._names[new] = self._names.pop(old, old)
        self._rename_ends(old, new)

    def rewire(self, old: Operand, new: Operand, *, only: Iterable[str] | None = None, signatures: bool = False) -> int:
        """Lets the users of one tensor take another one.

        Users that the new tensor itself needs keep the old one: to put a node behind `x`, add it with the input `x`
        and rewire `x` to it.

        Args:
            old: The tensor, such as "x:0", or "^x" for those that wait for a node.
            new: The other one.
            only: Only these users, by name.
            signatures: Whether signatures that give the old tensor, and a function's results, give the new one too.

        Returns:
            How many inputs and results changed.

        Raises:
            UsageError: Nothing takes the old tensor.
        """
        self._check_open()
        source, target = self._endpoint(old), self._endpoint(new)
        if (source.output == CONTROL) != (target.output == CONTROL):
            what = f"{source} and {target}: one is a tensor, the other waits for a node"
            raise UsageError(what, remedy="rewire a tensor to a tensor, or ^node to ^node")
        self._node(source.node)
        text = self._text(target)
        needed = self._needed_by(target.node, until=source.node)
        listed = None if only is None else set(map(self._named, [only] if isinstance(only, str) else only))
        keeps_shape = self._shape(target).dims is not None and self._shape(source) == self._shape(target)
        changed = 0
        for name in self.users(source):
            if name in needed or (listed is not None and name not in listed):
                continue
            node = self._nodes[name]
            hits = [self._is(one, source) for one in node.inputs]
            inputs = (text if hit else one for hit, one in zip(hits, node.inputs, strict=True))
            self._put(node.replace(inputs=tuple(dict.fromkeys(inputs) if source.output == CONTROL else inputs)))
            changed += sum(hits)
            if source.output != CONTROL and not keeps_shape:
                self._reshaped.add(name)
        if signatures:
            changed += self._rewire_ends(source, target)
        if not changed:
            remedy = "check its name" if signatures else "check its name; for what signatures give pass signatures=True"
            raise UsageError(f"nothing takes {str(source)!r}", remedy=remedy)
        return changed

    def remove(self, *nodes: str | Node | Iterable[str | Node]) -> None:
        """Removes nodes. What still takes their tensors when the block ends is an error.

        Raises:
            NotFoundInModelError: There is no such node.
        """
        self._check_open()
        for name in [name for one in nodes for name in self._listed(one)]:
            self._take_out(self._node(name))

    def _take_out(self, node: Node) -> None:
        self._places.pop(node.name)
        self._drop(node)
        self._touched.discard(node.name)
        self._reshaped.discard(node.name)

    def prune(self, *tensors: Operand) -> int:
        """Removes all nodes that these tensors do not need; returns how many."""
        self._check_open()
        needed: set[str] = set()
        for one in tensors:
            needed |= self._needed_by(self._node(self._endpoint(one).node).name, through=True)
        gone = [name for name in self._nodes if name not in needed]
        self.remove(gone)
        return len(gone)

    def remove_unused(self, *nodes: str | Node, keep: Container[str] = ()) -> int:
        """Removes nodes that no other node takes, and then what only they needed; returns how many.

        Placeholders and nodes with a state stay, and so do those in `keep`; the nodes of signatures must be there.
        """
        self._check_open()
        todo = [self._named(node) for node in nodes]
        gone = 0
        while todo:
            name = todo.pop()
            node = self._nodes.get(name)
            if node is None or name in keep or self._users.get(name) or self._is_source(node):
                continue
            todo += [self._body.source(text) for text in node.inputs]
            self._take_out(node)
            gone += 1
        return gone

    def _is_source(self, node: Node) -> bool:
        definition = self._body.op_def(node.op)
        return node.op == "Placeholder" or definition is None or definition.is_stateful

    def set(self, node: str | Node, attrs: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Sets attributes of a node; None drops one.

        Args:
            node: The node.
            attrs: Values by name. The definition of the op says what they are: "float32" is a type, `(1, None)` a
                shape and an array a tensor where the op wants one.
            more: The same, as keywords.

        Raises:
            NotFoundInModelError: There is no such node.
            UsageError: The op has no such attribute, or the value is of another kind.
        """
        self._check_open()
        found = self._node(self._named(node))
        if attrs is not None and not isinstance(attrs, Mapping):
            raise UsageError(
                "attributes are values by name", where=f"node {found.name!r}", remedy="pass a dict, or keywords"
            )
        values = {**(attrs or {}), **more}
        if found.op == "Const" and isinstance(values.get("value"), (int, float, bool, str, bytes, list, tuple)):
            kind = found.dtype("dtype")
            values["value"] = make_tensor(values["value"], kind if kind != "string" else None)
        dropped = {name: None for name, value in values.items() if value is None and not self._may_be_none(found, name)}
        given = {name: value for name, value in values.items() if name not in dropped}
        definition = self._body.op_def(found.op)
        new = self._coerced(found.op, found.name, definition, given, found.attrs)
        changes = {**dropped, **{name: one for name, one in new.items() if found.attrs.get(name) != one}}
        if not changes:
            return
        self._put(found.replace(attrs=changes))
        if any(
            not name.startswith("_") and (one is None or one.kind not in _SHAPELESS) for name, one in changes.items()
        ):
            self._reshaped.add(found.name)

    # What a graph and a function do in their own ways

    @abstractmethod
    def _look_at_nodes(self) -> None:
        """Makes a view of the body that has the nodes as they are now."""

    def _text(self, endpoint: Endpoint) -> str:
        """How an input spells a tensor in this body."""
        return _graph_text(endpoint)

    @abstractmethod
    def _rename_ends(self, old: str, new: str) -> None:
        """Renames a node where results are named."""

    @abstractmethod
    def _rewire_ends(self, source: Endpoint, target: Endpoint) -> int:
        """Lets results that are one tensor be another one; returns how many."""

    # Below

    @property
    def _is_changed(self) -> bool:
        return bool(self._touched) or len(self._nodes) != len(self._before)

    def _check_open(self) -> None:
        (self._owner or self)._check_open()

    def _node(self, name: str) -> Node:
        return self._body[name]

    def _named(self, node: str | Node | object) -> str:
        """The name of a node that is given by name, by a tensor of its, or as it was read."""
        return node.name if isinstance(node, Node) else self._endpoint(node).node

    def _listed(self, nodes: Any) -> list[str]:
        if isinstance(nodes, (str, Node)):
            return [self._named(nodes)]
        if not isinstance(nodes, Iterable):
            raise UsageError(f"{nodes!r} is no node", remedy='pass its name, such as "x"')
        return [self._named(one) for one in nodes]

    def _endpoint(self, tensor: Operand) -> Endpoint:
        if isinstance(tensor, Endpoint):
            return tensor
        if isinstance(tensor, Node):
            return Endpoint(tensor.name, 0)
        if not isinstance(tensor, str):
            raise UsageError(f"{tensor!r} is no name of a tensor", remedy='pass a name such as "x:0"')
        return self._body.resolve(tensor)

    def _is(self, text: str, wanted: Endpoint) -> bool:
        return self._body.source(text) == wanted.node and self._body.resolve(text) == wanted

    def _put(self, node: Node, place: int | None = None) -> None:
        """Puts a node in the place of the one with its name, or adds it."""
        old = self._nodes.get(node.name)
        if old is not None:
            self._forget_inputs(old)
        if place is not None:
            self._places[node.name] = place
        self._nodes[node.name] = node
        self._note_inputs(node)
        self._touched.add(node.name)

    def _drop(self, node: Node) -> None:
        self._forget_inputs(node)
        del self._nodes[node.name]

    def _note_inputs(self, node: Node) -> None:
        for text in node.inputs:
            self._users.setdefault(self._body.source(text), set()).add(node.name)

    def _forget_inputs(self, node: Node) -> None:
        for text in node.inputs:
            self._users[self._body.source(text)].discard(node.name)

    def _new_name(self, name: str | None, op: str) -> str:
        if name is None:
            return free_name(op, self._nodes, self._body.args)
        self._check_name(name)
        return name

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str) or NODE_NAME.fullmatch(name) is None:
            remedy = "use letters, digits and _ . - / after a letter or digit"
            raise UsageError(f"no node can be called {name!r}", remedy=remedy)
        if name in self._nodes or name in self._body.args:
            free = free_name(name, self._nodes, self._body.args)
            raise UsageError(
                f"{self._before.title} has a node {name!r} already", remedy=f"choose another, such as {free}"
            )

    def _definition(self, op: str, custom: bool) -> OpDef | None:
        found = self._body.op_def(op)
        if found is None and not custom:
            near = nearest(op, builtin_ops())
            hint = f"the nearest are {', '.join(near)}; " if near else ""
            raise UsageError(f"there is no op {op!r}", remedy=f"{hint}for an op of your own pass custom=True")
        return found

    def _coerced(
        self,
        op: str,
        name: str,
        definition: OpDef | None,
        values: Mapping[str, Any],
        before: Mapping[str, Attr] | None = None,
    ) -> dict[str, Attr]:
        """Values as the attributes that the op's definition says they are."""
        known = {} if definition is None else {one.name: one for one in definition.attrs}
        result: dict[str, Attr] = {}
        for key, value in values.items():
            free = definition is None or key.startswith("_")
            now = (before or {}).get(key)
            kind = known[key].kind if key in known else now.kind if now is not None else None
            try:
                made = attr(value, kind if kind not in ("none", "list", "placeholder") else None)
            except TfsmithError as error:
                what = f"attribute {key!r} cannot be set: {error.what}"
                raise UsageError(what, where=f"node {name!r}", remedy=error.remedy) from error
            problem = None if free else attr_problem(known.get(key), key, made, in_function=bool(self._owner))
            if problem is not None:
                there = (
                    f"its attributes are: {', '.join(known) or 'none'}" if key not in known else "pass another value"
                )
                raise UsageError(f"op {op}: {problem}", where=f"node {name!r}", remedy=there)
            result[key] = made
        return result

    def _may_be_none(self, node: Node, key: str) -> bool:
        """Whether None is a value of this attribute: the shape of which nothing is known."""
        definition = self._body.op_def(node.op)
        return definition is not None and any(one.name == key and one.kind == "shape" for one in definition.attrs)

    def _typed_inputs(self, definition: OpDef, name: str, inputs: list[Operand], given: dict[str, Attr]) -> list[str]:
        """The texts of the inputs; adds to `given` the attributes that they and the definition's defaults say."""
        groups = _grouped(definition, name, inputs, given)
        pairs = list(zip(definition.inputs, groups, strict=True))
        types = {key: one.dtype for key, one in given.items() if one.dtype is not None}
        for arg, group in pairs:
            known = (
                tensor_type(self._body, self._named_text(one))
                for one in group
                if isinstance(one, (str, Node, Endpoint))
            )
            found = next((kind.base for kind in known if kind is not None), None) if arg.type_attr else None
            if found is not None:
                types.setdefault(arg.type_attr, found)
        defaults = {one.name: one.default for one in definition.attrs if one.default is not None}
        texts: list[str] = []
        for arg, group in pairs:
            wanted = arg.type or types.get(arg.type_attr)
            if wanted is None and arg.type_attr in defaults:
                wanted = defaults[arg.type_attr].dtype
            labels = [arg.name if len(group) == 1 else f"{arg.name}_{number}" for number in range(len(group))]
            made = [self._input(one, name, label, wanted) for one, label in zip(group, labels, strict=True)]
            found_types = [tensor_type(self._body, text) for text in made]
            texts += made
            for key, value in _said(arg, found_types).items():
                given.setdefault(key, value)
        for key, default in defaults.items():
            given.setdefault(key, default)
        return texts

    def _named_text(self, tensor: Operand) -> str:
        return self._text(self._endpoint(tensor))

    def _input(self, one: Operand, node: str, label: str, kind: DType | None) -> str:
        """An input's text; values become a Const beside the node."""
        if isinstance(one, (str, Node, Endpoint)):
            return self._named_text(one)
        if not hasattr(one, "parts"):
            one = make_tensor(one, kind if kind is not None and not hasattr(one, "dtype") else None)
        made = self.const(one, name=free_name(f"{node}/{label}", self._nodes, self._body.args))
        return self._named_text(str(made))

    def _outputs(self, node: Node, definition: OpDef | None) -> TensorName:
        try:
            total = 1 if definition is None else definition.output_count(node.attrs)
        except InvalidModelError:
            total = 1
        return TensorName.of(node.name, [f"{node.name}:{number}" for number in range(total)])

    def _needed_by(self, name: str, *, through: bool = False, until: str | None = None) -> _NameSet:
        """The names of all nodes that a node needs, itself included.

        Args:
            name: The node.
            through: Whether to follow the back edges of loops.
            until: A node beyond which nothing is wanted.
        """
        seen: set[str] = set()
        todo = [name]
        while todo:
            one = todo.pop()
            node = self._nodes.get(one)
            if one in seen or node is None or (node.op in BACK_EDGES and not through and one != name):
                continue
            seen.add(one)
            if one != until:
                todo += map(self._body.source, node.inputs)
        return seen

    def _shape(self, endpoint: Endpoint) -> Shape:
        """The shape of a tensor as far as its node's own attributes say it."""
        node = self._nodes.get(endpoint.node)
        noted = None if node is None else node.get("_output_shapes")
        found = noted[endpoint.output] if isinstance(noted, tuple) and 0 <= endpoint.output < len(noted) else None
        if node is not None and found is None and node.op.startswith("Placeholder"):
            found = node.get("shape")
        value = node.get("value") if node is not None and node.op == "Const" else None
        if found is None and value is not None:
            found = value.shape
        return found if isinstance(found, Shape) else UNKNOWN

    # The end

    def _finish(self) -> None:
        """Drops what no longer holds, then checks all that changed."""
        self._forget_shapes()
        if not self._is_changed:
            return
        self._keep_places()
        self._check()

    def _forget_shapes(self) -> None:
        """Drops the shapes noted at nodes behind a change: TensorFlow refuses those that are not what it infers."""
        todo, seen = list(self._reshaped), set[str]()
        while todo:
            name = todo.pop()
            if name in seen or name not in self._nodes:
                continue
            seen.add(name)
            if self._nodes[name].peek("_output_shapes") is not None:
                self._put(self._nodes[name].replace(attrs={"_output_shapes": None}))
            todo += self._users.get(name, ())

    def _keep_places(self) -> None:
        """Lets wishes to share a device with a node follow its name, and drops those that lead to none."""
        now = {before: name for name, before in self._names.items()}
        gone = {name for name in self._before.by_name if name not in self._nodes} | now.keys()
        if not gone:
            return
        for node in list(self._nodes.values()):
            wishes = node.colocated
            if not any(name in gone for name in wishes):
                continue
            names = (now.get(name, name if name in self._nodes else None) for name in wishes)
            self._put(node.colocate(name for name in names if name is not None))

    def _check(self) -> None:
        missing = [name for name in self._before.by_name if name not in self._nodes]
        looked = [*self._touched, *(user for name in missing for user in self._users.get(name, ()))]
        for name in dict.fromkeys(looked):
            node = self._nodes[name]
            for text in node.inputs:
                source = self._body.source(text)
                if source not in self._nodes and source not in self._body.args:
                    raise self._dangling(node, source)
            for problem in input_problems(self._body, node):
                raise self._refusal(problem, node, "the outputs of a node are numbered from 0")
        self._check_cycle()
        behind = {user for name in self._touched for user in self._users.get(name, ())}
        for name in sorted(self._touched | behind, key=self._places.__getitem__):
            node = self._nodes[name]
            old = self._before.by_name.get(self._names.get(name, name))
            known = () if old is None else tuple(node_problems(self._before, old))  # what its file has wrong already
            for problem in node_problems(self._body, node):
                if problem not in known:
                    raise self._refusal(f"op {node.op}: {problem}", node, _remedy(problem))
            for key, value in node.attrs.items() if name in self._touched else ():
                self._check_functions(node, key, value)

    def _check_cycle(self) -> None:
        cycle = find_cycle(self._body)
        if cycle:
            shown = " <- ".join([*cycle[:4], *(["..."] if len(cycle) > 4 else []), cycle[0]])
            raise self._refusal(f"its inputs lead back to itself: {shown}", self._nodes[cycle[0]], "rewire one of them")

    def _check_functions(self, node: Node, key: str, value: Attr) -> None:
        library = self._library()
        for func in value.funcs:
            if func.name and func.name not in library:
                near = nearest(func.name, library) or list(library)[:3]
                remedy = f"the functions are: {', '.join(near)}" if near else "the graph has no functions"
                raise self._refusal(f"attribute {key!r} calls function {func.name!r}, which is not there", node, remedy)

    @abstractmethod
    def _library(self) -> Mapping[str, Function]:
        """The functions that attributes may name."""

    def _dangling(self, node: Node, source: str) -> InvalidModelError:
        near = [] if source in self._before else nearest(source, self._nodes)
        remedy = f"the nearest names are {', '.join(near)}" if near else "rewire what takes it, or remove that too"
        return self._refusal(f"it takes {source!r}, which is not in {self._before.title}", node, remedy)

    def _refusal(self, what: str, node: Node, remedy: str) -> InvalidModelError:
        return InvalidModelError(what, where=f"{self._before.title}, node {node.name!r}", remedy=remedy)


def _graph_text(endpoint: Endpoint) -> str:
    return endpoint.node if endpoint.output == 0 else str(endpoint)


def renamed(text: str, old: str, new: str) -> str:
    """An input, or the name of a tensor, in which a node has another name."""
    mark = "^" if text.startswith("^") else ""
    name, colon, rest = text.removeprefix("^").partition(":")
    return f"{mark}{new}{colon}{rest}" if name == old else text


def _grouped(definition: OpDef, name: str, inputs: list[Operand], given: Mapping[str, Attr]) -> list[list[Operand]]:
    """The inputs of each argument: as lists in the list say it, else as the attributes do."""
    args = definition.inputs
    several = [bool(arg.number_attr or arg.type_list_attr) for arg in args]
    nested = [isinstance(one, (list, tuple)) and not isinstance(one, Endpoint) for one in inputs]
    if len(inputs) == len(args) and all(is_list for many, is_list in zip(several, nested, strict=True) if many):
        return [list(one) if many else [one] for one, many in zip(inputs, several, strict=True)]  # type: ignore[call-overload]
    counts = [_count(arg, given) for arg in args]
    left = len(inputs) - sum(one for one in counts if one is not None)
    names = ", ".join(arg.name for arg in args) or "none"
    if counts.count(None) > 1:
        what = f"op {definition.name} takes several lists of tensors"
        raise UsageError(what, where=f"node {name!r}", remedy=f"pass a list for each of its inputs: {names}")
    if left < 0 or (left and None not in counts):
        what = f"op {definition.name} does not take {len(inputs)} input{'s' * (len(inputs) != 1)}"
        raise UsageError(what, where=f"node {name!r}", remedy=f"its inputs are: {names}")
    groups, at = list[list[Operand]](), 0
    for one in counts:
        size = left if one is None else one
        groups.append(inputs[at : at + size])
        at += size
    return groups


def _count(arg: ArgDef, given: Mapping[str, Attr]) -> int | None:
    try:
        return arg.count(given)
    except InvalidModelError:
        return None


def _said(arg: ArgDef, types: Sequence[DType | None]) -> dict[str, Attr]:
    """The attributes that the inputs of one argument say."""
    found: dict[str, Attr] = {}
    known = [kind.base for kind in types if kind is not None]
    if arg.type_attr and known:
        found[arg.type_attr] = attr(known[0])
    if arg.number_attr:
        found[arg.number_attr] = attr(len(types))
    if arg.type_list_attr and len(known) == len(types):
        found[arg.type_list_attr] = attr(tuple(known))
    return found


def _remedy(problem: str) -> str:
    if problem.startswith("input "):
        return "put a Cast before it, or take another tensor"
    return "set its attributes with g.set" if "attribute" in problem else "add it again with other inputs"
