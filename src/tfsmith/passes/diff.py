"""What differs between two models, apart from the values of their weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfsmith.ir.graph import Function, Graph, Library
from tfsmith.ir.model import Collection, MetaGraph, Model, ObjectGraph, Signature, TensorInfo
from tfsmith.ir.opdef import ArgDef, OpDef
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import Shape
from tfsmith.passes.diff_bodies import (
    FunctionDifference,
    StructureDifference,
    TensorPair,
    ValueChange,
    diff_attrs,
    diff_bodies,
    tensor_digest,
)

__all__ = ["diff_structure"]

_COUNTER = re.compile(r"_\d{1,12}$")
"""TensorFlow 2 ends the names of functions with a number that is another one each time a model is saved."""

_LONGEST_PATH = 200
"""Saved objects are told by their path; a file may nest them as deep as it likes."""


def diff_structure(
    first: Model, second: Model, *, read_values: bool = True, inferred_shapes: bool = False
) -> StructureDifference:
    """What differs between the selected meta graphs of two models. Linear in nodes and edges.

    Constants of one dtype and shape are not compared but handed back; those that were added or removed are read once,
    to find the ones that were only renamed, unless `read_values` is False. Where one of the two is a graph alone, what
    a graph cannot hold (signatures, collections, assets, the saver) is left out.

    Raises:
        NotFoundInModelError: One of them has no graph.
        InvalidModelError: Two nodes of a graph have one name.
    """
    one, other = first.meta, second.meta
    pairs = _pair_functions(one.graph.library, other.graph.library)
    renamed = {old: new for old, new in pairs.items() if old != new}
    how = {"read_values": read_values, "inferred_shapes": inferred_shapes}
    nodes, constants, renames = diff_bodies(one.graph, other.graph, renamed, **how)
    functions = []
    for old, new in pairs.items():
        found = _diff_functions(one.graph.library[old], other.graph.library[new], renamed, constants, how)
        if found is not None:
            functions.append(found)
    taken = set(pairs.values())
    is_alike = (first.kind == "graphdef") == (second.kind == "graphdef")
    return StructureDifference(
        nodes=nodes,
        functions_added=tuple(name for name in other.graph.library if name not in taken),
        functions_removed=tuple(name for name in one.graph.library if name not in pairs),
        functions=tuple(functions),
        function_count=len(pairs),
        signatures=tuple(_diff_signatures(one.signatures, other.signatures, read_values)) if is_alike else (),
        collections=tuple(_diff_collections(one.collections, other.collections)) if is_alike else (),
        assets=tuple(_diff_assets(one, other)) if is_alike else (),
        versions=tuple(_diff_versions(first, second)),
        others=(
            *(_diff_saver(one, other) if is_alike else ()),
            *_diff_gradients(one.graph, other.graph, renamed),
            *(_diff_objects(one.objects, other.objects) if is_alike else ()),
        ),
        constants=tuple(constants),
        renamed_nodes=renames,
    )


def _pair_functions(first: Library, second: Library) -> dict[str, str]:
    """The second library's name of each function that both have; a name that differs in its number only counts."""
    pairs = {name: name for name in first if name in second}
    left: dict[str, list[str]] = {}
    for name in second:
        if name not in first:
            left.setdefault(_COUNTER.sub("", name), []).append(name)
    theirs = {base: iter(sorted(names, key=_number)) for base, names in left.items()}
    for name in sorted((name for name in first if name not in second), key=_number):
        new = next(theirs.get(_COUNTER.sub("", name), iter(())), None)
        if new is not None:
            pairs[name] = new
    return {name: pairs[name] for name in first if name in pairs}


def _number(name: str) -> tuple[int, str]:
    found = _COUNTER.search(name)
    return (int(found[0][1:]) if found else -1, name)


def _diff_functions(
    first: Function,
    second: Function,
    functions: Mapping[str, str],
    constants: list[TensorPair],
    how: Mapping[str, bool],
) -> FunctionDifference | None:
    same_name = first.name == second.name
    if same_name and not functions and _same_bytes(first, second):
        return None
    body, pairs, renames = diff_bodies(first, second, functions, **how)
    constants += [TensorPair(f"{second.name}/{pair.name}", pair.first, pair.second) for pair in pairs]
    facts = tuple(_function_facts(first, second, renames))
    attrs = tuple(diff_attrs(first.attrs, second.attrs, functions))
    if same_name and not body and not facts and not attrs:
        return None
    return FunctionDifference(first.name, second.name, facts, attrs, body)


