"""Every cap on untrusted input, in one place.

A cap exists where a few bytes of input could otherwise ask for much time or memory. Each is far above what real
models hold. Lengths need no cap of their own: they are checked against the bytes that are really there.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "MAX_DEFLATE_RATIO",
    "MAX_DEPTH",
    "MAX_FILLED_BYTES",
    "MAX_INLINED_NODES",
    "MAX_LIST_OUTPUTS",
    "MAX_PROTO_BYTES",
    "MAX_RANK",
    "MAX_SHARDS",
    "MAX_SMALL_MESSAGE",
    "MAX_SNAPPY_RATIO",
    "MAX_STATE_FILE",
    "MAX_WEIGHTS_HEADER",
]

MAX_PROTO_BYTES: Final = 2**31 - 1
"""Protocol buffers end here: TensorFlow cannot read a larger message, so we never write one."""

MAX_DEPTH: Final = 100
"""Nested messages; the same cap that protobuf itself applies."""

MAX_RANK: Final = 254
"""Dimensions of a tensor; TensorFlow's own limit."""

MAX_SHARDS: Final = 100_000
"""Data files of one checkpoint; the file names have five digits."""

MAX_SMALL_MESSAGE: Final = 64 * 2**20
"""A message that is parsed whole. Larger ones are scanned lazily or refused."""

MAX_SNAPPY_RATIO: Final = 64
"""Snappy cannot expand input more than this; a block that claims more is corrupt."""

MAX_FILLED_BYTES: Final = 2**34
"""A constant that repeats its last value may claim any size in a few bytes; values beyond this are not made."""

MAX_STATE_FILE: Final = 2**20
"""The `checkpoint` state file is a few lines of text."""

MAX_LIST_OUTPUTS: Final = 2**20
"""An attribute may claim any number of tensors for an op's list output in a few bytes."""

MAX_INLINED_NODES: Final = 5_000_000
"""Functions that call functions can grow without bound when they are inlined; real models stay far below this."""

MAX_WEIGHTS_HEADER: Final = 100_000_000
"""The header of a safetensors file; the same cap that the format's own library applies."""

MAX_DEFLATE_RATIO: Final = 1032
"""Deflate cannot expand input more than this; a member of an archive that claims more is corrupt."""
