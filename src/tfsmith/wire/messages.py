"""The descriptors of TensorFlow's messages, in a pool of our own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith.errors import CorruptFileError, LimitError
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.storage.span import Span, from_bytes
from tfsmith.wire.fields import fields

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pool import DescriptorPool

__all__ = ["full_name", "pool", "message_class", "new", "parse"]


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
