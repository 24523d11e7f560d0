"""Values of variables that are left in the graph: reading, writing, and changing some of their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.node import attr
from tfsmith.ir.types import DType
from tfsmith.ops.values import OpError, State, compute, value
from tfsmith.ops.values.arguments import check, check_ids
from tfsmith.ops.values.arrays import cut

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Variable"]


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


@value("_ReadVariablesOp")
def _read_variables(resources: Sequence[Variable]) -> tuple[Any, ...]:
    return tuple(one.read() for one in resources)


@value("ResourceGather")
def _resource_gather(resource: Variable, indices: NDArray[Any], *, batch_dims: int) -> NDArray[Any]:
    rows = resource.read()
    check(rows.ndim > 0, "the variable is a scalar, which has no rows")
    axis = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    fits = 0 <= axis <= indices.ndim and axis < rows.ndim and indices.shape[:axis] == rows.shape[:axis]
    check(fits, f"indices {list(indices.shape)} do not fit shape {list(rows.shape)} in {batch_dims} batch axes")
    check_ids(indices, rows.shape[axis])
    if not axis:
        return numpy.asarray(rows[indices])
    before = numpy.indices(indices.shape, sparse=True)[:axis]
    place: tuple[Any, ...] = (*before, indices)
    return numpy.asarray(rows[place])


@value("ResourceGatherNd")
def _resource_gather_nd(resource: Variable, indices: NDArray[Any]) -> NDArray[Any]:
    return numpy.asarray(compute("GatherNd", [resource.read(), indices])[0])


@value("ResourceCountUpTo")
def _resource_count_up_to(resource: Variable, *, limit: int) -> NDArray[Any]:
    before = resource.read()
    check(before.ndim == 0, f"only a scalar counts, not shape {list(before.shape)}")
    check(int(before) < limit, f"the variable has reached its limit of {limit}")
    resource.value = before + before.dtype.type(1)
    return before


@value("ResourceStridedSliceAssign")
def _resource_strided_slice_assign(
    resource: Variable, begin: NDArray[Any], end: NDArray[Any], strides: NDArray[Any], given: NDArray[Any], *,
    begin_mask: int, end_mask: int, ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int,
) -> tuple[Any, ...]:  # fmt: skip
    place = cut(
        resource.read().shape, begin, end, strides, begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask
    )
    found = resource.read().copy()
    wanted = found[place].shape
    check(given.shape == wanted, f"a value of shape {list(given.shape)} does not fit a slice of {list(wanted)}")
    found[place] = given
    resource.value = found
    return ()


# Some rows


def _declare_scatter(name: str, function: Callable[[NDArray[Any], Any, NDArray[Any]], None]) -> None:
    @value(f"ResourceScatter{name}")
    def scatter(resource: Variable, indices: NDArray[Any], updates: NDArray[Any]) -> tuple[Any, ...]:
        rows = resource.read().copy()
        wanted = indices.shape + rows.shape[1:]
        check(
            rows.ndim > 0 and updates.shape in ((), wanted),
            f"updates {list(updates.shape)} do not fit indices {list(indices.shape)} into shape {list(rows.shape)}",
        )
        check_ids(indices, len(rows))
        function(rows, indices.reshape(-1), numpy.broadcast_to(updates, wanted).reshape(-1, *rows.shape[1:]))
        resource.value = rows
        return ()


def _set(rows: NDArray[Any], places: Any, updates: NDArray[Any]) -> None:
    rows[places] = updates  # the last one wins


def _divide(rows: NDArray[Any], places: Any, updates: NDArray[Any]) -> None:
    check(bool((updates != 0).all()), "a row is divided by 0")
    whole = rows.dtype.kind in "iu"
    for place, update in zip(places.tolist(), updates, strict=True):
        rows[place] = numpy.trunc(rows[place] / update) if whole else rows[place] / update


_declare_scatter("Update", _set)
_declare_scatter("Add", numpy.add.at)
_declare_scatter("Sub", numpy.subtract.at)
_declare_scatter("Mul", numpy.multiply.at)
_declare_scatter("Div", _divide)
_declare_scatter("Min", numpy.minimum.at)
_declare_scatter("Max", numpy.maximum.at)


def _declare_scatter_nd(name: str) -> None:
    @value(f"ResourceScatterNd{name}")
    def scatter_nd(
        resource: Variable, indices: NDArray[Any], updates: NDArray[Any], *, bad_indices_policy: bytes
    ) -> tuple[Any, ...]:
        attrs = {"bad_indices_policy": attr(bad_indices_policy, "string")}
        resource.value = compute(f"TensorScatter{name}", [resource.read(), indices, updates], attrs)[0]
        return ()


for _name in ("Update", "Add", "Sub", "Min", "Max"):
    _declare_scatter_nd(_name)
