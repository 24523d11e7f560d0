"""`tfsmith view MODEL`: a page that shows a model, what a recipe matches in it, how it differs from another."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.errors import TfsmithError, UsageError
from tfsmith.ir.body import FreeNames
from tfsmith.ir.graph import graph_warning
from tfsmith.ir.model import Model
from tfsmith.records import field, record, replace
from tfsmith.verbs._declare import checked
from tfsmith.verbs._shared import MATCHING, ModelResult, Result, open_model, output_name, sized
from tfsmith.view import human_count, plural
from tfsmith.view.explorer import explorer_node_data
from tfsmith.view.other_graphs import OtherNode, other_sheet
from tfsmith.view.page import Mark, Overlay, page_frame, page_html
from tfsmith.view.page_data import page_data, place_of, tensor_facts, tensor_of, weight_tensors
from tfsmith.view.raised_graph import recognised_scopes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.engines.program import ModelProgram
    from tfsmith.passes.diff_bodies import BodyDifference
    from tfsmith.verbs._page_server import PageServer
    from tfsmith.verbs._shared import FilePath, MatchingLoads, ModelOrPath, Out, Progress, Serves
    from tfsmith.verbs.recipe import RecipeOrPath

__all__ = ["FLAGS", "IN_COMMAND", "Viewed", "view_data", "view_model"]

FLAGS: Mapping[str, tuple[str, ...]] = MappingProxyType({})
IN_COMMAND = MappingProxyType({"serve": True})
_RED, _GREEN, _BLUE, _AMBER, _PURPLE, _GRAY = "#b3261e", "#1d6b36", "#1558b8", "#8a5300", "#7a3db8", "#525b6a"
_MOST_MARKS = 20_000
_LONGEST = 300
_PROFILED_RUNS = 3
_HEAT = ((0.1, "hot"), (0.01, "warm"), (-1.0, "cool"))
"""From which share of the time on a node is how hot."""


@record(eq=False)
class Viewed(Result):
    """A page that shows a model.

    Attributes:
        model: The model.
        html: The page.
        overlays: What is painted on it.
        notes: What the user should know: that the graph is cut off.
        out: Where it was written, if it was.
        server: What serves it, if something does.
        browser: Whether `stay` opens a browser.
    """

    model: Model
    html: str = field(repr=False)
    overlays: tuple[Overlay, ...] = ()
    notes: tuple[str, ...] = ()
    out: Path | None = None
    server: PageServer | None = None
    browser: bool = True

    @property
    def url(self) -> str | None:
        """Where it is served, if it is."""
        return None if self.server is None else self.server.url

    def report(self) -> Iterator[str]:
        """Where the page is."""
        if self.out is not None:
            yield f"Wrote {sized(self.out)}"
        elif self.server is not None:
            yield self.server.url
        else:
            yield f"a page of {human_count(len(self.html))} characters"

    def to_json(self) -> dict[str, Any]:
        """Where the page is, and how much is marked in it."""
        return {
            "output": None if self.out is None else output_name(self.out),
            "url": self.url,
            "marks": {one.name: len(one.marks) for one in self.overlays},
            "warnings": [str(note) for note in self.notes],
        }

    def stay(self) -> None:
        """Opens a browser, and serves the page until the process is interrupted; nothing if nothing serves it."""
        if self.server is None:
            return
        if self.browser:
            import webbrowser

            webbrowser.open(self.server.url)
        self.server.serve()

    def _repr_html_(self) -> str:
        """For notebooks: the page itself, in a frame."""
        return page_frame(self.html)


@checked
def view_model(
    model: ModelOrPath,
    *,
    out: Out | None = None,
    recipe: RecipeOrPath | None = None,
    diff: ModelOrPath | None = None,
    verify: ModelOrPath | None = None,
    scan: bool = False,
    weights: bool = False,
    profile: bool = False,
    engine: str = "auto",
    browser: bool = True,
    port: int = 0,
    force: bool = False,
    serve: Serves = False,
    progress: Progress | None = None,
    **options: Unpack[MatchingLoads],
) -> Viewed:
    """Shows a model as a page: its graph by scopes, functions, signatures, variables; in a browser, without network.

    With an output, the page is one HTML file that needs nothing else. Without one, the command serves it to this
    machine alone, and reads weights when they are looked at. Looking runs nothing, but for `verify` and
    `profile`.

    Args:
        model: SavedModel folder, .meta, GraphDef .pb or .pbtxt, checkpoint prefix or folder, Keras file; or an .onnx
            file.
        out: The page to write: an .html; or a .json, which is what is painted as node data for Model Explorer.
        recipe: Paint what this recipe matches: a `.toml`, `.pb` or `.pbtxt`, or a name of `recipe list`.
        diff: Paint what differs in this model, side by side with it.
        verify: Run both models, and paint how far apart they are at each node, and where they part.
        scan: Paint what the model can do to the machine that runs it.
        weights: Put statistics and histograms of all weights into the page. Reads them all.
        profile: Run the model on inputs that are made up, and paint what each node takes, where the engine says so.
        engine: What runs models: openvino, reference, tensorflow, or auto for the first that can.
        browser: Open the browser.
        port: The port of the local server; 0 for any that is free.
        force: Replace what is there.
        serve: Whether to serve the page where it is not written; `stay` then does so.
        progress: Is called with the name of each step that begins.

    Returns:
        The page. A notebook shows it.

    Raises:
        TfsmithError: What is wrong, where, and what to do.

    Example:
        tfsmith view saved_model
        tfsmith view saved_model -o page.html --scan
        tfsmith view model.pb --diff changed.pb -o changes.html
        tfsmith view model.pb --profile -o times.html
    """
    step = progress or _silent
    step("opening")
    shows_onnx = _is_onnx(model)
    if shows_onnx and (any((recipe, diff, verify, scan, weights, profile)) or options):
        what = "of an ONNX file a page shows its nodes, and nothing is painted on them"
        raise UsageError(what, path=str(model), remedy="leave the other options out, or pass the TensorFlow model")
    opened = Model("graphdef", ()) if shows_onnx else open_model(model, options)
    ending = "" if out is None else Path(out).suffix.lower()
    if out is not None and ending not in (".html", ".htm", ".json"):
        raise UsageError("a page is HTML", path=out, remedy="give it a name that ends in .html; .json is node data")
    if ending == ".json" and sum((recipe is not None, diff is not None, verify is not None, scan, profile)) != 1:
        remedy = "give one of {verify}, {profile}, {scan}, {recipe} and {diff}, or a name that ends in .html"
        raise UsageError(
            "a .json is node data for Model Explorer: of one thing that is painted", path=out, remedy=remedy
        )
    if diff is not None and verify is not None:
        raise UsageError("{diff} and {verify} both show a second model", remedy="give one of them")
    if engine != "auto" and verify is None and not profile:
        raise UsageError("{engine} goes with what runs a model", remedy="add {verify} or {profile}, or leave it out")
    if recipe is None and any(name in options for name in MATCHING):
        raise UsageError("options of matching go with {recipe}", remedy="add {recipe}, or leave them out")
    step("looking at the graph")
    notes = _warnings(opened)
    networks = [] if notes else _networks(opened)
    models = [_onnx_data(Path(str(model))) if shows_onnx else _page_data(opened, networks)]
    overlays: list[Overlay] = []
    if recipe is not None:
        step("matching")
        overlays.append(_recipe_overlay(opened, recipe, options))
    if diff is not None:
        step("comparing")
        other = open_model(diff, {})
        models.append(_page_data(other))
        overlays += _diff_overlays(opened, other)
    if verify is not None:
        step("verifying")
        other = open_model(verify, {})
        models.append(_page_data(other))
        overlays.append(_verify_overlay(opened, other, engine))
    if profile:
        step("profiling")
        overlays.append(_profile_overlay(opened, engine))
    if scan:
        step("scanning")
        overlays.append(_scan_overlay(opened))
    statistics = None
    if weights:
        step("reading weights")
        statistics = {key: _statistics(opened, key) for key, _ in weight_tensors(opened)}
    command = _command_path(model, opened) if opened.has_graph else ""

    def make(server: str) -> str:
        return page_html(models, overlays=overlays, weights=statistics, command=command, server=server)

    if out is not None:
        html = make("")
        text = json.dumps(explorer_node_data(overlays[0]), indent=1) + "\n" if ending == ".json" else html
        _write(text, opened, out, force=force)
        return Viewed(opened, html, tuple(overlays), notes, Path(out))
    if not serve:
        return Viewed(opened, make(""), tuple(overlays), notes)
    from tfsmith.verbs._page_server import PageServer

    answers = {
        "weight": lambda query: _statistics(opened, query.get("key", "")),
        "draft": lambda query: _draft(opened, query),
    }
    server = PageServer(make, answers, port)
    return Viewed(opened, "", tuple(overlays), notes, None, server, browser)


def view_data(model: ModelOrPath) -> dict[str, Any]:
    """What a page shows of a model, as plain data."""
    if _is_onnx(model):
        return _onnx_data(Path(str(model)))
    opened = open_model(model, {})
    return page_data(opened, networks=[] if _warnings(opened) else _networks(opened))


def _page_data(model: Model, networks: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """What the page shows of a model; of one that is cut off, not what it would compute."""
    is_whole = model.has_graph and next(model.graph.missing_inputs(), None) is None
    scopes = recognised_scopes(model) if is_whole else {}
    return page_data(model, networks=networks, recognised=scopes, is_raised=is_whole)


def _is_onnx(model: object) -> bool:
    return isinstance(model, (str, os.PathLike)) and Path(model).suffix == ".onnx"


def _onnx_data(path: Path) -> dict[str, Any]:
    """What the page shows of an ONNX file: its nodes with weights, inputs and outputs. Reads no weight."""
    from tfsmith.formats.onnx.reader import OnnxTensor, read_onnx

    found = read_onnx(path)

    def kind(one: OnnxTensor) -> tuple[str, list[int] | None]:
        return one.dtype, None if one.shape is None else [size if isinstance(size, int) else -1 for size in one.shape]

    types = {one.name: kind(one) for one in (*found.shapes, *found.inputs, *found.outputs)}
    names = FreeNames({one.name for one in (*found.inputs, *found.weights)})
    nodes = [OtherNode(one.name, "Input", (), "input", {}, (kind(one),)) for one in found.inputs]
    nodes += [OtherNode(one.name, "Initializer", (), "constant", {}, (kind(one),)) for one in found.weights]
    given = {node.name: (node.name, 0) for node in nodes}
    called = [names.take(one.name) for one in found.nodes]
    for name, one in zip(called, found.nodes, strict=True):
        given |= {output: (name, number) for number, output in enumerate(one.outputs) if output}
    for name, one in zip(called, found.nodes, strict=True):
        inputs = [given.get(text, (text, 0)) for text in one.inputs if text]
        made = [types.get(text, (None, None)) for text in one.outputs]
        nodes.append(OtherNode(name, one.op, inputs, "op", one.attrs, made))
    for output in found.outputs:
        source = given.get(output.name, (output.name, 0))
        nodes.append(OtherNode(names.take(f"{output.name} (output)"), "Output", (source,), "output"))
    sheet, tables = other_sheet(nodes)
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in found.opsets.items())
    counted = {"nodes": len(found.nodes), "functions": 0, "function_nodes": 0, "ops": found.ops, "custom_ops": []}
    title = f"ONNX, opset {opsets}" + (f", written by {found.producer}" if found.producer else "")
    weights = {"count": len(found.weights), "parameters": 0, "bytes": sum(one.nbytes for one in found.weights)}
    return {
        "format": 1,
        "summary": {"path": str(path), "title": title, "tensorflow_version": "", "graph": counted,
                    "variables": {"count": 0, "parameters": 0, "bytes": 0}, "constants": weights},
        "variables": [],
        "networks": [],
        "signatures": {},
        "collections": {},
        "sheets": [sheet],
        "raised": {},
        "tables": tables,
    }  # fmt: skip


def _silent(step: str) -> None:
    """Says nothing."""


def _command_path(source: ModelOrPath, model: Model) -> str:
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    plain = source.model if isinstance(source, ModelResult) else source
    return "MODEL" if not isinstance(plain, Model) or model.path is None else str(model.path)


def _write(text: str, model: Model, out: FilePath, *, force: bool) -> None:
    from tfsmith.formats.write import inputs_of
    from tfsmith.storage.place import Output

    with Output(out, inputs=inputs_of(model), force=force) as output:
        output.aside.write_text(text, encoding="utf-8")


def _networks(model: Model) -> list[dict[str, Any]]:
    """What was recognised; nothing in a damaged graph, which is shown all the same."""
    if not model.has_graph:
        return []
    from tfsmith.patterns.networks import find_networks

    try:
        return [network.facts() for network in find_networks(model)]
    except TfsmithError:
        return []


def _warnings(model: Model) -> tuple[str, ...]:
    warning = graph_warning(model.graph) if model.has_graph else ""
    return (warning,) if warning else ()


def _statistics(model: Model, key: str) -> dict[str, Any]:
    tensor = tensor_of(model, key)
    if tensor is None:
        return {"count": 0, "dtype": "", "error": "there is no such weight"}
    try:
        return tensor_facts(tensor)
    except (TfsmithError, MemoryError) as error:
        return {"count": 0, "dtype": "", "error": f"it cannot be read: {error}"}


def _draft(model: Model, query: Mapping[str, str]) -> str:
    """A recipe that finds a picked pattern and puts one node in its place, as TOML to be edited."""
    from tfsmith.formats.recipe.toml import recipe_toml
    from tfsmith.ir.node import Node
    from tfsmith.patterns.extract import extract, recipe_from_pattern
    from tfsmith.verbs._files import body_of

    try:
        seeds, barriers = json.loads(query.get("seeds", "[]")), json.loads(query.get("barriers", "[]"))
    except ValueError as error:
        raise UsageError("seeds and barriers are lists of names", remedy="pass JSON") from error
    body = body_of(model, query.get("function") or None)
    pattern = extract(body, seeds, barriers, constants=bool(query.get("constants")))
    target = Node("fused", "FusedPattern", pattern.inputs)
    recipe = recipe_from_pattern(pattern, target, op_def=body.op_def)
    head = "# Drafted from a picked pattern: give the new node its op, its attributes and the inputs that it takes.\n\n"
    return head + recipe_toml(recipe)


# What is painted


def _cut(text: object) -> str:
    words = str(text)
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]} ..."


def _recipe_overlay(model: Model, recipe: RecipeOrPath, options: Mapping[str, Any]) -> Overlay:
    """Each match: its outputs, its inner nodes, the tensors at which it stops, what takes its place, the misses."""
    from tfsmith.verbs.recipe import check_recipe
    from tfsmith.verbs.replace import find

    matching = {name: options[name] for name in MATCHING if name in options}
    matches = find(model, recipe, **matching)
    marks: list[Mark] = []
    for number, match in enumerate(matches.matches, 1):
        sheet = match.body or ""
        outputs = set(match.outputs)
        bound = {value: name for unit in match.parts for name, value in unit.nodes.items()}
        for name in match.outputs:
            marks.append(Mark("output", name, sheet, f"match {number} ({match.variant.name}): {bound.get(name, '')}"))
        body = model.graph if match.body is None else model.graph.library[match.body]
        called = {tensor.node: wanted for unit in match.parts for wanted, tensor in unit.inputs.items()}
        inside = frozenset(match.nodes)
        entries = dict.fromkeys(body.source(text) for name in match.nodes for text in body[name].data_inputs)
        for name in entries:
            if name not in inside:
                role = f"input {called[name]}" if name in called else "an input"
                marks.append(Mark("barrier", name, sheet, f"match {number}: {role}"))
        inner = [name for name in match.nodes if name not in outputs]
        marks += [Mark("inner", name, sheet, f"match {number}: {bound.get(name, 'passed through')}") for name in inner]
    notes = [f"{len(matches.matches)} match{'es' * (len(matches.matches) != 1)} of {getattr(recipe, 'name', recipe)}"]
    for match in {match.variant.name: match for match in reversed(matches.matches)}.values():
        for target in match.variant.targets:
            taken = [f"{name} ({match.bindings[name]})" if name in match.bindings else name for name in target.inputs]
            notes.append(_cut(f"{target.op} takes its place, with the inputs {', '.join(taken) or 'none'}"))
    if not matches.matches and matches.nearest_miss is not None:
        miss = matches.nearest_miss
        notes.append(f"nearest: {miss.matched} nodes fit, then {miss.reason}")
        if miss.found_node:
            marks.append(Mark("miss", miss.found_node, miss.body or "", _cut(miss.reason)))
    for skipped in check_recipe(recipe, model, **matching).skipped if matches.matches else ():
        notes.append(_cut(f"left alone: {skipped.reason}"))
    kinds = {
        "output": ("output of a match", "◆", _PURPLE),
        "inner": ("inside of a match", "✓", _BLUE),
        "barrier": ("where it stops", "‖", _AMBER),
        "miss": ("did not fit", "✗", _RED),
    }
    return Overlay("recipe", "recipe", kinds, marks[:_MOST_MARKS], notes)


_CHANGES: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "added": ("added", "+", _GREEN),
        "removed": ("removed", "\N{MINUS SIGN}", _RED),
        "changed": ("changed", "~", _BLUE),
        "renamed": ("moved: another name", "→", _PURPLE),
        "weight": ("other values", "≠", _AMBER),
        "other": ("besides nodes", "·", _GRAY),
    }
)


def _diff_overlays(one: Model, other: Model) -> Iterator[Overlay]:
    """What differs, for both sides: what was removed is in the first alone, what was added in the second alone."""
    from tfsmith.verbs.diff import diff

    found = diff(one, other)
    notes = [*(str(note) for note in found.notes)]
    bodies: list[tuple[str, str, BodyDifference]] = [("", "", found.structure.nodes)]
    bodies += [(function.first, function.second, function.body) for function in found.structure.functions]
    weights = [Mark("weight", item.name, "", "its values differ") for item in found.weights]
    others = [
        Mark("other", "", "", _cut(f"{section}: {fact['name']}"))
        for section in ("versions", "signatures", "collections", "assets", "others")
        for fact in found.facts().get(section, ())
    ]
    others += [Mark("removed", "", "", f"function {name}") for name in found.structure.functions_removed]
    others += [Mark("added", "", "", f"function {name}") for name in found.structure.functions_added]
    total = sum(found.counts().values())
    notes.insert(0, f"{plural(total, 'difference')}; {human_count(found.structure.nodes.same)} nodes are the same")
    for side in (0, 1):
        marks: list[Mark] = []
        for first, second, body in bodies:
            sheet = second if side else first
            marks += [Mark("changed", (change.second if side else change.first).name, sheet, _change_text(change))
                      for change in body.changed]  # fmt: skip
            marks += [
                Mark("renamed", (new if side else old).name, sheet, _cut(f"{old.name} -> {new.name}"))
                for old, new in body.renamed
            ]
            alone = body.added if side else body.removed
            marks += [Mark("added" if side else "removed", node.name, sheet, node.op) for node in alone]
        title = "diff: B" if side else "diff: A"
        yield Overlay(f"diff{side}", title, _CHANGES, [*marks[:_MOST_MARKS], *weights, *others], notes, side)


def _change_text(change: Any) -> str:
    words = []
    if change.first.op != change.second.op:
        words.append(f"{change.first.op} -> {change.second.op}")
    words += [f"input {'^' if one.index is None else one.index}: {one.first} -> {one.second}" for one in change.inputs]
    words += [f"attribute {one.name}" for one in change.attrs]
    if change.first.device != change.second.device:
        words.append("device")
    return _cut("; ".join(words))


def _verify_overlay(one: Model, other: Model, engine: str) -> Overlay:
    """Both are run, and compared at each node that both have: where they part, and how far apart they are behind it."""
    from tfsmith.ir.node import parse_input
    from tfsmith.verbs.verify import verify_each_node

    found = verify_each_node(one, other, engine=engine)
    marks = []
    for output in found.outputs:
        text = _cut(output.reason or f"same: at most {output.max_abs:.3g} apart")
        kind = "differs" if output.reason else "same"
        sheet, node = place_of(one, parse_input(output.tensor_a).node) or ("", "")
        marks.append(Mark(kind, node, sheet, f"output {output.key}: {text}", _finite(output.max_abs)))
    inner: list[Mark] = []
    for compared in found.nodes:
        is_first = found.parted is not None and found.parted.node == compared.node
        kind = "same" if not compared.max_abs else "close"
        kind = "parts" if is_first else "differs" if compared.reason else kind
        sheet, node = place_of(one, compared.node) or ("", "")
        apart = "" if compared.max_abs is None else f"at most {compared.max_abs:.3g} apart"
        text = ", ".join(part for part in (compared.reason, apart) if part)
        inner.append(Mark(kind, node, sheet, _cut(text), _finite(compared.max_abs)))
    grave = [mark for mark in inner if mark.kind in ("parts", "differs")]
    marks = [*grave[:1], *marks, *grave[1:], *(mark for mark in inner if mark.kind in ("close", "same"))]
    answer = "The models agree." if found.is_same else "The models do not agree."
    notes = [answer, *(str(line) for line in found.remarks), *(str(note) for note in found.notes)]
    counted = f"{plural(len(found.nodes), 'node')} compared, {human_count(len(grave))} differ by more than is usual"
    notes.append(counted)
    kinds = {
        "parts": ("they part here", "≠", _RED),
        "differs": ("differs", "✗", _AMBER),
        "close": ("as near as is usual", "≈", _BLUE),
        "same": ("the same", "=", _GREEN),
    }
    return Overlay("verify", "verify", kinds, marks[:_MOST_MARKS], notes, -1, "difference")


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _profile_overlay(model: Model, engine: str) -> Overlay:
    """The model is run on inputs that are made up; what each node takes, as the engine says it.

    OpenVINO loses the names of what it moves to another layout. Where that is most of the time, and no engine was
    named, the reference engine says it.
    """
    from tfsmith.engines.program import make_program

    program = make_program(model)
    found = _profiled(program, engine)
    notes: list[str] = []
    if engine == "auto" and found.times.get(("", ""), 0.0) > sum(found.times.values()) / 2:
        notes.append(f"{found.ran} does not say which nodes take most of the time, so the reference engine ran it")
        found = _profiled(program, "reference")
    times: dict[tuple[str, str], float] = {}
    for (function, name), seconds in found.times.items():
        place = (function, name) if function else place_of(model, name) or ("", "")
        times[place] = times.get(place, 0.0) + seconds / _PROFILED_RUNS
    total = sum(times.values())
    nowhere = times.pop(("", ""), 0.0)
    marks = []
    for (sheet, node), seconds in sorted(times.items(), key=lambda item: -item[1]):
        share = seconds / total if total else 0.0
        kind = next(kind for least, kind in _HEAT if share >= least)
        marks.append(Mark(kind, node, sheet, f"{_milliseconds(seconds)}, {share:.1%}", seconds))
    notes.insert(0, f"{_milliseconds(total)} on {found.ran}, the mean of {_PROFILED_RUNS} runs")
    notes.append(_cut(f"inputs: {found.inputs or 'none'}"))
    if nowhere > total / 1000:
        notes.append(f"{nowhere / total:.1%} of it the engine gives to no node")
    kinds = {
        "hot": ("a tenth of the time or more", "▲", _RED),
        "warm": ("a hundredth or more", "△", _AMBER),
        "cool": ("less", "·", _GRAY),
    }
    return Overlay("profile", "profile", kinds, marks[:_MOST_MARKS], notes, 0, "seconds")


def _milliseconds(seconds: float) -> str:
    value = seconds * 1e3
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


@record
class _Profiled:
    """What the nodes of a program take: seconds of several runs by function and node, of no node under "", ""."""

    ran: str
    inputs: str
    times: Mapping[tuple[str, str], float]


def _profiled(program: ModelProgram, engine: str) -> _Profiled:
    import numpy

    from tfsmith.engines.protocol import Clock
    from tfsmith.engines.runner import compile_program
    from tfsmith.engines.samples import InputMaker, pair_inputs
    from tfsmith.verbs.run import engine_options

    maker = InputMaker(program, program, pair_inputs(program, program))
    fed = maker.make(1, numpy.random.default_rng(0))
    clock = Clock()
    with compile_program(program, engine, replace(engine_options(), clock=clock)) as runner:
        runner.run(fed, warn=False)  # the first run is none that counts
        clock.times.clear()
        for _ in range(_PROFILED_RUNS):
            runner.run(fed, warn=False)
        ran = f"{runner.engine} {runner.version}"
    if not clock.times:
        remedy = "name one that does: {engine='reference'}"
        raise UsageError(f"the engine {ran} does not say what each node takes", path=program.path, remedy=remedy)
    sizes = ", ".join(f"{key} {list(values.shape)}" for key, values in fed.items())
    return _Profiled(ran, sizes, clock.times)


def _scan_overlay(model: Model) -> Overlay:
    from tfsmith.verbs.scan import scan

    found = scan(model)
    functions = model.graph.library if model.has_graph else {}
    marks = []
    for one in found.findings:
        sheet = next((name for name in reversed(one.function.split(" > ")) if name in functions), "")
        more = f", and {human_count(one.count - 1)} more" if one.count > 1 else ""
        marks.append(Mark(one.level, one.node, sheet, _cut(f"{one.kind}: {one.what} ({one.when}{more})")))
    kinds = {
        "dangerous": ("dangerous", "‼", _RED),
        "suspicious": ("suspicious", "!", _AMBER),
        "note": ("note", "i", _BLUE),
    }
    return Overlay("scan", "scan", kinds, marks, [f"{plural(len(marks), 'finding')}; {found.looked}"])
