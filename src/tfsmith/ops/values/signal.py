"""Values of signals and sound: Fourier transforms, wav files, spectrograms and their cepstral coefficients."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.windows import require_rank

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_FLOOR = 1e-12
"""The least power whose logarithm is taken."""


def _last_axes(x: NDArray[Any], count: int) -> tuple[int, ...]:
    if x.ndim < count:
        raise OpError(f"the input must have at least {count} axes, not the shape {list(x.shape)}")
    return tuple(range(-count, 0))


def _all(x: NDArray[Any], count: int, inverse: bool) -> Any:
    where = _last_axes(x, count)
    if not x.size:
        return x
    transform = numpy.fft.ifftn if inverse else numpy.fft.fftn
    return transform(x, axes=where).astype(x.dtype, copy=False)


def _lengths(x: NDArray[Any], length: NDArray[Any], count: int) -> list[int]:
    if length.shape != (count,):
        raise OpError(f"the length must be {count} numbers, not the shape {list(length.shape)}")
    found = [int(one) for one in length]
    if min(found) < 0:
        raise OpError(f"the length must not be negative, as in {found}")
    return found


def _fitted(x: NDArray[Any], where: Sequence[int], sizes: Sequence[int]) -> NDArray[Any]:
    """The input with zeros after its end, where a transform is longer than it is."""
    place: list[Any] = [slice(None)] * x.ndim
    shape = list(x.shape)
    for axis, size in zip(where, sizes, strict=True):
        if x.shape[axis] and x.shape[axis] < size:
            raise OpError(f"axis {axis} of {list(x.shape)} is shorter than the {size} elements that are needed")
        place[axis], shape[axis] = slice(0, size), size
    return x[tuple(place)] if x.size else numpy.zeros(shape, x.dtype)


def _real(x: NDArray[Any], length: NDArray[Any], count: int, kind: DType) -> Any:
    where, sizes = _last_axes(x, count), _lengths(x, length, count)
    fitted = _fitted(x, where, sizes)
    shape = (*fitted.shape[:-1], sizes[-1] // 2 + 1 if sizes[-1] else 0)
    if 0 in shape or not fitted.size:
        return numpy.zeros(shape, kind.numpy())
    return numpy.fft.rfftn(fitted, axes=where).astype(kind.numpy(), copy=False)


def _inverse_real(x: NDArray[Any], length: NDArray[Any], count: int, kind: DType) -> Any:
    where, sizes = _last_axes(x, count), _lengths(x, length, count)
    fitted = _fitted(x, where, [*sizes[:-1], sizes[-1] // 2 + 1 if sizes[-1] else 0])
    shape = (*fitted.shape[:-1], sizes[-1])
    if 0 in shape or not fitted.size:
        return numpy.zeros(shape, kind.numpy())
    return numpy.fft.irfftn(fitted, s=sizes, axes=where).astype(kind.numpy(), copy=False)


def _declare_transforms(count: int, suffix: str) -> None:
    @value(f"FFT{suffix}")
    def forward(x: NDArray[Any]) -> Any:
        return _all(x, count, inverse=False)

    @value(f"IFFT{suffix}")
    def backward(x: NDArray[Any]) -> Any:
        return _all(x, count, inverse=True)

    @value(f"RFFT{suffix}")
    def real(x: NDArray[Any], length: NDArray[Any], *, Tcomplex: DType) -> Any:
        return _real(x, length, count, Tcomplex)

    @value(f"IRFFT{suffix}")
    def inverse_real(x: NDArray[Any], length: NDArray[Any], *, Treal: DType) -> Any:
        return _inverse_real(x, length, count, Treal)


_declare_transforms(1, "")
_declare_transforms(2, "2D")
_declare_transforms(3, "3D")


@value("DecodeWav")
def _decode_wav(contents: NDArray[Any], *, desired_channels: int, desired_samples: int) -> Any:
    if contents.ndim:
        raise OpError("a wav file must be a scalar")
    samples, rate = _wav(bytes(contents.item()))
    channels = desired_channels if desired_channels > 0 else samples.shape[1]
    count = desired_samples if desired_samples >= 0 else len(samples)
    found = numpy.zeros((count, channels), numpy.float32)
    part = samples[:count, numpy.minimum(numpy.arange(channels), samples.shape[1] - 1)]
    found[: len(part)] = part
    return found, numpy.array(rate, numpy.uint32).astype(numpy.int32)


def _wav(data: bytes) -> tuple[NDArray[Any], int]:
    """The samples (time, channels) of a wav file of 16 bits, and how many there are in a second."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE" or data[12:16] != b"fmt ":
        raise OpError("the contents are no wav file: RIFF, WAVE and fmt are missing")
    try:
        size, form, channels, rate, _, width, bits = struct.unpack_from("<IHHIIHH", data, 16)
        at = 20 + size
        if size not in (16, 18) or form != 1 or bits != 16 or not channels or width != 2 * channels:
            raise OpError(
                f"only wav files of 16 bits are known, not format {form} of {bits} bits and {channels} channels"
            )
        while True:
            name, length = struct.unpack_from("<4sI", data, at)
            if name == b"data":
                break
            at += 8 + length
    except struct.error:
        raise OpError("the wav file ends before its samples") from None
    if at + 8 + length > len(data):
        raise OpError(f"the wav file promises {length} bytes of samples, but ends before them")
    whole = numpy.frombuffer(data, "<i2", length // (2 * channels) * channels, at + 8)
    return whole.reshape(-1, channels).astype(numpy.float32) / numpy.float32(32768), rate


@value("EncodeWav")
def _encode_wav(audio: NDArray[Any], sample_rate: NDArray[Any]) -> Any:
    require_rank(audio, 2, "the sound")
    if sample_rate.ndim:
        raise OpError("the sample rate must be a scalar")
    rate, channels = int(sample_rate), audio.shape[1]
    if rate <= 0 or not channels:
        raise OpError(f"a wav file needs channels and a rate, not {channels} at {rate}")
    loud = audio * numpy.float32(32768)
    whole = (
        numpy.clip(numpy.trunc(loud + numpy.copysign(numpy.float32(0.5), loud)), -32768, 32767).astype("<i2").tobytes()
    )
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(whole), b"WAVE", b"fmt ", 16, 1, channels, rate,
                       rate * channels * 2, channels * 2, 16, b"data", len(whole))  # fmt: skip
    found = numpy.empty((), object)
    found[()] = head + whole
    return found


