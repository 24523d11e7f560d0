"""Every cap on untrusted input, in one place.

A cap exists where a few bytes of input could otherwise cost much time or memory. Each is far above what real
models hold. Lengths need no cap of their own: they are checked against the bytes that are really there.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "MAX_CALL_DEPTH",
    "MAX_DEFLATE_RATIO",
    "MAX_DEPTH",
    "MAX_ELEMENTS",
    "MAX_FIELDS",
    "MAX_FILLED_BYTES",
    "MAX_FRAME_HEADER",
    "MAX_FROZEN_FUNCTIONS",
    "MAX_HDF5_CHUNK",
    "MAX_HDF5_OBJECTS",
    "MAX_IMAGE_SAMPLES",
    "MAX_INLINED_CALLS",
    "MAX_INLINED_SIZE",
    "MAX_LIST_OUTPUTS",
    "MAX_LOOP_STEPS",
    "MAX_MATCH_STEPS",
    "MAX_META_GRAPHS",
    "MAX_MOUNTED_FILES",
    "MAX_NODES",
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

MAX_FIELDS: Final = 500_000
"""Fields of a message that is looked at field by field, nodes not counted: functions, collections, a node's inputs."""

MAX_META_GRAPHS: Final = 10_000
"""Meta graphs of a SavedModel, one for each tag set; real ones have one to three."""

MAX_NODES: Final = 5_000_000
"""Nodes of a graph or function; the largest real graphs have some hundred thousand."""

MAX_RANK: Final = 254
"""Dimensions of a tensor; TensorFlow's own limit."""

MAX_ELEMENTS: Final = 2**63 - 1
"""Elements of a tensor; TensorFlow counts them in 64 bits."""

MAX_SHARDS: Final = 100_000
"""Data files of one checkpoint; the file names have five digits."""

MAX_SMALL_MESSAGE: Final = 64 * 2**20
"""A message that is parsed whole. Larger ones are scanned lazily or refused."""

MAX_SNAPPY_RATIO: Final = 64
"""Snappy cannot expand input more than this; a block that claims more is corrupt."""

MAX_FILLED_BYTES: Final = 2**34
"""A constant that repeats its last value may claim any size in a few bytes; values beyond this are not made."""

MAX_MOUNTED_FILES: Final = 100_000
"""Files of an archive, or of a folder on a store, that is opened as a model."""

MAX_STATE_FILE: Final = 2**20
"""The `checkpoint` state file is a few lines of text."""

MAX_LIST_OUTPUTS: Final = 2**20
"""An attribute may claim any number of tensors for an op's list output in a few bytes."""

MAX_INLINED_CALLS: Final = 50_000
"""Functions that call functions can grow without bound when they are inlined; real models have some hundred calls."""

MAX_INLINED_SIZE: Final = 2**28
"""Bytes of nodes that inlining makes, about: half a million nodes."""

MAX_FROZEN_FUNCTIONS: Final = 10_000
"""Freezing copies the functions that take variables, once for each way in which they are called."""

MAX_WEIGHTS_HEADER: Final = 100_000_000
"""The header of a safetensors file; the same cap that the format's own library applies."""

MAX_DEFLATE_RATIO: Final = 1032
"""Deflate cannot expand input more than this; a member of an archive that claims more is corrupt."""

MAX_HDF5_OBJECTS: Final = 200_000
"""Groups and datasets of an HDF5 file; the largest Keras models, with their optimizer, have some ten thousand."""

MAX_HDF5_CHUNK: Final = 2**28
"""A piece of a compressed dataset, which is unpacked whole; h5py's own choice is about a megabyte."""

MAX_FRAME_HEADER: Final = 16 * 2**20
"""What the TensorFlow process says of the arrays that it sends: names, types and shapes of a few hundred at most."""

MAX_MATCH_STEPS: Final = 500_000
"""Steps of one attempt to find a recipe's query at one place; a recipe with many choices could take forever."""

MAX_IMAGE_SAMPLES: Final = 2**28
"""Samples (pixels times channels, all frames) of an image file that a graph decodes; its header alone asks for them."""

MAX_LOOP_STEPS: Final = 1_000_000
"""Steps of a loop that the reference engine runs; a loop of a real model has as many as its input has words."""

MAX_CALL_DEPTH: Final = 100
"""Functions that call each other, one inside the other, when the reference engine runs them."""
