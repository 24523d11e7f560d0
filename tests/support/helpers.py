"""Small things that many tests use: messages put together by hand, models on disk, programs run aside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tfsmith.storage import Sink, Span, from_bytes
from tfsmith.wire import VARINT, encode_varint, fields, new, tag

__all__ = [
    "UNKNOWN",
    "MemorySink",
    "const_node",
    "field",
    "files_of",
    "graph_def",
    "node_def",
    "payloads",
    "python",
    "somebody",
    "split",
    "unknown",
    "write_files",
]


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return tag(number) + encode_varint(len(payload)) + payload


def unknown(mark: str) -> bytes:
    """Two fields that no schema knows: some bytes with a mark, and a number."""
    return field(1234, f"unknown {mark}".encode()) + tag(1235, VARINT) + encode_varint(77)


UNKNOWN = unknown("field")


def node_def(
    name: str,
    op: str,
    inputs: Sequence[str] = (),
    attrs: Mapping[str, bytes] | None = None,
    *,
    device: str = "",
    extra: bytes = b"",
) -> bytes:
    """A NodeDef; attributes are serialized AttrValues, in this order."""
    out = field(1, name.encode()) + field(2, op.encode()) + b"".join(field(3, text.encode()) for text in inputs)
    out += field(4, device.encode()) if device else b""
    for key, value in (attrs or {}).items():
        out += field(5, field(1, key.encode()) + field(2, value))
    return out + extra


def attr_value(**values: Any) -> bytes:
    """An AttrValue, such as `attr_value(i=3)`."""
    message = new("AttrValue")
    for name, value in values.items():
        setattr(message, name, value)
    return bytes(message.SerializeToString())


def const_node(name: str, values: Sequence[float], *, extra: bytes = b"") -> bytes:
    """A Const of float32 in `tensor_content`."""
    import struct

    message = new("AttrValue")
    message.tensor.dtype = 1
    message.tensor.tensor_shape.dim.add(size=len(values))
    message.tensor.tensor_content = struct.pack(f"<{len(values)}f", *values)
    value = bytes(message.SerializeToString())
    return node_def(name, "Const", attrs={"dtype": attr_value(type=1), "value": value}, extra=extra)


def graph_def(nodes: Sequence[bytes], *, producer: int = 21, library: bytes | None = None, extra: bytes = b"") -> bytes:
    """A GraphDef of serialized nodes."""
    versions = new("VersionDef")
    versions.producer = producer
    out = b"".join(field(1, node) for node in nodes)
    out += b"" if library is None else field(2, library)
    return out + field(4, versions.SerializeToString()) + extra


def split(data: bytes) -> list[tuple[int, bytes]]:
    """The fields of a message, each with its number and all of its bytes, tag included."""
    return [(found.number, data[found.tag_start : found.stop]) for found in fields(from_bytes(data))]


def payloads(data: bytes, number: int) -> list[bytes]:
    """What the fields with this number hold."""
    return [data[found.start : found.stop] for found in fields(from_bytes(data)) if found.number == number]


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Writes files by their paths inside of a folder; gives the folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their paths inside of it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


class MemorySink(Sink):
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    def write_span(self, span: Span) -> None:
        self.data += span.tobytes()


@contextmanager
def somebody() -> Iterator[None]:
    """Acts as somebody who is not root, to whom permissions mean something."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs this Python aside, with the package on its path."""
    source = Path(__file__).parents[2] / "src"
    env = (
        os.environ | {"PYTHONPATH": str(source), "PYTHONIOENCODING": "utf-8", "TF_CPP_MIN_LOG_LEVEL": "3"} | environment
    )
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=env, timeout=300, check=False
    )
