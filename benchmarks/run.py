"""`tfsmith run`: OpenVINO through tfsmith against TensorFlow itself, from command start to first answer, and warm."""

from __future__ import annotations

from benchmarks.measure import Command, Figures, python, script
from benchmarks.report import Row
from benchmarks.setup import Setup

__all__ = ["rows"]

_TOPIC = "run"
_WARM = """
import sys, statistics, time
import numpy, tfsmith
batch, repeat = int(sys.argv[2]), int(sys.argv[3])
random = numpy.random.default_rng(0)
feeds = {key: random.integers(0, 2, (batch, 128)).astype("int32") for key in ("input_ids", "input_mask", "segment_ids")}
with tfsmith.compile(sys.argv[1], engine="openvino") as runner:
    runner.run(feeds)
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        runner.run(feeds)
        times.append(time.perf_counter() - start)
print(statistics.median(times))
"""
_PEER = """
import sys, statistics, time
import numpy
import tensorflow as tf
batch, repeat = int(sys.argv[2]), int(sys.argv[3])
v1 = tf.compat.v1
random = numpy.random.default_rng(0)
names = ("input_ids:0", "input_mask:0", "segment_ids:0")
feeds = {name: random.integers(0, 2, (batch, 128)).astype("int32") for name in names}
with tf.Graph().as_default(), v1.Session() as session:
    v1.saved_model.load(session, ["serve"], sys.argv[1])
    session.run("loss/output:0", feeds)
    times = [0.0]
    for number in range(repeat):
        start = time.perf_counter()
        session.run("loss/output:0", feeds)
        times.append(time.perf_counter() - start)
print(statistics.median(times[1:] or times))
"""


def rows(setup: Setup) -> list[Row]:
    """BERT-base, 128 tokens, batches of 1 and 8."""
    made: list[Row] = []
    model = setup.models.saved_model("ref")
    repeat = "1" if setup.quick else "15"
    for batch in ("1", "8"):
        first = ["-i", "random", "--batch", batch, "--engine", "openvino"]
        found = setup.compare(
            {
                "first": Command(script("tfsmith", "run", model, *first)),
                "peer first": Command(python(_PEER, model, batch, "0")),
                "warm": Command(python(_WARM, model, batch, repeat), own_clock=True),
                "peer warm": Command(python(_PEER, model, batch, repeat), own_clock=True),
            }
        )
        what = f"batch {batch}, 128 tokens"
        made.append(
            Row(_TOPIC, f"run, {what}: command start to answer", found["first"], "TensorFlow", found["peer first"])
        )
        told = f"run, {what}: warm{_throughput(found['warm'], int(batch))}"
        theirs = f"TensorFlow{_throughput(found['peer warm'], int(batch))}"
        made.append(Row(_TOPIC, told, found["warm"], theirs, found["peer warm"]))
    return made


def _throughput(figures: Figures, batch: int) -> str:
    return f" ({batch / figures.best:.1f} sentences/s)"
