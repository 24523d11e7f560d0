"""What differs between two graphs, or between two functions: nodes paired by name, then by what they do. Linear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tfsmith.ir.attr import Attr, Func
from tfsmith.ir.body import Body
from tfsmith.ir.differences import AttrChange, BodyDifference, InputChange, NodeChange, TensorPair
from tfsmith.ir.node import Node
from tfsmith.ir.opdb import OpLookup
from tfsmith.passes.diff_renames import canonical, find_renames

__all__ = ["diff_attrs", "diff_bodies"]

_INFERRED = "_output_shapes"
_LOOP_HEADS = frozenset({"Merge", "RefMerge"})
"""They take the back edge of a loop, which is not known when renamed nodes are found."""


def diff_bodies(
    first: Body,
    second: Body,
    functions: Mapping[str, str],
    *,
    read_values: bool = True,
    inferred_shapes: bool = False,
) -> tuple[BodyDifference, list[TensorPair], dict[str, str]]:
    """What differs, the constants whose values are still to be compared, and the new names of renamed nodes.

    Args:
        first: A graph or function.
        second: Another.
        functions: The second model's name of each function of the first that both have.
        read_values: Whether constants may be read to find renamed ones.
        inferred_shapes: Whether shapes that TensorFlow noted down at each node count, though it infers them anew.

    Raises:
        InvalidModelError: Two nodes have one name.
    """
    old, new = first.by_name, second.by_name
    removed = {name: node for name, node in old.items() if name not in new}
    added = {name: node for name, node in new.items() if name not in old}
    renames = find_renames(removed, added, functions, read_values=read_values)
    back = set(renames.values())
    renamed: list[tuple[Node, Node]] = []
    changed: list[NodeChange] = []
    pairs: list[TensorPair] = []
    same = 0
    for node in first.nodes:
        other = new.get(renames.get(node.name, node.name))
        if other is None:
            continue
        if node.name != other.name:
            renamed.append((node, other))
            if node.op not in _LOOP_HEADS:
                continue  # it was found by all that could differ
        change = _diff_nodes(node, other, renames, functions, (first.op_def, second.op_def), pairs)
        if change is not None and not inferred_shapes:
            change = _without_shapes(change, functions)
        if change is not None:
            changed.append(change)
        elif node.name == other.name:
            same += 1
    difference = BodyDifference(
        tuple(node for node in second.nodes if node.name in added and node.name not in back),
        tuple(node for node in first.nodes if node.name in removed and node.name not in renames),
        tuple(renamed),
        tuple(changed),
        same,
    )
    return difference, pairs, renames


def _diff_nodes(
    first: Node,
    second: Node,
    renames: Mapping[str, str],
    functions: Mapping[str, str],
    ops: tuple[OpLookup, OpLookup],
    pairs: list[TensorPair],
) -> NodeChange | None:
    if first is second or _same_bytes(first, second):
        return None
    inputs = tuple(_diff_inputs(first, second, renames))
    defaults = (_defaults(first, ops[0]), _defaults(second, ops[1]))
    attrs = tuple(diff_attrs(first.attrs, second.attrs, functions, defaults, pairs, second.name))
    same_op = functions.get(first.op, first.op) == second.op
    if not same_op:  # another op has other attributes
        attrs = tuple(attr for attr in attrs if attr.first is not None and attr.second is not None)
    if same_op and first.device == second.device and not inputs and not attrs:
        return None
    return NodeChange(first, second, inputs, attrs)


def _without_shapes(change: NodeChange, functions: Mapping[str, str]) -> NodeChange | None:
    """The change without the shapes that TensorFlow noted down; None if nothing else changed."""
    attrs = tuple(attr for attr in change.attrs if attr.name != _INFERRED)
    if len(attrs) == len(change.attrs):
        return change
    first, second = change.first, change.second
    is_same = functions.get(first.op, first.op) == second.op and first.device == second.device
    return None if is_same and not attrs and not change.inputs else NodeChange(first, second, change.inputs, attrs)


def _same_bytes(first: Node, second: Node) -> bool:
    """Whether both stand in their files alike. Constants are not read here: they may be large."""
    if first.op == "Const" or first.name != second.name or first.inputs != second.inputs or first.op != second.op:
        return False
    one, other = first.raw, second.raw
    return one is not None and other is not None and len(one) == len(other) and one.tobytes() == other.tobytes()


def _diff_inputs(first: Node, second: Node, renames: Mapping[str, str]) -> Iterator[InputChange]:
    if first.inputs == second.inputs and not renames:
        return
    mapped = [_renamed(text, renames) for text in first.inputs]
    data = [(text, now) for text, now in zip(first.inputs, mapped, strict=True) if not text.startswith("^")]
    others = second.data_inputs
    for index in range(max(len(data), len(others))):
        old = data[index] if index < len(data) else None
        now = others[index] if index < len(others) else None
        if old is None or now is None or old[1] != "".join(canonical(now)):
            yield InputChange(index, None if old is None else old[0], now)
    if not (len(data) < len(mapped) or len(others) < len(second.inputs)):
        return
    controls = Counter(now for now in mapped if now.startswith("^"))
    theirs = Counter(text for text in second.inputs if text.startswith("^"))
    if controls == theirs:
        return
    for text, now in zip(first.inputs, mapped, strict=True):
        if now.startswith("^") and now not in theirs:
            yield InputChange(None, text, None)
    yield from (InputChange(None, None, text) for text in theirs if text not in controls)


def _renamed(text: str, renames: Mapping[str, str]) -> str:
    name, rest = canonical(text)
    if name.startswith("^"):
        return f"^{renames.get(name[1:], name[1:])}"
    return renames.get(name, name) + rest


def _defaults(node: Node, ops: OpLookup) -> Mapping[str, Attr]:
    """What attributes mean where a file leaves them out."""
    op = ops(node.op)
    return {} if op is None else {attr.name: attr.default for attr in op.attrs if attr.default is not None}


def diff_attrs(
    first: Mapping[str, Attr],
    second: Mapping[str, Attr],
    functions: Mapping[str, str],
    defaults: tuple[Mapping[str, Attr], Mapping[str, Attr]] = ({}, {}),
    pairs: list[TensorPair] | None = None,
    name: str = "",
) -> Iterator[AttrChange]:
    """The attributes that differ. One that is left out because it has its default is not.

    Args:
        first: Some attributes.
        second: Others.
        functions: The second model's name of each function of the first.
        defaults: What attributes mean where they are left out.
        pairs: Takes tensors of one dtype and shape, whose values are not compared here.
        name: What to call such a tensor.
    """
    for key in sorted({*first, *second}):
        one, other = first.get(key), second.get(key)
        if _equal(one or defaults[0].get(key), other or defaults[1].get(key), functions):
            both = one is not None and other is not None and one.kind == "tensor"
            if both and pairs is not None and one.value is not other.value:  # type: ignore[union-attr]
                label = name if key == "value" else f"{name} ({key})"
                pairs.append(TensorPair(label, one.value, other.value))  # type: ignore[union-attr]
            continue
        yield AttrChange(key, one, other)


def _equal(one: Attr | None, other: Attr | None, functions: Mapping[str, str]) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one.value, tuple) and isinstance(other.value, tuple):
        if len(one.value) != len(other.value) or (one.value and one.kind != other.kind):
            return False
        return all(_same_value(a, b, functions) for a, b in zip(one.value, other.value, strict=True))
    return one.kind == other.kind and _same_value(one.value, other.value, functions)


def _same_value(one: object, other: object, functions: Mapping[str, str]) -> bool:
    if isinstance(one, Func) and isinstance(other, Func):
        if functions.get(one.name, one.name) != other.name:
            return False
        return not any(True for _ in diff_attrs(one.attrs, other.attrs, functions))
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)  # a NaN is the same as a NaN, and a zero is not the same as -0
    if hasattr(one, "parts") and hasattr(other, "parts"):
        return bool(one.dtype == other.dtype and one.shape == other.shape)  # type: ignore[attr-defined]
    return one == other
