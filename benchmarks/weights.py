"""A checkpoint as a safetensors file: against copying its data, and against TensorFlow with the safetensors library."""

from __future__ import annotations

import importlib.util

from benchmarks.measure import Command, python, script
from benchmarks.report import Row, at_most, under
from benchmarks.setup import Setup

__all__ = ["rows"]

_PEER = """
import sys
import tensorflow as tf
from safetensors.numpy import save_file
reader = tf.train.load_checkpoint(sys.argv[1])
save_file({name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}, sys.argv[2])
"""
_COPY = """
import os, shutil, sys
shutil.copyfile(sys.argv[1], sys.argv[2])
descriptor = os.open(sys.argv[2], os.O_RDWR)
os.fsync(descriptor)
os.close(descriptor)
"""


def rows(setup: Setup) -> list[Row]:
    """All rows of this topic."""
    prefix = setup.models.checkpoint("resource")
    data = prefix.with_name(f"{prefix.name}.data-00000-of-00001")
    made = []
    target = setup.output("weights.safetensors")

    def clear() -> None:
        target.unlink(missing_ok=True)

    mapped = ["--map", "huggingface-bert"]
    commands = {
        "ours": Command(script("tfsmith", "weights", prefix, "-o", target), clear),
        "mapped": Command(script("tfsmith", "weights", prefix, *mapped, "-o", target), clear),
        "cp": Command(["cp", str(data), str(target)], clear),
        "cp and sync": Command(python(_COPY, data, target), clear),
    }
    if importlib.util.find_spec("safetensors") is not None:  # no dependency of the tests; install it to compare
        commands["peer"] = Command(python(_PEER, prefix, target), clear)
    found = setup.compare(commands, 5)
    clear()
    for key, what in (("ours", "as it is"), ("mapped", "under Hugging Face's names, kernels transposed")):
        for peer, name in (("cp", "cp"), ("cp and sync", "copy and fsync"), ("peer", "TensorFlow + safetensors")):
            if peer not in found:
                continue
            goals = []
            if key == "ours" and peer == "cp":
                goals = [at_most(2.5, found[key], found[peer], "cp"), under(120, found[key])]
            made.append(Row("weights", f"checkpoint to safetensors, {what}", found[key], name, found[peer], goals))
    return made
