"""What a model can do, node by node: from the traits of its ops, the texts that they are given, and when they act."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

from tfsmith.audit.files import program_in, side_file_findings, unpacked_forms
from tfsmith.audit.findings import Finding, Level, When, grouped
from tfsmith.audit.reach import Origin, Place, Reach
from tfsmith.errors import TfsmithError
from tfsmith.ir.graph import Function
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.node import Attr, Node
from tfsmith.ir.opdef import OpDef, builtin_op, builtin_ops
from tfsmith.ir.tensor import Tensor, flat_texts
from tfsmith.ops import ALLOCATIONS, LOOPS, NAMED_BY_ATTR, PASSES_ON, PROTO_CODECS, SIZE_JOINS, TABLE_FILLS
from tfsmith.ops.shapes import flat_values
from tfsmith.ops.traits import Trait, traits
from tfsmith.storage import Span

__all__ = ["OpenInside", "is_plausible", "scan_model"]

OpenInside = Callable[[bytes], "Model | None"]
"""Opens a graph that lies in a text; None if it is none. The verbs bring it, for only they know the formats."""

_NAMES = re.compile(r"file|path|dir|prefix|pattern|address|url|uri|host|region|source|spec", re.IGNORECASE)
"""What inputs and attributes are called that say where something lies."""
_OUTSIDE = re.compile(r"^(/|~|\\\\|[A-Za-z]:[\\/])|://|(^|[\\/])\.\.([\\/]|$)")
"""A text that leads out of the model: absolute, with a scheme, or upward."""
_LARGE = 1 << 32
_MOST_SIZES = 64
_SWELLS = 100
"""A constant that takes so many times its bytes in the file, and over 256 MiB, is no accident."""
_SWOLLEN = 1 << 28
_DEEPEST = 5
_MOST_STRINGS = 1 << 22
"""A constant of more texts than this is not looked into."""
_MOST_WORDS = 64
_LONG_TEXT = 64
"""Of a constant's texts, the first and all that are no words are looked into."""
_LEAST_GRAPH = 24
_LONGEST_SHOWN = 120
_MOST_INSIDE = 1000
"""So many graphs in texts are opened; a file with more of them wants to be too much for a reader."""
_DEFAULT_SAVER = "model"
"""The file name of a saver of TensorFlow 1 to which nobody has given one; whoever saves or restores feeds another."""
_PRINTS_TO_FILE = "file://"
_OWN_DESCRIPTORS = ("local://", "bytes://")
_PLAIN: tuple[tuple[Trait, str, Level, str], ...] = (
    (Trait.RUNS_CODE, "runs-code", "dangerous", "runs code that is not in the file"),
    (Trait.PROCESS, "process", "suspicious", "ends, delays or configures the process"),
    (Trait.TEST, "test-op", "note", "exists for TensorFlow's own tests"),
    (Trait.PRINTS, "prints", "note", "prints"),
    (Trait.HOST, "host", "note", "depends on the machine, the clock or the build"),
    (Trait.RANDOM, "random", "note", "draws random numbers"),
)
"""Traits that are a finding as they are: kind, level, what the op does."""


_ACTS = Trait.GRAPH_INSIDE | Trait.READS_FILES | Trait.WRITES_FILES | Trait.LISTS_FILES | Trait.NETWORK | Trait.SUMMARY
for _trait, *_ in _PLAIN:
    _ACTS |= _trait
_LOOPS = LOOPS | {"LoopCond"}
_LOOKED_AT = _LOOPS | PROTO_CODECS | {"Const", *ALLOCATIONS}


