"""The story of a loader: the weights of a BERT are tested as files, and taken to another framework.

From the root of the checkout: `make story NAME=bert_loader`, or `python -m examples.bert_loader.story`. It takes the
checkpoint of the story bert_classifier, which is looked for in the folder beside. If it is not there, it is trained.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from examples.bert_classifier import story as classifier
from examples.steps import Step, StoryError, Told, main_of, tell

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-5
OTHER = "../bert_classifier"
TRAINED = f"{OTHER}/mrpc_output/model.ckpt-{classifier.SIZES['small'].steps}"
CONFIG = f"{OTHER}/bert/bert_config.json"
TEST = f"pytest -q --pyargs tfsmith.testing.bert --config-path {CONFIG} --chkpt-path {TRAINED}"
FREEZE = (
    f"python -m tfsmith.compat.freeze_graph --input_meta_graph={TRAINED}.meta --input_checkpoint={TRAINED}"
    " --output_node_names=loss/output --clear_devices --output_graph=frozen.pb --input_binary=True"
)
MAP = f"--map huggingface-bert --config {CONFIG} --strict"

STEPS = (
    Step("Test the checkpoint", TEST, key="checkpoint"),
    Step("Freeze it by the flags of freeze_graph", FREEZE, key="freeze"),
    Step("Test the frozen graph, too", f"{TEST} --frozen-path frozen.pb", key="frozen"),
    Step("Weights for transformers", f"tfsmith weights {TRAINED} {MAP} -o huggingface.safetensors"),
    Step(
        "Every value is there",
        f"tfsmith weights {TRAINED} {MAP} --compare huggingface.safetensors | tail -1",
        key="same",
    ),
    Step("A network in numpy", "python numpy_bert.py", key="numpy"),
    Step("A network in PyTorch", "python torch_bert.py", key="PyTorch"),
    Step(
        "The way back: a checkpoint with Google's names",
        "tfsmith weights huggingface.safetensors --map huggingface-bert --reverse -o bert_model.ckpt",
    ),
    Step("It is the same", f"tfsmith weights {TRAINED} --model-only --compare bert_model.ckpt | tail -1", key="back"),
)


class Answer(NamedTuple):
    """What a network says of itself: how many pairs it judged rightly, and how far it is from TensorFlow's answers."""

    right: int
    pairs: int
    furthest: float


def read_answer(output: str) -> Answer | None:
    """What a network printed; None if it was skipped.

    Raises:
        StoryError: It printed something else.
    """
    if "skipped" in output:
        return None
    found = re.fullmatch(r"\w+: (\d+) of (\d+) right, at most (\S+) away from what TensorFlow answered\n", output)
    if found is None:
        raise StoryError(f"a network printed no answer, but:\n{output}")
    return Answer(int(found[1]), int(found[2]), float(found[3]))


def train_if_needed(folder: Path) -> list[Told]:
    """Trains the BERT of the story bert_classifier in its folder, unless it is there already."""
    wanted = (folder / "mrpc_output" / "test_results.tsv", folder / f"{TRAINED.removeprefix(OTHER + '/')}.index")
    if all(path.exists() for path in wanted):
        return []
    return tell(classifier.HERE, folder, classifier.STEPS[:2])


def run(folder: Path) -> list[Told]:
    """Runs the story, the training before it included, if that is needed."""
    trained = train_if_needed(folder.parent / "bert_classifier")
    return [*trained, *tell(HERE, folder, STEPS)]


def report(told: Sequence[Told], folder: Path) -> int:
    """Says how it went; 0 if all weights are the same and the networks answer as TensorFlow did, else 1."""
    answers = {key: read_answer(classifier.output_of(told, key)) for key in ("numpy", "PyTorch")}
    ran = {key: answer for key, answer in answers.items() if answer is not None}
    furthest = max(answer.furthest for answer in ran.values())
    equal = all(re.search(r"\b(\d+) of \1 are equal", classifier.output_of(told, key)) for key in ("same", "back"))
    agree = equal and furthest <= TOLERANCE
    verdict = "arrived" if agree else "DID NOT ARRIVE"
    print(f"\nThe weights {verdict}: the answers of {' and '.join(ran)} are at most {furthest:.1e} away.")
    for key in answers.keys() - ran.keys():
        print(f"skipped: {key} is not installed")
    print(f"{sum(one.seconds for one in told):.0f} s; all files are in {folder}")
    return 0 if agree else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the story; 1 if a command fails, or if a network answers otherwise."""
    return main_of(HERE, run, report, arguments)


if __name__ == "__main__":
    sys.exit(main())
