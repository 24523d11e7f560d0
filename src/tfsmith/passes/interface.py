"""Which tensors a job on a model is about: named by the user, by a signature, or found; with their shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from tfsmith.errors import Note, NotFoundInModelError, UsageError, nearest, shortened
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import PREDICT, SERVING_DEFAULT, MetaGraph, Model, Signature, TensorInfo
from tfsmith.ir.node import CONTROL, Endpoint, Node, parse_input
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import UNKNOWN, DType, Shape, dtype_named
from tfsmith.limits import MAX_RANK
from tfsmith.ops import (
    BATCH_NORMS,
    DIRECT_CALLS,
    HANDLE_READS,
    INPUTS,
    LIKELY_OUTPUTS,
    NEVER_OUTPUTS,
    PIPELINES,
    PLACEHOLDERS,
    REDUCTIONS,
    RESTORES,
    SAVES,
    SHAPE_INPUTS,
    VARIABLES,
)
from tfsmith.records import record, replace

__all__ = [
    "find_training",
    "Candidate",
    "collected",
    "signed",
    "guess_inputs",
    "guess_outputs",
    "clear_outputs",
    "output_type",
    "output_shape",
    "set_input_shapes",
    "check_shapes",
    "input_shapes",
    "input_keys",
    "batch_shapes",
    "is_refined",
    "INIT_COLLECTIONS",
    "INIT_SIGNATURE",
    "choose_signature",
    "choose_outputs",
    "init_nodes",
    "tensor_names",
    "check_tensor",
    "Interface",
    "make_signatures",
]

_DROPOUT = re.compile(r"dropout", re.IGNORECASE)


def find_training(graph: Graph) -> list[Note]:
    """What in a pruned graph only makes sense in training. Looks at every node once."""
    from tfsmith.ops.traits import is_random  # `show` needs this module, and no traits

    found: list[Note] = []
    nodes = list(graph)
    for function in graph.library.values():
        nodes += function.nodes
    training_norms = [node for node in nodes if node.op in BATCH_NORMS and node.get("is_training", True)]
    _add(
        found,
        training_norms,
        "batch norm uses the batch's own statistics (is_training=True)",
        "export the inference graph",
    )
    randoms = [node for node in nodes if is_random(node.op)]
    drops = [node for node in randoms if _DROPOUT.search(node.name)]
    _add(found, drops, "dropout is live, so answers are random", "export the inference graph, with dropout off")
    others = [node for node in randoms if not _DROPOUT.search(node.name)]
    _add(found, others, "random numbers are drawn on every run", "if this is dropout, export the inference graph")
    queues = [node for node in nodes if node.op in PIPELINES]
    _add(
        found,
        queues,
        "the input comes from a training pipeline",
        "export a graph with placeholders, or cut it at {outputs}",
    )
    return found


def _add(found: list[Note], nodes: Iterable[Node], what: str, remedy: str) -> None:
    names = tuple(node.name for node in nodes)
    if names:
        found.append(Note(what, names, remedy))


_NO_ANSWER_PREFIX = ("Apply", "ResourceApply", "SparseApply", "Scatter", "ResourceScatter", "Queue", "WriteS")
_SUMMARY = re.compile(r"(Scalar|Histogram|Image|Tensor|Merge|Audio)Summary")
_SAVER_OPS = SAVES | RESTORES | {"MergeV2Checkpoints"}
_GRADIENT_OP = re.compile(r"Grad(V\d)?$|BackpropFilter|^(Sparse|Resource)?(Sparse)?Apply")
"""Not `BackpropInput`, which is a transposed convolution in inference."""
_TRAINING_SCOPE = re.compile(
    r"(^|/)(gradients?|gradient_tape|save|save_\d+|init|train(ing)?_op|Adam|GradientDescent|report_unini)"
    r"(/|$)|(^|/)switch_[tf]$"
)
_OUTPUT_NAME = re.compile(
    r"(^|/|_)(outputs?|predictions?|predict|probabilities|probs?|logits|scores?|softmax|detections?\w*|num_detections|"
    r"detection_\w+|classes|embeddings?_out|pooled_output|final_result)(_\d+)?$",
    re.IGNORECASE,
)
_LOSS_NAME = re.compile(r"(^|/|_)(loss|cost)(_\d+)?$", re.IGNORECASE)
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
    """Placeholders and what else feeds a graph, in the file's order; linear in the nodes. The saver's are left out."""
    savers = _savers(graph)
    return tuple(
        _candidate(graph, node, "it is fed from outside", 0)
        for node in graph
        if node.op in INPUTS and not _TRAINING_SCOPE.search(node.name)
        if any(use.node.name not in savers for use in graph.consumers(node.name))
    )


def guess_outputs(graph: Graph, limit: int = 10) -> tuple[Candidate, ...]:
    """The nodes that most look like outputs, best first; linear in the nodes and edges.

    In a frozen graph these are its ends, whatever they are called. Elsewhere ends come before inner nodes that are
    named like outputs, except beside gradients: what a training run leaves has many ends. Gradients and savers are
    never outputs.
    """
    fed, skipped = _fed(graph), _never_outputs(graph)
    if found := _frozen_ends(graph, fed, skipped):
        return found[:limit]
    likely = [candidate for node in graph if (candidate := _judge(graph, node, fed, skipped)) is not None]
    likely.sort(key=lambda candidate: -candidate.score)
    if not any(_GRADIENT_OP.search(node.op) for node in graph):
        likely = [candidate for candidate in likely if _is_answer(graph, candidate, fed, skipped)] or likely
    best = likely[0].score if likely else 0
    return tuple(candidate for candidate in likely[:limit] if candidate.score >= max(_LEAST, best - 2))


def clear_outputs(graph: Graph) -> tuple[Candidate, ...]:
    """All outputs of a frozen graph, else the likely one; empty where nothing says which of several it is."""
    likely = guess_outputs(graph)
    if len(likely) == 1:
        return likely
    return _frozen_ends(graph, _fed(graph), _never_outputs(graph))


def _frozen_ends(graph: Graph, fed: set[str], skipped: set[str]) -> tuple[Candidate, ...]:
    """The ends of a graph that has nothing but what they need, best first; empty for other graphs."""
    if skipped or any(node.op in VARIABLES | HANDLE_READS for node in graph):
        return ()
    ends = [node for node in graph if not graph.uses[node.name]]
    if any(_gives_nothing(graph, node) or (fed and node.name not in fed) for node in ends):
        return ()
    return tuple(sorted((_scored(graph, node, fed) for node in ends), key=lambda candidate: -candidate.score))


def _is_answer(graph: Graph, candidate: Candidate, fed: set[str], skipped: set[str]) -> bool:
    """Whether a candidate is an end that an input reaches, and no loss."""
    node = graph[_node(candidate)]
    return (not fed or node.name in fed) and not _is_loss(node) and not _takers(graph, node, skipped)


def _takers(graph: Graph, node: Node, skipped: set[str]) -> list[Node]:
    """The nodes that take a tensor of this one; those of the training and the saver do not count."""
    return [use.node for use in graph.consumers(node.name) if use.node.name not in skipped]


def _never_outputs(graph: Graph) -> set[str]:
    """The nodes of gradients, of summaries and of savers."""
    ops = {node.op for node in graph}
    unlikely = {op for op in ops if _GRADIENT_OP.search(op) or _SUMMARY.match(op)}
    found = {node.name for node in graph if node.op in unlikely or _TRAINING_SCOPE.search(node.name)}
    return found | _savers(graph)


def _savers(graph: Graph) -> set[str]:
    """The nodes that save and restore, calls of functions that do included, and all that takes a tensor from them."""
    inside = {name for name, body in graph.library.items() if any(node.op in _SAVER_OPS for node in body.nodes)}
    savers = (
        node.name
        for node in graph
        if node.op in _SAVER_OPS or (node.op in DIRECT_CALLS and getattr(node.get("f"), "name", "") in inside)
    )
    return graph.descendants(savers, control=False)


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


def signed(model: Model, role: Literal["inputs", "outputs"]) -> tuple[Candidate, ...]:
    """The tensors that the signatures name, those of the one that is served by default first."""
    found: dict[str, Candidate] = {}
    for key in sorted(model.signatures, key=lambda key: key != SERVING_DEFAULT):
        if key == INIT_SIGNATURE:
            continue
        for name, info in getattr(model.signatures[key], role).items():
            for text in tensor_names(info):
                tensor = parse_input(text)
                node = model.graph.by_name.get(tensor.node)
                if node is not None and tensor.output >= 0:
                    reason = f"signature {key} names it {name!r}"
                    one = _candidate(model.graph, node, reason, 0, tensor.output)
                    found.setdefault(one.tensor, one)
    return tuple(found.values())


def _fed(graph: Graph) -> set[str]:
    """The names of all nodes that an input reaches."""
    inputs = (node.name for node in graph if node.op in INPUTS or node.op in PIPELINES)
    return graph.descendants(inputs, control=False)


def _judge(graph: Graph, node: Node, fed: set[str], skipped: set[str]) -> Candidate | None:
    op = node.op
    if op in NEVER_OUTPUTS or op.startswith(_NO_ANSWER_PREFIX):
        return None
    if node.name in skipped or _gives_nothing(graph, node):
        return None
    is_named = _OUTPUT_NAME.search(node.name[-_NAME_END:]) is not None
    return _scored(graph, node, fed) if is_named or not _takers(graph, node, skipped) else None


def _scored(graph: Graph, node: Node, fed: set[str]) -> Candidate:
    reasons: list[str] = []
    score = 0
    if not graph.consumers(node.name):
        score += 2 if _is_loss(node) else 3
        reasons.append("nothing takes its output")
    if _OUTPUT_NAME.search(node.name[-_NAME_END:]) is not None:
        score += 3
        reasons.append("it is named like an output")
    if node.name in fed:
        score += 1
        reasons.append("an input reaches it")
    elif fed:
        score -= 2
    if node.op in LIKELY_OUTPUTS:
        score += 1
        reasons.append(f"{node.op} often ends a model")
    return _candidate(graph, node, ", ".join(reasons), score)


def _gives_nothing(graph: Graph, node: Node) -> bool:
    op = graph.op_def(node.op)
    return op is not None and not op.outputs


def _is_loss(node: Node) -> bool:
    """A reduction at the end of a training graph is what it minimises, not what it answers."""
    return node.op in REDUCTIONS or _LOSS_NAME.search(node.name[-_NAME_END:]) is not None


def _candidate(graph: Graph, node: Node, reason: str, score: int, output: int = 0) -> Candidate:
    kind, shape = output_type(graph, node, output), output_shape(node, output)
    return Candidate(f"{node.name}:{output}", node.op, kind, shape, reason, score)


def output_type(graph: Graph, node: Node, index: int = 0) -> DType | None:
    """The type of an output, if op and attributes say it."""
    op = graph.op_def(node.op)
    return None if op is None else op.output_type(node.attrs, index)


def output_shape(node: Node, index: int = 0) -> Shape:
    """The shape of an output, as far as the node's own attributes say it."""
    shapes = node.get("_output_shapes")
    found = shapes[index] if isinstance(shapes, tuple) and index < len(shapes) else None
    if found is None and node.op in INPUTS:
        found = node.get("shape")
    return found if isinstance(found, Shape) else UNKNOWN