@value("AudioSpectrogram")
def _spectrogram(x: NDArray[Any], *, window_size: int, stride: int, magnitude_squared: bool) -> Any:
    require_rank(x, 2, "the sound")
    if window_size < 2 or stride < 1:
        raise OpError(f"a window must have at least 2 samples and a stride of 1, not {window_size} and {stride}")
    count = 1 + (len(x) - window_size) // stride if len(x) >= window_size else 0
    length = 1 << (window_size - 1).bit_length()
    window = 0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(window_size) / window_size)
    places = numpy.arange(count)[:, None] * stride + numpy.arange(window_size)
    spectrum = numpy.fft.rfft(x.T[:, places].astype(numpy.float64) * window, length)
    power = spectrum.real**2 + spectrum.imag**2
    return (power if magnitude_squared else numpy.sqrt(power)).astype(numpy.float32)


@value("Mfcc")
def _mfcc(
    spectrogram: NDArray[Any], sample_rate: NDArray[Any], *, upper_frequency_limit: float,
    lower_frequency_limit: float, filterbank_channel_count: int, dct_coefficient_count: int,
) -> Any:  # fmt: skip
    require_rank(spectrogram, 3, "the spectrogram")
    if sample_rate.ndim:
        raise OpError("the sample rate must be a scalar")
    bank = _mel(spectrogram.shape[2], int(sample_rate), filterbank_channel_count, lower_frequency_limit,
                upper_frequency_limit)  # fmt: skip
    if dct_coefficient_count < 1 or dct_coefficient_count > filterbank_channel_count:
        raise OpError(f"there cannot be {dct_coefficient_count} coefficients of {filterbank_channel_count} channels")
    power = numpy.sqrt(spectrogram.astype(numpy.float64)) @ bank
    steps = numpy.arange(filterbank_channel_count) + 0.5
    angles = numpy.arange(dct_coefficient_count)[:, None] * (numpy.pi / filterbank_channel_count) * steps
    cosines = numpy.sqrt(2 / filterbank_channel_count) * numpy.cos(angles)
    return (numpy.log(numpy.maximum(power, _FLOOR)) @ cosines.T).astype(numpy.float32)


def _mel(bins: int, rate: int, channels: int, lower: float, upper: float) -> Any:
    """The weight of each frequency in each channel; channels are triangles on the mel scale."""
    if channels < 1 or rate <= 0 or bins < 2 or lower < 0 or upper <= lower:
        raise OpError(f"{channels} channels from {lower} to {upper} Hz at {rate} Hz with {bins} bins are impossible")
    low, high = (1127 * numpy.log1p(limit / 700) for limit in (lower, upper))
    centers = low + (high - low) / (channels + 1) * numpy.arange(1, channels + 2)
    step = 0.5 * rate / (bins - 1)
    mel = 1127 * numpy.log1p(numpy.arange(bins) * step / 700)
    band = numpy.minimum(numpy.searchsorted(centers, mel, "left"), channels) - 1
    edges = numpy.concatenate([[low], centers])
    share = (centers[numpy.minimum(band + 1, channels)] - mel) / (edges[band + 2] - edges[band + 1])
    start, end = int(1.5 + lower / step), int(upper / step)
    bank = numpy.zeros((bins, channels))
    for place in range(max(start, 0), min(end + 1, bins)):
        here = int(band[place])
        if here >= 0:
            bank[place, here] += share[place]
        if here + 1 < channels:
            bank[place, here + 1] += 1 - share[place]
    return bank
