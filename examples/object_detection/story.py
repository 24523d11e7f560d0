"""The story of a detector: trained with TensorFlow, exported with its variables, run without TensorFlow, and served.

From the root of the checkout: `make story NAME=object_detection`, or `python -m examples.object_detection.story`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.steps import Step, StoryError, Told, main_of, tell

HERE = Path(__file__).resolve().parent
RECALL, PRECISION = 0.9, 0.85  # what the detector must reach on pictures that it has never seen
TOLERANCE = 0.002  # of the numbers that the engines print with three digits

_OUTPUTS = ("detection_boxes", "detection_scores", "detection_classes", "num_detections")
_SERVE = "python serve.py --model_name=shapes --model_base_path=servable/shapes --run"
_SERVE_TFSMITH = _SERVE.replace("--run", "--tfsmith --run")
_CLIENT = "python client.py --server $SERVER picture.png -o served.png"
EXPORT = (
    "python export_inference_graph.py --input_type=image_tensor --pipeline_config_path=pipeline.config"
    " --trained_checkpoint_prefix=training/model.ckpt-400 --output_directory=exported"
)
VERIFY = (
    "tfsmith verify exported/saved_model exported/frozen_inference_graph.pb --inputs pictures.npz"
    f" --engine tensorflow --other-engine openvino {' '.join(f'--output {name}' for name in _OUTPUTS)}"
)
WITHOUT_CODE = (
    "tfsmith export training -o from_training --prune --input inputs=image_tensor:0"
    f" {' '.join(f'--output {name}={name}:0' for name in _OUTPUTS)}"
)

STEPS = (
    Step("Train the detector with TensorFlow", "python train.py", key="trained"),
    Step("What the training left", "ls training"),
    Step("Look inside", "tfsmith show training"),
    Step("Export it, by the flags of the Object Detection API", EXPORT),
    Step("What was exported", "find exported -type f | sort"),
    Step("How it is asked", "tfsmith show exported/saved_model --signature serving_default"),
    Step("Store some pictures as inputs", "python scoring.py pictures.npz"),
    Step("Frozen and unfrozen answer the same, in TensorFlow and OpenVINO", VERIFY),
    Step("Export it once more, without the model's code and without TensorFlow", WITHOUT_CODE),
    Step("It is the same model", "tfsmith verify exported/saved_model from_training --inputs pictures.npz"),
    Step(
        "How good is the frozen graph, without TensorFlow?",
        "python evaluate.py exported/frozen_inference_graph.pb",
        key="exported",
    ),
    Step("Draw a picture", "python shapes.py picture.png"),
    Step(
        "Find the shapes in it",
        "python detect.py exported/frozen_inference_graph.pb picture.png -o found.png",
        key="found",
    ),
    Step(
        "Put the model where a server looks for it",
        "mkdir -p servable/shapes && cp -r exported/saved_model servable/shapes/1",
    ),
    Step("Ask the server", f"{_SERVE} '{_CLIENT}'", key="served"),
    Step("Ask tfsmith serve the same, without TensorFlow", f"{_SERVE_TFSMITH} '{_CLIENT}'", key="tfsmith"),
)


def read_score(output: str) -> dict[str, float]:
    """Recall, precision and overlap, as `train.py` and `evaluate.py` print them.

    Raises:
        StoryError: They are not there.
    """
    found = re.search(r"recall (\S+), precision (\S+), mean overlap (\S+)$", output, re.MULTILINE)
    if found is None:
        raise StoryError(f"there is no score in:\n{output}")
    return dict(zip(("recall", "precision", "overlap"), map(float, found.groups()), strict=True))


def read_found(output: str) -> list[tuple[str, list[float]]]:
    """The detections that `detect.py` and `client.py` print: the name, then the score and the edges of the box."""
    lines = re.findall(r"^(\w+) +(\d\.\d+)  x (\S+) to (\S+)  y (\S+) to (\S+)$", output, re.MULTILINE)
    return [(name, [float(number) for number in numbers]) for name, *numbers in lines]


def problems(told: Sequence[Told]) -> list[str]:
    """What is not as it should be: a poor detector, or answers that depend on who was asked."""
    outputs = {one.step.key: one.output for one in told if one.step.key}
    trained, exported = read_score(outputs["trained"]), read_score(outputs["exported"])
    found = read_found(outputs["found"])
    wrong = []
    for name, least in (("recall", RECALL), ("precision", PRECISION)):
        if trained[name] < least:
            wrong.append(f"the {name} is {trained[name]}, below {least}")
    if any(abs(trained[name] - exported[name]) > 0.01 for name in trained):
        wrong.append(f"after the training it was {trained}, exported it is {exported}")
    if not found:
        wrong.append("nothing was found in the picture")
    for key, who in (("served", "the served model"), ("tfsmith", "tfsmith serve")):
        served = read_found(outputs[key])
        is_same = [name for name, _ in found] == [name for name, _ in served] and all(
            abs(a - b) <= TOLERANCE
            for (_, one), (_, other) in zip(found, served, strict=True)
            for a, b in zip(one, other, strict=True)
        )
        if not is_same:
            wrong.append(f"the frozen graph finds {found}, {who} {served}")
    return wrong


def report(told: Sequence[Told], folder: Path) -> int:
    """Prints how it went; 0 if all is as it should be, else 1."""
    wrong = problems(told)
    print("\n== How it went")
    for one in wrong:
        print(f"WRONG: {one}")
    if not wrong:
        print("The detector is good, and it answers the same: trained, exported, frozen and served.")
    print(
        f"{sum(one.seconds for one in told):.0f} s; all files are in {folder}; found.png is the picture with the boxes"
    )
    return 1 if wrong else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the story; 1 if a command fails, or if the answers are not what they should be."""
    return main_of(HERE, lambda folder: tell(HERE, folder, STEPS), report, arguments)


if __name__ == "__main__":
    sys.exit(main())