def batch_shapes(graph: Graph, size: int) -> dict[str, Shape]:
    """The shapes that the placeholders get when their first dimension becomes `size`; scalars have none.

    Raises:
        UsageError: The size is not positive.
    """
    if size < 1:
        raise UsageError(f"a batch of {size} cannot be", remedy="pass a positive number")
    shapes: dict[str, Shape] = {}
    for node in graph:
        old = node.get("shape", UNKNOWN) if node.op in PLACEHOLDERS else None
        if isinstance(old, Shape) and old.dims:
            shapes[node.name] = Shape((size, *old.dims[1:]))
    return shapes


def set_input_shapes(graph: Graph, shapes: Mapping[str, Shape]) -> tuple[Graph, list[Note]]:
    """Gives placeholders new shapes and drops every `_output_shapes`, which no longer holds.

    Args:
        graph: The graph.
        shapes: The new shapes, by placeholder (`input_shapes`).

    Returns:
        The graph, and a note where constants bake in the old batch size.

    Raises:
        NotFoundInModelError: There is no such placeholder.
        UsageError: The new shape contradicts the old one's rank.
    """
    changes: dict[str, Node] = {}
    baked: set[int] = set()
    for name, shape in shapes.items():
        node = _placeholder(graph, name, {})
        old = node.get("shape", UNKNOWN)
        flaw = shape.flaw()
        if flaw is not None:
            what = f"the new shape {shape} cannot be: {flaw}"
            raise UsageError(what, where=f"node {node.name!r}", remedy="pass a shape that a tensor can have")
        if isinstance(old, Shape) and old.dims is not None and shape.dims is not None:
            if len(old.dims) != len(shape.dims):
                what = f"the input has {len(old.dims)} dimensions {old}, not {len(shape.dims)}"
                raise UsageError(what, where=f"node {node.name!r}", remedy="pass a shape with as many dimensions")
            if old.dims and old.dims[0] >= 1 and old.dims[0] != shape.dims[0]:
                baked.add(old.dims[0])
        changes[node.name] = node.replace(attrs={"shape": shape, "_output_shapes": None})
    for node in graph:
        if "_output_shapes" in node.attrs and node.name not in changes:
            changes[node.name] = node.replace(attrs={"_output_shapes": None})
    changed = graph.map_nodes(changes)
    return changed, _baked_in(changed, baked)


