"""Asks models about the pairs that the training kept for it, with TensorFlow and without, and compares the answers.

`right` counts the pairs that a model judges rightly. `furthest` is the largest distance of a probability from what
TensorFlow answered right after the training, which is in `test_results.tsv`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import tfsmith

ENGINES = ("tensorflow", "openvino")


def ask(path: str, engine: str, features: dict[str, Any]) -> Any:
    """The probabilities for all pairs, one pair at a time."""
    answers = []
    with tfsmith.compile(path, engine=engine) as runner:
        # A frozen graph has no keys, only names, and TensorFlow called the inputs input_ids_1 and so on.
        arrays = {key: features[key.removesuffix("_1")] for key, port in runner.inputs.items() if port.required}
        for row in range(len(features["label_ids"])):
            (answer,) = runner.run({key: array[row : row + 1] for key, array in arrays.items()}).values()
            answers.append(answer[0])
    return np.array(answers)


def main(paths: list[str]) -> None:
    """Prints a line for each model and engine."""
    with np.load("mrpc_output/eval.npz") as file:
        features = dict(file)
    labels = features["label_ids"]
    expected = np.loadtxt("mrpc_output/test_results.tsv", np.float32, ndmin=2)
    print(f"{'model':20}{'engine':12}{'right':14}{'first pair':22}furthest")
    for path in paths:
        for engine in ENGINES:
            answers = ask(path, engine, features)
            right = f"{np.sum(answers.argmax(1) == labels)} of {len(labels)}"
            first = " ".join(f"{probability:.6f}" for probability in answers[0])
            print(f"{path:20}{engine:12}{right:14}{first:22}{np.abs(answers - expected).max():.1e}")


if __name__ == "__main__":
    main(sys.argv[1:])
