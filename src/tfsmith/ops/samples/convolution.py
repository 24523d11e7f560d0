"""Samples of convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.node import Attr, Node
from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, chain, numbers, samples, small

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_FLOATS = ("float32", "float64", "float16", "bfloat16")


@samples("Conv2D", n_eps=8)
def _conv2d(op: str) -> Iterator[Case]:
    one: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "VALID"}
    for kind in (*_FLOATS, "int32"):
        yield case(op, small(kind, 1, 4, 4, 2), small(kind, 2, 2, 2, 3, start=50), name=kind, **one)
        yield case(op, small(kind, 1, 4, 4, 2), small(kind, 3, 3, 2, 3, start=50), name=f"{kind}, SAME",
                   strides=[1, 1, 1, 1], padding="SAME")  # fmt: skip
    x, kernel = numbers("float32", 1, 5, 6, 2), numbers("float32", 3, 2, 2, 3, start=70)
    yield case(op, x, kernel, name="fractions", **one)
    yield case(op, x, kernel, name="unknown", unknown=True, **one)
    yield case(op, x, kernel, name="constant filter", constants=(1,), **one)
    for padding in ("SAME", "VALID"):
        for strides in ([1, 2, 2, 1], [1, 1, 2, 1], [1, 3, 1, 1]):
            yield case(op, x, kernel, name=f"{padding}, strides {strides}", strides=strides, padding=padding)
        yield case(op, x, kernel, name=f"{padding}, dilated", strides=[1, 1, 1, 1], padding=padding,
                   dilations=[1, 2, 3, 1])  # fmt: skip
    yield case(op, x, kernel, name="explicit", strides=[1, 2, 1, 1], padding="EXPLICIT",
               explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])  # fmt: skip
    yield case(op, x, kernel, name="explicit, dilated", strides=[1, 2, 1, 1], padding="EXPLICIT",
               explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0], dilations=[1, 2, 2, 1])  # fmt: skip
    endless = kernel.copy()
    endless[0, 1, 0] = -numpy.inf
    yield case(op, x, endless, name="a weight is infinite", constants=(1,), strides=[1, 1, 1, 1], padding="SAME")
    yield case(op, x, numbers("float32", 1, 1, 2, 5), name="1x1", **one)
    yield case(op, x, numbers("float32", 1, 1, 2, 5), name="1x1, strides", strides=[1, 2, 2, 1], padding="SAME")
    yield case(op, x, numbers("float32", 5, 6, 2, 1), name="as large as the input", **one)
    yield case(op, numbers("float32", 2, 3, 3, 3), numbers("float32", 2, 2, 3, 2), name="batch", **one)
    yield case(op, numbers("float32", 1, 3, 3, 4), numbers("float32", 2, 2, 2, 4), name="two groups", **one)
    yield case(op, numbers("float32", 1, 3, 3, 4), numbers("float32", 2, 2, 1, 8), name="four groups", **one)
    yield case(op, x[:0], kernel, name="no batch", **one)
    yield case(op, x, kernel[..., :0], name="no outputs", **one)
    special = x.copy()
    special[0, 2, 2, 0], special[0, 0, 0, 1] = numpy.nan, numpy.inf
    yield case(op, special, kernel, name="NaN and infinity", **one)
    yield case(op, x, kernel[:, :, :1], name="other channels", unknown=True, strides=[1, 1, 1, 1], padding="VALID")
    yield case(op, x[..., :1], kernel, name="too few channels", unknown=True, **one)
    yield case(op, x, numbers("float32", 1, 9, 2, 1), name="filter too large", **one)
    yield case(op, x[0], kernel, name="3 axes", unknown=True, **one)
    yield case(op, x, kernel, name="stride of channels", strides=[1, 1, 1, 2], padding="VALID", unknown=True)
    yield case(op, x, kernel, name="stride 0", strides=[1, 0, 1, 1], padding="VALID", unknown=True)
    yield _with_bias(op, x, kernel)


def _with_bias(op: str, x: NDArray[Any], kernel: NDArray[Any]) -> Case:
    kind = {"T": as_dtype("float32")}
    plain = {"strides": Attr("list(int)", (1, 1, 1, 1)), "padding": Attr("string", b"SAME")}
    nodes = [
        Node("c", op, ("x", "k"), {**kind, **plain}),
        Node("b", "BiasAdd", ("c", "bias"), kind),
        Node("y", "Relu", ("b",), kind),
    ]
    outputs = kernel.shape[3] if op == "Conv2D" else kernel.shape[2] * kernel.shape[3]
    bias = numbers("float32", outputs, start=4, low=-40, high=40)
    return chain(op, "bias and relu", nodes, {"x": x, "k": kernel, "bias": bias}, ["y:0"])


@samples("Conv3D", n_eps=8)
def _conv3d(op: str) -> Iterator[Case]:
    one: dict[str, Any] = {"strides": [1, 1, 1, 1, 1], "padding": "VALID"}
    for kind in _FLOATS:
        yield case(op, small(kind, 1, 3, 3, 3, 2), small(kind, 2, 2, 2, 2, 2, start=50), name=kind, **one)
    x, kernel = numbers("float32", 1, 3, 4, 5, 1), numbers("float32", 2, 3, 2, 1, 2, start=70)
    for padding in ("SAME", "VALID"):
        yield case(op, x, kernel, name=padding, strides=[1, 1, 1, 1, 1], padding=padding)
        yield case(op, x, kernel, name=f"{padding}, strides", strides=[1, 2, 1, 2, 1], padding=padding)
    yield case(op, x, kernel, name="unknown", unknown=True, **one)
    yield case(op, x, numbers("float32", 1, 1, 1, 1, 2), name="1x1x1", **one)
    yield case(op, x[:0], kernel, name="no batch", **one)
    yield case(op, x, numbers("float32", 2, 2, 2, 2, 2), name="other channels", unknown=True, **one)
    yield case(op, x[0], kernel, name="4 axes", unknown=True, **one)


@samples("Conv", n_eps=8)
def _conv(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        yield case(op, small(kind, 1, 4, 4, 2), small(kind, 2, 2, 2, 3, start=50), name=kind, strides=[1, 1, 1, 1],
                   padding="VALID")  # fmt: skip
    x, kernel = numbers("float32", 1, 3, 4, 5, 1), numbers("float32", 2, 3, 2, 1, 2, start=70)
    yield case(op, x, kernel, name="3-D", strides=[1, 1, 1, 2, 1], padding="SAME")
    yield case(op, x, kernel[0], name="2 batch axes", strides=[1, 1, 2, 1], padding="SAME", batch_dims=2)
    yield case(op, x[0], kernel[0], name="dilated", strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 1, 2, 1])
    yield case(op, x[0], kernel[0], name="explicit", strides=[1, 1, 1, 1], padding="EXPLICIT",
               explicit_paddings=[0, 0, 1, 0, 0, 2, 0, 0])  # fmt: skip


@samples("DepthwiseConv2dNative", n_eps=8)
def _depthwise(op: str) -> Iterator[Case]:
    one: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "VALID"}
    for kind in _FLOATS:
        yield case(op, small(kind, 1, 4, 4, 2), small(kind, 2, 2, 2, 1, start=50), name=kind, **one)
        yield case(op, small(kind, 1, 4, 4, 2), small(kind, 3, 3, 2, 2, start=50), name=f"{kind}, SAME",
                   strides=[1, 1, 1, 1], padding="SAME")  # fmt: skip
    x, kernel = numbers("float32", 1, 5, 6, 2), numbers("float32", 3, 2, 2, 2, start=70)
    endless = kernel.copy()
    endless[0, 1, 0] = -numpy.inf
    yield case(op, x, endless, name="a weight is infinite", constants=(1,), strides=[1, 1, 1, 1], padding="SAME")
    yield case(op, x, kernel, name="fractions", **one)
    yield case(op, x, kernel, name="unknown", unknown=True, **one)
    for padding in ("SAME", "VALID"):
        yield case(op, x, kernel, name=f"{padding}, strides", strides=[1, 2, 2, 1], padding=padding)
    yield case(op, x, kernel, name="explicit", strides=[1, 2, 2, 1], padding="EXPLICIT",
               explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])  # fmt: skip
    yield case(op, numbers("float32", 2, 3, 3, 3), numbers("float32", 2, 2, 3, 1), name="batch", **one)
    yield case(op, numbers("float32", 1, 3, 3, 1), numbers("float32", 2, 2, 1, 4), name="one channel", **one)
    yield case(op, x[:0], kernel, name="no batch", **one)
    yield case(op, x, kernel[:, :, :1], name="other channels", unknown=True, **one)
    yield case(op, x, kernel, name="unequal strides", strides=[1, 1, 2, 1], padding="SAME", unknown=True)
    yield case(op, x, numbers("float32", 1, 9, 2, 1), name="filter too large", **one)
    yield _with_bias(op, x, kernel)


@samples("Conv2DBackpropInput DepthwiseConv2dNativeBackpropInput", n_eps=8)
def _transposed(op: str) -> Iterator[Case]:
    depthwise = op.startswith("Depthwise")
    kinds = _FLOATS if depthwise else (*_FLOATS, "int32")
    for kind in kinds:
        back = small(kind, 1, 3, 3, 4)
        kernel = small(kind, 2, 2, 2, 2, start=50) if depthwise else small(kind, 2, 2, 3, 4, start=50)
        sizes = numpy.array([1, 4, 4, kernel.shape[2]], "int32")
        yield case(op, sizes, kernel, back, name=kind, strides=[1, 1, 1, 1], padding="VALID", constants=(0,))
    times = 2 if depthwise else 3
    outputs = 4 if depthwise else 3
    kernel = numbers("float32", 3, 3, 2, times, start=9)
    for padding, stride, large, size in (
        ("SAME", 2, 6, 3), ("SAME", 2, 5, 3), ("VALID", 2, 7, 3), ("VALID", 2, 8, 3), ("SAME", 3, 7, 3),
        ("VALID", 1, 5, 3), ("SAME", 1, 3, 3), ("VALID", 4, 11, 3),
    ):  # fmt: skip
        back = numbers("float32", 1, size, size, outputs)
        if large * large * 2 <= 64:
            sizes = numpy.array([1, large, large, 2], "int32")
            yield case(op, sizes, kernel, back, name=f"{padding}, stride {stride}, {large}",
                       strides=[1, stride, stride, 1], padding=padding, constants=(0,))  # fmt: skip
    back, sizes = numbers("float32", 1, 3, 3, outputs), numpy.array([1, 5, 5, 2], "int32")
    one: dict[str, Any] = {"strides": [1, 2, 2, 1], "padding": "SAME"}
    yield case(op, sizes, kernel, back, name="unknown", unknown=True, **one)
    yield case(op, sizes, kernel, back, name="explicit", strides=[1, 1, 1, 1], padding="EXPLICIT",
               explicit_paddings=[0, 0, 1, 0, 0, 1, 0, 0], constants=(0,))  # fmt: skip
    yield case(op, sizes, kernel, back[:, :2], name="other size", unknown=True, **one)
    yield case(op, sizes + 1, kernel, back, name="other batch", unknown=True, **one)
    if depthwise:
        return
    yield case(op, numpy.array([5, 5], "int32"), kernel, back, name="sizes of space", unknown=True, **one)
    back = numbers("float32", 1, 2, 5, outputs)
    yield case(op, numpy.array([1, 3, 5, 2], "int32"), kernel, back, name="unequal strides",
               strides=[1, 2, 1, 1], padding="SAME", constants=(0,))  # fmt: skip


@samples("Conv3DBackpropInputV2", n_eps=8)
def _transposed_3d(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        yield _case_3d(op, [1, 3, 3, 3, 2], small(kind, 2, 2, 2, 2, 3, start=50), small(kind, 1, 2, 2, 2, 3),
                       kind, [1, 1, 1, 1, 1], "VALID")  # fmt: skip
    kernel = numbers("float32", 2, 3, 2, 1, 2)
    back = numbers("float32", 1, 2, 2, 3, 2, start=8)
    yield _case_3d(op, [1, 4, 3, 5, 1], kernel, back, "SAME, strides", [1, 2, 2, 2, 1], "SAME")
    yield _case_3d(op, [1, 3, 3, 5, 1], kernel, back, "SAME, other strides", [1, 2, 2, 2, 1], "SAME")
    yield _case_3d(op, [1, 3, 4, 4, 1], kernel, back, "VALID", [1, 1, 1, 1, 1], "VALID")
    yield _case_3d(op, [1, 4, 4, 4, 1], kernel, back, "other size", [1, 1, 1, 1, 1], "VALID")
    yield case(op, numpy.array([1, 3, 4, 4, 1], "int64"), kernel, back, name="int64 sizes",
               strides=[1, 1, 1, 1, 1], padding="VALID", unknown=True)  # fmt: skip


def _case_3d(op: str, sizes: list[int], kernel: NDArray[Any], back: NDArray[Any], name: str, strides: list[int],
             padding: str) -> Case:  # fmt: skip
    return case(op, numpy.array(sizes, "int32"), kernel, back, name=name, strides=strides, padding=padding,
                unknown=True)  # fmt: skip


@samples("Dilation2D")
def _dilation(op: str) -> Iterator[Case]:
    one: dict[str, Any] = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}
    for kind in (*_FLOATS, "int32", "int64", "uint8", "int16", "int8", "uint16", "uint32", "uint64"):
        yield case(op, numbers(kind, 1, 4, 4, 2), numbers(kind, 2, 2, 2, start=50), name=kind, **one)
    x, kernel = numbers("float32", 1, 5, 6, 2), numbers("float32", 3, 2, 2, start=70)
    for padding in ("SAME", "VALID"):
        yield case(op, x, kernel, name=f"{padding}, strides", strides=[1, 2, 1, 1], rates=[1, 1, 1, 1], padding=padding)
        yield case(op, x, kernel, name=f"{padding}, rates", strides=[1, 1, 1, 1], rates=[1, 2, 2, 1], padding=padding)
    yield case(op, x, kernel[..., :1], name="other channels", unknown=True, **one)


@samples("FusedPadConv2D", n_eps=8)
def _pad_conv(op: str) -> Iterator[Case]:
    paddings = numpy.array([[0, 0], [1, 2], [0, 1], [0, 0]], "int32")
    for kind in ("float32", "float64", "float16", "bfloat16"):
        for mode in ("REFLECT", "SYMMETRIC"):
            yield case(op, small(kind, 1, 4, 4, 2), paddings, small(kind, 2, 2, 2, 2, start=50), mode=mode,
                       name=f"{kind}, {mode}", strides=[1, 1, 1, 1], padding="VALID", constants=(1,))  # fmt: skip
    x, kernel = numbers("float32", 1, 4, 4, 2), numbers("float32", 3, 2, 2, 2)
    yield case(op, x, paddings, kernel, name="strides", mode="REFLECT", strides=[1, 2, 2, 1], padding="SAME",
               constants=(1,))  # fmt: skip
    yield case(op, x, paddings * 9, kernel, name="too large", mode="REFLECT", strides=[1, 2, 2, 1], padding="SAME",
               unknown=True)  # fmt: skip


@samples("_FusedConv2D", n_eps=8)
def _fused_conv(op: str) -> Iterator[Case]:
    one: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    x, kernel, bias = numbers("float32", 1, 4, 4, 2), numbers("float32", 2, 2, 2, 3, start=5), numbers("float32", 3)
    for fused in (["BiasAdd"], ["BiasAdd", "Relu"], ["BiasAdd", "Relu6"], ["BiasAdd", "Elu"], ["BiasAdd", "LeakyRelu"]):
        yield case(op, x, kernel, [bias], [], name=" ".join(fused), fused_ops=fused, num_args=1, num_host_args=0, **one)
    yield case(op, x.astype("float64"), kernel.astype("float64"), [bias.astype("float64")], [], name="float64",
               fused_ops=["BiasAdd", "Relu"], num_args=1, num_host_args=0, **one)  # fmt: skip
    statistics = [numbers("float32", 3, start=start, low=low) for start, low in ((3, -2), (7, -3), (11, -1), (20, 1))]
    for fused in (["FusedBatchNorm"], ["FusedBatchNorm", "Relu"], ["FusedBatchNorm", "LeakyRelu"]):
        yield case(op, x, kernel, statistics, [], name=" ".join(fused), fused_ops=fused, num_args=4, num_host_args=0,
                   epsilon=0.001, leakyrelu_alpha=0.25, **one)  # fmt: skip


@samples("_FusedMatMul", n_eps=8)
def _fused_matmul(op: str) -> Iterator[Case]:
    a, b, bias = numbers("float32", 2, 4), numbers("float32", 4, 3, start=5), numbers("float32", 3, start=60)
    for fused in (["BiasAdd"], ["BiasAdd", "Relu"], ["BiasAdd", "Relu6"], ["BiasAdd", "Elu"], ["BiasAdd", "LeakyRelu"],
                  ["BiasAdd", "Tanh"], ["BiasAdd", "Sigmoid"]):  # fmt: skip
        yield case(op, a, b, [bias], name=" ".join(fused), fused_ops=fused, num_args=1)
    yield case(op, a.T, b, [bias], name="a transposed", fused_ops=["BiasAdd"], num_args=1, transpose_a=True)
    yield case(op, a, b.T, [bias], name="b transposed", fused_ops=["BiasAdd"], num_args=1, transpose_b=True)
    yield case(op, a, b.T, [bias], name="do not fit", fused_ops=["BiasAdd"], num_args=1, unknown=True)
