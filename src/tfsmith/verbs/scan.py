"""`tfsmith scan MODEL`: what a model can do to the machine that runs it. Looking is safe: nothing is run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from tfsmith.audit.findings import KINDS, LEVELS, Allowance, Finding, Level, allow, grouped, read_allowances, to_sarif
from tfsmith.audit.keras import keras_findings
from tfsmith.audit.rules import is_plausible, scan_model
from tfsmith.errors import TfsmithError, UnreadableFileError
from tfsmith.ir.graph import graph_warning
from tfsmith.ir.keras import layer_rows
from tfsmith.ir.model import Model
from tfsmith.records import record
from tfsmith.verbs._declare import checked
from tfsmith.verbs._shared import Result, open_model
from tfsmith.view import Section, human_count, plural

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.verbs._shared import FilePath, Loads, ModelOrPath

__all__ = ["Scanned", "scan"]

_FEW_BYTES = 1024
_MANY_BYTES = 16 * _FEW_BYTES
_LONGEST_ALLOW_FILE = 1 << 20


@record
class Scanned(Result):
    """What a model can do; true if nothing is as bad as `fail_on`, or worse.

    Attributes:
        findings: What was found, worst first.
        allowed: What was found and accepted before.
        fail_on: The level at which the answer is no.
        path: The model's path.
        node_count: How many nodes were looked at, those of functions too.
        notes: What to know: allowances that nothing needed.
        sarif: Whether it is printed as SARIF.
        layer_count: How many layers of a Keras file were looked at.
    """

    findings: tuple[Finding, ...]
    allowed: tuple[Finding, ...] = ()
    fail_on: Level = "suspicious"
    path: str = ""
    node_count: int = 0
    notes: tuple[str, ...] = ()
    sarif: bool = False
    layer_count: int = 0

    def __bool__(self) -> bool:
        return all(one.rank < LEVELS.index(self.fail_on) for one in self.findings)

    @property
    def text(self) -> str | None:
        """The SARIF text, if that was asked for."""
        if not self.sarif:
            return None
        import json

        return json.dumps(self.to_sarif(), indent=2) + "\n"

    def report(self) -> Iterator[Section]:
        """A table for each level, what the findings mean, and how many there are."""
        for level in reversed(LEVELS):
            found = [one for one in self.findings if one.level == level]
            if found:
                meanings = {one.kind: f"{one.kind}: {KINDS[one.kind].meaning}" for one in found}
                yield Section(level, [_row(one) for one in found], ("kind", "what", "where", "when"),
                              tuple(meanings.values()))  # fmt: skip
        counts = [f"{plural(count, level)}" if level == "note" else f"{human_count(count)} {level}"
                  for level in reversed(LEVELS)
                  if (count := sum(one.level == level for one in self.findings))]  # fmt: skip
        accepted = f"; {human_count(len(self.allowed))} allowed" if self.allowed else ""
        yield Section(f"{', '.join(counts) or 'nothing found'}{accepted} ({self.looked})")

    @property
    def looked(self) -> str:
        """At how much was looked, in words."""
        looked = plural(self.layer_count, "layer") if self.layer_count else plural(self.node_count, "node")
        return f"{looked} looked at, nothing run"

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "path": self.path,
            "clean": bool(self),
            "fail_on": self.fail_on,
            "nodes": self.node_count,
            **({"layers": self.layer_count} if self.layer_count else {}),
            "findings": [one.to_json() for one in self.findings],
            "allowed": [one.to_json() for one in self.allowed],
            "warnings": list(self.notes),
        }

    def to_sarif(self) -> dict[str, Any]:
        """The findings as SARIF 2.1.0, for code hosts and editors."""
        from tfsmith import __version__

        return to_sarif(self.findings, self.path, __version__)


def _row(one: Finding) -> tuple[str, str, str, str]:
    more = f" and {human_count(one.count - 1)} more" if one.count > 1 else ""
    where = " > ".join(part for part in (one.function, one.node) if part)
    return one.kind, one.what, f"{where}{more}", one.when


@checked
def scan(
    model: ModelOrPath,
    *,
    fail_on: Literal["note", "suspicious", "dangerous"] = "suspicious",
    allow_file: FilePath | None = None,
    weights: bool = False,
    sarif: bool = False,
    **options: Unpack[Loads],
) -> Scanned:
    """Tells what a model can do to the machine that runs it: files, network, code, memory. Runs nothing.

    Looks at all meta graphs, all functions (called or not), graphs inside of texts, assets and files beside the model.
    Findings are notes, suspicious or dangerous; what nothing reaches counts one level less.

    Args:
        model: A SavedModel, a `.meta`, a GraphDef, a checkpoint or a Keras file.
        fail_on: The answer is no at this level or above.
        allow_file: A file of what was accepted, in lines `KIND [OP [NODE]]`, each word a glob.
        weights: Look for NaN and infinities too, which reads all weights.
        sarif: Print SARIF 2.1.0, for code hosts and editors.

    Raises:
        UsageError: The file of allowances has a line that is not understood.

    Example:
        tfsmith scan saved_model
        tfsmith scan saved_model --fail-on dangerous --sarif > scan.sarif
    """
    opened = open_model(model, options)
    allowances = () if allow_file is None else _read(allow_file)
    found = [*_of_file(opened), *scan_model(opened, open_inside, weights=weights)]
    counted, allowed, idle = allow(grouped(found), allowances)
    graphs = [meta.graph for meta in opened.meta_graphs]
    nodes = sum(len(graph) + sum(len(function.nodes) for function in graph.library.values()) for graph in graphs)
    notes = (
        *dict.fromkeys(warning for graph in graphs if (warning := graph_warning(graph))),
        *(f"line {one.line} of {allow_file} allows what was not found: {one.kind} {one.op} {one.node}" for one in idle),
    )
    path = "" if opened.path is None else str(opened.path)
    layers = 0 if opened.keras is None else sum(1 for _ in layer_rows(opened.keras.layers, {}))
    return Scanned(counted, allowed, fail_on, path, nodes, notes, sarif, layers)


def open_inside(data: bytes) -> Model | None:
    """The graph that these bytes are, or None."""
    from tfsmith.formats.opener import open_bytes

    for message in ("GraphDef", "MetaGraphDef", "SavedModel"):
        try:
            inner = open_bytes(data, message)
            if inner.meta_graphs and all(is_plausible(meta) for meta in inner.meta_graphs):
                return inner
        except TfsmithError:
            continue
    return None


def _of_file(model: Model) -> Iterator[Finding]:
    """What is odd about the file itself, and what Keras kept beside it."""
    from tfsmith.formats.oddities import other_main_files, text_in_disguise, unknown_fields

    unknown = list(unknown_fields(model))
    is_much = sum(odd.size for odd in unknown) > _MANY_BYTES
    for odd in unknown:
        what = f"{odd.message} has no field {odd.number}, which holds {odd.size} bytes"
        level: Level = "suspicious" if is_much or odd.size > _FEW_BYTES else "note"
        yield Finding("unknown-field", level, what, "", odd.inside, when="in the file", offset=odd.offset)
    for name in other_main_files(model):
        what = f"{name} lies beside another main file; which of them is loaded depends on the reader"
        yield Finding("hidden-graph", "suspicious", what, "", name, when="in the file")
    disguised = text_in_disguise(model)
    if disguised is not None:
        what = f"{disguised.name} is text, though its name says binary"
        yield Finding("disguised", "note", what, "", disguised.name, when="in the file")
    try:
        yield from keras_code(model)
    except TfsmithError as error:
        yield Finding("disguised", "suspicious", f"Keras' metadata cannot be read ({error.what})", when="in the file")


def keras_code(model: Model) -> Iterator[Finding]:
    """What Keras runs when it loads the model, by what it kept of its layers.

    Raises:
        CorruptFileError: The metadata cannot be read.
    """
    from tfsmith.audit.keras import class_findings
    from tfsmith.formats.oddities import keras_layers

    yield from keras_findings(keras_layers(model))
    yield from class_findings(keras_layers(model))


def _read(path: FilePath) -> tuple[Allowance, ...]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_LONGEST_ALLOW_FILE)
    except (OSError, UnicodeDecodeError) as error:
        what = f"cannot be read ({getattr(error, 'strerror', None) or 'it is no UTF-8 text'})"
        raise UnreadableFileError(what, path=path, remedy="pass a text file of allowances") from error
    return read_allowances(text, str(path))
