"""The concrete functions of a SavedModel, character for character as `saved_model_cli show --all` lists them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tfsmith.errors import InvalidModelError, UnsupportedError
from tfsmith.ir.graph import Function, Library
from tfsmith.ir.model import Model, ObjectGraph, ObjectNode
from tfsmith.ir.node import Attr, Node
from tfsmith.ir.opdef import ArgDef, OpDef, builtin_ops
from tfsmith.ir.types import dtype, dtype_named
from tfsmith.records import record

__all__ = [
    "NamedTuple",
    "Spec",
    "TensorSpec",
    "decode",
    "type_name",
    "load_order",
    "loaded_names",
    "FIRST_NUMBER",
    "functions_text",
]

_NO_DIMS: tuple[Mapping[str, Any], ...] = ()


@record(repr=False)
class _Shape:
    """`tf.TensorShape`: None for an unknown dimension, or for an unknown rank."""

    dims: tuple[int | None, ...] | None
    type_name = "TensorShape"

    def __str__(self) -> str:
        return "<unknown>" if self.dims is None else repr(self.dims)

    def __repr__(self) -> str:
        return f"TensorShape({self.dims if self.dims is None else list(self.dims)})"


@record(repr=False)
class _DType:
    """`tf.DType`."""

    name: str
    type_name = "DType"

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"

    def __repr__(self) -> str:
        return f"tf.{self.name}"


@record(repr=False)
class Spec:
    """Any `tf.TypeSpec`: the name of its type, and its text."""

    type_name: str
    text: str

    def __repr__(self) -> str:
        return self.text


@record(repr=False)
class TensorSpec(Spec):
    """`tf.TensorSpec` and its kin, which have a name (or None) and a dtype."""

    name: str | None
    dtype: _DType


class NamedTuple(tuple[Any, ...]):
    """A named tuple of a type that only the writing program knew."""

    type_name: str
    fields: tuple[str, ...]

    @staticmethod
    def of(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> NamedTuple:
        """A tuple with these names for its values."""
        made = NamedTuple(values)
        made.type_name = name
        made.fields = fields
        return made

    def __repr__(self) -> str:
        inside = ", ".join(f"{field}={value!r}" for field, value in zip(self.fields, self, strict=True))
        return f"{self.type_name}({inside})"


def type_name(value: object) -> str:
    """What TensorFlow calls the type of a decoded value."""
    return str(getattr(value, "type_name", type(value).__name__))


def decode(value: Mapping[str, Any]) -> Any:
    """The value of a `StructuredValue` that is given as plain data.

    Raises:
        UnsupportedError: TensorFlow itself cannot decode it without the program that wrote it.
    """
    for kind, content in value.items():
        if kind in _DECODERS:
            return _DECODERS[kind](content)
    raise UnsupportedError("a structured value is empty, or of a kind that is newer than this release")


def _items(content: Mapping[str, Any]) -> Iterator[Any]:
    return (decode(item) for item in content.get("values", ()))


def _named_tuple(content: Mapping[str, Any]) -> NamedTuple:
    pairs = content.get("values", ())
    fields = tuple(str(pair.get("key", "")) for pair in pairs)
    return NamedTuple.of(content.get("name", ""), fields, tuple(decode(pair.get("value", {})) for pair in pairs))


def _dict(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: decode(item) for key, item in content.get("fields", {}).items()}


def _shape(content: Mapping[str, Any]) -> _Shape:
    if content.get("unknown_rank", False):
        return _Shape(None)
    sizes = [int(dim.get("size", 0)) for dim in content.get("dim", _NO_DIMS)]
    if any(size < -1 for size in sizes):
        raise UnsupportedError("a shape has a dimension below -1")
    return _Shape(tuple(None if size == -1 else size for size in sizes))


def _dtype(content: str | int) -> _DType:
    found = dtype(content) if isinstance(content, int) else dtype_named(content)
    if found.name == "invalid" or found.name.startswith("unknown_"):
        raise UnsupportedError(f"TensorFlow has no dtype {content}")
    return _DType(found.name)


def _tensor_spec(content: Mapping[str, Any], short: str = "TensorSpec", more: str = "") -> TensorSpec:
    name = content.get("name") or None
    shape, kind = _shape(content.get("shape", {})), _dtype(content.get("dtype", 0))
    return TensorSpec(short, f"{short}(shape={shape}, dtype={kind!r}, name={name!r}{more})", name, kind)


def _bounded_tensor_spec(content: Mapping[str, Any]) -> TensorSpec:
    bounds = "".join(f", {key}={_array(content.get(key))!r}" for key in ("minimum", "maximum"))
    return _tensor_spec(content, "BoundedTensorSpec", bounds)


def _array(content: Any) -> Any:
    """The values of a bound, which plain data keeps as an `ir` tensor; a few numbers."""
    if not hasattr(content, "numpy"):
        raise UnsupportedError("a structured value lacks its tensor")
    return content.numpy()


def _type_spec(content: Mapping[str, Any]) -> Spec:
    kind, name = content.get("type_spec_class", "UNKNOWN"), content.get("type_spec_class_name", "")
    state = decode(content.get("type_state", {}))
    if not isinstance(state, tuple):
        raise UnsupportedError(f"the spec {name!r} has no state")
    if kind == "EXTENSION_TYPE_SPEC":
        return _extension(name, state)
    if kind == "REGISTERED_TYPE_SPEC":
        if not name.startswith(_REGISTERED):
            raise UnsupportedError(f"only the program that wrote the spec {name!r} can read it")
        short = name.rpartition(".")[2]
        return Spec(short, f"{short}{state!r}")
    if kind not in _SPECS:
        raise UnsupportedError(f"the spec {name!r} is newer than this release")
    short, text = _SPECS[kind]
    return Spec(short, text(short, state))


def _extension(name: str, state: tuple[Any, ...]) -> Spec:
    """An extension type: TensorFlow knows a few by name and calls all others anonymous."""
    fields = [field for field in state if isinstance(field, tuple) and len(field) == 2]
    if len(fields) != len(state):
        raise UnsupportedError(f"the fields of the spec {name!r} are no pairs")
    short = name.removeprefix("tf.") if name in _EXTENSIONS else "AnonymousExtensionTypeSpec"
    if name == "tf.DynamicRaggedShape.Spec":
        fields = _ragged_shape(dict(fields))
    return Spec(short, f"{short}({', '.join(f'{key}={value!r}' for key, value in fields)})")


def _ragged_shape(fields: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The one extension type whose text is not simply its fields."""
    inner = fields.get("_inner_shape")
    if not isinstance(inner, TensorSpec):
        raise UnsupportedError("a ragged shape lacks its inner shape")
    shown = [(key, fields.get(f"_{key}")) for key in ("row_partitions", "static_inner_shape")]
    return [*shown, ("dtype", inner.dtype)]


