"""Samples of signals and sound."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_SHAPES = {"": (2, 5), "2D": (2, 3, 4), "3D": (2, 2, 2, 4)}


def _axes(op: str) -> str:
    return op[-2:] if op.endswith("D") else ""


@samples("FFT FFT2D FFT3D IFFT IFFT2D IFFT3D", ulps=8, n_eps=8)
def _fft(op: str) -> Iterator[Case]:
    shape = _SHAPES[_axes(op)]
    for kind in ("complex64", "complex128"):
        yield case(op, numbers(kind, *shape), name=kind)
        yield case(op, numbers(kind, *shape[1:]), name=f"{kind}, without batch")
    yield case(op, numbers("complex64", *shape[:-1], 1), name="one")
    yield case(op, numbers("complex64", *shape[:-1], 8), name="eight")
    yield case(op, numbers("complex64", *shape[:-1], 7), name="seven", unknown=True)
    yield case(op, numpy.zeros((0, *shape[1:]), "complex64"), name="no batch")
    yield case(op, numpy.complex64(1), name="scalar", unknown=True)


@samples("RFFT RFFT2D RFFT3D", ulps=8, n_eps=8)
def _rfft(op: str) -> Iterator[Case]:
    shape = _SHAPES[_axes(op)]
    count = len(shape) - 1
    whole = numpy.array(shape[1:], "int32")
    for kind, found in (("float32", "complex64"), ("float64", "complex128")):
        yield case(op, numbers(kind, *shape), whole, name=kind, Tcomplex=found)
        yield case(op, numbers(kind, *shape), whole - 1, name=f"{kind}, shorter", Tcomplex=found)
        yield case(op, numbers(kind, *shape), whole * 2, name=f"{kind}, longer", Tcomplex=found)
    x = numbers("float32", *shape)
    yield case(op, x, whole, name="constant length", constants=(1,))
    yield case(op, x, whole, name="unknown", unknown=True)
    yield case(op, x[:0], whole, name="no batch")
    yield case(op, x, numpy.ones(count, "int32"), name="one")
    yield case(op, x, numpy.ones(count + 1, "int32"), name="too many lengths", unknown=True)
    yield case(op, x, -whole, name="negative length", unknown=True)


@samples("IRFFT IRFFT2D IRFFT3D", ulps=8, n_eps=8)
def _irfft(op: str) -> Iterator[Case]:
    shape = _SHAPES[_axes(op)]
    whole = numpy.array([*shape[1:-1], 2 * (shape[-1] - 1)], "int32")
    odd = numpy.array([*shape[1:-1], 2 * shape[-1] - 1], "int32")
    for kind, found in (("complex64", "float32"), ("complex128", "float64")):
        x = _half(kind, shape)
        yield case(op, x, whole, name=kind, Treal=found)
        yield case(op, x, odd, name=f"{kind}, odd", Treal=found)
        yield case(op, x, odd - 2, name=f"{kind}, shorter", Treal=found)
        yield case(op, x, whole + 4, name=f"{kind}, longer", Treal=found)
    x = _half("complex64", shape)
    yield case(op, x, whole, name="unknown", unknown=True)
    yield case(op, x[:0], whole, name="no batch")
    yield case(op, x, -whole, name="negative length", unknown=True)


def _half(kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Half of a spectrum: the first and the last number of a row are real, as those of a real signal are."""
    x = numbers(kind, *shape)
    x[..., 0], x[..., -1] = x[..., 0].real, x[..., -1].real
    return x


def _wav(samples: NDArray[Any], channels: int, rate: int, *, extra: bytes = b"", form: int = 1) -> NDArray[Any]:
    data = samples.astype("<i2").tobytes()
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(data) + len(extra), b"WAVE", b"fmt ", 16, form, channels,
                       rate, rate * channels * 2, channels * 2, 16)  # fmt: skip
    return _text(head + extra + struct.pack("<4sI", b"data", len(data)) + data)


