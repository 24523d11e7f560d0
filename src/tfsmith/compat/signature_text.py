"""What a SavedModel offers, character for character as TensorFlow's `saved_model_cli show` tells it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tfsmith.compat.functions_text import functions_text
from tfsmith.errors import NotFoundInModelError
from tfsmith.ir.model import MetaGraph, Model, Signature, TensorInfo, format_tags
from tfsmith.ir.node import Func, Node

__all__ = ["all_text", "find_meta_graph", "ops_text", "signature_keys_text", "signature_text", "tag_sets_text"]

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def find_meta_graph(model: Model, tags: Iterable[str]) -> MetaGraph:
    """The first meta graph with exactly these tags; TensorFlow takes the first as well.

    Raises:
        NotFoundInModelError: There is none; the remedy lists the tag sets.
    """
    wanted = set(tags)
    for meta in model.meta_graphs:
        if set(meta.tags) == wanted:
            return meta
    there = " and ".join(format_tags(tags) for tags in model.tag_sets) or "none"
    what = f"there is no meta graph with the tag set {format_tags(wanted)}"
    raise NotFoundInModelError(what, path=model.path, remedy=f"the tag sets are: {there}")


def tag_sets_text(model: Model) -> str:
    """The list of tag sets."""
    rows = [repr(", ".join(sorted(tags))) for tags in sorted(model.tag_sets)]
    return _lines(["The given SavedModel contains the following tag-sets:", *rows])


def signature_keys_text(meta: MetaGraph) -> str:
    """The list of signature keys."""
    rows = [f'SignatureDef key: "{key}"' for key in sorted(meta.signatures)]
    return _lines(["The given SavedModel MetaGraphDef contains SignatureDefs with the following keys:", *rows])


def signature_text(meta: MetaGraph, key: str) -> str:
    """One signature: its inputs, outputs and method.

    Raises:
        NotFoundInModelError: There is no such signature; the remedy lists those that are there.
    """
    found = meta.signatures.get(key)
    if found is None:
        remedy = f"the signatures are: {', '.join(sorted(meta.signatures)) or 'none'}"
        path = None if meta.raw is None else meta.raw.name
        raise NotFoundInModelError(f"there is no signature {key!r}", path=path, remedy=remedy)
    return _lines(_signature(found))


def ops_text(meta: MetaGraph) -> str:
    """The ops of the graph and of the functions that it calls, as a Python set, sorted."""
    ops = ", ".join(repr(op) for op in sorted(_used_ops(meta)))
    shown = f"{{{ops}}}" if ops else "set()"
    return f"The MetaGraph with tag set {list(meta.tags)} contains the following ops: {shown}\n"


def all_text(model: Model) -> str:
    """Everything: each meta graph with its signatures and ops, then the concrete functions."""
    parts = []
    for meta in sorted(model.meta_graphs, key=lambda meta: meta.tags):
        tags = ", ".join(meta.tags)
        parts.append(f"\nMetaGraphDef with tag-set: '{tags}' contains the following SignatureDefs:\n")
        for key in sorted(meta.signatures):
            parts.append(f"\nsignature_def['{key}']:\n")
            parts.append(_lines(f"  {line}" for line in _signature(meta.signatures[key])))
        parts.append(ops_text(meta))
    parts.append(functions_text(model))
    return "".join(parts)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _signature(signature: Signature) -> Iterator[str]:
    yield from _tensors("input", signature.inputs)
    yield from _tensors("output", signature.outputs)
    yield f"Method name is: {signature.method_name}"


def _tensors(what: str, infos: Mapping[str, TensorInfo]) -> Iterator[str]:
    yield f"The given SavedModel SignatureDef contains the following {what}(s):"
    for key in sorted(infos):
        dims = infos[key].shape.dims
        yield f"  {what}s['{key}'] tensor_info:"
        yield f"      dtype: {infos[key].dtype.proto_name}"
        yield f"      shape: {'unknown_rank' if dims is None else '(' + ', '.join(map(str, dims)) + ')'}"
        yield f"      name: {infos[key].name}"


def _used_ops(meta: MetaGraph) -> set[str]:
    """TensorFlow follows calls by op name and by the two call ops, and into no other function."""
    library = meta.graph.library
    seen: set[str] = set()
    waiting: list[tuple[Node, ...]] = [meta.graph.nodes]
    while waiting:
        named = {name for node in waiting.pop() for name in _named_ops(node)}
        waiting.extend(library[name].nodes for name in named - seen if name in library)
        seen |= named
    return {name for name in seen if name not in library}


def _named_ops(node: Node) -> Iterator[str]:
    yield node.op
    if node.op in _CALLS:
        called = node.get("f")
        yield called.name if isinstance(called, Func) else ""
