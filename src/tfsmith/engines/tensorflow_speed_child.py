"""The process that measures: takes one request from its stdin, answers on its stdout, and ends."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tfsmith.engines.frames import read_frame, write_frame
from tfsmith.engines.tensorflow_child import explain

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["main"]

_WARM_UP = 3
"""Runs that are not counted: in the first ones TensorFlow optimizes the graph, and the op packs its weights."""


def main() -> None:
    """Answers with the seconds of all runs. What TensorFlow prints goes to stderr, not between the answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    say, feeds = read_frame(sys.stdin.buffer)
    try:
        write_frame(answers, {"seconds": _measure(say, feeds)})
    except Exception as error:  # whatever TensorFlow raises is the parent's to tell
        write_frame(answers, explain(error))


def _measure(say: Mapping[str, Any], feeds: Mapping[str, NDArray[Any]]) -> list[list[float]]:
    import tensorflow as tf

    for library in say["op_libraries"]:
        tf.load_op_library(library)
    runs = [_load(tf, told, feeds) for told in say["programs"]]
    for run in runs:
        for _ in range(_WARM_UP):
            run()
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(say["repeat"]):
        for number, run in enumerate(runs):
            start = time.perf_counter()
            run()
            seconds[number].append(time.perf_counter() - start)
    return seconds


def _load(tf: Any, told: Mapping[str, Any], feeds: Mapping[str, NDArray[Any]]) -> Callable[[], object]:
    """One program in a session of its own; sessions of a process share their threads."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    session = v1.Session(graph=graph)
    with graph.as_default():
        if told["kind"] == "saved_model":
            v1.saved_model.load(session, told["tags"], told["path"])
        else:
            with open(told["path"], "rb") as file:
                tf.import_graph_def(v1.GraphDef.FromString(file.read()), name="")
    fed = {tensor: feeds[key] for tensor, key in told["inputs"].items()}
    return lambda: session.run(told["fetches"], fed)
