"""The two object graphs of TensorFlow 2, edited in their bytes: all that is not edited stays as it is.

`SavedObjectGraph` is part of a SavedModel's meta graph: the Python objects, and what their attributes are called.
`TrackableObjectGraph` is a string in the checkpoint: which tensor belongs to which object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfsmith.errors import CorruptFileError, UsageError
from tfsmith.ir.model import Model, ObjectGraph
from tfsmith.ir.names import OBJECT_GRAPH_KEY
from tfsmith.ir.tensor import StringTensor
from tfsmith.records import replace
from tfsmith.storage.span import Span, from_bytes
from tfsmith.wire.fields import BYTES, RawField, WritePlan, fields
from tfsmith.wire.messages import parse

__all__ = ["plan_objects", "rename_tensors", "rename_tracked"]

_NODES = 1  # of both graphs
_CHILDREN, _DEPENDENCIES = 1, 15  # of SavedObject
_ATTRIBUTES, _SLOTS = 2, 3  # of TrackableObject
_REFERENCE = "TrackableObjectGraph.TrackableObject.ObjectReference"
_TENSOR = "TrackableObjectGraph.TrackableObject.SerializedTensor"
_SLOT = "TrackableObjectGraph.TrackableObject.SlotVariableReference"


def plan_objects(objects: ObjectGraph) -> Span | WritePlan:
    """The bytes of a SavedObjectGraph: those that it was read from, with some children renamed or removed.

    Raises:
        UsageError: It was made in memory.
    """
    if objects.base is None:
        raise UsageError("an object graph cannot be made, only changed", remedy="take it from a SavedModel")
    if not objects.edits:
        return objects.base
    plan, number = WritePlan(), -1
    for field, whole, payload in _each(objects.base):
        number += _is(field, _NODES)
        names = objects.edits.get(number) if _is(field, _NODES) else None
        if names is None:
            plan.add(whole)
        else:
            plan.add_field(_NODES, _with_children(payload, names))
    return plan


def _with_children(node: Span, names: Mapping[str, str | None]) -> WritePlan:
    plan = WritePlan()
    for field, whole, payload in _each(node):
        if field.number not in (_CHILDREN, _DEPENDENCIES) or field.wire_type != BYTES:
            plan.add(whole)
            continue
        reference = parse(_REFERENCE, payload)
        name = names.get(reference.local_name, reference.local_name)
        if name == reference.local_name:
            plan.add(whole)
        elif name is not None:
            reference.local_name = name
            plan.add_field(field.number, reference.SerializeToString())
    return plan


def rename_tracked(model: Model, names: Mapping[str, str | None]) -> Model:
    """The model with a checkpoint that knows its tensors' objects, when tensors were renamed or (None) dropped."""
    tensor = model.variables.get(OBJECT_GRAPH_KEY)
    if tensor is None or not names:
        return model
    if tensor.dtype.name != "string" or tensor.shape.elements != 1:
        what = f"the tensor {OBJECT_GRAPH_KEY!r} is {tensor.dtype} {tensor.shape}, not a string"
        raise CorruptFileError(what, path=model.path, remedy="the file is damaged; fetch it again")
    data = rename_tensors(bytes(tensor.numpy().reshape(-1)[0]), names)
    variables = {**model.variables, OBJECT_GRAPH_KEY: StringTensor(tensor.shape, [data])}
    return replace(model, variables=variables, checkpoint=None)


def rename_tensors(data: bytes, names: Mapping[str, str | None]) -> bytes:
    """The bytes of a TrackableObjectGraph for a checkpoint in which tensors have other names, or (None) are gone.

    An object that lost its tensor stays without one; if it was a slot of an optimizer, it is no slot any more.
    """
    span, plan = from_bytes(data), WritePlan()
    empty = {number for number, node in enumerate(_nodes(span)) if _is_emptied(node, names)}
    for field, whole, payload in _each(span):
        if _is(field, _NODES):
            plan.add_field(_NODES, _with_tensors(payload, names, empty))
        else:
            plan.add(whole)
    return plan.tobytes()


def _nodes(span: Span) -> Iterator[Span]:
    return (payload for field, _, payload in _each(span) if _is(field, _NODES))


def _is_emptied(node: Span, names: Mapping[str, str | None]) -> bool:
    keys = [parse(_TENSOR, payload).checkpoint_key for field, _, payload in _each(node) if _is(field, _ATTRIBUTES)]
    return bool(keys) and all(key in names and names[key] is None for key in keys)


def _with_tensors(node: Span, names: Mapping[str, str | None], empty: set[int]) -> WritePlan:
    plan = WritePlan()
    for field, whole, payload in _each(node):
        if _is(field, _SLOTS) and parse(_SLOT, payload).slot_variable_node_id in empty:
            continue
        tensor = parse(_TENSOR, payload) if _is(field, _ATTRIBUTES) else None
        if tensor is None or tensor.checkpoint_key not in names:
            plan.add(whole)
            continue
        name = names[tensor.checkpoint_key]
        if name is not None:
            tensor.checkpoint_key = name
            plan.add_field(_ATTRIBUTES, tensor.SerializeToString())
    return plan


def _is(field: RawField, number: int) -> bool:
    return field.number == number and field.wire_type == BYTES


def _each(span: Span) -> Iterator[tuple[RawField, Span, Span]]:
    """The fields of a message: each with all of its bytes, and with what it holds."""
    for field in fields(span):
        yield field, Span(span.source, field.tag_start, field.stop), Span(span.source, field.start, field.stop)
