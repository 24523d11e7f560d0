"""Samples of texts: joins, splits, expressions, numbers, Unicode, base64, hashes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples, string, texts

if TYPE_CHECKING:
    pass

__all__: list[str] = []

_WORDS = (
    b"",
    b"a",
    b" Hello  World ",
    b"tab\tline\n",
    b"\xc3\xa9t\xc3\xa9",
    b"\xe6\x97\xa5\xe6\x9c\xac",
    b"x,y,,z",
    b"\xff\xfe",
)
_PLAIN = (b"", b"a", b"ab cd", b"Abc-12", b"x,y,,z", b" spaced  out ")


@samples("StringToHashBucketFast StringToHashBucket", exact=True)
def _buckets(op: str) -> Iterator[Case]:
    yield case(op, texts(_WORDS), name="words", num_buckets=1000)
    for length in (3, 7, 8, 12, 16, 17, 24, 32, 33, 48, 64, 65, 100, 127, 128, 129, 200, 1000):
        text = bytes((place * 37 + length) % 251 for place in range(length))
        yield case(op, texts([text]), name=f"{length} bytes", num_buckets=(1 << 62) - 57)
    yield case(op, string(b"scalar"), name="scalar", num_buckets=1)
    yield case(op, texts([]), name="empty", num_buckets=10)


@samples("StringToHashBucketStrong", exact=True)
def _strong(op: str) -> Iterator[Case]:
    yield case(op, texts(_WORDS, 2, 4), name="words", num_buckets=1000, key=(1, 2))
    for length in (7, 8, 9, 31, 32, 33, 100):
        text = bytes((place * 37 + length) % 251 for place in range(length))
        yield case(op, texts([text]), name=f"{length} bytes", num_buckets=(1 << 62) - 57, key=(123456789012345, 42))


@samples("Fingerprint", exact=True)
def _fingerprint(op: str) -> Iterator[Case]:
    method = string(b"farmhash64")
    yield case(op, texts(_WORDS), method, name="texts")
    yield case(op, texts(_WORDS, 4, 2), method, name="rows of texts")
    yield case(op, numbers("int32", 3, 4), method, name="int32")
    yield case(op, numbers("float64", 2, 2, 2), method, name="float64")


@samples("StringJoin", exact=True)
def _join(op: str) -> Iterator[Case]:
    a = texts(_PLAIN, 2, 3)
    yield case(op, [a, a], name="two", separator="-")
    yield case(op, [a, string(b"!"), a], name="with a scalar", separator="")
    yield case(op, [string(b"a"), string(b"b")], name="scalars", separator=", ")
    yield case(op, [a], name="one", separator="x")
    yield case(op, [a, a.reshape(3, 2)], name="shapes that differ", unknown=True)
    yield case(op, [a[:0], a[:0]], name="empty")


@samples("ReduceJoin", exact=True)
def _reduce_join(op: str) -> Iterator[Case]:
    a = texts(_PLAIN, 2, 3)
    for axes in ([0], [1], [-1], [-2], [0, 1], [1, 0], []):
        yield case(op, a, numpy.array(axes, "int32"), name=f"axes {axes}", separator="|")
        yield case(op, a, numpy.array(axes, "int32"), name=f"axes {axes}, kept", keep_dims=True)
    yield case(op, a, numpy.array([0, 0], "int32"), name="twice", unknown=True)
    yield case(op, a, numpy.array([2], "int32"), name="no axis", unknown=True)
    yield case(op, a[:0], numpy.array([0], "int32"), name="empty", separator=",")
    yield case(op, a, numpy.array(1, "int32"), name="scalar axis")


@samples("UnsortedSegmentJoin", exact=True)
def _segment_join(op: str) -> Iterator[Case]:
    a = texts(_PLAIN)
    ids = numpy.array([2, 0, 0, 2, 1, 0], "int32")
    yield case(op, a, ids, numpy.int32(4), name="vector", separator=" ")
    yield case(op, a.reshape(3, 2), ids[:3], numpy.int32(3), name="rows", separator="-")
    yield case(op, a, ids, numpy.int32(2), name="too few", unknown=True)


@samples("StringSplit", exact=True)
def _split(op: str) -> Iterator[Case]:
    for mark in (b",", b" ", b"", b", ", b"."):
        yield case(op, texts(_PLAIN), string(mark), name=f"by {mark!r}")
        yield case(op, texts(_PLAIN), string(mark), name=f"by {mark!r}, empty ones too", skip_empty=False)
    yield case(op, texts([]), string(b","), name="empty")
    yield case(op, string(b"a"), string(b","), name="scalar", unknown=True)


@samples("StringSplitV2", exact=True)
def _split_v2(op: str) -> Iterator[Case]:
    for mark in (b",", b" ", b"", b", ", b"y"):
        for most in (-1, 1, 2):
            yield case(op, texts(_PLAIN), string(mark), name=f"by {mark!r}, {most}", maxsplit=most)
    yield case(op, texts([]), string(b","), name="empty")
    yield case(op, texts([b"   "]), string(b""), name="spaces")


@samples("StringNGrams", exact=True)
def _ngrams(op: str) -> Iterator[Case]:
    data, splits = texts([b"a", b"b", b"c", b"d", b"e", b"f"]), numpy.array([0, 3, 4, 4, 6], "int64")
    for widths, pad, keep in (
        ((2,), 0, False),
        ((1, 2), 0, False),
        ((3,), -1, False),
        ((3,), 1, False),
        ((4,), 0, True),
    ):
        kinds: dict[str, Any] = {"separator": "|", "left_pad": "L", "right_pad": "R"}
        yield case(op, data, splits, name=f"{widths}, pad {pad}, keep {keep}", ngram_widths=widths, pad_width=pad,
                   preserve_short_sequences=keep, **kinds)  # fmt: skip


@samples("StringLength", exact=True)
def _length(op: str) -> Iterator[Case]:
    for unit in ("BYTE", "UTF8_CHAR"):
        yield case(op, texts(_WORDS, 2, 4), name=unit, unit=unit)
        yield case(op, string(b"\xc3\xa9"), name=f"{unit}, scalar", unit=unit)


@samples("Substr", exact=True)
def _substr(op: str) -> Iterator[Case]:
    word, letters = (
        texts([b"hello", b"world", b"abcde"]),
        texts([b"\xc3\xa9t\xc3\xa9", b"\xe6\x97\xa5\xe6\x9c\xac", b"abc"]),
    )
    for kind in ("int32", "int64"):
        for place, length in ((0, 2), (1, 10), (-3, 2), (5, 1), (2, 0), (6, 1), (-6, 1), (0, -1)):
            at = (numpy.array(place, kind), numpy.array(length, kind))
            yield case(op, word, *at, name=f"{kind}, {place}, {length}")
        for place, length in ((0, 1), (1, 2), (-1, 1), (3, 1)):
            at = (numpy.array(place, kind), numpy.array(length, kind))
            yield case(op, letters, *at, name=f"{kind}, {place}, {length}, letters", unit="UTF8_CHAR")
    each = (numpy.array([0, 1, 2], "int32"), numpy.array([1, 2, 3], "int32"))
    yield case(op, word, *each, name="each its own")
    yield case(op, string(b"hello"), *each, name="one text, many places")


@samples("StringStrip", exact=True)
def _strip(op: str) -> Iterator[Case]:
    yield case(op, texts([b"  a ", b"\t\n\v\f\ra\r", b"", b"  ", b"a b"]), name="spaces")


@samples("StringLower StringUpper", exact=True)
def _letters(op: str) -> Iterator[Case]:
    yield case(op, texts([b"aBc", b"", b"\xc3\x89t\xc3\xa9", b"1-Z"]), name="bytes")
    yield case(op, texts([b"aBc", b"\xc3\x89t\xc3\xa9", b"\xce\xa9\xce\xb1"]), name="letters", encoding="utf-8")


_EXPRESSIONS = (
    b"a",
    b"[a-z]+",
    b"(\\w+) (\\w+)",
    b"^\\s+|\\s+$",
    b".",
    b"",
    b"[[:punct:]]",
    b"x*",
    b"(?i)ABC",
    b"\\d{2}",
    b"a|b|c",
)
_REWRITES = (b"", b"-", b"<\\0>")


@samples("RegexReplace StaticRegexReplace", exact=True)
def _replace(op: str) -> Iterator[Case]:
    for pattern in _EXPRESSIONS:
        for rewrite in _REWRITES:
            for all_of_them in (True, False):
                name = f"{pattern!r} by {rewrite!r}, {'all' if all_of_them else 'first'}"
                if op == "RegexReplace":
                    yield case(
                        op, texts(_PLAIN), string(pattern), string(rewrite), name=name, replace_global=all_of_them
                    )
                else:
                    yield case(
                        op, texts(_PLAIN), name=name, pattern=pattern, rewrite=rewrite, replace_global=all_of_them
                    )
    if op == "RegexReplace":
        yield case(op, texts(_PLAIN), string(b"(\\w)(\\w)"), string(b"\\2\\1"), name="groups")
        yield case(op, texts(_PLAIN), string(b"("), string(b""), name="not an expression")


@samples("RegexFullMatch StaticRegexFullMatch", exact=True)
def _match(op: str) -> Iterator[Case]:
    for pattern in (*_EXPRESSIONS, b"a.*", b"[^,]*", b".*z", b"(ab cd)|a"):
        if op == "RegexFullMatch":
            yield case(op, texts(_PLAIN, 2, 3), string(pattern), name=repr(pattern))
        else:
            yield case(op, texts(_PLAIN, 2, 3), name=repr(pattern), pattern=pattern)


@samples("StringToNumber", ulps=0, exact=True)
def _to_number(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64", "int32", "int64"):
        yield case(op, texts([b"0", b"-1", b"+7", b" 12 ", b"007"]), name=kind, out_type=kind)
        for bad in (b"", b"a", b"1 2", b"0x10", b"99999999999999999999", b"1.5", b"-2147483649"):
            yield case(op, texts([bad]), name=f"{kind}, {bad!r}", out_type=kind)
    for kind in ("float32", "float64"):
        yield case(
            op, texts([b"1.5", b"-.25", b"1e3", b"1E-2", b"3.", b"0.1"]), name=f"{kind}, fractions", out_type=kind
        )
        yield case(op, texts([b"inf", b"-inf", b"nan"]), name=f"{kind}, not finite", out_type=kind)


@samples("AsString", exact=True)
def _as_string(op: str) -> Iterator[Case]:
    for kind in ("int8", "int32", "int64", "uint8", "uint64", "bool", "float32", "float64"):
        yield case(op, numbers(kind, 2, 3), name=kind)
    for kind in ("int32", "int64"):
        for width, fill in ((5, ""), (5, "0"), (1, ""), (5, "-")):
            yield case(op, numbers(kind, 4), name=f"{kind}, {width}, {fill!r}", width=width, fill=fill)
    floats = numpy.array([0, -0.0, 1.5, -2.25, 1e10, 1e-10, 123456.75], "float32")
    for kind in ("float32", "float64"):
        x = floats.astype(kind)
        yield case(op, x, name=f"{kind}, plain")
        yield case(op, x, name=f"{kind}, scientific", scientific=True)
        yield case(op, x, name=f"{kind}, shortest", shortest=True)
        yield case(op, x, name=f"{kind}, two digits", precision=2)
        yield case(op, x, name=f"{kind}, wide", precision=1, width=12, fill="0")
    yield case(op, texts(_PLAIN), name="texts")
    yield case(op, numbers("int32", 2), name="precision of integers", precision=2)


@samples("UnicodeDecode UnicodeDecodeWithOffsets", exact=True)
def _unicode_decode(op: str) -> Iterator[Case]:
    for errors in ("replace", "ignore"):
        yield case(op, texts(_WORDS), name=f"UTF-8, {errors}", input_encoding="UTF-8", errors=errors)
    yield case(op, texts(_WORDS), name="strict", input_encoding="UTF-8", errors="strict")
    yield case(op, texts([b"\x00a\x00b", b""]), name="UTF-16-BE", input_encoding="UTF-16-BE")
    yield case(op, texts([b"a\x01b\tc"]), name="control", input_encoding="UTF-8", replace_control_characters=True)
    yield case(op, texts([b"a"]), name="no encoding", input_encoding="klingon")


@samples("UnicodeEncode", exact=True)
def _unicode_encode(op: str) -> Iterator[Case]:
    points, splits = numpy.array([97, 233, 26085, 128512, 98], "int32"), numpy.array([0, 2, 2, 5], "int64")
    for encoding in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
        yield case(op, points, splits, name=encoding, output_encoding=encoding)
    bad = numpy.array([97, -1, 0x110000, 0xD800], "int32")
    for errors in ("replace", "ignore", "strict"):
        whole = numpy.array([0, 4], "int64")
        yield case(op, bad, whole, name=f"bad, {errors}", output_encoding="UTF-8", errors=errors)


@samples("UnicodeTranscode", exact=True)
def _transcode(op: str) -> Iterator[Case]:
    for target in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
        yield case(op, texts(_WORDS), name=target, input_encoding="UTF-8", output_encoding=target)
    yield case(op, texts(_WORDS), name="ignore", input_encoding="UTF-8", output_encoding="UTF-8", errors="ignore")


@samples("EncodeBase64", exact=True)
def _encode(op: str) -> Iterator[Case]:
    for pad in (False, True):
        yield case(op, texts(_WORDS, 2, 4), name=f"pad {pad}", pad=pad)


@samples("DecodeBase64", exact=True)
def _decode(op: str) -> Iterator[Case]:
    yield case(op, texts([b"", b"YQ", b"YQ==", b"_-8", b"aGVsbG8"]), name="texts")
    for bad in (b"a", b"a+b/", b"YQ="):
        yield case(op, texts([bad]), name=repr(bad))


@samples("UnicodeScript", exact=True)
def _unicode_script(op: str) -> Iterator[Case]:
    for start in (0, 0x300, 0x900, 0x3040, 0x10000, 0x1F600, 0x20000, 0xE0000):
        yield case(op, numpy.arange(start, start + 16 * 64, 16, dtype="int32"), name=f"from {start:x} on")
    yield case(op, numpy.array([[-1, 0x10FFFF], [0x110000, 2**31 - 1]], "int32"), name="what is none")
    yield case(op, numpy.zeros(0, "int32"), name="empty")
