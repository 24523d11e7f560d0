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
from tfsmith.records import record

__all__ = ["Slimmed", "answers", "slim"]

_UPDATE = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]")
_GRADIENTS = re.compile(r"(^|/)gradients(_\d+)?/")


@record
class Slimmed:
    """The graph without training, and the tensors of the checkpoint that it does not need any more."""

    graph: Graph
    keys: frozenset[str]


def slim(model: Model, graph: Graph, variables: Sequence[SavedVariable]) -> Slimmed:
    """Drops the variables that nothing but training uses, what takes them, and the nodes that update variables.

    Where signatures (or the collection `outputs`) say what the model answers, these are all variables that the answers
    do not need. Else they are told by their names, and spared if a likely output needs them.

    Args:
        model: The model.
        graph: Its graph, without the saver, which uses all variables.
        variables: The variables that have values.
    """
    outputs = answers(model)
    names = training_names(model.variables.keys())
    likely = outputs or [parse_input(candidate.tensor).node for candidate in guess_outputs(graph)]
    needed = graph.ancestors(name for name in (*likely, *init_nodes(model.meta)) if name in graph)
    unneeded = [variable for variable in variables if variable.node.name not in needed]
    gone = unneeded if outputs else [variable for variable in unneeded if variable.key in names]
    updates = [node.name for node in graph if _UPDATE.match(node.op) and node.name not in needed]
    slimmed = _without(graph, [*(variable.node.name for variable in gone), *updates])
    left = {variable.key for variable in variables if variable not in gone}
    averages = {key + EMA_SUFFIX for key in left}  # these are what a model is best used with
    dropped = ({variable.key for variable in gone} | names) - left - averages
    return Slimmed(slimmed, frozenset(dropped))


def answers(model: Model) -> list[str]:
    """The nodes that give the model's answers, as its signatures or its collection `outputs` say; else none."""
    named = [signature for key, signature in model.signatures.items() if key != INIT_SIGNATURE]
    infos = [info for signature in named for info in signature.outputs.values()]
    names = [name for info in infos for name in tensor_names(info)]
    names = names or [candidate.tensor for candidate in collected(model, "outputs")]
    return [parse_input(name).node for name in names]


def _without(graph: Graph, names: Iterable[str]) -> Graph:
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
    others = [node for node in graph if node.name not in gone and node.name not in gradients]
    sources = {graph.resolve(text).node for node in others for text in node.inputs} - gone
    gone |= gradients - graph.ancestors(sources)
    nodes = tuple(_without_controls(node, gone) for node in graph if node.name not in gone)
    return clean_colocation(graph.replace(nodes=nodes))


def _without_controls(node: Node, gone: Collection[str]) -> Node:
    kept = tuple(text for text in node.inputs if not (text.startswith("^") and text[1:] in gone))
    return node if len(kept) == len(node.inputs) else node.replace(inputs=kept)