def _text(data: bytes) -> NDArray[Any]:
    found = numpy.empty((), object)
    found[()] = data
    return found


@samples("DecodeWav")
def _decode_wav(op: str) -> Iterator[Case]:
    sound = numbers("int32", 12, low=-32768, high=32768)
    for channels in (1, 2, 3):
        yield case(op, _wav(sound, channels, 16000), name=f"{channels} channels")
        for wanted in (1, 2, 4):
            yield case(op, _wav(sound, channels, 8000), name=f"{channels} channels, {wanted} wanted",
                       desired_channels=wanted)  # fmt: skip
    for wanted in (0, 5, 20):
        yield case(op, _wav(sound, 1, 44100), name=f"{wanted} samples wanted", desired_samples=wanted)
    yield case(op, _wav(sound, 2, 44100), name="both wanted", desired_samples=9, desired_channels=2)
    yield case(op, _wav(sound, 1, 16000, extra=struct.pack("<4sI4s", b"LIST", 4, b"note")), name="a list before data")
    yield case(op, _wav(sound[:0], 1, 16000), name="no samples")
    whole = bytes(_wav(sound, 1, 16000).item())
    yield case(op, _text(whole[:-3]), name="too short")
    yield case(op, _text(whole[:30]), name="no data")
    yield case(op, _text(b""), name="empty")
    yield case(op, _text(b"RIFX" + whole[4:]), name="no wav")
    yield case(op, _wav(sound, 1, 16000, form=3), name="floats")


@samples("EncodeWav")
def _encode_wav(op: str) -> Iterator[Case]:
    rate = numpy.array(16000, "int32")
    for channels in (1, 2, 3):
        yield case(op, numbers("float32", 6, channels, low=-1, high=1), rate, name=f"{channels} channels")
    edges = numpy.array([[1], [-1], [2], [-2], [0], [1 / 65536], [-1 / 65536], [3 / 65536], [0.25]], "float32")
    yield case(op, edges, rate, name="edges")
    yield case(op, edges[0], rate, name="a vector", unknown=True)
    yield case(op, edges[:0], rate, name="no samples", unknown=True)
    yield case(op, edges, numpy.array([16000], "int32"), name="rates", unknown=True)


@samples("AudioSpectrogram", ulps=8, n_eps=4)
def _spectrogram(op: str) -> Iterator[Case]:
    x = numbers("float32", 30, 2, low=-1, high=1)
    for window, stride in ((8, 4), (5, 3), (16, 16), (30, 1), (2, 7)):
        for squared in (False, True):
            yield case(op, x, name=f"{window} by {stride}, squared {squared}", window_size=window, stride=stride,
                       magnitude_squared=squared)  # fmt: skip
    yield case(op, x[:, :1], name="unknown", window_size=8, stride=4, unknown=True)
    yield case(op, x[:4], name="too short", window_size=8, stride=4)
    yield case(op, x, name="window of 1", window_size=1, stride=1, unknown=True)
    yield case(op, x[0], name="a vector", window_size=8, stride=4, unknown=True)


@samples("Mfcc", ulps=64, n_eps=16)
def _mfcc(op: str) -> Iterator[Case]:
    rate = numpy.array(16000, "int32")
    x = numbers("float32", 1, 3, 17, low=0)
    yield case(op, x, rate, name="default")
    yield case(op, x, rate, name="few", filterbank_channel_count=5, dct_coefficient_count=4)
    yield case(op, x, rate, name="limits", filterbank_channel_count=8, dct_coefficient_count=8,
               lower_frequency_limit=300.0, upper_frequency_limit=7000.0)  # fmt: skip
    yield case(op, numbers("float32", 2, 3, 9, low=0), numpy.array(8000, "int32"), name="two channels")
    yield case(op, x * 0, rate, name="silence")
    yield case(op, x[0], rate, name="2 axes", unknown=True)
    yield case(op, x, numpy.array([16000], "int32"), name="rates", unknown=True)
