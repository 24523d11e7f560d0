"""The weights of any model: its variables, or the constants of a frozen graph that were variables; chosen by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from tfsmith.errors import NotFoundInModelError, nearest
from tfsmith.ir.model import OBJECT_GRAPH_KEY, Model, training_names
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import Tensor, Weights
from tfsmith.ops import VARIABLES
from tfsmith.passes.former_variables import Signs
from tfsmith.passes.variables import variable_names
from tfsmith.records import replace

__all__ = ["select_weights", "weights_of"]


def select_weights(
    weights: Weights,
    only: Sequence[str] = (),
    excluded: Sequence[str] = (),
    *,
    training: bool = True,
    strict: bool = True,
) -> Weights:
    """Those that fit a glob of `only` (all, if there is none) and none of `excluded`. No I/O.

    A glob fits a weight by its key or by the name of its variable.

    Args:
        weights: The weights.
        only: Globs of names to take.
        excluded: Globs of names to leave out.
        training: Whether to keep what only training needs: slots of optimizers, the global step.
        strict: Whether a glob that fits nothing is an error.

    Raises:
        NotFoundInModelError: A glob fits nothing; the remedy has the nearest names.
    """
    for glob in (*only, *excluded) if strict else ():
        if not any(_fits(weights, name, glob) for name in weights):
            near = nearest(glob.strip("*?"), weights)
            remedy = f"the nearest names are {', '.join(near)}" if near else "leave the glob out to see all names"
            raise NotFoundInModelError(f"no weight is called {glob!r}", path=weights.path, remedy=remedy)
    dropped = set() if training else training_names(weights)
    if not training:
        dropped |= {key for key, names in weights.names.items() if training_names(names[:1])}
    kept = {
        name: tensor
        for name, tensor in weights.items()
        if name not in dropped
        and (not only or any(_fits(weights, name, glob) for glob in only))
        and not any(_fits(weights, name, glob) for glob in excluded)
    }
    return replace(weights, tensors=kept)


def _fits(weights: Weights, key: str, glob: str) -> bool:
    return any(fnmatchcase(name, glob) for name in (key, *weights.names.get(key, ())))


_FOLDED = re.compile(r"(.+)/read$")
"""An optimizer that folds the read of a constant leaves a constant with the read's name."""


def weights_of(model: Model, *, constants: bool = False) -> Weights:
    """The weights of a model, by name. Reads no value.

    Args:
        model: A checkpoint, a model with its checkpoint, a frozen graph, or weights without a graph.
        constants: Whether to take all constants of the graph, whatever they were.

    Raises:
        NotFoundInModelError: It has none, or their values are elsewhere; the remedy says what to pass.
    """
    files = {path: None for path in (model.path, *(model.checkpoint.files if model.checkpoint else ())) if path}
    metadata: Mapping[str, str] = {}
    if isinstance(model.variables, Weights):
        metadata = model.variables.metadata
        files |= dict.fromkeys(model.variables.files)
    names: Mapping[str, tuple[str, ...]] = {}
    keras = model.keras
    if constants:
        tensors: Mapping[str, Tensor] = {node.name: value for node, value in _constants(model)}
    elif model.variables or not model.has_graph:
        names = variable_names(model)
        if isinstance(model.variables, Weights):
            names = {**model.variables.names, **names}
        tensors = {name: tensor for name, tensor in model.variables.items() if name != OBJECT_GRAPH_KEY}
    else:
        tensors = _frozen(model)
    return Weights(tensors, metadata, tuple(files), model.path, names=names, keras=keras)


def _constants(model: Model) -> list[tuple[Node, Tensor]]:
    found = []
    for node in model.graph:
        if node.constant is not None:
            found.append((node, node.constant))
    return found


def _frozen(model: Model) -> dict[str, Tensor]:
    """The constants whose readers show that they were variables, under the variables' names."""
    graph = model.graph
    variables = [node.name for node in graph if node.op in VARIABLES]
    if variables:
        what = f"the graph has {len(variables)} variables, such as {variables[0]!r}, but not their values"
        raise NotFoundInModelError(what, path=model.path, remedy="pass their checkpoint ({checkpoint})")
    signs = Signs(graph)
    tensors: dict[str, Tensor] = {}
    folded: dict[str, Tensor] = {}
    constants = _constants(model)
    for node, value in constants:
        if signs.was_variable(node.name):
            tensors[node.name] = value
        elif _FOLDED.match(node.name):
            folded[node.name.removesuffix("/read")] = value
    tensors |= {name: value for name, value in folded.items() if name not in tensors}
    if tensors:
        return tensors
    what = f"none of the graph's {len(constants)} constants shows that it was a variable"
    if not constants:
        raise NotFoundInModelError("the graph has no constants and no variables", path=model.path)
    largest = max(constants, key=lambda item: item[1].nbytes)
    about = f"the largest is {largest[0].name!r}, {largest[1].dtype} {largest[1].shape}"
    remedy = f"its reads may have been folded away; take all constants ({{constants=True}}), {about}"
    raise NotFoundInModelError(what, path=model.path, remedy=remedy)
