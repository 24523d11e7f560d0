"""The story of a fleet: many models, one of them damaged, looked at and frozen by one command each.

From the root of the checkout: `make story NAME=fleet`, or `python -m examples.fleet.story`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from examples.steps import Step, Told, main_of, tell

HERE = Path(__file__).resolve().parent
MODELS = 12

STEPS = (
    Step("Make models, and damage one", f"python make_models.py models {MODELS}"),
    Step("Scan all of them", "tfsmith fleet scan 'models/**' --report scan.jsonl --jobs 2 || true"),
    Step("A line for each", "wc -l < scan.jsonl", key="lines"),
    Step("Again: nothing is left to do", "tfsmith fleet scan 'models/**' --report scan.jsonl --json", key="again"),
    Step(
        "Freeze those that are sound",
        "tfsmith fleet freeze 'models/sound/**' -o 'out/{stem}.pb' --outputs y --report freeze.jsonl",
    ),
    Step("What was written", "ls out | wc -l", key="frozen"),
)


def report(told: Sequence[Told], folder: Path) -> int:
    """Prints how it went; 0 if each model has its line, and each sound one its frozen graph, else 1."""
    outputs = {one.step.key: one.output.strip() for one in told if one.step.key}
    lines = [json.loads(line) for line in (folder / "scan.jsonl").read_text().splitlines()]
    counts = Counter(line["status"] for line in lines)
    is_right = (
        outputs["lines"] == str(MODELS + 1)
        and counts == {"yes": MODELS, "error": 1}
        and json.loads(outputs["again"])["skipped"] == MODELS + 1
        and outputs["frozen"] == str(MODELS)
    )
    print("\n== How it went")
    print("Each model has its line, the damaged one too." if is_right else f"WRONG: {outputs}, {dict(counts)}")
    print(f"{sum(one.seconds for one in told):.0f} s; all files are in {folder}; scan.html is the page")
    return 0 if is_right else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the story; 1 if a command fails, or if a model is missing."""
    return main_of(HERE, lambda folder: tell(HERE, folder, STEPS), report, arguments)


if __name__ == "__main__":
    sys.exit(main())
