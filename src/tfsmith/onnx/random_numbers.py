"""Random numbers, where nobody asked for certain ones: without a seed. With one, TensorFlow's are determined."""

from __future__ import annotations

from tfsmith.onnx.builder import FLOAT32, INT64, Refusal, Val
from tfsmith.onnx.registry import NodeContext, lowering

__all__: list[str] = []


def _unseeded(n: NodeContext) -> None:
    if n.attr("seed") or n.attr("seed2"):
        raise Refusal("it has a seed, which determines its numbers, and ONNX' are others")
    n.driver.notes[f"{n.op}: the numbers are random, and others in each run"] = None


def _zeros(n: NodeContext) -> Val:
    return n.b.op("Expand", n.b.const(0, FLOAT32), n.b.int64(n.x))


@lowering("RandomUniform RandomStandardNormal")
def _floats(n: NodeContext) -> Val:
    _unseeded(n)
    b = n.b
    op = "RandomUniformLike" if n.op == "RandomUniform" else "RandomNormalLike"
    return b.cast(b.op(op, _zeros(n), dtype=FLOAT32), n.dtype)


@lowering("RandomUniformInt")
def _integers(n: NodeContext) -> Val:
    _unseeded(n)
    b = n.b
    least, most = n.y.integer("the least number"), n.inputs[2].integer("the greatest number")
    if not 0 < most - least <= 1 << 20:
        raise Refusal("its range is none, or wider than ONNX' random numbers are fine")
    share = b.op("RandomUniformLike", _zeros(n), dtype=FLOAT32)
    whole = b.cast(b.op("Floor", b.op("Mul", share, b.const(most - least, FLOAT32))), INT64)
    return b.cast(b.op("Add", whole, b.const(least)), n.dtype)
