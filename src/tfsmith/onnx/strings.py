"""Strings, as far as ONNX has ops for them: most of them from opset 20 on."""

from __future__ import annotations

from tfsmith.ir.types import dtype_named
from tfsmith.onnx.builder import BOOL, INT64, Builder, Refusal, Val
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.onnx.segments import counted
from tfsmith.onnx.sparse import from_mask
from tfsmith.ops.sizes import Known

__all__ = ["joined"]

_SINCE = 20
STRING = dtype_named("string")


def _need(b: Builder, op: str) -> None:
    if b.opset < _SINCE:
        raise Refusal(f"ONNX has {op} from opset {_SINCE} on", _SINCE)


def joined(b: Builder, parts: list[Val]) -> Val:
    """Texts one behind the other, element by element."""
    _need(b, "StringConcat")
    found = parts[0]
    for one in parts[1:]:
        found = b.op("StringConcat", found, one)
    return found


@lowering("StringJoin")
def _join(n: NodeContext) -> Val:
    b = n.b
    shapes = {one.dims for one in n.inputs if one.dims != ()}
    if len(shapes) > 1 or any(dims is None or None in dims for dims in shapes):
        raise Refusal("its texts are not known to have the same shape")
    between = n.text("separator")
    parts: list[Val] = []
    for one in n.inputs:
        if parts and between:
            parts.append(b.const(between.encode(), STRING))
        parts.append(one)
    return joined(b, parts) if len(parts) > 1 else b.op("Identity", parts[0])


@lowering("StringLower StringUpper")
def _case(n: NodeContext) -> Val:
    b = n.b
    if n.text("encoding"):
        raise Refusal("it changes the letters of all languages, for which ONNX needs a locale that a machine may lack")
    action = "LOWER" if n.op == "StringLower" else "UPPER"
    flat = b.op("StringNormalizer", b.reshape(n.x, [-1]), case_change_action=action, is_case_sensitive=1, locale="C")
    return b.op("Reshape", flat, b.shape(n.x), allowzero=1)


@lowering("StaticRegexFullMatch RegexFullMatch")
def _match(n: NodeContext) -> Val:
    _need(n.b, "RegexFullMatch")
    if n.op == "RegexFullMatch":
        if n.y.array is None or n.y.array.size != 1:
            raise Refusal("its pattern must be a constant")
        pattern = bytes(n.y.array.reshape(-1)[0]).decode("utf-8", "replace")
    else:
        pattern = n.text("pattern")
    return n.b.op("RegexFullMatch", n.x, dtype=BOOL, pattern=pattern)


@lowering("StringSplitV2")
def _split(n: NodeContext) -> list[Val]:
    """ONNX gives rows that are filled up; what is filled is left out."""
    b = n.b
    _need(b, "StringSplit")
    if n.x.rank != 1:
        raise Refusal("it takes a vector of texts")
    if n.y.array is None or n.y.array.size != 1:
        raise Refusal("its separator must be a constant")
    mark = bytes(n.y.array.reshape(-1)[0]).decode("utf-8", "replace")
    most = int(n.attr("maxsplit"))
    if most >= 0:
        raise Refusal("it splits so many times only")
    if not mark:
        raise Refusal("it splits at spaces of any kind, and ONNX at blanks only")
    words, counts = b.ops(
        "StringSplit", n.x, dtypes=(STRING, INT64), knowns=(Known((None, None)), Known((None,))), delimiter=mark
    )
    nothing = b.op("Expand", b.const(b"", STRING), b.concat([b.size(words, 0), b.const([1])], 0))
    words = b.concat([words, nothing], 1, Known((None, None)))  # an empty text is one word, and has none in ONNX
    counts = b.op("Max", counts, b.const(1), known=counts.known)
    places = b.unsqueeze(counted(b, b.size(words, 1)), [0])
    is_there = b.op("Less", places, b.unsqueeze(counts, [1]), dtype=BOOL, dims=(None, None))
    return list(from_mask(b, is_there, words))


@lowering("AsString")
def _as_string(n: NodeContext) -> Val:
    n.allow("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    if int(n.attr("width")) != -1 or int(n.attr("precision")) != -1 or n.attr("scientific") or n.attr("shortest"):
        raise Refusal("it fills up, or rounds")
    return n.b.cast(n.b.int64(n.x) if n.x.dtype.name != "uint64" else n.x, STRING)
