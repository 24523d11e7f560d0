"""Tells how good an exported detector is, on the held-out pictures and without TensorFlow."""

from __future__ import annotations

import argparse

from detect import OUTPUTS
from scoring import HELD_OUT, score

import tfsmith


def main() -> None:
    """Runs the model on all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a frozen graph, a SavedModel, a .meta, ...")
    parser.add_argument("--engine", default="openvino")
    told = parser.parse_args()
    with tfsmith.compile(told.model, OUTPUTS, engine=told.engine) as runner:
        (key,) = runner.inputs
        found = score(lambda pictures: runner.run({key: pictures}))
    print(f"{HELD_OUT} pictures that it has never seen: {found}")


if __name__ == "__main__":
    main()
