"""Values of ops that compute element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfsmith.ir.dtype import DType
from tfsmith.ops.values import value

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


@value("Identity")
def _identity(x: NDArray[Any]) -> NDArray[Any]:
    return x


@value("Cast")
def _cast(x: NDArray[Any], *, DstT: DType) -> NDArray[Any]:  # attributes have TensorFlow's names
    return x.astype(DstT.numpy(), copy=False)


@value("Add AddV2")
def _add(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return x + y


@value("Sub")
def _sub(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return x - y


@value("Mul")
def _mul(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return x * y


@value("RealDiv")
def _real_div(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return x / y


@value("Neg")
def _neg(x: NDArray[Any]) -> Any:
    return -x


@value("Square")
def _square(x: NDArray[Any]) -> Any:
    return x * x


@value("Sqrt")
def _sqrt(x: NDArray[Any]) -> Any:
    import numpy

    return numpy.sqrt(x)


@value("Rsqrt")
def _rsqrt(x: NDArray[Any]) -> Any:
    import numpy

    return x.dtype.type(1) / numpy.sqrt(x)
