"""TensorFlow's messages as protobuf classes, for what is small enough to be parsed whole.

The classes come from a private pool: TensorFlow can live in the same process, and no generated code ties us to one
release of protobuf.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tfsmith.errors import CorruptFileError, LimitError
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.storage.span import Span
from tfsmith.wire.descriptors import full_name, pool

__all__ = ["message_class", "new", "parse"]


@cache
def message_class(name: str) -> Any:
    """The class of a message, such as `message_class("GraphDef")`."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(pool().FindMessageTypeByName(full_name(name)))


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
