"""Ranges: between which numbers the elements of a tensor lie, and whether all are finite, before anything runs.

It is interval arithmetic over a graph, from what is fed and from constants. Whole numbers are exact: a tensor whose
range fits 32 bits holds nothing else. Of floating numbers, one thing is assumed and not proven: sums, products and
quotients of ordinary numbers (up to `ORDINARY`) are ordinary, too, as they are in any model that was trained. All else
that makes infinities and NaN counts: a divisor that may be 0, the logarithm of a number that may be negative,
numbers that are not ordinary to begin with, half precision that is left. An op without a rule may give anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from tfsmith.ir.graph import Graph
from tfsmith.ir.node import CONTROL, Endpoint, Node
from tfsmith.ir.opdef import builtin_op
from tfsmith.ir.types import DType
from tfsmith.ops import PASSES_ON
from tfsmith.ops.inference import Inference
from tfsmith.ops.sizes import Dims

__all__ = ["ANYTHING", "ORDINARY", "Range", "find_ranges"]

ORDINARY = 2.0**60
"""Numbers up to this are ordinary: float32 and bfloat16 hold the product of two of them, and the sum of many."""
_LARGEST = {"float64": 1.7976931348623157e308, "float32": 3.4028234663852886e38, "bfloat16": 3.3895313892515355e38}
_LARGEST_HALF = 65504.0
_EXP_LIMIT = {"float64": 709.0, "float32": 88.0, "bfloat16": 88.0, "float16": 11.0}


class Range(NamedTuple):
    """The elements of a tensor.

    Attributes:
        low: None is less.
        high: None is greater.
        finite: Whether none is NaN or infinite.
    """

    low: float
    high: float
    finite: bool = True

    def __or__(self, other: object) -> Range:
        """What lies in either."""
        assert isinstance(other, Range)
        return Range(min(self.low, other.low), max(self.high, other.high), self.finite and other.finite)

    @property
    def most(self) -> float:
        """The greatest of the absolute values."""
        return max(abs(self.low), abs(self.high))

    @property
    def has_zero(self) -> bool:
        """Whether 0 may be among them."""
        return self.low <= 0 <= self.high


ANYTHING = Range(-math.inf, math.inf, False)
_TRUTH = Range(0, 1)
_UNIT = Range(-1, 1)
_INDEX = Range(0, 2**31 - 1)
_ZERO = Range(0, 0)


class _Ask:
    """A node whose outputs are asked for.

    Attributes:
        node: The node.
        inputs: The ranges of its data inputs.
        dims: Their sizes.
        kind: The type of its first output.
        sources: The tensors that it takes.
        graph: The graph that it is in.
    """

    __slots__ = ("dims", "graph", "inputs", "kind", "node", "sources")

    def __init__(
        self,
        graph: Graph,
        node: Node,
        sources: Sequence[Endpoint],
        inputs: Sequence[Range],
        dims: Sequence[Dims],
        kind: str,
    ) -> None:
        self.graph, self.node, self.sources = graph, node, sources
        self.inputs, self.dims, self.kind = inputs, dims, kind

    @property
    def is_float(self) -> bool:
        return "float" in self.kind

    def limited(self, low: float, high: float, *, given: Iterable[Range] | None = None) -> Range:
        """The range of what is computed from finite numbers; ordinary ones give ordinary ones, as is assumed."""
        used = self.inputs if given is None else tuple(given)
        if not all(one.finite for one in used):
            return ANYTHING
        if not self.is_float:
            return Range(low, high)
        if self.kind == "float16":
            return Range(low, high) if max(-low, high) <= _LARGEST_HALF else ANYTHING
        if all(one.most <= ORDINARY for one in used):
            return Range(max(low, -ORDINARY), min(high, ORDINARY))
        return self.rounded(low, high)

    def rounded(self, low: float, high: float) -> Range:
        """The range of numbers that were computed exactly, and are rounded to the type."""
        if not self.is_float:
            return Range(low, high)
        largest = _LARGEST.get(self.kind, _LARGEST_HALF)
        slack = largest * 2.0**-26  # half a unit in the last place is rounded away
        if math.isnan(low) or math.isnan(high) or max(-low, high) > largest + slack:
            return ANYTHING
        return Range(max(low, -largest), min(high, largest))

    def size(self, number: int) -> float:
        """How many elements an input has; infinite if that is not known."""
        dims = self.dims[number]
        if dims is None or not all(isinstance(size, int) for size in dims):
            return math.inf
        return math.prod(size for size in dims if isinstance(size, int))


_Rule = Callable[[_Ask], "Range | tuple[Range, ...]"]
_Declared = TypeVar("_Declared", bound=_Rule)
_RULES: dict[str, _Rule] = {}


def _range(ops: str) -> Callable[[_Declared], _Declared]:
    def declare(rule: _Declared) -> _Declared:
        _RULES.update(dict.fromkeys(ops.split(), rule))
        return rule

    return declare


def find_ranges(
    graph: Graph,
    given: Mapping[str, Range],
    inference: Inference,
    constant: Callable[[Node], Range],
) -> Mapping[Endpoint, Range]:
    """The ranges of all tensors of a graph; a tensor that is not among them may hold anything. Linear.

    Args:
        graph: The graph; TensorFlow 1's loops in it end the knowledge of what is behind them.
        given: The ranges of what is fed, by the names of the placeholders.
        inference: The shapes.
        constant: Gives the range of a Const node.
    """
    found: dict[Endpoint, Range] = {}
    for node in graph.topological_order():
        if node.name in given:
            found[Endpoint(node.name, 0)] = given[node.name]
            continue
        if node.op == "Const":
            found[Endpoint(node.name, 0)] = constant(node)
            continue
        definition = builtin_op(node.op)
        rule = _RULES.get(node.op)
        if rule is None or definition is None:
            continue
        sources = [source for source in graph.inputs_of(node) if source.output != CONTROL]
        types = definition.output_types(node.attrs)
        ask = _Ask(
            graph,
            node,
            sources,
            [found.get(source, ANYTHING) for source in sources],
            [inference.known(graph, source).dims for source in sources],
            types[0].base.name if types and types[0] is not None else "",
        )
        ranges = rule(ask)
        for number, kind in enumerate(types):
            one = ranges if isinstance(ranges, Range) else ranges[min(number, len(ranges) - 1)]
            found[Endpoint(node.name, number)] = _fitting(one, kind)
    return found


def _fitting(found: Range, kind: DType | None) -> Range:
    """A range as the type can hold it: whole numbers that do not fit wrap, and may then be any."""
    name = "" if kind is None else kind.base.name
    if name == "bool":
        return _TRUTH
    if not name.startswith(("int", "uint")):
        return found
    bits = int(name.lstrip("uint"))
    low, high = (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not found.finite or found.low < low or found.high > high:
        return Range(low, high)
    return Range(math.floor(found.low), math.ceil(found.high))


# What moves or chooses


@_range(
    " ".join(sorted(PASSES_ON)) + " Reshape ExpandDims Squeeze Transpose Slice StridedSlice Tile Reverse ReverseV2 Roll"
    " BroadcastTo Gather GatherV2 GatherNd ReverseSequence SplitV Unpack SpaceToDepth DepthToSpace"
    " EnsureShape ResizeNearestNeighbor MatrixDiagPart MatrixDiagPartV2 DynamicPartition PlaceholderWithDefault"
    " CheckNumerics MatrixTranspose RandomShuffle Max Min MaxPool MaxPoolV2 MaxPool3D"
)
def _first(ask: _Ask) -> Range:
    return ask.inputs[0]


@_range("IdentityN")
def _each(ask: _Ask) -> tuple[Range, ...]:
    return tuple(ask.inputs)


@_range("Split")
def _split(ask: _Ask) -> Range:
    return ask.inputs[1]


@_range(
    "Pad SpaceToBatchND BatchToSpaceND SpaceToBatch BatchToSpace MatrixBandPart MatrixDiag MatrixDiagV2 MatrixDiagV3"
    " ExtractImagePatches Diag MirrorPad"
)
def _with_zero(ask: _Ask) -> Range:
    return ask.inputs[0] | _ZERO


@_range("PadV2")
def _with_padding(ask: _Ask) -> Range:
    return ask.inputs[0] | ask.inputs[2]


@_range("Select SelectV2")
def _either(ask: _Ask) -> Range:
    return ask.inputs[1] | ask.inputs[2]


@_range("OneHot")
def _on_and_off(ask: _Ask) -> Range:
    return ask.inputs[2] | ask.inputs[3]


@_range("Fill")
def _filled(ask: _Ask) -> Range:
    return ask.inputs[1]


@_range("Pack ParallelConcat")
def _all(ask: _Ask) -> Range:
    return _united(ask.inputs)


@_range("ConcatV2")
def _joined(ask: _Ask) -> Range:
    return _united(ask.inputs[:-1])


@_range("Concat")
def _joined_behind(ask: _Ask) -> Range:
    return _united(ask.inputs[1:])


def _united(ranges: Sequence[Range]) -> Range:
    whole = ranges[0]
    for one in ranges[1:]:
        whole |= one
    return whole


@_range("TopK TopKV2")
def _top(ask: _Ask) -> tuple[Range, ...]:
    return ask.inputs[0], _INDEX


@_range("ZerosLike")
def _zeros(ask: _Ask) -> Range:
    return _ZERO


@_range("OnesLike")
def _ones(ask: _Ask) -> Range:
    return Range(1, 1)


# Truth values, shapes, indices


@_range(
    "Equal NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr LogicalNot All Any IsNan IsInf IsFinite"
    " ApproximateEqual InTopK InTopKV2"
)
def _truth(ask: _Ask) -> Range:
    return _TRUTH


@_range("Shape ShapeN Size Rank ArgMax ArgMin Where InvertPermutation Bucketize")
def _index(ask: _Ask) -> Range:
    return _INDEX


@_range("Range")
def _counted(ask: _Ask) -> Range:
    return ask.inputs[0] | ask.inputs[1]


# Arithmetic


@_range("Add AddV2 BiasAdd BiasAddV1")
def _sum_of_two(ask: _Ask) -> Range:
    one, other = ask.inputs
    return ask.limited(one.low + other.low, one.high + other.high)


@_range("AddN")
def _sum_of_many(ask: _Ask) -> Range:
    return ask.limited(sum(one.low for one in ask.inputs), sum(one.high for one in ask.inputs))


@_range("Sub")
def _difference(ask: _Ask) -> Range:
    one, other = ask.inputs
    high = one.high - other.low
    maximum = ask.graph.by_name.get(ask.sources[1].node)
    if maximum is not None and maximum.op == "Max" and ask.graph.inputs_of(maximum)[0] == ask.sources[0]:
        high = 0.0  # a tensor without its own maximum, as in a softmax
    return ask.limited(one.low - other.high, high)


def _products(one: Range, other: Range) -> tuple[float, float]:
    ends = [_times(left, right) for left in (one.low, one.high) for right in (other.low, other.high)]
    return min(ends), max(ends)


def _times(one: float, other: float) -> float:
    return 0 if one == 0 or other == 0 else one * other


@_range("Mul")
def _product(ask: _Ask) -> Range:
    if ask.sources[0] == ask.sources[1]:
        return _square(ask)
    return ask.limited(*_products(*ask.inputs))


@_range("Square")
def _square(ask: _Ask) -> Range:
    one = ask.inputs[0]
    low = 0 if one.has_zero else min(_times(one.low, one.low), _times(one.high, one.high))
    return ask.limited(low, _times(one.most, one.most))


@_range("SquaredDifference")
def _squared_difference(ask: _Ask) -> Range:
    one, other = ask.inputs
    most = max(abs(one.high - other.low), abs(other.high - one.low))
    return ask.limited(0, _times(most, most))


@_range("Neg")
def _negative(ask: _Ask) -> Range:
    return ask.limited(-ask.inputs[0].high, -ask.inputs[0].low)


@_range("Abs")
def _absolute(ask: _Ask) -> Range:
    one = ask.inputs[0]
    return ask.limited(0 if one.has_zero else min(abs(one.low), abs(one.high)), one.most)


@_range("Maximum")
def _maximum(ask: _Ask) -> Range:
    one, other = ask.inputs
    return ask.limited(max(one.low, other.low), max(one.high, other.high))


@_range("Minimum")
def _minimum(ask: _Ask) -> Range:
    one, other = ask.inputs
    return ask.limited(min(one.low, other.low), min(one.high, other.high))


@_range("ClipByValue")
def _clipped(ask: _Ask) -> Range:
    one, low, high = ask.inputs
    return ask.limited(max(one.low, low.low), max(low.high, min(one.high, high.high)))


@_range("Div RealDiv")
def _quotient(ask: _Ask) -> Range:
    one, other = ask.inputs
    if other.has_zero or not other.finite:
        return ANYTHING
    ends = [left / right for left in (one.low, one.high) for right in (other.low, other.high)]
    return ask.limited(min(ends), max(ends))


@_range("DivNoNan")
def _quotient_or_zero(ask: _Ask) -> Range:
    return ANYTHING if ask.inputs[1].has_zero else _quotient(ask) | _ZERO


@_range("FloorDiv TruncateDiv")
def _whole_quotient(ask: _Ask) -> Range:
    one, other = ask.inputs
    if ask.is_float or (other.has_zero and other.low == other.high):
        return ANYTHING
    return ask.limited(-one.most, one.most)  # a division of whole numbers by 0 is refused


@_range("FloorMod Mod TruncateMod")
def _rest(ask: _Ask) -> Range:
    one, other = ask.inputs
    if ask.is_float:
        return ANYTHING
    most = min(one.most, other.most) if one.low >= 0 and other.low >= 0 else other.most
    return ask.limited(0 if one.low >= 0 and other.low >= 0 else -most, most)


@_range("Sum Cumsum")
def _summed(ask: _Ask) -> Range:
    one, count = ask.inputs[0], ask.size(0)
    return ask.limited(min(0, _times(one.low, count)), max(0, _times(one.high, count)), given=ask.inputs[:1])


@_range("Mean AvgPool AvgPool3D")
def _averaged(ask: _Ask) -> Range:
    return ask.limited(ask.inputs[0].low, ask.inputs[0].high, given=ask.inputs[:1])


@_range("ResizeBilinear ResizeArea")
def _between(ask: _Ask) -> Range:
    one = ask.inputs[0]
    return ask.limited(one.low, one.high, given=[one]) if one.finite else ANYTHING


@_range("Prod")
def _multiplied(ask: _Ask) -> Range:
    one, count = ask.inputs[0], ask.size(0)
    if one.most <= 1:
        return ask.limited(min(one.low, 0), 1, given=[one])
    logarithm = math.inf if count == math.inf or one.most == math.inf else count * math.log2(one.most)
    most = 2.0**logarithm if logarithm < 1000 else math.inf
    return ask.limited(0 if one.low >= 0 else -most, max(most, 1), given=[one])


@_range(
    "MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum Conv2D Conv3D DepthwiseConv2dNative _FusedMatMul"
    " _FusedConv2D ResizeBicubic"
)
def _inner_product(ask: _Ask) -> Range:
    used = ask.inputs[:1] if ask.node.op == "ResizeBicubic" else ask.inputs
    most = math.prod(max(1.0, one.most) for one in used) * min((ask.size(0), 2.0**62))
    return ask.limited(-most, most, given=used)


@_range("Conv2DBackpropInput Conv3DBackpropInputV2")
def _transposed_convolution(ask: _Ask) -> Range:
    most = ask.inputs[1].most * ask.inputs[2].most * min((ask.size(1), 2.0**62))
    return ask.limited(-most, most, given=ask.inputs[1:])


@_range("L2Loss")
def _half_of_squares(ask: _Ask) -> Range:
    most = ask.inputs[0].most
    return ask.limited(0, _times(most, most) * min(ask.size(0), 2.0**62))


@_range("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3")
def _normed(ask: _Ask) -> tuple[Range, ...]:
    """Of the five tensors that it takes, the variance must not be less than 0."""
    epsilon = ask.node.get("epsilon", 1e-4)
    is_training = ask.node.get("is_training", True)
    used = ask.inputs[:3] if is_training else ask.inputs
    if not isinstance(epsilon, float) or epsilon <= 0 or (not is_training and ask.inputs[4].low < 0):
        return (ANYTHING,)
    return (ask.limited(-math.inf, math.inf, given=used),)


@_range("Cast")
def _cast(ask: _Ask) -> Range:
    one = ask.inputs[0]
    if not one.finite or ask.kind.startswith("complex"):
        return ANYTHING
    return ask.rounded(one.low, one.high)


# Functions of one number


@_range("Relu")
def _relu(ask: _Ask) -> Range:
    one = ask.inputs[0]
    return ask.limited(max(one.low, 0), max(one.high, 0))


@_range("Relu6")
def _relu6(ask: _Ask) -> Range:
    one = ask.inputs[0]
    return ask.limited(min(max(one.low, 0), 6), min(max(one.high, 0), 6))


@_range("LeakyRelu Elu Selu Softsign Sin Cos Erf Erfc Atan Asinh Sign Floor Ceil Round Rint Tanh")
def _no_larger(ask: _Ask) -> Range:
    """Finite for all that is finite, and by its amount at most twice as large, or at most 2."""
    if ask.node.op in ("Tanh", "Sin", "Cos", "Erf", "Sign", "Softsign"):
        return ask.limited(-1, 1)
    one = ask.inputs[0]
    most = 2 * max(one.most, 1)
    return ask.limited(-most, most)


@_range("Sigmoid Softmax")
def _probability(ask: _Ask) -> Range:
    return ask.limited(0, 1)


@_range("LogSoftmax")
def _log_probability(ask: _Ask) -> Range:
    return ask.limited(-2 * ask.inputs[0].most - 64, 0)


@_range("Softplus")
def _softplus(ask: _Ask) -> Range:
    return ask.limited(0, max(ask.inputs[0].high, 0) + 1)


@_range("Sqrt")
def _root(ask: _Ask) -> Range:
    one = ask.inputs[0]
    return ANYTHING if one.low < 0 or not one.finite else ask.limited(math.sqrt(one.low), math.sqrt(one.high))


@_range("Rsqrt")
def _one_over_root(ask: _Ask) -> Range:
    one = ask.inputs[0]
    if one.low <= 0 or not one.finite:
        return ANYTHING
    return ask.limited(1 / math.sqrt(one.high), 1 / math.sqrt(one.low))


@_range("Reciprocal Inv")
def _one_over(ask: _Ask) -> Range:
    one = ask.inputs[0]
    if one.has_zero or not one.finite:
        return ANYTHING
    return ask.limited(min(1 / one.low, 1 / one.high), max(1 / one.low, 1 / one.high))


@_range("Log Log1p")
def _logarithm(ask: _Ask) -> Range:
    one = ask.inputs[0]
    shift = 1 if ask.node.op == "Log1p" else 0
    if one.low + shift <= 0 or not one.finite:
        return ANYTHING
    return ask.limited(math.log(one.low + shift), math.log(one.high + shift))


@_range("Exp Expm1 Sinh Cosh")
def _exponential(ask: _Ask) -> Range:
    one = ask.inputs[0]
    limit = _EXP_LIMIT.get(ask.kind, 0.0)
    least = -limit if ask.node.op in ("Sinh", "Cosh") else -math.inf
    if not one.finite or one.high > limit or one.low < least:
        return ANYTHING
    most = math.exp(max(one.high, -one.low if least == -limit else one.high)) + 1
    return ask.rounded(0 if ask.node.op in ("Exp", "Cosh") else -most, most)


@_range("Pow")
def _power(ask: _Ask) -> Range:
    base, exponent = ask.inputs
    if not base.finite or not exponent.finite or exponent.low != exponent.high:
        return ANYTHING
    power = exponent.low
    if not 0 <= power <= 16 or (power != int(power) and base.low < 0):
        return ANYTHING
    most = max(base.most, 1.0) ** power if base.most < 2.0**62 else math.inf
    return ask.limited(0 if base.low >= 0 or power % 2 == 0 else -most, most)


@_range("FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel")
def _fake_quantized(ask: _Ask) -> Range:
    most = 2 * max((one.most for one in ask.inputs), default=0)
    return ask.limited(-most, most)
