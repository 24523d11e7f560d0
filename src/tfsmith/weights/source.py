"""The weights of any model: its variables, or the constants of a frozen graph that were variables."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfsmith.errors import NotFoundInModelError
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.variable_names import OBJECT_GRAPH_KEY
from tfsmith.ir.weights import Weights
from tfsmith.passes.was_variable import Signs

__all__ = ["weights_of"]

_VARIABLE_OPS = frozenset({"Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable"})
_FOLDED = re.compile(r"(.+)/read$")
"""An optimizer that folds the read of a constant leaves a constant with the read's name."""


def weights_of(model: Model, *, constants: bool = False) -> Weights:
    """The weights of a model, by name. Reads no value.

    Args:
        model: A checkpoint, a model with its checkpoint, a frozen graph, or weights without a graph.
        constants: Whether to take all constants of the graph, whatever they were.

    Raises:
        NotFoundInModelError: It has none, or their values lie elsewhere; the remedy says what to pass.
    """
    files = {path: None for path in (model.path, *(model.checkpoint.files if model.checkpoint else ())) if path}
    metadata: Mapping[str, str] = {}
    if isinstance(model.variables, Weights):
        metadata = model.variables.metadata
        files |= dict.fromkeys(model.variables.files)
    if constants:
        tensors: Mapping[str, Tensor] = {node.name: value for node, value in _constants(model)}
    elif model.variables or not model.has_graph:
        tensors = {name: tensor for name, tensor in model.variables.items() if name != OBJECT_GRAPH_KEY}
    else:
        tensors = _frozen(model)
    return Weights(tensors, metadata, tuple(files), model.path)


def _constants(model: Model) -> list[tuple[Node, Tensor]]:
    found = []
    for node in model.graph:
        value = node.attrs.get("value") if node.op == "Const" else None
        if value is not None and value.kind == "tensor":
            found.append((node, value.value))
    return found


def _frozen(model: Model) -> dict[str, Tensor]:
    """The constants whose readers show that they were variables, under the variables' names."""
    graph = model.graph
    variables = [node.name for node in graph if node.op in _VARIABLE_OPS]
    if variables:
        what = f"the graph has {len(variables)} variables, such as {variables[0]!r}, but not their values"
        raise NotFoundInModelError(what, path=model.path, remedy="pass their checkpoint (--checkpoint PREFIX)")
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
    remedy = f"its reads may have been folded away; take all constants (--constants), {about}"
    raise NotFoundInModelError(what, path=model.path, remedy=remedy)
