"""Values of ops that pass a tensor on, check it or print it, of inputs, and of variables that are left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType, Shape
from tfsmith.ops.values import OpError, State, value

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


@value("ToBool")
def _to_bool(x: NDArray[Any]) -> Any:
    """Whether it is more than 0 or empty: of a scalar its value, of others how many elements they have."""
    return numpy.asarray(bool(x.size) if x.ndim else bool(x[()]))


@value(
    "Snapshot DeepCopy Copy CopyHost StopGradient PreventGradient GuaranteeConst RefIdentity PlaceholderWithDefault"
    " DebugGradientIdentity"
)
def _pass_on(x: Any) -> Any:
    return x


@value("IdentityN")
def _identity_n(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return inputs


@value("Placeholder PlaceholderV2")
def _placeholder() -> Any:
    raise OpError("it is an input that is not fed")


@value("FakeParam")
def _fake_param(*, dtype: DType, shape: Shape) -> NDArray[Any]:
    """What stands for an output that its branch does not give; nobody reads it."""
    return numpy.zeros(tuple(max(size, 0) for size in shape.dims or ()), dtype.numpy())


@value("Assert")
def _assert(condition: NDArray[Any], data: tuple[Any, ...], *, summarize: int) -> tuple[Any, ...]:
    if not condition.all():
        raise OpError(f"assertion failed: {' '.join(f'[{_summary(one, summarize)}]' for one in data)}")
    return ()


@value("Print")
def _print(
    x: Any, data: tuple[Any, ...], *, message: bytes, first_n: int, summarize: int, state: State | None
) -> Any:  # fmt: skip
    if state is None:
        return x
    count = state.keep("printed", lambda: [0])
    count[0] += 1
    if first_n < 0 or count[0] <= first_n:
        state.say(message.decode("utf-8", "replace") + "".join(f"[{_summary(one, summarize)}]" for one in data))
    return x


@value("PrintV2")
def _print_v2(x: NDArray[Any], *, state: State | None) -> tuple[Any, ...]:
    if state is not None:
        state.say(x.item().decode("utf-8", "replace"))
    return ()


def _summary(x: Any, most: int) -> str:
    """The first values, as TensorFlow prints them."""
    if not isinstance(x, numpy.ndarray):
        return repr(x)
    flat = x.reshape(-1)
    shown = flat.tolist() if most < 0 else flat[:most].tolist()
    words = [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in shown]
    return " ".join(words) + ("..." if len(shown) < flat.size else "")


@value("DestroyResourceOp DisableCopyOnRead")
def _end_resource(resource: Any) -> tuple[Any, ...]:
    return ()
