"""What differs between two graphs, or between two functions: nodes paired by name, then by what they do. Linear."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tfsmith.errors import TfsmithError
from tfsmith.ir.body import Body
from tfsmith.ir.node import Attr, Func, Node
from tfsmith.ir.opdef import OpLookup
from tfsmith.ir.tensor import Tensor
from tfsmith.ops import MERGES, NEXT_ITERATIONS
from tfsmith.records import field, record
from tfsmith.storage import Span

__all__ = [
    "AttrChange",
    "BodyDifference",
    "FunctionDifference",
    "InputChange",
    "NodeChange",
    "StructureDifference",
    "TensorPair",
    "ValueChange",
    "canonical",
    "find_renames",
    "tensor_digest",
    "diff_attrs",
    "diff_bodies",
]


@record
class ValueChange:
    """A named fact that differs: None where one model does not have it. The values are plain data."""

    name: str
    first: Any
    second: Any


@record
class InputChange:
    """An input that leads elsewhere. `index` is None for a control input; `first` or `second` is None if it is new."""

    index: int | None
    first: str | None
    second: str | None


@record
class AttrChange:
    """An attribute that differs; None where a node does not have it."""

    name: str
    first: Attr | None
    second: Attr | None


@record
class NodeChange:
    """A node that both have, and what differs. The names differ where it was renamed."""

    first: Node
    second: Node
    inputs: tuple[InputChange, ...] = ()
    attrs: tuple[AttrChange, ...] = ()


@record
class BodyDifference:
    """What differs between two graphs, or two functions.

    Attributes:
        added: Nodes that only the second has, in its order.
        removed: Nodes that only the first has, in its order.
        renamed: Nodes that came back under another name with the same op, attributes and inputs.
        changed: Nodes of one name with another op, device, attributes or inputs.
        same: How many nodes are the same.
    """

    added: tuple[Node, ...] = ()
    removed: tuple[Node, ...] = ()
    renamed: tuple[tuple[Node, Node], ...] = ()
    changed: tuple[NodeChange, ...] = ()
    same: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.renamed or self.changed)


@record
class FunctionDifference:
    """A function that both have, and what differs: its own name, what it takes and gives, its body."""

    first: str
    second: str
    facts: tuple[ValueChange, ...] = ()
    attrs: tuple[AttrChange, ...] = ()
    body: BodyDifference = field(default_factory=BodyDifference)


@record
class TensorPair:
    """Two constants of one dtype and shape whose values were not looked at."""

    name: str
    first: Tensor
    second: Tensor


@record
class StructureDifference:
    """What differs between two models, values of weights not looked at.

    Attributes:
        nodes: The graph itself.
        functions_added: Functions that only the second has.
        functions_removed: Functions that only the first has.
        functions: Functions that both have, where something differs.
        function_count: How many functions both have.
        signatures: Signatures, by key and part.
        collections: Collections, by key.
        assets: Asset files and the tensors that name them.
        versions: Who wrote the graphs, and who may read them.
        others: Saver, gradients and saved objects.
        constants: Constants to compare: by node name; in functions "function/node".
    """

    nodes: BodyDifference = field(default_factory=BodyDifference)
    functions_added: tuple[str, ...] = ()
    functions_removed: tuple[str, ...] = ()
    functions: tuple[FunctionDifference, ...] = ()
    function_count: int = 0
    signatures: tuple[ValueChange, ...] = ()
    collections: tuple[ValueChange, ...] = ()
    assets: tuple[ValueChange, ...] = ()
    versions: tuple[ValueChange, ...] = ()
    others: tuple[ValueChange, ...] = ()
    constants: tuple[TensorPair, ...] = ()
    renamed_nodes: Mapping[str, str] = field(default_factory=dict)


_BACK = "~back edge"
_NOTED = frozenset({"_output_shapes", "_class"})
"""What is noted down at a node but is not what it does: inferred shapes, and nodes to stay with, by their old names."""


def canonical(text: str) -> tuple[str, str]:
    """An input as the name of the node and the rest: ("x", "") for "x" and "x:0"; ("^x", "") for a control input."""
    name, colon, rest = text.partition(":")
    return (name, "" if rest == "0" else f":{rest}") if colon else (text, "")


def tensor_digest(tensor: Tensor) -> bytes | None:
    """A digest of the values, read in pieces; None where they cannot be read."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        for part in tensor.parts():
            for chunk in part.chunks() if isinstance(part, Span) else (part,):
                digest.update(chunk)
    except TfsmithError:
        return None
    return digest.digest()


