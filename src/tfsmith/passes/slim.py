"""Splits off what only training needs: slots of optimizers, steps, and the nodes that update variables."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node, parse_input
from tfsmith.ir.variable_names import training_names
from tfsmith.passes.endpoints import collected, guess_outputs
from tfsmith.passes.interface import INIT_SIGNATURE, init_nodes, tensor_names
from tfsmith.passes.prune import clean_colocation
from tfsmith.passes.saver_ops import SavedVariable
from tfsmith.passes.variables import EMA_SUFFIX

__all__ = ["drop_nodes", "keys_for_training", "updates", "variables_for_training"]

_UPDATE = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]|Resource(Sparse)?Apply|ResourceAccumulatorApply")
_GRADIENTS = re.compile(r"(^|/)gradients(_\d+)?/")


def variables_for_training(model: Model, graph: Graph, variables: Sequence[SavedVariable]) -> list[SavedVariable]:
    """Those of the variables that nothing but training uses.

    Where signatures (or the collection `outputs`) say what the model answers, these are all that the answers do not
    need. Else they are told by their names, and spared if a likely output needs them.
    """
    outputs = _known_outputs(model)
    if outputs:
        needed = graph.ancestors(name for name in (*outputs, *init_nodes(model.meta)) if name in graph)
        return [variable for variable in variables if variable.node.name not in needed]
    names = training_names(model.variables.keys())
    spared = graph.ancestors(parse_input(candidate.tensor).node for candidate in guess_outputs(graph))
    return [found for found in variables if found.key in names and found.node.name not in spared]


def _known_outputs(model: Model) -> list[str]:
    infos = [
        info
        for key, signature in model.signatures.items()
        if key != INIT_SIGNATURE
        for info in signature.outputs.values()
    ]
    names = [name for info in infos for name in tensor_names(info)]
    names = names or [candidate.tensor for candidate in collected(model, "outputs")]
    return [parse_input(name).node for name in names]


def keys_for_training(
    model: Model, variables: Sequence[SavedVariable], gone: Collection[SavedVariable]
) -> frozenset[str]:
    """The tensors of the checkpoint that are not needed when these variables are gone.

    Moving averages of variables that stay are kept: they are what a model is best used with.
    """
    left = {variable.key for variable in variables} - {variable.key for variable in gone}
    left |= {variable.key for variable in variables if variable not in gone}  # a partitioned one has many nodes
    averages = {key + EMA_SUFFIX for key in left}
    dropped = {variable.key for variable in gone} | training_names(model.variables.keys())
    return frozenset(key for key in dropped - left - averages if key in model.variables)


def updates(graph: Graph, needed: Iterable[str] = ()) -> list[str]:
    """The nodes by which optimizers change variables, but for those that something else needs."""
    spared = graph.ancestors(name for name in needed if name in graph)
    return [node.name for node in graph if _UPDATE.match(node.op) and node.name not in spared]


def drop_nodes(graph: Graph, names: Iterable[str]) -> Graph:
    """The graph without these nodes and all that takes a tensor from them, and without gradients that led there."""
    gone = {name for name in names if name in graph}
    if not gone:
        return graph
    todo = list(gone)
    while todo:
        new = {use.node.name for use in graph.uses[todo.pop()] if use.output >= 0} - gone
        gone |= new
        todo += new
    gradients = {node.name for node in graph if _GRADIENTS.search(node.name)} - gone
    others = (node for node in graph if node.name not in gone and node.name not in gradients)
    kept = graph.ancestors(name for node in others for name in _sources(graph, node) if name not in gone)
    gone |= gradients - kept
    nodes = tuple(_without_controls(node, gone) for node in graph if node.name not in gone)
    return clean_colocation(graph.replace(nodes=nodes))


def _sources(graph: Graph, node: Node) -> list[str]:
    return [graph.resolve(text).node for text in node.inputs]


def _without_controls(node: Node, gone: Collection[str]) -> Node:
    kept = tuple(text for text in node.inputs if not (text.startswith("^") and text[1:] in gone))
    return node if len(kept) == len(node.inputs) else node.replace(inputs=kept)