def scan_model(model: Model, open_inside: OpenInside, *, weights: bool = False) -> tuple[Finding, ...]:
    """Everything that a model can do, worst first. Runs nothing, and reads no weights but for `weights`.

    Args:
        model: The model; all of its meta graphs are looked at.
        open_inside: Opens graphs that lie in texts.
        weights: Whether to look for NaN and infinities, which reads all values.
    """
    found: list[Finding] = []
    for number, meta in enumerate(model.meta_graphs):
        title = f"meta graph {number}" if len(model.meta_graphs) > 1 else ""
        if number:
            what = f"meta graph {number} ({', '.join(meta.tags) or 'without tags'}) is not the one that is shown first"
            found.append(Finding("hidden-graph", "note", what, when="in the file"))
        found += _Scan(Reach(meta), open_inside, title, 0).findings()
    for asset in (asset for meta in model.meta_graphs for asset in meta.assets):
        if _OUTSIDE.search(asset.filename):
            what = f"an asset lies outside of the model: {_shown(asset.filename)!r}"
            name = asset.tensor_name
            found.append(Finding("leads-out", "dangerous", what, "", name, "", _shown(asset.filename), "at load"))
    found += side_file_findings(model.side_files)
    for name, tensor in model.variables.items():
        found += _tensor_findings(name, tensor, "in the file")
        found += _not_finite(name, tensor) if weights else ()
    return grouped(found)