def check_shapes(before: Graph, after: Graph, notes: Sequence[Note]) -> None:
    """Checks that ops can take the new shapes of the inputs; TensorFlow would not load a graph that cannot be.

    Args:
        before: The graph with its old shapes.
        after: What will be written of it, with its new shapes.
        notes: What `set_input_shapes` noted.

    Raises:
        UsageError: An op cannot.
    """
    from tfsmith.ops.inference import find_conflicts  # `show` needs this module, and no shape functions

    found = () if before is after else find_conflicts(after)
    old = {(one.where, one.node) for one in find_conflicts(before)} if found else set()
    for conflict in found:
        if (conflict.where, conflict.node) not in old:
            where = f"{conflict.where}, node {conflict.node!r} ({conflict.op})"
            what = f"the new shapes of the inputs do not fit: {conflict.what}"
            remedies = [f"{note.what}; {note.remedy}" for note in notes]
            raise UsageError(what, where=where, remedy=(*remedies, "pass shapes that the graph can take")[0])


def input_shapes(
    graph: Graph, batch_size: int | None, shapes: Mapping[str, Shape], keys: Mapping[str, str]
) -> dict[str, Shape]:
    """The new shapes by placeholder: those of a batch of this size, and those given by name or key, which count more.

    Raises:
        NotFoundInModelError: There is no such placeholder.
        UsageError: The size cannot be, or two names mean one placeholder.
    """
    given: dict[str, Shape] = {}
    for name, shape in shapes.items():
        node = _placeholder(graph, name, keys).name
        if node in given:
            raise UsageError(f"two shapes are given for placeholder {node!r}", remedy="give one, by key or by name")
        given[node] = shape
    return given if batch_size is None else {**batch_shapes(graph, batch_size), **given}


