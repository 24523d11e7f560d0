"""Samples of blocks: what engines recognise as one thing, and pairs of ops that they cancel or fold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ops.samples import Case, numbers, samples
from tfsmith.ops.samples.draft import Draft

__all__: list[str] = []

_F32 = "float32"


def _x(*shape: int, start: int = 0, low: int = -4, high: int = 4) -> Any:
    return numbers(_F32, *shape, start=start, low=low, high=high)


@samples("SquaredDifference Rsqrt", n_eps=32, ulps=16)
def _layer_norms(op: str) -> Iterator[Case]:
    for axes in ([-1], [2], [1, 2]):
        for spelling in ("as Keras", "as BERT", "by division"):
            if spelling == "by division" and op == "Rsqrt":
                continue
            draft = Draft()
            x = draft.feed(_x(2, 3, 4))
            mean = draft.add("Mean", x, draft.const(axes), keep_dims=True)
            variance = draft.add("Mean", draft.add("SquaredDifference", x, mean), draft.const(axes), keep_dims=True)
            stable = draft.add("AddV2", variance, draft.const(0.001))
            gamma, beta = draft.const(_x(4, start=3)), draft.const(_x(4, start=9))
            if spelling == "by division":
                y = draft.add("RealDiv", draft.add("Sub", x, mean), draft.add("Sqrt", stable))
                yield draft.case(op, f"{spelling}, axes {axes}", y)
                continue
            scale = draft.add("Mul", draft.add("Rsqrt", stable), gamma)
            if spelling == "as Keras":
                shift = draft.add("Sub", beta, draft.add("Mul", mean, scale))
                y = draft.add("AddV2", draft.add("Mul", x, scale), shift)
            else:
                y = draft.add("AddV2", draft.add("Mul", draft.add("Sub", x, mean), scale), beta)
            yield draft.case(op, f"{spelling}, axes {axes}", y)


@samples("Erf Tanh Pow Sigmoid Softplus Relu6", n_eps=16, ulps=16)
def _activations(op: str) -> Iterator[Case]:
    draft = Draft()
    x = draft.feed(_x(2, 3))
    if op == "Erf":
        inner = draft.add("Erf", draft.add("Mul", x, draft.const(0.70710677)))
        y = draft.add("Mul", x, draft.add("Mul", draft.const(0.5), draft.add("AddV2", inner, draft.const(1.0))))
        yield draft.case(op, "gelu", y)
        draft = Draft()
        x = draft.feed(_x(2, 3))
        inner = draft.add("AddV2", draft.const(1.0), draft.add("Erf", draft.add("RealDiv", x, draft.const(1.4142135))))
        yield draft.case(op, "gelu by division", draft.add("Mul", draft.add("Mul", draft.const(0.5), x), inner))
    elif op in ("Tanh", "Pow"):
        cube = draft.add("Pow", x, draft.const(3.0))
        inner = draft.add("AddV2", x, draft.add("Mul", cube, draft.const(0.044715)))
        inner = draft.add("Tanh", draft.add("Mul", inner, draft.const(0.7978846)))
        y = draft.add("Mul", x, draft.add("Mul", draft.const(0.5), draft.add("AddV2", inner, draft.const(1.0))))
        yield draft.case(op, "gelu by tanh", y)
    elif op == "Sigmoid":
        yield draft.case(op, "swish", draft.add("Mul", x, draft.add("Sigmoid", x)))
    elif op == "Softplus":
        yield draft.case(op, "mish", draft.add("Mul", x, draft.add("Tanh", draft.add("Softplus", x))))
    else:
        three = draft.add("Relu6", draft.add("AddV2", x, draft.const(3.0)))
        yield draft.case(op, "hard sigmoid", draft.add("Mul", three, draft.const(1 / 6)))
        draft = Draft()
        x = draft.feed(_x(2, 3))
        three = draft.add("RealDiv", draft.add("Relu6", draft.add("AddV2", x, draft.const(3.0))), draft.const(6.0))
        yield draft.case(op, "hard swish", draft.add("Mul", x, three))
    for kind in ("float16", "float64"):
        if op in ("Erf", "Tanh", "Sigmoid", "Softplus"):
            draft = Draft()
            x = draft.feed(numbers(kind, 2, 3))
            yield draft.case(op, f"times its input, {kind}", draft.add("Mul", x, draft.add(op, x)))


@samples("Maximum Minimum", exact=True)
def _clamps(op: str) -> Iterator[Case]:
    other = "Minimum" if op == "Maximum" else "Maximum"
    for low, high in ((-1.0, 1.0), (0.0, 6.0), (1.0, -1.0), (-numpy.inf, numpy.inf)):
        draft = Draft()
        y = draft.add(op, draft.feed(_x(2, 3)), draft.const(low if op == "Maximum" else high))
        y = draft.add(other, y, draft.const(high if op == "Maximum" else low))
        yield draft.case(op, f"clamped to {low}, {high}", y)
    draft = Draft()
    y = draft.add(op, draft.feed(numpy.array([numpy.nan, numpy.inf, -numpy.inf], "float32")), draft.const(0.0))
    yield draft.case(op, "NaN and infinities against 0", y)


@samples("Cast")
def _casts(op: str) -> Iterator[Case]:
    halves = numpy.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.75, -0.0, 7.0], "float32")
    for kind in ("int32", "int64", "bool", "float16", "float64", "int8", "uint8"):
        draft = Draft()
        x = draft.feed(numpy.abs(halves) if kind == "uint8" else halves)
        there = draft.add(op, x, DstT=kind)
        yield draft.case(op, f"float32 to {kind} and back", draft.add(op, there, DstT="float32"))
    draft = Draft()
    ones = draft.add(op, draft.feed(numpy.array([[1, 1, 0, 0]], "int32")), DstT="float32")
    mask = draft.add("Mul", draft.add("Sub", draft.const(1.0), ones), draft.const(-10000.0))
    yield draft.case(op, "mask of a BERT", mask)
    draft = Draft()
    y = draft.add(
        op, draft.add("NotEqual", draft.feed(numpy.array([1, 0, 3], "int32")), draft.const(0)), DstT="float32"
    )
    yield draft.case(op, "of a comparison", y)
    draft = Draft()
    wide = draft.add(op, draft.feed(numpy.array([1, 2**31, -(2**40), 5], "int64")), DstT="int32")
    yield draft.case(op, "int64 to int32 wraps, and back", draft.add(op, wide, DstT="int64"))
    draft = Draft()
    zero = draft.add("Equal", draft.feed(numpy.array([0, 1, 0, -0.0, 3], "float32")), draft.const(0.0))
    y = draft.add("Mean", draft.add(op, zero, DstT="float32"), draft.const([0]))
    yield draft.case(op, "zero fraction", y)
    draft = Draft()
    zero = draft.add("NotEqual", draft.feed(numpy.array([0, 1, 0, -0.0, 3], "float32")), draft.const(0.0))
    count = draft.add("Sum", draft.add(op, zero, DstT="int64"), draft.const([0]))
    left = draft.add("Sub", draft.const(numpy.array(5, "int64")), count)
    y = draft.add("RealDiv", draft.add(op, left, DstT="float32"), draft.const(5.0))
    yield draft.case(op, "zero fraction by counting", y)


@samples("Exp Log Sqrt Square Neg Reciprocal Abs Floor Round", ulps=8, n_eps=4)
def _pairs(op: str) -> Iterator[Case]:
    for inner in ("Exp", "Log", "Sqrt", "Square", "Neg", "Reciprocal", "Abs", "Relu"):
        draft = Draft()
        yield draft.case(op, f"of {inner}", draft.add(op, draft.add(inner, draft.feed(_x(2, 3, low=1, high=3)))))
    if op in ("Log", "Sqrt", "Reciprocal"):
        draft = Draft()
        y = draft.add(op, draft.add("AddV2", draft.feed(numpy.array([0, 1, 4], "float32")), draft.const(0.0)))
        yield draft.case(op, "of 0", y)


@samples("Transpose Reshape", exact=True)
def _moves(op: str) -> Iterator[Case]:
    for kind in ("float32", "int32", "int64", "bool", "float16", "float64", "string"):
        draft = Draft()
        x = draft.feed(numbers(kind, 2, 3, 4))
        y = draft.transpose(draft.transpose(x, (2, 0, 1)), (1, 2, 0))
        yield draft.case(op, f"{kind}, transposed there and back", y)
        draft = Draft()
        x = draft.feed(numbers(kind, 2, 3, 4))
        yield draft.case(op, f"{kind}, transposed twice", draft.transpose(draft.transpose(x, (2, 0, 1)), (0, 2, 1)))
        draft = Draft()
        x = draft.feed(numbers(kind, 2, 3, 4))
        yield draft.case(op, f"{kind}, reshaped twice", draft.reshape(draft.reshape(x, (6, 4)), (4, -1)))
        draft = Draft()
        x = draft.reshape(draft.feed(numbers(kind, 2, 12)), (2, 3, 2, 2))
        y = draft.reshape(draft.transpose(x, (0, 2, 1, 3)), (4, 6))
        yield draft.case(op, f"{kind}, heads", y)
    draft = Draft()
    x = draft.feed(_x(2, 3, 4))
    shape = draft.add("Shape", x, out_type="int32")
    ends = (draft.const([0]), draft.const([1]), draft.const([1]))
    batch = draft.add("StridedSlice", shape, *ends, shrink_axis_mask=1)
    y = draft.add("Reshape", x, draft.add("Pack", [batch, draft.const(-1)], axis=0))
    yield draft.case(op, "to the batch and the rest", draft.transpose(y, (1, 0)))


@samples("GatherV2", exact=True)
def _gathers(op: str) -> Iterator[Case]:
    table = _x(5, 4)
    draft = Draft()
    ids = draft.reshape(draft.feed(numpy.array([[0, 4, 2], [1, 1, 3]], "int32")), [-1])
    y = draft.reshape(draft.add(op, draft.const(table), ids, draft.const(0)), (2, 3, 4))
    yield draft.case(op, "embedding", y)
    for kind in ("int32", "int64"):
        for bad in (5, -1):
            draft = Draft()
            y = draft.add(op, draft.const(table), draft.feed(numpy.asarray([0, bad], kind)), draft.const(0))
            yield draft.case(op, f"{kind}, embedding of {bad}", y)
    draft = Draft()
    y = draft.add(op, draft.transpose(draft.feed(_x(2, 3, 4)), (2, 0, 1)), draft.const([1, 0]), draft.const(1))
    yield draft.case(op, "after a transpose", draft.transpose(y, (1, 2, 0)))
    draft = Draft()
    shape = draft.add("Shape", draft.feed(_x(2, 3, 4)), out_type="int32")
    yield draft.case(op, "of a shape", draft.add(op, shape, draft.const([2, 0]), draft.const(0)))


@samples("StridedSlice", exact=True)
def _slices(op: str) -> Iterator[Case]:
    draft = Draft()
    x = draft.feed(_x(2, 3, 4))
    first = draft.add(op, x, draft.const([0, 0, 0]), draft.const([0, 1, 0]), draft.const([1, 1, 1]),
                      begin_mask=5, end_mask=5)  # fmt: skip
    yield draft.case(op, "first token, squeezed", draft.add("Squeeze", first, squeeze_dims=[1]))
    draft = Draft()
    x = draft.transpose(draft.feed(_x(2, 3, 4)), (2, 1, 0))
    y = draft.add(op, x, draft.const([3, 0]), draft.const([0, 3]), draft.const([-2, 2]))
    yield draft.case(op, "backwards, after a transpose", y)
    draft = Draft()
    x = draft.feed(_x(2, 3, 4))
    y = draft.add(op, x, draft.const([0, 0]), draft.const([0, 0]), draft.const([1, 1]), ellipsis_mask=1,
                  new_axis_mask=2)  # fmt: skip
    yield draft.case(op, "new axis at the end", y)
    draft = Draft()
    x = draft.feed(_x(2, 3, 4))
    part = draft.add(op, x, draft.const([0, 0, 2]), draft.const([0, 0, 4]), draft.const([1, 1, 1]),
                     begin_mask=3, end_mask=3)  # fmt: skip
    rest = draft.add(op, x, draft.const([0, 0, 0]), draft.const([0, 0, 2]), draft.const([1, 1, 1]),
                     begin_mask=7, end_mask=3)  # fmt: skip
    yield draft.case(op, "halves joined the other way", draft.add("ConcatV2", [part, rest], draft.const(-1)))


@samples("ConcatV2 Split Pack Unpack", exact=True)
def _joins(op: str) -> Iterator[Case]:
    for axis in (0, 1, 2, -1):
        draft = Draft()
        a, b = draft.feed(_x(2, 2, 4)), draft.feed(_x(2, 2, 4, start=30))
        if op == "ConcatV2":
            y = draft.add(op, [draft.transpose(one, (2, 0, 1)) for one in (a, b)], draft.const(axis))
            yield draft.case(op, f"of transposes, axis {axis}", draft.transpose(y, (1, 2, 0)))
        elif op == "Pack":
            y = draft.add(op, [draft.add("Relu", a), draft.add("Neg", b)], axis=axis)
            yield draft.case(op, f"axis {axis}", y)
        elif op == "Split":
            y = draft.add(op, draft.const(axis), draft.transpose(a, (2, 0, 1)), num_split=2)
            y = draft.add("ConcatV2", [f"{y}:1", y], draft.const(axis))
            yield draft.case(op, f"swapped along axis {axis}", y)
        else:
            y = draft.add(op, a, num=(2, 2, 4)[axis], axis=axis)
            yield draft.case(op, f"first and last, axis {axis}", y, f"{y}:{(2, 2, 4)[axis] - 1}")


@samples("MaxPool AvgPool", n_eps=8)
def _pools(op: str) -> Iterator[Case]:
    window: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1]}
    for padding in ("SAME", "VALID"):
        draft = Draft()
        x = draft.add("Pad", draft.feed(_x(1, 3, 3, 2)), draft.const([[0, 0], [1, 1], [1, 1], [0, 0]]))
        yield draft.case(op, f"padded before, {padding}", draft.add(op, x, padding=padding, **window))
        draft = Draft()
        x = draft.transpose(draft.feed(_x(1, 2, 5, 5)), (0, 2, 3, 1))
        y = draft.transpose(draft.add(op, x, padding=padding, **window), (0, 3, 1, 2))
        yield draft.case(op, f"between transposes, {padding}", y)
        draft = Draft()
        y = draft.add("Relu", draft.add(op, draft.feed(_x(1, 5, 5, 2)), padding=padding, **window))
        yield draft.case(op, f"Relu, {padding}", y)
        draft = Draft()
        x = draft.feed(numpy.full((1, 3, 3, 1), -numpy.inf, numpy.float32))
        yield draft.case(op, f"of -inf, {padding}", draft.add(op, x, padding=padding, **window))


@samples("LRN", ulps=16, n_eps=16)
def _lrn(op: str) -> Iterator[Case]:
    for radius, bias, alpha, beta in (
        (5, 1.0, 1.0, 0.5),
        (1, 2.0, 0.25, 0.75),
        (2, 1.0, 0.0001, 0.75),
        (0, 1.0, 2.0, 1.0),
    ):
        draft = Draft()
        y = draft.add(op, draft.feed(_x(1, 2, 3, 5)), depth_radius=radius, bias=bias, alpha=alpha, beta=beta)
        yield draft.case(op, f"radius {radius}, alpha {alpha}, beta {beta}", y)
        draft = Draft()
        x = draft.transpose(draft.feed(_x(1, 5, 2, 3)), (0, 2, 3, 1))
        y = draft.add(op, x, depth_radius=radius, bias=bias, alpha=alpha, beta=beta)
        y = draft.transpose(y, (0, 3, 1, 2))
        yield draft.case(op, f"radius {radius}, alpha {alpha}, beta {beta}, between transposes", y)


@samples("SpaceToBatchND BatchToSpaceND", exact=True)
def _space(op: str) -> Iterator[Case]:
    for block, pads in (([2, 2], [[0, 0], [0, 0]]), ([2, 1], [[1, 1], [0, 0]]), ([2, 2], [[1, 1], [1, 1]])):
        draft = Draft()
        x = draft.add("SpaceToBatchND", draft.feed(_x(1, 4, 4, 2)), draft.const(block), draft.const(pads))
        y = draft.add("BatchToSpaceND", draft.add("Relu", x), draft.const(block), draft.const(pads))
        yield draft.case(op, f"there and back, block {block}, {pads}", y)
    for order in ((1, 0, 2, 3), (0, 2, 1, 3), (3, 1, 2, 0)):
        draft = Draft()
        ends = draft.const([2, 1]), draft.const([[1, 1], [0, 0]])
        yield draft.case(
            op,
            f"before transpose {list(order)}",
            draft.transpose(draft.add(op, draft.feed(_x(2, 4, 2, 4)), *ends), order),
        )
        yield draft.case(
            op,
            f"after transpose {list(order)}",
            draft.add(op, draft.transpose(draft.feed(_x(2, 2, 2, 2)), order), *ends),
        )
    draft = Draft()
    x = draft.feed(numpy.empty((0, 4, 4, 1), numpy.float32))
    y = draft.add("SpaceToBatchND", x, draft.const([2, 2]), draft.const([[0, 0], [0, 0]]))
    yield draft.case(op, "of no images", draft.add("BatchToSpaceND", y, draft.const([2, 2]), draft.const([[0, 0]] * 2)))
    draft = Draft()
    y = draft.add("SpaceToBatchND", draft.feed(_x(1, 4)), draft.const([0]), draft.const([[0, 0]]))
    y = draft.add("BatchToSpaceND", y, draft.const([0]), draft.const([[0, 0]]))
    yield draft.case(op, "block of 0", y)
    draft = Draft()
    y = draft.add("SpaceToBatchND", draft.feed(_x(1, 4)), draft.feed(numpy.array([0], "int32")), draft.const([[0, 0]]))
    y = draft.add("BatchToSpaceND", y, draft.const([1]), draft.const([[0, 0]]))
    yield draft.case(op, "block of 0 that is fed", y)


@samples("SelectV2 Where GatherNd", exact=True)
def _selections(op: str) -> Iterator[Case]:
    for shape in ((4,), (2, 3)):
        draft = Draft()
        x = draft.feed(_x(*shape))
        positive = draft.add("Greater", x, draft.const(0.0))
        if op == "SelectV2":
            yield draft.case(op, f"by sign, {shape}", draft.add(op, positive, x, draft.add("Neg", x)))
            draft = Draft()
            x = draft.feed(_x(*shape))
            y = draft.add(op, draft.add("Equal", x, draft.const(0.0)), draft.const(-numpy.inf), x)
            yield draft.case(op, f"-inf where 0, {shape}", y)
            continue
        where = draft.add("Where", positive)
        yield draft.case(op, f"boolean mask, {shape}", where, draft.add("GatherNd", x, where))
        draft = Draft()
        x = draft.feed(_x(*shape, low=-8, high=-4))
        where = draft.add("Where", draft.add("Greater", x, draft.const(0.0)))
        yield draft.case(op, f"boolean mask of nothing, {shape}", where, draft.add("GatherNd", x, where))


@samples("NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5", exact=True)
def _suppressions(op: str) -> Iterator[Case]:
    corners = [[0, 0, 1, 1], [0, 0.125, 1, 1.125], [0, -0.125, 1, 0.875], [0, 10, 1, 11], [0, 10.125, 1, 11.125]]
    extra = [0.0] if op == "NonMaxSuppressionV5" else []
    for kind in ("float32", "float16"):
        for most, overlap, least in ((3, 0.5, 0.0), (5, 0.875, 0.25), (5, 0.5, 0.875), (2, 0.0, 0.0)):
            draft = Draft()
            boxes = draft.feed(numpy.asarray(corners, kind))
            scores = draft.feed(numpy.asarray([0.875, 0.75, 0.625, 0.9375, 0.25], kind))
            limits = [draft.const(numpy.asarray(one, kind)) for one in (overlap, least, *extra)]
            y = draft.add(op, boxes, scores, draft.const(most), *limits)
            taken = draft.add("GatherV2", boxes, y, draft.const(0))
            yield draft.case(op, f"{kind}, most {most}, overlap {overlap}, score {least}", y, taken)


@samples("ResizeBilinear ResizeNearestNeighbor", ulps=8, n_eps=8)
def _resizes(op: str) -> Iterator[Case]:
    for align, centers in ((False, False), (True, False), (False, True)):
        for size in ([3, 5], [8, 2], [4, 4], [1, 1]):
            draft = Draft()
            x = draft.transpose(draft.feed(_x(1, 2, 4, 4)), (0, 2, 3, 1))
            y = draft.add(op, x, draft.const(size), align_corners=align, half_pixel_centers=centers)
            yield draft.case(op, f"to {size}, {align}, {centers}, after a transpose", y)


@samples("Mul AddV2 Sub RealDiv", ulps=8, n_eps=8)
def _folds(op: str) -> Iterator[Case]:
    for other in ("Mul", "AddV2", "Sub", "RealDiv"):
        for left in (False, True):
            draft = Draft()
            x = draft.feed(_x(2, 3, low=1, high=4))
            y = draft.add(op, draft.const(0.5), x) if left else draft.add(op, x, draft.const(0.5))
            yield draft.case(op, f"by a constant, then {other}{', left' if left else ''}",
                             draft.add(other, y, draft.const([2.0, -1.0, 0.25])))  # fmt: skip
    draft = Draft()
    yield draft.case(op, "with a fed 0", draft.add(op, draft.feed(_x(2, 3)), draft.feed(numpy.float32(0.0))))
    draft = Draft()
    yield draft.case(op, "with a constant 0", draft.add(op, draft.feed(_x(2, 3)), draft.const(0.0)))
    draft = Draft()
    odd = numpy.array([numpy.nan, numpy.inf, -numpy.inf, -0.0, 0.0], "float32")
    yield draft.case(op, "NaN and infinities with a constant 0", draft.add(op, draft.feed(odd), draft.const(0.0)))
    draft = Draft()
    yield draft.case(op, "with a constant 1", draft.add(op, draft.feed(odd), draft.const(1.0)))
    draft = Draft()
    x = draft.feed(_x(2, 3))
    yield draft.case(op, "with itself", draft.add(op, x, x))


@samples("Sum")
def _sparse_sums(op: str) -> Iterator[Case]:
    draft = Draft()
    indices = draft.feed(numpy.array([[0, 0], [0, 2], [1, 1]], "int64"))
    values = draft.feed(numpy.array([1, 2, 4], "float32"))
    whole = draft.add("SparseToDense", indices, draft.const(numpy.array([2, 3], "int64")), values, draft.const(0.0))
    yield draft.case(op, "of a sparse tensor made dense", draft.add(op, whole, draft.const([1])))
    draft = Draft()
    x = draft.feed(_x(3, 4))
    ids = draft.feed(numpy.array([0, 2, 1], "int32"))
    y = draft.add("SparseSegmentSum", x, ids, draft.feed(numpy.array([0, 0, 1], "int32")))
    yield draft.case(op, "of sums of segments", draft.add(op, y, draft.const([0])))
    squares = Draft()
    x = squares.feed(_x(2, 4))
    total = squares.add(op, squares.add("Square", x), squares.const([1]), keep_dims=True)
    length = squares.add("Rsqrt", squares.add("Maximum", total, squares.const(1e-12)))
    yield squares.case(op, "unit length", squares.add("Mul", x, length))
    parts = Draft()
    x = parts.feed(_x(2, 4))
    raised = parts.add("Exp", parts.add("Sub", x, parts.add("Max", x, parts.const([1]), keep_dims=True)))
    yield parts.case(
        op, "softmax in parts", parts.add("RealDiv", raised, parts.add(op, raised, parts.const([1]), keep_dims=True))
    )
