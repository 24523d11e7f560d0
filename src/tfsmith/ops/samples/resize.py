"""Samples of ops that resize, crop, transform and cut images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples, types_of

__all__: list[str] = []

_FLOATS = ("float32", "float64", "float16", "bfloat16")


def _size(height: int, width: int) -> Any:
    return numpy.array([height, width], "int32")


@samples("ResizeBilinear ResizeBicubic ResizeNearestNeighbor ResizeArea", n_eps=8)
def _resize(op: str) -> Iterator[Case]:
    for kind in dict.fromkeys(types_of(op)):
        yield case(op, numbers(kind, 1, 3, 4, 2), _size(5, 6), name=kind, constants=(1,))
    x = numbers("float32", 1, 4, 3, 2, low=0)
    modes: list[dict[str, Any]] = [{}, {"align_corners": True}]
    if op != "ResizeArea":
        modes.append({"half_pixel_centers": True})
    for mode in modes:
        for height, width in ((8, 6), (2, 2), (7, 2), (4, 3), (1, 1), (5, 1), (3, 4)):
            name = f"{height} x {width}, {' '.join(mode) or 'plain'}"
            yield case(op, x, _size(height, width), name=name, constants=(1,), **mode)
        yield case(op, numbers("float32", 1, 1, 1, 3), _size(3, 2), name=f"one pixel, {mode}", **mode)
        yield case(op, numbers("float32", 1, 1, 5, 1), _size(2, 9), name=f"one row, {mode}", **mode)
        yield case(op, numbers("uint8", 2, 2, 3, 2, high=256), _size(3, 3), name=f"bytes, {mode}", **mode)
    holes = x.copy()
    holes[0, 1, 1] = numpy.nan, numpy.inf
    for mode in modes:
        yield case(op, holes, _size(7, 3), name=f"NaN and infinity, {' '.join(mode) or 'plain'}", **mode)
    yield case(op, x, _size(5, 5), name="unknown", unknown=True)
    yield case(op, x[:0], _size(5, 5), name="no images")
    yield case(op, x, _size(0, 5), name="no height", unknown=True)
    yield case(op, x, _size(5, -1), name="negative", unknown=True)
    yield case(op, x[0], _size(5, 5), name="3 axes", unknown=True)
    yield case(op, x, numpy.array([5], "int32"), name="one number", unknown=True)
    if op != "ResizeArea":
        both: dict[str, Any] = {"align_corners": True, "half_pixel_centers": True}
        yield case(op, x, _size(5, 5), name="both modes", unknown=True, **both)


@samples("ScaleAndTranslate", ulps=64, n_eps=16)
def _scale_and_translate(op: str) -> Iterator[Case]:
    scale, move = numpy.array([1.5, 2], "float32"), numpy.array([0, 0], "float32")
    for kind in types_of(op):
        yield case(op, numbers(kind, 1, 3, 4, 2, low=0), _size(5, 6), scale, move, name=kind)
    x = numbers("float32", 1, 6, 5, 2, low=0)
    for kernel in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"):
        for antialias in (True, False):
            options: dict[str, Any] = {"kernel_type": kernel, "antialias": antialias}
            yield case(op, x, _size(3, 8), numpy.array([0.5, 1.6], "float32"), move,
                       name=f"{kernel}, antialias {antialias}", **options)  # fmt: skip
            yield case(op, x, _size(4, 4), numpy.array([0.75, 1.25], "float32"), numpy.array([1.5, -0.5], "float32"),
                       name=f"{kernel}, moved, antialias {antialias}", **options)  # fmt: skip
    yield case(op, x, _size(4, 4), -scale, move, name="negative scale")
    yield case(op, x, _size(4, 4), scale, move, name="unknown kernel", kernel_type="cubic", unknown=True)


@samples("CropAndResize", n_eps=8)
def _crop(op: str) -> Iterator[Case]:
    boxes = numpy.array([[0, 0, 1, 1], [0.25, 0.125, 0.75, 0.875], [1, 1, 0, 0], [-0.5, 0.5, 0.5, 1.5]], "float32")
    owners = numpy.array([0, 1, 1, 0], "int32")
    for kind in types_of(op):
        yield case(op, numbers(kind, 2, 3, 4, 2, low=0), boxes, owners, _size(2, 2), name=kind)
    x = numbers("float32", 2, 4, 4, 2)
    for method in ("bilinear", "nearest"):
        for height, width in ((3, 3), (1, 1), (1, 4), (4, 4)):
            yield case(op, x, boxes[: 64 // (height * width * 2)], owners[: 64 // (height * width * 2)],
                       _size(height, width), name=f"{method}, {height} x {width}", method=method,
                       extrapolation_value=-2.5)  # fmt: skip
    yield case(op, x, boxes, owners, _size(2, 2), name="unknown", unknown=True)
    yield case(op, x, boxes[:0], owners[:0], _size(2, 2), name="no boxes")
    yield case(op, x, boxes, owners + 1, _size(2, 2), name="image too large")
    yield case(op, x, boxes, owners - 1, _size(2, 2), name="negative image")
    yield case(op, x, boxes, owners[:3], _size(2, 2), name="too few images", unknown=True)
    yield case(op, x, boxes, owners, _size(0, 2), name="no height", unknown=True)
    yield case(op, x[0], boxes, owners, _size(2, 2), name="3 axes", unknown=True)


@samples("ExtractImagePatches", exact=True)
def _patches(op: str) -> Iterator[Case]:
    one: dict[str, Any] = {"ksizes": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}
    for kind in types_of(op):
        yield case(op, numbers(kind, 1, 3, 3, 2), name=kind, **one)
    x = numbers("float32", 1, 5, 4, 2)
    for padding in ("SAME", "VALID"):
        yield case(op, x, name=f"{padding}, strides", **{**one, "strides": [1, 2, 3, 1], "padding": padding})
        yield case(op, x, name=f"{padding}, rates", **{**one, "rates": [1, 2, 2, 1], "padding": padding})
        yield case(op, x, name=f"{padding}, 3 x 1", **{**one, "ksizes": [1, 3, 1, 1], "padding": padding})
    yield case(op, x, name="unknown", unknown=True, **one)
    yield case(op, x[:0], name="no images", **one)
    yield case(op, x[0], name="3 axes", unknown=True, **one)


@samples("ExtractVolumePatches", exact=True)
def _volumes(op: str) -> Iterator[Case]:
    one: dict[str, Any] = {"ksizes": [1, 2, 1, 2, 1], "strides": [1, 1, 2, 1, 1], "padding": "VALID"}
    for kind in types_of(op):
        yield case(op, numbers(kind, 1, 2, 3, 2, 2), name=kind, **one)
        yield case(op, numbers(kind, 1, 2, 3, 2, 2), name=f"{kind}, SAME", **{**one, "padding": "SAME"})
    yield case(op, numbers("float32", 2, 3, 2, 2), name="4 axes", unknown=True, **one)


@samples("ExtractGlimpse ExtractGlimpseV2", exact=True)
def _glimpse(op: str) -> Iterator[Case]:
    x = numbers("float32", 2, 5, 4, 1)
    for centered in (False, True):
        for normalized in (False, True):
            inside = numpy.array([[0, 0.25], [0.25, -0.125]] if centered or normalized else [[0, 1], [2, 1]], "float32")
            far = inside * (1 if normalized else 5) + numpy.float32(0.5)
            options: dict[str, Any] = {"centered": centered, "normalized": normalized, "noise": "zero",
                                       "uniform_noise": False}  # fmt: skip
            kind = f"centered {centered}, normalized {normalized}"
            yield case(op, x, _size(2, 2), inside, name=f"inside, {kind}", **options)
            yield case(op, x, _size(3, 3), far, name=f"over the edge, {kind}", **options)
            yield case(op, x, _size(3, 2), -far, name=f"over the other edge, {kind}", **options)
    yield case(op, x, _size(2, 2), numpy.zeros((1, 2), "float32"), name="too few offsets", unknown=True,
               uniform_noise=False, noise="zero")  # fmt: skip


@samples("FusedResizeAndPadConv2D", n_eps=8)
def _resize_pad_conv(op: str) -> Iterator[Case]:
    paddings = numpy.array([[0, 0], [1, 1], [0, 1], [0, 0]], "int32")
    for kind in ("float32", "float64", "float16"):
        for mode in ("REFLECT", "SYMMETRIC"):
            yield case(op, numbers(kind, 1, 2, 2, 2, low=-2, high=2), _size(4, 4), paddings,
                       numbers(kind, 2, 2, 2, 2, start=50, low=-2, high=2), mode=mode, name=f"{kind}, {mode}",
                       strides=[1, 1, 1, 1], padding="VALID", constants=(1, 2))  # fmt: skip


@samples("ImageProjectiveTransformV2 ImageProjectiveTransformV3", n_eps=8)
def _projective(op: str) -> Iterator[Case]:
    turn = numpy.array([[0.75, -0.5, 1.25, 0.5, 0.875, -0.75, 0, 0]], "float32")
    tilt = numpy.array([[1, 0.25, -2, 0.125, 1.5, 1, 0.125, -0.0625]], "float32")
    rest = [numpy.float32(2)] if op.endswith("V3") else []
    for kind in types_of(op, "dtype"):
        for mode in ("NEAREST", "BILINEAR"):
            yield case(op, numbers(kind, 1, 4, 4, 2, low=0), turn, _size(4, 4), *rest, name=f"{kind}, {mode}",
                       interpolation=mode)  # fmt: skip
    x = numbers("float32", 2, 3, 5, 1)
    for mode in ("NEAREST", "BILINEAR"):
        for fill in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"):
            for name, transform in (("turned", turn), ("tilted", tilt)):
                yield case(op, x, transform, _size(4, 6), *rest, name=f"{mode}, {fill}, {name}", interpolation=mode,
                           fill_mode=fill)  # fmt: skip
    both = numpy.concatenate([turn, tilt])
    yield case(op, x, both, _size(3, 5), *rest, name="one for each image", interpolation="BILINEAR")
    yield case(op, x, both[:, :6], _size(3, 5), *rest, name="six numbers", interpolation="BILINEAR", unknown=True)
    yield case(op, numbers("float32", 3, 2, 2, 1), both, _size(3, 5), *rest, name="too few", unknown=True,
               interpolation="BILINEAR")  # fmt: skip
