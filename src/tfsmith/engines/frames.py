"""Messages between this process and the one that runs a model: a JSON header and raw arrays. No pickle, ever.

    frame   := "tfsm" | header size, uint32 | header | values of each array, one after the other
    header  := {"say": ..., "arrays": [{"key": ..., "dtype": ..., "shape": [...], "size": bytes}, ...]}

Numbers are little-endian. Strings are sent as uint64 lengths, then the bytes. The other side may be a process that a
hostile model has taken over, so every number is checked before it is used.
"""

from __future__ import annotations

import gc
import json
import os
import select
import struct
import sys
from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO

from tfsmith.errors import CorruptFileError, LimitError, TfsmithError, TruncatedFileError
from tfsmith.ir.types import dtype_named
from tfsmith.limits import MAX_FRAME_HEADER, MAX_RANK

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Arrays", "Run", "parent_pipes", "read_frame", "serve_frames", "write_frame"]

Arrays = Mapping[str, "NDArray[Any]"]
Run = Callable[[Mapping[str, Any], Arrays], Arrays]

_MAGIC = b"tfsm"
_HEAD = struct.Struct("<4sI")
_REMEDY = "the process that runs the model is broken; do not trust the model"
_CHUNK = 1 << 24
_REST = 60.0
"""Seconds that a process without a model waits for the next."""


def write_frame(stream: BinaryIO, say: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> None:
    """Sends a message and arrays by key. Numbers go out from where they lie; strings are gathered first."""
    told: list[dict[str, Any]] = []
    payloads: list[memoryview] = []
    for key, array in (arrays or {}).items():
        name, payload = _encode(array)
        told.append({"key": key, "dtype": name, "shape": list(array.shape), "size": len(payload)})
        payloads.append(payload)
    header = json.dumps({"say": dict(say), "arrays": told}).encode()
    if len(header) > MAX_FRAME_HEADER:
        raise LimitError(f"a message of {len(header)} bytes is too long", remedy="ask for fewer tensors at a time")
    stream.write(_HEAD.pack(_MAGIC, len(header)) + header)
    for payload in payloads:
        for start in range(0, len(payload), _CHUNK):
            stream.write(payload[start : start + _CHUNK])
    stream.flush()


def read_frame(stream: BinaryIO) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Takes a message and its arrays. Memory is taken for an array only in step with the bytes that really come.

    Raises:
        TruncatedFileError: The other side is gone.
        CorruptFileError: What came is no message.
    """
    magic, size = _HEAD.unpack(_read(stream, _HEAD.size))
    if magic != _MAGIC:
        raise CorruptFileError(f"a message begins with {magic!r}", remedy=_REMEDY)
    if size > MAX_FRAME_HEADER:
        raise CorruptFileError(f"a message of {size} bytes is too long", remedy=_REMEDY)
    try:
        header = json.loads(_read(stream, size))
    except (ValueError, RecursionError) as error:
        raise CorruptFileError("a message is no JSON", remedy=_REMEDY) from error
    say, told = (header.get("say"), header.get("arrays")) if isinstance(header, dict) else (None, None)
    if not isinstance(say, dict) or not isinstance(told, list):
        raise CorruptFileError("a message has other parts than say and arrays", remedy=_REMEDY)
    arrays: dict[str, NDArray[Any]] = {}
    for item in told:
        key, array = _decode(stream, item)
        arrays[key] = array
    return say, arrays


def parent_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Requests and answers of a child process. What it prints from here on goes to stderr, not between the answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, answers


def serve_frames(
    requests: BinaryIO,
    answers: BinaryIO,
    load: Callable[[Mapping[str, Any], Arrays], tuple[Mapping[str, Any], Run]],
    explain: Callable[[Exception], Mapping[str, Any]],
) -> None:
    """Answers requests, one after the other, until the parent closes the pipe.

    Args:
        requests: What the parent sends: {"do": "load"} and later {"do": "run"}, each with what `load` and run take;
            {"do": "rest"} is to forget the model, and to wait for another, but not forever.
        answers: What goes back.
        load: Loads a model; returns what to answer, and the function that runs the model.
        explain: What to answer where one of the two raises an error.
    """
    run: Run | None = None
    while True:
        try:
            say, arrays = read_frame(requests)
        except TruncatedFileError:
            return  # the parent is done
        try:
            if say.get("do") == "load":
                told, run = load(say, arrays)
                write_frame(answers, told)
            elif say.get("do") == "rest":
                run = None
                gc.collect()
                write_frame(answers, {})
                if not select.select([requests], [], [], _REST)[0]:
                    return
            elif run is None:
                write_frame(answers, {"error": "no model is loaded"})
            else:
                write_frame(answers, {}, run(say, arrays))
        except Exception as error:  # whatever the engine raises is the parent's to tell
            write_frame(answers, explain(error))


def _encode(array: NDArray[Any]) -> tuple[str, memoryview]:
    import numpy

    if array.dtype.kind == "O":
        items = [item.encode() if isinstance(item, str) else bytes(item) for item in array.reshape(-1).tolist()]
        lengths = numpy.array([len(item) for item in items], "<u8").tobytes()
        return "string", memoryview(lengths + b"".join(items))
    plain = numpy.ascontiguousarray(array)
    if plain.dtype.byteorder == ">":
        plain = plain.astype(plain.dtype.newbyteorder("<"))
    return str(dtype_named(plain.dtype.name)), memoryview(plain.reshape(-1).view(numpy.uint8).data)


def _decode(stream: BinaryIO, item: Any) -> tuple[str, NDArray[Any]]:
    import numpy

    told = item if isinstance(item, dict) else {}
    key, name, shape, size = (told.get(field) for field in ("key", "dtype", "shape", "size"))
    if not isinstance(key, str) or not isinstance(name, str) or not _is_count(size) or not _is_shape(shape):
        raise CorruptFileError("a message describes an array in a way that cannot be", remedy=_REMEDY)
    try:
        kind = dtype_named(name)
        element = kind.numpy()
    except TfsmithError as error:
        raise CorruptFileError(f"a message has an array of {name!r}", remedy=_REMEDY) from error
    assert isinstance(shape, list)
    assert isinstance(size, int)
    count = prod(shape)
    if element.kind == "O":
        return key, _decode_strings(stream, count, size).reshape(shape)
    if count * element.itemsize != size:
        raise CorruptFileError(f"an array of {count} {kind} cannot have {size} bytes", remedy=_REMEDY)
    return key, numpy.frombuffer(_read(stream, size), element).reshape(shape)


def _decode_strings(stream: BinaryIO, count: int, size: int) -> NDArray[Any]:
    import numpy

    if count * 8 > size:
        raise CorruptFileError(f"{count} strings cannot have {size} bytes", remedy=_REMEDY)
    lengths = numpy.frombuffer(_read(stream, count * 8), "<u8").tolist()
    if sum(lengths) != size - count * 8:
        raise CorruptFileError("the lengths of strings do not add up", remedy=_REMEDY)
    found = numpy.empty(count, object)
    for number, length in enumerate(lengths):
        found[number] = bytes(_read(stream, length))
    return found


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and len(value) <= min(MAX_RANK, 32) and all(map(_is_count, value))


def _read(stream: BinaryIO, size: int) -> bytearray:
    """Exactly so many bytes; the buffer grows as they come, so that a claim alone takes no memory."""
    data = bytearray()
    while len(data) < size:
        piece = stream.read(min(_CHUNK, size - len(data)))
        if not piece:
            raise TruncatedFileError("the process that runs the model is gone", remedy="run it again")
        data += piece
    return data
