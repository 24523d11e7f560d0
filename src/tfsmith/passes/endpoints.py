"""Which nodes are the likely inputs and outputs of a graph that has no signature, and why."""

from __future__ import annotations

import re

from tfsmith.errors import InvalidModelError
from tfsmith.ir.dtype import DType
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node, parse_input
from tfsmith.ir.shape import UNKNOWN, Shape
from tfsmith.records import record

__all__ = ["Candidate", "collected", "guess_inputs", "guess_outputs", "output_type", "output_shape"]

_INPUT_OPS = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "IteratorGetNext", "_Arg"})
_QUEUE_OPS = frozenset({"QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2", "ReaderReadV2"})
_VARIABLE_OPS = frozenset({"Variable", "VariableV2", "VarHandleOp", "ReadVariableOp", "VarIsInitializedOp"})
# Ends of a graph that are nobody's answer.
_NO_ANSWER = frozenset(
    {"NoOp", "Const", "Assert", "Print", "Save", "SaveV2", "SaveSlices", "RestoreV2", "Restore", "MergeV2Checkpoints"}
    | {"ControlTrigger", "Shape", "ShapeN", "Size", "Rank", "StridedSlice", "IsVariableInitialized", "ShardedFilename"}
    | {"BroadcastGradientArgs", "StopGradient", "GuaranteeConst", "StringJoin", "Assign", "AssignAdd", "AssignSub"}
)
_NO_ANSWER_PREFIX = ("Apply", "ResourceApply", "SparseApply", "Scatter", "ResourceScatter", "Queue", "WriteS")
_SUMMARY = re.compile(r"(Scalar|Histogram|Image|Tensor|Merge|Audio)Summary")
_TRAINING_SCOPE = re.compile(
    r"(^|/)(gradients?|save|save_\d+|init|train(ing)?_op|Adam|GradientDescent|report_unini)(/|$)|(^|/)switch_[tf]$"
)
_OUTPUT_NAME = re.compile(
    r"(^|/|_)(outputs?|predictions?|predict|probabilities|probs?|logits|scores?|softmax|detections?\w*|num_detections|"
    r"detection_\w+|classes|embeddings?_out|pooled_output|final_result)(_\d+)?$",
    re.IGNORECASE,
)
_LOSS_NAME = re.compile(r"(^|/|_)(loss|cost)(_\d+)?$", re.IGNORECASE)
_OUTPUT_OPS = frozenset({"Softmax", "Sigmoid", "ArgMax", "TopKV2", "LogSoftmax", "Identity", "IdentityN", "BiasAdd"})
_NAME_END = 200
"""So much of a name's end is looked at: the patterns take quadratic time."""
_LEAST = 3


@record
class Candidate:
    """A tensor that is likely an input or output.

    Attributes:
        tensor: Its name, such as "loss/output:0".
        op: The op that gives it.
        dtype: Its type, if the graph says it.
        shape: Its shape, as far as the graph says it.
        reason: Why it is likely.
        score: How likely; more is better.
    """

    tensor: str
    op: str
    dtype: DType | None
    shape: Shape
    reason: str
    score: int = 0


def guess_inputs(graph: Graph) -> tuple[Candidate, ...]:
    """Placeholders and what else feeds a graph, in the file's order; linear in the nodes."""
    return tuple(
        _candidate(graph, node, "it is fed from outside", 0)
        for node in graph
        if node.op in _INPUT_OPS and not _TRAINING_SCOPE.search(node.name) and graph.consumers(node.name)
    )


def guess_outputs(graph: Graph, limit: int = 10) -> tuple[Candidate, ...]:
    """The nodes that most look like answers, best first; linear in the nodes and edges."""
    fed = _fed(graph)
    found = [candidate for node in graph if (candidate := _judge(graph, node, fed)) is not None]
    found.sort(key=lambda candidate: -candidate.score)
    best = found[0].score if found else 0
    return tuple(candidate for candidate in found[:limit] if candidate.score >= max(_LEAST, best - 2))


def collected(model: Model, key: str) -> tuple[Candidate, ...]:
    """The tensors of a collection of this name, which their maker left in the graph for us."""
    found = model.collections.get(key)
    if found is None or found.kind != "node":
        return ()
    names = [parse_input(name) for name in found.values]
    return tuple(
        _candidate(model.graph, model.graph.by_name[name], f"it is in the collection {key!r}", 0, output)
        for name, output in names
        if name in model.graph and output >= 0
    )


def _fed(graph: Graph) -> set[str]:
    """The names of all nodes that an input reaches."""
    todo = [node.name for node in graph if node.op in _INPUT_OPS or node.op in _QUEUE_OPS]
    seen = set(todo)
    while todo:
        for use in graph.uses[todo.pop()]:
            if use.output >= 0 and use.node.name not in seen:
                seen.add(use.node.name)
                todo.append(use.node.name)
    return seen


def _judge(graph: Graph, node: Node, fed: set[str]) -> Candidate | None:
    op = node.op
    if op in _NO_ANSWER or op in _VARIABLE_OPS or op in _INPUT_OPS or op.startswith(_NO_ANSWER_PREFIX):
        return None
    is_last = not graph.consumers(node.name)
    is_named = _OUTPUT_NAME.search(node.name[-_NAME_END:]) is not None
    if not (is_last or is_named) or _SUMMARY.match(op) or _TRAINING_SCOPE.search(node.name):
        return None
    reasons: list[str] = []
    score = 0
    if is_last:
        score += 2 if _is_loss(node) else 3
        reasons.append("nothing takes its output")
    if is_named:
        score += 3
        reasons.append("it is named like an output")
    if node.name in fed:
        score += 1
        reasons.append("an input reaches it")
    elif fed:
        score -= 2
    if op in _OUTPUT_OPS:
        score += 1
        reasons.append(f"{op} often ends a model")
    return _candidate(graph, node, ", ".join(reasons), score)


def _is_loss(node: Node) -> bool:
    """A reduction at the end of a training graph is what it minimises, not what it answers."""
    return node.op in ("Mean", "Sum", "AddN") or _LOSS_NAME.search(node.name[-_NAME_END:]) is not None


def _candidate(graph: Graph, node: Node, reason: str, score: int, output: int = 0) -> Candidate:
    kind, shape = output_type(graph, node, output), output_shape(node, output)
    return Candidate(f"{node.name}:{output}", node.op, kind, shape, reason, score)


def output_type(graph: Graph, node: Node, index: int = 0) -> DType | None:
    """The type of an output, if op and attributes say it."""
    op = graph.op_def(node.op)
    if op is None:
        return None
    try:
        types = op.output_types(node.attrs)
    except InvalidModelError:
        return None
    return types[index] if index < len(types) else None


def output_shape(node: Node, index: int = 0) -> Shape:
    """The shape of an output, as far as the node's own attributes say it."""
    shapes = node.get("_output_shapes")
    found = shapes[index] if isinstance(shapes, tuple) and index < len(shapes) else None
    if found is None and node.op in _INPUT_OPS:
        found = node.get("shape")
    return found if isinstance(found, Shape) else UNKNOWN
