"""Shape functions: what the definition of an op says of its outputs, given what is known of its inputs.

They never contradict TensorFlow's own functions. Those of ops that move elements, or compute with the elements of
shapes, are in `ops/array_shapes.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

from tfsmith.ir.node import Attr
from tfsmith.ir.tensor import StringTensor, Tensor
from tfsmith.ir.types import DType, Shape
from tfsmith.limits import MAX_RANK
from tfsmith.ops.sizes import NOTHING, Conflict, Dims, Known, Size, broadcast, equal, same, text, times
from tfsmith.storage import Span

__all__ = [
    "Ask",
    "check_run",
    "computed_ops",
    "constant",
    "flat_values",
    "infer",
    "reduced",
    "refusal",
    "refusing_ops",
    "shape",
    "shape_from",
    "shape_functions",
]

_MOST_VALUES = 1024
"""So many elements are followed; shapes are small."""


class Ask:
    """A node whose outputs are asked for.

    Attributes:
        op: Its op.
        inputs: What is known of each input.
        attrs: Its attributes; defaults of the op's definition are given with each question.
        count: How many outputs it has.
    """

    __slots__ = ("attrs", "count", "inputs", "op")

    def __init__(self, op: str, inputs: Sequence[Known], attrs: Mapping[str, Attr], count: int) -> None:
        self.op, self.inputs, self.attrs, self.count = op, inputs, attrs, count

    def known(self, number: int) -> Known:
        """What is known of an input; nothing if it is not there."""
        return self.inputs[number] if -len(self.inputs) <= number < len(self.inputs) else NOTHING

    def dims(self, number: int, rank: int | None = None) -> Dims:
        """The sizes of an input, which must have this rank if one is given.

        Raises:
            Conflict: It has another rank.
        """
        found = self.known(number).dims
        if rank is None or (found is not None and len(found) == rank):
            return found
        if found is None:
            return (None,) * rank
        raise Conflict(f"input {number} has shape {text(found)}, not {rank} dimensions")

    def at_least(self, number: int, rank: int) -> Dims:
        """The sizes of an input that must have so many dimensions or more.

        Raises:
            Conflict: It has fewer.
        """
        found = self.known(number).dims
        if found is not None and len(found) < rank:
            raise Conflict(f"input {number} has shape {text(found)}, not {rank} dimensions or more")
        return found

    def values(self, number: int) -> tuple[Size, ...] | None:
        """The elements of an input, if anything is known of them."""
        return self.known(number).values

    def numbers(self, number: int) -> tuple[int, ...] | None:
        """The elements of an input, if all of them are known."""
        return self.known(number).numbers

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute that is an integer."""
        found = self._value(name)
        return found if isinstance(found, int) else default

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of integers."""
        found = self._value(name)
        return found if isinstance(found, tuple) and all(isinstance(one, int) for one in found) else ()

    def flag(self, name: str) -> bool:
        """An attribute that is true or false."""
        return self._value(name) is True

    def text(self, name: str, default: str) -> str:
        """An attribute that is a string."""
        found = self._value(name)
        return found.decode("latin-1") if isinstance(found, bytes) else default

    def type(self, name: str) -> str:
        """The name of the type in an attribute; "" if there is none."""
        found = self._value(name)
        return found.base.name if isinstance(found, DType) else ""

    def shape(self, name: str, number: int | None = None) -> Dims:
        """The shape in an attribute, or in one element of it."""
        found = self._value(name)
        if number is not None:
            found = found[number] if isinstance(found, tuple) and number < len(found) else None
        return Known.of(found).dims if isinstance(found, Shape) else None

    def tensor(self, name: str) -> Any:
        """The tensor in an attribute, or None."""
        found = self.attrs.get(name)
        return found.value if found is not None and found.kind == "tensor" else None

    def _value(self, name: str) -> Any:
        found = self.attrs.get(name)
        return None if found is None else found.value


Rule = Callable[[Ask], "Known | tuple[Known, ...]"]
_Rule = TypeVar("_Rule", bound=Rule)
_RULES: dict[str, Rule] = {}
_COMPUTED: set[str] = set()
_REFUSALS: dict[str, Callable[[Ask], None]] = {}


def shape(ops: str, *, values: bool = False) -> Callable[[_Rule], _Rule]:
    """Declares the function for these ops, and whether it computes elements, too."""

    def declare(rule: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(ops.split(), rule))
        _COMPUTED.update(ops.split() if values else ())
        return rule

    return declare


def refusal(ops: str) -> Callable[[Callable[[Ask], None]], Callable[[Ask], None]]:
    """Declares the function that raises Conflict for what these ops refuse only when they run, not by their shapes."""

    def declare(rule: Callable[[Ask], None]) -> Callable[[Ask], None]:
        _REFUSALS.update(dict.fromkeys(ops.split(), rule))
        return rule

    return declare


@cache
def refusing_ops() -> frozenset[str]:
    """The ops that `check_run` knows."""
    import_module("tfsmith.ops.array_shapes")
    return frozenset(_REFUSALS)


def check_run(op: str, inputs: Sequence[Known], attrs: Mapping[str, Attr]) -> None:
    """Raises for inputs that a node takes by their shapes, but refuses when it runs.

    Raises:
        Conflict: It refuses them.
    """
    if op in refusing_ops():
        _REFUSALS[op](Ask(op, inputs, attrs, 1))


@cache
def shape_functions() -> Mapping[str, Rule]:
    """All functions, by op."""
    import_module("tfsmith.ops.array_shapes")
    return _RULES


@cache
def computed_ops() -> frozenset[str]:
    """The ops whose functions compute elements of shapes."""
    import_module("tfsmith.ops.array_shapes")
    return frozenset(_COMPUTED)


def infer(op: str, inputs: Sequence[Known], attrs: Mapping[str, Attr], count: int) -> tuple[Known, ...]:
    """What is known of each output of a node; nothing where the op has no function. Reads constants of a few integers.

    Args:
        op: The op.
        inputs: What is known of its inputs.
        attrs: Its attributes.
        count: How many outputs it has.

    Raises:
        Conflict: No run could have such inputs.
    """
    rule = shape_functions().get(op)
    if rule is None or count == 0:
        return (NOTHING,) * count
    ask = Ask(op, inputs, attrs, count)
    found = rule(ask)
    if type(found) is Known and count == 1:
        return (_kept(ask, found),)
    outputs = (found,) if isinstance(found, Known) else found
    return (*(_kept(ask, one) for one in outputs[:count]), *(NOTHING,) * (count - len(outputs)))


def _kept(ask: Ask, found: Known) -> Known:
    """Without dimensions and elements that are too many, or that its type cannot hold."""
    if found.dims is not None and len(found.dims) > MAX_RANK:
        return NOTHING
    if found.values is None:
        return found
    if len(found.values) > _MOST_VALUES:
        return found._replace(values=None)
    if all(type(value) is not int or -0x80000000 <= value < 0x80000000 for value in found.values):
        return found
    is_wide = any(ask.type(name) == "int64" for name in ("T", "DstT", "out_type", "Tidx", "dtype", "Tparams"))
    limit = 1 << (63 if is_wide else 31)
    if all(not isinstance(value, int) or -limit <= value < limit for value in found.values):
        return found
    values = tuple(v if not isinstance(v, int) or -limit <= v < limit else None for v in found.values)
    return found._replace(values=values)


def shape_from(known: Known) -> Dims:
    """The sizes that a tensor asks for, such as the second input of BroadcastTo."""
    if known.values is not None and known.rank == 1:
        for value in known.values:
            if isinstance(value, int) and value < -1:
                raise Conflict(f"a size of {value} is asked for")
        return tuple(None if value == -1 else value for value in known.values)
    rank = known.dims[0] if known.dims is not None and len(known.dims) == 1 else None
    return (None,) * rank if isinstance(rank, int) and rank <= MAX_RANK else None


def constant(tensor: Tensor) -> Known:
    """What is known of a constant; reads it if it is a few integers."""
    known, elements = Known.of(tensor.shape), tensor.shape.elements
    if tensor.dtype.name not in ("int32", "int64") or elements is None or elements > _MOST_VALUES:
        return known
    return known._replace(values=tuple(flat_values(tensor)))


_FORMATS: Mapping[str, str] = MappingProxyType(
    {"float32": "f", "float64": "d", "int32": "i", "int64": "q", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H"}
    | {"uint32": "I", "uint64": "Q", "bool": "?"}
)


def flat_values(tensor: Tensor) -> list[Any]:
    """The values of a tensor, flat, as Python's own; reads it. What `tensor.numpy().reshape(-1).tolist()` gives."""
    code, count = _FORMATS.get(tensor.dtype.name), tensor.shape.elements
    if code is not None and count is not None and not isinstance(tensor, StringTensor):
        data = b"".join(part.tobytes() if isinstance(part, Span) else bytes(part) for part in tensor.parts())
        if len(data) == count * tensor.dtype.itemsize:
            return list(struct.unpack(f"<{count}{code}", data))
    return list(tensor.numpy().reshape(-1).tolist())  # other types; and it says what is wrong with a broken one


