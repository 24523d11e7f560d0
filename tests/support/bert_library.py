"""The library of the op `Bert` for tests that need it: the one that `make test` installed, or else built once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.native.builds import build

from tfsmith import bert_op
from tfsmith.errors import TfsmithError

__all__ = ["answers_of", "bert_library", "graph_answers"]


def bert_library(config: pytest.Config) -> Path:
    """The path of the library; skips where it cannot be built."""
    try:
        return bert_op.library()
    except TfsmithError:
        return build(config, "package")


def answers_of(path: Path, library: Path, feeds: Mapping[str, Any]) -> list[Any]:
    """What a SavedModel answers as TensorFlow's users load it, in this process."""
    import tensorflow as tf

    tf.load_op_library(str(library))
    loaded = tf.saved_model.load(str(path))  # keeps the variables alive
    signature = loaded.signatures["serving_default"]
    answers = signature(**{key: tf.constant(value) for key, value in feeds.items()})
    return [value.numpy() for value in answers.values()]


def graph_answers(path: Path, library: Path, feeds: Mapping[str, Any], output: str) -> Any:
    """What a GraphDef answers, in this process."""
    import tensorflow as tf

    tf.load_op_library(str(library))
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.remapping = 2  # off: it takes 0.001 for the epsilon of the embedding's norm
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph, config=config) as session:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(path.read_bytes()), name="")
        return session.run(output, {f"{key}:0": value for key, value in feeds.items()})
