"""Asks ONNX files on onnxruntime, without tfsmith and TensorFlow, and compares with what the original answered.

python ask.py answers.npz model.onnx...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

MOST = 1e-4


def main(answers: str, *models: str) -> None:
    """Prints a line for each file: what it answers, and how far that is from the original."""
    pair = {key: np.array(value, np.int32) for key, value in json.loads(Path("pair.json").read_text("utf-8")).items()}
    (expected,) = dict(np.load(answers)).values()
    for model in models:
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {one.name: pair[one.name] for one in session.get_inputs()})
        away = float(np.abs(found - expected).max())
        print(f"{model}: {found[0, 0]:.4f} and {found[0, 1]:.4f}, at most {away:.0e} away")
        if not away <= MOST:
            raise SystemExit(f"{model} answers otherwise")


if __name__ == "__main__":
    main(*sys.argv[1:])
