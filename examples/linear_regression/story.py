"""The story of a line: trained with TensorFlow, and consumed in Python, Java and Go.

From the root of the checkout: `make story NAME=linear_regression`, or `python -m examples.linear_regression.story`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.steps import Step, StoryError, Told, main_of, tell

HERE = Path(__file__).resolve().parent
X = (0, 1, -1, 2)
TOLERANCE = 1e-6
JAVA = ("javac", "mvn")
GO = ("go", "gcc")  # cgo needs a C compiler
LIBRARY = "python libtensorflow.py > libtensorflow.env && cat libtensorflow.env"
WITH_C = ". ./libtensorflow.env && "
JAR = "java -jar java_consumer/target/java_consumer.jar"
FREEZE = (
    "tfsmith freeze exported_graphs/graphdef.pbtxt --checkpoint saved_model"
    " --outputs linear_regression/add -o frozen_graphs/in_one_line.pb"
)
EXPORT = "tfsmith export saved_model -o servable --input x=inputs/x_sample:0 --output y=linear_regression/add:0"

STEPS = (
    Step("Train the model with TensorFlow", "python model_producer.py"),
    Step("Look at what the training left", "tfsmith show saved_model"),
    Step("Calculate, with TensorFlow", "python model_consumer.py", key="Python with TensorFlow, checkpoint"),
    Step("Calculate, without TensorFlow", "python model_consumer_tfsmith.py", key="Python with tfsmith, checkpoint"),
    Step("Freeze it by the flags of freeze_graph", "./freeze_graph_linear_regression.sh"),
    Step("Freeze it in one line", FREEZE),
    Step("Both are the same file", "cmp frozen_graphs/frozen_graph.pb frozen_graphs/in_one_line.pb"),
    Step("Make a SavedModel of it", EXPORT),
    Step("Build the Java consumer", "mvn -q -f java_consumer package", JAVA),
    Step("Java, the frozen graph", JAR, JAVA, "Java, frozen graph"),
    Step("Java, the SavedModel", f"{JAR} servable", JAVA, "Java, SavedModel"),
    Step(
        "Take the C library out of the wheel",
        "python libtensorflow.py > libtensorflow.env && cat libtensorflow.env",
        GO,
    ),
    Step("Go as a script", f"{WITH_C}go run go_consumer/go_consumer.go", GO, "Go, frozen graph"),
    Step("Go compiled", f"{WITH_C}go build -o go_consumer/ go_consumer/go_consumer.go", GO),
    Step("Go, the SavedModel", f"{WITH_C}./go_consumer/go_consumer servable", GO, "Go, SavedModel"),
)


def read_results(output: str) -> list[float]:
    """The numbers in a consumer's `The calculation results : [...]`; Go puts no commas between them.

    Raises:
        StoryError: There is no such line.
    """
    found = re.search(r"^The calculation results : \[(.*)\]$", output, re.MULTILINE)
    if found is None:
        raise StoryError(f"a consumer printed no results, but:\n{output}")
    return [float(number) for number in found[1].replace(",", " ").split()]


def collect(told: Sequence[Told]) -> dict[str, list[float]]:
    """The answers of the consumers that ran, by their keys."""
    return {one.step.key: read_results(one.output) for one in told if one.step.key and not one.skipped}


def largest_difference(answers: dict[str, list[float]]) -> float:
    """How far any answer is from the first consumer's."""
    first = next(iter(answers.values()))
    return max(abs(a - b) for row in answers.values() for a, b in zip(row, first, strict=True))


def table(answers: dict[str, list[float]]) -> str:
    """The answers side by side, in Markdown."""
    head = ["consumer, what it reads", *(f"x = {x}" for x in X)]
    rows = [head, ["---"] * len(head), *([key, *(f"{value:.9f}" for value in row)] for key, row in answers.items())]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def report(told: Sequence[Told], folder: Path) -> int:
    """Writes the table to `answers.md` and prints it; 0 if the consumers agree, else 1."""
    answers = collect(told)
    text = table(answers)
    (folder / "answers.md").write_text(text)
    print(f"\n== The answers side by side\n{text}")
    for one in told:
        if one.skipped:
            print(f"skipped: {one.step.title} ({one.skipped})")
    difference = largest_difference(answers)
    agree = difference <= TOLERANCE
    print(f"They {'agree' if agree else 'DIFFER'}: the largest difference is {difference:.1e}.")
    print(f"{sum(one.seconds for one in told):.0f} s; all files are in {folder}")
    return 0 if agree else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the story; 1 if a command fails, or if the consumers do not agree."""
    return main_of(HERE, lambda folder: tell(HERE, folder, STEPS), report, arguments)


if __name__ == "__main__":
    sys.exit(main())
