"""TensorFlow Serving's own gRPC client, of the descriptors of its package: messages, and stubs as protoc makes them."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["api_pool", "message", "stub"]

_PACKED = Path(__file__).parent.parent / "data" / "serving_api" / "descriptors.xz"


@cache
def api_pool() -> Any:
    """The descriptors, in a pool of their own."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(lzma.decompress(_PACKED.read_bytes())).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def message(name: str) -> Any:
    """An empty message, such as `message("tensorflow.serving.PredictRequest")`."""
    return _class(api_pool().FindMessageTypeByName(name))()


def _class(descriptor: Any) -> Any:
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(descriptor)


def stub(channel: Any, service: str) -> dict[str, Callable[..., Any]]:
    """The methods of a service by name, each from a request to its response."""
    found = api_pool().FindServiceByName(f"tensorflow.serving.{service}")
    return {
        method.name: channel.unary_unary(
            f"/{found.full_name}/{method.name}",
            request_serializer=_class(method.input_type).SerializeToString,
            response_deserializer=_class(method.output_type).FromString,
        )
        for method in found.methods
    }
