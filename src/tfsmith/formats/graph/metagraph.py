"""MetaGraphDef <-> `MetaGraph`: signatures, collections, saver. Every part is decoded on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from tfsmith.errors import CorruptFileError, TfsmithError
from tfsmith.formats.graph import plan_tensor, set_shape, shape_from_message, tensor_from_message
from tfsmith.formats.graph.graphdef import LazyOps, op_to_message, plan_graph, read_graph
from tfsmith.ir.body import Part
from tfsmith.ir.model import (
    Asset,
    Collection,
    MetaGraph,
    MetaInfo,
    ObjectGraph,
    ObjectNode,
    Saver,
    Signature,
    TensorInfo,
)
from tfsmith.ir.opdef import OpDef
from tfsmith.ir.types import Shape, dtype, dtype_named
from tfsmith.limits import MAX_FIELDS
from tfsmith.storage import Span
from tfsmith.wire import BYTES, WritePlan, fields, new, parse

__all__ = [
    "to_plain",
    "from_plain",
    "signatures_from_messages",
    "plan_signatures",
    "signature_to_message",
    "collections_from_messages",
    "plan_collections",
    "read_meta_graph",
    "read_saver",
    "plan_meta_graph",
]


def to_plain(message: Any) -> dict[str, Any]:
    """A message as a dict. Enums become their names; maps become dicts with sorted keys; tensors become `Tensor`s."""
    return {field.name: _plain(field, value) for field, value in message.ListFields()}


def _plain(field: Any, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return {key: _one(inner, value[key]) for key in sorted(value)}
    if hasattr(value, "append"):  # a repeated field
        return tuple(_one(field, item) for item in value)
    return _one(field, value)


def _one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _tensor(value) if field.message_type.name == "TensorProto" else to_plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value


def _tensor(message: Any) -> Any:
    """A tensor inside a message is a few numbers, such as the bounds of a spec. A damaged one stays plain data."""
    try:
        return tensor_from_message(message, "a tensor value")
    except TfsmithError:
        return to_plain(message)


def from_plain(name: str, plain: Mapping[str, Any]) -> Any:
    """The message of which `to_plain` would return this dict. For messages without maps and tensors."""
    message = new(name)
    _fill(message, plain)
    return message


def _fill(message: Any, plain: Mapping[str, Any]) -> None:
    for key, value in plain.items():
        if isinstance(value, Mapping):
            getattr(message, key).SetInParent()
            _fill(getattr(message, key), value)
        elif not isinstance(value, (tuple, list)):
            setattr(message, key, _number(message, key, value))
        elif value and isinstance(value[0], Mapping):
            for item in value:
                _fill(getattr(message, key).add(), item)
        else:
            getattr(message, key).extend(_number(message, key, item) for item in value)


def _number(message: Any, key: str, value: Any) -> Any:
    """An enum's number by its name; any other value as it is."""
    enum = message.DESCRIPTOR.fields_by_name[key].enum_type
    return enum.values_by_name[value].number if enum is not None and isinstance(value, str) else value


_SPARSE_ROLES = ("values", "indices", "dense_shape")


def signatures_from_messages(messages: Mapping[str, Any], path: str | None = None) -> dict[str, Signature]:
    """All signatures of a meta graph, sorted by key, their inputs and outputs too."""
    return {key: _signature(messages[key], path) for key in sorted(messages)}


def _signature(message: Any, path: str | None) -> Signature:
    return Signature(
        {key: _info(message.inputs[key], f"input {key!r}", path) for key in sorted(message.inputs)},
        {key: _info(message.outputs[key], f"output {key!r}", path) for key in sorted(message.outputs)},
        message.method_name,
        {key: tensor_from_message(message.defaults[key], f"default {key!r}", path) for key in sorted(message.defaults)},
    )


def _info(message: Any, label: str, path: str | None) -> TensorInfo:
    kind, shape = dtype(message.dtype), shape_from_message(message.tensor_shape, label, path)
    encoding = message.WhichOneof("encoding")
    if encoding == "coo_sparse":
        sparse = message.coo_sparse
        int64 = dtype_named("int64")
        parts = {
            "values": TensorInfo(sparse.values_tensor_name, kind, Shape((-1,))),
            "indices": TensorInfo(sparse.indices_tensor_name, int64, Shape((-1, -1))),
            "dense_shape": TensorInfo(sparse.dense_shape_tensor_name, int64, Shape((-1,))),
        }
        return TensorInfo("", kind, shape, "sparse", parts)
    if encoding == "composite_tensor":
        inner = enumerate(message.composite_tensor.components)
        components = {str(number): _info(item, label, path) for number, item in inner}
        spec = message.composite_tensor.type_spec.SerializeToString()
        return TensorInfo("", kind, shape, "composite", components, spec)
    return TensorInfo(message.name, kind, shape)


