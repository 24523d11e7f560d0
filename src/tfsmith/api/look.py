"""F4: What is inside a model, told as plain data or as text."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tfsmith.ir.model import Model
from tfsmith.passes.interface import Candidate, collected, guess_inputs, guess_outputs
from tfsmith.view.summary import (
    collection_facts,
    function_facts,
    node_facts,
    op_facts,
    shape_facts,
    summary_facts,
    variable_facts,
)

__all__ = ["show_facts", "likely_inputs", "likely_outputs"]


def show_facts(model: Model, *, parts: Collection[str] = (), summary: bool = True) -> dict[str, Any]:
    """What `tfsmith show` tells, as plain data ready for JSON. Reads structure only.

    Args:
        model: The model.
        parts: Any of "variables", "ops", "nodes", "collections", "functions", "outputs".
        summary: Whether to begin with the summary; it has the likely outputs where there is no signature.
    """
    facts: dict[str, Any] = summary_facts(model) if summary else {}
    if "variables" in parts:
        facts["variable_list"] = variable_facts(model)
    if not model.has_graph:
        if not summary and set(parts) - {"variables"}:
            raise model.no_graph()
        return facts
    is_whole = "missing" not in facts.get("graph", {})
    if "outputs" in parts or (summary and is_whole and not model.signatures):
        facts["likely"] = {
            "inputs": [_candidate_facts(found) for found in likely_inputs(model)],
            "outputs": [_candidate_facts(found) for found in likely_outputs(model)],
        }
    if "ops" in parts:
        facts["op_list"] = op_facts(model)
    if "collections" in parts:
        facts["collections"] = collection_facts(model)
    if "functions" in parts:
        facts["function_list"] = function_facts(model)
    if "nodes" in parts:
        facts["node_list"] = node_facts(model.graph.nodes)
    return facts


def likely_inputs(model: Model) -> tuple[Candidate, ...]:
    """What most likely feeds the model: its collection `inputs` where it has one, else its placeholders."""
    found = collected(model, "inputs") or guess_inputs(model.graph)
    return tuple(candidate for candidate in found if candidate.tensor not in _saver_tensors(model))


def likely_outputs(model: Model) -> tuple[Candidate, ...]:
    """What most likely are the model's answers, best first: its collection `outputs`, else judged node by node."""
    found = collected(model, "outputs") or guess_outputs(model.graph)
    return tuple(candidate for candidate in found if candidate.tensor not in _saver_tensors(model))


def _saver_tensors(model: Model) -> set[str]:
    """The tensors through which the model is saved and restored: nobody's inputs and outputs."""
    saver = model.meta.saver
    if saver is None:
        return set()
    return {saver.filename_tensor_name, saver.save_tensor_name, f"{saver.restore_op_name}:0"}


def _candidate_facts(found: Candidate) -> dict[str, Any]:
    return {
        "tensor": found.tensor,
        "op": found.op,
        "dtype": None if found.dtype is None else found.dtype.name,
        "shape": shape_facts(found.shape),
        "reason": found.reason,
    }