# Inputs, constants, state


@shape("Placeholder PlaceholderV2 VariableV2 Variable TemporaryVariable _Arg ImmutableConst")
def _attribute(ask: Ask) -> Known:
    return Known(ask.shape("shape"))


@shape("PlaceholderWithDefault EnsureShape")
def _with_default(ask: Ask) -> Known:
    declared = ask.shape("shape")
    found = same(ask.dims(0), declared)
    return Known(found if ask.op == "EnsureShape" else declared)


@shape("Const HostConst")
def _const(ask: Ask) -> Known:
    tensor = ask.tensor("value")
    return NOTHING if tensor is None else constant(tensor)


@shape("VarHandleOp")
def _handle(ask: Ask) -> Known:
    return Known((), held=ask.shape("shape"))


@shape("ReadVariableOp")
def _read(ask: Ask) -> Known:
    return Known(ask.known(0).held)


@shape("VariableShape", values=True)
def _variable_shape(ask: Ask) -> Known:
    held = ask.known(0).held
    return Known((None if held is None else len(held),), held)


@shape("Assign")
def _assign(ask: Ask) -> Known:
    if ask.attrs.get("validate_shape") is not None and not ask.flag("validate_shape"):
        return Known(ask.dims(1))
    return Known(same(ask.dims(0), ask.dims(1)))


