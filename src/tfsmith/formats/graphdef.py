"""GraphDef <-> `Graph`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tfsmith.errors import LimitError
from tfsmith.formats.functions import plan_library, read_library
from tfsmith.formats.nodes import plan_node, read_nodes, scan_places
from tfsmith.formats.opdefs import op_lookup
from tfsmith.ir.function import Library
from tfsmith.ir.graph import Graph, Versions
from tfsmith.ir.opdef import OpDef
from tfsmith.ir.part import Part
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.storage.source import from_bytes
from tfsmith.storage.span import Span
from tfsmith.wire.messages import new, parse
from tfsmith.wire.plan import WritePlan
from tfsmith.wire.scan import BYTES, RawField

__all__ = ["read_graph", "plan_graph", "check_size"]

_NODE, _LIBRARY, _VERSIONS = 1, 2, 4


def _no_ops() -> Mapping[str, OpDef]:
    return {}


def read_graph(span: Span, own_ops: Callable[[], Mapping[str, OpDef]] = _no_ops) -> Graph:
    """A graph. Names, ops and inputs of the nodes are read; attributes, functions and weights stay in the file.

    Args:
        span: The GraphDef.
        own_ops: Gives the op definitions that come with it, if any.

    Raises:
        CorruptFileError: The bytes are no GraphDef.
    """
    places, others = scan_places(span, _NODE)
    libraries: list[RawField] = []
    versions: list[RawField] = []
    extras: list[RawField] = []
    kept = {_LIBRARY: libraries, _VERSIONS: versions}
    for field in others:
        (kept.get(field.number, extras) if field.wire_type == BYTES else extras).append(field)
    library = read_library(_inner(span, libraries), own_ops) if libraries else Library()
    return Graph(
        read_nodes(span, places, "GraphDef", "node"),
        Part(lambda: _versions(_inner(span, versions)), _wholes(span, versions)) if versions else Versions(),
        library,
        ops=op_lookup(own_ops, lambda: library),
        raw=span,
        extras=_wholes(span, extras),
    )


def _wholes(span: Span, found: list[RawField]) -> tuple[Span, ...]:
    """Fields as they stand, tags included."""
    return tuple(Span(span.source, field.tag_start, field.stop) for field in found)


def _inner(span: Span, found: list[RawField]) -> Span:
    """The message in a field. Where it comes in parts, as protobuf allows, they add up."""
    parts = [Span(span.source, field.start, field.stop) for field in found]
    return parts[0] if len(parts) == 1 else from_bytes(b"".join(part.tobytes() for part in parts), span.name)


def _versions(span: Span) -> Versions:
    message = parse("VersionDef", span)
    return Versions(message.producer, message.min_consumer, tuple(message.bad_consumers))


def plan_graph(graph: Graph) -> Span | WritePlan:
    """The bytes of a graph: its own while nobody edited it; each untouched node verbatim otherwise."""
    if graph.raw is not None:
        return graph.raw
    plan = WritePlan()
    for node in graph.nodes:
        plan.add_field(_NODE, plan_node(node))
    if graph.library or graph.library.extras or graph.library.raw is not None:
        plan.add_field(_LIBRARY, plan_library(graph.library))
    _add_versions(plan, graph.versions_part)
    for extra in graph.extras:
        plan.add(extra)
    return plan


def _add_versions(plan: WritePlan, part: Part[Versions]) -> None:
    for raw in part.raw or ():
        plan.add(raw)
    if part.raw is not None or part.value == Versions():
        return
    message = new("VersionDef")
    message.producer, message.min_consumer = part.value.producer, part.value.min_consumer
    message.bad_consumers.extend(part.value.bad_consumers)
    plan.add_field(_VERSIONS, message.SerializeToString())


def check_size(plan: Span | WritePlan, path: object) -> None:
    """Refuses what protobuf cannot hold, before a byte is written.

    Raises:
        LimitError: It is 2 GiB or more.
    """
    size = plan.size if isinstance(plan, WritePlan) else len(plan)
    if size > MAX_PROTO_BYTES:
        raise LimitError(
            f"the result has {size} bytes, and no program can read a message over 2 GiB",
            path=str(path),
            remedy="keep the weights in a checkpoint: write a SavedModel instead (--as saved_model)",
        )
