"""The signatures of a model that is to be written: as asked for, as it has them, or found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfsmith.errors import UsageError
from tfsmith.ir.dtype import dtype_named
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Model
from tfsmith.ir.node import parse_input
from tfsmith.ir.shape import UNKNOWN
from tfsmith.ir.signature import PREDICT, SERVING_DEFAULT, Signature, TensorInfo
from tfsmith.passes.endpoints import Candidate, collected, guess_inputs, guess_outputs, output_shape, output_type
from tfsmith.passes.interface import INIT_SIGNATURE, check_tensor
from tfsmith.passes.set_shape import is_refined
from tfsmith.records import replace

__all__ = ["Interface", "make_signatures"]

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
        return {
            key: Signature(
                {name: _info(model, graph, tensor) for name, tensor in sorted(inputs.items())},
                {name: _info(model, graph, tensor) for name, tensor in sorted(outputs.items())},
                method_name,
            )
            for key, (inputs, outputs) in asked.items()
        }
    there = {key: found for key, found in model.signatures.items() if key != INIT_SIGNATURE}
    if there:
        return {key: _shaped(found, model, graph) for key, found in there.items()}
    inputs, outputs = collected(model, "inputs"), collected(model, "outputs")
    if not outputs and guess:
        inputs, outputs = guess_inputs(graph), guess_outputs(graph)
    if not outputs or (guess and len(outputs) > 1 and not collected(model, "outputs")):
        raise _unclear(model, outputs)
    reached = graph.ancestors(_node(candidate) for candidate in outputs)
    taken = [candidate for candidate in inputs if _node(candidate) in reached]
    return {SERVING_DEFAULT: Signature(_named(model, graph, taken), _named(model, graph, outputs), method_name)}


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
    remedy = "name them: --input KEY=TENSOR --output KEY=TENSOR"
    if likely:
        listed = "; ".join(f"{candidate.tensor} ({candidate.reason})" for candidate in likely[:5])
        return UsageError(what, path=model.path, remedy=f"{remedy}; likely outputs are: {listed}")
    return UsageError(what, path=model.path, remedy=f"{remedy} (`tfsmith show --outputs` lists likely ones)")


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
        raise UsageError(what, path=model.path, remedy="`tfsmith show --outputs` lists likely tensors")
    kind = output_type(graph, node, endpoint.output)
    base = dtype_named("invalid") if kind is None else kind.base
    shape = output_shape(node, endpoint.output)
    if shape.dims is None and node.name in model.graph and is_refined(model.graph, graph):
        shape = output_shape(model.graph[node.name], endpoint.output)  # new shapes of inputs took it away
    return TensorInfo(str(endpoint), base, shape)
