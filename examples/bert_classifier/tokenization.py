"""Text to ids: words are cut into the longest pieces that the vocabulary has, as BERT's wordpiece does."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_WORD = re.compile(r"\w+|[^\w\s]")


class Pair(NamedTuple):
    """A line of MRPC's files: two sentences, and whether they say the same (1) or not (0)."""

    label: int
    first: str
    second: str


def load_vocabulary(path: str | Path) -> dict[str, int]:
    """A `vocab.txt`: one piece a line, its number is its id."""
    with open(path, encoding="utf-8") as file:
        return {line.rstrip("\n"): number for number, line in enumerate(file)}


def load_pairs(path: str | Path) -> list[Pair]:
    """A `train.tsv` or `dev.tsv` of MRPC: Quality, #1 ID, #2 ID, #1 String, #2 String."""
    with open(path, encoding="utf-8") as file:
        next(file)  # the names of the columns
        rows = [line.rstrip("\n").split("\t") for line in file]
    return [Pair(int(row[0]), row[3], row[4]) for row in rows]


def tokenize(text: str, vocabulary: Mapping[str, int]) -> list[str]:
    """The pieces of a text; a word of which some part is not in the vocabulary becomes `[UNK]`."""
    return [piece for word in _WORD.findall(text.lower()) for piece in _cut(word, vocabulary)]


def _cut(word: str, vocabulary: Mapping[str, int]) -> list[str]:
    pieces: list[str] = []
    start = 0
    while start < len(word):
        mark = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if mark + word[start:end] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(mark + word[start:end])
        start = end
    return pieces


def encode(pairs: Sequence[Pair], vocabulary: Mapping[str, int], length: int) -> dict[str, Any]:
    """The four inputs of the model: `[CLS] first [SEP] second [SEP]`, with zeros behind."""
    shape = (len(pairs), length)
    names = ("input_ids", "input_mask", "segment_ids")
    features: dict[str, Any] = {name: np.zeros(shape, np.int32) for name in names}
    for row, pair in enumerate(pairs):
        first, second = (tokenize(text, vocabulary) for text in (pair.first, pair.second))
        while len(first) + len(second) > length - 3:
            (first if len(first) > len(second) else second).pop()
        pieces = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
        features["input_ids"][row, : len(pieces)] = [vocabulary[piece] for piece in pieces]
        features["input_mask"][row, : len(pieces)] = 1
        features["segment_ids"][row, len(first) + 2 : len(pieces)] = 1
    return features | {"label_ids": np.array([pair.label for pair in pairs], np.int32)}


def main() -> None:
    """Encodes one pair, and shows its pieces."""
    parser = argparse.ArgumentParser(description="Encodes a pair of sentences for the model.")
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--vocab_file", type=Path, default=Path("bert/vocab.txt"))
    parser.add_argument("--max_seq_length", type=int, default=32)
    parser.add_argument("-o", "--output", type=Path, default=Path("pair.npz"))
    arguments = parser.parse_args()
    vocabulary = load_vocabulary(arguments.vocab_file)
    features = encode([Pair(0, arguments.first, arguments.second)], vocabulary, arguments.max_seq_length)
    pieces = list(vocabulary)
    count = int(features["input_mask"].sum())
    print(" ".join(pieces[number] for number in features["input_ids"][0, :count]))
    np.savez(arguments.output, **features)


if __name__ == "__main__":
    main()
