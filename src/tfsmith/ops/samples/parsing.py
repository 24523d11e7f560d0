"""Samples of decoding: tf.train.Example, CSV, raw numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.samples import Case, case, samples, string, texts

if TYPE_CHECKING:
    pass

__all__: list[str] = []


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def _feature(key: bytes, values: Sequence[Any], *, packed: bool = True) -> bytes:
    return _field(1, _field(1, key) + _field(2, _list(values, packed=packed)))


def _list(values: Sequence[Any], *, packed: bool = True) -> bytes:
    if values and isinstance(values[0], bytes):
        listed = _field(1, b"".join(_field(1, value) for value in values))
    elif values and isinstance(values[0], float):
        listed = _field(2, _field(1, struct.pack(f"<{len(values)}f", *values)) if packed
                        else b"".join(b"\r" + struct.pack("<f", value) for value in values))  # fmt: skip
    else:
        listed = _field(3, _field(1, b"".join(map(_varint, values))) if packed
                        else b"".join(b"\x08" + _varint(value) for value in values))  # fmt: skip
    return listed


def _example(*features: bytes) -> bytes:
    return _field(1, b"".join(features))


_FIRST = _example(_feature(b"a", [1.0, 2.5]), _feature(b"b", [b"x", b"yz"]), _feature(b"c", [7, -1, 300]))
_SECOND = _example(_feature(b"c", [5], packed=False), _feature(b"a", [3.0, 4.0], packed=False), _feature(b"b", [b""]))
_THIRD = _example(_feature(b"a", [9.0, 8.0]))
_EXAMPLES = (_FIRST, _SECOND, _THIRD)
_SPARSE: dict[str, Any] = {"sparse_types": ("string", "int64")}
_DENSE: dict[str, Any] = {"Tdense": ("float32",), "dense_shapes": ((2,),)}
_NO_FLOATS = numpy.zeros(0, "float32")


@samples("ParseExample", exact=True)
def _parse_example(op: str) -> Iterator[Case]:
    keys = [string(b"b"), string(b"c")]
    yield case(op, texts(_EXAMPLES), texts([]), keys, [string(b"a")], [_NO_FLOATS], name="all", **_SPARSE, **_DENSE)
    default = numpy.array([[0.5, 0.25]], "float32")
    missing = _example(_feature(b"c", [1]))
    yield case(
        op,
        texts([missing, _FIRST]),
        texts([]),
        keys,
        [string(b"a")],
        [default.reshape(2)],
        name="default",
        **_SPARSE,
        **_DENSE,
    )
    yield case(op, texts([missing]), texts([]), keys, [string(b"a")], [_NO_FLOATS], name="missing", **_SPARSE, **_DENSE)
    none: dict[str, Any] = {"sparse_types": ()}
    for name, shape, kind, key, fill in (
        ("too many", (1,), "float32", b"a", numpy.zeros(0, "float32")),
        ("other type", (2,), "int64", b"a", numpy.zeros(0, "int64")),
        ("texts", (2,), "string", b"b", texts([b"p", b"q"])),
    ):
        yield case(op, texts([_FIRST]), texts([]), [], [string(key)], [fill], name=name, Tdense=(kind,),
                   dense_shapes=(shape,), **none)  # fmt: skip
    yield case(op, texts(_EXAMPLES), texts([]), [], [string(b"c")], [numpy.array([9], "int64")], name="any length",
               Tdense=("int64",), dense_shapes=((None,),), **none)  # fmt: skip
    yield case(op, texts([]), texts([]), keys, [string(b"a")], [_NO_FLOATS], name="no examples", **_SPARSE, **_DENSE)
    yield case(
        op, texts([b"\xff\xff"]), texts([]), keys, [string(b"a")], [_NO_FLOATS], name="damaged", **_SPARSE, **_DENSE
    )


@samples("ParseExampleV2", exact=True)
def _parse_example_v2(op: str) -> Iterator[Case]:
    kinds: dict[str, Any] = {"num_sparse": 1, "sparse_types": ("string",), "ragged_value_types": ("int64",), **_DENSE}
    given = (texts([]), texts([b"b"]), texts([b"a"]), texts([b"c"]), [_NO_FLOATS])
    for splits in ("int32", "int64"):
        yield case(op, texts(_EXAMPLES), *given, name=f"batch, {splits}", ragged_split_types=(splits,), **kinds)
        yield case(op, string(_FIRST), *given, name=f"one, {splits}", ragged_split_types=(splits,), **kinds)
    yield case(op, texts(_EXAMPLES, 1, 3), *given, name="matrix", ragged_split_types=("int64",), **kinds)
    twice = (texts([]), texts([b"c"]), texts([b"a"]), texts([b"c"]), [_NO_FLOATS])
    other = {**kinds, "sparse_types": ("int64",)}
    yield case(op, texts(_EXAMPLES), *twice, name="a key twice", ragged_split_types=("int64",), **other)


@samples("ParseSingleExample", exact=True)
def _parse_single(op: str) -> Iterator[Case]:
    keys: dict[str, Any] = {"num_sparse": 2, "sparse_keys": ("b", "c"), "dense_keys": ("a",)}
    for name, text in (("first", _FIRST), ("second", _SECOND), ("missing", _example(_feature(b"c", [1])))):
        yield case(op, string(text), [_NO_FLOATS], name=name, **keys, **_SPARSE, **_DENSE)


def _lists(**lists: Sequence[Sequence[Any]]) -> bytes:
    """The feature lists of a SequenceExample."""
    found = b""
    for key, steps in lists.items():
        values = b"".join(_field(1, _list(step) if step else b"") for step in steps)
        found += _field(1, _field(1, key.encode()) + _field(2, values))
    return _field(2, found)


_CONTEXT = _example(_feature(b"n", [3, 4]), _feature(b"w", [0.5, 1.5]))
_LONG = _CONTEXT + _lists(t=[[b"a", b"b"], [b"c"], []], f=[[1.0, 2.0], [3.0, 4.0]], i=[[7], [8, 9]])
_SHORT = _example(_feature(b"w", [2.5, 3.5])) + _lists(t=[[b"z"]], f=[[9.0, 8.0]], i=[])
_WITHOUT = _example(_feature(b"w", [2.5, 3.5])) + _lists(t=[[b"z"]])
_LISTS: dict[str, Any] = {
    "Ncontext_sparse": 1, "context_sparse_types": ("int64",), "Tcontext_dense": ("float32",),
    "context_dense_shapes": ((2,),), "Nfeature_list_sparse": 1, "feature_list_sparse_types": ("string",),
    "Nfeature_list_dense": 1, "feature_list_dense_types": ("float32",), "feature_list_dense_shapes": ((2,),),
}  # fmt: skip
_SEQUENCES: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    ("two", (_LONG, _SHORT)), ("one", (_SHORT,)), ("list is missing", (_LONG, _WITHOUT)), ("none", ()),
    ("damaged", (b"\xff\xff",)), ("other size", (_CONTEXT + _lists(f=[[1.0]]),)),
    ("other type", (_CONTEXT + _lists(f=[[1, 2]]),)), ("no context", (_lists(f=[[1.0, 2.0]]),)),
)  # fmt: skip


@samples("ParseSequenceExample", exact=True)
def _parse_sequence(op: str) -> Iterator[Case]:
    keys: dict[str, Any] = {"context_sparse_keys": ("n",), "context_dense_keys": ("w",), "Ncontext_dense": 1}
    keys |= {"feature_list_sparse_keys": ("t",), "feature_list_dense_keys": ("f",)}
    for name, examples in _SEQUENCES:
        for missing in ((), ("f",)):
            yield case(op, texts(examples), texts([]), [_NO_FLOATS], name=f"{name}, may miss {missing}",
                       feature_list_dense_missing_assumed_empty=missing, **keys, **_LISTS)  # fmt: skip


@samples("ParseSequenceExampleV2", exact=True)
def _parse_sequence_v2(op: str) -> Iterator[Case]:
    ragged: dict[str, Any] = {"context_ragged_value_types": ("int64",), "feature_list_ragged_value_types": ("int64",)}
    for name, examples in _SEQUENCES:
        for missing, splits in product((False, True), ("int32", "int64")):
            given = (texts([]), texts([b"n"]), texts([b"w"]), texts([b"m"]), texts([b"t"]), texts([b"f"]),
                     texts([b"i"]), numpy.array([missing]), [_NO_FLOATS])  # fmt: skip
            ragged |= {"context_ragged_split_types": (splits,), "feature_list_ragged_split_types": (splits,)}
            yield case(op, texts(examples), *given, name=f"{name}, may miss {missing}, {splits}", **ragged, **_LISTS)
            if len(examples) == 1:
                yield case(op, string(examples[0]), *given, name=f"{name} by itself, {missing}, {splits}", **ragged,
                           **_LISTS)  # fmt: skip


@samples("ParseSingleSequenceExample", exact=True)
def _parse_single_sequence(op: str) -> Iterator[Case]:
    for name, examples in _SEQUENCES:
        for missing in ((), (b"f",)) if examples else ():
            yield case(op, string(examples[-1]), texts(missing), [string(b"n")], [string(b"w")], [string(b"t")],
                       [string(b"f")], [_NO_FLOATS], string(b""), name=f"{name}, may miss {missing}",
                       **_LISTS)  # fmt: skip


@samples("DecodeRaw", exact=True)
def _decode_raw(op: str) -> Iterator[Case]:
    data = bytes(range(16))
    for kind in ("uint8", "int8", "int16", "uint16", "int32", "int64", "float32", "float64", "float16", "bool"):
        yield case(op, texts([data, data[::-1]]), name=kind, out_type=kind)
    for kind in ("int16", "int32", "float32", "int64"):
        yield case(op, texts([data]), name=f"{kind}, big endian", out_type=kind, little_endian=False)
    yield case(op, string(data), name="scalar", out_type="int32")
    yield case(op, texts([data, data[:8]]), name="other lengths", out_type="int32")
    yield case(op, texts([data[:3]]), name="no multiple", out_type="int32")


@samples("DecodePaddedRaw", exact=True)
def _decode_padded(op: str) -> Iterator[Case]:
    data = bytes(range(1, 11))
    for kind in ("uint8", "int16", "int32", "float32"):
        yield case(op, texts([data, data[:3], b""]), numpy.int32(8), name=kind, out_type=kind)
    yield case(op, texts([data]), numpy.int32(6), name="no multiple", out_type="int32")
    yield case(op, texts([data]), numpy.int32(8), name="big endian", out_type="int16", little_endian=False)


@samples("DecodeCSV", exact=True)
def _decode_csv(op: str) -> Iterator[Case]:
    kinds = [numpy.array([1], "int32"), numpy.array([0.5], "float32"), texts([b"none"])]
    required = [numpy.zeros(0, "int32"), numpy.zeros(0, "float32"), texts([])]
    yield case(op, texts([b"1,2.5,a", b"-3,4,b c", b",,"]), kinds, name="plain")
    yield case(op, texts([b'1,2,"a,b"', b'2,3,"a ""b"""']), kinds, name="quotes")
    yield case(op, texts([b"1;2;a"]), kinds, name="semicolon", field_delim=";")
    yield case(op, texts([b'1,2,"a"']), kinds, name="no quotes", use_quote_delim=False)
    yield case(op, texts([b"NA,2,a"]), kinds, name="not available", na_value="NA")
    yield case(op, texts([b"9,1,8,2,a"]), kinds, name="some columns", select_cols=(1, 3, 4))
    yield case(op, string(b"1,2,a"), kinds, name="scalar")
    for name, text in (
        ("too few", b"1,2"),
        ("too many", b"1,2,a,b"),
        ("no number", b"x,2,a"),
        ("open quote", b'1,2,"a'),
    ):
        yield case(op, texts([text]), kinds, name=name)
    yield case(op, texts([b",2,a"]), required, name="required")
