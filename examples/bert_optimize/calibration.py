"""Takes a few pairs that the network was trained on, as inputs to find out the ranges of its values."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

CLASSIFIER = Path("../bert_classifier")
PAIRS = 64


def main() -> None:
    """Writes `calibration.npz`."""
    sys.path.insert(0, str(CLASSIFIER))
    from tokenization import encode, load_pairs, load_vocabulary

    pairs = load_pairs(CLASSIFIER / "glue/MRPC/train.tsv")[:PAIRS]
    features = encode(pairs, load_vocabulary(CLASSIFIER / "bert/vocab.txt"), 32)
    np.savez("calibration.npz", **features)
    print(f"calibration.npz: {len(pairs)} pairs")


if __name__ == "__main__":
    main()