def input_keys(model: Model, signature: str | None = None) -> dict[str, str]:
    """The placeholders that keys of signatures mean, by key; those of the signature asked for, or default, win."""
    wanted = {signature: 0, SERVING_DEFAULT: 1}
    found: dict[str, str] = {}
    for name in sorted(model.signatures, key=lambda name: wanted.get(name, 2)):
        for key, info in model.signatures[name].inputs.items():
            if info.encoding == "dense":
                found.setdefault(key, parse_input(info.name).node)
    return found


def is_refined(before: Graph, after: Graph) -> bool:
    """Whether placeholders only got sizes that were open before, so that all that was known of shapes still holds."""
    if before is after:
        return True
    for node in before:
        if node.op not in PLACEHOLDERS or node.name not in after:
            continue
        old, new = node.get("shape", UNKNOWN), after[node.name].get("shape", UNKNOWN)
        if not isinstance(old, Shape) or not isinstance(new, Shape) or old.dims is None:
            continue
        if new.dims is None or any(one not in (-1, other) for one, other in zip(old.dims, new.dims, strict=False)):
            return False
    return True


def _placeholder(graph: Graph, name: str, keys: Mapping[str, str]) -> Node:
    """The placeholder of this name, else the one that this key means."""
    for wanted in (parse_input(name).node, keys.get(name, "")):
        found = graph.by_name.get(wanted)
        if found is not None and found.op in PLACEHOLDERS:
            return found
    there = [node.name for node in graph if node.op in PLACEHOLDERS]
    near = nearest(name, [*there, *(key for key, node in keys.items() if node in graph)]) or there
    remedy = f"the placeholders are: {shortened(near)}" if near else "the graph has no placeholder"
    raise NotFoundInModelError(f"there is no placeholder {name!r}", remedy=remedy)


