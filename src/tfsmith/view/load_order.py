"""The names that TensorFlow gives the functions of a SavedModel when it loads them.

TensorFlow loads each function after those that it calls and calls it `__inference_NAME_NUMBER`. The number comes from
a counter of the process that every graph and every tensor moves on. `saved_model_cli` lists the concrete functions of
one function sorted by that name, so that `..._100` stands before `..._99`: to list them alike we count along.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tfsmith.errors import InvalidModelError
from tfsmith.ir.attr import Attr
from tfsmith.ir.function import Function, Library
from tfsmith.ir.node import Node
from tfsmith.ir.opdef import ArgDef, OpDef

__all__ = ["load_order", "loaded_names", "FIRST_NUMBER"]

FIRST_NUMBER = 0
"""Where the counter stands when `saved_model_cli` begins to load."""

_NO_GRADIENTS: Mapping[str, str] = MappingProxyType({})
_WRAPPED = re.compile(r"__inference_(.*)_[0-9]+\Z", re.DOTALL)
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def load_order(library: Library, gradients: Mapping[str, str] = _NO_GRADIENTS) -> tuple[Function, ...]:
    """The functions, each after those that it needs, as TensorFlow's loader orders them. Decodes their nodes.

    Args:
        library: The functions.
        gradients: The functions that are registered as gradients, by the op type that they are registered for.

    Raises:
        InvalidModelError: A function needs itself, or one that is not there.
    """
    needed = {name: _needs(function, library, gradients) for name, function in library.items()}
    waiting = {name: len(names) for name, names in needed.items()}
    users: dict[str, list[str]] = {}
    for name, names in needed.items():
        for other in names:
            users.setdefault(other, []).append(name)
    ready = [name for name, count in waiting.items() if not count]
    order: list[Function] = []
    while ready:
        name = ready.pop()
        order.append(library[name])
        for user in users.get(name, ()):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    if len(order) != len(library):
        stuck = next(name for name, count in waiting.items() if count)
        what = "it calls itself, or a function that is not there"
        raise InvalidModelError(what, where=f"function {stuck!r}", remedy="write the model again from its source")
    return tuple(order)


def _needs(function: Function, library: Library, gradients: Mapping[str, str]) -> set[str]:
    needed: set[str] = set()
    for node in function.nodes:
        gradient = _gradient_type(node)
        if node.op in library:
            needed.add(node.op)
        elif gradient in gradients:
            needed.add(gradients[gradient])
        else:
            needed.update(_function_attrs(node))
    return needed


def _gradient_type(node: Node) -> str:
    found = node.get("_gradient_op_type", b"") if node.op not in _CALLS else b""
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else ""


def _function_attrs(node: Node) -> Iterator[str]:
    for attr in node.attrs.values():
        if attr.kind == "func":
            yield attr.value.name
        elif attr.kind == "list(func)":
            yield from (func.name for func in attr.value)


def loaded_names(
    order: tuple[Function, ...], gradients: Mapping[str, str] = _NO_GRADIENTS, *, first: int | None = None
) -> dict[str, str]:
    """What TensorFlow calls each function once it is loaded. Looks up the outputs of every node.

    Args:
        order: The functions, as `load_order` gives them.
        gradients: As there.
        first: Where the counter stands; `FIRST_NUMBER` by default.

    Raises:
        InvalidModelError: A node does not say how many outputs it has.
    """
    number = (FIRST_NUMBER if first is None else first) + 2 + len(gradients)  # the graph, a suffix, the new op types
    names: dict[str, str] = {}
    for function in order:
        number += sum(_is_old_table(node) for node in function.nodes)
        number += 1 + len(function.args) + sum(_outputs(function, node) for node in function.nodes)
        wrapped = _WRAPPED.match(function.name)
        names[function.name] = f"__inference_{wrapped[1] if wrapped else function.name}_{number}"
        number += 1
    return names


def _is_old_table(node: Node) -> bool:
    """A hash table as TF 2.0 wrote it; the loader numbers each to keep them apart."""
    return node.op == "HashTableV2" and not node.get("use_node_name_sharing", False)


def _outputs(function: Function, node: Node) -> int:
    op = function.op_def(node.op)
    return 0 if op is None else sum(_count(arg, op, node) for arg in op.outputs)


def _count(arg: ArgDef, op: OpDef, node: Node) -> int:
    if not arg.number_attr and not arg.type_list_attr:
        return 1
    attrs: dict[str, Attr] = {attr.name: attr.default for attr in op.attrs if attr.default is not None}
    return arg.count(attrs | dict(node.attrs))
