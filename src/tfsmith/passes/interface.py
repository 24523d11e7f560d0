"""Which tensors a job on a model is about: named by the user, by a signature, or found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfsmith.errors import NotFoundInModelError, UsageError
from tfsmith.ir.metagraph import MetaGraph
from tfsmith.ir.model import Model
from tfsmith.ir.names import nearest
from tfsmith.ir.node import CONTROL, Endpoint, parse_input
from tfsmith.ir.signature import SERVING_DEFAULT, Signature, TensorInfo
from tfsmith.passes.endpoints import collected, guess_outputs

__all__ = [
    "INIT_COLLECTIONS",
    "INIT_SIGNATURE",
    "choose_signature",
    "choose_outputs",
    "init_nodes",
    "tensor_names",
    "check_tensor",
]

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
            remedy = f"the signatures are: {', '.join(near)}" if near else "it has none; name the outputs (--outputs)"
            raise NotFoundInModelError(f"there is no signature {key!r}", path=model.path, remedy=remedy)
        return key, there[key]
    usable = {name: found for name, found in there.items() if found.outputs}
    if SERVING_DEFAULT in usable:
        return SERVING_DEFAULT, usable[SERVING_DEFAULT]
    if len(usable) > 1:
        names = ", ".join(usable)
        raise UsageError(
            "the model has several signatures", path=model.path, remedy=f"choose one (--signature): {names}"
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
        return {name: check_tensor(model, name) for name in outputs}
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
    likely = guess_outputs(model.graph)
    if len(likely) == 1:
        return {likely[0].tensor: parse_input(likely[0].tensor)}
    if not likely:
        raise UsageError("nothing says what the outputs are", path=model.path, remedy="name them (--outputs a,b)")
    listed = "; ".join(f"{candidate.tensor} ({candidate.reason})" for candidate in likely[:5])
    what = "nothing says which of several are the outputs"
    raise UsageError(what, path=model.path, remedy=f"choose with --outputs; likely are: {listed}")


def check_tensor(model: Model, name: str) -> Endpoint:
    """A tensor or node that must be in the graph."""
    endpoint = parse_input(name)
    if endpoint.node not in model.graph:
        near = nearest(endpoint.node, model.graph.by_name)
        remedy = f"the nearest names are {', '.join(near)}" if near else "`tfsmith show --outputs` lists likely ones"
        raise NotFoundInModelError(f"there is no node {endpoint.node!r} in the graph", path=model.path, remedy=remedy)
    if endpoint.output == CONTROL:
        what = f"{name!r} is a control edge, which gives no tensor"
        raise NotFoundInModelError(what, path=model.path, remedy=f"name the node itself: {endpoint.node}")
    node = model.graph[endpoint.node]
    op = model.graph.op_def(node.op) if endpoint.output else None  # a node without outputs may be named, too
    count = None if op is None else op.output_count(node.attrs)
    if count is not None and endpoint.output >= count:
        what = f"node {node.name!r} gives {count} tensor{'s' * (count != 1)}, so there is no output {endpoint.output}"
        raise UsageError(what, path=model.path, remedy="`tfsmith show --outputs` lists likely tensors")
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