def plan_signatures(plan: WritePlan, number: int, signatures: Mapping[str, Signature]) -> None:
    """Adds the entries of the map, sorted by key, as fields with this number."""
    for key in sorted(signatures):
        entry = WritePlan()
        entry.add_field(1, key.encode())
        entry.add_field(2, signature_to_message(signatures[key]).SerializeToString(deterministic=True))
        plan.add_field(number, entry)


def signature_to_message(signature: Signature) -> Any:
    """A signature as a SignatureDef."""
    message = new("SignatureDef")
    message.method_name = signature.method_name
    for infos, target in ((signature.inputs, message.inputs), (signature.outputs, message.outputs)):
        for key, info in infos.items():
            _fill_signature(target[key], info)
    for key, tensor in signature.defaults.items():
        message.defaults[key].ParseFromString(plan_tensor(tensor).tobytes())
    return message


def _fill_signature(message: Any, info: TensorInfo) -> None:
    if info.encoding != "composite" or info.dtype.number:  # TensorFlow gives these to the components alone
        message.dtype = info.dtype.number
        set_shape(message.tensor_shape, info.shape)
    if info.encoding == "dense":
        message.name = info.name
    elif info.encoding == "sparse":
        for role in _SPARSE_ROLES:
            setattr(message.coo_sparse, f"{role}_tensor_name", info.components[role].name)
    else:
        message.composite_tensor.type_spec.ParseFromString(info.type_spec)
        for component in info.components.values():
            _fill_signature(message.composite_tensor.components.add(), component)


# The types that TensorFlow registers for its own collections; any other that holds messages is tried as VariableDef.
_TYPES = MappingProxyType(
    {
        "variables": "VariableDef",
        "trainable_variables": "VariableDef",
        "local_variables": "VariableDef",
        "model_variables": "VariableDef",
        "moving_average_variables": "VariableDef",
        "metric_variables": "VariableDef",
        "while_context": "WhileContextDef",
        "cond_context": "CondContextDef",
        "queue_runners": "QueueRunnerDef",
        "savers": "SaverDef",
    }
)
_FIELDS = MappingProxyType(
    {"node": "node_list", "bytes": "bytes_list", "int64": "int64_list", "float": "float_list", "any": "any_list"}
)
_KINDS = MappingProxyType({field: kind for kind, field in _FIELDS.items()})


def collections_from_messages(messages: Mapping[str, Any]) -> dict[str, Collection]:
    """All collections of a meta graph, sorted by key."""
    return {key: _collection(key, messages[key]) for key in sorted(messages)}


def _collection(key: str, message: Any) -> Collection:
    field = message.WhichOneof("kind")
    if field is None:
        return Collection("none", ())
    values = getattr(message, field).value
    kind: Any = _KINDS[field]
    if kind == "any":
        pairs = tuple((value.type_url, value.value) for value in values)
        return Collection("any", pairs, partial(_decode_any, pairs))
    return Collection(kind, tuple(values), partial(_decode, key, tuple(values)) if kind == "bytes" else None)


def _decode(key: str, values: tuple[bytes, ...]) -> tuple[Mapping[str, Any], ...]:
    name = _TYPES.get(key, "VariableDef")
    try:
        found = tuple(to_plain(parse(name, value)) for value in values)
    except CorruptFileError:
        return ()
    if name == "VariableDef" and not all("variable_name" in item for item in found):
        return ()
    return found


def _decode_any(pairs: tuple[tuple[str, bytes], ...]) -> tuple[Mapping[str, Any], ...]:
    from tfsmith.wire.schema import schema

    names = [url.rpartition("/")[2].removeprefix("tensorflow.") for url, _ in pairs]
    if any(name not in schema().messages for name in names):
        return ()
    try:
        return tuple(to_plain(parse(name, data)) for name, (_, data) in zip(names, pairs, strict=True))
    except CorruptFileError:
        return ()