def _plain_state(name: str, state: tuple[Any, ...]) -> str:
    return f"{name}{tuple(state)!r}"


def _ragged(name: str, state: tuple[Any, ...]) -> str:
    return _plain_state(name, state[:4] if state[4:] == (None,) else state)


def _indexed_slices(name: str, state: tuple[Any, ...]) -> str:
    if state and isinstance(state[-1], _Shape) and state[-1].dims is None:  # it has one dimension in any case
        state = (*state[:-1], _Shape((None,)))
    return _plain_state(name, state)


def _variable(name: str, state: tuple[Any, ...]) -> str:
    shape, kind, trainable, alias = (*state, None)[:4] if len(state) >= 3 else (None, None, None, None)
    return f"{name}(shape={shape}, dtype={kind!r}, trainable={trainable!r}, alias_id={alias!r})"


def _row_partition(name: str, state: tuple[Any, ...]) -> str:
    if len(state) != 4 or not all(isinstance(shape, _Shape) and shape.dims for shape in state[:3]):
        raise UnsupportedError(f"the state of the spec {name!r} is not four parts")
    rows, values, length = (shape.dims[0] for shape in state[:3])
    return f"{name}(nrows={rows}, nvals={values}, uniform_row_length={length}, dtype={state[3]!r})"


def _itself(content: Any) -> Any:
    return content


_EXTENSIONS = frozenset(
    f"tf.{name}.Spec"
    for name in ("DynamicRaggedShape", "EagerWeakTensor", "GraphWeakTensor", "StructuredTensor", "WeakTensor")
)
_REGISTERED = ("tf.linalg.LinearOperator", "tf.NoneTensorSpec")
_SPECS: Mapping[str, tuple[str, Callable[[str, tuple[Any, ...]], str]]] = MappingProxyType(
    {
        "SPARSE_TENSOR_SPEC": ("SparseTensorSpec", _plain_state),
        "INDEXED_SLICES_SPEC": ("IndexedSlicesSpec", _indexed_slices),
        "RAGGED_TENSOR_SPEC": ("RaggedTensorSpec", _ragged),
        "TENSOR_ARRAY_SPEC": ("TensorArraySpec", _plain_state),
        "DATA_DATASET_SPEC": ("DatasetSpec", _plain_state),
        "DATA_ITERATOR_SPEC": ("IteratorSpec", _plain_state),
        "OPTIONAL_SPEC": ("OptionalSpec", _plain_state),
        "PER_REPLICA_SPEC": ("PerReplicaSpec", _plain_state),
        "VARIABLE_SPEC": ("VariableSpec", _variable),
        "ROW_PARTITION_SPEC": ("RowPartitionSpec", _row_partition),
    }
)
# Not here: tensors and arrays, which TensorFlow's loader takes for no argument of a function.
_DECODERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "none_value": lambda _: None,
        "float64_value": _itself,
        "int64_value": _itself,
        "string_value": _itself,
        "bool_value": _itself,
        "tensor_shape_value": _shape,
        "tensor_dtype_value": _dtype,
        "tensor_spec_value": _tensor_spec,
        "type_spec_value": _type_spec,
        "bounded_tensor_spec_value": _bounded_tensor_spec,
        "list_value": lambda content: list(_items(content)),
        "tuple_value": lambda content: tuple(_items(content)),
        "dict_value": _dict,
        "named_tuple_value": _named_tuple,
    }
)


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
        yield from (func.name for func in attr.funcs)


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