def _same_bytes(first: Function, second: Function) -> bool:
    """Whether both stand in their files alike. Functions hold few constants, so that this reads little."""
    one, other = first.raw, second.raw
    return one is not None and other is not None and len(one) == len(other) and one.tobytes() == other.tobytes()


def _function_facts(first: Function, second: Function, renames: Mapping[str, str]) -> Iterator[ValueChange]:
    for what, old, new in (
        ("takes", _args(first.signature.inputs), _args(second.signature.inputs)),
        ("gives", _args(first.signature.outputs), _args(second.signature.outputs)),
        ("stateful", first.signature.is_stateful, second.signature.is_stateful),
        ("type parameters", _parameters(first.signature), _parameters(second.signature)),
    ):
        if old != new:
            yield ValueChange(what, old, new)
    for what, old_ends, new_ends in (
        ("result", first.ret, second.ret),
        ("control output", first.control_ret, second.control_ret),
    ):
        for key in sorted({*old_ends, *new_ends}):
            old_text, new_text = old_ends.get(key), new_ends.get(key)
            name, colon, rest = (old_text or "").partition(":")
            if old_text is None or f"{renames.get(name, name)}{colon}{rest}" != new_text:
                yield ValueChange(f"{what} {key}", old_text, new_text)
    arg_attrs = (first.part.value.arg_attrs, second.part.value.arg_attrs)
    for number in sorted({*arg_attrs[0], *arg_attrs[1]}):
        for change in diff_attrs(arg_attrs[0].get(number, {}), arg_attrs[1].get(number, {}), {}):
            ours = None if change.first is None else change.first.value
            theirs = None if change.second is None else change.second.value
            if change.name == "_user_specified_name" and _is_counted(ours) and _is_counted(theirs):
                continue  # what a function captures is named by a counter, as functions are
            yield ValueChange(f"argument {number}, attribute {change.name}", ours, theirs)


def _is_counted(value: Any) -> bool:
    return isinstance(value, bytes) and value.isdigit()


def _args(args: tuple[ArgDef, ...]) -> str:
    return ", ".join(f"{arg.name} {arg.type or arg.type_list_attr or arg.type_attr}" for arg in args)


def _parameters(op: OpDef) -> str:
    return ", ".join(f"{attr.name} {attr.kind}" for attr in op.attrs)


def _diff_signatures(
    first: Mapping[str, Signature], second: Mapping[str, Signature], read_values: bool
) -> Iterator[ValueChange]:
    for key in sorted({*first, *second}):
        one, other = first.get(key), second.get(key)
        if one is None or other is None:
            yield ValueChange(key, _signature(one), _signature(other))
            continue
        if one.method_name != other.method_name:
            yield ValueChange(f"{key}, method", one.method_name, other.method_name)
        for what, old, new in (("input", one.inputs, other.inputs), ("output", one.outputs, other.outputs)):
            for name in sorted({*old, *new}):
                ours, theirs = _info(old.get(name)), _info(new.get(name))
                if ours != theirs:
                    yield ValueChange(f"{key}, {what} {name}", ours, theirs)
        for name in sorted({*one.defaults, *other.defaults}):
            ours, theirs = (_default(side.defaults.get(name), read_values) for side in (one, other))
            if ours != theirs:
                yield ValueChange(f"{key}, default of {name}", ours, theirs)


def _signature(signature: Signature | None) -> str | None:
    return None if signature is None else f"{', '.join(signature.inputs)} -> {', '.join(signature.outputs)}"


def _info(info: TensorInfo | None) -> str | None:
    if info is None:
        return None
    if info.encoding == "dense":
        return f"{info.name} {info.dtype} {info.shape}"
    parts = ", ".join(f"{role} {_info(part)}" for role, part in sorted(info.components.items()))
    return f"{info.encoding} {info.dtype} {info.shape} ({parts})"


def _default(tensor: Tensor | None, read_values: bool) -> str | None:
    if tensor is None:
        return None
    digest = tensor_digest(tensor) if read_values else None
    return f"{tensor.dtype} {tensor.shape}" + (f", digest {digest.hex()[:8]}" if digest else "")


def _diff_collections(first: Mapping[str, Collection], second: Mapping[str, Collection]) -> Iterator[ValueChange]:
    for key in sorted({*first, *second}):
        one, other = first.get(key), second.get(key)
        if one is None or other is None or (one.kind, one.values) != (other.kind, other.values):
            yield ValueChange(key, _collection(one, other), _collection(other, one))


