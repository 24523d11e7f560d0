"""Images: resizing, crops, patches, colors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.onnx.builder import BOOL, FLOAT32, INT64, Builder, Refusal, Val
from tfsmith.onnx.elementwise import widened
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.onnx.segments import counted
from tfsmith.ops.sizes import Known
from tfsmith.ops.values.resize import area_weights, cubic_weights, near_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


def _mode(n: NodeContext) -> str:
    if n.attr("align_corners"):
        return "align_corners"
    return "half_pixel" if n.attr("half_pixel_centers") else "asymmetric"


@lowering("ResizeBilinear")
def _bilinear(n: NodeContext) -> Val:
    b, x = n.b, n.x
    if x.rank != 4:
        raise Refusal("its images have no four axes")
    if n.x.dtype.name == "float64":
        raise Refusal("it is not lowered for float64")
    first = b.cast(b.first(x), FLOAT32)
    shape = b.shape(b.first(x))
    start = b.const([shape.known.numbers[0], shape.known.numbers[1]]) if shape.known.numbers else None
    sizes = b.concat([start or b.slice(shape, [0], [2], [0]), b.int64(n.y)], 0)
    found = b.op(
        "Resize", first, None, None, sizes, mode="linear", coordinate_transformation_mode=_mode(n), dtype=FLOAT32
    )
    dims = n.out.dims or (None,) * 4
    found.known = Known((dims[0], dims[3], dims[1], dims[2]))
    return b.last(found, n.out)


@lowering("ResizeNearestNeighbor")
def _nearest(n: NodeContext) -> Val:
    """By the places that TensorFlow takes, which are computed before the run where sizes are known."""
    b, x = n.b, n.x
    wanted = n.y.known.numbers or (None if n.y.array is None else tuple(n.y.integers("sizes")))
    if x.rank != 4:
        raise Refusal("its images have no four axes")
    if n.attr("align_corners") and n.attr("half_pixel_centers"):
        raise Refusal("it aligns corners of pixels with half centers")
    if wanted is not None and (len(wanted) != 2 or min(wanted) < 1):
        raise Refusal("it resizes to nothing")
    dims = x.dims or (None,) * 4
    if wanted is None or not isinstance(dims[1], int) or not isinstance(dims[2], int):
        first = b.first(x)
        for axis in range(2):
            part = b.op("Slice", b.int64(n.y), b.const([axis]), b.const([axis + 1]), b.const([0]), dims=(1,))
            target = b.const([wanted[axis]]) if wanted is not None else part
            first = b.op("Gather", first, _open_places(n, b.size(x, axis + 1), target), axis=axis + 2)
        return _last(n, first)
    first = b.first(x)
    if all(size and new % size == 0 for size, new in zip(dims[1:3], wanted, strict=True) if isinstance(size, int)):
        mode = _mode(n)
        if mode != "align_corners" and x.dtype.name in ("float32", "int32", "int8", "uint8"):
            scales = [1.0, 1.0, wanted[0] / dims[1], wanted[1] / dims[2]]
            found = b.op(
                "Resize",
                first,
                None,
                b.const(scales, FLOAT32),
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            )
            return _last(n, found)
    for axis, (size, new) in enumerate(zip(dims[1:3], wanted, strict=True)):
        assert isinstance(size, int)
        first = b.op(
            "Gather",
            first,
            b.const(near_places(size, new, bool(n.attr("align_corners")), bool(n.attr("half_pixel_centers")))),
            axis=axis + 2,
        )
    return _last(n, first)


def _last(n: NodeContext, found: Val) -> Val:
    dims = n.out.dims or (None,) * 4
    found.known = Known((dims[0], dims[3], dims[1], dims[2]))
    return n.b.last(found, n.out)


def _open_places(n: NodeContext, size: Val, new: Val) -> Val:
    """The places that TensorFlow takes, computed when it runs, in float32."""
    b = n.b
    if new.known.numbers is None:
        new = b.asserted(new, b.op("Greater", new, b.const([0]), dtype=BOOL))
    old, wide = b.cast(size, FLOAT32), b.cast(new, FLOAT32)
    one, half = b.const([1], FLOAT32), b.const([0.5], FLOAT32)
    at = b.cast(counted(b, new), FLOAT32)
    scale = b.op("Div", old, wide)
    if n.attr("align_corners"):
        aligned = b.op("Div", b.op("Sub", old, one), b.op("Max", b.op("Sub", wide, one), one))
        scale = b.op("Where", b.op("Greater", wide, one, dtype=BOOL), aligned, scale, dtype=FLOAT32)
    if n.attr("half_pixel_centers"):
        at = b.op("Add", at, half)
    found = b.op("Mul", at, scale)
    found = b.op("Floor", b.op("Add", found, half) if n.attr("align_corners") else found)
    return b.cast(b.op("Min", found, b.op("Sub", old, one)), INT64)


def _by_matrices(n: NodeContext, x: Val, down: NDArray[Any], across: NDArray[Any]) -> Val:
    """Images whose new rows and columns are sums of old ones, by constant weights."""
    b = n.b
    first = b.cast(b.first(x), FLOAT32)
    tall = b.op("MatMul", b.const(down.astype(numpy.float32), FLOAT32, "rows"), first)
    return _last(n, b.op("MatMul", tall, b.const(across.T.astype(numpy.float32), FLOAT32, "columns")))


def _fixed_sizes(n: NodeContext) -> list[tuple[int, int]]:
    """The old and the new sizes of both axes.

    Raises:
        Refusal: They are not known.
    """
    wanted = n.y.known.numbers or (None if n.y.array is None else tuple(n.y.integers("sizes")))
    dims = n.x.dims if n.x.rank == 4 else None
    if wanted is None or dims is None or not isinstance(dims[1], int) or not isinstance(dims[2], int):
        raise Refusal("the sizes of its images are not known before it runs; give it a fixed input shape")
    if min(*wanted, dims[1], dims[2]) < 1:
        raise Refusal("it resizes nothing, or to nothing")
    return [(dims[1], int(wanted[0])), (dims[2], int(wanted[1]))]


@lowering("ResizeBicubic ResizeArea")
def _smooth(n: NodeContext) -> Val:
    aligned, half = bool(n.attr("align_corners")), bool(n.attr("half_pixel_centers"))
    if aligned and half:
        raise Refusal("it aligns corners of pixels with half centers")
    if n.x.dtype.name == "float64":
        raise Refusal("it is not lowered for float64")
    sizes = _fixed_sizes(n)
    if n.op == "ResizeArea":
        return _by_matrices(n, n.x, *(area_weights(old, new, aligned) for old, new in sizes))
    matrices: list[NDArray[Any]] = []
    for old, new in sizes:
        matrix = numpy.zeros((new, old), numpy.float32)
        places, weights = cubic_weights(old, new, aligned, half)
        numpy.add.at(matrix, (numpy.arange(new)[:, None], places), weights)
        matrices.append(numpy.eye(old, dtype=numpy.float32) if all(a == c for a, c in sizes) else matrix)
    return _by_matrices(n, n.x, *matrices)


# Crops


@lowering("CropAndResize")
def _crop(n: NodeContext) -> Val:
    """The pixels around each place of each box, and between them straight lines."""
    b, images, boxes, owners, size = n.b, *n.inputs[:4]
    tall, broad = size.integers("the size of its crops")
    if images.rank != 4 or boxes.rank != 2 or min(tall, broad) < 1:
        raise Refusal("its images have no four axes, or its crops no size")
    if images.dtype.name == "float64":
        raise Refusal("it is not lowered for float64")
    edges = [b.op("Gather", boxes, b.const([at]), axis=1, dims=(None, 1)) for at in range(4)]
    rows, row_in = _crop_places(b, edges[0], edges[2], b.size(images, 1), tall)
    columns, column_in = _crop_places(b, edges[1], edges[3], b.size(images, 2), broad)
    count = b.size(boxes, 0)
    which = b.reshape(b.indices(b.int64(owners)), [-1, 1, 1])
    whole = b.concat([count, b.const([tall, broad])], 0)

    def pixels(down: Val, across: Val) -> Val:
        parts = [b.op("Expand", one, whole, dims=(None, tall, broad))
                 for one in (which, b.unsqueeze(b.int64(down), [2]), b.unsqueeze(b.int64(across), [1]))]  # fmt: skip
        places = b.concat([b.unsqueeze(one, [3]) for one in parts], 3)
        return b.cast(b.op("GatherND", images, places), FLOAT32)

    if n.text("method") == "nearest":
        half = b.const(0.5, FLOAT32)
        down, across = (b.op("Floor", b.op("Add", one, half), known=one.known) for one in (rows, columns))
        found = pixels(down, across)
    else:
        top, left = (b.op("Floor", one, known=one.known) for one in (rows, columns))
        bottom, right = (b.op("Ceil", one, known=one.known) for one in (rows, columns))
        down = b.unsqueeze(b.op("Sub", rows, top, known=rows.known), [2, 3])
        across = b.unsqueeze(b.op("Sub", columns, left, known=columns.known), [1, 3])
        upper = _between(b, pixels(top, left), pixels(top, right), across)
        found = _between(b, upper, _between(b, pixels(bottom, left), pixels(bottom, right), across), down)
    inside = b.op("And", b.unsqueeze(row_in, [2, 3]), b.unsqueeze(column_in, [1, 3]), dtype=BOOL)
    outside = b.const(float(n.attr("extrapolation_value")), FLOAT32)
    return b.op("Where", inside, found, outside, dtype=FLOAT32)


def _between(b: Builder, one: Val, other: Val, share: Val) -> Val:
    return b.op("Add", one, b.op("Mul", b.op("Sub", other, one), share))


def _crop_places(b: Builder, start: Val, end: Val, old: Val, new: int) -> tuple[Val, Val]:
    """For each box the places of its pixels along an axis, and which of them lie inside."""
    last = b.cast(b.op("Sub", old, b.const([1])), FLOAT32)
    known = Known((None, new))
    if new > 1:
        step = b.op("Div", b.op("Mul", b.op("Sub", end, start), last), b.const(new - 1, FLOAT32))
        along = b.const(numpy.arange(new), FLOAT32)
        at = b.op("Add", b.op("Mul", start, last), b.op("Mul", along, step), known=known)
    else:
        at = b.op("Mul", b.op("Mul", b.const(0.5, FLOAT32), b.op("Add", start, end)), last, known=known)
    zero = b.const(0, FLOAT32)
    inside = b.op("And", b.op("GreaterOrEqual", at, zero, dtype=BOOL), b.op("LessOrEqual", at, last, dtype=BOOL))
    inside.known = known
    return b.op("Where", inside, at, zero, dtype=FLOAT32, known=known), inside


@lowering("ExtractImagePatches")
def _patches(n: NodeContext) -> Val:
    """Rows, then columns, of all windows; those of one window next to each other."""
    b, x = n.b, n.x
    dims = x.dims if x.rank == 4 else None
    if dims is None or not isinstance(dims[1], int) or not isinstance(dims[2], int):
        raise Refusal("the sizes of its images are not known before it runs; give it a fixed input shape")
    found, counts, windows = x, [], []
    for axis in (1, 2):
        size, window, stride, rate = dims[axis], *(n.ints(key)[axis] for key in ("ksizes", "strides", "rates"))
        assert isinstance(size, int)
        reach = (window - 1) * rate + 1
        is_same = n.text("padding") == "SAME"
        count = -(-size // stride) if is_same else (size - reach) // stride + 1
        if count < 1 or min(window, stride, rate) < 1:
            raise Refusal("it cuts nothing")
        more = max((count - 1) * stride + reach - size, 0) if is_same else 0
        starts = numpy.arange(count)[:, None] * stride + numpy.arange(window) * rate - more // 2
        if more:
            kind = widened(x.dtype, ("float32", "float64", "int8", "int32", "int64", "uint8"))
            pads = [0] * 8
            pads[axis], pads[axis + 4] = more // 2, more - more // 2
            found = b.cast(b.op("Pad", b.cast(found, kind), b.const(pads), b.const(0, kind)), x.dtype)
            starts = starts + more // 2
        found = b.op("Gather", found, b.const(starts.reshape(-1)), axis=axis)
        counts.append(count)
        windows.append(window)
    depth = dims[3]
    if not isinstance(depth, int):
        raise Refusal("the number of its channels is not known before it runs")
    wide = b.reshape(found, [-1, counts[0], windows[0], counts[1], windows[1], depth])
    moved = b.op("Transpose", wide, perm=(0, 1, 3, 2, 4, 5))
    return b.reshape(moved, [-1, counts[0], counts[1], windows[0] * windows[1] * depth])


# Colours


@lowering("AdjustContrastv2")
def _contrast(n: NodeContext) -> Val:
    b, x = n.b, n.x
    n.allow("float32")
    if x.rank < 3 or n.y.dims != ():
        raise Refusal("its images have fewer than three axes, or its factor is no scalar")
    mean = b.reduce("ReduceMean", x, [x.rank - 3, x.rank - 2], keep=True)
    return b.op("Add", b.op("Mul", b.op("Sub", x, mean), n.y), mean)


def _colors(n: NodeContext, x: Val) -> list[Val]:
    """The three colors of images, the last axis of each of size 1."""
    if (x.dims or (None,))[-1] != 3:
        raise Refusal("its images are not known to have three colors")
    return [n.b.slice(x, [at], [at + 1], [x.rank - 1]) for at in range(3)]


@lowering("RGBToHSV HSVToRGB AdjustSaturation")
def _hsv(n: NodeContext) -> Val:
    b, x = n.b, n.x
    n.allow("float32")
    parts = _colors(n, x)
    if n.op == "HSVToRGB":
        return b.concat(_to_rgb(b, *parts), x.rank - 1)
    hue, saturation, top = _to_hsv(b, *parts)
    if n.op == "RGBToHSV":
        return b.concat([hue, saturation, top], x.rank - 1)
    if n.y.dims != ():
        raise Refusal("its scale is no scalar")
    scaled = b.op("Clip", b.op("Mul", saturation, n.y), b.const(0, FLOAT32), b.const(1, FLOAT32))
    return b.concat(_to_rgb(b, hue, scaled, top), x.rank - 1)


def _to_hsv(b: Builder, red: Val, green: Val, blue: Val) -> tuple[Val, Val, Val]:
    zero, one = b.const(0, FLOAT32), b.const(1, FLOAT32)

    def where(condition: Val, yes: Val, no: Val) -> Val:
        return b.op("Where", condition, yes, no, dtype=FLOAT32)

    def plus(difference: Val, sixths: int) -> Val:
        return b.op("Add", b.op("Mul", norm, difference), b.const(sixths / 6, FLOAT32))

    top, low = b.op("Max", red, green, blue), b.op("Min", red, green, blue)
    span = b.op("Sub", top, low)
    saturation = where(b.op("Greater", top, zero, dtype=BOOL), b.op("Div", span, top), zero)
    norm = b.op("Div", one, b.op("Mul", b.const(6, FLOAT32), span))
    hue = where(
        b.op("Equal", green, top, dtype=BOOL), plus(b.op("Sub", blue, red), 2), plus(b.op("Sub", red, green), 4)
    )
    hue = where(b.op("Equal", red, top, dtype=BOOL), b.op("Mul", norm, b.op("Sub", green, blue)), hue)
    hue = where(b.op("Greater", span, zero, dtype=BOOL), hue, zero)
    return where(b.op("Less", hue, zero, dtype=BOOL), b.op("Add", hue, one), hue), saturation, top


def _to_rgb(b: Builder, hue: Val, saturation: Val, top: Val) -> list[Val]:
    zero, one = b.const(0, FLOAT32), b.const(1, FLOAT32)
    around = b.op("Mul", hue, b.const(6, FLOAT32))

    def off(center: int) -> Val:
        return b.op("Abs", b.op("Sub", around, b.const(center, FLOAT32)))

    two = b.const(2, FLOAT32)
    shares = (b.op("Sub", off(3), one), b.op("Sub", two, off(2)), b.op("Sub", two, off(4)))
    rest = b.op("Sub", one, saturation)
    return [
        b.op("Mul", b.op("Add", rest, b.op("Mul", saturation, b.op("Clip", share, zero, one))), top) for share in shares
    ]
