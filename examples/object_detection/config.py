"""Reads a pipeline.config: the text format of protobuf, as the Object Detection API uses it, without its schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ConfigError", "Pipeline", "read_pipeline"]

_TOKEN = re.compile(r'\s*(?:#[^\n]*\n\s*)*("[^"\n]*"|[\w.+-]+|[{}:])')


class ConfigError(Exception):
    """A configuration cannot be read, or lacks something."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What the detector and its training need to know; in the file, each has the path that `read_pipeline` shows."""

    num_classes: int
    height: int
    width: int
    num_layers: int
    min_scale: float
    max_scale: float
    box_scales: tuple[float, float, float, float]
    matched_threshold: float
    unmatched_threshold: float
    score_threshold: float
    iou_threshold: float
    max_detections_per_class: int
    max_total_detections: int
    batch_size: int
    num_steps: int
    learning_rate: float


def read_pipeline(path: str | Path) -> Pipeline:
    """Reads a pipeline.config; what it says beyond our needs is left aside.

    Raises:
        ConfigError: It is not such a file, or something is missing.
    """
    try:
        tree = _message(_tokens(Path(path).read_text(encoding="utf-8")), "")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error

    def get(name: str) -> Any:
        value: Any = tree
        for part in name.split("."):
            if not isinstance(value, dict) or part not in value:
                raise ConfigError(f"{path}: {name} is missing")
            value = value[part]
        return value

    resizer = "model.ssd.image_resizer.fixed_shape_resizer"
    anchors = "model.ssd.anchor_generator.ssd_anchor_generator"
    coder = "model.ssd.box_coder.faster_rcnn_box_coder"
    matcher = "model.ssd.matcher.argmax_matcher"
    suppression = "model.ssd.post_processing.batch_non_max_suppression"
    rate = "train_config.optimizer.adam_optimizer.learning_rate.cosine_decay_learning_rate"
    y, x, height, width = (float(get(f"{coder}.{name}_scale")) for name in ("y", "x", "height", "width"))
    return Pipeline(
        num_classes=int(get("model.ssd.num_classes")),
        height=int(get(f"{resizer}.height")),
        width=int(get(f"{resizer}.width")),
        num_layers=int(get(f"{anchors}.num_layers")),
        min_scale=float(get(f"{anchors}.min_scale")),
        max_scale=float(get(f"{anchors}.max_scale")),
        box_scales=(y, x, height, width),
        matched_threshold=float(get(f"{matcher}.matched_threshold")),
        unmatched_threshold=float(get(f"{matcher}.unmatched_threshold")),
        score_threshold=float(get(f"{suppression}.score_threshold")),
        iou_threshold=float(get(f"{suppression}.iou_threshold")),
        max_detections_per_class=int(get(f"{suppression}.max_detections_per_class")),
        max_total_detections=int(get(f"{suppression}.max_total_detections")),
        batch_size=int(get("train_config.batch_size")),
        num_steps=int(get("train_config.num_steps")),
        learning_rate=float(get(f"{rate}.learning_rate_base")),
    )


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while found := _TOKEN.match(text, at):
        yield found[1]
        at = found.end()
    rest = re.sub(r"#[^\n]*", "", text[at:]).strip()
    if rest:
        raise ConfigError(f"cannot read this: {rest.splitlines()[0]}")


def _message(tokens: Iterator[str], end: str) -> dict[str, Any]:
    """The fields up to `}` (or up to the end of the file): a number or word each, or again a message."""
    fields: dict[str, Any] = {}
    for name in tokens:
        if name == end:
            return fields
        mark = next(tokens, "")
        if mark == ":":
            fields[name] = next(tokens, "")
        elif mark == "{":
            fields[name] = _message(tokens, "}")
        else:
            raise ConfigError(f"after {name!r} there must be ':' or '{{', not {mark!r}")
    if end:
        raise ConfigError("a '}' is missing at the end")
    return fields
