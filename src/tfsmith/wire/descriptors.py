"""The descriptors of TensorFlow's messages, in a pool of our own."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tfsmith.storage.source import from_bytes
from tfsmith.wire.scan import fields

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool

__all__ = ["full_name", "pool"]


def full_name(name: str) -> str:
    """The name with its package: "NodeDef" becomes "tensorflow.NodeDef"."""
    return name if name.startswith("google.protobuf.") else f"tensorflow.{name}"


@cache
def pool() -> DescriptorPool:
    """The private pool; about two milliseconds.

    `tensorflow.descriptors` is `tensorflow.schema` as a FileDescriptorSet, made by `tools/make_descriptors.py`: to make
    it here would take ten.
    """
    from google.protobuf.descriptor_pool import DescriptorPool

    stored = Path(__file__).with_name("tensorflow.descriptors").read_bytes()
    private = DescriptorPool()
    for file in fields(from_bytes(stored, "tensorflow.descriptors")):
        private.AddSerializedFile(stored[file.start : file.stop])
    return private
