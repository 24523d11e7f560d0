"""Our graph as OpenVINO's TensorFlow frontend wants to read one: an iterator over nodes, a decoder for each node.

The frontend asks a Python object node by node for names, ops, inputs and attributes, and for the functions of the
library by name. Nothing is serialized, and the values of constants are handed over where they lie: in the mapped file.
See docs/decisions/0006-openvino-handover.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.errors import TfsmithError
from tfsmith.ir.attr import Attr
from tfsmith.ir.body import Body
from tfsmith.ir.dtype import DType
from tfsmith.ir.function import Function
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import CONTROL, Node
from tfsmith.ir.shape import UNKNOWN, Shape
from tfsmith.ir.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Handover"]

# Our dtypes by OpenVINO's names for them. What is not here is "dynamic" to OpenVINO, which then says what it misses.
_TYPES = MappingProxyType(
    {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "boolean", "string": "string"}
    | {f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}
    | {f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)}
)


class Handover:
    """One handing-over of a graph. Keep it for as long as the converted model is used: it owns the constants' memory.

    Attributes:
        error: What went wrong on our side while the frontend asked; the frontend itself only gets to see its text.
    """

    def __init__(self, graph: Graph, outputs: Sequence[str]) -> None:
        self._graph = graph
        self._outputs = tuple(outputs)
        self._kept: list[Any] = []
        self.error: TfsmithError | None = None

    def close(self) -> None:
        """Lets go of the memory, once the converted model is gone. Python would find the circle only at some time."""
        self._kept.clear()

    def iterator(self) -> Any:
        """A new iterator over the whole graph, for `FrontEnd.load`."""
        decoder, iterator = _classes()
        made = iterator(self, [decoder(self, self._graph, node) for node in self._graph], (), self._outputs)
        self._kept.append(made)
        return made

    def body(self, name: str) -> Any | None:
        """A new iterator over a function of the library; None if there is no such function."""
        function = self._graph.library.get(name)
        if function is None:
            return None
        decoder, iterator = _classes()
        decoders = [decoder(self, function, node) for node in (*_arguments(function), *function.nodes)]
        outputs = [str(function.resolve(function.ret[found.name])) for found in function.signature.outputs]
        made = iterator(self, decoders, [f"{name}:0" for name in function.args], outputs)
        self._kept.append(made)
        return made

    def attribute(self, body: Body, node: Node, name: str) -> Any:
        """A node's attribute, or its default, in OpenVINO's terms."""
        from openvino import OVAny

        try:
            found = node.attrs.get(name)
            found = _default(body, node, name) if found is None else found
            if found is not None and found.kind == "tensor":
                return OVAny(self._tensor(found.value))
            return OVAny(None if found is None else _plain(found.kind, found.value))
        except TfsmithError as error:
            self.error = self.error or error
            raise

    def _tensor(self, tensor: Tensor) -> Any:
        """A constant. Its memory is shared, not copied, unless it is a few numbers that are broadcast, or strings."""
        import numpy
        from openvino import Tensor as OvTensor
        from openvino import Type

        values = tensor.numpy()  # checks the checksum
        if tensor.dtype.base.name == "string":
            return OvTensor(numpy.array(values.reshape(-1).tolist() or [b""], "S")[: values.size].reshape(values.shape))
        if values.size < 2 or not values.flags.c_contiguous:
            values = numpy.array(values, order="C")
        kind = _TYPES.get(tensor.dtype.base.name, "dynamic")
        if tensor.dtype.base.name == "bfloat16":
            raw = OvTensor(_writeable(values).view(numpy.uint16), values.shape, Type.bf16)
            self._kept.append((values, raw))
            return raw
        if kind == "dynamic":
            values = numpy.array(values, order="C")  # such as complex numbers; OpenVINO says what it misses
        shared = _writeable(values)
        self._kept.append((values, shared))
        return OvTensor(shared, shared_memory=True)


def _writeable(values: NDArray[Any]) -> NDArray[Any]:
    """The same memory as an array that claims to be writeable, which OpenVINO insists on.

    Nobody writes to it: constants of a model do not change, and OpenVINO maps its own files read-only, too.
    """
    import ctypes

    import numpy

    if values.flags.writeable:
        return values
    memory = (ctypes.c_byte * values.nbytes).from_address(values.ctypes.data)
    found: NDArray[Any] = numpy.frombuffer(memoryview(memory), values.dtype).reshape(values.shape)
    return found


def _arguments(function: Function) -> Iterator[Node]:
    """A function's arguments as the placeholders that OpenVINO takes them for."""
    shapes = function.part.value.arg_attrs
    for number, arg in enumerate(function.signature.inputs):
        told = shapes.get(number, {}).get("_output_shapes")
        first = told.value[0] if told is not None and told.kind == "list(shape)" and told.value else UNKNOWN
        kind = DType(0, "dynamic", "DT_INVALID", 0) if arg.type is None else arg.type
        yield Node(arg.name, "Placeholder", (), {"dtype": kind, "shape": first})


