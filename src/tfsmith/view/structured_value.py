"""Values of a `StructuredValue`, the message in which TensorFlow 2 keeps the arguments of its functions.

They are decoded from plain data into Python's own types where TensorFlow does so, and into small stand-ins for its
specs, whose `repr` is TensorFlow's. Nothing here runs anything: a named tuple's type is not made, only its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tfsmith.errors import UnsupportedError
from tfsmith.ir.dtype import dtype, dtype_named
from tfsmith.records import record

__all__ = ["NamedTuple", "Spec", "TensorSpec", "decode", "type_name"]

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
