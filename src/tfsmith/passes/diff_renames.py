"""Which nodes of a graph came back under another name in another graph: same op, attributes and inputs. Linear."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tfsmith.errors import TfsmithError
from tfsmith.ir.attr import Attr, Func
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import Tensor
from tfsmith.storage.span import Span

__all__ = ["canonical", "find_renames", "tensor_digest"]

_BACK_EDGES = frozenset({"NextIteration", "RefNextIteration"})
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
    return (found.value.dtype.name, found.value.shape.dims) if found is not None and found.kind == "tensor" else None


def _inputs_first(nodes: Mapping[str, Node]) -> list[Node]:
    """The nodes, each after those of them that it takes; those on a cycle that is no loop are left out."""
    waiting: dict[str, int] = {}
    users: dict[str, list[Node]] = {}
    for node in nodes.values():
        sources = {name for text in node.inputs if (name := canonical(text)[0].lstrip("^")) in nodes}
        sources = {name for name in sources if nodes[name].op not in _BACK_EDGES}
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
        is_back = plain in own and own[plain].op in _BACK_EDGES
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
