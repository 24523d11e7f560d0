"""`tfsmith convert -o model.onnx` against tf2onnx: time, memory, the file, and how fast onnxruntime runs it.

tf2onnx is not among what the benchmarks install: `pip install --no-deps tf2onnx` into the venv that runs them.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from benchmarks.measure import Command, python, script
from benchmarks.report import Goal, Row, at_most, faster, under
from benchmarks.setup import Setup

__all__ = ["rows"]

_TOPIC = "onnx"
_PEER = "tf2onnx"
_LATENCY = """
import sys, time
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
random = numpy.random.default_rng(0)
feeds = {}
for one in session.get_inputs():
    shape = [size if isinstance(size, int) else 1 if at == 0 else 128 for at, size in enumerate(one.shape)]
    kind = one.type.removeprefix("tensor(").removesuffix(")")
    feeds[one.name] = random.integers(0, 2, shape).astype(kind)
times = []
for _ in range(int(sys.argv[2])):
    start = time.process_time()
    session.run(None, feeds)
    times.append(time.process_time() - start)
print(min(times))
"""


def rows(setup: Setup) -> list[Row]:
    """All rows of this topic; without tf2onnx, ours alone."""
    model = setup.models.saved_model("resource")
    ours, theirs = setup.output("ours.onnx"), setup.output("theirs.onnx")
    commands = {"ours": Command(script("tfsmith", "convert", model, "-o", ours, "--force"), turns=2)}
    if find_spec(_PEER) is not None:
        peer = [*python("")[:1], "-m", "tf2onnx.convert", "--saved-model", str(model), "--output", str(theirs)]
        commands["peer"] = Command([*peer, "--opset", "18"])
    found = setup.compare(commands, 1)
    taken, other = found["ours"], found.get("peer")
    goals = [] if other is None else [faster(20, taken, other)]
    goals += [under(150, taken), _size(ours, theirs if other else None, model)]
    made = Row(_TOPIC, "convert to ONNX, BERT SavedModel", taken, _PEER if other else "", other, goals)
    return [made, _latency(setup, ours, theirs if other else None)]


def _size(ours: Path, theirs: Path | None, model: Path) -> Goal:
    """That the file is no larger than the weights."""
    size = ours.stat().st_size
    data = sum(path.stat().st_size for path in (model / "variables").iterdir())
    beside = "" if theirs is None else f", {_PEER}'s {theirs.stat().st_size / 1e6:.0f} MB"
    return Goal("a file as large as the weights", f"{size / 1e6:.0f} MB{beside}", size <= 1.05 * data + 2**20)


def _latency(setup: Setup, ours: Path, theirs: Path | None) -> Row:
    times = "3" if setup.quick else "12"
    commands = {"ours": Command(python(_LATENCY, ours, times), own_clock=True)}
    if theirs is not None:
        commands["peer"] = Command(python(_LATENCY, theirs, times), own_clock=True)
    found = setup.compare(commands)
    taken, other = found["ours"], found.get("peer")
    goals = [] if other is None else [at_most(1.05, taken, other, "tf2onnx's file")]
    return Row(_TOPIC, "one run in onnxruntime, CPU seconds", taken, _PEER if other else "", other, goals)
