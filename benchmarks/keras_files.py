"""A BERT-base as transformers saved it (`tf_model.h5`) to safetensors: against copying the file."""

from __future__ import annotations

import os

from benchmarks.measure import Command, script
from benchmarks.report import Row, at_most, under
from benchmarks.setup import Setup

__all__ = ["rows"]


def rows(setup: Setup) -> list[Row]:
    """All rows of this topic."""
    source = setup.models.tf_model()
    target, copied = setup.output("rescued.safetensors"), setup.output("copied.h5")

    def fresh() -> None:
        """Removes the outputs and lets the disk come to rest, so that nobody pays for what another left behind."""
        target.unlink(missing_ok=True)
        copied.unlink(missing_ok=True)
        os.sync()

    synced = ["sh", "-c", 'cp "$0" "$1" && sync "$1"', str(source), str(copied)]
    commands = {
        "plain": Command(script("tfsmith", "weights", source, "-o", target), fresh, turns=3),
        "mapped": Command(script("tfsmith", "weights", source, "--map", "huggingface", "-o", target), fresh, turns=3),
        "synced": Command(synced, fresh, turns=3),
    }
    found = setup.compare(commands)
    fresh()
    named = {"plain": "as it is", "mapped": "under PyTorch's names, kernels transposed"}
    return [
        Row(
            "keras",
            f"tf_model.h5 to safetensors, {what}",
            found[key],
            "cp and sync of the file",
            found["synced"],
            [under(150, found[key]), at_most(2, found[key], found["synced"], "cp and sync")],
        )
        for key, what in named.items()
    ]
