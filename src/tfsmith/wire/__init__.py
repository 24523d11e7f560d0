"""F1: protocol buffers: fields on the wire, plans of what to write, and TensorFlow's messages in a pool of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tfsmith.errors import CorruptFileError, LimitError, TruncatedFileError
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.records import record
from tfsmith.storage import Sink, Span, from_bytes

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pool import DescriptorPool

__all__ = [
    "BYTES",
    "FIXED32",
    "FIXED64",
    "RawField",
    "Stream",
    "VARINT",
    "WritePlan",
    "as_int32",
    "as_int64",
    "encode_field",
    "encode_varint",
    "fields",
    "read_varint",
    "tag",
    "too_many_fields",
    "full_name",
    "pool",
    "message_class",
    "new",
    "parse",
]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_DAMAGED = "the file is damaged or is of another kind; fetch it again"


@record
class RawField:
    """A field and its place: its tag at `tag_start`, its payload from `start` to `stop` (absolute offsets)."""

    number: int
    wire_type: int
    value: int
    """The number of a varint field; 0 for the others."""
    tag_start: int
    start: int
    stop: int


def read_varint(buffer: memoryview, position: int, stop: int, path: str) -> tuple[int, int]:
    """Reads a varint that must end before `stop`; returns its value (64 bits) and where it ends."""
    value = shift = 0
    start = position
    while True:
        if position >= stop:
            raise TruncatedFileError("a number is cut off", path=path, offset=start, remedy=_DAMAGED)
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift >= 70:
            raise CorruptFileError("a number has over ten bytes", path=path, offset=start, remedy=_DAMAGED)


def as_int64(value: int) -> int:
    """An unsigned 64-bit varint as the signed number that an int64 field means by it."""
    return value - (1 << 64) if value >= 1 << 63 else value


def as_int32(value: int) -> int:
    """An unsigned 64-bit varint as the number that an int32 or enum field means by it: its low 32 bits, signed."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def fields(span: Span, most: int | None = None) -> Iterator[RawField]:
    """The fields of the message that `span` holds, in order. Touches tags and lengths only.

    Args:
        span: The message.
        most: How many fields it may have: a field takes two bytes of a file, and a hundred times that once it is read.

    Raises:
        CorruptFileError: The bytes are no message, or a length points past its end.
        LimitError: It has more than `most` fields.
    """
    found = _fields(span)
    return found if most is None else _counted(span, found, most)


def too_many_fields(span: Span, field: RawField) -> LimitError:
    """What to raise at the first field that is too many."""
    remedy = "no real model has so many; do not trust the file"
    return LimitError("a message has too many fields", path=span.name, offset=field.tag_start, remedy=remedy)


def _counted(span: Span, found: Iterator[RawField], most: int) -> Iterator[RawField]:
    for count, field in enumerate(found):
        if count == most:
            raise too_many_fields(span, field)
        yield field


def _fields(span: Span) -> Iterator[RawField]:
    buffer, path = span.source.buffer, span.name
    position, stop = span.start, span.stop
    while position < stop:
        tag_start = position
        tag = buffer[position]
        position += 1
        if tag >= 0x80:  # most tags and lengths take one byte
            tag, position = read_varint(buffer, tag_start, stop, path)
        number, wire_type = tag >> 3, tag & 7
        value = 0
        start = position
        if number == 0 or number > 0x1FFFFFFF:
            raise CorruptFileError(f"field number {number} cannot be", path=path, offset=tag_start, remedy=_DAMAGED)
        if wire_type == BYTES:
            length, start = (buffer[position], position + 1) if position < stop else (0x80, position)
            if length >= 0x80:
                length, start = read_varint(buffer, position, stop, path)
            position = start + length
        elif wire_type == VARINT:
            value, position = read_varint(buffer, position, stop, path)
        elif wire_type == FIXED32:
            position += 4
        elif wire_type == FIXED64:
            position += 8
        else:
            raise CorruptFileError(f"wire type {wire_type} cannot be", path=path, offset=tag_start, remedy=_DAMAGED)
        if position > stop:
            what = f"field {number} claims {position - start} bytes, but only {max(stop - start, 0)} are left"
            raise TruncatedFileError(what, path=path, offset=tag_start, remedy="the file is cut off; fetch it again")
        yield RawField(number, wire_type, value, tag_start, start, position)


class Stream(Protocol):
    """Bytes of a known number that are made while they are written."""

    def __len__(self) -> int:
        """How many there are; known without making them."""
        ...

    def chunks(self) -> Iterator[bytes]:
        """The bytes, piece by piece; exactly as many as `len` says."""
        ...


def encode_varint(value: int) -> bytes:
    """A varint; negative numbers take ten bytes, as protobuf writes them."""
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire_type: int = 2) -> bytes:
    """The tag of a field."""
    return encode_varint(number << 3 | wire_type)


def encode_field(number: int, payload: bytes) -> bytes:
    """A length-delimited field: tag, length, payload."""
    size = len(payload)
    if size < 0x80 and number < 0x10:
        return bytes((number << 3 | 2, size)) + payload
    return tag(number) + encode_varint(size) + payload


_SHORT = 1 << 10
"""Literal bytes up to this size become one part with their neighbours."""


