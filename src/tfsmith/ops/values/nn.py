"""Values of the ops that work along channels or classes: bias, activation, softmax, norms, losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.windows import channels_last, is_first, limits, require_rank, wide

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["activation", "add_bias", "normalized"]

_BLOCK = 1 << 16
"""How many elements are normalized at once: they stay in the processor's cache."""
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


@value("BiasAdd")
def add_bias(x: NDArray[Any], bias: NDArray[Any], *, data_format: bytes = b"NHWC") -> Any:
    """The sum of a tensor and a vector along its channels."""
    if x.ndim < 2 or bias.ndim != 1:
        raise OpError(f"a vector is added to at least 2 axes, not {list(bias.shape)} to {list(x.shape)}")
    if x.ndim < 3 and is_first(data_format):
        raise OpError(f"channels first need at least 3 axes, not the shape {list(x.shape)}")
    axis = 1 if is_first(data_format) else x.ndim - 1
    if len(bias) != x.shape[axis]:
        raise OpError(f"the bias has {len(bias)} elements, but the channels are {x.shape[axis]}")
    return x + bias.reshape((-1,) + (1,) * (x.ndim - 1 - axis))


@value("BiasAddV1")
def _bias_add_v1(x: NDArray[Any], bias: NDArray[Any]) -> Any:
    return add_bias(x, bias)


@value("Relu")
def _relu(x: NDArray[Any]) -> Any:
    return numpy.maximum(x, x.dtype.type(0))


@value("Relu6")
def _relu6(x: NDArray[Any]) -> Any:
    return numpy.minimum(numpy.maximum(x, x.dtype.type(0)), x.dtype.type(6))


@value("LeakyRelu")
def _leaky_relu(x: NDArray[Any], *, alpha: float) -> Any:
    return numpy.where(x > 0, x, x * x.dtype.type(alpha))


@value("Elu")
def _elu(x: NDArray[Any]) -> Any:
    return numpy.where(x < 0, numpy.expm1(x), x)


@value("Selu")
def _selu(x: NDArray[Any]) -> Any:
    kind = x.dtype.type
    return numpy.where(x < 0, kind(_SELU_SCALE_ALPHA) * numpy.expm1(x), kind(_SELU_SCALE) * x)


@value("Softplus")
def _softplus(x: NDArray[Any]) -> Any:
    kind = x.dtype.type
    threshold = numpy.log(kind(limits(x.dtype).eps)) + kind(2)
    grown = numpy.exp(x)
    return numpy.where(x > -threshold, x, numpy.where(x < threshold, grown, numpy.log1p(grown)))


@value("Softsign")
def _softsign(x: NDArray[Any]) -> Any:
    return x / (numpy.abs(x) + x.dtype.type(1))


_ACTIVATIONS: Mapping[bytes, Callable[[NDArray[Any]], Any]] = MappingProxyType(
    {
        b"Relu": _relu,
        b"Relu6": _relu6,
        b"Elu": _elu,
        b"Tanh": numpy.tanh,
        b"Identity": lambda x: x,
        b"Sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
        b"_FusedHardSwish": lambda x: x * _relu6(x + x.dtype.type(3)) * x.dtype.type(1 / 6),
    }
)


def activation(x: NDArray[Any], name: bytes, *, alpha: float = 0.2) -> Any:
    """What a fused activation makes of a tensor.

    Raises:
        OpError: There is none of this name.
    """
    if name == b"LeakyRelu":
        return _leaky_relu(x, alpha=alpha)
    if name not in _ACTIVATIONS:
        raise OpError(f"the fused activation {name.decode(errors='replace')!r} is not known")
    return _ACTIVATIONS[name](x)


@value("Softmax")
def _softmax(x: NDArray[Any]) -> Any:
    moved = _below_zero(x)
    grown = numpy.exp(moved)
    return (grown / grown.sum(-1, keepdims=True)).astype(x.dtype, copy=False)


@value("LogSoftmax")
def _log_softmax(x: NDArray[Any]) -> Any:
    moved = _below_zero(x)
    return (moved - numpy.log(numpy.exp(moved).sum(-1, keepdims=True))).astype(x.dtype, copy=False)


