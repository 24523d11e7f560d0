"""Asks models about the pairs that the training kept for it, in TensorFlow with the op."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import tfsmith


def ask(path: str, features: dict[str, Any]) -> Any:
    """The probabilities for all pairs, one pair at a time."""
    answers = []
    with tfsmith.compile(path, engine="tensorflow", op_libraries=[tfsmith.bert_op.library()]) as runner:
        arrays = {key: features[key] for key, port in runner.inputs.items() if port.required}
        for row in range(len(features["label_ids"])):
            (answer,) = runner.run({key: array[row : row + 1] for key, array in arrays.items()}).values()
            answers.append(answer[0])
    return np.array(answers)


def main(paths: list[str]) -> None:
    """Prints a line for each model; `furthest` is the largest distance of a probability from the first model's."""
    with np.load("../bert_classifier/mrpc_output/eval.npz") as file:
        features = dict(file)
    labels = features["label_ids"]
    first = None
    print(f"{'model':36}{'right':14}furthest")
    for path in paths:
        answers = ask(path, features)
        first = answers if first is None else first
        right = f"{np.sum(answers.argmax(1) == labels)} of {len(labels)}"
        print(f"{path:36}{right:14}{np.abs(answers - first).max():.1e}")


if __name__ == "__main__":
    main(sys.argv[1:])
