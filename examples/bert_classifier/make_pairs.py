"""Makes what BERT is to learn from: sentence pairs in the form of MRPC, a vocabulary, and the sizes of the network.

glue/MRPC/train.tsv, dev.tsv     pairs of sentences, and whether it is warmer in the second; no pair is in both files
bert/vocab.txt                   the word pieces
bert/bert_config.json            the sizes: small by default, those of BERT-base with `--size base`
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

# How warm it may be, and words for each degree. Nobody tells the network which word stands where.
DEGREES = (
    "freezing icy frosty",
    "cold chilly wintry",
    "cool fresh",
    "mild pleasant",
    "warm sunny",
    "hot scorching boiling",
)
PLACES = "village harbour valley desert garden island market city"
TIMES = "morning evening night afternoon winter summer"
FORMS = (
    "it was {how} in the {where} .",
    "the {when} in the {where} was {how} .",
    "we had a {how} {when} in the {where} .",
    "they complained of the {how} {when} .",
)
SUFFIXES = ("ed", "er", "ing", "ty", "ry", "y")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SIZES = {
    "small": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256},
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}
VOCABULARY = {"base": 30522}  # the rows of Google's; more than we have pieces, but then the files have the real sizes


def write(degree: int, chance: random.Random) -> str:
    """A sentence about the weather: any form, and any words that fit."""
    how, where, when = (chance.choice(words.split()) for words in (DEGREES[degree], PLACES, TIMES))
    return chance.choice(FORMS).format(how=how, where=where, when=when)


def make_pair(chance: random.Random) -> tuple[int, str, str]:
    """Two sentences, and whether it is warmer in the second (1) or colder (0)."""
    first, second = chance.sample(range(len(DEGREES)), 2)
    return int(second > first), write(first, chance), write(second, chance)


def make_pairs(count: int, seed: int) -> list[tuple[int, str, str]]:
    """Different pairs, always the same for a seed."""
    chance = random.Random(seed)
    found: dict[tuple[int, str, str], None] = {}
    while len(found) < count:
        found.setdefault(make_pair(chance))
    return list(found)


def make_vocabulary() -> list[str]:
    """All words; those with a suffix as two pieces."""
    text = " ".join((*FORMS, *DEGREES, PLACES, TIMES))
    pieces: set[str] = set()
    for word in text.split():
        if word.startswith("{"):
            continue
        suffix = next((end for end in SUFFIXES if word.endswith(end) and len(word) > len(end) + 2), "")
        pieces.add(word.removesuffix(suffix))
        pieces |= {f"##{suffix}"} if suffix else set()
    return [*SPECIAL, *sorted(pieces)]


def save(path: Path, pairs: list[tuple[int, str, str]], first: int) -> None:
    """Writes pairs in MRPC's form; the ids are numbers of sentences."""
    lines = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
    for number, (label, one, other) in enumerate(pairs, first):
        lines.append(f"{label}\t{2 * number}\t{2 * number + 1}\t{one}\t{other}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Writes the files."""
    parser = argparse.ArgumentParser(description="Makes sentence pairs, a vocabulary and a config.")
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--train", type=int, default=3200, help="how many pairs to learn from")
    parser.add_argument("--dev", type=int, default=200, help="how many pairs to be asked")
    arguments = parser.parse_args()
    pairs = make_pairs(arguments.train + arguments.dev, seed=1)
    train, dev = pairs[: arguments.train], pairs[arguments.train :]
    save(Path("glue/MRPC/train.tsv"), train, 0)
    save(Path("glue/MRPC/dev.tsv"), dev, arguments.train)
    vocabulary = make_vocabulary()
    config = {
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "initializer_range": 0.02,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "vocab_size": VOCABULARY.get(arguments.size, len(vocabulary)),
        **SIZES[arguments.size],
    }
    Path("bert").mkdir(exist_ok=True)
    Path("bert/vocab.txt").write_text("\n".join(vocabulary) + "\n")
    Path("bert/bert_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    print(f"{len(train)} pairs to learn from, {len(dev)} to be asked, {len(vocabulary)} word pieces")
    for label, first, second in dev[:4]:
        print(f"{label}  {first}  |  {second}")


if __name__ == "__main__":
    main()
