"""Complex numbers, as two tensors, and Fourier transforms. ONNX has no complex tensors: none goes in or out."""

from __future__ import annotations

from typing import Any

from tfsmith.ir.types import DType, dtype_named
from tfsmith.onnx.builder import INT64, Builder, Refusal, Val
from tfsmith.onnx.elementwise import arc_tangent
from tfsmith.onnx.registry import Complex, NodeContext, complex_lowering, lowering, lowerings
from tfsmith.ops.sizes import Known

__all__: list[str] = []

_PARTS = {"complex64": "float32", "complex128": "float64"}
_AXIS_IS_INPUT = 20
"""From this version on, DFT takes its axis as an input."""
_MOVES = (
    "Identity Reshape Transpose ConjugateTranspose StridedSlice Slice ExpandDims Squeeze ConcatV2 Pack GatherV2 Pad "
    "Tile ReverseV2 BroadcastTo AddV2 Add Sub Neg Sum Mean GatherNd Split SplitV Unpack"
)
"""Ops that do the same to both parts."""


def _complex(dtype: DType, real: Val, imaginary: Val, known: Known) -> Val:
    found = Val(dtype, known, None, None)
    found.held = Complex(real, imaginary)
    return found


def _parts(val: Val) -> tuple[Val, Val]:
    if not isinstance(val.held, Complex):
        raise Refusal("its complex numbers come from elsewhere")
    return val.held.real, val.held.imaginary


def _both(b: Builder, val: Val) -> tuple[Val, Val]:
    """The parts; a real tensor has zeros for the other."""
    return _parts(val) if isinstance(val.held, Complex) else _constant(b, val)


def _constant(b: Builder, val: Val) -> tuple[Val, Val]:
    """The parts of a small constant."""
    if val.array is None or val.array.dtype.kind != "c":
        raise Refusal("ONNX has no complex tensors, and here one comes in")
    kind = _part_kind(val.dtype)
    return b.const(val.array.real, kind), b.const(val.array.imag, kind)


def _part_kind(dtype: DType) -> DType:
    return dtype_named(_PARTS[dtype.name])


@lowering("Complex")
def _made(n: NodeContext) -> Val:
    if n.x.dims is None or n.x.dims != n.y.dims:
        raise Refusal("its parts are not known to have the same shape")
    return _complex(n.dtype, n.x, n.y, n.out)


@lowering("Real Imag ComplexAbs Angle Conj")
def _real(n: NodeContext) -> Val:
    raise Refusal("ONNX has no complex tensors, and here one comes in")


@complex_lowering("Real Imag")
def _part(n: NodeContext) -> Val:
    return n.b.op("Identity", _parts(n.x)[n.op == "Imag"], known=n.out)


@complex_lowering("ComplexAbs")
def _size(n: NodeContext) -> Val:
    b, (real, imaginary) = n.b, _parts(n.x)
    return b.op("Sqrt", b.op("Add", b.op("Mul", real, real), b.op("Mul", imaginary, imaginary)), known=n.out)


@complex_lowering("Angle")
def _angle(n: NodeContext) -> Val:
    real, imaginary = _parts(n.x)
    if real.dtype.name != "float32":
        raise Refusal("it is not lowered for float64")
    return arc_tangent(n.b, imaginary, real)


@complex_lowering("Conj")
def _conjugate(n: NodeContext) -> Val:
    real, imaginary = _parts(n.x)
    return _complex(n.dtype, real, n.b.op("Neg", imaginary, known=n.out), n.out)


