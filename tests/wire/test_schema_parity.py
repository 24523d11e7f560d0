"""Our table of TensorFlow's messages against TensorFlow's own descriptors, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from tfsmith.wire import full_name, message_class, pool
from tfsmith.wire.schema import schema

pytestmark = pytest.mark.tensorflow

# The messages of TensorFlow's proto splitter, of TensorFlow Serving, and those of recipes; none of its Python modules
# has them. A server's messages are held against bytes in `tests/server`.
_SPLITTER = {"ChunkInfo", "ChunkMetadata", "ChunkedField", "ChunkedMessage", "FieldIndex", "SplitterVersionDef"}
_OTHERS = _SPLITTER | {"Pattern", "Recipe", "serving"}
MESSAGES = sorted(name for name in schema().messages if name.partition(".")[0] not in _OTHERS)
ENUMS = sorted(name for name in schema().enums if name.partition(".")[0] not in _OTHERS)


@pytest.fixture(scope="module")
def theirs() -> Any:
    """TensorFlow's own pool, with every message of ours loaded."""
    import tensorflow  # noqa: F401
    from google.protobuf import descriptor_pool
    from tensorflow.core.protobuf import (  # noqa: F401
        control_flow_pb2,
        fingerprint_pb2,
        meta_graph_pb2,
        queue_runner_pb2,
        saved_model_pb2,
        tensor_bundle_pb2,
        trackable_object_graph_pb2,
    )
    from tensorflow.core.util import saved_tensor_slice_pb2  # noqa: F401
    from tensorflow.python.training import checkpoint_state_pb2  # noqa: F401

    return descriptor_pool.Default()


def _facts(field: Any) -> dict[str, Any]:
    """What decides how a field looks on the wire and to a program."""
    kind, enum, oneof = field.message_type, field.enum_type, field.containing_oneof
    is_map = kind is not None and kind.GetOptions().map_entry
    return {
        "name": field.name,
        "type": field.type,
        "repeated": field.is_repeated,
        "packed": field.is_packed,
        "presence": field.has_presence,
        "message": None if kind is None or is_map else kind.full_name,
        "enum": None if enum is None else enum.full_name,
        "oneof": None if oneof is None or oneof.name == f"_{field.name}" else oneof.name,  # a name for mere presence
        "map": [_map_facts(kind.fields_by_name[name]) for name in ("key", "value")] if is_map else None,
        "default": field.default_value if not field.is_repeated and kind is None else None,
    }


def _map_facts(field: Any) -> tuple[Any, ...]:
    return field.number, field.type, field.message_type and field.message_type.full_name


@pytest.mark.parametrize("name", MESSAGES)
def test_message(theirs: Any, name: str) -> None:
    ours = pool().FindMessageTypeByName(full_name(name))
    wanted = theirs.FindMessageTypeByName(full_name(name))
    found = {field.number: _facts(field) for field in ours.fields}
    assert found == {field.number: _facts(field) for field in wanted.fields}
    assert [field.name for field in ours.fields] == [field.name for field in wanted.fields]


@pytest.mark.parametrize("name", ENUMS)
def test_enum(theirs: Any, name: str) -> None:
    ours, wanted = pool().FindEnumTypeByName(full_name(name)), theirs.FindEnumTypeByName(full_name(name))
    assert {v.name: v.number for v in ours.values} == {v.name: v.number for v in wanted.values}


@pytest.mark.parametrize(
    "root",
    ["GraphDef", "MetaGraphDef", "SavedModel", "TrackableObjectGraph", "BundleHeaderProto", "SavedTensorSlices"],
)
def test_nothing_below_a_root_is_missing(theirs: Any, root: str) -> None:
    """Every message that TensorFlow reaches from a root, ours reaches too."""
    assert _reached(pool().FindMessageTypeByName(full_name(root))) == _reached(
        theirs.FindMessageTypeByName(full_name(root))
    )


def _reached(message: Any) -> set[str]:
    seen: set[str] = set()
    todo = [message]
    while todo:
        found = todo.pop()
        if found.full_name not in seen:
            seen.add(found.full_name)
            todo += [field.message_type for field in found.fields if field.message_type is not None]
    return seen


def test_our_dtypes_are_theirs(theirs: Any) -> None:
    from tfsmith.ir.types import dtype

    for value in theirs.FindEnumTypeByName("tensorflow.DataType").values:
        assert dtype(value.number).proto_name == value.name


def test_our_dtypes_have_their_names_and_sizes() -> None:
    import tensorflow as tf

    from tfsmith.ir.types import dtype

    for number in range(1, 34):
        found, wanted = dtype(number), tf.as_dtype(number)
        assert found.name == wanted.name
        if found.itemsize:
            assert found.itemsize == wanted.size
            assert dtype(number + 100).name == tf.as_dtype(number + 100).name


def test_a_message_passes_through_both_worlds() -> None:
    """Every field set, serialized by one and read by the other."""
    from tensorflow.core.framework.node_def_pb2 import NodeDef

    node = NodeDef(name="n", op="o", input=["a"], device="d")
    node.attr["x"].list.i.extend([1, -2])
    node.attr["y"].tensor.half_val.extend([3, 4])
    node.experimental_debug_info.original_node_names.append("z")
    data = node.SerializeToString(deterministic=True)
    ours = message_class("NodeDef").FromString(data)
    assert ours.SerializeToString(deterministic=True) == data
    assert ours.DESCRIPTOR is not node.DESCRIPTOR