def _default(body: Body, node: Node, name: str) -> Attr | None:
    """What an attribute means where the file leaves it out."""
    op = body.op_def(node.op)
    return None if op is None else next((found.default for found in op.attrs if found.name == name), None)


def _plain(kind: str, value: Any) -> Any:
    """An attribute's value, as the frontend's decoders of files give it."""
    if kind.startswith("list("):
        return [_plain(kind[5:-1], item) for item in value]
    convert = _CONVERT.get(kind)
    return value if convert is None else convert(value)


def _ov_type(value: DType) -> Any:
    from openvino import Type

    return getattr(Type, _TYPES.get(value.base.name, "dynamic"))


def _ov_shape(value: Shape) -> Any:
    from openvino import PartialShape

    return PartialShape.dynamic() if value.dims is None else PartialShape(list(value.dims))


def _ov_float(value: float) -> Any:
    import numpy

    return numpy.float32(value)


def _ov_text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


_CONVERT: Mapping[str, Any] = MappingProxyType(
    {
        "type": _ov_type,
        "shape": _ov_shape,
        "float": _ov_float,
        "string": _ov_text,
        "func": lambda value: value.name,
        "list": lambda value: None,
        "none": lambda value: None,
    }
)


@cache
def _classes() -> tuple[Any, Any]:
    """The two classes, made on first use: their bases are OpenVINO's."""
    from openvino.frontend.tensorflow.py_tensorflow_frontend import _FrontEndDecoderBase, _FrontEndPyGraphIterator

    class Decoder(_FrontEndDecoderBase):  # type: ignore[misc]
        """One node. The methods are called from C++, by these names."""

        def __init__(self, handover: Handover, body: Body, node: Node) -> None:
            super().__init__()
            self._handover = handover
            self._body = body
            self._node = node
            self._inputs = [found for found in body.inputs_of(node) if found.output != CONTROL]

        def get_op_name(self) -> str:
            return self._node.name

        def get_op_type(self) -> str:
            return self._node.op

        def get_input_size(self) -> int:
            return len(self._inputs)

        def get_input_node_name(self, index: int) -> str:
            return self._inputs[index].node

        def get_input_node_name_output_port_index(self, index: int) -> int:
            return self._inputs[index].output

        def get_input_node_name_output_port_name(self, index: int) -> str:
            return ""  # the index says it all

        def get_attribute(self, name: str) -> Any:
            return self._handover.attribute(self._body, self._node, name)

    class Nodes(_FrontEndPyGraphIterator):  # type: ignore[misc]
        """The nodes of a graph or function, one after the other."""

        def __init__(self, handover: Handover, decoders: list[Any], inputs: Any, outputs: Any) -> None:
            super().__init__()
            self._handover = handover
            self._decoders = decoders
            self._inputs = list(inputs)
            self._outputs = list(outputs)
            self._at = 0

        def size(self) -> int:
            return len(self._decoders)

        def reset(self) -> None:
            self._at = 0

        def next_impl(self) -> None:
            self._at += 1

        def is_end(self) -> bool:
            return self._at >= len(self._decoders)

        def get_decoder(self) -> Any:
            return self._decoders[self._at]

        def get_body_graph_iterator(self, name: str) -> Any:
            return self._handover.body(name)

        def get_input_names(self) -> list[str]:
            return self._inputs

        def get_output_names(self) -> list[str]:
            return self._outputs

        def get_input_names_map(self) -> dict[str, str]:
            return {}

        def get_output_names_map(self) -> dict[str, str]:
            return {}

    return Decoder, Nodes