class WritePlan:
    """Ordered literal bytes, spans and streams of a known total size. Nothing is read until it is written."""

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: list[bytes | Span | Stream] = []
        self.size = 0

    def add(self, part: bytes | Span | Stream) -> None:
        """Adds bytes, or a span or stream that will be copied. Joins neighbours: spans of one file, short bytes."""
        size = len(part)
        if not size:
            return
        self.size += size
        last = self._parts[-1] if self._parts else None
        if isinstance(part, bytes):
            if isinstance(last, bytes) and len(last) + size <= _SHORT:
                self._parts[-1] = last + part
            else:
                self._parts.append(part)
            return
        if isinstance(part, Span) and isinstance(last, Span) and last.source is part.source and last.stop == part.start:
            self._parts[-1] = Span(part.source, last.start, part.stop)
            return
        self._parts.append(part)

    def extend(self, other: WritePlan) -> None:
        """Adds all of another plan; its own neighbours are joined already, so only its first part may be."""
        if not other._parts:
            return
        first = other._parts[0]
        self.add(first)
        self._parts.extend(other._parts[1:])
        self.size += other.size - len(first)

    def add_field(self, number: int, payload: bytes | Span | WritePlan) -> None:
        """Adds a length-delimited field: tag, length, payload."""
        if isinstance(payload, bytes):
            self.add(encode_field(number, payload))
            return
        self.add(tag(number) + encode_varint(payload.size if isinstance(payload, WritePlan) else len(payload)))
        if isinstance(payload, WritePlan):
            self.extend(payload)
        else:
            self.add(payload)

    def parts(self) -> Iterator[bytes | Span | Stream]:
        """The parts, in order."""
        return iter(self._parts)

    def write_to(self, sink: Sink) -> None:
        """Streams everything; large spans are copied inside the kernel."""
        for part in self._parts:
            if isinstance(part, Span):
                sink.write_span(part)
                continue
            size = 0
            for chunk in (part,) if isinstance(part, bytes) else part.chunks():
                sink.write(chunk)
                size += len(chunk)
            assert size == len(part), "a stream made another number of bytes than it said"

    def tobytes(self) -> bytes:
        """Everything in memory; for what is known to be small."""
        return b"".join(_bytes(part) for part in self._parts)


def _bytes(part: bytes | Span | Stream) -> bytes:
    if isinstance(part, bytes):
        return part
    return part.tobytes() if isinstance(part, Span) else b"".join(part.chunks())


def full_name(name: str) -> str:
    """The name with its package: "NodeDef" becomes "tensorflow.NodeDef"."""
    return name if name.startswith("google.protobuf.") else f"tensorflow.{name}"


@cache
def pool() -> DescriptorPool:
    """The private pool; about two milliseconds.

    `tensorflow.descriptors` is `tensorflow.schema` as a FileDescriptorSet, made by `tools/make_descriptors.py`: to make
    it here would take ten.
    """
    stored = Path(__file__).with_name("tensorflow.descriptors").read_bytes()
    private: DescriptorPool = _implementation()[0]()
    for file in fields(from_bytes(stored, "tensorflow.descriptors")):
        private.AddSerializedFile(stored[file.start : file.stop])
    return private


@cache
def message_class(name: str) -> Any:
    """The class of a message, such as `message_class("GraphDef")`."""
    return _implementation()[1](pool().FindMessageTypeByName(full_name(name)))


@cache
def _implementation() -> tuple[Callable[[], DescriptorPool], Callable[[Descriptor], Any]]:
    """What makes a pool, and what makes the class of a message.

    protobuf's modules for them load its implementation in Python, too, which takes longer than to show a model. So both
    come from its library in C, where there is one, and from these modules where there is none, or another.
    """
    from google.protobuf.internal import api_implementation

    library: Any = getattr(api_implementation, "_c_module", None)
    if api_implementation.Type() == "upb" and hasattr(library, "DescriptorPool") and hasattr(library, "MessageMeta"):
        return library.DescriptorPool, partial(_native_class, library.MessageMeta)
    from google.protobuf import message_factory
    from google.protobuf.descriptor_pool import DescriptorPool

    return DescriptorPool, message_factory.GetMessageClass


def _native_class(meta: Callable[..., Any], descriptor: Descriptor) -> Any:
    """The class of a message, as `message_factory.GetMessageClass` makes it; those of its fields follow when used."""
    from google.protobuf.message import Message

    made = getattr(descriptor, "_concrete_class", None)
    return made or meta(descriptor.name, (Message,), {"DESCRIPTOR": descriptor, "__module__": None})


def new(name: str) -> Any:
    """An empty message, such as `new("NodeDef")`."""
    return message_class(name)()


def parse(name: str, data: Span | bytes, what: str | None = None) -> Any:
    """Parses a whole message. For small ones: the bytes are copied.

    Args:
        name: The message's name without its package.
        data: The bytes.
        what: What to call it in an error; the message's name by default.

    Raises:
        CorruptFileError: The bytes are no such message.
        LimitError: It is larger than any message can be.
    """
    from google.protobuf.message import DecodeError

    path = data.name if isinstance(data, Span) else None
    offset = data.start if isinstance(data, Span) else None
    if len(data) > MAX_PROTO_BYTES:
        raise LimitError(f"{what or name} is over 2 GiB, more than a message may hold", path=path, offset=offset)
    try:
        return message_class(name).FromString(data.tobytes() if isinstance(data, Span) else data)
    except DecodeError as error:
        raise CorruptFileError(
            f"{what or name} cannot be decoded",
            path=path,
            offset=offset,
            remedy="the file is damaged or is of another kind; fetch it again",
        ) from error
