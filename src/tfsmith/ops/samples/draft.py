"""`Draft`: writes a chain of nodes for a case; types and counts are filled in by the ops' definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.body import Part
from tfsmith.ir.graph import Function, FunctionParts
from tfsmith.ir.node import Attr, Node, attr, parse_input
from tfsmith.ir.opdef import ArgDef, OpDef, builtin_ops
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import DType, as_dtype
from tfsmith.ops.samples import Case, chain

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Draft"]


class Draft:
    """A chain that is being written. Tensors are known by their names: "n3", or "n3:1" for another output."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._feeds: dict[str, NDArray[Any]] = {}
        self._types: dict[str, tuple[DType | None, ...]] = {}

    def feed(self, values: Any, kind: str | None = None) -> str:
        """An input."""
        name = f"x{len(self._feeds)}"
        array = numpy.asarray(values, None if kind is None else as_dtype(kind).numpy())
        self._feeds[name] = array
        self._types[name] = (as_dtype("string" if array.dtype.kind == "O" else array.dtype),)
        return name

    def const(self, values: Any, kind: str | None = None) -> str:
        """A constant; whole numbers are int32 where no type is given."""
        array = numpy.asarray(values)
        if kind is None:
            kind = {"i": "int32", "f": "float32", "b": "bool", "O": "string", "S": "string"}[array.dtype.kind]
            kind = array.dtype.name if isinstance(values, numpy.ndarray) and array.dtype.kind != "O" else kind
        found = as_dtype(kind)
        name = f"c{len(self._nodes)}"
        tensor = ArrayTensor(found, numpy.asarray(values, found.numpy()))
        self._nodes.append(Node(name, "Const", (), {"dtype": found, "value": Attr("tensor", tensor)}))
        self._types[name] = (found,)
        return name

    def add(self, op: str, *inputs: str | Sequence[str], after: Sequence[str] = (), **attrs: Any) -> str:
        """A node, and the name of its first output.

        Args:
            op: The op.
            inputs: Its inputs: names, or a list of names for an input that is a list.
            after: Nodes that must run before.
            attrs: Attributes; types and counts that the inputs show are filled in.
        """
        definition = builtin_ops()[op]
        kinds = {one.name: one.kind for one in definition.attrs}
        whole: dict[str, Attr] = {}
        flat: list[str] = []
        for arg, given in zip(definition.inputs, inputs, strict=True):
            parts = [given] if isinstance(given, str) else list(given)
            types = [self._type(name) for name in parts]
            if arg.number_attr:
                whole[arg.number_attr] = Attr("int", len(parts))
            if arg.type_list_attr:
                known = tuple(one for one in types if one is not None)
                whole[arg.type_list_attr] = Attr("list(type)", known) if known else Attr("list", ())
            elif arg.type_attr and types and types[0] is not None:
                whole.setdefault(arg.type_attr, Attr("type", types[0]))
            flat += parts
        whole.update({key: attr(value, kinds[key]) for key, value in attrs.items()})
        name = f"n{len(self._nodes)}"
        self._nodes.append(Node(name, op, (*flat, *(f"^{one}" for one in after)), whole))
        self._types[name] = definition.output_types(whole)
        return name

    def _type(self, name: str) -> DType | None:
        source = parse_input(name)
        found = self._types[source.node]
        return found[source.output] if source.output < len(found) else None

    def transpose(self, x: str, order: Sequence[int]) -> str:
        """A transpose by a constant order."""
        return self.add("Transpose", x, self.const(order))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """A reshape to a constant shape."""
        return self.add("Reshape", x, self.const(shape))

    def function(self, name: str, *results: str) -> Function:
        """The chain as a function: what is fed are its arguments, in order, and these tensors its results."""
        known = {node.name: node for node in self._nodes}
        arguments = tuple(ArgDef(key, self._type(key)) for key in self._feeds)
        outputs = tuple(ArgDef(f"r{number}", self._type(text)) for number, text in enumerate(results))
        nodes = tuple(
            node.replace(inputs=tuple(one if one[0] == "^" else _inside(one, known) for one in node.inputs))
            for node in self._nodes
        )
        given = {f"r{number}": _inside(text, known) for number, text in enumerate(results)}
        stateful = any(builtin_ops()[node.op].is_stateful for node in nodes)
        signature = OpDef(name, arguments, outputs, is_stateful=stateful)
        return Function(name, Part.of(FunctionParts(signature, nodes, given)))

    def case(self, op: str, name: str, *fetches: str, functions: Iterable[Function] = ()) -> Case:
        """The chain as a case."""
        wanted = [one if ":" in one else f"{one}:0" for one in fetches]
        return chain(op, name, self._nodes, self._feeds, wanted, functions)


def _inside(text: str, nodes: Mapping[str, Node]) -> str:
    """A tensor as functions write it: "n3:output:0", or an argument's name."""
    source = parse_input(text)
    node = nodes.get(source.node)
    if node is None:
        return source.node
    return f"{source.node}:{builtin_ops()[node.op].output_name(source.output, node.attrs)}"