class _Scan:
    """The scan of one meta graph, or of a graph inside of a text.

    Attributes:
        outside: What leads to it; empty for the model's own graph.
        depth: How many graphs it lies in.
        held: When whatever holds it acts; None for the model's own graph.
        budget: How many graphs in texts are still opened, as a list of one number that all share.
    """

    def __init__(
        self,
        reach: Reach,
        open_inside: OpenInside,
        outside: str,
        depth: int,
        held: When | None = None,
        budget: list[int] | None = None,
    ) -> None:
        self.reach = reach
        self.open_inside = open_inside
        self.outside = outside
        self.depth = depth
        self.held = held
        self.budget = [_MOST_INSIDE] if budget is None else budget

    def findings(self) -> Iterator[Finding]:
        library = self.reach.meta.graph.library
        sources: list[Place] = []
        sinks: list[Place] = []
        plain: dict[str, bool] = {}  # ops that can do nothing but compute
        for place in self.reach.places():
            op = place.node.op
            if op not in plain:
                plain[op] = (op in library and builtin_op(op) is None) or _only_computes(op)
            if plain[op]:
                continue
            known = traits(op)
            if known is None:
                what = f"{_shown(_ascii(op))} is not one of TensorFlow's ops"
                yield self._found(place, "custom-op", "suspicious", what)
                yield from self._texts_inside(place)
                continue
            if op == "Const":
                yield from self._constant(place)
            found = list(self._by_traits(place, known))
            kinds = {one.kind for one in found}
            if kinds & {"reads-files", "lists-files"}:
                sources.append(place)
            if kinds & {"writes-files", "network", "summary"}:
                sinks.append(place)
            yield from found
        for source, sink in self.reach.flows(sources, sinks) if sources and sinks else ():
            what = f"what {source.node.op} {source.node.name!r} reads reaches {sink.node.op}"
            yield self._found(sink, "file-flow", "dangerous", what)
        yield from self._of_library()

    def _of_library(self) -> Iterator[Finding]:
        """What is odd about the functions themselves."""
        for name in self.reach.recursive():
            what = f"function {_shown(name)!r} calls itself"
            yield Finding("endless-loop", "suspicious", what, "", "", self._inside(name), when="at call")
        for name in self.reach.meta.graph.library:
            if builtin_op(name) is not None:
                what = f"a function has the name of TensorFlow's op {name}"
                yield Finding("disguised", "suspicious", what, "", "", self._inside(name), when="in the file")

    def _inside(self, name: str) -> str:
        return f"{self.outside} > {name}" if self.outside else name

    def _by_traits(self, place: Place, known: Trait) -> Iterator[Finding]:
        op = place.node.op
        for trait, kind, level, does in _PLAIN:
            if known & trait and not (trait is Trait.RANDOM and self._when(place) == "never reached"):
                yield self._found(place, kind, level, f"{op} {does}")
        printed = _prints_to(place.node)
        if printed:
            yield self._found(place, "writes-files", "dangerous", f"{op} writes {_shown(printed)!r}", _shown(printed))
        if op in PROTO_CODECS:
            yield from self._descriptors(place)
        if known & Trait.SUMMARY and known & Trait.WRITES_FILES:
            texts = [one.text for one in self._where(place) if one.kind == "constant" and _OUTSIDE.search(one.text)]
            said = f" to {_shown(texts[0])!r}" if texts else ""
            yield self._found(place, "summary", "suspicious" if texts else "note", f"{op} writes summaries{said}",
                              _shown(texts[0]) if texts else "")  # fmt: skip
        elif known & (Trait.READS_FILES | Trait.WRITES_FILES | Trait.LISTS_FILES | Trait.NETWORK):
            yield from self._outside_world(place, known)
        if known & Trait.GRAPH_INSIDE:
            yield from self._graph_runner(place)
        if op in ALLOCATIONS:
            yield from self._allocation(place)
        if op in _LOOPS:
            yield from self._loop(place)

    def _graph_runner(self, place: Place) -> Iterator[Finding]:
        op = place.node.op
        yield self._found(place, "program-inside", "note", f"{op} runs a program that it carries as data")
        yield from self._texts_inside(place)
        definition = builtin_op(op)
        first = definition.inputs[0] if definition is not None and definition.inputs else None
        if first is None or first.type is None or first.type.name != "string" or not place.node.data_inputs:
            return
        source = self.reach.bodies[place.body].by_name.get(place.node.data_inputs[0].partition(":")[0])
        if source is None or source.op not in PASSES_ON | {"Const"}:
            what = f"{op} runs a program that it is given or makes itself, which no scan can see"
            yield self._found(place, "program-inside", "dangerous", what)

    def _descriptors(self, place: Place) -> Iterator[Finding]:
        """`DecodeProto` and `EncodeProto` read the file that says what messages look like."""
        for text in _strings(place.node.attrs.get("descriptor_source")):
            if text and not text.startswith(_OWN_DESCRIPTORS):
                level: Level = "dangerous" if _OUTSIDE.search(text) else "suspicious"
                what = f"{place.node.op} reads {_shown(text)!r}"
                yield self._found(place, "reads-files", level, what, _shown(text))

    # Files and the network

    def _outside_world(self, place: Place, known: Trait) -> Iterator[Finding]:
        op = place.node.op
        origins = self._where(place)
        texts = [one.text for one in origins if one.kind == "constant" and one.text]
        if origins and not texts and all(one.kind == "constant" for one in origins):
            return  # an empty name: a cache in memory, a sampler without a file
        if not origins and op in NAMED_BY_ATTR:
            return
        is_fed = self._when(place) == "at load" or op in TABLE_FILLS
        texts += [one.stored for one in origins if one.kind == "asset" and not is_fed and _OUTSIDE.search(one.stored)]
        outside = next((text for text in texts if _OUTSIDE.search(text)), "")
        if known & Trait.DEBUG and not texts:
            yield self._found(
                place, "prints", "note", f"{op} copies a tensor for a debugger, and names no place for it"
            )
            return
        is_named = any(one.kind in ("saver", "input") for one in origins) and not outside
        if known & Trait.SAVER and self.reach.in_saver(place) and is_named:
            return  # the saver's own ops, in the saver's own place
        if (
            known & Trait.SAVER
            and is_named
            and (self.reach.when(place) == "never reached" or not self.reach.has_entries)
        ):
            return  # another saver, which nothing runs unless it is asked for by name
        if known & Trait.SAVER and texts and set(texts) <= {_DEFAULT_SAVER, ""} and not self.reach.has_entries:
            return  # the same, as TensorFlow 1 makes it
        shown = _shown(outside or next(iter(texts), ""))
        said = f" {shown!r}" if shown else _said(origins)
        if known & Trait.NETWORK and not (known & Trait.DEBUG and outside.startswith("file:")):
            level: Level = "suspicious" if known & Trait.DEVICE else "dangerous"
            yield self._found(place, "network", level, f"{op} talks to{said or ' another process'}", shown)
        if known & Trait.WRITES_FILES and (not known & Trait.NETWORK or outside.startswith("file:")):
            yield self._found(place, "writes-files", "dangerous", f"{op} writes{said}", shown)
        if known & Trait.LISTS_FILES:
            yield self._found(place, "lists-files", "suspicious", f"{op} lists{said}", shown)
        elif known & Trait.READS_FILES and not known & Trait.WRITES_FILES:
            if origins and all(one.kind == "asset" for one in origins) and not outside:
                name = origins[0].text
                yield self._found(place, "reads-files", "note", f"{op} reads the asset {_shown(name)!r}", _shown(name))
                return
            is_free = bool(outside) and op not in TABLE_FILLS
            yield self._found(
                place, "reads-files", "dangerous" if is_free else "suspicious", f"{op} reads{said}", shown
            )

    def _where(self, place: Place) -> list[Origin]:
        """Where the op is told to read, write or go: by inputs and attributes that are called so."""
        definition = builtin_op(place.node.op)
        if definition is None:
            return []
        found: list[Origin] = []
        for index in _named_inputs(definition):
            found += self.reach.origins(place, index)
        for attr in definition.attrs:
            if "string" in attr.kind and _NAMES.search(attr.name):
                found += [Origin("constant", text) for text in _strings(place.node.attrs.get(attr.name)) if text]
        return list(dict.fromkeys(found))

    # Constants

    def _constant(self, place: Place) -> Iterator[Finding]:
        node = place.node
        tensor = node.constant
        if tensor is None:
            return
        size, raw = tensor.nbytes, node.raw
        if size > _SWOLLEN and raw is not None and size > _SWELLS * len(raw):
            what = f"a constant of {len(raw)} bytes in the file becomes {size >> 20} MiB"
            yield self._found(place, "memory", "suspicious", what)
            return
        if tensor.dtype.name == "string":
            for text in _some_strings(tensor):
                yield from self._text(place, text)
            return
        for one in _tensor_findings(node.name, tensor, self._when(place)):
            yield self._found(place, one.kind, one.level, one.what)

    def _texts_inside(self, place: Place) -> Iterator[Finding]:
        """What lies in the texts of a node's attributes, and in constants that it takes."""
        for attr in place.node.attrs.values():
            for data in _raw_strings(attr):
                yield from self._text(place, data)

    def _text(self, place: Place, data: bytes) -> Iterator[Finding]:
        program = program_in(data, whole=True)
        if program:
            yield self._found(
                place, "looks-like-program", "suspicious", f"a text of {len(data)} bytes begins like {program}"
            )
        inner, form = self._inner(data)
        if inner is None:
            return
        self.budget[0] -= 1
        if self.budget[0] <= 0:
            if not self.budget[0]:
                what = f"the model holds over {_MOST_INSIDE} graphs in texts"
                yield self._found(place, "program-inside", "dangerous", what)
            return
        where = self._trail(place)
        is_run = self._runs_graphs(place)
        when = self._when(place) if is_run else "never reached"
        count = sum(len(meta.graph) for meta in inner.meta_graphs)
        what = f"a text of {len(data)} bytes is a {form}graph of {count} nodes"
        yield self._found(place, "program-inside", "note" if is_run and not form else "suspicious", what)
        if self.depth >= _DEEPEST:
            what = f"graphs lie in graphs more than {_DEEPEST} deep"
            yield self._found(place, "program-inside", "dangerous", what)
            return
        title = f"{where} > {place.node.name}" if where else place.node.name
        for meta in inner.meta_graphs:
            yield from _Scan(Reach(meta), self.open_inside, title, self.depth + 1, when, self.budget).findings()

    def _inner(self, data: bytes) -> tuple[Model | None, str]:
        """The graph that a text is, plainly or packed, and how it is packed."""
        for form, unpacked in chain((("", data),), unpacked_forms(data)):
            if len(unpacked) >= _LEAST_GRAPH and _may_be_message(unpacked):
                inner = self.open_inside(unpacked)
                if inner is not None:
                    return inner, f"{form} " if form else ""
        return None, ""

    def _runs_graphs(self, place: Place) -> bool:
        """Whether the text is given to an op that runs graphs, at any distance."""
        known = traits(place.node.op)
        if place.node.op != "Const":
            return known is not None and bool(known & Trait.GRAPH_INSIDE)
        return bool(self._runners) and any(True for _ in self.reach.flows([place], self._runners))

    @cached_property
    def _runners(self) -> list[Place]:
        return [one for one in self.reach.places() if (traits(one.node.op) or Trait(0)) & Trait.GRAPH_INSIDE]

    # Memory and time

    def _allocation(self, place: Place) -> Iterator[Finding]:
        node = place.node
        sizes = self._integers(place.body, node, ALLOCATIONS[node.op])
        if node.op == "Range" and sizes is not None:
            start, delta = self._integers(place.body, node, 0), self._integers(place.body, node, 2)
            sizes = [abs(sizes[0] - start[0]) // abs(delta[0])] if start and delta and delta[0] and sizes else None
        if sizes and all(size > 0 for size in sizes) and math.prod(sizes) >= _LARGE:
            what = f"{node.op} makes a tensor of {math.prod(sizes):,} elements"
            yield self._found(place, "memory", "suspicious", what)

    def _integers(self, body: str, node: Node, index: int, depth: int = 0) -> list[int] | None:
        """The integers of an input, if constants say them: as they are, or packed and joined."""
        inputs = node.data_inputs
        source = self.reach.bodies[body].by_name.get(inputs[index].partition(":")[0]) if index < len(inputs) else None
        if source is None or depth > _DEEPEST:
            return None
        if source.op in SIZE_JOINS:
            count = len(source.data_inputs) - (source.op == "ConcatV2")
            found: list[int] = []
            for number in range(min(count, _MOST_SIZES)):
                part = self._integers(body, source, number, depth + 1)
                if part is None:
                    return None
                found += part
            return found
        tensor = source.constant
        if tensor is None or (tensor.shape.elements or 0) > _MOST_SIZES or not tensor.dtype.name.startswith("int"):
            return None
        return [int(size) for size in flat_values(tensor)]

    def _loop(self, place: Place) -> Iterator[Finding]:
        node = place.node
        if node.op == "LoopCond":
            source: tuple[str, str] | None = (place.body, node.data_inputs[0]) if node.data_inputs else None
        else:
            func = node.get("cond")
            body = self.reach.bodies.get(getattr(func, "name", ""))
            returned = next(iter(body.ret.values()), None) if isinstance(body, Function) else None
            source = None if returned is None or not isinstance(body, Function) else (body.name, returned)
        if source is not None and self._is_true(*source):
            yield self._found(place, "endless-loop", "suspicious", f"the condition of {node.op} is the constant True")

    def _is_true(self, body: str, text: str) -> bool:
        for _ in range(100):
            node = self.reach.bodies[body].by_name.get(text.partition(":")[0])
            if node is None or (node.op not in PASSES_ON and node.op not in ("Enter", "Const")):
                return False
            if node.op == "Const":
                tensor = node.constant
                if tensor is None or tensor.dtype.name != "bool" or tensor.shape.elements != 1:
                    return False
                return bool(flat_values(tensor)[0])
            if not node.data_inputs:
                return False
            text = node.data_inputs[0]
        return False

    # Findings

    def _when(self, place: Place) -> When:
        when = self.reach.when(place)
        if self.held is None or when == "never reached":
            return when
        return self.held

    def _trail(self, place: Place) -> str:
        inside = self.reach.trail(place.body)
        return " > ".join(part for part in (self.outside, inside) if part)

    def _found(self, place: Place, kind: str, level: Level, what: str, constant: str = "") -> Finding:
        when = self._when(place)
        if when == "never reached" and level != "note":
            level = "suspicious" if level == "dangerous" else "note"
        return Finding(kind, level, what, place.node.op, place.node.name, self._trail(place), constant, when)


def _only_computes(op: str) -> bool:
    known = traits(op)
    return known is not None and not known & _ACTS and op not in _LOOKED_AT


def _prints_to(node: Node) -> str:
    """The file that `PrintV2` writes to; empty for all other nodes, and where it prints."""
    if node.op != "PrintV2":
        return ""
    streams = _strings(node.attrs.get("output_stream"))
    return next((text for text in streams if text.startswith(_PRINTS_TO_FILE)), "")


def _may_be_message(data: bytes) -> bool:
    """Whether bytes can begin a graph: a field of a low number that holds bytes or a number, in any spelling."""
    tag = data[0] & 0x7F
    return 0 < tag >> 3 <= 15 and tag & 7 in (0, 2)


def _named_inputs(definition: OpDef) -> Iterator[int]:
    for index, arg in enumerate(definition.inputs):
        if arg.type is not None and arg.type.name == "string" and _NAMES.search(arg.name):
            yield index
        if arg.number_attr or arg.type_list_attr:
            return  # what follows a list has no fixed place


def _strings(attr: Attr | None) -> Iterator[str]:
    for data in _raw_strings(attr):
        yield data.decode("utf-8", "backslashreplace")


def _raw_strings(attr: Attr | None) -> Iterator[bytes]:
    if attr is None:
        return
    for one in (attr.value, *attr.items):
        if isinstance(one, bytes):
            yield one


def _some_strings(tensor: Tensor) -> Iterable[bytes]:
    if (tensor.shape.elements or 0) > _MOST_STRINGS:
        return ()
    texts = flat_texts(tensor)
    return [text for number, text in enumerate(texts) if number < _MOST_WORDS or len(text) >= _LONG_TEXT]


def _said(origins: Sequence[Origin]) -> str:
    for one in origins:
        if one.kind == "input":
            return f" what the caller gives as {_shown(one.text)!r}"
        if one.kind == "asset":
            return f" the asset {_shown(one.text)!r}"
    return " what it computes itself" if origins else ""


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _ascii(text: str) -> str:
    """A text whose letters are what they look like."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


def _tensor_findings(name: str, tensor: Tensor, when: When) -> Iterator[Finding]:
    """Whether a tensor begins like a program. Reads its first bytes."""
    if tensor.nbytes < 64 or not tensor.dtype.itemsize:
        return
    try:
        program = program_in(_head(tensor))
    except TfsmithError:
        return  # a shard that is missing or damaged is another tool's finding
    if program:
        what = f"tensor of {tensor.nbytes} bytes begins like {program}"
        yield Finding("looks-like-program", "suspicious", what, "", name, "", "", when)


def _head(tensor: Tensor) -> bytes:
    for part in tensor.parts():
        if isinstance(part, Span):
            return Span(part.source, part.start, min(part.stop, part.start + 4096)).tobytes()
        return part[:4096]
    return b""


def _not_finite(name: str, tensor: Tensor) -> Iterator[Finding]:
    import numpy

    if not any(word in tensor.dtype.name for word in ("float", "complex")):
        return
    values = tensor.numpy().ravel()
    bad = 0
    for start in range(0, values.size, 1 << 20):
        bad += int(numpy.count_nonzero(~numpy.isfinite(values[start : start + (1 << 20)].astype(numpy.complex128))))
    if bad:
        what = f"{bad:,} of {values.size:,} values are NaN or infinite"
        yield Finding("not-finite", "suspicious", what, "", name, when="in the file")


def is_plausible(meta: MetaGraph) -> bool:
    """Whether what was read from a text is a graph: nodes, with ops that TensorFlow has."""
    ops = {node.op for node in meta.graph.nodes}
    return bool(ops) and any(op in builtin_ops() for op in ops)
