"""Samples of gradients: of elementwise ops, convolution, pooling, norms and resizing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, numbers, samples, small, types_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_FLOATS = ("float32", "float64", "float16", "bfloat16")


@samples("MaxPoolGrad MaxPoolGradV2", n_eps=4)
def _max_pool(op: str) -> Iterator[Case]:
    x = numbers("float32", 1, 4, 3, 2)
    for ksize, strides, padding, shape in (
        ([1, 2, 2, 1], [1, 2, 2, 1], "SAME", (1, 2, 2, 2)), ([1, 3, 2, 1], [1, 1, 1, 1], "SAME", (1, 4, 3, 2)),
        ([1, 2, 2, 1], [1, 1, 1, 1], "VALID", (1, 3, 2, 2)),
    ):  # fmt: skip
        name = f"{padding}, {ksize[1:3]} by {strides[1:3]}"
        y = _greatest(x, ksize[1:3], strides[1:3], padding, shape)
        yield _pool_case(op, x, y, numbers("float32", *shape, start=60), name, ksize, strides, padding)
    y = numpy.zeros((1, 2, 1, 2), "float32")
    yield _pool_case(op, x * 0, y, y + 2, "ties", [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    yield _pool_case(op, x, y[:, :1], y, "other size", [1, 2, 2, 1], [1, 2, 2, 1], "VALID", unknown=True)


def _pool_case(op: str, x: NDArray[Any], y: NDArray[Any], back: NDArray[Any], name: str, ksize: list[int],
               strides: list[int], padding: str, *, unknown: bool = False) -> Case:  # fmt: skip
    """The window is an attribute of the first version, and an input of the second."""
    if op == "MaxPoolGrad":
        return case(op, x, y, back, name=name, ksize=ksize, strides=strides, padding=padding, unknown=unknown)
    sizes = [numpy.array(one, "int32") for one in (ksize, strides)]
    return case(op, x, y, back, *sizes, name=name, padding=padding, unknown=unknown)


def _greatest(x: NDArray[Any], size: list[int], step: list[int], padding: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """What the pooling itself gives."""
    before = [
        max((count - 1) * move + reach - whole, 0) // 2 if padding == "SAME" else 0
        for count, move, reach, whole in zip(shape[1:3], step, size, x.shape[1:3], strict=True)
    ]
    found = numpy.empty(shape, x.dtype)
    for row, column in numpy.ndindex(*shape[1:3]):
        top, left = row * step[0] - before[0], column * step[1] - before[1]
        part = x[:, max(top, 0) : top + size[0], max(left, 0) : left + size[1]]
        found[:, row, column] = part.max((1, 2))
    return found


@samples("AvgPoolGrad", n_eps=4)
def _avg_pool(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        yield case(op, numpy.array([1, 4, 4, 2], "int32"), numbers(kind, 1, 2, 2, 2), name=kind, ksize=[1, 2, 2, 1],
                   strides=[1, 2, 2, 1], padding="VALID", constants=(0,))  # fmt: skip
    yield case(op, numpy.array([1, 5, 3, 2], "int32"), numbers("float32", 1, 3, 2, 2), name="SAME", ksize=[1, 3, 2, 1],
               strides=[1, 2, 2, 1], padding="SAME", constants=(0,))  # fmt: skip


@samples("AvgPool3DGrad", n_eps=4)
def _avg_pool_3d(op: str) -> Iterator[Case]:
    for kind in ("float32", "bfloat16"):
        for padding, shape in (("SAME", (1, 2, 2, 2, 2)), ("VALID", (1, 1, 1, 2, 2))):
            yield case(op, numpy.array([1, 3, 3, 4, 2], "int32"), numbers(kind, *shape), name=f"{kind}, {padding}",
                       ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding=padding, constants=(0,))  # fmt: skip


@samples("BiasAddGrad", n_eps=8)
def _bias_add(op: str) -> Iterator[Case]:
    for kind in (*_FLOATS, "int32", "int64", "uint8", "int8"):
        yield case(op, small(kind, 4, 3) if kind in _FLOATS else numbers(kind, 4, 3), name=kind)
    x = numbers("float32", 2, 3, 2, 2)
    yield case(op, x, name="4 axes")
    yield case(op, x, name="channels first", data_format="NCHW")
    yield case(op, x[:0], name="empty")
    yield case(op, x[0, 0, 0], name="a vector", unknown=True)


@samples("Conv2DBackpropFilter DepthwiseConv2dNativeBackpropFilter", n_eps=8)
def _conv_filter(op: str) -> Iterator[Case]:
    depthwise = op.startswith("Depthwise")
    shape = numpy.array([2, 2, 2, 2] if depthwise else [2, 2, 2, 4], "int32")
    for kind in _FLOATS:
        yield case(op, small(kind, 1, 4, 4, 2), shape, small(kind, 1, 3, 3, 4, start=9), name=kind,
                   strides=[1, 1, 1, 1], padding="VALID", constants=(1,))  # fmt: skip
    x = numbers("float32", 1, 5, 5, 2)
    yield case(op, x, shape, numbers("float32", 1, 3, 3, 4, start=9), name="SAME, strides", strides=[1, 2, 2, 1],
               padding="SAME", constants=(1,))  # fmt: skip
    yield case(op, x, shape, numbers("float32", 1, 2, 3, 4, start=9), name="other size", strides=[1, 2, 2, 1],
               padding="SAME", unknown=True)  # fmt: skip


@samples("Conv3DBackpropFilterV2", n_eps=8)
def _conv3d_filter(op: str) -> Iterator[Case]:
    shape = numpy.array([2, 2, 2, 2, 3], "int32")
    for kind in _FLOATS:
        yield case(op, small(kind, 1, 3, 3, 3, 2), shape, small(kind, 1, 2, 2, 2, 3, start=9), name=kind,
                   strides=[1, 1, 1, 1, 1], padding="VALID", constants=(1,))  # fmt: skip
    yield case(op, numbers("float32", 1, 3, 3, 3, 2), shape, numbers("float32", 1, 2, 2, 2, 3, start=9),
               name="SAME, strides", strides=[1, 2, 2, 2, 1], padding="SAME", constants=(1,))  # fmt: skip


@samples("FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3", ulps=16, n_eps=16)
def _batch_norm(op: str) -> Iterator[Case]:
    statistics = [numbers("float32", 3, start=start, low=low) for start, low in ((3, -2), (11, -1), (20, 1))]
    rest = [numpy.float32(0)] if op.endswith("V3") else []
    for kind in ("float32",) if op == "FusedBatchNormGrad" else ("float32", "float16", "bfloat16"):
        x, back = numbers(kind, 2, 2, 2, 3), numbers(kind, 2, 2, 2, 3, start=50)
        for training in (False, True):
            whole = case(op, back, x, *statistics, *rest, name=f"{kind}, training {training}", is_training=training,
                         epsilon=0.001)  # fmt: skip
            yield Case(whole.op, whole.name, whole.nodes, whole.feeds, whole.fetches[:3], whole.types, whole.shapes)


@samples("ResizeBilinearGrad", n_eps=8)
def _resize_bilinear(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        yield case(op, numbers("float32", 1, 3, 5, 2), numbers(kind, 1, 4, 2, 2), name=kind)
    modes: tuple[dict[str, Any], ...] = ({}, {"align_corners": True}, {"half_pixel_centers": True})
    for mode in modes:
        for shape in ((1, 6, 4, 1), (1, 2, 2, 1), (1, 1, 1, 1)):
            yield case(op, numbers("float32", *shape), numbers("float32", 1, 3, 4, 1), name=f"{shape}, {mode}", **mode)


@samples("ResizeNearestNeighborGrad", n_eps=8)
def _resize_nearest(op: str) -> Iterator[Case]:
    for kind in (*_FLOATS, "int32", "uint8", "int8"):
        yield case(op, numbers(kind, 1, 3, 5, 2), numpy.array([4, 2], "int32"), name=kind)
    modes: tuple[dict[str, Any], ...] = ({}, {"align_corners": True}, {"half_pixel_centers": True})
    for mode in modes:
        for shape in ((1, 6, 4, 1), (1, 2, 2, 1)):
            yield case(op, numbers("float32", *shape), numpy.array([3, 4], "int32"), name=f"{shape}, {mode}", **mode)


# Of elementwise ops


_EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 6.0, 7.0, float("inf"), -float("inf"), float("nan"))


@samples("TanhGrad SigmoidGrad InvGrad ReciprocalGrad SqrtGrad RsqrtGrad", ulps=8, n_eps=8)
def _of_result(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        if op in ("TanhGrad", "SigmoidGrad") and kind.startswith("complex"):
            continue
        y, dy = numbers(kind, 3, 4, low=1, high=3), numbers(kind, 3, 4, start=30)
        yield case(op, y, dy, name=kind)
    yield case(op, numbers("float32", 0), numbers("float32", 0), name="empty")
    yield case(op, numbers("float32", low=1), numbers("float32", start=3), name="scalars")
    yield case(op, numbers("float32", 2, 3), numbers("float32", 3), name="shapes differ", unknown=True)


@samples("ReluGrad Relu6Grad LeakyReluGrad EluGrad SeluGrad SoftplusGrad SoftsignGrad", ulps=8, n_eps=4)
def _of_activation(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        low, high = (-1, 2) if op in ("EluGrad", "SeluGrad") else (-8, 8)
        yield case(op, numbers(kind, 3, 4, start=30), numbers(kind, 3, 4, low=low, high=high), name=kind)
        if kind.startswith(("float", "bfloat")):
            x = numpy.array(_EDGES).astype(as_dtype(kind).numpy())
            yield case(op, numbers(kind, len(_EDGES), start=30), x, name=f"{kind}, edges")
    if op == "LeakyReluGrad":
        yield case(op, numbers("float32", 6, start=30), numbers("float32", 6), name="alpha", alpha=0.5)
    yield case(op, numbers("float32", 0), numbers("float32", 0), name="empty")
    yield case(op, numbers("float32", 2, 3), numbers("float32", 3), name="shapes differ", unknown=True)
