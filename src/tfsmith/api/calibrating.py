"""F4: Bytes in place of floats: ranges found by running a fused BERT on data, and what it costs in accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tfsmith.api.fusing import bert_nodes, change_bert_nodes
from tfsmith.api.tolerance import Tolerance, difference
from tfsmith.api.trying import Feeds, Trial
from tfsmith.errors import EngineError
from tfsmith.ir.attr import Attr
from tfsmith.ir.dtype import dtype_named
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.records import record

__all__ = ["Accuracy", "Ranges", "compare_answers", "find_ranges", "quantized"]

_INT8 = Attr("type", dtype_named("qint8"))
_ANY = Tolerance(0.0, float("inf"))

Ranges = Mapping[tuple[str | None, str], tuple[float, ...]]
"""Ranges for each node `Bert`, by its function and its name: low and high of four places, layer by layer."""


@record
class Accuracy:
    """How far the answers on the calibration data are from those of the original.

    Attributes:
        key: The output.
        max_abs: The largest difference; infinite where one of them is no number.
        same_argmax: In which share of rows the largest value is the same one; None if the output has no such rows.
    """

    key: str
    max_abs: float
    same_argmax: float | None


def find_ranges(model: Model, trial: Trial, data: Sequence[Feeds], folder: Path) -> Ranges:
    """Runs a model with nodes `Bert` on data, and gives the ranges of values that these have met.

    Args:
        model: The model, in floats.
        trial: How to run it.
        data: What to feed, batch by batch.
        folder: An empty folder, which the op writes to.

    Raises:
        EngineError: No node met anything: the outputs do not need it.
    """
    places = {(body, node.name): folder / f"{number}.txt" for number, (body, node) in enumerate(bert_nodes(model))}

    def record_ranges(body: str | None, node: Node) -> dict[str, Attr]:
        path = str(places[body, node.name].absolute()).encode("utf-8", "surrogateescape")
        return {"CalibrateQuantFactors": Attr("bool", True), "QuantizationFactorsPath": Attr("string", path)}

    trial.run(change_bert_nodes(model, record_ranges), data)
    texts = {place: path.read_text() for place, path in places.items() if path.is_file()}
    found = {place: tuple(map(float, text.split())) for place, text in texts.items()}
    if not found:
        what = "the outputs that were run need no node Bert, so it has met no values"
        raise EngineError(what, path=model.path, remedy="name another --signature, or --outputs")
    return found


def quantized(model: Model, ranges: Ranges) -> Model:
    """The model with nodes `Bert` that compute with bytes; those without ranges round each row to its own."""

    def change(body: str | None, node: Node) -> dict[str, Attr]:
        numbers = ranges.get((body, node.name), ())
        factors = Attr("list(float)", numbers) if numbers else Attr("list", ())
        return {"QuantizableDataType": _INT8, "QuantizationFactors": factors}

    return change_bert_nodes(model, change)


def compare_answers(before: Sequence[Feeds], after: Sequence[Feeds]) -> tuple[Accuracy, ...]:
    """How far two models' answers to the same feeds are apart, output by output."""
    import numpy

    found: list[Accuracy] = []
    for key in [key for key in before[0] if key in after[0]]:
        pairs = [(one[key], other[key]) for one, other in zip(before, after, strict=True)]
        worst = max(difference(one, other, _ANY).max_abs for one, other in pairs)
        share = None
        if all(one.ndim > 1 and one.shape[-1] > 1 and one.dtype.kind == "f" for one, _ in pairs):
            same = [(one.argmax(-1) == other.argmax(-1)).reshape(-1) for one, other in pairs]
            share = float(numpy.concatenate(same).mean())
        found.append(Accuracy(key, worst, share))
    return tuple(found)
