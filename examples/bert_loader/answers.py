"""What the networks of this story are asked, and what TensorFlow answered; both come from the story bert_classifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

CLASSIFIER = Path("../bert_classifier")
WEIGHTS = Path("huggingface.safetensors")


def load_config() -> dict[str, Any]:
    """The sizes of the network, from its `bert_config.json`."""
    config: dict[str, Any] = json.loads((CLASSIFIER / "bert" / "bert_config.json").read_text())
    return config


def load_features() -> dict[str, Any]:
    """The inputs: the pairs that were kept back when BERT was trained."""
    with np.load(CLASSIFIER / "mrpc_output" / "eval.npz") as file:
        return dict(file)


def report(name: str, probabilities: Any) -> None:
    """Says how many pairs are judged rightly, and how far the answers are from TensorFlow's."""
    labels = load_features()["label_ids"]
    expected = np.loadtxt(CLASSIFIER / "mrpc_output" / "test_results.tsv", np.float32, ndmin=2)
    right = np.sum(probabilities.argmax(1) == labels)
    furthest = np.abs(probabilities - expected).max()
    print(f"{name}: {right} of {len(labels)} right, at most {furthest:.1e} away from what TensorFlow answered")
