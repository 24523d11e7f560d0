"""All tensors of a checkpoint as numpy arrays, checksums checked: against TensorFlow's own reader."""

from __future__ import annotations

from benchmarks.measure import Command, python
from benchmarks.report import Row, at_most
from benchmarks.setup import Setup

__all__ = ["rows"]

_OURS = """
import sys, time
import numpy, tfsmith.verbs._files
start = time.perf_counter()
variables = tfsmith.load(sys.argv[1]).variables
arrays = {name: tensor.numpy() for name, tensor in variables.items()}
print(time.perf_counter() - start)
"""
_OURS_COPIED = _OURS.replace("tensor.numpy()", "tensor.numpy().copy()")
_PEER = """
import sys, time
import tensorflow as tf
start = time.perf_counter()
reader = tf.train.load_checkpoint(sys.argv[1])
arrays = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
print(time.perf_counter() - start)
"""


def rows(setup: Setup) -> list[Row]:
    """All rows of this topic."""
    prefix = setup.models.checkpoint("resource")
    codes = {"ours": _OURS, "copied": _OURS_COPIED, "peer": _PEER}
    whole = setup.compare({key: Command(python(code, prefix)) for key, code in codes.items()}, 5)
    inner = setup.compare({key: Command(python(code, prefix), own_clock=True) for key, code in codes.items()}, 5)
    made = []
    for when, found in (("from process start", whole), ("without start-up and imports", inner)):
        for key, how in (("ours", "views of the mapped file"), ("copied", "copies in memory")):
            goals = [at_most(1, found[key], found["peer"], "its time")] if found is whole else []
            what = f"all tensors to numpy, {how}, {when}"
            made.append(Row("checkpoint", what, found[key], "tf.train.load_checkpoint", found["peer"], goals))
    return made
