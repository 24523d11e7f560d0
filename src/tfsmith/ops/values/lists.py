"""Values of ops on lists of tensors: TensorArray, which changes in place; TensorList, which does not; and stacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import UNKNOWN, DType, Shape
from tfsmith.limits import MAX_LIST_OUTPUTS
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.arguments import variants
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TensorArray", "TensorList"]

_FLOW = numpy.zeros((), numpy.float32)
"""What the ops of a TensorArray hand on, so that they run in order."""


def _merged(one: Shape, other: Shape) -> Shape | None:
    """The shape that fits both; None if there is none."""
    if one.dims is None or other.dims is None:
        return other if one.dims is None else one
    if len(one.dims) != len(other.dims):
        return None
    dims = []
    for left, right in zip(one.dims, other.dims, strict=True):
        if left != right and left >= 0 and right >= 0:
            return None
        dims.append(right if left < 0 else left)
    return Shape(tuple(dims))


def _is_full(shape: Shape) -> bool:
    return shape.dims is not None and all(size >= 0 for size in shape.dims)


def _count(size: NDArray[Any]) -> int:
    found = int(size)
    if found < 0:
        raise OpError(f"a list cannot have {found} elements")
    if found > MAX_LIST_OUTPUTS:
        raise OpError(f"a list of {found} elements is too long")
    return found


def _stacked(items: Sequence[Any], kind: DType, shape: Shape) -> NDArray[Any]:
    """The items as one tensor; with none of them, the shape must be known."""
    if kind.name == "variant" and not any(isinstance(one, numpy.ndarray) for one in items):
        return variants(items)
    if not items:
        if not _is_full(shape):
            raise OpError(f"there are no elements, and their shape {shape} is not known")
        return numpy.zeros((0, *(shape.dims or ())), kind.numpy())
    if any(one.shape != items[0].shape for one in items):
        other = next(one for one in items if one.shape != items[0].shape)
        raise OpError(f"the elements have different shapes: {list(items[0].shape)} and {list(other.shape)}")
    return numpy.stack(items)


def _joined(items: Sequence[NDArray[Any]], kind: DType, shape: Shape) -> tuple[NDArray[Any], NDArray[Any]]:
    """The items one behind the other, and how long each is; with none of them, the rest of the shape must be known."""
    lengths = []
    for one in items:
        if one.ndim == 0 or one.shape[1:] != items[0].shape[1:]:
            raise OpError(f"elements of shapes {list(items[0].shape)} and {list(one.shape)} cannot be concatenated")
        lengths.append(one.shape[0])
    if not items:
        if not _is_full(shape):
            raise OpError(f"there are no elements, and their shape {shape} is not known")
        return numpy.zeros((0, *(shape.dims or ())), kind.numpy()), numpy.zeros(0, numpy.int64)
    return numpy.concatenate(items), numpy.asarray(lengths, numpy.int64)


def _split(x: NDArray[Any], lengths: NDArray[Any]) -> list[NDArray[Any]]:
    if x.ndim == 0:
        raise OpError("a scalar cannot be split")
    if (lengths < 0).any() or int(lengths.sum()) != x.shape[0]:
        raise OpError(f"the lengths add up to {int(lengths.sum())}, and there are {x.shape[0]} rows")
    stops = numpy.cumsum(lengths).tolist()
    return [x[stop - size : stop] for stop, size in zip(stops, lengths.tolist(), strict=True)]


# TensorArray


class TensorArray:
    """The tensors of a TensorArray; it lives for one run.

    Attributes:
        kind: Their type.
        shape: Their shape, as far as it is known.
        items: The tensors; None where none was written.
    """

    def __init__(self, kind: DType, shape: Shape, size: int, *, grows: bool, clears: bool, alike: bool) -> None:
        self.kind = kind
        self.shape = shape
        self.items: list[NDArray[Any] | None] = [None] * size
        self._written = [False] * size
        self._grows = grows
        self._clears = clears
        self._alike = alike

    def write(self, index: int, x: NDArray[Any]) -> None:
        """Sets an element, once."""
        if self._grows and 0 <= index < MAX_LIST_OUTPUTS and index >= len(self.items):
            more = index + 1 - len(self.items)
            self.items += [None] * more
            self._written += [False] * more
        if not 0 <= index < len(self.items):
            raise OpError(f"index {index} is not in the TensorArray of {len(self.items)} elements")
        if self._written[index]:
            raise OpError(f"index {index} of the TensorArray was written already")
        if x.dtype != self.kind.numpy():
            raise OpError(f"a TensorArray of {self.kind} cannot take {x.dtype}")
        merged = _merged(self.shape, Shape(x.shape))
        if merged is None:
            raise OpError(f"the TensorArray holds elements of shape {self.shape}, not {list(x.shape)}")
        self.shape = merged if self._alike else self.shape
        self.items[index] = x
        self._written[index] = True

    def read(self, index: int) -> NDArray[Any]:
        """An element; where elements are cleared when they are read, only once."""
        if not 0 <= index < len(self.items):
            raise OpError(f"index {index} is not in the TensorArray of {len(self.items)} elements")
        found = self.items[index]
        if found is None and self._written[index]:
            raise OpError(f"index {index} of the TensorArray was cleared when it was read before")
        if found is None:
            if not _is_full(self.shape):
                raise OpError(f"index {index} of the TensorArray was not written, and its shape is not known")
            found = numpy.zeros(self.shape.dims or (), self.kind.numpy())
        if self._clears:
            self.items[index] = None
            self._written[index] = True
        return found


@value("TensorArrayV3")
def _tensor_array_v3(
    size: NDArray[Any],
    *,
    dtype: DType,
    element_shape: Shape,
    dynamic_size: bool,
    clear_after_read: bool,
    identical_element_shapes: bool,
) -> tuple[Any, ...]:
    made = TensorArray(
        dtype,
        element_shape,
        _count(size),
        grows=dynamic_size,
        clears=clear_after_read,
        alike=identical_element_shapes,
    )
    return made, _FLOW


@value("TensorArray TensorArrayV2")
def _tensor_array(
    size: NDArray[Any], *, dtype: DType, element_shape: Shape, dynamic_size: bool, clear_after_read: bool
) -> TensorArray:
    return TensorArray(
        dtype, element_shape, _count(size), grows=dynamic_size, clears=clear_after_read, alike=False
    )  # fmt: skip


@value("TensorArrayWrite TensorArrayWriteV2 TensorArrayWriteV3")
def _array_write(handle: TensorArray, index: NDArray[Any], x: NDArray[Any], flow: NDArray[Any]) -> NDArray[Any]:
    handle.write(int(index), x)
    return flow


@value("TensorArrayRead TensorArrayReadV2 TensorArrayReadV3")
def _array_read(handle: TensorArray, index: NDArray[Any], flow: NDArray[Any], *, dtype: DType) -> NDArray[Any]:
    if dtype != handle.kind:
        raise OpError(f"the TensorArray has type {handle.kind}, not {dtype}")
    return handle.read(int(index))


@value("TensorArrayGather TensorArrayGatherV2 TensorArrayGatherV3")
def _array_gather(
    handle: TensorArray, indices: NDArray[Any], flow: NDArray[Any], *, dtype: DType, element_shape: Shape
) -> NDArray[Any]:
    if dtype != handle.kind:
        raise OpError(f"the TensorArray has type {handle.kind}, not {dtype}")
    shape = _merged(handle.shape, element_shape)
    if shape is None:
        raise OpError(f"the TensorArray holds elements of shape {handle.shape}, not {element_shape}")
    return _stacked([handle.read(index) for index in indices.tolist()], dtype, shape)


@value("TensorArrayPack")
def _array_pack(handle: TensorArray, flow: NDArray[Any], *, dtype: DType, element_shape: Shape) -> NDArray[Any]:
    return _array_gather(
        handle, numpy.arange(len(handle.items)), flow, dtype=dtype, element_shape=element_shape
    )  # fmt: skip


@value("TensorArrayScatter TensorArrayScatterV2 TensorArrayScatterV3")
def _array_scatter(handle: TensorArray, indices: NDArray[Any], x: NDArray[Any], flow: NDArray[Any]) -> NDArray[Any]:
    if x.ndim == 0 or indices.shape != x.shape[:1]:
        raise OpError(f"{indices.size} indices do not fit a tensor of shape {list(x.shape)}")
    for number, index in enumerate(indices.tolist()):
        handle.write(index, x[number, ...])
    return flow


@value("TensorArrayUnpack")
def _array_unpack(handle: TensorArray, x: NDArray[Any], flow: NDArray[Any]) -> NDArray[Any]:
    return _array_scatter(handle, numpy.arange(x.shape[0] if x.ndim else 0), x, flow)


@value("TensorArrayConcat TensorArrayConcatV2 TensorArrayConcatV3")
def _array_concat(
    handle: TensorArray, flow: NDArray[Any], *, dtype: DType, element_shape_except0: Shape
) -> tuple[Any, ...]:
    if dtype != handle.kind:
        raise OpError(f"the TensorArray has type {handle.kind}, not {dtype}")
    return _joined([handle.read(index) for index in range(len(handle.items))], dtype, element_shape_except0)


@value("TensorArraySplit TensorArraySplitV2 TensorArraySplitV3")
def _array_split(handle: TensorArray, x: NDArray[Any], lengths: NDArray[Any], flow: NDArray[Any]) -> NDArray[Any]:
    for index, part in enumerate(_split(x, lengths)):
        handle.write(index, part)
    return flow


@value("TensorArraySize TensorArraySizeV2 TensorArraySizeV3")
def _array_size(handle: TensorArray, flow: NDArray[Any]) -> NDArray[Any]:
    return numpy.asarray(len(handle.items), numpy.int32)


@value("TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3")
def _array_close(handle: TensorArray) -> tuple[Any, ...]:
    handle.items.clear()
    return ()


# TensorList


@record(eq=False)
class TensorList:
    """The tensors of a TensorList. Ops make a new one.

    Attributes:
        kind: Their type.
        shape: Their shape, as far as it is known.
        items: The tensors; None where none was set. They may be lists themselves.
        most: How many there may be; -1 for any number.
    """

    kind: DType
    shape: Shape
    items: tuple[Any, ...]
    most: int = -1

    def with_items(self, items: tuple[Any, ...]) -> TensorList:
        """The list of other tensors."""
        return TensorList(self.kind, self.shape, items, self.most)

    def checked(self, x: Any) -> Any:
        """A tensor that may be an element.

        Raises:
            OpError: It is of another type or shape.
        """
        if not isinstance(x, numpy.ndarray):
            return x
        if x.dtype != self.kind.numpy():
            raise OpError(f"a list of {self.kind} cannot take {x.dtype}")
        if _merged(self.shape, Shape(x.shape)) is None:
            raise OpError(f"the list holds elements of shape {self.shape}, not {list(x.shape)}")
        return x

    def place(self, index: NDArray[Any] | int) -> int:
        """An index that is in the list.

        Raises:
            OpError: It is not.
        """
        found = int(index)
        if not 0 <= found < len(self.items):
            raise OpError(f"index {found} is not in the list of {len(self.items)} elements")
        return found

    def filled(self, element_shape: NDArray[Any], indices: Sequence[int] | None = None) -> tuple[list[Any], Shape]:
        """These elements, zeros where none was set, and their shape as far as it is known."""
        asked = _shape_of(element_shape)
        shape = _merged(self.shape, asked)
        if shape is None:
            raise OpError(f"the list holds elements of shape {self.shape}, not {asked}")
        found = self.items if indices is None else [self.items[self.place(index)] for index in indices]
        for one in found:
            merged = _merged(shape, Shape(one.shape)) if isinstance(one, numpy.ndarray) else shape
            if merged is None:
                raise OpError(f"the list holds elements of shape {list(one.shape)}, not {shape}")
            shape = merged
        if any(one is None for one in found) and not _is_full(shape):
            raise OpError(f"an element was not set, and its shape {shape} is not known")
        return [numpy.zeros(shape.dims or (), self.kind.numpy()) if one is None else one for one in found], shape


def _shape_of(element_shape: NDArray[Any]) -> Shape:
    """A shape given as a tensor: -1 alone for any."""
    if element_shape.ndim == 0:
        if int(element_shape) != -1:
            raise OpError(f"the shape of the elements is the scalar {int(element_shape)}; only -1 may be a scalar")
        return UNKNOWN
    return Shape(tuple(element_shape.tolist()))


@value("EmptyTensorList")
def _empty_list(element_shape: NDArray[Any], most: NDArray[Any], *, element_dtype: DType) -> TensorList:
    return TensorList(element_dtype, _shape_of(element_shape), (), int(most))


@value("TensorListReserve")
def _list_reserve(element_shape: NDArray[Any], count: NDArray[Any], *, element_dtype: DType) -> TensorList:
    return TensorList(element_dtype, _shape_of(element_shape), (None,) * _count(count))


@value("TensorListFromTensor")
def _list_from_tensor(x: NDArray[Any], element_shape: NDArray[Any], *, element_dtype: DType) -> TensorList:
    if x.ndim == 0:
        raise OpError("a scalar cannot be made a list")
    shape = _shape_of(element_shape)
    if _merged(shape, Shape(x.shape[1:])) is None:
        raise OpError(f"elements of shape {list(x.shape[1:])} are no {shape}")
    if element_dtype.name == "variant" and x.ndim == 1:
        return TensorList(element_dtype, shape, tuple(x.tolist()))
    return TensorList(element_dtype, shape, tuple(x[number, ...] for number in range(x.shape[0])))


@value("TensorListStack")
def _list_stack(
    handle: TensorList, element_shape: NDArray[Any], *, num_elements: int, element_dtype: DType
) -> NDArray[Any]:
    if num_elements not in (-1, len(handle.items)):
        raise OpError(f"the list has {len(handle.items)} elements, not {num_elements}")
    items, shape = handle.filled(element_shape)
    return _stacked(items, element_dtype, shape)


@value("TensorListGather")
def _list_gather(
    handle: TensorList, indices: NDArray[Any], element_shape: NDArray[Any], *, element_dtype: DType
) -> NDArray[Any]:
    items, shape = handle.filled(element_shape, indices.tolist())
    return _stacked(items, element_dtype, shape)


@value("TensorListGetItem")
def _list_get_item(handle: TensorList, index: NDArray[Any], element_shape: NDArray[Any]) -> Any:
    place = handle.place(index)
    known: Sequence[int] = [place] if handle.items[place] is not None else _set_places(handle, place)
    return handle.filled(element_shape, known)[0][0]


def _set_places(handle: TensorList, place: int) -> list[int]:
    """A place where nothing was set, and those that show how large it would be."""
    return [place, *(number for number, one in enumerate(handle.items) if one is not None)]


@value("TensorListSetItem")
def _list_set_item(
    handle: TensorList, index: NDArray[Any], x: Any, *, resize_if_index_out_of_bounds: bool
) -> TensorList:
    items = handle.items
    if resize_if_index_out_of_bounds and int(index) >= len(items):
        items = (*items, *(None,) * (_count(index) + 1 - len(items)))
    grown = handle.with_items(items)
    place = grown.place(index)
    return grown.with_items((*items[:place], handle.checked(x), *items[place + 1 :]))


@value("TensorListPushBack")
def _list_push_back(handle: TensorList, x: Any) -> TensorList:
    if 0 <= handle.most <= len(handle.items):
        raise OpError(f"the list is full: it has {handle.most} elements")
    return handle.with_items((*handle.items, handle.checked(x)))


@value("TensorListPushBackBatch")
def _list_push_back_batch(handles: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
    if x.ndim == 0 or handles.shape != x.shape[:1]:
        raise OpError(f"{handles.size} lists do not fit a tensor of shape {list(x.shape)}")
    return variants([_list_push_back(handle, x[number, ...]) for number, handle in enumerate(handles.tolist())])


@value("TensorListPopBack")
def _list_pop_back(handle: TensorList, element_shape: NDArray[Any]) -> tuple[Any, ...]:
    if not handle.items:
        raise OpError("the list is empty")
    items, _ = handle.filled(element_shape, [len(handle.items) - 1])
    return handle.with_items(handle.items[:-1]), items[0]


@value("TensorListLength")
def _list_length(handle: TensorList) -> NDArray[Any]:
    return numpy.asarray(len(handle.items), numpy.int32)


@value("TensorListElementShape")
def _list_element_shape(handle: TensorList, *, shape_type: DType) -> NDArray[Any]:
    return numpy.asarray(-1 if handle.shape.dims is None else handle.shape.dims, shape_type.numpy())


@value("TensorListResize")
def _list_resize(handle: TensorList, size: NDArray[Any]) -> TensorList:
    count = _count(size)
    return handle.with_items((*handle.items[:count], *(None,) * (count - len(handle.items))))


@value("TensorListConcat")
def _list_concat(handle: TensorList, *, element_dtype: DType, element_shape: Shape) -> tuple[Any, ...]:
    return _list_joined(handle, element_dtype, element_shape)


@value("TensorListConcatV2")
def _list_concat_v2(
    handle: TensorList, element_shape: NDArray[Any], leading: NDArray[Any], *, element_dtype: DType
) -> tuple[Any, ...]:
    shape = _shape_of(element_shape)
    if any(one is None for one in handle.items):
        if shape.dims is None or len(leading) < len(handle.items):
            raise OpError("an element was not set, and its shape is not known")
        sizes = [(int(length), *shape.dims[1:]) for length in leading]
        items = [
            numpy.zeros(size, element_dtype.numpy()) if one is None else one
            for one, size in zip(handle.items, sizes, strict=False)
        ]
        handle = handle.with_items(tuple(items))
    return _list_joined(handle, element_dtype, shape)


def _list_joined(handle: TensorList, kind: DType, shape: Shape) -> tuple[Any, ...]:
    merged = _merged(shape, handle.shape)
    rest = Shape(merged.dims[1:]) if merged is not None and merged.dims else UNKNOWN
    return _joined(handle.items, kind, rest)


@value("TensorListSplit")
def _list_split(
    x: NDArray[Any], element_shape: NDArray[Any], lengths: NDArray[Any], *, element_dtype: DType
) -> TensorList:
    made = TensorList(element_dtype, _shape_of(element_shape), ())
    return made.with_items(tuple(made.checked(part) for part in _split(x, lengths)))


@value("TensorListScatter")
def _list_scatter(
    x: NDArray[Any], indices: NDArray[Any], element_shape: NDArray[Any], *, element_dtype: DType
) -> TensorList:
    return _scattered(TensorList(element_dtype, _shape_of(element_shape), ()), x, indices)


@value("TensorListScatterV2")
def _list_scatter_v2(
    x: NDArray[Any],
    indices: NDArray[Any],
    element_shape: NDArray[Any],
    count: NDArray[Any],
    *,
    element_dtype: DType,
) -> TensorList:
    size = int(count)
    if size >= 0 and (indices >= size).any():
        raise OpError(f"index {int(indices.max())} is outside of a list of {size} tensors")
    return _scattered(TensorList(element_dtype, _shape_of(element_shape), (None,) * max(0, size)), x, indices)


@value("TensorListScatterIntoExistingList")
def _list_scatter_into(handle: TensorList, x: NDArray[Any], indices: NDArray[Any]) -> TensorList:
    return _scattered(handle, x, indices)


def _scattered(handle: TensorList, x: NDArray[Any], indices: NDArray[Any]) -> TensorList:
    if x.ndim == 0 or indices.shape != x.shape[:1]:
        raise OpError(f"{indices.size} indices do not fit a tensor of shape {list(x.shape)}")
    if (indices < 0).any():
        raise OpError("an index is negative")
    items = list(handle.items)
    highest = int(indices.max(initial=-1))
    items += [None] * (_count(numpy.asarray(highest + 1)) - len(items))
    for number, index in enumerate(indices.tolist()):
        items[index] = handle.checked(x[number, ...])
    return handle.with_items(tuple(items))


@value("TensorListConcatLists")
def _list_concat_lists(one: TensorList, other: TensorList) -> TensorList:
    if one.kind != other.kind:
        raise OpError(f"lists of {one.kind} and of {other.kind} cannot be joined")
    return one.with_items((*one.items, *other.items))


# Stacks


class _Stack:
    """What a stack of TensorFlow 1 holds, in one run."""

    def __init__(self, most: int) -> None:
        self.items: list[Any] = []
        self.most = most


@value("StackV2")
def _stack_v2(most: NDArray[Any]) -> _Stack:
    return _Stack(int(most))


@value("Stack")
def _stack() -> _Stack:
    return _Stack(-1)


@value("StackPush StackPushV2")
def _stack_push(handle: _Stack, x: Any) -> Any:
    if 0 <= handle.most <= len(handle.items):
        raise OpError(f"the stack is full: it has {handle.most} elements")
    handle.items.append(x)
    return x


@value("StackPop StackPopV2")
def _stack_pop(handle: _Stack) -> Any:
    if not handle.items:
        raise OpError("the stack is empty")
    return handle.items.pop()


@value("StackClose StackCloseV2")
def _stack_close(handle: _Stack) -> tuple[Any, ...]:
    handle.items.clear()
    return ()
