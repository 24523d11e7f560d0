"""`GraphBuilder`: makes graphs node by node, as TensorFlow 1's Python does, with the same names and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tfsmith.errors import UsageError
from tfsmith.ir.body import FreeNames
from tfsmith.ir.check import attrs_problems, type_problems
from tfsmith.ir.graph import Graph, Versions
from tfsmith.ir.model import Collection
from tfsmith.ir.node import Attr, Node, attr
from tfsmith.ir.opdef import ArgDef, OpDef, builtin_op
from tfsmith.ir.tensor import FilledTensor, Tensor, make_tensor
from tfsmith.ir.types import DType, Shape, reference_to
from tfsmith.ops.shapes import infer
from tfsmith.ops.sizes import Conflict
from tfsmith.testing.values import (
    INT32,
    Operation,
    Output,
)
from tfsmith.testing.variables import Initializer, Kind, Values, Variable, make_variable

__all__ = [
    "Names",
    "GRAPH_VERSION",
    "GraphBuilder",
    "Operand",
]


class Names:
    """Hands out names. The first call for "add" gets it, the next "add_1"; letter case does not count.

    Attributes:
        scope: The scope that is open, such as "bert/encoder"; "" outside of all.
    """

    def __init__(self) -> None:
        self.scope = ""
        self._taken = FreeNames()

    def unique(self, name: str) -> str:
        """A full name in the open scope that nothing has yet."""
        full = f"{self.scope}/{name}" if self.scope else name
        return full + self._taken.take(full.lower())[len(full) :]

    @contextmanager
    def enter(self, name: str) -> Iterator[str]:
        """Opens a scope: a new one inside the open one, or, for a name that ends in "/", exactly that one.

        Gives its full name with "/" at the end; a node of that very name can then be added (see `GraphBuilder.node`).
        """
        before = self.scope
        self.scope = name[:-1] if name.endswith("/") else self.unique(name)
        try:
            yield f"{self.scope}/"
        finally:
            self.scope = before

    @contextmanager
    def at_root(self) -> Iterator[None]:
        """Leaves all scopes for a while."""
        before, self.scope = self.scope, ""
        try:
            yield
        finally:
            self.scope = before


GRAPH_VERSION = 2474
"""The producer version of TensorFlow 2.21, the release that the op database comes from."""

Operand = Any
"""What a node can take: an `Output`, a `Variable`, a number, a string, or a (nested) list of these."""


class _Draft:
    """A node that may still get attributes."""

    __slots__ = ("attrs", "device", "inputs", "name", "op", "outputs")

    def __init__(self, name: str, op: str, inputs: tuple[str, ...], attrs: dict[str, Attr], device: str) -> None:
        self.name, self.op, self.inputs, self.attrs, self.device = name, op, inputs, attrs, device
        self.outputs: tuple[Output, ...] = ()


class _Controller:
    """A block whose nodes wait for others."""

    __slots__ = ("inside", "waits_for")

    def __init__(self, waits_for: tuple[str, ...]) -> None:
        self.waits_for = waits_for
        self.inside: set[str] = set()


class GraphBuilder:
    """Makes a graph.

    Args:
        variables: What `variable` makes: "ref" (VariableV2, TensorFlow 1's own) or "resource" (VarHandleOp).

    Attributes:
        names: Gives names.
        values: The values of the variables, by name, in order of creation.
        collections: The collections, by key.
    """

    def __init__(self, variables: Kind = "ref") -> None:
        self.variable_kind: Kind = variables
        self.names = Names()
        self.values: dict[str, Tensor] = {}
        self.variables: list[Variable] = []
        self.collections: dict[str, list[str | bytes]] = {}
        self._drafts: dict[str, _Draft] = {}
        self._variable_scope = ""
        self._attr_scope: dict[str, Attr] = {}
        self._controllers: list[_Controller] = []
        self._device = ""

    # Blocks

    def name_scope(self, name: str) -> AbstractContextManager[str]:
        """Opens a name scope; see `Names.enter`."""
        return self.names.enter(name)

    @contextmanager
    def variable_scope(self, name: str) -> Iterator[str]:
        """Opens a scope for variables, and a name scope of the same name for nodes; returns the latter."""
        before = self._variable_scope
        self._variable_scope = f"{before}/{name}" if before else name
        try:
            with self.name_scope(name) as scope:
                yield scope
        finally:
            self._variable_scope = before

    @contextmanager
    def control_dependencies(self, names: Iterable[str]) -> Iterator[None]:
        """Nodes made in this block wait for these, unless an input of theirs does so already."""
        controller = _Controller(tuple(names))
        for name in controller.waits_for:
            self._drafts[name].attrs["_has_manual_control_dependencies"] = attr(True)
        self._controllers.append(controller)
        try:
            yield
        finally:
            self._controllers.remove(controller)

    @contextmanager
    def device(self, device: str) -> Iterator[None]:
        """Nodes made in this block are placed on a device."""
        before, self._device = self._device, device
        try:
            yield
        finally:
            self._device = before

    @contextmanager
    def colocated_with(self, name: str) -> Iterator[None]:
        """Nodes made in this block carry the mark that they belong to another's device."""
        before, self._attr_scope = self._attr_scope, {"_class": attr([f"loc:@{name}"])}
        try:
            yield
        finally:
            self._attr_scope = before

    @contextmanager
    def detached(self) -> Iterator[None]:
        """Leaves all scopes and control dependencies: variables are made outside of them."""
        controllers, self._controllers = self._controllers, []
        try:
            with self.names.at_root():
                yield
        finally:
            self._controllers = controllers

    # Nodes

    def node(
        self, op: str, inputs: Sequence[Operand] = (), attrs: Mapping[str, Any] | None = None, name: str | None = None
    ) -> Operation:
        """Adds a node; attributes that follow from inputs or defaults are filled in, as TensorFlow does.

        Args:
            op: The op.
            inputs: One for each input of the op's definition; a list where that takes several tensors. What is no
                tensor yet becomes a Const inside the node's scope, named after the input.
            attrs: Attributes, as plain values.
            name: Its name, made unique; the op's name by default. With "/" at the end, it is the full name of a
                scope that was opened for it.

        Raises:
            UsageError: The op's definition does not allow it.
        """
        definition = builtin_op(op)
        if definition is None:
            raise UsageError(f"TensorFlow has no op {op!r}", remedy="check its name")
        if len(inputs) != len(definition.inputs):
            what = f"{op} takes {len(definition.inputs)} inputs, not {len(inputs)}"
            raise UsageError(what, remedy="give one for each input of its definition, lists where it takes several")
        given = {key: attr(value) for key, value in (attrs or {}).items()}
        with self.name_scope(name or op) as scope:
            types = _known_types(definition, inputs, given)
            groups = [self._group(arg, value, types) for arg, value in zip(definition.inputs, inputs, strict=True)]
        return self._add(definition, scope[:-1], groups, given)

    def const(
        self, value: Any, dtype: DType | None = None, name: str = "Const", shape: Sequence[int] | None = None
    ) -> Output:
        """Adds a Const. With `shape`, one value fills it."""
        tensor = make_tensor(value, dtype)
        if shape is not None:
            tensor = FilledTensor(tensor.dtype, Shape(tuple(shape)), tensor.numpy().tobytes())
        return self.node("Const", (), {"value": tensor, "dtype": tensor.dtype}, name).out

    def placeholder(self, dtype: DType, dims: Sequence[int | None], name: str) -> Output:
        """Adds a Placeholder."""
        return self.node("Placeholder", (), {"dtype": dtype, "shape": Shape.of(dims)}, name).out

    def variable(
        self,
        name: str,
        initializer: Initializer | Output,
        values: Values,
        *,
        trainable: bool = True,
        collections: Sequence[str] = (),
        aggregation: int = 0,
    ) -> Variable:
        """Adds a variable in the open variable scope, as `tf.get_variable` does.

        Args:
            name: Its name.
            initializer: What gives it its first value.
            values: Gives, for its full name, the values that a checkpoint has for it; they say its dtype and shape.
            trainable: Whether it is in the collection of those.
            collections: Further collections.
            aggregation: How replicas' copies are joined, by its number in `VariableAggregation`.
        """
        full = f"{self._variable_scope}/{name}" if self._variable_scope else name
        tensor = self.values[full] = values(full)
        made = make_variable(self, full, initializer, tensor, trainable=trainable, aggregation=aggregation)
        self.variables.append(made)
        for key in ("variables", *(["trainable_variables"] if trainable else []), *collections):
            self.collections.setdefault(key, []).append(made.definition())
        return made

    def tensor(self, value: Operand, dtype: DType | None = None, name: str = "Const") -> Output:
        """Makes a tensor of anything: reads a variable, makes a Const of a value, packs a list with tensors in it."""
        if isinstance(value, Output):
            return value
        if isinstance(value, Variable):
            return self.read(value)
        if isinstance(value, (list, tuple)) and any(isinstance(item, Output) for item in value):
            with self.name_scope(name) as scope:
                parts = [self.tensor(item, dtype or INT32, str(number)) for number, item in enumerate(value)]
            return self.node("Pack", [parts], {}, scope).out
        return self.const(value, dtype, name)

    def read(self, variable: Variable) -> Output:
        """A variable's value: its one `/read`, or, of a resource, a new ReadVariableOp in the open scope."""
        if variable.kind == "ref":
            return variable.snapshot
        return self.node("ReadVariableOp", [variable.handle], {"dtype": variable.dtype}).out

    def group(self, names: Sequence[str], name: str) -> Operation:
        """Adds a NoOp that waits for these nodes."""
        with self.control_dependencies(names):
            return self.node("NoOp", name=name)

    def add_to_collection(self, key: str, output: Output) -> None:
        """Puts a tensor into a collection."""
        self.collections.setdefault(key, []).append(output.tensor_name)

    # Results

    def graph(self, *, output_shapes: bool = True) -> Graph:
        """The graph so far.

        Args:
            output_shapes: Whether nodes carry `_output_shapes`, as in the files that TensorFlow's Saver,
                SavedModelBuilder and Estimator write.
        """
        nodes = []
        for draft in self._drafts.values():
            attrs = dict(draft.attrs)
            if output_shapes and draft.outputs:
                attrs["_output_shapes"] = attr([output.shape for output in draft.outputs])
            nodes.append(Node(draft.name, draft.op, draft.inputs, attrs, draft.device))
        return Graph(tuple(nodes), Versions(GRAPH_VERSION))

    def all_collections(self) -> dict[str, Collection]:
        """The collections: names of tensors, or serialized definitions of variables."""
        found: dict[str, Collection] = {}
        for key, values in self.collections.items():
            found[key] = Collection("bytes" if isinstance(values[0], bytes) else "node", tuple(values))
        return found

    def ops_used(self) -> dict[str, OpDef]:
        """The definitions of the ops that the graph uses, by name."""
        names = sorted({draft.op for draft in self._drafts.values()})
        return {name: definition for name in names if (definition := builtin_op(name)) is not None}

    # Inside

    def _group(self, arg: ArgDef, value: Operand, types: Mapping[str, DType]) -> tuple[Output, ...]:
        """The tensors of one input of the op's definition."""
        kind = arg.type or types.get(arg.type_attr)
        if arg.number_attr or arg.type_list_attr:
            return tuple(self.tensor(item, kind, f"{arg.name}_{number}") for number, item in enumerate(value))
        if arg.is_ref or (arg.type is not None and arg.type.name == "resource"):
            return (value.handle if isinstance(value, Variable) else value,)
        return (self.tensor(value, kind, arg.name),)

    def _add(
        self, definition: OpDef, name: str, groups: Sequence[tuple[Output, ...]], given: dict[str, Attr]
    ) -> Operation:
        attrs = {one.name: one.default for one in definition.attrs if one.default is not None}
        for arg, group in zip(definition.inputs, groups, strict=True):
            attrs |= _attrs_told_by(arg, group)
        attrs |= given
        inputs = [output for group in groups for output in group]
        problems = attrs_problems(definition, attrs, complete=True)
        for problem in (*problems, *type_problems(definition, attrs, [one.dtype for one in inputs])):
            raise UsageError(problem, where=f"node {name!r} ({definition.name})", remedy="check the call")
        if name in self._drafts:
            raise UsageError("there is such a node already", where=f"node {name!r}", remedy="choose another name")
        texts = tuple(one.text for one in inputs) + self._waits(name, {one.node for one in inputs})
        draft = _Draft(name, definition.name, texts, attrs | self._attr_scope, self._device)
        types = _types_given(definition, attrs)
        try:
            known = infer(definition.name, [one.known for one in inputs], attrs, len(types))
        except Conflict as conflict:
            where = f"node {name!r} ({definition.name})"
            raise UsageError(str(conflict), where=where, remedy="check the shapes") from conflict
        pairs = enumerate(zip(types, known, strict=True))
        draft.outputs = tuple(Output(name, number, kind, inferred) for number, (kind, inferred) in pairs)
        self._drafts[name] = draft
        return Operation(name, draft.outputs)

    def _waits(self, name: str, inputs: set[str]) -> tuple[str, ...]:
        """The control inputs of a new node, sorted as TensorFlow writes them."""
        waits: set[str] = set()
        for controller in self._controllers:
            if not controller.inside & inputs:
                waits.update(controller.waits_for)
            controller.inside.add(name)
        return tuple(f"^{one}" for one in sorted(waits - inputs))


def _known_types(definition: OpDef, inputs: Sequence[Operand], given: Mapping[str, Attr]) -> dict[str, DType]:
    """The dtypes that attributes and those inputs that are tensors already give to type attributes."""
    defaults = {one.name: one.default.dtype for one in definition.attrs if one.default is not None}
    types = {name: kind for name, kind in defaults.items() if kind is not None}
    for arg, value in zip(definition.inputs, inputs, strict=True):
        if arg.type_attr and not arg.number_attr and isinstance(value, (Output, Variable)):
            types[arg.type_attr] = value.dtype.base
    return types | {name: value.dtype for name, value in given.items() if value.dtype is not None}


def _attrs_told_by(arg: ArgDef, group: Sequence[Output]) -> dict[str, Attr]:
    told: dict[str, Attr] = {}
    if arg.type_attr and group:
        told[arg.type_attr] = attr(group[0].dtype.base)
    if arg.number_attr:
        told[arg.number_attr] = attr(len(group))
    if arg.type_list_attr:
        told[arg.type_list_attr] = attr([one.dtype.base for one in group])
    return told


def _types_given(definition: OpDef, attrs: Mapping[str, Attr]) -> tuple[DType, ...]:
    types = [(arg.is_ref, kind) for arg in definition.outputs for kind in arg.types(attrs)]
    return tuple(reference_to(kind) if is_ref else kind for is_ref, kind in types if kind is not None)
