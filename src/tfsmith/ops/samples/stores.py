"""Samples of what keeps tensors: lists of tensors, tensor arrays, stacks, tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ops.samples import Case, numbers, samples
from tfsmith.ops.samples.draft import Draft

__all__: list[str] = []

_F32 = "float32"
_ANY: dict[str, Any] = {"element_dtype": "float32"}


def _list(draft: Draft, rows: int = 3) -> str:
    """A list of rows of two numbers."""
    return draft.add("TensorListFromTensor", draft.feed(numbers(_F32, rows, 2)), draft.const([2]), **_ANY)


def _stacked(draft: Draft, handle: str, count: int = -1) -> str:
    return draft.add("TensorListStack", handle, draft.const([2]), **_ANY, num_elements=count)


@samples("TensorListFromTensor TensorListStack", exact=True)
def _from_tensor(op: str) -> Iterator[Case]:
    for kind in ("float32", "int64", "string", "bool"):
        for rows in (0, 1, 3):
            draft = Draft()
            handle = draft.add("TensorListFromTensor", draft.feed(numbers(kind, rows, 2)), draft.const([2]))
            y = draft.add("TensorListStack", handle, draft.const([-1]), element_dtype=kind)
            yield draft.case(op, f"{kind}, {rows} rows", y)
    draft = Draft()
    yield draft.case(op, "another count", _stacked(draft, _list(draft), 4))
    draft = Draft()
    handle = draft.add("TensorListFromTensor", draft.feed(numbers(_F32, 3, 2)), draft.const([3]), **_ANY)
    yield draft.case(op, "another shape", draft.add("TensorListLength", handle))


@samples("TensorListPushBack TensorListPopBack EmptyTensorList TensorListLength TensorListConcatLists", exact=True)
def _push(op: str) -> Iterator[Case]:
    draft = Draft()
    handle = draft.add("EmptyTensorList", draft.const([2]), draft.const(9), **_ANY)
    for start in (0, 5, 9):
        handle = draft.add("TensorListPushBack", handle, draft.feed(numbers(_F32, 2, start=start)))
    yield draft.case(op, "three pushed", _stacked(draft, handle), draft.add("TensorListLength", handle))
    popped = draft.add("TensorListPopBack", handle, draft.const([2]), **_ANY)
    yield draft.case(op, "one popped", _stacked(draft, popped), f"{popped}:1")
    joined = draft.add("TensorListConcatLists", handle, popped, **_ANY)
    yield draft.case(op, "joined", _stacked(draft, joined))
    draft = Draft()
    handle = draft.add("EmptyTensorList", draft.const([2]), draft.const(9), **_ANY)
    popped = draft.add("TensorListPopBack", handle, draft.const([2]), **_ANY)
    yield draft.case(op, "popped from an empty one", f"{popped}:1")
    draft = Draft()
    handle = draft.add("EmptyTensorList", draft.const([2]), draft.const(9), **_ANY)
    handle = draft.add("TensorListPushBack", handle, draft.feed(numbers(_F32, 3)))
    yield draft.case(op, "another shape", draft.add("TensorListLength", handle))


@samples("TensorListReserve TensorListSetItem TensorListGetItem TensorListResize TensorListElementShape", exact=True)
def _items(op: str) -> Iterator[Case]:
    draft = Draft()
    handle = draft.add("TensorListReserve", draft.const([2]), draft.const(3), **_ANY)
    yield draft.case(op, "reserved, as zeros", _stacked(draft, handle))
    handle = draft.add("TensorListSetItem", handle, draft.const(1), draft.feed(numbers(_F32, 2)))
    yield draft.case(op, "one set", _stacked(draft, handle))
    yield draft.case(
        op, "the set one", draft.add("TensorListGetItem", handle, draft.const(1), draft.const([2]), **_ANY)
    )
    yield draft.case(op, "another", draft.add("TensorListGetItem", handle, draft.const(0), draft.const([2]), **_ANY))
    yield draft.case(op, "shape", draft.add("TensorListElementShape", handle, shape_type="int32"))
    for index in (3, -1):
        draft = Draft()
        y = draft.add(
            "TensorListGetItem", _list(draft), draft.feed(numpy.array(index, "int32")), draft.const([2]), **_ANY
        )
        yield draft.case(op, f"item {index} of 3", y)
        draft = Draft()
        handle = draft.add("TensorListSetItem", _list(draft), draft.feed(numpy.array(index, "int32")),
                           draft.feed(numbers(_F32, 2)))  # fmt: skip
        yield draft.case(op, f"item {index} of 3 set", _stacked(draft, handle))
    for size in (1, 3, 5):
        draft = Draft()
        handle = draft.add("TensorListResize", _list(draft), draft.const(size))
        yield draft.case(op, f"resized to {size}", _stacked(draft, handle))
    draft = Draft()
    handle = draft.add("TensorListReserve", draft.const(-1), draft.const(2), **_ANY)
    yield draft.case(op, "of no known shape, stacked", draft.add("TensorListStack", handle, draft.const(-1), **_ANY))


@samples("TensorListGather TensorListScatter TensorListScatterV2 TensorListScatterIntoExistingList", exact=True)
def _gather(op: str) -> Iterator[Case]:
    for places in ([2, 0], [1, 1], [], [3], [-1]):
        if places == [-1] and op == "TensorListScatterIntoExistingList":
            continue  # TensorFlow dies of it
        draft = Draft()
        ids = draft.feed(numpy.array(places, "int32"))
        if op == "TensorListGather":
            y = draft.add(op, _list(draft), ids, draft.const([2]), **_ANY)
        else:
            rows = draft.feed(numbers(_F32, len(places), 2))
            if op == "TensorListScatter":
                handle = draft.add(op, rows, ids, draft.const([2]), **_ANY)
            elif op == "TensorListScatterV2":
                handle = draft.add(op, rows, ids, draft.const([2]), draft.const(3), **_ANY)
            else:
                handle = draft.add(op, _list(draft), rows, ids)
            y = _stacked(draft, handle)
        yield draft.case(op, f"places {places}", y)


@samples("TensorListConcatV2 TensorListConcat TensorListSplit TensorListPushBackBatch", exact=True)
def _concat(op: str) -> Iterator[Case]:
    if op == "TensorListPushBackBatch":
        return (yield from _batches(op))
    for lengths in ([1, 2], [3, 0], [0, 0], [2], [1, 1]):
        draft = Draft()
        whole = draft.feed(numbers(_F32, 3, 2))
        sizes = draft.feed(numpy.array(lengths, "int64"))
        handle = draft.add("TensorListSplit", whole, draft.const([-1, 2]), sizes, **_ANY)
        if op == "TensorListConcat":
            y = draft.add(op, handle, **_ANY, element_shape=[None, 2])
        else:
            leading = draft.const(numpy.array([], "int64"))
            y = draft.add("TensorListConcatV2", handle, draft.const([-1, 2]), leading, **_ANY)
        yield draft.case(op, f"split by {lengths}", y, f"{y}:1")


def _batches(op: str) -> Iterator[Case]:
    draft = Draft()
    one = draft.add("EmptyTensorList", draft.const([2]), draft.const(9), **_ANY)
    two = draft.add("EmptyTensorList", draft.const([2]), draft.const(9), **_ANY)
    handles = draft.add("Pack", [one, two], axis=0)
    pushed = draft.add(op, handles, draft.feed(numbers(_F32, 2, 2)))
    parts = draft.add("Unpack", pushed, num=2, axis=0)
    yield draft.case(op, "a batch of two", _stacked(draft, parts), _stacked(draft, f"{parts}:1"))


@samples("TensorArrayV3 TensorArrayWriteV3 TensorArrayReadV3 TensorArrayGatherV3 TensorArrayScatterV3"
         " TensorArrayConcatV3 TensorArraySplitV3 TensorArraySizeV3", exact=True)  # fmt: skip
def _arrays(op: str) -> Iterator[Case]:
    usual: dict[str, Any] = {"dtype": "float32"}

    def array(draft: Draft) -> tuple[str, str]:
        handle = draft.add("TensorArrayV3", draft.const(3), clear_after_read=False, **usual)
        return handle, f"{handle}:1"

    draft = Draft()
    handle, flow = array(draft)
    for number in range(3):
        value = draft.feed(numbers(_F32, 2, start=number))
        flow = draft.add("TensorArrayWriteV3", handle, draft.const(number), value, flow)
    if op in ("TensorArrayV3", "TensorArrayWriteV3", "TensorArrayReadV3"):
        for index in (0, 2, 3):
            y = draft.add("TensorArrayReadV3", handle, draft.feed(numpy.array(index, "int32")), flow, **usual)
            yield draft.case(op, f"written, read {index}", y)
        twice = draft.add("TensorArrayWriteV3", handle, draft.const(0), draft.feed(numbers(_F32, 2)), flow)
        y = draft.add("TensorArrayReadV3", handle, draft.const(0), twice, **usual)
        yield draft.case(op, "written twice", y)
    elif op in ("TensorArrayGatherV3", "TensorArraySizeV3"):
        y = draft.add("TensorArrayGatherV3", handle, draft.const([2, 0]), flow, **usual)
        yield draft.case(op, "gathered", y, draft.add("TensorArraySizeV3", handle, flow))
    elif op == "TensorArrayScatterV3":
        draft = Draft()
        handle, flow = array(draft)
        flow = draft.add(op, handle, draft.const([2, 0, 1]), draft.feed(numbers(_F32, 3, 2)), flow)
        yield draft.case(
            op, "scattered", draft.add("TensorArrayGatherV3", handle, draft.const([0, 1, 2]), flow, **usual)
        )
    elif op == "TensorArrayConcatV3":
        y = draft.add(op, handle, flow, **usual)
        yield draft.case(op, "joined", y, f"{y}:1")
    else:
        draft = Draft()
        handle, flow = array(draft)
        lengths = draft.const(numpy.array([1, 0, 3], "int64"))
        flow = draft.add(op, handle, draft.feed(numbers(_F32, 4, 2)), lengths, flow)
        y = draft.add("TensorArrayConcatV3", handle, flow, **usual)
        yield draft.case(
            op, "split", y, f"{y}:1", draft.add("TensorArrayReadV3", handle, draft.const(2), flow, **usual)
        )


@samples("StackV2 StackPushV2 StackPopV2", exact=True)
def _stacks(op: str) -> Iterator[Case]:
    draft = Draft()
    handle = draft.add("StackV2", draft.const(4), elem_type="float32", stack_name="s")
    first = draft.add("StackPushV2", handle, draft.feed(numbers(_F32, 2)))
    second = draft.add("StackPushV2", handle, draft.feed(numbers(_F32, 2, start=8)), after=[first])
    y = draft.add("StackPopV2", handle, after=[second], elem_type="float32")
    yield draft.case(op, "the last comes first", y)
    yield draft.case(op, "then the other", draft.add("StackPopV2", handle, after=[y], elem_type="float32"))


_KEYS = {
    ("string", "int64"): (numpy.array([b"a", b"b", b""], object), numpy.array([1, -2, 3], "int64"), -1),
    ("int64", "string"): (numpy.array([1, -2, 3], "int64"), numpy.array([b"a", b"b", b""], object), b"none"),
    ("int64", "float32"): (numpy.array([1, -2, 3], "int64"), numpy.array([0.5, 1.5, -2], "float32"), 0.0),
    ("string", "string"): (numpy.array([b"a", b"b", b""], object), numpy.array([b"x", b"y", b"z"], object), b"?"),
    ("int64", "int64"): (numpy.array([1, -2, 3], "int64"), numpy.array([1, -2, 3], "int64"), 7),
}


@samples("HashTableV2 InitializeTableV2 LookupTableFindV2 LookupTableSizeV2 LookupTableImportV2 LookupTableExportV2",
         exact=True)  # fmt: skip
def _tables(op: str) -> Iterator[Case]:
    for (key, value), (keys, values, default) in _KEYS.items():
        draft = Draft()
        table = draft.add("HashTableV2", key_dtype=key, value_dtype=value)
        filler = "LookupTableImportV2" if op == "LookupTableImportV2" else "InitializeTableV2"
        filled = draft.add(filler, table, draft.const(keys), draft.const(values))
        asked = numpy.array([b"b", b"no", b""], object) if key == "string" else numpy.array([-2, 5, 3], "int64")
        other = draft.const(default, value)
        y = draft.add("LookupTableFindV2", table, draft.feed(asked.reshape(3, 1)), other, after=[filled])
        size = draft.add("LookupTableSizeV2", table, after=[filled])
        yield draft.case(op, f"{key} to {value}", y, size)
        if op == "LookupTableExportV2":
            y = draft.add(op, table, after=[filled], Tkeys=key, Tvalues=value)
            order = draft.add("Size", y)
            yield draft.case(op, f"{key} to {value}, how many", order)
    draft = Draft()
    table = draft.add("HashTableV2", key_dtype="int64", value_dtype="int64")
    double = draft.const(numpy.array([1, 1], "int64"))
    filled = draft.add("InitializeTableV2", table, double, draft.const(numpy.array([1, 2], "int64")))
    yield draft.case(op, "a key twice", draft.add("LookupTableSizeV2", table, after=[filled]))
    draft = Draft()
    table = draft.add("HashTableV2", key_dtype="int64", value_dtype="int64")
    one, other = draft.feed(numpy.array([1], "int64")), draft.const(numpy.array(7, "int64"))
    yield draft.case(op, "not filled", draft.add("LookupTableFindV2", table, one, other))


@samples("MutableHashTableV2 LookupTableInsertV2 LookupTableRemoveV2 MutableDenseHashTableV2", exact=True)
def _mutable(op: str) -> Iterator[Case]:
    draft = Draft()
    if op == "MutableDenseHashTableV2":
        empty, deleted = draft.const(numpy.array(-100, "int64")), draft.const(numpy.array(-101, "int64"))
        table = draft.add(op, empty, deleted, value_dtype="float32")
    else:
        table = draft.add("MutableHashTableV2", key_dtype="int64", value_dtype="float32")
    keys = draft.const(numpy.array([1, 2, 1], "int64"))
    filled = draft.add("LookupTableInsertV2", table, keys, draft.const([0.5, 1.5, 2.5]))
    asked, other = draft.feed(numpy.array([1, 2, 3], "int64")), draft.const(-1.0)
    found = draft.add("LookupTableFindV2", table, asked, other, after=[filled])
    yield draft.case(op, "inserted", found, draft.add("LookupTableSizeV2", table, after=[filled]))
    gone = draft.add("LookupTableRemoveV2", table, draft.const(numpy.array([2, 9], "int64")), after=[filled])
    found = draft.add("LookupTableFindV2", table, asked, other, after=[gone])
    yield draft.case(op, "removed", found, draft.add("LookupTableSizeV2", table, after=[gone]))
