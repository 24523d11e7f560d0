"""The story of a rescue: a repository that holds nothing but `tf_model.h5`, loaded by transformers without TensorFlow.

From the root of the checkout: `make story NAME=keras_rescue`, or `python -m examples.keras_rescue.story`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.steps import Step, Told, main_of, tell

HERE = Path(__file__).resolve().parent
STEPS = (
    Step("Look at what there is", "tfsmith show tf_model.h5"),
    Step("Rescue the weights", "tfsmith weights tf_model.h5 --map huggingface -o model.safetensors"),
    Step(
        "Compare with what transformers made of it, when it still could",
        "tfsmith weights model.safetensors --compare expected.safetensors --match 'classifier*' --match '*embeddings*'",
        key="some",
    ),
    Step("All of them", "tfsmith weights model.safetensors --compare expected.safetensors | tail -n 1", key="all"),
    Step("Load them with transformers and PyTorch", "python load.py", key="load"),
)


def run(folder: Path) -> list[Told]:
    """Runs the story."""
    return tell(HERE, folder, STEPS)


def report(told: Sequence[Told], folder: Path) -> int:
    """Says how it went; 0 if all weights are what transformers itself converts, else 1."""
    outputs = {one.step.key: one.output for one in told if one.step.key}
    is_equal = re.search(r"\b(\d+) of \1 are equal", outputs["all"]) is not None
    print(f"\nThe weights {'are rescued' if is_equal else 'ARE NOT THE SAME'}: {outputs['all'].strip()}")
    print(f"{sum(one.seconds for one in told):.0f} s; all files are in {folder}")
    return 0 if is_equal else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the story; 1 if a command fails, or if weights differ."""
    return main_of(HERE, run, report, arguments)


if __name__ == "__main__":
    sys.exit(main())