def _below_zero(x: NDArray[Any]) -> NDArray[Any]:
    """The logits of a softmax less the largest of their row, computed wide."""
    if not x.ndim:
        raise OpError("softmax needs at least one axis")
    return wide(x - x.max(-1, keepdims=True)) if x.size else wide(x)


@value("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(logits: NDArray[Any], labels: NDArray[Any]) -> Any:
    if logits.ndim > 2 or labels.ndim > 2:
        raise OpError("logits and labels must be matrices")
    try:
        logits, labels = numpy.broadcast_arrays(logits, labels)
    except ValueError:
        raise OpError(f"logits {list(logits.shape)} and labels {list(labels.shape)} do not fit together") from None
    require_rank(logits, 2, "the logits")
    moved = wide(logits - logits.max(-1, keepdims=True, initial=-numpy.inf))
    grown = numpy.exp(moved)
    total = grown.sum(-1, keepdims=True)
    loss = (wide(labels) * (numpy.log(total) - moved)).sum(-1)
    return loss.astype(logits.dtype), (grown / total - wide(labels)).astype(logits.dtype)


@value("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(logits: NDArray[Any], labels: NDArray[Any]) -> Any:
    require_rank(logits, 2, "the logits")
    if labels.shape != logits.shape[:1]:
        raise OpError(f"the labels have the shape {list(labels.shape)}, but the logits {list(logits.shape)}")
    if not logits.shape[1]:
        raise OpError("there must be at least one class")
    found = (labels >= 0) & (labels < logits.shape[1])
    if not found.all():
        raise OpError(f"label {labels[~found][0]} is outside of [0, {logits.shape[1]})")
    moved = wide(logits - logits.max(-1, keepdims=True))
    grown = numpy.exp(moved)
    total = grown.sum(-1, keepdims=True)
    rows = numpy.arange(len(logits))
    loss = numpy.log(total[:, 0]) - moved[rows, labels]
    back = grown / total
    back[rows, labels] -= 1
    return loss.astype(logits.dtype), back.astype(logits.dtype)


@value("L2Loss")
def _l2_loss(x: NDArray[Any]) -> Any:
    flat = wide(x).ravel()
    return numpy.asarray((flat @ flat) * flat.dtype.type(0.5), x.dtype)


@value("LRN")
def _lrn(x: NDArray[Any], *, depth_radius: int, bias: float, alpha: float, beta: float) -> Any:
    require_rank(x, 4, "the input")
    if not x.size:
        return x
    square = wide(x) ** 2
    depth = x.shape[3]
    reach = min(depth_radius, depth - 1)
    total = square.copy()
    for far in range(1, reach + 1):
        total[..., far:] += square[..., :-far]
        total[..., :-far] += square[..., far:]
    base = total * numpy.float32(alpha) + numpy.float32(bias)
    scale = 1 / base if beta == 1 else 1 / numpy.sqrt(base) if beta == 0.5 else base ** numpy.float32(-beta)
    return (wide(x) * scale).astype(x.dtype, copy=False)


def normalized(
    x: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any], scale: Any, offset: Any, epsilon: float
) -> Any:
    """Batch normalization along the last axis, in the type of the statistics."""
    factor = scale / numpy.sqrt(variance + variance.dtype.type(epsilon))
    rows = x.reshape(x.size // max(x.shape[-1], 1), x.shape[-1])
    y = numpy.empty(rows.shape, numpy.result_type(x, factor))
    step = max(_BLOCK // max(x.shape[-1], 1), 1)
    for start in range(0, len(rows), step):
        part = y[start : start + step]
        numpy.subtract(rows[start : start + step], mean, out=part)
        part *= factor
        part += offset
    return y.reshape(x.shape)


@value("FusedBatchNorm FusedBatchNormV2")
def _fused_batch_norm(
    x: NDArray[Any], scale: NDArray[Any], offset: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any],
    *, epsilon: float, exponential_avg_factor: float, data_format: bytes, is_training: bool,
) -> Any:  # fmt: skip
    require_rank(x, 4, "the input")
    return _batch_norm(x, scale, offset, mean, variance, epsilon, exponential_avg_factor, data_format, is_training)


@value("FusedBatchNormV3")
def _fused_batch_norm_v3(
    x: NDArray[Any], scale: NDArray[Any], offset: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any],
    *, epsilon: float, exponential_avg_factor: float, data_format: bytes, is_training: bool,
) -> Any:  # fmt: skip
    if x.ndim not in (4, 5):
        raise OpError(f"the input must have 4 or 5 axes, not the shape {list(x.shape)}")
    five = _batch_norm(x, scale, offset, mean, variance, epsilon, exponential_avg_factor, data_format, is_training)
    return (*five, numpy.zeros((), scale.dtype))


def _batch_norm(
    x: NDArray[Any], scale: NDArray[Any], offset: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any],
    epsilon: float, factor: float, data_format: bytes, is_training: bool,
) -> Any:  # fmt: skip
    last = channels_last(x, data_format)
    depth = last.shape[-1]
    for what, found in (("scale", scale), ("offset", offset), ("mean", mean), ("variance", variance)):
        if found.ndim != 1:
            raise OpError(f"the {what} must be a vector, not the shape {list(found.shape)}")
        optional = is_training and factor == 1 and what in ("mean", "variance")
        if len(found) != depth and not (optional and not len(found)):
            raise OpError(f"the {what} has {len(found)} elements, but the channels are {depth}")
    kind = scale.dtype.type
    inner = wide(last)
    if not is_training:
        kept_mean, kept_variance = saved_mean, saved_variance = mean, variance
    else:
        count = last.size // depth if depth else 0
        rows = inner.reshape(-1, depth)
        if not count:
            saved_mean = saved_variance = numpy.full(depth, numpy.nan, scale.dtype)
        else:
            saved_mean = rows.mean(0, dtype=scale.dtype)
            saved_variance = numpy.square(rows - saved_mean).mean(0, dtype=scale.dtype)
        kept_mean = saved_mean
        kept_variance = saved_variance * kind(count / max(count - 1, 1))
        if factor != 1:
            kept_mean = kind(1 - factor) * mean + kind(factor) * kept_mean
            kept_variance = kind(1 - factor) * variance + kind(factor) * kept_variance
    y = normalized(inner, saved_mean, saved_variance, scale, offset, epsilon).astype(x.dtype, copy=False)
    y = numpy.moveaxis(y, -1, 1) if is_first(data_format) else y
    return y, kept_mean, kept_variance, saved_mean, saved_variance


