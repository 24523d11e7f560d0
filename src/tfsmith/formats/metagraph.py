"""MetaGraphDef <-> `MetaGraph`. Every part is decoded on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tfsmith.errors import CorruptFileError
from tfsmith.formats.collections import collections_from_messages, plan_collections
from tfsmith.formats.graphdef import plan_graph, read_graph
from tfsmith.formats.object_graph import plan_objects
from tfsmith.formats.opdefs import LazyOps, op_to_message
from tfsmith.formats.plain import to_plain
from tfsmith.formats.signatures import plan_signatures, signatures_from_messages
from tfsmith.ir.metagraph import Asset, MetaGraph, MetaInfo, ObjectGraph, ObjectNode, Saver
from tfsmith.ir.opdef import OpDef
from tfsmith.ir.part import Part
from tfsmith.limits import MAX_FIELDS
from tfsmith.storage.span import Span
from tfsmith.wire.messages import new, parse
from tfsmith.wire.plan import WritePlan
from tfsmith.wire.scan import BYTES, fields

__all__ = ["read_meta_graph", "read_saver", "plan_meta_graph"]

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

    def part(number: int, load: Callable[[], T]) -> Part[T]:
        return Part(load, tuple(found[number]))

    def several(number: int) -> Any:
        """The entries of a repeated field."""
        message = new("MetaGraphDef")
        for field in found[number]:  # one by one, so that an error knows its place
            message.MergeFrom(parse("MetaGraphDef", field, "a meta graph"))
        return message

    info = part(_INFO, lambda: _info(payload.get(_INFO)))
    empty = Span(span.source, span.start, span.start)
    return MetaGraph(
        graph_part=part(_GRAPH, lambda: read_graph(payload.get(_GRAPH, empty), lambda: info.value.ops)),
        info_part=info,
        saver_part=part(_SAVER, lambda: read_saver(payload.get(_SAVER))),
        collections_part=part(_COLLECTIONS, lambda: collections_from_messages(several(_COLLECTIONS).collection_def)),
        signatures_part=part(
            _SIGNATURES, lambda: signatures_from_messages(several(_SIGNATURES).signature_def, span.name)
        ),
        assets_part=part(_ASSETS, lambda: _assets(several(_ASSETS).asset_file_def)),
        objects_part=part(_OBJECTS, lambda: _objects(payload.get(_OBJECTS))),
        raw=span,
        extras=tuple(extras),
    )


def _info(span: Span | None) -> MetaInfo:
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


def _assets(messages: Any) -> tuple[Asset, ...]:
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
        plan.add_field(_OBJECTS, plan_objects(objects))


def _add_assets(plan: WritePlan, assets: tuple[Asset, ...]) -> None:
    for asset in assets:
        message = new("AssetFileDef")
        message.tensor_info.name = asset.tensor_name
        message.filename = asset.filename
        plan.add_field(_ASSETS, message.SerializeToString())
