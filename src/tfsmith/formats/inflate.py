"""Undoes the compressions that a Riegeli file may have, never past the size that the file claims.

Brotli is what TensorFlow's writer uses unless told otherwise. Python has no Brotli, and Zstandard only since 3.14, so
both come from optional packages that are imported when such a chunk is met.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfsmith.errors import CorruptFileError, LimitError, UnsupportedError
from tfsmith.formats import snappy

__all__ = ["BROTLI", "SNAPPY", "UNCOMPRESSED", "ZSTD", "inflate"]

UNCOMPRESSED, BROTLI, ZSTD, SNAPPY = 0, ord("b"), ord("z"), ord("s")
_STEP = 1 << 20  # what a decompressor may give at a time


def inflate(kind: int, pieces: Iterable[bytes | memoryview], size: int, path: str, offset: int) -> bytearray:
    """The plain bytes of a compressed run. Memory is `size` and about a megabyte.

    Args:
        kind: `BROTLI`, `ZSTD` or `SNAPPY`.
        pieces: The compressed bytes, in order.
        size: How many bytes must come out.
        path: The file that they came from, for errors.
        offset: Where they stand in it, for errors.

    Raises:
        CorruptFileError: They are damaged, or hold more or less than `size` bytes.
        LimitError: `size` bytes do not fit into memory.
        UnsupportedError: The package that knows this compression is not installed.
    """
    decoders: dict[int, Callable[[Iterable[bytes | memoryview]], Iterator[bytes]]] = {
        BROTLI: _brotli,
        ZSTD: _zstd,
        SNAPPY: _snappy,
    }
    if kind not in decoders:
        what = f"compression {kind:#04x} is not known"
        raise CorruptFileError(what, path=path, offset=offset, remedy="the file is damaged; fetch it again")
    try:
        return _gather(decoders[kind](pieces), size)
    except (_Damaged, CorruptFileError) as error:
        what = f"compressed data are damaged ({error})"
        remedy = "the file is damaged; fetch it again"
        raise CorruptFileError(what, path=path, offset=offset, remedy=remedy) from error
    except _Missing as error:
        what = f"the data are compressed with {error.name}, which Python cannot undo by itself"
        raise UnsupportedError(what, path=path, offset=offset, remedy=f"pip install '{error.package}'") from error
    except MemoryError as error:
        what = f"{size} bytes of decompressed data do not fit into memory"
        raise LimitError(what, path=path, offset=offset, remedy="use a machine with more memory") from error


class _Damaged(Exception):
    """Why a run cannot be decompressed; never leaves this file."""


class _Missing(Exception):
    """A package is not there; never leaves this file."""

    def __init__(self, name: str, package: str) -> None:
        super().__init__(name)
        self.name = name
        self.package = package


def _gather(parts: Iterator[bytes], size: int) -> bytearray:
    out = bytearray(size)
    view = memoryview(out)  # a bytearray would copy each part before it takes it
    filled = 0
    for part in parts:
        stop = filled + len(part)
        if stop > size:
            raise _Damaged(f"they hold more than the {size} bytes that they claim")
        view[filled:stop] = part
        filled = stop
    if filled < size:
        raise _Damaged(f"they hold {filled} bytes, but claim {size}")
    return out


def _brotli(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    brotli = _package("brotli", "Brotli", "brotli>=1.2")
    decoder = brotli.Decompressor()
    if not hasattr(decoder, "can_accept_more_data"):  # before 1.2 nothing bounded the output of one call
        raise _Missing("Brotli", "brotli>=1.2")
    try:
        for piece in pieces:
            yield decoder.process(piece, output_buffer_limit=_STEP)
            while not decoder.can_accept_more_data():
                yield decoder.process(b"", output_buffer_limit=_STEP)
        while not decoder.is_finished() and (rest := decoder.process(b"", output_buffer_limit=_STEP)):
            yield rest  # it can accept more, and still hold back output of what it has
    except brotli.error as error:
        raise _Damaged("Brotli refuses them") from error
    if not decoder.is_finished():
        raise _Damaged("they are cut off")


def _zstd(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    try:
        zstd = importlib.import_module("compression.zstd")
    except ImportError:
        zstd = _package("backports.zstd", "Zstandard", "backports.zstd")
    decoder = zstd.ZstdDecompressor()
    try:
        for piece in pieces:
            if decoder.eof:
                raise _Damaged("bytes follow their end")
            yield decoder.decompress(piece, _STEP)
            while not decoder.eof and not decoder.needs_input:
                yield decoder.decompress(b"", _STEP)
    except zstd.ZstdError as error:
        raise _Damaged("Zstandard refuses them") from error
    if not decoder.eof or decoder.unused_data:
        raise _Damaged("bytes follow their end" if decoder.eof else "they are cut off")


def _snappy(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    yield snappy.decompress(b"".join(pieces))


def _package(module: str, name: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise _Missing(name, package) from error
