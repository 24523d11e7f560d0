"""Samples of chains: what engines fuse or move. Transposes and reshapes around an op, bias, activation, pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ops.samples import Case, numbers, samples
from tfsmith.ops.samples.draft import Draft

__all__: list[str] = []

_ORDERS = ((0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 0, 1))
_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
_F32 = "float32"


def _image(start: int = 0, channels: int = 3) -> Any:
    return numbers(_F32, 1, 4, 4, channels, start=start, low=-2, high=2)


def _around(op: str, kind: str = _F32, **attrs: Any) -> Iterator[Case]:
    """An op of one input after a transpose, between two, and between reshapes."""
    for order in _ORDERS:
        draft = Draft()
        inner = draft.add(op, draft.transpose(draft.feed(numbers(kind, 2, 3, 4)), order), **attrs)
        yield draft.case(op, f"{kind}, after transpose {list(order)}", inner)
        yield draft.case(op, f"{kind}, between transposes {list(order)}", draft.transpose(inner, order))
    draft = Draft()
    flat = draft.add(op, draft.reshape(draft.feed(numbers(kind, 2, 3, 4)), (6, 4)), **attrs)
    yield draft.case(op, f"{kind}, between reshapes", draft.reshape(flat, (2, 3, 4)))


@samples("LogSoftmax Softmax", ulps=8, n_eps=8)
def _softmaxes(op: str) -> Iterator[Case]:
    yield from _around(op)
    draft = Draft()
    x = draft.feed(numbers(_F32, 2, 2, 3, 4))
    yield draft.case(op, "channels first", draft.transpose(draft.add(op, draft.transpose(x, _TO_NHWC)), _TO_NCHW))
    draft = Draft()
    masked = draft.add("AddV2", draft.feed(numbers(_F32, 2, 4)), draft.const([0.0, -10000.0, 0.0, -10000.0]))
    yield draft.case(op, "masked by -10000", draft.add(op, masked))
    draft = Draft()
    masked = draft.add("AddV2", draft.feed(numbers(_F32, 2, 4)), draft.const([0.0, -numpy.inf, 0.0, -numpy.inf]))
    yield draft.case(op, "masked by -inf", draft.add(op, masked))
    draft = Draft()
    y = draft.add(op, draft.add("Mul", draft.feed(numbers(_F32, 2, 4)), draft.const(0.125)))
    yield draft.case(op, "scaled", y)


@samples("Relu Relu6 Elu Selu LeakyRelu Tanh Sigmoid Softplus Erf Neg Abs Square Exp", ulps=8, n_eps=4)
def _activations(op: str) -> Iterator[Case]:
    yield from _around(op)
    kernel = numbers(_F32, 2, 2, 3, 2, start=5, low=-1, high=1)
    for bias in (False, True):
        draft = Draft()
        y = draft.add("Conv2D", draft.feed(_image()), draft.const(kernel), strides=[1, 1, 1, 1], padding="SAME")
        if bias:
            y = draft.add("BiasAdd", y, draft.const([0.5, -0.25]))
        yield draft.case(op, f"after a convolution{' with bias' if bias else ''}", draft.add(op, y))
        draft = Draft()
        weight = draft.const(numbers(_F32, 4, 5, start=9, low=-1, high=1))
        y = draft.add("MatMul", draft.feed(numbers(_F32, 3, 4, low=-2, high=2)), weight)
        if bias:
            y = draft.add("BiasAdd", y, draft.const([0.5, -0.25, 0.0, 1.0, -1.0]))
        yield draft.case(op, f"after a product{' with bias' if bias else ''}", draft.add(op, y))
    draft = Draft()
    y = draft.add("AddV2", draft.feed(numbers(_F32, 2, 3)), draft.feed(numbers(_F32, 2, 3, start=7)))
    yield draft.case(op, "after a sum", draft.add(op, y))
    draft = Draft()
    y = draft.add(op, draft.feed(numbers(_F32, 2, 3, low=-1, high=1)))
    yield draft.case(op, "twice", draft.add(op, y))


@samples("Sum Mean Max Min Prod", ulps=8, n_eps=16)
def _reductions(op: str) -> Iterator[Case]:
    for keep in (False, True):
        for axes in ([0], [-1], [1], [0, 2], [0, 1, 2]):
            for order in ((0, 2, 1), (2, 0, 1)):
                draft = Draft()
                x = draft.transpose(draft.feed(numbers(_F32, 2, 3, 4)), order)
                y = draft.add(op, x, draft.const(axes), keep_dims=keep)
                kept = ", kept" if keep else ""
                yield draft.case(op, f"axes {axes} after transpose {list(order)}{kept}", y)
        draft = Draft()
        x = draft.transpose(draft.feed(_image()), _TO_NCHW)
        y = draft.add(op, x, draft.const([2, 3]), keep_dims=keep)
        y = draft.transpose(y, _TO_NHWC) if keep else y
        yield draft.case(op, f"global pooling, channels first{', kept' if keep else ''}", y)
    draft = Draft()
    y = draft.add(op, draft.reshape(draft.feed(numbers(_F32, 2, 3, 4)), (6, 4)), draft.const([1]))
    yield draft.case(op, "between reshapes", draft.reshape(y, (2, 3)))
    draft = Draft()
    y = draft.add(op, draft.feed(numbers(_F32, 2, 3, 4)), draft.const([2]))
    yield draft.case(op, "twice", draft.add(op, y, draft.const([1])))
    draft = Draft()
    y = draft.add(op, draft.feed(numpy.empty((2, 0), numpy.float32)), draft.const([1]))
    yield draft.case(op, "of nothing, then added", draft.add("AddV2", y, draft.const([1.0, 2.0])))
    draft = Draft()
    y = draft.add(op, draft.add("Cast", draft.feed(numbers("int32", 2, 3)), DstT="float32"), draft.const([0]))
    yield draft.case(op, "of what was cast", y)


@samples("ArgMax ArgMin")
def _argmax(op: str) -> Iterator[Case]:
    for axis in (0, 1, 2, -1):
        for order in _ORDERS:
            draft = Draft()
            x = draft.transpose(draft.feed(numbers(_F32, 2, 3, 4)), order)
            y = draft.add(op, x, draft.const(axis), output_type="int64")
            yield draft.case(op, f"axis {axis} after transpose {list(order)}", y)
    for kind in ("int32", "int64"):
        draft = Draft()
        x = draft.const(numpy.array([[1, 3, 3, 2], [5, 5, 5, 5], [-1, -2, -1, -2]], "float32"))
        y = draft.add(op, draft.add("Identity", x), draft.const(1), output_type=kind)
        yield draft.case(op, f"ties, {kind}", y)


@samples("TopKV2", exact=True)
def _topk(op: str) -> Iterator[Case]:
    for order in _ORDERS:
        for is_sorted in (True, False):
            draft = Draft()
            x = draft.transpose(draft.feed(numbers(_F32, 2, 3, 4)), order)
            y = draft.add(op, x, draft.const(2), sorted=is_sorted)
            if is_sorted:
                yield draft.case(op, f"after transpose {list(order)}", y, f"{y}:1")
            else:
                total = draft.add("Sum", y, draft.const([2]))
                yield draft.case(op, f"unsorted, after transpose {list(order)}, added up", total)
    for kind in ("float32", "int32"):
        draft = Draft()
        y = draft.add(op, draft.feed(numpy.asarray([[1, 3, 3, 2, 3], [5, 5, 5, 5, 5]], kind)), draft.const(4))
        yield draft.case(op, f"ties, {kind}", y, f"{y}:1")
    draft = Draft()
    x = draft.feed(numbers(_F32, 2, 4))
    y = draft.add(op, x, draft.const(2))
    picked = draft.add("GatherV2", draft.reshape(x, [-1]), f"{y}:1", draft.const(0))
    yield draft.case(op, "ids gathered by", picked)
    draft = Draft()
    y = draft.add(op, draft.feed(numpy.array([1, 3, -numpy.inf, numpy.inf, -1], "float32")), draft.const(5))
    yield draft.case(op, "infinities", y, f"{y}:1")


@samples("MatMul", n_eps=16)
def _matmul(op: str) -> Iterator[Case]:
    left, right = numbers(_F32, 3, 4, low=-2, high=2), numbers(_F32, 4, 5, start=3, low=-2, high=2)
    for constant in (False, True):
        said = "constant" if constant else "fed"
        for a in (False, True):
            for b in (False, True):
                draft = Draft()
                w = right.T if b else right
                y = draft.add(
                    op,
                    draft.feed(left.T if a else left),
                    draft.const(w) if constant else draft.feed(w),
                    transpose_a=a,
                    transpose_b=b,
                )
                yield draft.case(op, f"transposed {a}, {b}, weights {said}", y)
        draft = Draft()
        w = draft.const(right.T.copy()) if constant else draft.feed(right.T.copy())
        y = draft.add(op, draft.feed(left), draft.transpose(w, (1, 0)))
        yield draft.case(op, f"of a transpose, weights {said}", y)
        draft = Draft()
        w = draft.const(right) if constant else draft.feed(right)
        y = draft.add(op, draft.reshape(draft.feed(numbers(_F32, 2, 3, 4, low=-2, high=2)), (6, 4)), w)
        y = draft.reshape(draft.add("BiasAdd", y, draft.const([0.5, -0.25, 0.0, 1.0, -1.0])), (2, 3, 5))
        yield draft.case(op, f"dense layer of rank 3, weights {said}", y)
        draft = Draft()
        w = draft.const(right) if constant else draft.feed(right)
        y = draft.add("Mul", draft.add(op, draft.feed(left), w), draft.const([2.0, 0.5, 1.0, -1.0, 0.0]))
        yield draft.case(op, f"scaled, weights {said}", draft.add("AddV2", y, draft.const(0.5)))
    draft = Draft()
    table = draft.const(numbers(_F32, 4, 5, start=3))
    hot = draft.add(
        "OneHot", draft.feed(numpy.array([0, 3, 2], "int32")), draft.const(4), draft.const(1.0), draft.const(0.0)
    )
    yield draft.case(op, "embedding by one-hot", draft.add(op, hot, table))
    draft = Draft()
    y = draft.add(op, draft.feed(numpy.empty((0, 4), numpy.float32)), draft.const(right))
    yield draft.case(op, "of no rows", y)


@samples("BatchMatMulV2 BatchMatMulV3", n_eps=16)
def _attention(op: str) -> Iterator[Case]:
    kinds: dict[str, Any] = {"Tout": "float32"} if op == "BatchMatMulV3" else {}
    for by_flag in (False, True):
        draft = Draft()
        q, k, v = (draft.feed(numbers(_F32, 1, 3, 2, 2, start=one, low=-2, high=2)) for one in (0, 20, 40))
        q, k, v = (draft.transpose(one, (0, 2, 1, 3)) for one in (q, k, v))
        k = k if by_flag else draft.transpose(k, (0, 1, 3, 2))
        scores = draft.add("Mul", draft.add(op, q, k, adj_y=by_flag, **kinds), draft.const(0.5))
        mask = draft.add("Mul", draft.add("Sub", draft.const(1.0), draft.feed(numpy.array([[[[1, 1, 0]]]], "float32"))),
                         draft.const(-10000.0))  # fmt: skip
        probabilities = draft.add("Softmax", draft.add("AddV2", scores, mask))
        y = draft.transpose(draft.add(op, probabilities, v, **kinds), (0, 2, 1, 3))
        yield draft.case(op, f"attention{', adj_y' if by_flag else ''}", draft.reshape(y, (3, 4)))
    for shapes in (((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((1, 2), (2, 1))):
        for adj_x, adj_y in ((False, False), (True, False), (False, True), (True, True)):
            left, right = (numbers(_F32, *shape, start=n, low=-2, high=2) for n, shape in enumerate(shapes))
            draft = Draft()
            left = numpy.ascontiguousarray(left.swapaxes(-1, -2)) if adj_x else left
            right = numpy.ascontiguousarray(right.swapaxes(-1, -2)) if adj_y else right
            found = draft.add(op, draft.feed(left), draft.const(right), adj_x=adj_x, adj_y=adj_y, **kinds)
            yield draft.case(op, f"{shapes[0]} by {shapes[1]}, {adj_x}, {adj_y}", found)


_EQUATIONS = {
    "abc,cde->abde": ((2, 3, 4), (4, 2, 2)),
    "abcd,cde->abe": ((2, 3, 2, 2), (2, 2, 4)),
    "aecd,abcd->acbe": ((1, 3, 2, 4), (1, 2, 2, 4)),
    "acbe,aecd->abcd": ((1, 2, 3, 3), (1, 3, 2, 4)),
    "abcd,aecd->acbe": ((1, 3, 2, 4), (1, 2, 2, 4)),
    "abc,cd->abd": ((2, 3, 4), (4, 5)),
    "ab,bc->ac": ((3, 4), (4, 5)),
    "ab,cb->ac": ((3, 4), (5, 4)),
    "abc,abd->acd": ((2, 3, 2), (2, 3, 4)),
    "abc,adc->abd": ((2, 3, 4), (2, 2, 4)),
    "abc,acd->abd": ((2, 3, 4), (2, 4, 2)),
    "abcd,abed->abce": ((1, 2, 3, 4), (1, 2, 2, 4)),
    "abcd,abde->abce": ((1, 2, 3, 4), (1, 2, 4, 2)),
    "a,a->a": ((4,), (4,)),
    "a,b->ab": ((3,), (4,)),
    "ab->ba": ((3, 4),),
    "ab->a": ((3, 4),),
    "aa->a": ((3, 3),),
    "...ab,...bc->...ac": ((2, 3, 4), (4, 5)),
    "...a,ab->...b": ((2, 3, 4), (4, 5)),
    "abc,bcd->ad": ((2, 3, 4), (3, 4, 2)),
    "abc,dc->abd": ((2, 3, 4), (5, 4)),
    "abc,dec->abde": ((2, 3, 4), (2, 2, 4)),
}


@samples("Einsum", n_eps=16)
def _einsum(op: str) -> Iterator[Case]:
    for equation, shapes in _EQUATIONS.items():
        for constant in (False, True) if len(shapes) > 1 else (False,):
            draft = Draft()
            values = [numbers(_F32, *shape, start=n * 7, low=-2, high=2) for n, shape in enumerate(shapes)]
            first, *others = values
            names = [draft.feed(first), *(draft.const(one) if constant else draft.feed(one) for one in others)]
            y = draft.add(op, names, equation=equation)
            yield draft.case(op, f"{equation}{', constant weights' if constant else ''}", y)
    draft = Draft()
    w = draft.const(numbers(_F32, 4, 2, 2, start=7, low=-2, high=2))
    y = draft.add(op, [draft.feed(numbers(_F32, 2, 3, 4, low=-2, high=2)), w], equation="abc,cde->abde")
    y = draft.add("AddV2", y, draft.const(numbers(_F32, 2, 2)))
    yield draft.case(op, "with bias, transposed", draft.transpose(y, (0, 2, 1, 3)))


@samples("Conv2D DepthwiseConv2dNative", n_eps=16)
def _convolutions(op: str) -> Iterator[Case]:
    deep = op != "Conv2D"
    kernel = numbers(_F32, 2, 2, 3, 1 if deep else 2, start=5, low=-1, high=1)
    outputs = 3 if deep else 2
    bias = numbers(_F32, outputs, start=2)
    usual: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    for activation in (None, "Relu", "Relu6", "Elu", "Tanh", "Sigmoid", "LeakyRelu"):
        for strides in ([1, 1, 1, 1], [1, 2, 2, 1]):
            for padding in ("SAME", "VALID"):
                draft = Draft()
                y = draft.add(op, draft.feed(_image()), draft.const(kernel), strides=strides, padding=padding)
                y = draft.add("BiasAdd", y, draft.const(bias))
                y = y if activation is None else draft.add(activation, y)
                yield draft.case(op, f"bias, {activation}, strides {strides[1]}, {padding}", y)
    for activation in ("Identity", "Relu", "Relu6"):
        draft = Draft()
        y = draft.add(op, draft.feed(_image()), draft.const(kernel), **usual)
        scale, mean, variance = (numbers(_F32, outputs, start=n, low=1, high=3) for n in (1, 2, 3))
        parts = (draft.const(one) for one in (scale, bias, mean, variance))
        y = draft.add("FusedBatchNormV3", y, *parts, is_training=False, epsilon=0.001)
        yield draft.case(op, f"batch norm, {activation}", draft.add(activation, y))
    draft = Draft()
    y = draft.add("AddV2", draft.add(op, draft.feed(_image()), draft.const(kernel), **usual),
                  draft.feed(numbers(_F32, 1, 4, 4, outputs)))  # fmt: skip
    yield draft.case(op, "residual, Relu", draft.add("Relu", y))
    draft = Draft()
    y = draft.add("Pad", draft.feed(_image()), draft.const([[0, 0], [1, 1], [1, 1], [0, 0]]))
    y = draft.add(op, y, draft.const(kernel), strides=[1, 2, 2, 1], padding="VALID")
    yield draft.case(op, "padded before", y)
    draft = Draft()
    x = draft.transpose(draft.feed(numbers(_F32, 1, 3, 4, 4, low=-2, high=2)), _TO_NHWC)
    y = draft.transpose(draft.add(op, x, draft.const(kernel), **usual), _TO_NCHW)
    yield draft.case(op, "between transposes", y)
    draft = Draft()
    y = draft.add(op, draft.feed(_image()), draft.const(kernel), **usual)
    y = draft.add("Mul", y, draft.const(numbers(_F32, outputs, start=4)))
    yield draft.case(op, "scaled and shifted", draft.add("AddV2", y, draft.const(bias)))
    draft = Draft()
    x = draft.add("Sub", draft.add("Mul", draft.feed(_image()), draft.const(0.5)), draft.const([1.0, 0.5, -0.5]))
    yield draft.case(op, "normalised before", draft.add(op, x, draft.const(kernel), **usual))
    draft = Draft()
    small = numbers(_F32, 1, 1, 3, 2, start=5, low=-1, high=1)
    yield draft.case(op, "kernel 1x1", draft.add(op, draft.feed(_image()), draft.const(small), **usual))
    draft = Draft()
    x = draft.add("SpaceToBatchND", draft.feed(_image()), draft.const([2, 2]), draft.const([[1, 1], [1, 1]]))
    y = draft.add(op, x, draft.const(kernel), strides=[1, 1, 1, 1], padding="VALID")
    y = draft.add("BatchToSpaceND", y, draft.const([2, 2]), draft.const([[0, 0], [0, 0]]))
    yield draft.case(op, "dilated by space to batch", y)
    for dilation in (2, 3):
        for padding in ("SAME", "VALID"):
            draft = Draft()
            y = draft.add(op, draft.feed(_image()), draft.const(kernel), strides=[1, 1, 1, 1], padding=padding,
                          dilations=[1, dilation, dilation, 1])  # fmt: skip
            yield draft.case(op, f"dilated by {dilation}, {padding}", y)
    draft = Draft()
    yield draft.case(op, "kernel that is fed", draft.add(op, draft.feed(_image()), draft.feed(kernel), **usual))
