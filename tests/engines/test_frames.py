"""Messages to and from the process that runs TensorFlow: what goes in comes out, and lies are found."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tfsmith.engines.frames import read_frame, write_frame
from tfsmith.errors import CorruptFileError, TruncatedFileError
from tfsmith.limits import MAX_FRAME_HEADER

_KINDS = (
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
)


def sent(say: dict[str, Any], arrays: dict[str, Any] | None = None) -> bytes:
    stream = io.BytesIO()
    write_frame(stream, say, arrays)
    return stream.getvalue()


def frame(header: Any, payload: bytes = b"") -> io.BytesIO:
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    return io.BytesIO(b"tfsm" + struct.pack("<I", len(data)) + data + payload)


def array(**changes: Any) -> dict[str, Any]:
    return {"say": {}, "arrays": [{"key": "x", "dtype": "float32", "shape": [2], "size": 8, **changes}]}


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_numbers_come_back(kind: str, shape: tuple[int, ...]) -> None:
    values = np.arange(int(np.prod(shape))).reshape(shape).astype(kind)
    say, found = read_frame(io.BytesIO(sent({"do": "run"}, {"a/b:0": values})))
    assert say == {"do": "run"}
    assert found["a/b:0"].dtype == values.dtype
    assert found["a/b:0"].shape == shape
    np.testing.assert_array_equal(found["a/b:0"], values)


def test_other_kinds_come_back() -> None:
    arrays = {
        "bfloat16": np.array([1.5, -2], ml_dtypes.bfloat16),
        "float8": np.array([[0.5]], ml_dtypes.float8_e4m3fn),
        "big-endian": np.array([1, 2], ">i4"),
        "fortran": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        "strings": np.array([[b"a", b"", b"\x00\xff end\x00"]], object),
        "text": np.array("gr\u00fcn", object),
        "none": np.empty((0, 2), object),
    }
    _, found = read_frame(io.BytesIO(sent({}, arrays)))
    assert list(found) == list(arrays)
    for key in ("bfloat16", "float8", "big-endian", "fortran"):
        np.testing.assert_array_equal(found[key], arrays[key])
    assert found["bfloat16"].dtype == ml_dtypes.bfloat16
    assert found["strings"].tolist() == [[b"a", b"", b"\x00\xff end\x00"]]
    assert found["text"][()] == "gr\u00fcn".encode()
    assert found["none"].shape == (0, 2)


def test_frames_follow_each_other() -> None:
    stream = io.BytesIO(sent({"n": 1}, {"x": np.ones(3)}) + sent({"n": 2}))
    assert read_frame(stream)[0] == {"n": 1}
    assert read_frame(stream) == ({"n": 2}, {})
    with pytest.raises(TruncatedFileError, match="gone"):
        read_frame(stream)


@pytest.mark.parametrize("cut", [1, 7, 8, 30, -1])
def test_cut_off(cut: int) -> None:
    whole = sent({"n": 1}, {"x": np.ones(3), "s": np.array([b"abc"], object)})
    with pytest.raises(TruncatedFileError):
        read_frame(io.BytesIO(whole[:cut]))


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (io.BytesIO(b"junk" + bytes(100)), "begins with"),
        (io.BytesIO(b"tfsm" + struct.pack("<I", MAX_FRAME_HEADER + 1) + bytes(100)), "too long"),
        (frame(b"{nonsense"), "no JSON"),
        (frame(b"[" * 100_000), "no JSON"),
        (frame(b"\xff\xfe\x00"), "no JSON"),
        (frame([]), "other parts"),
        (frame({"say": {}}), "other parts"),
        (frame({"say": [], "arrays": []}), "other parts"),
        (frame({"say": {}, "arrays": [3]}), "cannot be"),
        (frame(array(key=3), bytes(8)), "cannot be"),
        (frame(array(dtype=None), bytes(8)), "cannot be"),
        (frame(array(shape="2"), bytes(8)), "cannot be"),
        (frame(array(shape=[-2]), bytes(8)), "cannot be"),
        (frame(array(shape=[2.0]), bytes(8)), "cannot be"),
        (frame(array(shape=[True]), bytes(8)), "cannot be"),
        (frame(array(shape=[1] * 40), bytes(8)), "cannot be"),
        (frame(array(size=-8), bytes(8)), "cannot be"),
        (frame(array(size=2**63), bytes(8)), "cannot be"),
        (frame(array(size=4), bytes(8)), "cannot have 4 bytes"),
        (frame(array(shape=[2**40, 2**40]), bytes(8)), "cannot have 8 bytes"),
        (frame(array(dtype="object"), bytes(8)), "2 strings cannot have 8 bytes"),
        (frame(array(dtype="resource"), bytes(8)), "an array of 'resource'"),
        (frame(array(dtype="datetime64"), bytes(8)), "an array of 'datetime64'"),
        (frame(array(dtype="string", shape=[1]), struct.pack("<Q", 2**60)), "do not add up"),
        (frame(array(dtype="string", shape=[1], size=9), struct.pack("<Q", 3) + b"a"), "do not add up"),
    ],
)
def test_lies_are_found(stream: io.BytesIO, words: str) -> None:
    with pytest.raises(CorruptFileError, match=words):
        read_frame(stream)


def test_a_claim_takes_no_memory() -> None:
    stream = frame(array(dtype="uint8", shape=[2**40], size=2**40), bytes(100))
    tracemalloc.start()
    with pytest.raises(TruncatedFileError):
        read_frame(stream)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