def _baked_in(graph: Graph, sizes: set[int]) -> list[Note]:
    """Constants that give a shape whose first dimension is the old batch size."""
    if not sizes:
        return []
    names: list[str] = []
    for node in graph:
        position = SHAPE_INPUTS.get(node.op)
        const = None if position is None or position >= len(node.inputs) else graph.producer(node, position)
        if const is None or const.constant is None:
            continue
        if _first_size(const.constant) in sizes:
            names.append(const.name)
    if not names:
        return []
    what = f"constants bake in the old batch size {sorted(sizes)[0]}"
    return [Note(what, tuple(dict.fromkeys(names)), "export the model with an open batch size")]


def _first_size(shape: Tensor) -> int | None:
    """The first element of a constant that gives a shape; None if this one cannot."""
    if shape.dtype.name not in ("int32", "int64") or not 0 < (shape.shape.elements or 0) <= MAX_RANK:
        return None
    return int(shape.numpy().reshape(-1)[0])


INIT_SIGNATURE = "__saved_model_init_op"
INIT_COLLECTIONS = ("saved_model_main_op", "legacy_init_op")


def choose_signature(model: Model, key: str | None) -> tuple[str, Signature] | None:
    """The signature asked for, else `serving_default`, else the only one; None if there is none at all.

    Raises:
        NotFoundInModelError: There is no such signature.
        UsageError: There are several and none is the default.
    """
    there = {name: found for name, found in model.signatures.items() if name != INIT_SIGNATURE}
    if key is not None:
        if key not in there:
            near = nearest(key, there) or list(there)
            remedy = f"the signatures are: {shortened(near)}" if near else "it has none; name the outputs ({outputs})"
            raise NotFoundInModelError(f"there is no signature {key!r}", path=model.path, remedy=remedy)
        return key, there[key]
    usable = {name: found for name, found in there.items() if found.outputs}
    if SERVING_DEFAULT in usable:
        return SERVING_DEFAULT, usable[SERVING_DEFAULT]
    if len(usable) > 1:
        names = shortened(list(usable))
        raise UsageError(
            "the model has several signatures", path=model.path, remedy=f"choose one ({{signature}}): {names}"
        )
    return next(iter(usable.items()), None)


def tensor_names(info: TensorInfo) -> list[str]:
    """The tensors of a signature's entry; several for a sparse or composite one."""
    if info.encoding == "dense":
        return [info.name]
    return [name for part in info.components.values() for name in tensor_names(part)]


def choose_outputs(model: Model, outputs: Sequence[str] | None, signature: str | None) -> dict[str, Endpoint]:
    """The outputs by key: as asked for, else of the signature, else of the collection, else the one that is clear.

    Raises:
        NotFoundInModelError: An output is not in the graph; the remedy has the nearest names.
        UsageError: Nothing says what the outputs are; the remedy names the likely ones.
    """
    if outputs:
        return {name: check_tensor(model, name) for name in ([outputs] if isinstance(outputs, str) else outputs)}
    chosen = choose_signature(model, signature)
    if chosen is not None:
        found: dict[str, Endpoint] = {}
        for key, info in chosen[1].outputs.items():
            names = tensor_names(info)
            for number, name in enumerate(names):
                found[key if len(names) == 1 else f"{key}_{number}"] = check_tensor(model, name)
        return found
    left = collected(model, "outputs")
    if left:
        return {candidate.tensor: parse_input(candidate.tensor) for candidate in left}
    clear = clear_outputs(model.graph)
    if clear:
        return {candidate.tensor: parse_input(candidate.tensor) for candidate in clear}
    likely = guess_outputs(model.graph)
    if not likely:
        raise UsageError("nothing says what the outputs are", path=model.path, remedy="name them ({outputs})")
    what = "nothing says which of several are the outputs"
    raise UsageError(what, path=model.path, remedy=f"choose with {{outputs}}; likely are: {_listed(likely)}")


