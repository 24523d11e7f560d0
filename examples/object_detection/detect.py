"""Finds the shapes in a picture, without TensorFlow: tfsmith opens the model, and OpenVINO calculates."""

from __future__ import annotations

import argparse

from found import draw_found, read_answer
from pictures import read_png, write_png

import tfsmith

OUTPUTS = ("detection_boxes", "detection_scores", "detection_classes", "num_detections")


def main() -> None:
    """Prints what is found, and draws it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a frozen graph, a SavedModel, a .meta, ...")
    parser.add_argument("picture", metavar="PICTURE.png")
    parser.add_argument("-o", "--output", metavar="FOUND.png", help="the picture with the boxes")
    parser.add_argument("--engine", default="openvino")
    told = parser.parse_args()
    picture = read_png(told.picture)
    with tfsmith.compile(told.model, OUTPUTS, engine=told.engine) as runner:
        (key,) = runner.inputs
        answers = runner.run({key: picture[None]})
    found = read_answer({name: value[0] for name, value in answers.items()})
    print(*found, sep="\n")
    if told.output:
        write_png(told.output, draw_found(picture, found))


if __name__ == "__main__":
    main()
