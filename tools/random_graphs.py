"""Random small graphs on the reference engine and under `auto`, held against the installed TensorFlow.

    python -m tools.random_graphs --count 1000            graphs of three to eight ops; prints what is not equal
    python -m tools.random_graphs --start 41 --count 1    graph 41 again; each number is the same graph everywhere

The conformance suite has the cases that somebody thought of; these are the others. A graph is fed, asked for its last
tensors alone (so that engines fuse what they can), and the reference engine is asked for every tensor, so that the
first one that differs names the op. The exit code is 1 where an answer is wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy
from tools.make_conformance import TensorFlow

from tfsmith.errors import TfsmithError
from tfsmith.ir.node import parse_input
from tfsmith.ir.opdef import builtin_ops
from tfsmith.ir.types import DType, Shape, as_dtype
from tfsmith.ops.samples import Case, Tolerance
from tfsmith.ops.samples.draft import Draft
from tfsmith.ops.values import OpError, compute
from tfsmith.records import replace
from tfsmith.testing.conformance.equality import difference
from tfsmith.testing.conformance.isolated import engine_compute

__all__ = ["RandomGraph", "compare_graph", "main", "random_graph"]

Array = Any
_FLOATS = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
_WHOLE = ("int32", "int32", "int64", "uint8", "int8", "int16")
_MOST = 600
"""Elements of a tensor, at most."""
_ONE = Tolerance(False, 8, 16)
_NEAR = Tolerance(False, 64, 64)
"""What a few ops after each other may differ: each one's error is the next one's input."""
_REFUSED = (OpError, TfsmithError, ValueError, IndexError, TypeError, KeyError, OverflowError, ArithmeticError)


class RandomGraph:
    """A graph that is being made: a draft, and the value of each tensor so far."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.draft = Draft()
        self.values: dict[str, Array] = {}
        self.last: list[str] = []
        self.refused = False
        self.open: set[str] = set()

    def pick(self, wanted: Callable[[Array], bool]) -> str | None:
        """A tensor of this kind, of those that were made last if there is one."""
        names = [name for name in self.values if wanted(self.values[name])]
        new = [name for name in names if name in self.last]
        chosen = new if new and self.random.random() < 0.8 else names
        return self.random.choice(chosen) if chosen else None

    def given(self, values: Any, kind: str, *, constant: float = 0.6) -> str:
        """A constant or something that is fed."""
        array = numpy.asarray(values).astype(as_dtype(kind).numpy())
        name = self.draft.const(array, kind) if self.random.random() < constant else self.draft.feed(array, kind)
        if name[0] == "x" and self.random.random() < 0.3:
            self.open.add(name)
        self.values[name] = array
        return name

    def floats(self, kind: str, shape: Sequence[int]) -> str:
        return self.given(self.numbers(kind, shape), kind)

    def numbers(self, kind: str, shape: Sequence[int]) -> Array:
        """Numbers of a type; seldom with infinities, NaN, or none at all."""
        count = int(numpy.prod(shape, dtype=numpy.int64))
        rng = self.random
        if kind == "bool":
            return numpy.array([rng.random() < 0.5 for _ in range(count)]).reshape(shape)
        if "int" in kind:
            low, high = 0 if kind[0] == "u" else -9, 9
            if rng.random() < 0.15:
                low, high = int(numpy.iinfo(kind).min), int(numpy.iinfo(kind).max)
            return numpy.array([rng.randint(low, high) for _ in range(count)], kind).reshape(shape)
        spread = rng.choice([1, 4, 4, 16])
        found = numpy.array([rng.uniform(-spread, spread) for _ in range(count)], float)
        if rng.random() < 0.5:
            found = numpy.rint(found * 32) / 32
        if count and rng.random() < 0.06:
            found[rng.randrange(count)] = rng.choice([numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0])
        return found.reshape(shape)

    def shape(self, least: int = 0, most: int = 4) -> list[int]:
        sizes = [1, 2, 2, 3, 3, 4, 5] + ([0] if self.random.random() < 0.05 else [])
        return [self.random.choice(sizes) for _ in range(self.random.randint(least, most))]

    def add(self, op: str, *inputs: Any, **attrs: Any) -> bool:
        """Adds a node, if it computes something of a reasonable size."""
        definition = builtin_ops()[op]
        before = len(self.draft._nodes)
        name = self.draft.add(op, *inputs, **attrs)
        node = self.draft._nodes[-1]
        flat = [self.values[one] for part in inputs for one in ([part] if isinstance(part, str) else part)]
        try:
            found = compute(op, flat, definition.with_defaults(node.attrs))
        except _REFUSED:
            if self.random.random() < 0.1:  # what an engine must refuse, too
                self.refused = True
                self.last = [name]
                return True
            del self.draft._nodes[before:]
            return False
        if any(numpy.asarray(one).size > _MOST for one in found):
            del self.draft._nodes[before:]
            return False
        if "BatchNorm" in op:
            found = found[:1]  # TensorFlow leaves what is for training as the memory was
        names = [name if at == 0 else f"{name}:{at}" for at in range(len(found))]
        self.values.update(dict(zip(names, found, strict=True)))
        self.last = names
        return True