def _listed(likely: Sequence[Candidate]) -> str:
    """Candidates for an error: the best one with its reason, and others as far as there is room."""
    first = f"{likely[0].tensor} ({likely[0].reason})"
    return f"{first}; {shortened([candidate.tensor for candidate in likely[1:]], 80)}" if len(likely) > 1 else first


def check_tensor(model: Model, name: str) -> Endpoint:
    """A tensor or node that must be in the graph."""
    endpoint = parse_input(name)
    if endpoint.node not in model.graph:
        near = nearest(endpoint.node, model.graph.by_name)
        remedy = f"the nearest names are {', '.join(near)}" if near else "{show(model, outputs=True)} lists likely ones"
        raise NotFoundInModelError(f"there is no node {endpoint.node!r} in the graph", path=model.path, remedy=remedy)
    if endpoint.output == CONTROL:
        what = f"{name!r} is a control edge, which gives no tensor"
        raise NotFoundInModelError(what, path=model.path, remedy=f"name the node itself: {endpoint.node}")
    node = model.graph[endpoint.node]
    op = model.graph.op_def(node.op) if endpoint.output else None  # a node without outputs may be named, too
    count = None if op is None else op.output_count(node.attrs)
    if count is not None and endpoint.output >= count:
        what = f"node {node.name!r} gives {count} tensor{'s' * (count != 1)}, so there is no output {endpoint.output}"
        raise UsageError(what, path=model.path, remedy="{show(model, outputs=True)} lists likely tensors")
    return endpoint


def init_nodes(meta: MetaGraph) -> list[str]:
    """The nodes that must run once before the model answers: those that fill its tables."""
    names: list[str] = []
    signature = meta.signatures.get(INIT_SIGNATURE)
    if signature is not None:
        names += [info.name for info in signature.outputs.values()]
    collections: Mapping[str, object] = meta.collections
    for key in INIT_COLLECTIONS:
        if key in collections and meta.collections[key].kind == "node":
            names += meta.collections[key].values
    graph = meta.graph
    return list(dict.fromkeys(node for name in names if (node := parse_input(name).node) in graph))


Interface = Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]]
"""For each signature by key, its inputs and its outputs: keys to tensor names."""


def make_signatures(
    model: Model, graph: Graph, asked: Interface, method_name: str = PREDICT, *, guess: bool = False
) -> dict[str, Signature]:
    """Those asked for, else those that the model has, else one of its collections `inputs` and `outputs`.

    Args:
        model: The model.
        graph: Its graph, whose shapes may be others than the model's.
        asked: What the user asked for.
        method_name: The method of new signatures.
        guess: Whether to take the likely inputs and outputs where nothing else says them, if they are clear.

    Raises:
        NotFoundInModelError: A tensor is not there.
        UsageError: Nothing says what the inputs and outputs are.
    """
    if asked:
        return {key: _asked(model, graph, inputs, outputs, method_name) for key, (inputs, outputs) in asked.items()}
    there = {key: found for key, found in model.signatures.items() if key != INIT_SIGNATURE}
    if there:
        return {key: _shaped(found, model, graph) for key, found in there.items()}
    inputs, outputs = collected(model, "inputs"), collected(model, "outputs")
    if not outputs and guess:
        inputs, outputs = guess_inputs(graph), clear_outputs(graph)
    if not outputs:
        raise _unclear(model, guess_outputs(graph) if guess else ())
    reached = graph.ancestors(_node(candidate) for candidate in outputs)
    taken = [candidate for candidate in inputs if _node(candidate) in reached]
    return {SERVING_DEFAULT: Signature(_named(model, graph, taken), _named(model, graph, outputs), method_name)}


