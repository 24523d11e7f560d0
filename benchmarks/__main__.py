"""`python -m benchmarks`: measures, and prints one table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    bert_op,
    checkpoint,
    engines,
    export,
    fleet,
    freeze,
    keras_files,
    onnx,
    patterns,
    run,
    scaling,
    scan,
    serve,
    show,
    text,
    view,
    weights,
)
from benchmarks.models import Models
from benchmarks.report import Row, table, to_json
from benchmarks.setup import Setup

_TOPICS: dict[str, Callable[[Setup], list[Row]]] = {
    "show": show.rows,
    "checkpoint": checkpoint.rows,
    "scaling": scaling.rows,
    "text_format": text.rows,
    "freeze": freeze.rows,
    "export": export.rows,
    "weights": weights.rows,
    "keras": keras_files.rows,
    "onnx": onnx.rows,
    "view": view.rows,
    "patterns": patterns.rows,
    "run": run.rows,
    "engines": engines.rows,
    "scan": scan.rows,
    "serve": serve.rows,
    "fleet": fleet.rows,
    "bert_op": bert_op.rows,
}


def main() -> int:
    """Runs the topics that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Time and peak memory beside peers.")
    parser.add_argument("--only", metavar="A,B", help=f"only these topics: {', '.join(_TOPICS)}")
    parser.add_argument("--quick", action="store_true", help="small models and one run, to see that it works")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often commands take turns")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    parser.add_argument(
        "--models", type=Path, default=Path(__file__).with_name(".models"), metavar="DIR", help="where models are kept"
    )
    arguments = parser.parse_args()
    topics = list(_TOPICS) if arguments.only is None else arguments.only.split(",")
    unknown = [topic for topic in topics if topic not in _TOPICS]
    if unknown:
        parser.error(f"there is no topic {unknown[0]!r}; the topics are {', '.join(_TOPICS)}")
    setup = Setup(Models(arguments.models.resolve(), arguments.quick), arguments.rounds, arguments.quick)
    rows: list[Row] = []
    for topic in topics:
        sys.stderr.write(f"measuring {topic} ...\n")
        rows += _TOPICS[topic](setup)
    print(table(rows, judged=not arguments.quick), end="")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(to_json(rows), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