# Element by element


@shape(
    "Abs Acos Acosh AdjustHue AdjustSaturation Angle AsString Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 "
    "BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Bucketize Ceil CheckNumerics "
    "CheckNumericsV2 ComplexAbs Conj Cos Cosh Dawsn DecodeBase64 DeepCopy Digamma Elu EncodeBase64 Erf Erfc "
    "Erfinv Exp Expint Expm1 FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars Floor FresnelCos FresnelSin Imag Inv "
    "Invert IsFinite IsInf IsNan LeakyRelu Lgamma Log Log1p LogicalNot Ndtri NextIteration RefNextIteration Exit "
    "RefExit OnesLike PopulationCount QuantizeAndDequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 "
    "QuantizeAndDequantizeV4 Real Reciprocal RegexReplace Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh "
    "Softplus Softsign Spence Sqrt Square StaticRegexFullMatch StaticRegexReplace StringLength StringLower StringStrip "
    "StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper Tan Tanh "
    "ZerosLike Cumsum Cumprod RegexFullMatch Roll ReverseV2 RandomShuffle"
)
def _unchanged(ask: Ask) -> Known:
    return Known(ask.dims(0))


@shape("Identity StopGradient Snapshot PreventGradient GuaranteeConst", values=True)
@shape("RefIdentity Enter RefEnter")
def _passed_on(ask: Ask) -> Known:
    return ask.known(0)


@shape("IdentityN")
def _all_passed_on(ask: Ask) -> tuple[Known, ...]:
    return tuple(ask.inputs)


@shape("Switch RefSwitch _SwitchN")
def _switch(ask: Ask) -> tuple[Known, ...]:
    one = ask.known(0)
    return (Known(one.dims, None, one.held),) * ask.count


@shape("Merge RefMerge")
def _merge(ask: Ask) -> tuple[Known, ...]:
    first, *others = (one.dims for one in ask.inputs) if ask.inputs else (None,)
    for dims in others:
        if first is None or dims is None or len(first) != len(dims):
            first = None
            break
        first = tuple(left if left == right else None for left, right in zip(first, dims, strict=True))
    return Known(first), Known(())


