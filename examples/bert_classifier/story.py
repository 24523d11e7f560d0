"""The story of a BERT classifier: trained and exported with TensorFlow, then exported, frozen, checked and run without.

From the root of the checkout: `make story NAME=bert_classifier`, or `python -m examples.bert_classifier.story`, which
also takes `--size base`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.steps import BUILD, Step, StoryError, Told, tell

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-5
ENOUGH = 0.8  # chance is 0.5
INPUTS = ("input_ids", "input_mask", "segment_ids", "label_ids")


@dataclass(frozen=True, slots=True)
class Size:
    """How large the network is, and how long it is trained.

    Attributes:
        pairs: What to pass to `make_pairs.py`.
        length: The tokens of a pair, with padding.
        flags: How to train.
        steps: How many steps that makes.
        learns: Whether it is enough to learn something.
    """

    pairs: str
    length: int
    flags: str
    steps: int
    learns: bool


SIZES = {
    "small": Size("", 32, "--train_batch_size=32 --learning_rate=1e-3 --num_train_epochs=4.0", 400, True),
    # 438 MB of weights. It would take hours here until it has learned something; four steps show that all of it works.
    "base": Size(
        " --size base --train 32 --dev 8",
        128,
        "--train_batch_size=8 --learning_rate=5e-5 --num_train_epochs=1.0",
        4,
        False,
    ),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A line of what `ask.py` prints."""

    model: str
    engine: str
    right: int
    pairs: int
    furthest: float


def make_steps(size: Size) -> tuple[Step, ...]:
    """The commands, in their order; the README has those of the small size."""
    train = (
        "python run_classifier.py --task_name=MRPC --do_train=true --do_eval=true --data_dir=glue/MRPC"
        " --vocab_file=bert/vocab.txt --bert_config_file=bert/bert_config.json"
        f" --max_seq_length={size.length} {size.flags} --output_dir=mrpc_output"
    )
    saved = f"saved_models/{size.steps}"
    signature = " ".join(f"--input {name}={name}:0" for name in INPUTS) + " --output probabilities=loss/output:0"
    freeze = (
        "python -m tfsmith.compat.freeze_graph --input_graph=mrpc_output/graph.pbtxt --input_binary=false"
        f" --input_checkpoint=mrpc_output/model.ckpt-{size.steps} --input_saved_model_dir={saved}"
        " --output_graph=frozen_bert.pb --output_node_names=loss/output"
    )
    show = "python -m tfsmith.compat.saved_model_cli show --dir {} --tag_set serve --signature_def serving_default"
    sentences = "'it was icy in the city .' 'we had a boiling summer in the desert .'"
    longer = "" if size.length == 32 else f" --max_seq_length {size.length}"
    return (
        Step("Make sentence pairs, a vocabulary and a config", f"python make_pairs.py{size.pairs}"),
        Step("Train, evaluate and export with TensorFlow", train, key="train"),
        Step("Look at the signature", show.format(saved), key="show"),
        Step("Freeze it by the flags of freeze_graph", freeze, key="freeze"),
        Step("Freeze it in one line", f"tfsmith freeze {saved} -o frozen_in_one_line.pb"),
        Step("Both are the same file", "cmp frozen_bert.pb frozen_in_one_line.pb"),
        Step("Can MIGraphX read it?", "tfsmith check frozen_bert.pb --for migraphx", key="migraphx"),
        Step("Encode a pair", f"python tokenization.py {sentences}{longer}"),
        Step("Ask the SavedModel, without TensorFlow", f"tfsmith run {saved} -i pair.npz"),
        Step("Freezing has changed nothing", f"tfsmith verify {saved} frozen_bert.pb --samples 3"),
        Step(
            "TensorFlow before, OpenVINO after",
            f"tfsmith verify {saved} frozen_bert.pb --inputs pair.npz --engine tensorflow --other-engine openvino",
            key="verify",
        ),
        Step(
            "Export it from the training graph and the checkpoint",
            f"tfsmith export mrpc_output/graph.pbtxt --checkpoint mrpc_output/model.ckpt-{size.steps} -o exported"
            f" --prune --batch-size 1 {signature}",
            key="export",
        ),
        Step("Take the dropout out", "tfsmith replace exported -r dropout-removal -o servable"),
        Step("It answers as TensorFlow's export does", f"tfsmith verify {saved} servable --samples 3"),
        Step("Freeze that one", "tfsmith freeze servable -o frozen_servable.pb --verify"),
        Step("Can MIGraphX read it, too?", "tfsmith check frozen_servable.pb --for migraphx", key="migraphx, ours"),
        Step("Ask them all", f"python ask.py {saved} frozen_bert.pb servable frozen_servable.pb", key="ask"),
    )


STEPS = make_steps(SIZES["small"])


def output_of(told: Sequence[Told], key: str) -> str:
    """What the step with this key printed."""
    (found,) = [one.output for one in told if one.step.key == key]
    return found


def read_answers(output: str) -> list[Answer]:
    """The lines that `ask.py` printed.

    Raises:
        StoryError: There are none.
    """
    rows = [line.split() for line in output.splitlines()[1:]]
    if not rows:
        raise StoryError(f"no model answered:\n{output}")
    return [Answer(row[0], row[1], int(row[2]), int(row[4]), float(row[-1])) for row in rows]


def report(told: Sequence[Told], folder: Path, size: Size) -> int:
    """Says how it went; 0 if the models agree, and have learned something, else 1."""
    answers = read_answers(output_of(told, "ask"))
    furthest = max(one.furthest for one in answers)
    accuracy = min(one.right / one.pairs for one in answers)
    agree = furthest <= TOLERANCE
    print(f"\nThe models {'agree' if agree else 'DIFFER'}: the largest difference is {furthest:.1e}.")
    print(f"They are right about {accuracy:.0%} of the pairs{'' if size.learns else '; few steps teach little'}.")
    print(f"{sum(one.seconds for one in told):.0f} s; all files are in {folder}")
    return 0 if agree and (accuracy > ENOUGH or not size.learns) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the story; 1 if a command fails, if the models do not agree, or if they are hardly better than chance."""
    parser = argparse.ArgumentParser(description="Runs the story whole.")
    text = f"a new folder to run in (default: build/stories/{HERE.name})"
    parser.add_argument("--folder", type=Path, default=BUILD / HERE.name, help=text)
    parser.add_argument("--size", choices=list(SIZES), default="small", help="how large the BERT is (default: small)")
    options = parser.parse_args(arguments)
    folder, size = options.folder.absolute(), SIZES[options.size]
    try:
        return report(tell(HERE, folder, make_steps(size)), folder, size)
    except StoryError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
