"""Values of derivatives of elementwise ops: graphs that explain or correct their own inputs have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import value
from tfsmith.ops.values.arguments import check, rounded

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


@value("TanhGrad")
def _tanh_grad(y: NDArray[Any], dy: NDArray[Any]) -> Any:
    _check_same(y, dy)
    _check_real(y)
    return rounded(lambda y, dy: (1 - y * y) * dy, y, dy)


@value("SigmoidGrad")
def _sigmoid_grad(y: NDArray[Any], dy: NDArray[Any]) -> Any:
    _check_same(y, dy)
    _check_real(y)
    return rounded(lambda y, dy: (1 - y) * y * dy, y, dy)


@value("InvGrad ReciprocalGrad")
def _reciprocal_grad(y: NDArray[Any], dy: NDArray[Any]) -> Any:
    _check_same(y, dy)
    return rounded(lambda y, dy: numpy.conj(-y * y) * dy, y, dy)


@value("SqrtGrad")
def _sqrt_grad(y: NDArray[Any], dy: NDArray[Any]) -> Any:
    _check_same(y, dy)
    return rounded(lambda y, dy: dy * y.dtype.type(0.5) / numpy.conj(y), y, dy)


@value("RsqrtGrad")
def _rsqrt_grad(y: NDArray[Any], dy: NDArray[Any]) -> Any:
    _check_same(y, dy)
    return rounded(lambda y, dy: y.dtype.type(-0.5) * dy * numpy.conj(y * y * y), y, dy)


@value("ReluGrad")
def _relu_grad(gradients: NDArray[Any], features: NDArray[Any]) -> Any:
    _check_same(gradients, features)
    return numpy.where(features > 0, gradients, gradients.dtype.type(0))


@value("Relu6Grad")
def _relu6_grad(gradients: NDArray[Any], features: NDArray[Any]) -> Any:
    _check_same(gradients, features)
    inside = (features > 0) & (features < features.dtype.type(6))
    return numpy.where(inside, gradients, gradients.dtype.type(0))


@value("LeakyReluGrad")
def _leaky_relu_grad(gradients: NDArray[Any], features: NDArray[Any], *, alpha: float) -> Any:
    _check_same(gradients, features)
    return numpy.where(features > 0, gradients, gradients * gradients.dtype.type(alpha))


@value("EluGrad")
def _elu_grad(gradients: NDArray[Any], outputs: NDArray[Any]) -> Any:
    _check_same(gradients, outputs)
    return rounded(lambda g, y: numpy.where(y < 0, (y + 1) * g, g), gradients, outputs)


@value("SeluGrad")
def _selu_grad(gradients: NDArray[Any], outputs: NDArray[Any]) -> Any:
    _check_same(gradients, outputs)
    scale, scale_alpha = 1.0507009873554805, 1.7580993408473768

    def selu_grad(g: NDArray[Any], y: NDArray[Any]) -> Any:
        kind = g.dtype.type
        return numpy.where(y < 0, g * (y + kind(scale_alpha)), g * kind(scale))

    return rounded(selu_grad, gradients, outputs)


@value("SoftplusGrad")
def _softplus_grad(gradients: NDArray[Any], features: NDArray[Any]) -> Any:
    _check_same(gradients, features)
    return rounded(lambda g, x: g / (numpy.exp(-x) + 1), gradients, features)


@value("SoftsignGrad")
def _softsign_grad(gradients: NDArray[Any], features: NDArray[Any]) -> Any:
    _check_same(gradients, features)
    return rounded(lambda g, x: g / numpy.square(1 + numpy.abs(x)), gradients, features)


def _check_same(x: NDArray[Any], y: NDArray[Any]) -> None:
    check(x.shape == y.shape, f"shapes {list(x.shape)} and {list(y.shape)} differ")


def _check_real(x: NDArray[Any]) -> None:
    """TensorFlow takes the conjugate of some elements only, depending on how it packs them."""
    check(x.dtype.kind != "c", f"TensorFlow does not agree with itself on this of {x.dtype}")