@shape("Neg", values=True)
def _neg(ask: Ask) -> Known:
    values = ask.values(0)
    return Known(ask.dims(0), None if values is None else tuple(-v if isinstance(v, int) else None for v in values))


@shape("Cast", values=True)
def _cast(ask: Ask) -> Known:
    is_integer = ask.type("DstT") in ("int32", "int64")
    return Known(ask.dims(0), ask.values(0) if is_integer else None)


@shape("Softmax LogSoftmax _MklLayerNorm")
def _softmax(ask: Ask) -> Known:
    return Known(ask.at_least(0, 1))


@shape("MatrixBandPart")
def _matrices(ask: Ask) -> Known:
    return Known(ask.at_least(0, 2))


@shape("LRN")
def _images(ask: Ask) -> Known:
    return Known(ask.dims(0, 4))


def _meeting(one: Size, other: Size, what: str, *shapes: Dims) -> Size:
    """A size that must be both; what is said of shapes where it cannot be is made only then."""
    if isinstance(one, int) and isinstance(other, int) and one != other:
        raise Conflict(f"{what.format(*map(text, shapes))} are {one} and {other}")
    return equal(one, other)


@shape("BiasAdd")
def _bias_add(ask: Ask) -> Known:
    is_first = ask.text("data_format", "NHWC").startswith("NC")
    dims, bias = ask.at_least(0, 3 if is_first else 2), ask.dims(1, 1)
    if dims is None or bias is None:
        return Known(dims)
    at = 1 if is_first else len(dims) - 1
    channels = _meeting(dims[at], bias[0], "channels of {} and the bias", dims)
    return Known((*dims[:at], channels, *dims[at + 1 :]))


@shape(
    "Div RealDiv TruncateDiv DivNoNan MulNoNan Pow SquaredDifference Less LessEqual Greater GreaterEqual LogicalAnd "
    "LogicalOr FloorMod Mod TruncateMod Atan2 Complex Igamma Igammac Zeta Polygamma Xdivy Xlogy Xlog1py NextAfter "
    "BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift IgammaGradA"
)
def _binary(ask: Ask) -> Known:
    return Known(broadcast(ask.dims(0), ask.dims(1)))


@shape("Equal NotEqual")
def _compared(ask: Ask) -> Known:
    is_strict = ask.attrs.get("incompatible_shape_error") is None or ask.flag("incompatible_shape_error")
    one, other = ask.dims(0), ask.dims(1)
    if is_strict or (one is not None and other is not None and all(map(_meets, one[::-1], other[::-1]))):
        return _binary(ask)
    return NOTHING  # of shapes that do not meet, TensorFlow says that nothing is equal


def _meets(one: Size, other: Size) -> bool:
    """Whether two sizes can be broadcast for certain."""
    return 1 in (one, other) or (one is not None and one == other)


@shape("SelectV2 ClipByValue")
def _select_wide(ask: Ask) -> Known:
    found = broadcast(broadcast(ask.dims(1), ask.dims(2)), ask.dims(0))
    return Known(ask.dims(0) if ask.op == "ClipByValue" else found)


@shape("Select")
def _select(ask: Ask) -> Known:
    return Known(same(ask.dims(1), ask.dims(2)))


@shape("AddN AccumulateNV2")
def _sum_of_all(ask: Ask) -> Known:
    found: Dims = None
    for one in ask.inputs:
        found = same(found, one.dims)
    return Known(found)


@shape("StringJoin")
def _string_join(ask: Ask) -> Known:
    found: Dims = ()
    for one in ask.inputs:
        if one.dims is None:
            return NOTHING
        if one.dims:
            found = same(found, one.dims) if found else one.dims
    return Known(found)


@shape(
    "LoopCond ShardedFilename ShardedFilespec VarIsInitializedOp IsVariableInitialized L2Loss ReadFile Timestamp "
    "HashTable HashTableV2 MutableHashTable MutableHashTableV2 LookupTableSize LookupTableSizeV2 TensorListLength "
    "MergeSummary ScalarSummary HistogramSummary"
)
def _scalar(ask: Ask) -> Known:
    return Known(())


# Reductions


