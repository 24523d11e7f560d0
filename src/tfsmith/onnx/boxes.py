"""Boxes: which of those that overlap stay."""

from __future__ import annotations

from tfsmith.onnx.builder import BOOL, FLOAT32, INT32, INT64, Builder, Refusal, Val
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


@lowering("CombinedNonMaxSuppression")
def _combined(n: NodeContext) -> list[Val]:
    """Each class of each image for itself, then the best of all classes of an image."""
    b, boxes, scores = n.b, n.x, n.y
    most, total = (n.inputs[at].integer("its numbers of boxes") for at in (2, 3))
    n.allow("float32")
    if boxes.rank != 4 or scores.rank != 3 or most < 1 or total < 1:
        raise Refusal("its boxes or scores have other axes, or it chooses none")
    groups, classes = (boxes.dims or ())[2], (scores.dims or ())[2]
    if not isinstance(groups, int) or not isinstance(classes, int) or groups not in (1, classes):
        raise Refusal("the number of its classes is not known before it runs")
    batch, count = b.size(scores, 0), b.size(scores, 1)
    turned = b.transpose(boxes, (0, 2, 1, 3))  # image, class, box, edge
    by_class = b.transpose(scores, (0, 2, 1))
    if groups > 1:
        wide = b.op("Reshape", turned, b.concat([b.const([-1]), count, b.const([4])], 0), dims=(None, None, 4))
        flat = b.op("Reshape", by_class, b.concat([b.const([-1, 1]), count], 0), dims=(None, 1, None))
    else:
        wide, flat = b.squeeze(turned, [1]), by_class
    thresholds = [b.reshape(n.inputs[at], [1]) for at in (4, 5)]
    kept = b.op("NonMaxSuppression", wide, flat, b.const([most]), *thresholds, dtype=INT64, dims=(None, 3))
    whole = b.op("Shape", flat, dtype=INT64, dims=(3,))
    ones = b.op("Expand", b.const(1, INT32), b.op("Shape", b.slice(kept, [0], [1], [1]), dtype=INT64))
    marks = b.op("ScatterND", b.op("Expand", b.const(0, INT32), whole), kept, b.squeeze(_column(b, ones), [1]))
    is_kept = b.op("Greater", marks, b.const(0, INT32), dtype=BOOL)
    room = b.concat([batch, b.const([-1])], 0)
    known = Known((None, None))
    worst = b.const(float("-inf"), FLOAT32)
    rated = b.op("Reshape", b.op("Where", is_kept, flat, worst, dtype=FLOAT32), room, known=known)
    wanted = min(total, most * classes) if n.attr("pad_per_class") else total
    more = b.op("Expand", worst, b.concat([batch, b.const([wanted])], 0))  # there may be fewer boxes than are wanted
    best, places = b.ops(
        "TopK", b.concat([rated, more], 1), b.const([wanted]), dtypes=(FLOAT32, INT64),
        knowns=(Known((None, wanted)), Known((None, wanted))), axis=1, largest=1, sorted=1,
    )  # fmt: skip
    is_there = b.op("Greater", best, worst, dtype=BOOL, dims=(None, wanted))
    places = b.op("Where", is_there, places, b.const(0), dtype=INT64, dims=(None, wanted))
    zero = b.const(0, FLOAT32)
    kinds = b.cast(b.op("Div", places, count), FLOAT32)
    boxes_flat = b.op("Reshape", turned, b.concat([batch, b.const([-1, 4])], 0), dims=(None, None, 4))
    own = places if groups > 1 else b.op("Mod", places, count, dims=(None, wanted))
    found = b.op("GatherND", boxes_flat, b.unsqueeze(own, [2]), batch_dims=1, dims=(None, wanted, 4))
    if n.attr("clip_boxes"):
        found = b.op("Clip", found, zero, b.const(1, FLOAT32))
    numbers = b.op("ReduceSum", b.cast(is_there, INT32), b.const([1]), keepdims=0)
    return [
        b.op("Where", b.unsqueeze(is_there, [2]), found, zero, dtype=FLOAT32),
        b.op("Where", is_there, best, zero, dtype=FLOAT32),
        b.op("Where", is_there, kinds, zero, dtype=FLOAT32),
        numbers,
    ]


def _column(b: Builder, x: Val) -> Val:
    x.known = Known((None, 1))
    return x
