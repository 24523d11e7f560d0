"""The same without TensorFlow: tfsmith loads the files, and OpenVINO calculates."""

from __future__ import annotations

import tfsmith

X = [[0.0], [1.0], [-1.0], [2.0]]


def main() -> None:
    """Opens what the Saver wrote, and runs the output."""
    model = tfsmith.load("saved_model")  # the latest checkpoint of the folder
    print(model.get_collection("inputs"))
    print(model.get_collection("outputs"))
    x, _ = map(str, model.get_collection("inputs"))
    (prediction,) = map(str, model.get_collection("outputs"))
    answers = tfsmith.run(model, {x: X}, [prediction], engine="openvino")
    print("The calculation results :", answers[prediction].ravel().tolist())


if __name__ == "__main__":
    main()