@value("BatchNormWithGlobalNormalization")
def _global_batch_norm(
    x: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any], beta: NDArray[Any], gamma: NDArray[Any],
    *, variance_epsilon: float, scale_after_normalization: bool,
) -> Any:  # fmt: skip
    require_rank(x, 4, "the input")
    for found in (mean, variance, beta, gamma):
        require_rank(found, 1, "each of the statistics")
        if len(found) != x.shape[3]:
            raise OpError(f"the statistics have {len(found)} elements, but the channels are {x.shape[3]}")
    return normalized(x, mean, variance, gamma if scale_after_normalization else mean.dtype.type(1), beta,
                      variance_epsilon)  # fmt: skip


@value("DataFormatDimMap")
def _dim_map(x: NDArray[Any], *, src_format: bytes, dst_format: bytes) -> Any:
    if len(src_format) not in (4, 5) or sorted(src_format) != sorted(dst_format):
        raise OpError(f"{src_format!r} cannot become {dst_format!r}")
    rank = len(src_format)
    if ((x < -rank) | (x >= rank)).any():
        raise OpError(f"an axis lies outside of [-{rank}, {rank})")
    return numpy.array([dst_format.index(letter) for letter in src_format], x.dtype)[x]


@value("DataFormatVecPermute")
def _vec_permute(x: NDArray[Any], *, src_format: bytes, dst_format: bytes) -> Any:
    if sorted(src_format) != sorted(dst_format):
        raise OpError(f"{src_format!r} cannot become {dst_format!r}")
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[1] != 2):
        raise OpError(f"the input must be a vector or pairs, not the shape {list(x.shape)}")
    if len(x) not in (len(src_format), len(src_format) - 2):
        raise OpError(f"the input has {len(x)} rows, but the layout {len(src_format)} letters")
    source, target = src_format, dst_format
    if len(x) != len(source):
        source, target = (bytes(letter for letter in one if letter not in b"NC") for one in (source, target))
    return x[[source.index(letter) for letter in target]]