@shape("Mean Sum Max Min All Any EuclideanNorm")
def _reduced(ask: Ask) -> Known:
    return Known(reduced(ask))


def reduced(ask: Ask) -> Dims:
    """The sizes of the first input without the axes that the second one names."""
    dims, axes, keeps = ask.dims(0), ask.numbers(1), ask.flag("keep_dims")
    if dims is None:
        return None
    rank = len(dims)
    if axes is None:
        return (None,) * rank if keeps else None
    for axis in axes:
        if not -rank <= axis < rank:
            raise Conflict(f"axis {axis} is reduced, but the shape is {text(dims)}")
    gone = {axis % rank for axis in axes}
    if keeps:
        return tuple(1 if axis in gone else dim for axis, dim in enumerate(dims))
    return tuple(dim for axis, dim in enumerate(dims) if axis not in gone)


@shape("ArgMax ArgMin")
def _arg_max(ask: Ask) -> Known:
    dims, axes = ask.dims(0), ask.numbers(1)
    if dims is None:
        return NOTHING
    if len(dims) <= 1:
        return Known(())
    if axes is None or len(axes) != 1:
        return Known((None,) * (len(dims) - 1))
    if not -len(dims) <= axes[0] < len(dims):
        raise Conflict(f"axis {axes[0]} is looked at, but the shape is {text(dims)}")
    at = axes[0] % len(dims)
    return Known((*dims[:at], *dims[at + 1 :]))


@shape("TopKV2 TopK")
def _top(ask: Ask) -> tuple[Known, ...]:
    dims = ask.at_least(0, 1)
    count = ask.numbers(1) if ask.op == "TopKV2" else (ask.integer("k"),)
    if dims is None:
        return (NOTHING, NOTHING)
    most = count[0] if count is not None and len(count) == 1 else None
    if most is not None and isinstance(dims[-1], int) and dims[-1] < most:
        raise Conflict(f"the {most} largest of {dims[-1]} are asked for")
    return (Known((*dims[:-1], most)),) * 2


# Products


@shape("MatMul _FusedMatMul")
def _matmul(ask: Ask) -> Known:
    left, right = ask.dims(0, 2) or (), ask.dims(1, 2) or ()
    left = left[::-1] if ask.flag("transpose_a") else left
    right = right[::-1] if ask.flag("transpose_b") else right
    _meeting(left[1], right[0], "inner sizes of {} and {}", left, right)
    return Known((left[0], right[1]))


@shape("BatchMatMul BatchMatMulV2 BatchMatMulV3 _MklFusedBatchMatMulV2")
def _batch_matmul(ask: Ask) -> Known:
    left, right = ask.at_least(0, 2), ask.at_least(1, 2)
    if left is None or right is None:
        return NOTHING
    rows = left[:-3:-1] if ask.flag("adj_x") else left[-2:]
    columns = right[:-3:-1] if ask.flag("adj_y") else right[-2:]
    _meeting(rows[1], columns[0], "inner sizes of {} and {}", left, right)
    join = same if ask.op == "BatchMatMul" else broadcast
    outer = join(left[:-2], right[:-2]) or ()
    return Known((*outer, rows[0], columns[1]))


@shape("Einsum")
def _einsum(ask: Ask) -> Known:
    equation = ask.text("equation", "").replace(" ", "")
    terms, arrow, result = equation.partition("->")
    labels = terms.split(",")
    if not arrow or len(labels) != len(ask.inputs):
        return NOTHING
    sizes: dict[str, Size] = {}
    wide: Dims = ()
    for number, term in enumerate(labels):
        dims = ask.dims(number)
        if dims is None:
            return NOTHING
        before, dots, after = term.partition("...")
        if len(dims) < len(before + after) or (not dots and len(dims) != len(term)):
            raise Conflict(f"input {number} has shape {text(dims)}, but the equation is {equation}")
        inner = dims[len(before) : len(dims) - len(after)] if dots else ()
        wide = broadcast(wide, inner)
        outer = dims[: len(before)] + dims[len(dims) - len(after) :] if dots else dims
        for letter, dim in zip(before + after, outer, strict=True):
            sizes[letter] = equal(sizes.get(letter), dim, f"sizes of {letter!r} in {equation}")
    before, dots, after = result.partition("...")
    if any(letter not in sizes for letter in before + after):
        return NOTHING
    return Known((*(sizes[one] for one in before), *((wide or ()) if dots else ()), *(sizes[one] for one in after)))


