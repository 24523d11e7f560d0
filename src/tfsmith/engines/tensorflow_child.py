"""The process that runs TensorFlow: reads requests from its stdin, answers on its stdout, and ends with its parent."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from tfsmith.engines.frames import read_frame, write_frame
from tfsmith.errors import TruncatedFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["explain", "main", "plain_array", "serve"]

_MOST_TEXT = 600
_NODE = re.compile(r"\{\{node ([^}]*)\}\}")
# TensorFlow repeats itself: where each op was made, and then the same again
_NOISE = ("Graph execution error", "Detected at node", "Node: ", "<stack traces", "Original stack", "[[", 'File "')


def main() -> None:
    """Serves until the parent closes the pipe. What TensorFlow prints goes to stderr, not between the answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers requests, one after the other."""
    session: _Session | None = None
    while True:
        try:
            say, arrays = read_frame(requests)
        except TruncatedFileError:
            return  # the parent is done
        try:
            if say.get("do") == "load":
                session = _Session(say)
                write_frame(answers, {"version": session.version})
            elif session is None:
                write_frame(answers, {"error": "no model is loaded"})
            else:
                write_frame(answers, {}, session.run(say["fetches"], arrays))
        except Exception as error:  # whatever TensorFlow raises is the parent's to tell
            write_frame(answers, explain(error))


class _Session:
    """A model in a session: loaded, restored, its tables filled."""

    def __init__(self, say: Mapping[str, Any]) -> None:
        import tensorflow as tf

        self.version = str(tf.__version__)
        self._tf = tf
        for library in say["op_libraries"]:
            tf.load_op_library(library)
        v1 = tf.compat.v1
        self._graph = tf.Graph()
        self._session = v1.Session(graph=self._graph, config=_config(tf))
        with self._graph.as_default():
            if say["kind"] == "saved_model":
                v1.saved_model.load(self._session, say["tags"], say["path"])
            else:
                tf.import_graph_def(_graph_def(v1, say["path"]), name="")

    def run(self, fetches: list[str], feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The values of the tensors."""
        found = self._session.run({name: name for name in fetches}, dict(feeds))
        return {name: plain_array(value) for name, value in found.items()}


def _config(tf: Any) -> Any:
    """Without the remapper, which fuses nodes into others: what it fuses can no longer be fetched.

    With oneDNN it also takes the layer norm of a frozen BERT for one with another epsilon (TensorFlow 2.21).
    """
    from tensorflow.core.protobuf import rewriter_config_pb2

    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.remapping = rewriter_config_pb2.RewriterConfig.OFF
    return config


def _graph_def(v1: Any, path: str) -> Any:
    with open(path, "rb") as file:
        return v1.GraphDef.FromString(file.read())


def plain_array(value: Any) -> NDArray[Any]:
    """An array of a type that has a name: quantized ones come as structures of one field."""
    import numpy

    array: NDArray[Any] = numpy.asarray(value)
    if array.dtype.kind in "SU":
        array = array.astype(object)
    if array.dtype.fields:
        array = array.view(next(iter(array.dtype.fields.values()))[0])
    if isinstance(value, bytes):  # a scalar; numpy would cut zeros at its end
        array = numpy.empty((), object)
        array[()] = value
    return array


def explain(error: Exception) -> dict[str, Any]:
    """An error as one line, and what to do where that is known."""
    text = str(getattr(error, "message", None) or error)
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line and not line.startswith(_NOISE)]
    what = " ".join(told[:3]) or type(error).__name__
    node = next((match[1] for line in lines if (match := _NODE.search(line))), None)
    what = what if len(what) <= _MOST_TEXT else f"{what[:_MOST_TEXT]} [...]"
    found: dict[str, Any] = {"error": what if node is None or node in what else f"{what} (node {node})"}
    if isinstance(error, ImportError) and not isinstance(error, OSError):
        found["remedy"] = "pip install 'tfsmith[tensorflow]'"
    elif "able not initialized" in what:
        found["remedy"] = "a plain graph has lost what fills its tables; run the SavedModel or .meta that it came from"
    elif "not registered" in what:
        found["remedy"] = "pass the library that has the op ({op_libraries})"
    return found