def plan_collections(plan: WritePlan, number: int, collections: Mapping[str, Collection]) -> None:
    """Adds the entries of the map, sorted by key, as fields with this number."""
    for key in sorted(collections):
        message = new("CollectionDef")
        collection = collections[key]
        if collection.kind == "any":
            message.any_list.SetInParent()
            for url, data in collection.values:
                message.any_list.value.add(type_url=url, value=data)
        elif collection.kind != "none":
            values = getattr(message, _FIELDS[collection.kind])
            values.SetInParent()
            values.value.extend(_encoded(key, value) for value in collection.values)
        entry = WritePlan()
        entry.add_field(1, key.encode())
        entry.add_field(2, message.SerializeToString())
        plan.add_field(number, entry)


def _encoded(key: str, value: Any) -> Any:
    """A value as the list takes it: a message that was made in memory is still plain data."""
    if not isinstance(value, Mapping):
        return value
    return from_plain(_TYPES.get(key, "VariableDef"), value).SerializeToString()


_INFO, _GRAPH, _SAVER, _COLLECTIONS, _SIGNATURES, _ASSETS, _OBJECTS = 1, 2, 3, 4, 5, 6, 7
_KNOWN = (_INFO, _GRAPH, _SAVER, _COLLECTIONS, _SIGNATURES, _ASSETS, _OBJECTS)
_SINGULAR = {_INFO: "meta_info_def", _GRAPH: "graph_def", _SAVER: "saver_def", _OBJECTS: "object_graph_def"}

T = TypeVar("T")


def read_meta_graph(span: Span) -> MetaGraph:
    """A meta graph; only its fields are found, nothing is decoded.

    Raises:
        CorruptFileError: The bytes are no MetaGraphDef.
    """
    found: dict[int, list[Span]] = {number: [] for number in _KNOWN}
    payload: dict[int, Span] = {}
    extras: list[Span] = []
    for field in fields(span, MAX_FIELDS):
        whole = Span(span.source, field.tag_start, field.stop)
        if field.number not in found or field.wire_type != BYTES:
            extras.append(whole)
            continue
        if field.number in _SINGULAR and field.number in payload:
            what = f"{_SINGULAR[field.number]} is there twice"
            remedy = "the file was put together wrongly; write it again from its source"
            raise CorruptFileError(what, path=span.name, offset=field.tag_start, remedy=remedy)
        found[field.number].append(whole)
        payload[field.number] = Span(span.source, field.start, field.stop)

    def one(number: int, load: Callable[[Span | None], T]) -> Part[T]:
        return Part(partial(load, payload.get(number)), tuple(found[number]))

    def several(number: int, load: Callable[[tuple[Span, ...]], T]) -> Part[T]:
        return Part(partial(load, tuple(found[number])), tuple(found[number]))

    info = one(_INFO, _meta_info)
    graph = payload.get(_GRAPH, Span(span.source, span.start, span.start))
    return MetaGraph(
        graph_part=Part(partial(read_graph, graph, partial(_ops, info)), tuple(found[_GRAPH])),
        info_part=info,
        saver_part=one(_SAVER, read_saver),
        collections_part=several(_COLLECTIONS, _collections),
        signatures_part=several(_SIGNATURES, _signatures),
        assets_part=several(_ASSETS, _assets),
        objects_part=one(_OBJECTS, _objects),
        raw=span,
        extras=tuple(extras),
    )


def _entries(fields: tuple[Span, ...]) -> Any:
    """The entries of a repeated field."""
    message = new("MetaGraphDef")
    for field in fields:  # one by one, so that an error knows its place
        message.MergeFrom(parse("MetaGraphDef", field, "a meta graph"))
    return message


def _ops(info: Part[MetaInfo]) -> Mapping[str, OpDef]:
    return info.value.ops


def _collections(fields: tuple[Span, ...]) -> dict[str, Collection]:
    return collections_from_messages(_entries(fields).collection_def)


def _signatures(fields: tuple[Span, ...]) -> dict[str, Signature]:
    return signatures_from_messages(_entries(fields).signature_def, fields[0].name if fields else None)


def _meta_info(span: Span | None) -> MetaInfo:
    if span is None:
        return MetaInfo()
    message = parse("MetaGraphDef.MetaInfoDef", span, "meta_info_def")
    return MetaInfo(
        tuple(message.tags),
        message.tensorflow_version,
        message.tensorflow_git_version,
        message.meta_graph_version,
        message.stripped_default_attrs,
        LazyOps(message.stripped_op_list),
        dict(message.function_aliases),
        span,
    )


