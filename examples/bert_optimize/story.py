"""The story of an optimized op: the encoder of a BERT is found, replaced by one node, and run in TensorFlow, faster.

From the root of the checkout: `make story NAME=bert_optimize`, or `python -m examples.bert_optimize.story`. It takes
the SavedModel of the story bert_classifier, looked for in the folder beside. If it is not there, it is trained.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.bert_classifier.story import output_of
from examples.bert_loader.story import train_if_needed
from examples.steps import Step, StoryError, Told, main_of, tell

from tfsmith import bert_op
from tfsmith.errors import TfsmithError

HERE = Path(__file__).resolve().parent
MOST_LOST = 0.01  # of the accuracy, by computing with bytes
TOLERANCE = 1e-4
CLASSIFIER = "../bert_classifier"
MODEL = f"{CLASSIFIER}/saved_models/400"
LIBRARY = "$(python -c 'import tfsmith; print(tfsmith.bert_op.library())')"
EXTRACT = (
    "python -m tfsmith.compat.extract_pattern bert -o bert_pattern.pb"
    " -s bert/encoder/layer_1/output/LayerNorm/batchnorm/add_1"
    " -b bert/encoder/Reshape_1 bert/encoder/Reshape -B Identity Const -m 0"
)
REPLACE = "python -m tfsmith.compat.replace_pattern bert -r bert_recipe.pb -o bert/modified_saved_model.pb"
SWITCH = "cd bert && mv saved_model.pb original_saved_model.pb && ln -s modified_saved_model.pb saved_model.pb"

STEPS = (
    Step("A SavedModel to work on", f"cp -r {MODEL} bert"),
    Step("Cut the encoder out, as a pattern", EXTRACT),
    Step("The node that is to take its place", f"python make_node.py {CLASSIFIER}/bert/bert_config.json"),
    Step("Both become a recipe", "python -m tfsmith.compat.make_recipe bert_pattern.pb bert_node.pbtxt bert_recipe.pb"),
    Step("Where does it fit?", "tfsmith recipe check bert_recipe.pb bert", key="check"),
    Step("What goes where, as a picture", "tfsmith recipe draw bert_recipe.pb --model bert -o bert_recipe.svg"),
    Step("Replace", REPLACE),
    Step("What has changed?", "tfsmith diff bert bert/modified_saved_model.pb | head -3"),
    Step("Configure the node", "python -m tfsmith.compat.configure_bert_op bert/modified_saved_model.pb -s 64"),
    Step("Switch the optimized graph on", SWITCH),
    Step("Does it answer the same?", f"tfsmith verify {MODEL} bert --engine tensorflow --op-library {LIBRARY}"),
    Step("Switch back", f"ln -sf original_saved_model.pb bert/saved_model.pb && tfsmith verify {MODEL} bert"),
    Step("All of that in one line", f"tfsmith optimize {MODEL} -o optimized", key="optimize"),
    Step("Inputs to calibrate with", "python calibration.py"),
    Step("In bytes", f"tfsmith optimize {MODEL} -o quantized --calibrate calibration.npz", key="quantize"),
    Step("Ask them all", f"python accuracy.py {MODEL} optimized quantized", key="accuracy"),
    Step("A BERT of the real size", "python make_base.py"),
    Step("How much faster is it?", "tfsmith optimize base.pb -o base_optimized.pb --repeat 5 --force", key="base"),
)
NEEDS_OP = next(number for number, step in enumerate(STEPS) if "--op-library" in step.command)
"""From this step on TensorFlow must have the op."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A line of what `accuracy.py` prints."""

    model: str
    right: int
    pairs: int
    furthest: float


def why_no_op() -> str | None:
    """Why the op cannot be loaded here; None if it can."""
    try:
        bert_op.library()
    except TfsmithError as error:
        return str(error)
    return None


def read_answers(output: str) -> dict[str, Answer]:
    """The lines that `accuracy.py` printed, by model.

    Raises:
        StoryError: There are none.
    """
    rows = [line.split() for line in output.splitlines()[1:]]
    if not rows:
        raise StoryError(f"no model answered:\n{output}")
    return {row[0]: Answer(row[0], int(row[1]), int(row[3]), float(row[4])) for row in rows}


def read_speedup(output: str) -> float:
    """How many times faster `tfsmith optimize` found the result.

    Raises:
        StoryError: It says nothing of that.
    """
    found = re.search(r"times faster\n.* (\S+)\n", output)
    if found is None:
        raise StoryError(f"nothing was timed:\n{output}")
    return float(found[1])


def run(folder: Path, steps: Sequence[Step] = STEPS) -> list[Told]:
    """Runs the story, the training before it included, if that is needed; without the op, the steps that need none."""
    trained = train_if_needed(folder.parent / "bert_classifier")
    return [*trained, *tell(HERE, folder, steps if why_no_op() is None else steps[:NEEDS_OP])]


def report(told: Sequence[Told], folder: Path) -> int:
    """Says how it went; 0 if the optimized models answer as the original does, else 1."""
    seconds = f"{sum(one.seconds for one in told):.0f} s; all files are in {folder}"
    missing = why_no_op()
    if missing is not None:
        print(f"\nskipped: {len(STEPS) - NEEDS_OP} steps that need the op: {missing}\n{seconds}")
        return 0
    answers = read_answers(output_of(told, "accuracy"))
    before, floats, quantized = (answers[name] for name in (MODEL, "optimized", "quantized"))
    lost = (before.right - quantized.right) / before.pairs
    agree = floats.furthest <= TOLERANCE and floats.right == before.right and lost <= MOST_LOST
    print(f"\nThe models {'agree' if agree else 'DIFFER'}: the optimized one is at most {floats.furthest:.1e} away.")
    print(f"In bytes it is right about {quantized.right} of {quantized.pairs} pairs, before about {before.right}.")
    print(f"BERT-base is {read_speedup(output_of(told, 'base')):.2f} times faster than in stock TensorFlow.")
    print(seconds)
    return 0 if agree else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the story; 1 if a command fails, or if an optimized model answers otherwise."""
    return main_of(HERE, run, report, arguments)


if __name__ == "__main__":
    sys.exit(main())