Maker = Callable[[RandomGraph], bool]
_MAKERS: list[tuple[Maker, int]] = []


def _maker(weight: int = 1) -> Callable[[Maker], Maker]:
    def declare(function: Maker) -> Maker:
        _MAKERS.append((function, weight))
        return function

    return declare


def _name(array: Array) -> str:
    return as_dtype(array.dtype).name if array.dtype.kind != "O" else "string"


def _is_float(array: Array) -> bool:
    return "float" in _name(array)


def _is_number(array: Array) -> bool:
    return _name(array) not in ("bool", "string")


def _allows(op: str, kind: str, name: str = "T") -> bool:
    for one in builtin_ops()[op].attrs:
        if one.name == name:
            return not one.allowed or kind in [found.name for found in one.allowed if isinstance(found, DType)]
    return True


def _words(text: str) -> list[str]:
    return text.split()


_UNARY = _words(
    "Abs Neg Exp Log Log1p Expm1 Sqrt Rsqrt Square Sin Cos Tan Tanh Sigmoid Relu Relu6 Elu Selu Softplus "
    "Softsign Floor Ceil Round Rint Sign Erf Erfc Reciprocal Inv Atan Asin Acos Asinh Acosh Atanh Sinh Cosh "
    "IsNan IsInf IsFinite Lgamma Digamma Identity ZerosLike OnesLike StopGradient Invert LogicalNot Snapshot "
    "Ndtri Erfinv LeakyRelu "
)
_BINARY = _words(
    "Add AddV2 Sub Mul RealDiv Div DivNoNan Maximum Minimum Pow SquaredDifference FloorDiv FloorMod "
    "TruncateDiv TruncateMod Mod Greater GreaterEqual Less LessEqual Equal NotEqual Atan2 Xlogy Xdivy Xlog1py "
    "MulNoNan NextAfter BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift LogicalAnd LogicalOr "
)


@_maker(14)
def _unary(g: RandomGraph) -> bool:
    op = g.random.choice(_UNARY)
    x = g.pick(lambda one: _allows(op, _name(one)) and (op != "LogicalNot" or one.dtype == bool))
    if x is None:
        return False
    attrs = {"alpha": g.random.choice([0.1, 0.25, 0.0, 1.5, -0.5])} if op == "LeakyRelu" else {}
    return g.add(op, x, **attrs)


@_maker(16)
def _binary(g: RandomGraph) -> bool:
    op = g.random.choice(_BINARY)
    logical = op.startswith("Logical")
    x = g.pick(lambda one: _allows(op, _name(one)) and (not logical or one.dtype == bool))
    if x is None:
        return False
    array = g.values[x]
    kind = _name(array)
    y = (
        g.pick(lambda one: one.dtype == array.dtype and _fits(one.shape, array.shape))
        if g.random.random() < 0.4
        else None
    )
    if y is None:
        shape = [size if g.random.random() < 0.7 else 1 for size in array.shape][g.random.randint(0, array.ndim) :]
        if g.random.random() < 0.1:
            shape = [g.random.choice([1, 2]), *list(array.shape)]
        y = g.floats(kind, shape)
    pair = (x, y) if g.random.random() < 0.6 else (y, x)
    return g.add(op, *pair)


def _fits(one: Sequence[int], other: Sequence[int]) -> bool:
    return all(a == b or a == 1 or b == 1 for a, b in zip(reversed(one), reversed(other), strict=False))


