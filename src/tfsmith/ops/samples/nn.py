"""Samples of the ops that work along channels or classes: bias, activation, softmax, norms, losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.node import Node
from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, chain, numbers, samples, types_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_FLOATS = ("float32", "float64", "float16", "bfloat16")
_EDGES = (numpy.nan, numpy.inf, -numpy.inf, -0.0, 0.0, 1.0, -1.0, 6.5, -40.0, 40.0, -0.125, 300.0)
_NO_BIAS_KERNEL = ("qint8", "quint8", "qint32", "qint16", "quint16")
_NO_RELU_KERNEL = ("qint8",)


@samples("BiasAdd")
def _bias(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        if kind not in _NO_BIAS_KERNEL:
            yield case(op, numbers(kind, 2, 3), numbers(kind, 3, start=9), name=kind)
    x, bias = numbers("float32", 2, 2, 2, 3), numbers("float32", 3, start=40)
    yield case(op, x, bias, name="4 axes")
    yield case(op, x, bias, name="4 axes, unknown", unknown=True)
    yield case(op, x.reshape(2, 3, 2, 2), bias, name="channels first", data_format="NCHW")
    yield case(op, x.reshape(4, 3, 2), bias, name="channels first, 3 axes", data_format="NCHW")
    yield case(op, x.reshape(1, 3, 2, 2, 2), bias, name="channels first, 5 axes", data_format="NCHW")
    yield case(op, x.reshape(8, 3), bias, name="channels first, 2 axes", data_format="NCHW")
    yield case(op, numpy.zeros((0, 3), "float32"), bias, name="empty")
    yield case(op, numpy.array([[127, -128]], "int8"), numpy.array([1, -1], "int8"), name="overflow")
    yield case(op, numpy.array([[numpy.nan, numpy.inf, -0.0]], "float32"), bias * 0, name="special")
    yield case(op, x, bias[:2], name="too few", unknown=True)
    yield case(op, x, bias[:1], name="one for all", unknown=True)
    yield case(op, bias, bias, name="a vector", unknown=True)
    yield case(op, x, x, name="not a vector", unknown=True)


@samples("BiasAddV1")
def _bias_v1(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        if kind not in _NO_BIAS_KERNEL:
            yield case(op, numbers(kind, 2, 3), numbers(kind, 3, start=9), name=kind)


@samples("Relu Relu6")
def _relu(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        if kind not in _NO_RELU_KERNEL:
            yield case(op, numbers(kind, 3, 5, low=-10, high=10), name=kind)
    yield from _activation(op)


@samples("Elu Selu Softplus Softsign LeakyRelu", ulps=6)
def _floats(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        yield case(op, numbers(kind, 3, 5), name=kind)
    yield from _activation(op)
    if op == "LeakyRelu":
        for alpha in (0.0, 1.0, 1.5, -0.5):
            yield case(op, numbers("float32", 7), name=f"alpha {alpha}", alpha=alpha)
            ends = numpy.array([numpy.inf, -numpy.inf, numpy.nan, -0.0], "float32")
            yield case(op, ends, name=f"alpha {alpha}, special", alpha=alpha)


def _activation(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        yield case(op, numpy.array(_EDGES).astype(numbers(kind, 1).dtype), name=f"{kind}, special")
    yield case(op, numpy.float32(-2.5), name="scalar")
    yield case(op, numpy.zeros((0, 2), "float32"), name="empty")
    yield case(op, numbers("float32", 2, 3), name="unknown", unknown=True)
    yield _between_transposes(op, numbers("float32", 2, 3, 2))


def _between_transposes(op: str, x: NDArray[Any]) -> Case:
    kind, order = as_dtype(x.dtype), numpy.array([2, 0, 1], "int32")
    types = {"T": kind, "Tperm": as_dtype("int32")}
    nodes = [
        Node("t", "Transpose", ("x", "p"), types),
        Node("a", op, ("t",), {"T": kind}),
        Node("y", "Transpose", ("a", "p"), types),
    ]
    return chain(op, "between transposes", nodes, {"x": x, "p": order}, ["y:0"])


@samples("Softmax LogSoftmax", ulps=8, n_eps=4)
def _softmax(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        yield case(op, numbers(kind, 3, 5), name=kind)
        yield case(op, numbers(kind, 2, 2, 2, 3, start=5), name=f"{kind}, 4 axes")
    yield case(op, numbers("float32", 7), name="vector")
    yield case(op, numbers("float32", 2, 3), name="unknown", unknown=True)
    yield case(op, numpy.zeros((0, 3), "float32"), name="no rows")
    yield case(op, numpy.zeros((3, 0), "float32"), name="no classes")
    yield case(op, numpy.zeros((3, 1), "float32"), name="one class")
    yield case(op, numpy.float32(1), name="scalar", unknown=True)
    yield case(op, numpy.array([[1000.0, 0, -1000], [1e30, 1e30, -1e30], [-1e30, 88, 90]], "float32"), name="large")
    special = [[numpy.nan, 1, 2], [numpy.inf, 1, 2], [-numpy.inf, 1, 2], [-numpy.inf] * 3, [numpy.inf] * 3]
    yield case(op, numpy.array(special, "float32"), name="special")
    yield case(op, numpy.array([[60000, 0.5, -60000]], "float16"), name="large half")
    x = numbers("float32", 2, 3, 2)
    yield _between_transposes(op, x)
    types = {"T": as_dtype("float32"), "Tshape": as_dtype("int32")}
    nodes = [
        Node("t", "Reshape", ("x", "p"), types),
        Node("a", op, ("t",), {"T": as_dtype("float32")}),
        Node("y", "Reshape", ("a", "q"), types),
    ]
    shapes = {"p": numpy.array([-1, 2], "int32"), "q": numpy.array([2, 3, 2], "int32")}
    yield chain(op, "between reshapes", nodes, {"x": x, **shapes}, ["y:0"])


@samples("SoftmaxCrossEntropyWithLogits", ulps=8, n_eps=4)
def _cross_entropy(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        labels = numpy.array([[0.25, 0.5, 0.25], [0, 1, 0]]).astype(numbers(kind, 1).dtype)
        yield case(op, numbers(kind, 2, 3), labels, name=kind)
    one = numpy.array([[0.25, 0.5, 0.25]], "float32")
    yield case(op, numbers("float32", 2, 3), one, name="labels for all rows")
    yield case(op, numpy.zeros((0, 3), "float32"), numpy.zeros((0, 3), "float32"), name="no rows")
    yield case(op, numbers("float32", 2, 3), numbers("float32", 2, 2), name="other classes", unknown=True)
    yield case(op, numbers("float32", 3), numbers("float32", 3), name="vectors", unknown=True)


@samples("SparseSoftmaxCrossEntropyWithLogits", ulps=8, n_eps=4)
def _sparse_cross_entropy(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        yield case(op, numbers(kind, 3, 4), numpy.array([0, 3, 1]), name=kind)
    x = numbers("float32", 2, 3)
    yield case(op, x, numpy.array([2, 0], "int32"), name="int32 labels")
    yield case(op, x, numpy.array([3, 0], "int32"), name="label too large")
    yield case(op, x, numpy.array([0, -1], "int32"), name="negative label")
    yield case(op, x, numpy.array([0], "int32"), name="too few labels", unknown=True)
    yield case(op, x[:0], numpy.array([], "int32"), name="no rows")
    yield case(op, x[:, :0], numpy.array([0, 0], "int32"), name="no classes", unknown=True)


@samples("L2Loss", ulps=8)
def _l2_loss(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        yield case(op, numbers(kind, 3, 4, low=-2, high=2), name=kind)
    yield case(op, numpy.zeros(0, "float32"), name="empty")
    yield case(op, numpy.float32(3), name="scalar")
    yield case(op, numpy.array([numpy.inf, 1], "float32"), name="infinite")
    yield case(op, numpy.array([numpy.nan, 1], "float32"), name="NaN")


@samples("LRN", ulps=16, n_eps=8)
def _lrn(op: str) -> Iterator[Case]:
    for kind in ("float32", "float16"):
        yield case(op, numbers(kind, 1, 2, 2, 8, low=-2, high=2), name=kind)
    x = numbers("float32", 1, 2, 2, 6, low=-2, high=2)
    for radius in (0, 1, 2, 4, 9):
        yield case(op, x, name=f"radius {radius}", depth_radius=radius, bias=2.0, alpha=0.5, beta=0.75)
    yield case(op, x, name="beta 1", depth_radius=2, beta=1.0, alpha=0.25)
    yield case(op, x, name="beta 0.5", depth_radius=2, beta=0.5, alpha=0.25)
    yield case(op, x, name="AlexNet's", depth_radius=2, bias=1.0, alpha=2e-5, beta=0.75)
    yield case(op, x, name="unknown", depth_radius=2, unknown=True)
    yield case(op, x[:0], name="empty", depth_radius=2)
    yield case(op, x[..., :1], name="one channel", depth_radius=2)
    yield case(op, x[0], name="3 axes", depth_radius=2, unknown=True)


@samples("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", ulps=8, n_eps=4)
def _batch_norm(op: str) -> Iterator[Case]:
    kinds = ("float32",) if op == "FusedBatchNorm" else ("float32", "float16", "bfloat16")
    statistics = [numbers("float32", 3, start=start, low=low) for start, low in ((3, -2), (7, -3), (11, -1), (20, 1))]
    empty = numpy.zeros(0, "float32")
    for kind in kinds:
        x = numbers(kind, 2, 2, 2, 3)
        one = case(op, x, *statistics, name=f"{kind}, inference", is_training=False, epsilon=0.001)
        yield _first(one, 1)
        yield _first(case(op, x, *statistics[:2], empty, empty, name=f"{kind}, training", epsilon=0.001), 3)
    x = numbers("float32", 1, 3, 2, 3, start=2)
    options: dict[str, Any] = {"is_training": False, "epsilon": 0.001}
    yield _first(case(op, x, *statistics, name="unknown", unknown=True, **options), 1)
    yield _first(case(op, x, *statistics, name="constants", constants=(1, 2, 3, 4), **options), 1)
    yield _first(case(op, x[:0], *statistics, name="empty", **options), 1)
    yield _first(case(op, x, *statistics, name="average", exponential_avg_factor=0.25), 3)
    first = x.reshape(1, 3, 3, 2)
    yield _first(case(op, first, *statistics, name="channels first", data_format="NCHW", **options), 1)
    yield _first(case(op, first, *statistics[:2], empty, empty, name="channels first, training", data_format="NCHW"), 3)
    short = numbers("float32", 2)
    yield _first(case(op, x, short, *statistics[1:], name="short scale", unknown=True, **options), 1)
    yield _first(case(op, x, *statistics[:2], empty, empty, name="no statistics", unknown=True, **options), 1)
    yield _first(case(op, x[0], *statistics, name="3 axes", unknown=True, **options), 1)
    if op == "FusedBatchNormV3":
        x = numbers("float32", 1, 2, 2, 2, 3)
        yield _first(case(op, x, *statistics, name="5 axes", data_format="NDHWC", **options), 1)


def _first(whole: Case, count: int) -> Case:
    """The case with its first outputs only: the others are for the gradient, and each device has its own."""
    return Case(whole.op, whole.name, whole.nodes, whole.feeds, whole.fetches[:count], whole.types, whole.shapes)


@samples("DataFormatDimMap")
def _dim_map(op: str) -> Iterator[Case]:
    for kind in ("int32", "int64"):
        yield case(op, numpy.array([0, 1, 2, 3, -1, -2, -3, -4], kind), name=kind)
        yield case(op, numpy.array(2, kind), name=f"{kind}, scalar", src_format="NCHW", dst_format="NHWC")
    yield case(op, numpy.array([[0, 4]], "int32"), name="3-D", src_format="NDHWC", dst_format="NCDHW")
    yield case(op, numpy.array([0, 2], "int32"), name="three letters", src_format="HWC", dst_format="CHW")
    yield case(op, numpy.array([0, 2], "int32"), name="not the same letters", dst_format="NCHX")


@samples("DataFormatVecPermute")
def _vec_permute(op: str) -> Iterator[Case]:
    for kind in ("int32", "int64"):
        yield case(op, numpy.array([7, 4, 9, 3], kind), name=kind)
        yield case(op, numpy.array([[7, 0], [4, 1], [9, 2], [3, 3]], kind), name=f"{kind}, pairs")
        yield case(op, numpy.array([7, 4, 9, 3], kind), name=f"{kind}, back", src_format="NCHW", dst_format="NHWC")
    yield case(op, numpy.array([4, 9], "int32"), name="space only")
    yield case(op, numpy.array([4, 9], "int32"), name="space swapped", dst_format="NCWH")
    yield case(op, numpy.array([5, 4, 9, 3, 2], "int32"), name="3-D", src_format="NDHWC", dst_format="NCDHW")
    yield case(op, numpy.array([4, 9, 3], "int32"), name="three numbers", unknown=True)
    yield case(op, numpy.array(4, "int32"), name="scalar", unknown=True)
