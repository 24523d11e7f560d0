"""The story of the way out: the BERT of MIGraphX' document, from its checkpoint to ONNX, run in onnxruntime.

From the root of the checkout: `make story NAME=to_onnx`, or `python -m examples.to_onnx.story`. Nothing is trained, and
TensorFlow is not needed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.steps import Step, Told, main_of, tell

HERE = Path(__file__).resolve().parent
FILES = "bert.onnx checkpoint.onnx frozen.onnx gelu.onnx apart.onnx"
STEPS = (
    Step(
        "A BERT as Google published it: training, SavedModel and frozen graph", "tfsmith demo --keep models --size tiny"
    ),
    Step("Does all of it have a form in ONNX?", "tfsmith check models/frozen.pb --for onnx", key="check"),
    Step("The SavedModel, proven", "tfsmith convert models/saved_model -o bert.onnx --verify", key="convert"),
    Step(
        "The training's own checkpoint",
        "tfsmith convert models/training/model.ckpt-1603 --outputs loss/output -o checkpoint.onnx",
    ),
    Step("The frozen graph", "tfsmith convert models/frozen.pb -o frozen.onnx"),
    Step("With a newer opset, which has Gelu", "tfsmith convert models/saved_model -o gelu.onnx --opset 20"),
    Step("Weights in a file of their own", "tfsmith convert models/saved_model -o apart.onnx --external-data always"),
    Step("Look into it", "tfsmith show gelu.onnx"),
    Step("Is it valid?", "python -c \"import onnx; onnx.checker.check_model('bert.onnx', full_check=True)\""),
    Step("Ask the original", "tfsmith run models/saved_model -i pair.json -o answers.npz", key="run"),
    Step("Ask onnxruntime", f"python ask.py answers.npz {FILES}", key="ask"),
)


def run(folder: Path) -> list[Told]:
    """Runs the story."""
    return tell(HERE, folder, STEPS)


def report(told: Sequence[Told], folder: Path) -> int:
    """Says how it went; 0 if all files answer as the original, else 1."""
    outputs = {one.step.key: one.output for one in told if one.step.key}
    found = re.findall(r"^(\S+\.onnx): .* at most (\S+) away$", outputs["ask"], re.MULTILINE)
    is_same = [name for name, _ in found] == FILES.split() and all(float(away) <= 1e-4 for _, away in found)
    print(f"\nThe {len(found)} files {'answer as the BERT did' if is_same else 'DO NOT ANSWER AS THE BERT DID'}.")
    print(f"{sum(one.seconds for one in told):.0f} s; all files are in {folder}")
    return 0 if is_same else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the story; 1 if a command fails, or if an answer differs."""
    return main_of(HERE, run, report, arguments)


if __name__ == "__main__":
    sys.exit(main())