@complex_lowering("Mul Square RealDiv Div")
def _multiplied(n: NodeContext) -> Val:
    b = n.b
    (a, c), (d, e) = _both(b, n.x), _both(b, n.inputs[-1])

    def times(one: Val, other: Val) -> Val:
        return b.op("Mul", one, other)

    if n.op not in ("RealDiv", "Div"):
        return _complex(n.dtype, b.op("Sub", times(a, d), times(c, e), known=n.out),
                        b.op("Add", times(a, e), times(c, d), known=n.out), n.out)  # fmt: skip
    size = b.op("Add", times(d, d), times(e, e))
    real = b.op("Div", b.op("Add", times(a, d), times(c, e)), size, known=n.out)
    return _complex(n.dtype, real, b.op("Div", b.op("Sub", times(c, d), times(a, e)), size, known=n.out), n.out)


@complex_lowering("Exp")
def _power(n: NodeContext) -> Val:
    b, (real, imaginary) = n.b, _parts(n.x)
    size = b.op("Exp", real)
    return _complex(n.dtype, b.op("Mul", size, b.op("Cos", imaginary), known=n.out),
                    b.op("Mul", size, b.op("Sin", imaginary), known=n.out), n.out)  # fmt: skip


@complex_lowering("Cast")
def _cast(n: NodeContext) -> Val:
    b, (real, imaginary) = n.b, _parts(n.x)
    if n.dtype.name not in _PARTS:
        return b.cast(real, n.dtype)
    kind = _part_kind(n.dtype)
    return _complex(n.dtype, b.cast(real, kind), b.cast(imaginary, kind), n.out)


@complex_lowering(_MOVES)
def _moved(n: NodeContext) -> list[Val]:
    """The same for both parts."""
    name = "Transpose" if n.op == "ConjugateTranspose" else n.op
    found: list[list[Val | None]] = []
    node = n.node if name == n.op else n.node.replace(op=name)
    for number in range(2):
        given = [_both(n.b, one)[number] if one.dtype.name in _PARTS else one for one in n.inputs]
        kinds = [None if kind is None else _part_kind(kind.base) for kind in n.dtypes]
        context = NodeContext(n.driver, node, n.attrs, given, n.known, kinds)
        result = [given[0]] if name == "Identity" else lowerings()[name].function(context)
        found.append([result] if isinstance(result, Val) else list(result))
    made: list[Val] = []
    for at, (real, imaginary) in enumerate(zip(*found, strict=True)):
        if real is None or imaginary is None:
            raise Refusal("a part of it is not there")
        real.known = real.known if real.dims is not None else n.known[at]
        imaginary.known = imaginary.known if imaginary.dims is not None else n.known[at]
        kind = n.dtypes[at]
        assert kind is not None
        other = n.b.op("Neg", imaginary, known=imaginary.known) if n.op == "ConjugateTranspose" else imaginary
        made.append(_complex(kind, real, other, n.known[at]))
    return made


# Fourier transforms


def _joined(b: Builder, real: Val, imaginary: Val) -> Val:
    rank = real.rank
    known = Known((*(real.dims or ()), 2))
    return b.concat([b.unsqueeze(real, [rank]), b.unsqueeze(imaginary, [rank])], rank, known)


def _transform(b: Builder, x: Val, axis: int, *, inverse: bool = False, one_sided: bool = False) -> Val:
    """DFT along an axis of a tensor whose last axis has the parts."""
    attrs: dict[str, Any] = {"inverse": int(inverse), "onesided": int(one_sided)}
    dims = [*(x.dims or ())]
    size = dims[axis]
    dims[-1] = 2
    if one_sided:
        dims[axis] = size // 2 + 1 if isinstance(size, int) else None
    if b.opset >= _AXIS_IS_INPUT:
        return b.op("DFT", x, None, b.const(axis), dims=tuple(dims), **attrs)
    return b.op("DFT", x, axis=axis, dims=tuple(dims), **attrs)


def _split(n: NodeContext, joined: Val) -> Val:
    b, rank = n.b, joined.rank
    known = n.out if n.out.dims is not None else Known((joined.dims or ())[:-1])
    real, imaginary = (b.op("Gather", joined, b.const(at), axis=rank - 1, known=known) for at in range(2))
    return _complex(n.dtype, real, imaginary, known)


