"""`tfsmith freeze`: against TensorFlow's own tools, and against merely copying the weights."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.measure import Command, python, script
from benchmarks.report import Row, at_most, faster, under
from benchmarks.setup import Setup

__all__ = ["rows"]

_TOPIC = "freeze"
_OUTPUT = "loss/output"
_CONVERT_V2 = """
import os, sys
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
model = tf.saved_model.load(sys.argv[1])
frozen = convert_variables_to_constants_v2(model.signatures["serving_default"])
tf.io.write_graph(frozen.graph, *os.path.split(sys.argv[2]), as_text=False)
"""


def rows(setup: Setup) -> list[Row]:
    """All rows of this topic."""
    frozen = [*_checkpoint(setup, "ref"), *_checkpoint(setup, "resource"), *_saved_model_2(setup), *_largest(setup)]
    return [*frozen, *_thaw(setup)]


def _checkpoint(setup: Setup, kind: str) -> list[Row]:
    prefix = setup.models.checkpoint(kind)
    flags = [f"--input_meta_graph={prefix}.meta", "--input_binary=true", f"--input_checkpoint={prefix}"]
    flags += [f"--output_node_names={_OUTPUT}", f"--output_graph={setup.output('theirs.pb')}"]
    peer = [*python("")[:1], "-m", "tensorflow.python.tools.freeze_graph", *flags]
    ours = script("tfsmith", "freeze", f"{prefix}.meta", "-o", setup.output("ours.pb"), "--outputs", _OUTPUT)
    what = f"freeze, .meta and checkpoint, {kind}"
    return _against(setup, what, ours, "freeze_graph", peer, Path(f"{prefix}.data-00000-of-00001"))


def _saved_model_2(setup: Setup) -> list[Row]:
    model = setup.models.saved_model_2()
    ours = script("tfsmith", "freeze", model, "-o", setup.output("ours.pb"))
    peer = python(_CONVERT_V2, model, setup.output("theirs.pb"))
    data = model / "variables" / "variables.data-00000-of-00001"
    return _against(setup, "freeze, TF2 SavedModel", ours, "convert_variables_to_constants_v2", peer, data)


def _against(setup: Setup, what: str, ours: list[str], name: str, peer: list[str], data: Path) -> list[Row]:
    """Ours against TensorFlow's tool, `cp` with `sync` (for our output is on the disk when we end) and plain `cp`."""
    fresh = _fresh(setup)
    found = setup.compare(
        {
            "ours": Command(ours, fresh, turns=3),
            "synced": Command(_copy(data, setup.output("copy"), sync=True), fresh, turns=2),
            "copied": Command(_copy(data, setup.output("copy"), sync=False), fresh, turns=2),
            "peer": Command(peer, fresh),
        }
    )
    fresh()
    taken = found["ours"]
    goals = [faster(15, taken, found["peer"]), under(100, taken)]
    copying = [at_most(1.8, taken, found["synced"], "cp and sync")]
    return [
        Row(_TOPIC, what, taken, name, found["peer"], goals),
        Row(_TOPIC, what, taken, "cp and sync of the data", found["synced"], copying),
        Row(_TOPIC, what, taken, "cp of the data, unsynced", found["copied"]),
    ]


def _largest(setup: Setup) -> list[Row]:
    """A graph just below the 2 GiB that a message can hold: memory must not follow."""
    prefix = setup.models.largest()
    data, fresh = Path(f"{prefix}.data-00000-of-00001"), _fresh(setup)
    ours = script("tfsmith", "freeze", f"{prefix}.meta", "-o", setup.output("ours.pb"), "--outputs", _OUTPUT)
    found = setup.compare(
        {
            "ours": Command(ours, fresh),
            "synced": Command(_copy(data, setup.output("copy"), sync=True), fresh),
        }
    )
    fresh()
    taken, size = found["ours"], data.stat().st_size / 1e9
    setup.models.forget(prefix)
    goals = [under(100, taken)]
    return [Row(_TOPIC, f"freeze, graph of {size:.1f} GB", taken, "cp and sync of the data", found["synced"], goals)]


def _thaw(setup: Setup) -> list[Row]:
    """The way back: the weights of a frozen graph become a checkpoint."""
    frozen, target = setup.models.frozen("resource"), setup.output("thawed")
    clear = _fresh(setup)

    def fresh() -> None:
        shutil.rmtree(target, ignore_errors=True)
        clear()

    found = setup.compare(
        {
            "ours": Command(script("tfsmith", "thaw", frozen, "-o", target), fresh, turns=3),
            "synced": Command(_copy(frozen, setup.output("copy"), sync=True), fresh, turns=2),
        }
    )
    fresh()
    taken = found["ours"]
    goals = [at_most(1.6, taken, found["synced"], "cp and sync"), under(100, taken)]
    return [Row(_TOPIC, "thaw, frozen graph", taken, "cp and sync of the graph", found["synced"], goals)]


def _copy(data: Path, target: Path, *, sync: bool) -> list[str]:
    return ["sh", "-c", 'cp "$0" "$1"' + (' && sync "$1"' if sync else ""), str(data), str(target)]


def _fresh(setup: Setup) -> Callable[[], None]:
    """Removes all outputs and lets the disk come to rest, so that nobody pays for what another left behind."""
    return partial(_clear, [setup.output(name) for name in ("ours.pb", "theirs.pb", "copy")])


def _clear(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
    os.sync()
