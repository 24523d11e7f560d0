"""`Function`: a named body with arguments and results, as TensorFlow 2 keeps its models in; and `Library`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfsmith.errors import InvalidModelError, TfsmithError
from tfsmith.ir.attr import Attr
from tfsmith.ir.body import Body, Part
from tfsmith.ir.node import CONTROL, Endpoint, Node, is_index
from tfsmith.ir.op_database import OpLookup, builtin_op
from tfsmith.ir.opdef import OpDef
from tfsmith.records import FrozenDict, Immutable, field, record
from tfsmith.storage.span import Span

__all__ = ["Function", "FunctionParts", "Library"]


@record
class FunctionParts(Immutable):
    """What a function consists of.

    Attributes:
        signature: Its name, arguments and results.
        nodes: Its body.
        ret: For each result, the tensor in the body that gives it, such as "add:z:0".
        control_ret: For each control output, the node that must run.
        attrs: Its own attributes, such as "_input_shapes".
        arg_attrs: Attributes of arguments, by number.
    """

    signature: OpDef
    nodes: tuple[Node, ...]
    ret: Mapping[str, str]
    control_ret: Mapping[str, str] = field(default_factory=dict)
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    arg_attrs: Mapping[int, Mapping[str, Attr]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("ret", "control_ret", "attrs", "arg_attrs"):
            value = getattr(self, name)
            if not isinstance(value, Immutable):
                object.__setattr__(self, name, FrozenDict(value))


class Function(Body):
    """A function. Inputs are written "argument", "node:output_arg:index" or "^node".

    Attributes:
        name: Its name; known without decoding the rest.
        part: Everything else, decoded on first use.
        base: The bytes that it was edited from, when its nodes or returns were replaced.
        op_def: Finds the definition of an op by name, or None.
    """

    name: str
    part: Part[FunctionParts]
    base: Span | None

    def __init__(
        self, name: str, part: Part[FunctionParts], ops: OpLookup = builtin_op, base: Span | None = None
    ) -> None:
        self.__dict__.update(name=name, part=part, base=base, op_def=ops)

    def __repr__(self) -> str:
        try:
            results = ", ".join(arg.name for arg in self.signature.outputs)
            return f"<Function {self.name!r} ({', '.join(self.args)}) -> ({results}), {len(self)} nodes>"
        except TfsmithError:  # it is damaged; who looks into it is told
            return f"<Function {self.name!r}>"

    @property
    def title(self) -> str:
        """What to call it in messages."""
        return f"function {self.name!r}"

    @property
    def raw(self) -> Span | None:
        """Its bytes, while nobody has edited it."""
        return self.part.raw[0] if self.part.raw else None

    @property
    def signature(self) -> OpDef:
        """Its name, arguments and results."""
        return self.part.value.signature

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in the file's order."""
        return self.part.value.nodes

    @property
    def args(self) -> tuple[str, ...]:
        """The names of its arguments."""
        return tuple(arg.name for arg in self.signature.inputs)

    @property
    def ret(self) -> Mapping[str, str]:
        """For each result, the tensor that gives it."""
        return self.part.value.ret

    @property
    def control_ret(self) -> Mapping[str, str]:
        """For each control output, the node that must run."""
        return self.part.value.control_ret

    @property
    def attrs(self) -> Mapping[str, Attr]:
        """The function's own attributes."""
        return self.part.value.attrs

    def resolve(self, text: str) -> Endpoint:
        """Reads "argument", "argument:index" (of a list), "node:output_arg:index" or "^node".

        Raises:
            InvalidModelError: The node's op has no such output, or is not known.
        """
        if text.startswith("^"):
            return Endpoint(text[1:], CONTROL)
        name, _, rest = text.partition(":")
        if not rest:
            return Endpoint(name, 0)
        arg, colon, index = rest.rpartition(":")
        if not is_index(index):
            arg, colon, index = rest, ":", "0"
        if not colon:
            return Endpoint(name, int(index))
        if name not in self.by_name:
            return Endpoint(name, int(index))
        return Endpoint(name, self._output_index(self.by_name[name], arg, int(index)))

    def source(self, text: str) -> str:
        """The name of the node or argument that an input's text means; the op's definition is not needed for that."""
        return text.removeprefix("^").partition(":")[0]

    def _output_index(self, node: Node, arg: str, offset: int) -> int:
        op = self.op_def(node.op)
        if op is None:
            what = f"op {node.op!r} is not known, so its output {arg!r} has no number"
            remedy = "the file should carry its definition in meta_info_def.stripped_op_list"
            raise InvalidModelError(what, where=f"{self.title}, node {node.name!r}", remedy=remedy)
        index = op.output_index(arg, offset, node.attrs)
        if index is None:
            what = f"op {node.op!r} has no output {arg}:{offset}"
            raise InvalidModelError(what, where=f"{self.title}, node {node.name!r}", remedy="the file is damaged")
        return index

    def replace_nodes(
        self,
        nodes: tuple[Node, ...],
        *,
        ret: Mapping[str, str] | None = None,
        control_ret: Mapping[str, str] | None = None,
    ) -> Function:
        """Another function with these nodes, and if given these returns; everything else stays as it is."""
        old = self.part.value
        parts = FunctionParts(
            old.signature,
            nodes,
            old.ret if ret is None else ret,
            old.control_ret if control_ret is None else control_ret,
            old.attrs,
            old.arg_attrs,
        )
        return Function(self.name, Part.of(parts), self.op_def, self.base if self.raw is None else self.raw)


class Library(Immutable, Mapping[str, Function]):
    """The functions of a graph, by name, in the file's order, with whatever else the library holds.

    Attributes:
        gradients: For a function, the function that is its gradient.
        registered_gradients: For an op type that the model registered, the function that is its gradient.
        raw: The library's bytes, while nobody has edited it.
        extras: Other fields, tags included, which are written back as they are.
    """

    _functions: Mapping[str, Function]
    gradients: Mapping[str, str]
    registered_gradients: Mapping[str, str]
    raw: Span | None
    extras: tuple[Span, ...]

    def __init__(
        self,
        functions: Mapping[str, Function] | None = None,
        gradients: Mapping[str, str] | None = None,
        registered_gradients: Mapping[str, str] | None = None,
        *,
        raw: Span | None = None,
        extras: tuple[Span, ...] = (),
    ) -> None:
        self.__dict__.update(
            _functions=functions or {},
            gradients=FrozenDict(gradients or {}),
            registered_gradients=FrozenDict(registered_gradients or {}),
            raw=raw,
            extras=extras,
        )

    def __repr__(self) -> str:
        return f"<Library {len(self)} functions>"

    def __getitem__(self, name: str) -> Function:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def replace(self, functions: Mapping[str, Function]) -> Library:
        """Another library with these functions; gradients and other fields stay."""
        return Library(functions, self.gradients, self.registered_gradients, extras=self.extras)
