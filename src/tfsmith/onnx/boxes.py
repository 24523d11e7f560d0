"""Boxes: which of those that overlap stay."""

from __future__ import annotations

from tfsmith.onnx.builder import BOOL, FLOAT32, INT32, INT64, Refusal, Val
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.ops.sizes import Known

__all__: list[str] = []


def _suppressed(n: NodeContext) -> Val:
    """The numbers of the boxes that stay, best first: a vector of int64."""
    b = n.b
    boxes, scores, most = n.inputs[:3]
    n.allow("float32")
    if scores.dtype != FLOAT32:
        raise Refusal(f"it is not lowered for {scores.dtype.name}")
    wide = b.unsqueeze(boxes, [0])
    flat = b.reshape(scores, [1, 1, -1])
    if n.op == "NonMaxSuppression":
        overlap = b.const([float(n.attr("iou_threshold"))], FLOAT32)
    else:
        overlap = b.reshape(b.cast(n.inputs[3], FLOAT32), [1])
    least = b.reshape(b.cast(n.inputs[4], FLOAT32), [1]) if len(n.inputs) > 4 else None
    count = b.reshape(b.int64(most), [1])
    if most.known.numbers is None:
        count = b.asserted(count, b.op("GreaterOrEqual", count, b.const([0]), dtype=BOOL))
    elif most.known.numbers[0] < 0:
        raise Refusal("its number of boxes is negative")
    found = b.op("NonMaxSuppression", wide, flat, count, overlap, least, dtype=INT64, dims=(None, 3))
    numbers = b.slice(found, [2], [3], [1])
    numbers.known = Known((None, 1))
    return b.squeeze(numbers, [1])


@lowering("NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3")
def _nms(n: NodeContext) -> Val:
    return n.b.narrow(_suppressed(n), INT32)


@lowering("NonMaxSuppressionV4")
def _nms_v4(n: NodeContext) -> list[Val]:
    b = n.b
    found = _suppressed(n)
    count = b.op("Shape", found, dtype=INT64, dims=(1,))
    if n.attr("pad_to_max_output_size"):
        more = b.op("Sub", b.reshape(b.int64(n.inputs[2]), [1]), count)
        found = b.op("Pad", found, b.concat([b.const([0]), more], 0), b.const(0), dims=(None,))
    return [b.narrow(found, INT32), b.narrow(b.squeeze(count, [0]), INT32)]


@lowering("NonMaxSuppressionV5")
def _nms_v5(n: NodeContext) -> list[Val]:
    b = n.b
    soft = n.inputs[5]
    if soft.array is None or float(soft.array) != 0:
        raise Refusal("it lowers scores of boxes that overlap, for which ONNX has no op")
    found = _suppressed(n)
    scores = b.op("Gather", n.inputs[1], found, axis=0, dims=(None,))
    count = b.op("Shape", found, dtype=INT64, dims=(1,))
    if n.attr("pad_to_max_output_size"):
        more = b.concat([b.const([0]), b.op("Sub", b.reshape(b.int64(n.inputs[2]), [1]), count)], 0)
        found = b.op("Pad", found, more, b.const(0), dims=(None,))
        scores = b.op("Pad", scores, more, b.const(0, FLOAT32), dims=(None,))
    return [b.narrow(found, INT32), scores, b.narrow(b.squeeze(count, [0]), INT32)]