@_maker(10)
def _reduce(g: RandomGraph) -> bool:
    op = g.random.choice(["Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "EuclideanNorm", "ArgMax", "ArgMin"])
    wants_bool = op in ("All", "Any")
    x = g.pick(lambda one: (one.dtype == bool) == wants_bool and one.dtype.kind != "O" and one.dtype.kind != "c")
    if x is None:
        return False
    rank = g.values[x].ndim
    if op.startswith("Arg"):
        if not rank:
            return False
        axis = g.given(g.random.randint(-rank, rank - 1), "int32", constant=0.9)
        return g.add(op, x, axis, output_type=g.random.choice(["int32", "int64"]))
    axes = g.random.sample(range(rank), g.random.randint(0, rank))
    axes = [axis - rank if g.random.random() < 0.4 else axis for axis in axes]
    single = len(axes) == 1 and g.random.random() < 0.4
    kind = g.random.choice(["int32", "int32", "int64"])
    return g.add(op, x, g.given(axes[0] if single else axes, kind, constant=0.9), keep_dims=g.random.random() < 0.5)


@_maker(4)
def _cast(g: RandomGraph) -> bool:
    x = g.pick(lambda one: one.dtype.kind != "O")
    if x is None:
        return False
    to = g.random.choice([*_FLOATS, *_WHOLE, "bool", "uint16", "uint32", "uint64"])
    if "int" in to and _is_float(g.values[x]):
        array, limits = g.values[x].astype(float), numpy.iinfo(to)
        if not ((array > limits.min - 1) & (array < limits.max + 1)).all():
            return False  # what TensorFlow makes of others depends on their place in the tensor
    return g.add("Cast", x, DstT=to, Truncate=False)


@_maker(8)
def _transpose(g: RandomGraph) -> bool:
    x = g.pick(lambda one: one.ndim > 1)
    if x is None:
        return False
    order = list(range(g.values[x].ndim))
    g.random.shuffle(order)
    return g.add("Transpose", x, g.given(order, "int32", constant=0.95))


@_maker(8)
def _reshape(g: RandomGraph) -> bool:
    x = g.pick(lambda one: True)
    assert x is not None
    size = g.values[x].size
    dims: list[int] = []
    left = size
    while left > 1 and len(dims) < 4:
        divisor = g.random.choice([d for d in range(1, left + 1) if left % d == 0])
        dims.append(divisor)
        left //= divisor
    if left != 1:
        dims.append(left)
    if dims and size and g.random.random() < 0.4:
        dims[g.random.randrange(len(dims))] = -1
    op = g.random.choice(["Reshape", "Reshape", "Reshape", "ExpandDims", "Squeeze"])
    rank = g.values[x].ndim
    if op == "ExpandDims":
        return g.add(op, x, g.given(g.random.randint(-rank - 1, rank), "int32", constant=0.95))
    if op == "Squeeze":
        ones = [axis for axis, one in enumerate(g.values[x].shape) if one == 1]
        return g.add(op, x, squeeze_dims=g.random.sample(ones, g.random.randint(0, len(ones))))
    return g.add(op, x, g.given(dims, g.random.choice(["int32", "int64"]), constant=0.9))


@_maker(6)
def _join(g: RandomGraph) -> bool:
    op = g.random.choice(["ConcatV2", "Pack", "Concat"])
    x = g.pick(lambda one: one.ndim > 0 or op == "Pack")
    if x is None:
        return False
    array = g.values[x]
    rank = array.ndim
    parts = [x]
    axis = g.random.randint(-rank - (op == "Pack"), rank - (op != "Pack"))
    for _ in range(g.random.randint(0 if op == "Pack" else 1, 2)):
        shape = list(array.shape)
        if op != "Pack":
            shape[axis] = g.random.choice([1, 2, 3])
        parts.append(x if g.random.random() < 0.3 or _name(array) == "string" else g.floats(_name(array), shape))
    if op == "Pack":
        return g.add(op, parts, axis=axis)
    place = g.given(axis % rank if op == "Concat" else axis, "int32", constant=1)
    return g.add(op, place, parts) if op == "Concat" else g.add(op, parts, place)


@_maker(5)
def _split(g: RandomGraph) -> bool:
    x = g.pick(lambda one: one.ndim > 0 and one.size > 0)
    if x is None:
        return False
    array = g.values[x]
    axis = g.random.randint(-array.ndim, array.ndim - 1)
    size = array.shape[axis]
    op = g.random.choice(["Split", "SplitV", "Unpack"])
    if op == "Unpack":
        return g.add(op, x, axis=axis, num=size)
    place = g.given(axis, "int32", constant=1)
    if op == "Split":
        return g.add(op, place, x, num_split=g.random.choice([d for d in range(1, size + 1) if size % d == 0]))
    cut = g.random.randint(0, size)
    sizes = g.random.choice([[cut, size - cut], [cut, -1], [-1, size - cut]])
    return g.add(op, x, g.given(sizes, "int32", constant=0.95), place, num_split=2)


@_maker(10)
def _slices(g: RandomGraph) -> bool:
    op = g.random.choice(["Slice", "StridedSlice", "StridedSlice", "StridedSlice"])
    x = g.pick(lambda one: one.ndim > 0)
    if x is None:
        return False
    array = g.values[x]
    rank = array.ndim
    constant = 1 if g.random.random() < 0.85 else 0
    if op == "Slice":
        begin = [g.random.randint(0, size) for size in array.shape]
        size = [
            g.random.choice([-1, g.random.randint(0, whole - at)]) for at, whole in zip(begin, array.shape, strict=True)
        ]
        return g.add(op, x, g.given(begin, "int32", constant=constant), g.given(size, "int32", constant=constant))
    count = g.random.randint(1, rank)
    begin = [g.random.randint(-size - 1, size) for size in array.shape[:count]]
    end = [g.random.randint(-size - 1, size + 2) for size in array.shape[:count]]
    strides = [g.random.choice([1, 1, 1, 2, -1, -2, 3]) for _ in range(count)]
    masks = {"begin_mask": g.random.getrandbits(count), "end_mask": g.random.getrandbits(count)}
    if g.random.random() < 0.4:
        masks["shrink_axis_mask"] = 1 << g.random.randrange(count)
        strides = [1 if masks["shrink_axis_mask"] >> at & 1 else one for at, one in enumerate(strides)]
    if g.random.random() < 0.2:
        masks["new_axis_mask"] = 1 << g.random.randrange(count)
    if g.random.random() < 0.2:
        masks["ellipsis_mask"] = 1 << g.random.randrange(count)
    kind = g.random.choice(["int32", "int32", "int64"])
    return g.add(op, x, *(g.given(one, kind, constant=constant) for one in (begin, end, strides)), **masks)


@_maker(5)
def _pad(g: RandomGraph) -> bool:
    op = g.random.choice(["Pad", "PadV2", "MirrorPad", "Tile", "BroadcastTo", "ReverseV2", "Roll"])
    x = g.pick(lambda one: one.ndim > 0 and (op in ("Tile", "BroadcastTo", "ReverseV2") or _is_number(one)))
    if x is None:
        return False
    array = g.values[x]
    rank = array.ndim
    if op == "Tile":
        return g.add(op, x, g.given([g.random.choice([1, 1, 2, 3]) for _ in range(rank)], "int32", constant=0.95))
    if op == "BroadcastTo":
        shape = [g.random.choice([1, 2])] * g.random.randint(0, 1)
        shape += [g.random.choice([2, 3]) if size == 1 else size for size in array.shape]
        return g.add(op, x, g.given(shape, "int32", constant=0.95))
    if op == "ReverseV2":
        return g.add(op, x, g.given(g.random.sample(range(rank), g.random.randint(0, rank)), "int32", constant=0.95))
    if op == "Roll":
        axes = g.random.sample(range(rank), g.random.randint(1, rank))
        shift = [g.random.randint(-4, 4) for _ in axes]
        return g.add(op, x, g.given(shift, "int32", constant=0.95), g.given(axes, "int32", constant=0.95))
    most = 1 if op == "MirrorPad" else 2
    pads = g.given(
        [[g.random.randint(0, most), g.random.randint(0, most)] for _ in range(rank)], "int32", constant=0.95
    )
    if op == "PadV2":
        return g.add(op, x, pads, g.given(g.random.choice([0, 1, 2]), _name(array), constant=0.9))
    return g.add(op, x, pads, **({"mode": g.random.choice(["REFLECT", "SYMMETRIC"])} if op == "MirrorPad" else {}))


@_maker(7)
def _gather(g: RandomGraph) -> bool:
    op = g.random.choice(
        _words("GatherV2 GatherV2 Gather GatherNd OneHot ScatterNd TensorScatterUpdate TensorScatterAdd ResourceLess ")
    )
    x = g.pick(lambda one: one.ndim > 0 and (_is_number(one) or "Scatter" not in op))
    if x is None or op == "ResourceLess":
        return False
    array = g.values[x]
    kind = g.random.choice(["int32", "int64"])
    fed = g.random.choice([0.0, 1.0])
    if op == "OneHot":
        ids = g.pick(lambda one: _name(one) in ("int32", "int64", "uint8"))
        if ids is None:
            ids = g.given(g.numbers("int32", g.shape(0, 2)), "int32", constant=fed)
        axis = g.random.randint(-1, g.values[ids].ndim)
        number = g.random.choice(["float32", "int32", "float16", "bool"])
        many = g.given(g.random.randint(1, 6), "int32", constant=0.95)
        return g.add(op, ids, many, g.given(1, number, constant=1), g.given(0, number, constant=1), axis=axis)
    size = array.shape[0]
    if not size:
        return False
    if op == "GatherV2":
        axis = g.random.randint(-array.ndim, array.ndim - 1)
        batch = g.random.choice([0, 0, 0, 1]) if axis % array.ndim >= 1 else 0
        shape = [*array.shape[:batch], *g.shape(0, 2)]
        ids = _ids(g, shape, array.shape[axis], kind, fed)
        return ids is not None and g.add(op, x, ids, g.given(axis, "int32", constant=1), batch_dims=batch)
    if op == "Gather":
        ids = _ids(g, g.shape(0, 2), size, kind, fed)
        return ids is not None and g.add(op, x, ids)
    depth = g.random.randint(1, array.ndim)
    count = g.random.randint(1, 4)
    rows = [[g.random.randrange(max(1, array.shape[at])) for at in range(depth)] for _ in range(count)]
    ids = g.given(rows, kind, constant=fed)
    if op == "GatherNd":
        return g.add(op, x, ids)
    updates = g.floats(_name(array), [count, *array.shape[depth:]])
    if op == "ScatterNd":
        return g.add(op, ids, updates, g.given(array.shape, kind, constant=0.95))
    return g.add(op, x, ids, updates)


def _ids(g: RandomGraph, shape: Sequence[int], size: int, kind: str, constant: float) -> str | None:
    if not size:
        return None
    high = size if g.random.random() < 0.04 else size - 1  # one of them is out of range
    count = int(numpy.prod(shape, dtype=numpy.int64))
    return g.given(
        numpy.array([g.random.randint(0, high) for _ in range(count)], int).reshape(shape), kind, constant=constant
    )


@_maker(8)
def _product(g: RandomGraph) -> bool:
    op = g.random.choice(["MatMul", "MatMul", "BatchMatMulV2", "BatchMatMul", "Einsum"])
    x = g.pick(
        lambda one: (
            one.ndim >= 2
            and _allows(op if op != "Einsum" else "MatMul", _name(one))
            and (op != "MatMul" or one.ndim == 2)
        )
    )
    if x is None:
        return False
    array = g.values[x]
    kind = _name(array)
    first, second = g.random.random() < 0.3, g.random.random() < 0.3
    inner = array.shape[-2 if first else -1]
    other = g.random.randint(1, 4)
    shape = [other, inner] if second else [inner, other]
    if op == "MatMul":
        return g.add(op, x, g.floats(kind, shape), transpose_a=first, transpose_b=second)
    if op == "Einsum":
        letters = "abcd"[: array.ndim]
        equation, shape = g.random.choice(
            [
                (f"{letters},{letters[-1]}z->{letters[:-1]}z", [array.shape[-1], other]),
                (f"{letters},z{letters[-1]}->{letters[:-1]}z", [other, array.shape[-1]]),
                (f"{letters},{letters}->{letters[:-1]}", list(array.shape)),
                (f"{letters},{letters[0]}z->z{letters[1:]}", [array.shape[0], other]),
            ]
        )
        return g.add(op, [x, g.floats(kind, shape)], equation=equation)
    batch = list(array.shape[:-2])
    if op == "BatchMatMulV2" and g.random.random() < 0.4:
        batch = batch[g.random.randint(0, len(batch)) :]
    return g.add(op, x, g.floats(kind, [*batch, *shape]), adj_x=first, adj_y=second)


@_maker(8)
def _image(g: RandomGraph) -> bool:
    x = g.pick(lambda one: one.ndim == 4 and _is_float(one))
    if x is None or g.random.random() < 0.2:
        kind = g.random.choice(_FLOATS[:4])
        x = g.floats(
            kind, [g.random.choice([1, 2]), g.random.randint(3, 6), g.random.randint(3, 6), g.random.choice([1, 2, 4])]
        )
    array = g.values[x]
    kind = _name(array)
    rng = g.random
    channels = array.shape[3]
    op: str = rng.choice(
        _words(
            "Conv2D Conv2D DepthwiseConv2dNative MaxPool AvgPool BiasAdd FusedBatchNormV3 LRN ResizeBilinear "
            "ResizeNearestNeighbor SpaceToDepth DepthToSpace SpaceToBatchND BatchToSpaceND ExtractImagePatches "
            "Dilation2D ResizeBicubic CropAndResize MaxPoolWithArgmax FusedBatchNorm Conv2DBackpropInput "
        )
    )
    if not _allows(op, kind):
        return False
    stride = rng.choice([1, 1, 2])
    padding = rng.choice(["SAME", "VALID"])
    size = [rng.randint(1, 3), rng.randint(1, 3)]
    if op == "Conv2D":
        groups = rng.choice([1, 1, 1, 2]) if channels % 2 == 0 else 1
        dilation = rng.choice([1, 1, 2]) if stride == 1 else 1
        kernel = g.floats(kind, [*size, channels // groups, groups * rng.randint(1, 2)])
        extra: dict[str, Any] = {}
        if rng.random() < 0.15:
            padding, extra = "EXPLICIT", {"explicit_paddings": [0, 0, 1, 0, 0, 1, 0, 0]}
        return g.add(
            op,
            x,
            kernel,
            strides=[1, stride, stride, 1],
            padding=padding,
            dilations=[1, dilation, dilation, 1],
            **extra,
        )
    if op == "DepthwiseConv2dNative":
        return g.add(
            op,
            x,
            g.floats(kind, [*size, channels, rng.choice([1, 2])]),
            strides=[1, stride, stride, 1],
            padding=padding,
        )
    if op == "Conv2DBackpropInput":
        out = rng.randint(1, 2)
        if padding == "SAME":
            height, width = (
                (array.shape[1] - 1) * stride + rng.randint(1, stride),
                (array.shape[2] - 1) * stride + rng.randint(1, stride),
            )
        else:
            height, width = ((array.shape[at + 1] - 1) * stride + size[at] for at in (0, 1))
        sizes = g.given([array.shape[0], height, width, out], "int32", constant=0.95)
        return g.add(
            op, sizes, g.floats(kind, [*size, out, channels]), x, strides=[1, stride, stride, 1], padding=padding
        )
    if op in ("MaxPool", "AvgPool", "MaxPoolWithArgmax"):
        return g.add(op, x, ksize=[1, *size, 1], strides=[1, stride, stride, 1], padding=padding)
    if op == "BiasAdd":
        return g.add(op, x, g.floats(kind, [channels]))
    if op.startswith("FusedBatchNorm"):
        if kind != "float32" and op == "FusedBatchNorm":
            return False
        three = [g.given(g.numbers("float32", [channels]), "float32") for _ in range(3)]
        variance = g.given(numpy.abs(g.numbers("float32", [channels])) + 0.25, "float32")
        return g.add(op, x, *three, variance, is_training=False, epsilon=rng.choice([0.001, 0.01, 1e-5]))
    if op == "LRN":
        return g.add(op, x, depth_radius=rng.randint(1, 3), bias=1.0, alpha=rng.choice([1.0, 0.5]), beta=0.5)
    if op.startswith("Resize"):
        flags = rng.choice([{}, {"align_corners": True}, {"half_pixel_centers": True}])
        return g.add(op, x, g.given([rng.randint(1, 7), rng.randint(1, 7)], "int32", constant=0.9), **flags)
    if op in ("SpaceToDepth", "DepthToSpace"):
        return g.add(op, x, block_size=2)
    if op in ("SpaceToBatchND", "BatchToSpaceND"):
        block = [rng.choice([1, 2]), rng.choice([1, 2])]
        pads = [[rng.randint(0, 1), rng.randint(0, 1)] for _ in range(2)]
        return g.add(op, x, g.given(block, "int32", constant=1), g.given(pads, "int32", constant=1))
    if op == "ExtractImagePatches":
        return g.add(
            op,
            x,
            ksizes=[1, *size, 1],
            strides=[1, stride, stride, 1],
            rates=[1, rng.choice([1, 2]), 1, 1],
            padding=padding,
        )
    if op == "Dilation2D":
        return g.add(
            op,
            x,
            g.floats(kind, [*size, channels]),
            strides=[1, stride, stride, 1],
            rates=[1, 1, 1, 1],
            padding=padding,
        )
    boxes = g.given([[0.0, 0.0, 1.0, 1.0], [0.1, 0.2, 0.6, 1.25]], "float32")
    return g.add(op, x, boxes, g.given([0, array.shape[0] - 1], "int32"), g.given([2, 3], "int32", constant=0.95))


@_maker(6)
def _rows(g: RandomGraph) -> bool:
    rng = g.random
    op = rng.choice(
        _words(
            "Softmax LogSoftmax TopKV2 Cumsum Cumprod MatrixBandPart L2Loss Where Unique MatrixDiag "
            "MatrixDiagPart ReverseSequence SegmentSum UnsortedSegmentSum UnsortedSegmentMax InTopKV2 ClipByValue "
            "Select SelectV2 Shape Size Rank Fill Range LinSpace AddN InvertPermutation Bucketize TopK "
        )
    )
    x = g.pick(lambda one: one.ndim > 0 and _is_number(one) and _name(one) not in ("complex64",))
    if x is None or op == "TopK":
        return False
    array = g.values[x]
    kind = _name(array)
    if op in ("Softmax", "LogSoftmax", "L2Loss"):
        return _is_float(array) and g.add(op, x)
    if op in ("Shape", "Size", "Rank"):
        return g.add(op, x, **({} if op == "Rank" else {"out_type": rng.choice(["int32", "int64"])}))
    if op == "TopKV2":
        return g.add(op, x, g.given(rng.randint(0, array.shape[-1]), "int32", constant=0.9), sorted=True)
    if op in ("Cumsum", "Cumprod"):
        axis = g.given(rng.randint(-array.ndim, array.ndim - 1), "int32", constant=0.95)
        return g.add(op, x, axis, exclusive=rng.random() < 0.5, reverse=rng.random() < 0.5)
    if op == "MatrixBandPart":
        ends = [g.given(rng.randint(-1, 1), "int64", constant=0.95) for _ in range(2)]
        return array.ndim > 1 and g.add(op, x, *ends)
    if op in ("Where", "MatrixDiag"):
        return g.add(op, x)
    if op == "Unique":
        return array.ndim == 1 and g.add(op, x)
    if op == "MatrixDiagPart":
        return array.ndim > 1 and g.add(op, x)
    if op == "ReverseSequence":
        if array.ndim < 2:
            return False
        lengths = g.given(
            [rng.randint(0, array.shape[1]) for _ in range(array.shape[0])], rng.choice(["int32", "int64"])
        )
        return g.add(op, x, lengths, seq_dim=1, batch_dim=0)
    if "Segment" in op:
        ids = sorted(rng.randint(0, 3) for _ in range(array.shape[0]))
        if op == "SegmentSum":
            return g.add(op, x, g.given(ids, "int32"))
        rng.shuffle(ids)
        return g.add(op, x, g.given(ids, "int32"), g.given(rng.randint(4, 5), "int32", constant=0.95))
    if op == "InTopKV2":
        targets = g.given([rng.randint(0, 4) for _ in range(array.shape[0])], "int32")
        return kind == "float32" and array.ndim == 2 and g.add(op, x, targets, g.given(2, "int32"))
    if op == "ClipByValue":
        low = 0 if kind[0] == "u" else rng.randint(-3, 0)
        return g.add(op, x, g.given(low, kind), g.given(rng.randint(1, 5), kind))
    if op in ("Select", "SelectV2"):
        shape = (
            list(array.shape)
            if op == "Select" or rng.random() < 0.5
            else list(array.shape)[rng.randint(0, array.ndim) :]
        )
        y = g.floats(kind, array.shape)
        found = g.pick(lambda one: one.dtype == bool and list(one.shape) == shape)
        return g.add(op, found or g.given(g.numbers("bool", shape), "bool", constant=0.3), x, y)
    if op == "Fill":
        return g.add(op, g.given(g.shape(0, 3), "int32", constant=0.9), g.given(1.5, rng.choice(["float32", "int32"])))
    if op == "Range":
        number = rng.choice(["int32", "int64", "float32"])
        bounds = rng.choice([(0, 5, 1), (2, 9, 3), (5, 0, -2), (-1, 4, 2)])
        return g.add(op, *(g.given(one, number, constant=0.9) for one in bounds))
    if op == "LinSpace":
        return g.add(
            op, g.given(-1.5, "float32"), g.given(2.5, "float32"), g.given(rng.randint(1, 6), "int32", constant=0.9)
        )
    if op == "AddN":
        return g.add(op, [x, g.floats(kind, array.shape), x][: rng.randint(1, 3)])
    if op == "Bucketize":
        return _allows(op, kind) and g.add(op, x, boundaries=[-2.0, 0.0, 1.5])
    order = list(range(rng.randint(1, 6)))
    rng.shuffle(order)
    return g.add(op, g.given(order, "int32"))


def random_graph(number: int) -> Case:
    """The graph of this number: the same one everywhere."""
    g = RandomGraph(number)
    kind = g.random.choice([*_FLOATS, *_FLOATS, *_WHOLE, "bool"])
    shape = g.shape(1, 4)
    if g.random.random() < 0.25:
        shape = [g.random.choice([1, 2]), g.random.randint(3, 6), g.random.randint(3, 6), g.random.choice([1, 2, 4])]
    array = g.numbers(kind, shape)
    first = g.given(array, kind, constant=0)
    g.last = [first]
    makers = [one for one, _ in _MAKERS]
    weights = [weight for _, weight in _MAKERS]
    wanted = g.random.randint(3, 8)
    made = 0
    for _ in range(20 * wanted):
        if g.random.choices(makers, weights)[0](g):
            made += 1
        if made == wanted or g.refused:
            break
    fetches = list(g.last)
    if g.random.random() < 0.2 and not g.refused:
        fetches.append(g.random.choice([name for name in g.values if name[0] == "n"] or fetches))
    found = g.draft.case("random", f"graph {number}", *dict.fromkeys(fetches))
    used = _used(found)
    feeds = {key: array for key, array in found.feeds.items() if key in used}
    nodes = tuple(node for node in found.nodes if node.name in used)
    types = {key: found.types[key] for key in feeds}
    shapes = {key: Shape(tuple(-1 for _ in feeds[key].shape)) for key in g.open if key in feeds}
    return replace(found, nodes=nodes, feeds=feeds, types=types, shapes=shapes)


def _used(case: Case) -> set[str]:
    nodes = {node.name: node for node in case.nodes}
    found: set[str] = set()
    left = [name.partition(":")[0] for name in case.fetches]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [text.partition(":")[0] for text in nodes[name].inputs] if name in nodes else []
    return found


def _whole(case: Case) -> Case:
    """The case with all its tensors as outputs."""
    names: dict[str, None] = {}
    for node in case.nodes:
        if node.op == "Const":
            continue
        definition = builtin_ops()[node.op]
        count = definition.output_count(definition.with_defaults(node.attrs))
        names.update(dict.fromkeys(f"{node.name}:{at}" for at in range(1 if "BatchNorm" in node.op else count)))
    return replace(case, fetches=tuple(dict.fromkeys((*names, *case.fetches))))


def compare_graph(
    tensorflow: TensorFlow, case: Case, engines: Sequence[str] = ("values", "reference", "auto")
) -> Iterator[tuple[str, str]]:
    """What is wrong with the answers to a graph: the engine, and the reason.

    Args:
        tensorflow: Knows the right ones.
        case: The graph.
        engines: Engines; "values" computes each node by itself, from what TensorFlow says of the nodes before it.
    """
    whole = _whole(case)
    answer = tensorflow.ask(whole)
    if answer.kind == "lacks":
        return
    truth = dict(zip(whole.fetches, answer.values, strict=True)) if answer.kind == "values" else {}
    wrong = list(_wrong_nodes(case, truth)) if truth else []
    if "values" in engines:
        yield from (("values", reason) for reason in wrong)
    by_reference = _reason("reference", case, truth)
    for engine in engines:
        if engine == "values":
            continue
        reason = by_reference if engine == "reference" else _reason(engine, case, truth)
        if reason and not wrong and truth and by_reference and not by_reference.startswith("refused"):
            continue  # each node is right, and small differences grow from node to node
        if reason:
            yield engine, reason


def _reason(engine: str, case: Case, truth: Mapping[str, Array]) -> str:
    """What is wrong with what an engine gives for a graph; "" if nothing is."""
    try:
        found = dict(zip(case.fetches, engine_compute(engine)(case), strict=True))
    except _REFUSED as error:
        return f"refused: {error}" if truth else ""
    if not truth:
        return "TensorFlow refuses this"
    reasons = ((name, _difference(case, found[name], truth[name])) for name in case.fetches)
    return next((f"{name} {reason}" for name, reason in reasons if reason is not None), "")


def _difference(case: Case, found: Array, wanted: Array) -> str | None:
    """What differs, by the shortest type of float on the way."""
    digits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
    kinds = {kind.name for kind in case.types.values()}
    for node in case.nodes:
        kinds |= {kind.name for kind in builtin_ops()[node.op].output_types(node.attrs) if kind is not None}
    least = min((digits[kind] for kind in kinds if kind in digits), default=53)
    near = 2.0 ** max(0, digits.get(_name(wanted), 53) - least)
    return difference(found, wanted, Tolerance(False, _NEAR.ulps * near, _NEAR.n_eps * near))


def _wrong_nodes(case: Case, truth: Mapping[str, Array]) -> Iterator[str]:
    known = {**{f"{key}:0": array for key, array in case.feeds.items()}, **truth}
    for node in case.nodes:
        if node.op == "Const":
            known[f"{node.name}:0"] = node.tensor("value").numpy()
            continue
        definition = builtin_ops()[node.op]
        names = [f"{node.name}:{at}" for at in range(definition.output_count(definition.with_defaults(node.attrs)))]
        try:
            found = compute(node.op, [known[str(parse_input(text))] for text in node.inputs], node.attrs)
        except _REFUSED as error:
            yield f"refused: {node.op}: {error}"
            continue
        for name, one in zip(names, found, strict=True):
            is_kept = name in truth and not ("BatchNorm" in node.op and name[-2:] != ":0")
            reason = difference(one, truth[name], _ONE) if is_kept else None
            if reason is not None:
                yield f"{name} ({node.op}) {reason}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", type=int, default=0, help="the number of the first graph")
    parser.add_argument("--count", type=int, default=200, help="how many graphs")
    parser.add_argument("--engines", default="values,reference,auto", help="which engines to hold against TensorFlow")
    parser.add_argument("--verbose", action="store_true", help="print the graphs that are not equal")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    tensorflow = TensorFlow()
    counts: Counter[str] = Counter()
    for number in range(given.start, given.start + given.count):
        case = random_graph(number)
        for engine, reason in compare_graph(tensorflow, case, given.engines.split(",")):
            kind = "refused" if reason.startswith("refused") else "wrong"
            counts[f"{engine} {kind}"] += 1
            print(f"graph {number}, {engine}: {reason}", flush=True)
            if given.verbose:
                print("\n".join(f"    {line}" for line in _shown(case)))
    print(f"{given.count} graphs against TensorFlow {tensorflow.version}: {dict(counts) or 'all equal'}")
    return 1 if any(name.endswith("wrong") for name in counts) else 0


def _shown(case: Case) -> Iterator[str]:
    for key, array in case.feeds.items():
        yield f"{key} = {array.dtype}{list(array.shape)} {array.reshape(-1).tolist()[:40]}"
    for node in case.nodes:
        if node.op == "Const":
            array = node.tensor("value").numpy()
            yield f"{node.name} = const {array.dtype}{list(array.shape)} {array.reshape(-1).tolist()[:40]}"
            continue
        attrs = {key: found.value for key, found in node.attrs.items()}
        yield f"{node.name} = {node.op}({', '.join(node.inputs)}) {attrs}"


if __name__ == "__main__":
    sys.exit(main())
