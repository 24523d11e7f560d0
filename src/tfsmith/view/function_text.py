"""The concrete functions of a SavedModel, character for character as `saved_model_cli show --all` lists them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfsmith.errors import InvalidModelError, UnsupportedError
from tfsmith.ir.function import Function, Library
from tfsmith.ir.metagraph import ObjectGraph, ObjectNode
from tfsmith.ir.model import Model
from tfsmith.ir.opdb import builtin_ops
from tfsmith.records import record
from tfsmith.view.load_order import load_order, loaded_names
from tfsmith.view.structured_value import TensorSpec, decode, type_name

__all__ = ["functions_text"]

_CUSTOM_OPS = "the existence of custom ops in the SavedModel"
_UNKNOWN = "unknown reasons"
_FUNCTIONS = ("function", "bare_concrete_function")
_OVERWRITTEN = ("graph_debug_info", "tensorflow_git_version", "tensorflow_version")  # by the loader, on the root
_CONTAINERS = ("trackable_dict_wrapper", "trackable_list_wrapper", "trackable_tuple_wrapper")
_MARGIN = " " * 8


@record
class _Concrete:
    """One way to call a function.

    Attributes:
        loaded_name: What TensorFlow calls it once it is loaded, which is what it sorts by.
        signature: Its arguments (positional, then by name) as decoded, or None.
        keywords: The names of its arguments, for one that has no signature.
    """

    loaded_name: str
    signature: Any
    keywords: tuple[str, ...]


def functions_text(model: Model) -> str:
    """The list of concrete functions; "" for a model of TF1, which has none. Decodes all functions, no weights.

    TensorFlow loads the model to make this list. Where it would fail to, for custom ops or other reasons, it says so
    in place of the list, and so do we.
    """
    if all(meta.objects is None for meta in model.meta_graphs):
        return ""
    title = "\nConcrete Functions:"
    try:
        listed = _listed(model)
    except (UnsupportedError, InvalidModelError) as error:
        reason = _CUSTOM_OPS if error.what == _CUSTOM_OPS else _UNKNOWN
        return f"{title} N/A (could not be listed due to {reason})\n"
    return title + "".join(line for name, options in listed for line in _function(name, options))


def _listed(model: Model) -> list[tuple[str, list[_Concrete]]]:
    """The functions of the root object, with the concrete functions of each.

    Raises:
        UnsupportedError, InvalidModelError: TensorFlow cannot load the model.
    """
    meta, objects = model.meta_graphs[0], model.meta_graphs[0].objects
    if len(model.meta_graphs) > 1 or objects is None:
        raise UnsupportedError("TensorFlow loads the objects of a model with one meta graph only")
    gradients = meta.graph.library.registered_gradients
    order = load_order(meta.graph.library, gradients)
    signatures = {function.name: _signature(function, objects, meta.graph.library) for function in order}
    root = _root(objects)
    nodes = {name: objects.nodes[number] for name, number in root.children.items()}
    found = {name: node for name, node in nodes.items() if node.kind in _FUNCTIONS and name not in _OVERWRITTEN}
    needs_names = any(len(_concrete_names(node)) > 1 for node in found.values())
    names = loaded_names(order, gradients) if needs_names else {name: name for name in signatures}
    return [(name, _options(found[name], signatures, names)) for name in sorted(found)]


def _signature(function: Function, objects: ObjectGraph, library: Library) -> Any:
    """A function's arguments, in the order of TensorFlow's checks: its saved structures first, then its ops.

    An op that the model defines itself is a custom op: TensorFlow's loader knows those of its own program only.
    """
    signature = None
    saved = objects.concrete_functions.get(function.name)
    if saved is not None:
        signature = decode(saved.get("canonicalized_input_signature", {}))
        decode(saved.get("output_signature", {}))
    known = builtin_ops()
    if any(node.op not in known and node.op not in library for node in function.nodes):
        raise UnsupportedError(_CUSTOM_OPS)
    return signature


def _root(objects: ObjectGraph) -> ObjectNode:
    if not objects.nodes or any(not node.kind for node in objects.nodes):
        raise UnsupportedError("the object graph is empty, or holds an object of no kind")
    root, count = objects.nodes[0], len(objects.nodes)
    if not all(0 <= number < count for node in objects.nodes for number in node.children.values()):
        raise UnsupportedError("an object has a child that is not there")
    if root.kind == "user_object" and root.details.get("identifier") in _CONTAINERS:
        raise UnsupportedError("the loader cannot make a list or dict the root")
    return root


def _concrete_names(node: ObjectNode) -> tuple[str, ...]:
    if node.kind == "function":
        return tuple(node.details.get("concrete_functions", ()))
    return (str(node.details.get("concrete_function_name", "")),)


def _options(node: ObjectNode, signatures: Mapping[str, Any], names: Mapping[str, str]) -> list[_Concrete]:
    keywords = tuple(node.details.get("argument_keywords", ()))
    has_spec = node.kind == "function" or "function_spec" in node.details
    options = []
    for name in _concrete_names(node):
        if name not in signatures:
            raise UnsupportedError(f"the function {name!r} is not in the library")
        signature = signatures[name]
        if (signature or has_spec) and not (isinstance(signature, tuple) and len(signature) == 2):
            raise UnsupportedError(f"the function {name!r} has no positional and named arguments")
        options.append(_Concrete(names[name], signature, keywords))
    return sorted(options, key=lambda option: option.loaded_name)


def _function(name: str, options: list[_Concrete]) -> Iterator[str]:
    yield f"\n  Function Name: '{name}'\n"
    for number, option in enumerate(options, 1):
        args, kwargs = option.signature or (option.keywords, None)
        if args:
            yield f"    Option #{number}\n      Callable with:\n"
            yield from _arguments(args, "Argument")
        if kwargs:
            yield from _arguments(kwargs, "Named Argument")


def _arguments(arguments: Iterable[Any], title: str) -> Iterator[str]:
    for number, value in enumerate(arguments, 1):
        yield f"{_MARGIN}{title} #{number}\n"
        yield from (f"{_MARGIN}  {line}\n" for line in _argument(value))


def _argument(value: Any) -> Iterator[str]:
    """The lines for one argument. Lists end in a comma that two backspaces take away from a terminal, not a file."""
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, TensorSpec):
        yield f"{value.name}: {value!r}"
        return
    yield f"DType: {type_name(value)}"
    if isinstance(value, dict):
        inside = "".join(f"'{key}': {_quoted(item)}, " for key, item in value.items())
        yield f"Value: {{{inside}\b\b}}"
    elif isinstance(value, Iterable):
        inside = "".join(f"{_quoted(item)}, " for item in value)
        yield f"Value: [{inside}\b\b]"
    else:
        yield f"Value: {value}"


def _quoted(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
