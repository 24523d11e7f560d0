"""A checkpoint as a safetensors file: against copying its data, and against TensorFlow with the safetensors library."""

from __future__ import annotations

import importlib.util
import os

from benchmarks.measure import Command, python, script
from benchmarks.report import Row, at_most, under
from benchmarks.setup import Setup

__all__ = ["rows"]

_PEER = """
import sys
import numpy
import tensorflow as tf
from safetensors.numpy import save_file
reader = tf.train.load_checkpoint(sys.argv[1])
save_file({name: numpy.asarray(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}, sys.argv[2])
"""


def rows(setup: Setup) -> list[Row]:
    """All rows of this topic."""
    prefix = setup.models.checkpoint("resource")
    data = prefix.with_name(f"{prefix.name}.data-00000-of-00001")
    target = setup.output("weights.safetensors")

    def fresh() -> None:
        """Removes the output and lets the disk come to rest, so that nobody pays for what another left behind."""
        target.unlink(missing_ok=True)
        os.sync()

    copy = ["sh", "-c", 'cp "$0" "$1"', str(data), str(target)]
    synced = ["sh", "-c", 'cp "$0" "$1" && sync "$1"', str(data), str(target)]
    mapped = script("tfsmith", "weights", prefix, "--map", "huggingface-bert", "-o", target)
    commands = {
        "ours": Command(script("tfsmith", "weights", prefix, "-o", target), fresh, turns=3),
        "mapped": Command(mapped, fresh),
        "synced": Command(synced, fresh, turns=2),
        "copied": Command(copy, fresh, turns=2),
    }
    if importlib.util.find_spec("safetensors") is not None:  # no dependency of the tests; install it to compare
        commands["peer"] = Command(python(_PEER, prefix, target), fresh)
    found = setup.compare(commands)
    fresh()
    made = []
    peers = {
        "synced": "cp and sync of the data",
        "copied": "cp of the data, unsynced",
        "peer": "TensorFlow, safetensors",
    }
    for key, what in (("ours", "as it is"), ("mapped", "under Hugging Face's names, kernels transposed")):
        for peer in [peer for peer in peers if peer in found]:
            goals = [under(120, found[key])] if peer == "synced" else []
            if key == "ours" and peer == "synced":  # ours is on the disk when it ends, so the copy must be too
                goals.append(at_most(2.5, found[key], found[peer], "cp and sync"))
            made.append(
                Row("weights", f"checkpoint to safetensors, {what}", found[key], peers[peer], found[peer], goals)
            )
    return made
