"""Values of ops that pass a tensor on, check it or print it, of inputs, and of variables that are left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType, Shape
from tfsmith.ops.values import OpError, State, value

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


@value("Snapshot StopGradient PreventGradient GuaranteeConst RefIdentity PlaceholderWithDefault DebugGradientIdentity")
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


class Variable:
    """A variable that is left in the graph: what a handle points to.

    Attributes:
        value: Its value; None until it is assigned.
    """

    def __init__(self) -> None:
        self.value: NDArray[Any] | None = None

    def read(self) -> NDArray[Any]:
        """Its value.

        Raises:
            OpError: It has none yet.
        """
        if self.value is None:
            raise OpError("the variable has no value yet")
        return self.value


@value("VarHandleOp")
def _var_handle(*, container: bytes, shared_name: bytes, state: State | None) -> Variable:
    if state is None:
        return Variable()
    name = f"{container!r} {shared_name!r}" if shared_name else None
    return state.keep("variable", Variable, name)


@value("ReadVariableOp")
def _read_variable(resource: Variable) -> NDArray[Any]:
    return resource.read()


@value("AssignVariableOp")
def _assign_variable(resource: Variable, x: NDArray[Any]) -> tuple[Any, ...]:
    resource.value = x
    return ()


@value("AssignAddVariableOp")
def _assign_add_variable(resource: Variable, x: NDArray[Any]) -> tuple[Any, ...]:
    resource.value = _moved(resource, x, numpy.add)
    return ()


@value("AssignSubVariableOp")
def _assign_sub_variable(resource: Variable, x: NDArray[Any]) -> tuple[Any, ...]:
    resource.value = _moved(resource, x, numpy.subtract)
    return ()


def _moved(resource: Variable, x: NDArray[Any], move: Any) -> NDArray[Any]:
    old = resource.read()
    if old.shape != x.shape:
        raise OpError(f"the variable has shape {list(old.shape)}, and the change {list(x.shape)}")
    return numpy.asarray(move(old, x))


@value("VarIsInitializedOp")
def _var_is_initialized(resource: Variable) -> NDArray[Any]:
    return numpy.asarray(resource.value is not None)


@value("VariableShape")
def _variable_shape(resource: Variable, *, out_type: DType) -> NDArray[Any]:
    return numpy.asarray(resource.read().shape, out_type.numpy())


@value("ResourceGather")
def _resource_gather(resource: Variable, indices: NDArray[Any], *, batch_dims: int) -> NDArray[Any]:
    rows = resource.read()
    if batch_dims:
        raise OpError("a gather from a variable by batches is not computed")
    if indices.size and (indices.min() < 0 or indices.max() >= rows.shape[0]):
        raise OpError(f"an index is not in [0, {rows.shape[0]})")
    return numpy.asarray(rows[indices])


@value("DestroyResourceOp DisableCopyOnRead")
def _end_resource(resource: Any) -> tuple[Any, ...]:
    return ()