def read_saver(span: Span | None) -> Saver | None:
    """A SaverDef, or None where there is none."""
    if span is None:
        return None
    message = parse("SaverDef", span)
    return Saver(
        message.filename_tensor_name,
        message.save_tensor_name,
        message.restore_op_name,
        message.max_to_keep,
        message.sharded,
        message.keep_checkpoint_every_n_hours,
        message.version,
    )


def _assets(fields: tuple[Span, ...]) -> tuple[Asset, ...]:
    messages = _entries(fields).asset_file_def
    return tuple(Asset(message.tensor_info.name, message.filename) for message in messages)


def _objects(span: Span | None) -> ObjectGraph | None:
    if span is None:
        return None
    message = parse("SavedObjectGraph", span, "object_graph_def")
    nodes = []
    for node in message.nodes:
        kind = node.WhichOneof("kind") or ""
        children = {child.local_name: child.node_id for child in node.children}
        nodes.append(ObjectNode(kind, children, to_plain(getattr(node, kind)) if kind else {}))
    functions = {name: to_plain(message.concrete_functions[name]) for name in sorted(message.concrete_functions)}
    return ObjectGraph(tuple(nodes), functions, span)


def plan_meta_graph(meta: MetaGraph) -> Span | WritePlan:
    """The bytes of a meta graph: its own while nobody edited it; each untouched part verbatim otherwise."""
    if meta.raw is not None:
        return meta.raw
    plan = WritePlan()
    _add(plan, meta.info_part, lambda value: plan.add_field(_INFO, _info_bytes(value)))
    _add(plan, meta.graph_part, lambda value: plan.add_field(_GRAPH, plan_graph(value)))
    _add(plan, meta.saver_part, lambda value: _add_saver(plan, value))
    _add(plan, meta.collections_part, lambda value: plan_collections(plan, _COLLECTIONS, value))
    _add(plan, meta.signatures_part, lambda value: plan_signatures(plan, _SIGNATURES, value))
    _add(plan, meta.assets_part, lambda value: _add_assets(plan, value))
    _add(plan, meta.objects_part, lambda value: _add_objects(plan, value))
    for extra in meta.extras:
        plan.add(extra)
    return plan


def _add(plan: WritePlan, part: Part[T], encode: Callable[[T], None]) -> None:
    if part.raw is None:
        encode(part.value)
        return
    for raw in part.raw:
        plan.add(raw)


def _info_bytes(info: MetaInfo) -> bytes:
    """The message: what it was read from, with what we know of in its present state."""
    name = "MetaGraphDef.MetaInfoDef"
    message = new(name) if info.base is None else parse(name, info.base, "meta_info_def")
    known = {op.name: op for op in message.stripped_op_list.op}
    for field in ("tags", "function_aliases", "stripped_op_list"):
        message.ClearField(field)
    message.tags.extend(info.tags)
    message.tensorflow_version = info.tensorflow_version
    message.tensorflow_git_version = info.tensorflow_git_version
    message.meta_graph_version = info.meta_graph_version
    message.stripped_default_attrs = info.stripped_default_attrs
    message.function_aliases.update(info.function_aliases)
    ops: Mapping[str, OpDef] = info.ops
    for name in sorted(ops):
        own = ops.message(name) if isinstance(ops, LazyOps) else known.get(name)
        message.stripped_op_list.op.append(op_to_message(ops[name]) if own is None else own)
    return bytes(message.SerializeToString(deterministic=True))


def _add_saver(plan: WritePlan, saver: Saver | None) -> None:
    if saver is None:
        return
    message = new("SaverDef")
    for name in Saver.__match_args__:
        setattr(message, name, getattr(saver, name))
    plan.add_field(_SAVER, message.SerializeToString())


def _add_objects(plan: WritePlan, objects: ObjectGraph | None) -> None:
    if objects is not None:
        from tfsmith.formats.savedmodel import plan_objects

        plan.add_field(_OBJECTS, plan_objects(objects))


def _add_assets(plan: WritePlan, assets: tuple[Asset, ...]) -> None:
    for asset in assets:
        message = new("AssetFileDef")
        message.tensor_info.name = asset.tensor_name
        message.filename = asset.filename
        plan.add_field(_ASSETS, message.SerializeToString())