def _asked(
    model: Model, graph: Graph, inputs: Mapping[str, str], outputs: Mapping[str, str], method_name: str
) -> Signature:
    """A signature as the user asked for it; without inputs, with those that its outputs need.

    Raises:
        UsageError: The outputs need a placeholder that is no input: nothing could run it.
    """
    given = {name: _info(model, graph, tensor) for name, tensor in sorted(inputs.items())}
    found = {name: _info(model, graph, tensor) for name, tensor in sorted(outputs.items())}
    ends = {parse_input(tensor).node for tensor in outputs.values()}
    fed = {parse_input(tensor).node for tensor in inputs.values()}
    needed = graph.ancestors(ends - fed, known=fed)
    missing = [node for node in graph if node.name in needed and node.op in ("Placeholder", "PlaceholderV2")]
    if not inputs:
        likely = [_candidate(graph, node, "the outputs need it", 0) for node in missing]
        return Signature(_named(model, graph, likely), found, method_name)
    if missing:
        names = [node.name for node in missing]
        what = f"the outputs need {len(names)} more input{'s' * (len(names) != 1)}: {shortened(names)}"
        remedy = "name them as inputs too, or leave all inputs out to have them found"
        raise UsageError(what, path=model.path, remedy=remedy)
    return Signature(given, found, method_name)


def _shaped(signature: Signature, model: Model, graph: Graph) -> Signature:
    """The signature with the shapes that inputs have now. Those of outputs stay, as far as they must still hold."""
    if graph is model.graph:
        return signature
    inputs: dict[str, TensorInfo] = {}
    for key, info in signature.inputs.items():
        node = graph.by_name.get(parse_input(info.name).node) if info.encoding == "dense" else None
        shape = UNKNOWN if node is None else output_shape(node)
        inputs[key] = info if shape.dims is None else replace(info, shape=shape)
    outputs = dict(signature.outputs)
    if not is_refined(model.graph, graph):
        outputs = {key: replace(info, shape=UNKNOWN) for key, info in outputs.items()}
    return replace(signature, inputs=inputs, outputs=outputs)


def _unclear(model: Model, likely: Sequence[Candidate]) -> UsageError:
    what = "nothing says what the inputs and outputs are"
    remedy = "name them: {inputs='KEY=TENSOR'} {outputs='KEY=TENSOR'}"
    if likely:
        return UsageError(what, path=model.path, remedy=f"{remedy}; likely outputs are: {_listed(likely)}")
    return UsageError(what, path=model.path, remedy=f"{remedy} ({{show(model, outputs=True)}} lists likely ones)")


def _node(candidate: Candidate) -> str:
    return candidate.tensor.rpartition(":")[0]


def _named(model: Model, graph: Graph, found: Sequence[Candidate]) -> dict[str, TensorInfo]:
    """The tensors by the last words of their names, or by their whole names where that would not be clear."""
    short = [_node(candidate).rpartition("/")[2] for candidate in found]
    clear = len(set(short)) == len(short)
    keys = short if clear else [candidate.tensor for candidate in found]
    return {key: _info(model, graph, candidate.tensor) for key, candidate in zip(keys, found, strict=True)}


def _info(model: Model, graph: Graph, name: str) -> TensorInfo:
    endpoint = check_tensor(model, name)
    node = graph[endpoint.node]
    op = graph.op_def(node.op)
    count = None if op is None else sum(output.count(node.attrs) for output in op.outputs)
    if count is not None and endpoint.output >= count:
        what = f"node {node.name!r} gives {count} tensor{'s' * (count != 1)}, so there is no output {endpoint.output}"
        if count == 0:
            what = f"node {node.name!r} is an operation ({node.op}) that gives no tensor"
        raise UsageError(what, path=model.path, remedy="{show(model, outputs=True)} lists likely tensors")
    kind = output_type(graph, node, endpoint.output)
    base = dtype_named("invalid") if kind is None else kind.base
    shape = output_shape(node, endpoint.output)
    if shape.dims is None and node.name in model.graph and is_refined(model.graph, graph):
        shape = output_shape(model.graph[node.name], endpoint.output)  # new shapes of inputs took it away
    return TensorInfo(str(endpoint), base, shape)
