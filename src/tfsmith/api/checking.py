"""F4: Which parts of a model another program cannot import."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tfsmith.api.files import load_with
from tfsmith.ir.model import Model
from tfsmith.passes.check_target import Checked, check_target
from tfsmith.passes.target import Target, find_target, target_names

__all__ = ["check", "targets"]


def check(
    source: Model | str | os.PathLike[str] | Any,
    target: str,
    *,
    outputs: Sequence[str] = (),
    signature: str | None = None,
) -> Checked:
    """What of a model the target cannot import, with the nodes and what to do. Reads no weights.

    Args:
        source: A model, or what `load` takes.
        target: "migraphx", "openvino", "tflite", "tflite-flex", "onnx" or "tensorflow-X.Y"; `targets` lists them.
        outputs: The outputs that are wanted; by default those of the signatures, else everything in the graph counts.
        signature: Which signature's outputs.

    Raises:
        UsageError: There is no such target.
        NotFoundInModelError: There is no graph, or no such output or signature.
    """
    found = find_target(target)
    return check_target(load_with(source, None), found, outputs=outputs, signature=signature)


def targets() -> list[Target]:
    """All targets that `check` knows, each with the version and the source of its table."""
    return [find_target(name) for name in target_names()]
