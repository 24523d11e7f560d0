"""Images: resizing."""

from __future__ import annotations

import numpy

from tfsmith.onnx.builder import FLOAT32, Refusal, Val
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.ops.sizes import Known

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
    """Where sizes are known, by the places that TensorFlow takes; else where a size grows by a whole number."""
    b, x = n.b, n.x
    wanted = n.y.known.numbers or (None if n.y.array is None else tuple(n.y.integers("sizes")))
    dims = x.dims or (None,) * 4
    if wanted is None or not isinstance(dims[1], int) or not isinstance(dims[2], int):
        raise Refusal("the sizes of its images are not known before it runs; give it a fixed input shape")
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
        first = b.op("Gather", first, b.const(_places(n, size, new)), axis=axis + 2)
    return _last(n, first)


def _last(n: NodeContext, found: Val) -> Val:
    dims = n.out.dims or (None,) * 4
    found.known = Known((dims[0], dims[3], dims[1], dims[2]))
    return n.b.last(found, n.out)


def _places(n: NodeContext, size: int, new: int) -> list[int]:
    """The places that TensorFlow takes, computed as it does, in float32."""
    aligned = bool(n.attr("align_corners"))
    scale = (
        numpy.float32(size - 1) / numpy.float32(new - 1)
        if aligned and new > 1
        else numpy.float32(size) / numpy.float32(new)
    )
    at = numpy.arange(new, dtype=numpy.float32)
    if n.attr("half_pixel_centers"):
        at = at + numpy.float32(0.5)
    found = at * scale
    whole = numpy.floor(found + numpy.float32(0.5)) if aligned else numpy.floor(found)
    return [int(one) for one in numpy.clip(whole, 0, size - 1)]
