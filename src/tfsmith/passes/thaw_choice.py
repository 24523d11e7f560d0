"""Which constants of a frozen graph are to be variables again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from tfsmith.errors import UsageError
from tfsmith.ir.model import Model
from tfsmith.ir.names import nearest
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import Tensor
from tfsmith.passes.training import Note
from tfsmith.passes.was_variable import Signs
from tfsmith.records import record

__all__ = ["MIN_ELEMENTS", "Wanted", "Choice", "choose_constants", "is_float"]

MIN_ELEMENTS = 1024
"""So many elements make a constant large, if nobody says another number."""
_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


@record
class Wanted:
    """What the user asked for: the least size (None: large ones, and all that were variables), and globs of names."""

    min_elements: int | None = None
    only: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


@record
class Choice:
    """The constants that become variables, by name, and what the user should know about them."""

    values: dict[str, Tensor]
    notes: tuple[Note, ...]


def is_float(tensor: Tensor) -> bool:
    """Whether a tensor can be trained."""
    return tensor.dtype.name in _FLOATS


def choose_constants(model: Model, wanted: Wanted, kept: Collection[str]) -> Choice:
    """The constants that are large, that were variables, or that the user named; in the file's order. Reads no value.

    Args:
        model: The frozen model.
        wanted: What the user asked for.
        kept: Nodes that must stay as they are, because they are inputs or outputs.

    Raises:
        UsageError: There is none, or a glob of `only` fits none.
    """
    if wanted.min_elements is not None and wanted.min_elements < 0:
        raise UsageError(f"--min-elements {wanted.min_elements} cannot be", remedy="pass 0 or more")
    graph = model.graph
    constants = [node for node in graph if node.op == "Const" and _is_named(node.name, wanted)]
    _check_globs(model, wanted, constants)
    signs = Signs(graph)
    values: dict[str, Tensor] = {}
    bare: list[str] = []
    stuck: list[str] = []
    for node in constants:
        tensor = _value(node)
        if tensor is None:
            continue
        was_variable = signs.was_variable(node.name)
        if not _is_wanted(node.name, tensor, wanted, was_variable):
            continue
        if node.inputs or node.name in kept:
            stuck.append(node.name)
        elif graph.consumers(node.name):
            values[node.name] = tensor
            bare += [] if was_variable else [node.name]
    if not values:
        raise _nothing(model, wanted, constants, stuck)
    return Choice(values, tuple(_notes(bare if len(bare) < len(values) else [], stuck)))


def _is_named(name: str, wanted: Wanted) -> bool:
    if wanted.only and not any(fnmatchcase(name, glob) for glob in wanted.only):
        return False
    return not any(fnmatchcase(name, glob) for glob in wanted.excluded)


def _is_wanted(name: str, tensor: Tensor, wanted: Wanted, was_variable: bool) -> bool:
    """A number rules; without one, a constant that was a variable or is named in full counts whatever its size."""
    if not (is_float(tensor) or was_variable or name in wanted.only or (wanted.only and tensor.dtype.itemsize)):
        return False
    size = tensor.shape.elements or 0
    if wanted.min_elements is not None:
        return size >= wanted.min_elements
    return size >= MIN_ELEMENTS or was_variable or name in wanted.only


def _check_globs(model: Model, wanted: Wanted, constants: Sequence[Node]) -> None:
    for glob in wanted.only:
        if any(fnmatchcase(node.name, glob) for node in constants):
            continue
        near = nearest(glob, (node.name for node in model.graph if node.op == "Const"))
        remedy = f"the nearest names are {', '.join(near)}" if near else "`tfsmith show --nodes` lists them"
        raise UsageError(f"no constant of the graph is called {glob!r}", path=model.path, remedy=remedy)


def _nothing(model: Model, wanted: Wanted, constants: Sequence[Node], stuck: Sequence[str]) -> UsageError:
    """Why there is nothing to thaw, and what to do about it."""
    least = MIN_ELEMENTS if wanted.min_elements is None else wanted.min_elements
    what = f"there is nothing to thaw: no constant has {least} elements"
    what += " or was a variable" if wanted.min_elements is None else ""
    if stuck:
        what = f"there is nothing to thaw: {stuck[0]!r} waits for other nodes, or is itself an input or output"
        return UsageError(what, path=model.path, remedy="thaw other constants")
    if any(_has_large(function.nodes, least) for function in model.graph.library.values()):
        remedy = "its constants are in functions: freeze it first, which makes one flat graph (`tfsmith freeze`)"
        return UsageError(what, path=model.path, remedy=remedy)
    sizes = {node.name: _float_elements(node) for node in constants if _float_elements(node)}
    if not sizes:
        return UsageError(what, path=model.path, remedy="it has no constants of floats at all; is this the right file?")
    largest = max(sizes, key=lambda name: sizes[name])
    remedy = f"the largest of floats is {largest!r} with {sizes[largest]}; ask for less (--min-elements N)"
    return UsageError(what, path=model.path, remedy=remedy)


def _value(node: Node) -> Tensor | None:
    """The value of a constant, if it is one that a variable can hold."""
    found = node.attrs.get("value") if node.op == "Const" else None
    if found is None or found.kind != "tensor":
        return None
    tensor: Tensor = found.value
    can_hold = tensor.dtype.itemsize or tensor.dtype.name == "string"
    return tensor if can_hold and node.get("dtype") == tensor.dtype else None


def _float_elements(node: Node) -> int:
    tensor = _value(node)
    return (tensor.shape.elements or 0) if tensor is not None and is_float(tensor) else 0


def _has_large(nodes: Sequence[Node], least: int) -> bool:
    return any(_float_elements(node) >= max(1, least) for node in nodes)


def _notes(bare: Sequence[str], stuck: Sequence[str]) -> list[Note]:
    notes: list[Note] = []
    if bare:
        remedy = "the original checkpoint may lack them; --except GLOB leaves them constants"
        notes.append(Note("large constants that show no sign of having been variables", tuple(bare), remedy))
    if stuck:
        remedy = "they wait for other nodes, or are themselves inputs or outputs"
        notes.append(Note("constants that stay what they are", tuple(stuck), remedy))
    return notes
