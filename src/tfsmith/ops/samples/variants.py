"""Samples of tensors in variants and in texts: ragged rows, maps, optionals, serialized and compressed tensors."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples, string, texts
from tfsmith.ops.samples.draft import Draft

__all__: list[str] = []

_F32 = "float32"


def _whole(*values: int, kind: str = "int64") -> Any:
    return numpy.array(values, kind)


# Ragged


@samples("RaggedTensorToVariant RaggedTensorFromVariant", exact=True)
def _ragged(op: str) -> Iterator[Case]:
    inner, outer = _whole(0, 2, 2, 5, 6), _whole(0, 1, 1, 4)
    for kind, splits in (("float32", "int64"), ("int64", "int32"), ("string", "int64")):
        for count, given in ((1, [inner]), (2, [outer, inner])):
            for batched in (False, True):
                draft = Draft()
                parts = [draft.feed(one.astype(splits)) for one in given]
                types: dict[str, Any] = {"Tvalues": kind, "Tsplits": splits}
                made = draft.add("RaggedTensorToVariant", parts, draft.feed(numbers(kind, 6, 2)), batched_input=batched,
                                 RAGGED_RANK=count)  # fmt: skip
                rank = count - 1 if batched else count
                back = draft.add("RaggedTensorFromVariant", made, input_ragged_rank=rank, output_ragged_rank=count,
                                 **types)  # fmt: skip
                ends = [f"{back}:{number}" for number in range(count + 1)]
                yield draft.case(op, f"{kind}, rank {count}, batched {batched}, there and back", *ends)
                wrong = draft.add("RaggedTensorFromVariant", made, input_ragged_rank=rank + 1,
                                  output_ragged_rank=count + 1, **types)  # fmt: skip
                if kind == _F32:
                    yield draft.case(op, f"rank {count}, batched {batched}, another rank", f"{wrong}:0")
    draft = Draft()
    made = draft.add("RaggedTensorToVariant", [draft.feed(inner)], draft.feed(numbers(_F32, 6)), batched_input=True,
                     RAGGED_RANK=1)  # fmt: skip
    row = draft.add("Unpack", made, num=4, axis=0)
    back = draft.add("RaggedTensorFromVariant", f"{row}:2", input_ragged_rank=0, output_ragged_rank=0, Tvalues=_F32,
                     Tsplits="int64")  # fmt: skip
    yield draft.case(op, "one row", back)
    draft = Draft()
    made = draft.add("RaggedTensorToVariant", [draft.feed(_whole(0, 2, 9))], draft.feed(numbers(_F32, 6)),
                     batched_input=True, RAGGED_RANK=1)  # fmt: skip
    yield draft.case(op, "splits that do not fit", draft.add("Size", made))


@samples("RaggedFillEmptyRows", exact=True)
def _fill_rows(op: str) -> Iterator[Case]:
    for kind in ("float32", "int32", "string", "bool"):
        given = _whole(0, 2, 2), numbers(kind, 3), _whole(4).reshape(()), numbers(kind, 1, start=9).reshape(())
        yield case(op, *given, name=kind)
    one = numbers(_F32)
    yield case(op, _whole(), numbers(_F32, 0), numpy.array(2, "int64"), one, name="all empty")
    yield case(op, _whole(), numbers(_F32, 0), numpy.array(0, "int64"), one, name="no rows")
    yield case(op, _whole(0, 4), numbers(_F32, 2), numpy.array(2, "int64"), one, name="a row outside", unknown=True)


@samples("CompositeTensorVariantFromComponents CompositeTensorVariantToComponents", exact=True)
def _composite(op: str) -> Iterator[Case]:
    draft = Draft()
    parts = [draft.feed(numbers(_F32, 2)), draft.feed(numbers("int64", 3))]
    made = draft.add("CompositeTensorVariantFromComponents", parts, metadata="")
    back = draft.add("CompositeTensorVariantToComponents", made, metadata="", Tcomponents=["float32", "int64"])
    yield draft.case(op, "there and back", back, f"{back}:1")


# Optionals and maps


@samples("OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone", exact=True)
def _optional(op: str) -> Iterator[Case]:
    draft = Draft()
    made = draft.add("OptionalFromValue", [draft.feed(numbers(_F32, 2)), draft.feed(numbers("string", 3))])
    types: dict[str, Any] = {"output_types": ["float32", "string"], "output_shapes": [[None], [3]]}
    back = draft.add("OptionalGetValue", made, **types)
    nothing = draft.add("OptionalNone")
    has, lacks = draft.add("OptionalHasValue", made), draft.add("OptionalHasValue", nothing)
    yield draft.case(op, "there and back", back, f"{back}:1", has, lacks)
    yield draft.case(op, "of nothing", draft.add("OptionalGetValue", nothing, **types))
    types["output_shapes"] = [[2], [4]]
    yield draft.case(op, "another shape", draft.add("OptionalGetValue", made, **types))


@samples("EmptyTensorMap TensorMapInsert TensorMapLookup TensorMapErase TensorMapHasKey TensorMapSize"
         " TensorMapStackKeys", exact=True)  # fmt: skip
def _maps(op: str) -> Iterator[Case]:
    for kind in ("int32", "string", "float32"):
        draft = Draft()
        keys = [draft.feed(one.reshape(())) for one in numpy.split(_KEYS[kind], 3)]
        empty = draft.add("EmptyTensorMap")
        one = draft.add("TensorMapInsert", empty, keys[0], draft.feed(numbers(_F32, 2)))
        two = draft.add("TensorMapInsert", one, keys[1], draft.feed(numbers(_F32, 2, start=5)))
        again = draft.add("TensorMapInsert", two, keys[0], draft.feed(numbers(_F32, 2, start=9)))
        sizes = [draft.add("TensorMapSize", each) for each in (empty, one, two, again)]
        found = [draft.add("TensorMapLookup", each, keys[0], value_dtype=_F32) for each in (one, again)]
        has = [draft.add("TensorMapHasKey", two, key) for key in keys]
        yield draft.case(op, f"{kind}, inserted", *sizes, *found, *has)
        less = draft.add("TensorMapErase", two, keys[0], value_dtype=_F32)
        stacked = draft.add("TensorMapStackKeys", less, key_dtype=kind)
        yield draft.case(op, f"{kind}, erased", stacked, draft.add("TensorMapHasKey", less, keys[0]))
        yield draft.case(op, f"{kind}, not there", draft.add("TensorMapLookup", two, keys[2], value_dtype=_F32))


_KEYS = {
    "int32": numpy.array([3, -1, 7], "int32"),
    "string": numpy.array([b"a", b"", b"c"], object),
    "float32": numpy.array([0.5, -1.25, 8], "float32"),
}


# Texts


@samples("SerializeTensor ParseTensor", exact=True)
def _serialize(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "uint64", "bool",
                 "complex64", "string"):  # fmt: skip
        for shape in ((), (3,), (2, 0, 2), (1, 2)):
            draft = Draft()
            made = draft.add("SerializeTensor", draft.feed(numbers(kind, *shape)))
            back = draft.add("ParseTensor", made, out_type=kind)
            yield draft.case(op, f"{kind}, {shape}", *((made,) if op == "SerializeTensor" else (back,)))
    if op == "SerializeTensor":
        return
    for name, text, kind in (
        ("a list that repeats", b"\x08\x01\x12\x04\x12\x02\x08\x03*\x04\x00\x00\xc0?", "float32"),
        ("a list of whole numbers", b"\x08\x03\x12\x04\x12\x02\x08\x02:\x02\x01\x02", "int32"),
        ("no values", b"\x08\x03\x12\x04\x12\x02\x08\x02", "int32"),
        ("half a list", b"\x08\x13\x12\x04\x12\x02\x08\x02j\x03\x80x\x01", "float16"),
        ("another type", b"\x08\x01\x12\x00", "int32"),
        ("bytes that do not fit", b'\x08\x01\x12\x00"\x03abc', "float32"),
        ("no tensor", b"zzz", "float32"),
        ("empty", b"", "float32"),
    ):
        yield case(op, string(text), name=name, out_type=kind)


@samples("SerializeSparse SerializeManySparse DeserializeSparse DeserializeManySparse", exact=True)
def _serialize_sparse(op: str) -> Iterator[Case]:
    many = "Many" in op
    places = numpy.array([[0, 1], [1, 0], [1, 2], [3, 1]], "int64")
    for kind in ("float32", "int64", "string"):
        for form in ("string", "variant"):
            draft = Draft()
            parts = [draft.feed(places), draft.feed(numbers(kind, 4)), draft.feed(_whole(4, 3))]
            made = draft.add("SerializeManySparse" if many else "SerializeSparse", *parts, out_type=form)
            if op.startswith("Serialize") and form == "string":
                yield draft.case(op, kind, made)
            back = (
                draft.add("DeserializeManySparse", made, dtype=kind)
                if op == "DeserializeManySparse" and form == "string"
                else draft.add("DeserializeSparse", made, dtype=kind)
            )
            yield draft.case(op, f"{kind} in {form}, there and back", back, f"{back}:1", f"{back}:2")
    if op == "SerializeManySparse":
        given = places[::-1].copy(), numbers(_F32, 4), _whole(4, 3)
        yield case(op, *given, name="out of order")
    if op.startswith("Deserialize"):
        draft = Draft()
        rows = [
            draft.add("SerializeSparse", draft.feed(_whole(*ids).reshape(-1, 1)), draft.feed(numbers(_F32, len(ids))),
                      draft.feed(_whole(size)))
            for ids, size in (((1, 2), 4), ((), 2), ((5,), 6))
        ]  # fmt: skip
        back = draft.add(op, draft.add("Pack", rows, axis=0), dtype=_F32)
        yield draft.case(op, "of different sizes", back, f"{back}:1", f"{back}:2")
        yield case(op, texts([b"a", b"b", b"c"], 1, 3), name="no tensors", dtype=_F32)
        yield case(op, texts([b"a", b"b"], 1, 2), name="two of three", dtype=_F32, unknown=True)


@samples("DecodeCompressed", exact=True)
def _decompress(op: str) -> Iterator[Case]:
    packed = zlib.compress(b"abc" * 20, 9)
    yield case(op, texts([packed, packed, b""]), name="zlib", compression_type="ZLIB")
    maker = zlib.compressobj(9, zlib.DEFLATED, 31)
    yield case(op, texts([maker.compress(b"hello") + maker.flush()], 1, 1), name="gzip", compression_type="GZIP")
    yield case(op, texts([b"as it is"]), name="none", compression_type="")
    yield case(op, texts([packed[:-4]]), name="without its end", compression_type="ZLIB")
    yield case(op, texts([b"xxx"]), name="not compressed", compression_type="ZLIB")
    yield case(op, texts([packed]), name="another kind", compression_type="GZIP")
    yield case(op, texts([packed]), name="an unknown kind", compression_type="LZ")