# Convolution and what goes with it


def _windowed(ask: Ask, dims: tuple[Size, ...], window: Sequence[Size], depth: Size) -> Known:
    """The sizes behind a window that moves over the inner dimensions."""
    channels_first = ask.text("data_format", "NHWC").startswith("NC")
    rank = len(dims) - 2
    axes = range(2, rank + 2) if channels_first else range(1, rank + 1)
    strides, dilations = ask.integers("strides"), ask.integers("dilations") or (1,) * len(dims)
    padding, explicit = ask.text("padding", "VALID"), ask.integers("explicit_paddings")
    if len(strides) != len(dims) or len(dilations) != len(dims) or any(strides[axis] < 1 for axis in axes):
        return Known((None,) * len(dims))
    sizes: list[Size] = []
    for axis, size in zip(axes, window, strict=True):
        dim, stride = dims[axis], strides[axis]
        if stride == 1 and padding == "SAME":
            sizes.append(dim)
            continue
        if not isinstance(dim, int) or (padding != "SAME" and not isinstance(size, int)):
            sizes.append(None)
            continue
        if padding == "EXPLICIT":
            dim += sum(explicit[2 * axis : 2 * axis + 2])
        if padding != "SAME" and isinstance(size, int):
            dim -= (size - 1) * dilations[axis]
        if dim < 0 or (dim == 0 and padding != "SAME"):
            raise Conflict(f"a window of {size} does not fit into a size of {dims[axis]}")
        sizes.append(-(-dim // stride))
    return Known((dims[0], depth, *sizes) if channels_first else (dims[0], *sizes, depth))


def _is_plain(ask: Ask) -> bool:
    return ask.text("data_format", "NHWC") in ("NHWC", "NCHW", "NDHWC", "NCDHW")


@shape("Conv2D Conv3D _FusedConv2D")
def _conv(ask: Ask) -> Known:
    rank = 5 if ask.op == "Conv3D" else 4
    dims, kernel = ask.dims(0, rank) or (), ask.dims(1, rank) or ()
    if not _is_plain(ask):
        return Known((None,) * rank)
    channels = dims[1 if ask.text("data_format", "NHWC").startswith("NC") else -1]
    if isinstance(channels, int) and isinstance(kernel[-2], int) and (not kernel[-2] or channels % kernel[-2]):
        raise Conflict(f"input {text(dims)} has {channels} channels, and the kernel {text(kernel)} takes {kernel[-2]}")
    return _windowed(ask, dims, kernel[:-2], kernel[-1])


@shape("DepthwiseConv2dNative")
def _depthwise(ask: Ask) -> Known:
    dims, kernel = ask.dims(0, 4) or (), ask.dims(1, 4) or ()
    if not _is_plain(ask):
        return Known((None,) * 4)
    channels = dims[1 if ask.text("data_format", "NHWC").startswith("NC") else -1]
    channels = equal(channels, kernel[-2], f"channels of {text(dims)} and of the kernel {text(kernel)}")
    return _windowed(ask, dims, kernel[:2], times((channels, kernel[-1])))


@shape("MaxPool AvgPool MaxPool3D AvgPool3D")
def _pool(ask: Ask) -> Known:
    rank = 5 if ask.op.endswith("3D") else 4
    dims, window = ask.dims(0, rank) or (), ask.integers("ksize")
    if not _is_plain(ask) or len(window) != rank:
        return Known((None,) * rank)
    channels_first = ask.text("data_format", "NHWC").startswith("NC")
    if window[1 if channels_first else -1] != 1:
        return Known((None,) * rank)
    depth = dims[1] if channels_first else dims[-1]
    return _windowed(ask, dims, window[2:] if channels_first else window[1:-1], depth)


@shape("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx")
def _batch_norm(ask: Ask) -> tuple[Known, ...]:
    found = ask.known(0).dims
    rank = 4 if ask.op != "FusedBatchNormV3" or found is None or len(found) != 5 else 5
    dims = ask.dims(0) if found is None and ask.op == "FusedBatchNormV3" else ask.dims(0, rank)
    channels: Size = None
    at = 1 if ask.text("data_format", "NHWC").startswith("NC") else -1
    if dims is not None:
        channels = dims[at]
    for number in range(1, 5 if not ask.flag("is_training") and ask.attrs.get("is_training") is not None else 3):
        one = ask.dims(number, 1)
        channels = equal(channels, one[0] if one is not None else None, "channels of the input and of its statistics")
    if dims is not None:
        dims = (dims[0], channels, *dims[2:]) if at == 1 else (*dims[:-1], channels)
    statistics = Known((channels,))
    return (Known(dims), statistics, statistics, statistics, statistics)


@shape("ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea")
def _resized(ask: Ask) -> Known:
    dims, sizes = ask.dims(0, 4) or (), ask.values(1)
    wanted = (None, None) if sizes is None or len(sizes) != 2 else sizes
    return Known((dims[0], *wanted, dims[3]))


@shape("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(ask: Ask) -> tuple[Known, ...]:
    dims = broadcast(ask.dims(0), ask.dims(1)) or (None, None)
    if len(dims) != 2:
        raise Conflict(f"logits and labels have shapes {text(ask.dims(0))} and {text(ask.dims(1))}")
    return Known(dims[:1]), Known(dims)


@shape("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(ask: Ask) -> tuple[Known, ...]:
    logits, labels = ask.dims(0, 2) or (), ask.dims(1, 1) or ()
    batch = equal(logits[0], labels[0], "batches of logits and labels")
    return Known((batch,)), Known((batch, logits[1]))


# Random numbers


@shape(
    "RandomUniform RandomUniformInt RandomStandardNormal TruncatedNormal StatelessRandomUniform StatelessRandomNormal "
    "StatelessTruncatedNormal StatelessRandomUniformInt StatelessRandomUniformV2 StatelessRandomNormalV2 "
    "StatelessTruncatedNormalV2 StatelessRandomUniformIntV2"
)
def _random(ask: Ask) -> Known:
    return Known(shape_from(ask.known(0)))


# What ops refuse only when they run


@refusal("All Any Max Mean Min Prod Sum EuclideanNorm")
def _axis_twice(ask: Ask) -> None:
    dims, axes = ask.dims(0), ask.numbers(1)
    if dims is not None and axes is not None and len({axis % max(len(dims), 1) for axis in axes}) < len(axes):
        raise Conflict(f"axes {', '.join(map(str, axes))} of shape {text(dims)} are reduced, one of them twice")


@refusal("ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea")
def _resized_to_nothing(ask: Ask) -> None:
    if any(size <= 0 for size in ask.numbers(1) or ()):
        raise Conflict(f"images are resized to {ask.numbers(1)}")


@refusal("DepthwiseConv2dNative")
def _unequal_strides(ask: Ask) -> None:
    strides = ask.integers("strides")
    at = 2 if ask.text("data_format", "NHWC").startswith("NC") else 1
    if len(strides) == 4 and strides[at] != strides[at + 1]:
        raise Conflict(f"the strides are {', '.join(map(str, strides))}: rows and columns must have the same")


@refusal("MatrixBandPart")
def _too_many_diagonals(ask: Ask) -> None:
    dims = ask.at_least(0, 2)
    for number in (1, 2):
        ask.dims(number, 0)
        size, kept = None if dims is None else dims[number - 3], ask.numbers(number)
        if isinstance(size, int) and kept is not None and kept[0] > size:
            raise Conflict(f"{kept[0]} diagonals are kept of shape {text(dims)}")


@refusal("ArgMax ArgMin")
def _greatest_of_nothing(ask: Ask) -> None:
    ask.dims(1, 0)
    dims, axes = ask.dims(0), ask.numbers(1)
    if dims is not None and axes and -len(dims) <= axes[0] < len(dims) and dims[axes[0]] == 0:
        raise Conflict(f"the greatest of nothing is asked for, of shape {text(dims)}")


@refusal("Cumsum Cumprod Roll")
def _no_axis(ask: Ask) -> None:
    ask.at_least(0, 1)


@refusal("ReverseV2")
def _axes_in_a_scalar(ask: Ask) -> None:
    ask.dims(1, 1)
