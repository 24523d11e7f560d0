"""The process that runs TensorFlow: reads requests from its stdin, answers on its stdout, and ends with its parent."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from tfsmith.engines.frames import Arrays, Run, parent_pipes, serve_frames

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["explain", "main", "plain_array", "serve"]

_MOST_TEXT = 600
_WARM_UP = 3
"""Runs that are not measured: in the first ones TensorFlow optimizes the graph, and the op packs its weights."""
_NODE = re.compile(r"\{\{node ([^}]*)\}\}")
# TensorFlow repeats itself: where each op was made, and then the same again
_NOISE = ("Graph execution error", "Detected at node", "Node: ", "<stack traces", "Original stack", "[[", 'File "')


def main() -> None:
    """Serves until the parent closes the pipe. What TensorFlow prints goes to stderr, not between the answers."""
    serve(*parent_pipes())


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers requests, one after the other."""
    serve_frames(requests, answers, _load, explain)


def _load(say: Mapping[str, Any], _: Arrays) -> tuple[dict[str, Any], Run]:
    import tensorflow as tf

    for library in say["op_libraries"]:
        tf.load_op_library(library)
    version = {"version": str(tf.__version__)}
    if "programs" in say:
        return version, _Race(tf, say["programs"]).run
    session = _session(tf, say, _config(tf))
    return version, lambda asked, feeds: _fetched(session, asked["fetches"], feeds)


def _session(tf: Any, say: Mapping[str, Any], config: Any = None) -> Any:
    """A model in a session: loaded, restored, its tables filled. Sessions of a process share their threads."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    session = v1.Session(graph=graph, config=config)
    with graph.as_default():
        if say["kind"] == "saved_model":
            v1.saved_model.load(session, say["tags"], say["path"])
        else:
            tf.import_graph_def(_graph_def(v1, say["path"]), name="")
    return session


def _fetched(session: Any, fetches: list[str], feeds: Arrays) -> dict[str, NDArray[Any]]:
    found = session.run({name: name for name in fetches}, dict(feeds))
    return {name: plain_array(value) for name, value in found.items()}


class _Race:
    """Models that are measured, each in a session of its own, by turns."""

    def __init__(self, tf: Any, programs: list[Mapping[str, Any]]) -> None:
        self._entries = [(told, _session(tf, told)) for told in programs]

    def run(self, say: Mapping[str, Any], feeds: Arrays) -> dict[str, NDArray[Any]]:
        """The seconds of each run of each model, by its number."""
        import numpy

        runs = [self._bound(told, session, feeds) for told, session in self._entries]
        for run in runs:
            for _ in range(_WARM_UP):
                run()
        seconds: list[list[float]] = [[] for _ in runs]
        for _ in range(say["repeat"]):
            for number, run in enumerate(runs):
                start = time.perf_counter()
                run()
                seconds[number].append(time.perf_counter() - start)
        return {str(number): numpy.array(times, float) for number, times in enumerate(seconds)}

    @staticmethod
    def _bound(told: Mapping[str, Any], session: Any, feeds: Arrays) -> Callable[[], object]:
        fed = {tensor: feeds[key] for tensor, key in told["inputs"].items()}
        return lambda: session.run(told["fetches"], fed)


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