def _axes(n: NodeContext, rank: int) -> list[int]:
    count = int(n.op[-2]) if n.op.endswith("D") else 1
    if rank < count:
        raise Refusal("it has fewer axes than it transforms")
    return list(range(rank - count, rank))


@complex_lowering("FFT IFFT FFT2D IFFT2D FFT3D IFFT3D")
def _fft(n: NodeContext) -> Val:
    b, (real, imaginary) = n.b, _parts(n.x)
    found = _joined(b, real, imaginary)
    for axis in _axes(n, real.rank):
        found = _transform(b, found, axis, inverse=n.op.startswith("I"))
    return _split(n, found)


@lowering("FFT IFFT FFT2D IFFT2D FFT3D IFFT3D IRFFT IRFFT2D IRFFT3D")
def _no_fft(n: NodeContext) -> Val:
    raise Refusal("ONNX has no complex tensors, and here one comes in")


def _cut(b: Builder, x: Val, axes: list[int], lengths: Val) -> Val:
    """As much of each axis as the transform takes. It must be there: TensorFlow refuses less, and so does the run."""
    known = lengths.known.numbers or (None if lengths.array is None else lengths.integers("its lengths"))
    dims = list(x.dims or ())
    if known is not None and all(dims[axis] == size for axis, size in zip(axes, known, strict=True)):
        return x
    wanted = b.int64(lengths)
    found = b.op("Slice", x, b.const([0] * len(axes)), wanted, b.const(axes))
    whole = [
        b.op("Slice", wanted, b.const([axes.index(at)]), b.const([axes.index(at) + 1]), b.const([0]))
        if at in axes
        else b.size(x, at)
        for at in range(x.rank)
    ]
    for number, axis in enumerate(axes):
        dims[axis] = known[number] if known is not None else None
    return b.op("Reshape", found, b.concat(whole, 0), dims=tuple(dims), allowzero=1)


@lowering("RFFT RFFT2D RFFT3D")
def _rfft(n: NodeContext) -> Val:
    b, x = n.b, n.x
    axes = _axes(n, x.rank)
    if any(size == 0 for size in x.dims or ()):
        raise Refusal("it transforms nothing")
    found = b.unsqueeze(_cut(b, x, axes, n.y), [x.rank])
    found = _transform(b, found, axes[-1], one_sided=True)
    for axis in axes[:-1]:
        found = _transform(b, found, axis)
    return _split(n, found)


@complex_lowering("IRFFT IRFFT2D IRFFT3D")
def _irfft(n: NodeContext) -> Val:
    """The other half of the spectrum is the first, mirrored and conjugated."""
    b, (real, imaginary) = n.b, _parts(n.x)
    axes = _axes(n, real.rank)
    lengths = n.y.integers("its lengths")
    if n.op != "IRFFT" or (n.x.dims or ())[-1] is None:
        raise Refusal("it is lowered for one axis only")
    length, half = lengths[0], lengths[0] // 2 + 1
    axis = axes[-1]
    size = (n.x.dims or ())[-1]
    if not isinstance(size, int) or size < half or length < 1:
        raise Refusal("its input is not known to be long enough")
    parts: list[Val] = []
    for number, part in enumerate((real, imaginary)):
        kept = b.slice(part, [0], [half], [axis]) if size > half else part
        mirrored = b.slice(kept, [length - half], [0], [axis], [-1]) if length > half else None
        if mirrored is not None and number:
            mirrored = b.op("Neg", mirrored)
        whole = kept if mirrored is None else b.concat([kept, mirrored], axis)
        whole.known = Known((*(n.x.dims or ())[:-1], length))
        parts.append(whole)
    found = _transform(b, _joined(b, *parts), axis, inverse=True)
    known = Known((*(n.x.dims or ())[:-1], length))
    return b.op("Gather", found, b.const(0, INT64), axis=found.rank - 1, known=known)