def _collection(collection: Collection | None, other: Collection | None) -> str | None:
    """How many values it has, and of a list of names those that the other has not."""
    if collection is None:
        return None
    count = f"{len(collection.values)} value{'s' * (len(collection.values) != 1)}"
    if collection.kind != "node" or other is None:
        return count
    theirs = set(other.values)
    own = [str(value) for value in collection.values if value not in theirs]
    return count + (f", {', '.join(own[:3])}{' ...' if len(own) > 3 else ''}" if own else "")


def _diff_assets(first: MetaGraph, second: MetaGraph) -> Iterator[ValueChange]:
    old = {asset.filename: asset.tensor_name for asset in first.assets}
    new = {asset.filename: asset.tensor_name for asset in second.assets}
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield ValueChange(name, old.get(name), new.get(name))


def _diff_versions(first: Model, second: Model) -> Iterator[ValueChange]:
    one, other = first.meta, second.meta
    facts: list[tuple[str, object, object]] = [
        ("producer", one.graph.versions.producer, other.graph.versions.producer),
        ("min_consumer", one.graph.versions.min_consumer, other.graph.versions.min_consumer),
        ("bad_consumers", list(one.graph.versions.bad_consumers), list(other.graph.versions.bad_consumers)),
    ]
    if "graphdef" not in (first.kind, second.kind):  # a graph alone does not say the rest
        facts += [
            ("TensorFlow", one.info.tensorflow_version, other.info.tensorflow_version),
            ("git version", one.info.tensorflow_git_version, other.info.tensorflow_git_version),
            ("meta graph version", one.info.meta_graph_version, other.info.meta_graph_version),
        ]
        if first.kind == second.kind:
            facts.append(("tag sets", _tag_sets(first), _tag_sets(second)))
    return (ValueChange(what, old, new) for what, old, new in facts if old != new)


def _tag_sets(model: Model) -> list[str]:
    return sorted(",".join(sorted(tags)) for tags in model.tag_sets)


def _diff_saver(first: MetaGraph, second: MetaGraph) -> Iterator[ValueChange]:
    one, other = first.saver, second.saver
    for name in ("restore_op_name", "save_tensor_name", "filename_tensor_name", "sharded", "version", "max_to_keep"):
        ours, theirs = getattr(one, name, None), getattr(other, name, None)
        if ours != theirs:
            yield ValueChange(f"saver, {name}", ours, theirs)


def _diff_gradients(first: Graph, second: Graph, functions: Mapping[str, str]) -> Iterator[ValueChange]:
    for what in ("gradients", "registered_gradients"):
        old: Mapping[str, str] = getattr(first.library, what)
        new: Mapping[str, str] = getattr(second.library, what)
        ours = {functions.get(key, key): functions.get(value, value) for key, value in old.items()}
        for key in sorted({*ours, *new}):
            if ours.get(key) != new.get(key):
                yield ValueChange(f"gradient of {key}", ours.get(key), new.get(key))


def _diff_objects(first: ObjectGraph | None, second: ObjectGraph | None) -> Iterator[ValueChange]:
    """The saved objects, by their paths from the root: what kind each is."""
    if first is None or second is None:
        if first is not second:
            yield ValueChange("saved objects", _count(first), _count(second))
        return
    old, new = _object_kinds(first), _object_kinds(second)
    for path in sorted({*old, *new}):
        if old.get(path) != new.get(path):
            yield ValueChange(f"object {path}", old.get(path), new.get(path))


def _count(objects: ObjectGraph | None) -> str | None:
    return None if objects is None else f"{len(objects.nodes)} objects"


def _object_kinds(objects: ObjectGraph) -> dict[str, Any]:
    """Each object once, under the first path that leads to it."""
    kinds: dict[str, Any] = {}
    seen: set[int] = set()
    todo = [(0, "root")]
    for number, path in todo:  # grows while it is walked
        if number in seen or not 0 <= number < len(objects.nodes):
            continue
        seen.add(number)
        node = objects.nodes[number]
        kinds[path] = _object_kind(node.kind, node.details)
        base = path if len(path) <= _LONGEST_PATH else f"#{number}"
        todo += [(child, f"{base}.{name}") for name, child in sorted(node.children.items())]
    return kinds


def _object_kind(kind: str, details: Mapping[str, Any]) -> str:
    """A variable with its dtype and shape; of all others, what they are."""
    if kind != "variable":
        return str(details.get("identifier") or kind or "object")
    found = details.get("shape")
    dims = found.get("dim", ()) if isinstance(found, Mapping) else ()
    shape = Shape(tuple(int(dim.get("size", 0)) for dim in dims))
    return f"variable {details.get('dtype')} {shape}"
