"""F4: Which parts of a model another program cannot import."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tfsmith import records
from tfsmith.api.files import load_with
from tfsmith.errors import TfsmithError
from tfsmith.ir.model import Model
from tfsmith.ir.shape import Shape
from tfsmith.passes.check_target import Checked, Obstacle, Target, check_target, find_target, target_names
from tfsmith.passes.fold_shapes import folded_ops
from tfsmith.passes.freeze import FreezeOptions, freeze

__all__ = ["check", "targets"]

_SIMPLER = ("remove-no-ops", "dropout-removal", "fold-batch-norm")
"""Recipes that leave fewer kinds of ops behind and change no answer of a model that is only run."""
_COMMAND = "`tfsmith"


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
    model = load_with(source, None)
    checked = check_target(model, found, outputs=outputs, signature=signature)
    return _with_recipes(model, _with_folding(model, checked, outputs, signature), outputs, signature)


def _with_folding(model: Model, checked: Checked, outputs: Sequence[str], signature: str | None) -> Checked:
    """The obstacles, with `freeze --fold-shapes` as the remedy of ops that only compute shapes: tried in memory."""
    left = {one.subject for one in checked.obstacles if one.kind == "op" and not one.remedy.startswith(_COMMAND)}
    if not left & folded_ops():
        return checked
    shapes = [node.get("shape") for node in model.graph if node.op == "Placeholder"]
    is_open = any(not isinstance(shape, Shape) or not shape.is_static for shape in shapes)
    options = FreezeOptions(tuple(outputs), signature, batch_size=1 if is_open else None, fold_shapes=True)
    try:
        after = check_target(freeze(model, options).model, checked.target)
    except TfsmithError:
        return checked
    gone = left - {one.subject for one in after.obstacles}
    words = [f" --outputs {','.join(outputs)}"] if outputs else []
    words += [" --batch-size 1"] if is_open else []
    command = f"`tfsmith freeze {model.path or 'MODEL'} -o fixed.pb{''.join(words)} --fold-shapes`"
    obstacles = [_remedied(one, command) if one.subject in gone else one for one in checked.obstacles]
    return records.replace(checked, obstacles=tuple(obstacles))


def _with_recipes(model: Model, checked: Checked, outputs: Sequence[str], signature: str | None) -> Checked:
    """The obstacles, with the recipe that removes them as the remedy, where one does: each is tried in memory."""
    for recipe in _SIMPLER:
        left = {one.subject for one in checked.obstacles if one.kind == "op" and not one.remedy.startswith(_COMMAND)}
        if not left:
            break
        after = _after(model, recipe, checked.target, outputs, signature)
        if after is None:
            continue
        gone = left - {one.subject for one in after.obstacles}
        command = f"`tfsmith replace {model.path or 'MODEL'} -r {recipe} -o OUT`"
        obstacles = [_remedied(one, command) if one.subject in gone else one for one in checked.obstacles]
        checked = records.replace(checked, obstacles=tuple(obstacles))
    return checked


def _after(model: Model, recipe: str, target: Target, outputs: Sequence[str], signature: str | None) -> Checked | None:
    """What is left once a recipe was applied; None where it does not fit."""
    from tfsmith.api.patterning import replace  # most models need none of this

    try:
        replaced = replace(model, recipe, outputs=outputs)
        return check_target(replaced.model, target, outputs=outputs, signature=signature) if replaced.matches else None
    except TfsmithError:
        return None


def _remedied(one: Obstacle, command: str) -> Obstacle:
    return records.replace(one, remedy=command) if one.kind == "op" else one


def targets() -> list[Target]:
    """All targets that `check` knows, each with the version and the source of its table."""
    return [find_target(name) for name in target_names()]