def find_renames(
    removed: Mapping[str, Node],
    added: Mapping[str, Node],
    functions: Mapping[str, str],
    *,
    read_values: bool = True,
) -> dict[str, str]:
    """The new name of each node that was renamed, by its old name. A renamed input counts as the same input.

    Args:
        removed: The nodes that only the first graph has.
        added: The nodes that only the second has.
        functions: The second model's name of each function of the first.
        read_values: Whether to read constants to tell them apart; without, those of one dtype and shape are paired in
            their order.
    """
    if not removed or not added:
        return {}
    digests = _Digests(removed.values(), added.values(), read_values)
    buckets: dict[tuple[Any, ...], _Bucket] = {}
    for node in added.values():
        key = _key(node, lambda name: name, added, lambda name: name, digests)
        buckets.setdefault(key, _Bucket()).add(node.name)
    renames: dict[str, str] = {}
    for node in _inputs_first(removed):
        key = _key(node, lambda name: renames.get(name, name), removed, lambda name: functions.get(name, name), digests)
        found = buckets.get(key)
        new = None if found is None else found.take(node.name)
        if new is not None:
            renames[node.name] = new
    return renames


class _Bucket:
    """Nodes that are alike, in order; each is taken once, one with the same last word in its name first."""

    __slots__ = ("_by_word", "_names", "_taken")

    def __init__(self) -> None:
        self._names: deque[str] = deque()
        self._by_word: dict[str, deque[str]] = {}
        self._taken: set[str] = set()

    def add(self, name: str) -> None:
        self._names.append(name)
        self._by_word.setdefault(name.rpartition("/")[2], deque()).append(name)

    def take(self, name: str) -> str | None:
        for queue in (self._by_word.get(name.rpartition("/")[2], deque[str]()), self._names):
            while queue:
                found = queue.popleft()
                if found not in self._taken:
                    self._taken.add(found)
                    return found
        return None


class _Digests:
    """What tells constants apart: a digest of their values, made only where another one could be meant."""

    def __init__(self, removed: Iterable[Node], added: Iterable[Node], read_values: bool) -> None:
        self._kinds = {_kind(node) for node in removed} & {_kind(node) for node in added} if read_values else set()

    def of(self, tensor: Tensor) -> tuple[Any, ...]:
        kind = (tensor.dtype.name, tensor.shape.dims)
        return (*kind, tensor_digest(tensor)) if kind in self._kinds else kind


def _kind(node: Node) -> tuple[Any, ...] | None:
    found = node.peek("value") if node.op == "Const" else None
    tensor = None if found is None else found.tensor
    return None if tensor is None else (tensor.dtype.name, tensor.shape.dims)


def _inputs_first(nodes: Mapping[str, Node]) -> list[Node]:
    """The nodes, each after those of them that it takes; those on a cycle that is no loop are left out."""
    waiting: dict[str, int] = {}
    users: dict[str, list[Node]] = {}
    for node in nodes.values():
        sources = {name for text in node.inputs if (name := canonical(text)[0].lstrip("^")) in nodes}
        sources = {name for name in sources if nodes[name].op not in NEXT_ITERATIONS}
        waiting[node.name] = len(sources)
        for name in sources:
            users.setdefault(name, []).append(node)
    ready = [node for node in nodes.values() if not waiting[node.name]]
    for node in ready:  # grows while it is walked
        for user in users.get(node.name, ()):
            waiting[user.name] -= 1
            if not waiting[user.name]:
                ready.append(user)
    return ready


def _key(
    node: Node,
    rename: Callable[[str], str],
    own: Mapping[str, Node],
    function: Callable[[str], str],
    digests: _Digests,
) -> tuple[Any, ...]:
    """What must be the same in both graphs."""
    inputs = []
    for text in node.inputs:
        name, rest = canonical(text)
        mark = "^" if name.startswith("^") else ""
        plain = name[1:] if mark else name
        is_back = plain in own and own[plain].op in NEXT_ITERATIONS
        inputs.append((mark, _BACK if is_back else rename(plain), rest))
    data = tuple(item for item in inputs if not item[0])
    control = tuple(sorted(item for item in inputs if item[0]))
    names = sorted(name for name in node.attrs if name not in _NOTED)
    attrs = tuple((name, _plain(node.attrs[name], function, digests)) for name in names)
    return (function(node.op), node.device, data, control, attrs)


def _plain(attr: Attr, function: Callable[[str], str], digests: _Digests) -> Any:
    if attr.kind == "list" or attr.value == ():
        return ("list",)
    if isinstance(attr.value, tuple):
        return (attr.kind, *(_value(item, function, digests) for item in attr.value))
    return (attr.kind, _value(attr.value, function, digests))


def _value(value: Any, function: Callable[[str], str], digests: _Digests) -> Any:
    if isinstance(value, Func):
        inner = tuple((name, _plain(value.attrs[name], function, digests)) for name in sorted(value.attrs))
        return (function(value.name), inner)
    if isinstance(value, float):
        return repr(value)
    return digests.of(value) if hasattr(value, "parts") else value


_INFERRED = "_output_shapes"


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
            if node.op not in MERGES:  # the back edge of a loop is not known when renamed nodes are found
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
            left, right = (None if found is None else found.tensor for found in (one, other))
            if left is not None and right is not None and pairs is not None and left is not right:
                pairs.append(TensorPair(name if key == "value" else f"{name} ({key})", left, right))
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
