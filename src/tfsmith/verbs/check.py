"""`check`: which parts of a model another program cannot import, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.errors import Hint, TfsmithError, UnsupportedError, UsageError, call, data_of
from tfsmith.ir.model import Model
from tfsmith.ir.types import Shape
from tfsmith.passes.check_target import Obstacle, Target, TargetCheck, check_target, find_target, target_names
from tfsmith.passes.fold_shapes import folded_ops
from tfsmith.passes.freeze import FreezeOptions, freeze
from tfsmith.records import record, replace
from tfsmith.verbs._declare import checked
from tfsmith.verbs._shared import Result, open_model
from tfsmith.view import Section, human_count

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.verbs._shared import Loads, ModelOrPath, Names

__all__ = ["FLAGS", "Checked", "TargetList", "check", "list_targets"]

FLAGS = MappingProxyType({"target": ("--for",)})
_FEW = 3
_SIMPLER = ("remove-no-ops", "dropout-removal", "fold-batch-norm")
"""Recipes that leave fewer kinds of ops behind and change no answer of a model that is only run."""
_COMMAND = "`tfsmith"
_RELEASES = "tensorflow-"
_ALL = Target("all", "all targets", "", "", "", frozenset())
_ONNX = "onnx"
_DATE = "2026-11-16"
"""When the lowerings were last held against the answers of TensorFlow."""


@record
class Checked(TargetCheck, Result):
    """What a check found; true if nothing stands in the way.

    Attributes:
        target: The program.
        obstacles: What it cannot import, worst first.
        notes: What is good to know, and no obstacle.
        node_count: How many nodes were looked at.
        frozen: Whether they were looked at as freezing leaves them, because the target freezes by itself.
        path: The model's path.
        all: Whether the report names all nodes.
        each: For the target "all", what was found for every target. The obstacles are then those of all of them.
    """

    path: str = ""
    all: bool = False
    each: tuple[Checked, ...] = ()

    def __bool__(self) -> bool:
        return self.is_clean

    @property
    def warnings(self) -> tuple[str, ...]:
        """None: the report has the notes."""
        return ()

    def report(self) -> Iterator[Section]:
        """Each obstacle with its nodes and its remedy; and how many there are. For all targets, a table of them."""
        if self.each:
            yield _overview(self.each)
            return
        most = sys.maxsize if self.all else _FEW
        yield from (_section(one, most) for one in self.obstacles)
        target, count = self.target, len(self.obstacles)
        nodes = f"{human_count(self.node_count)} nodes{', as freezing leaves them' if self.frozen else ''}"
        table = target.title if target.version in target.title else f"{target.title} {target.version}"
        found = f"{count} obstacle{'s' * (count != 1)}" if count else "nothing stands in the way"
        yield Section(f"{table}: {found} ({nodes})", notes=tuple(f"note: {note}" for note in self.notes))

    def to_json(self) -> dict[str, Any]:
        """The same, with all nodes."""
        if self.each:
            return {"path": self.path, "clean": self.is_clean, "targets": [one.to_json() for one in self.each]}
        target = self.target
        return {
            "path": self.path,
            "target": {"name": target.name, "version": target.version, "source": target.source, "date": target.date}
            | {"known_by": target.known_by},
            "clean": self.is_clean,
            "nodes": self.node_count,
            "as_frozen": self.frozen,
            "obstacles": [
                {"kind": one.kind, "subject": one.subject, "what": one.what, "nodes": list(one.nodes)}
                | {"remedy": one.remedy}
                for one in self.obstacles
            ],
            "notes": list(self.notes),
        }


def _section(one: Obstacle, most: int) -> Section:
    count = f": {human_count(len(one.nodes))} node{'s' * (len(one.nodes) != 1)}" if one.nodes else ""
    rows = [(name,) for name in one.nodes[:most]]
    left = len(one.nodes) - most
    notes = (Hint(f"and {human_count(left)} more; {{all=True}} shows them"),) if left > 0 else ()
    return Section(
        f"{one.what}{count}", rows, notes=(*notes, *((Hint(f"-> {data_of(one.remedy)}"),) if one.remedy else ()))
    )


def _overview(found: Sequence[Checked]) -> Section:
    """A row for each target; releases in a row for which the same stands in the way share one."""
    rows: list[tuple[str, str, str, str]] = []
    last: list[str] | None = None  # what stands in the way of the release before
    for one in found:
        name, subjects = one.target.name, [f"{found.kind} {found.subject}".rstrip() for found in one.obstacles]
        is_release = name.startswith(_RELEASES)
        if is_release and subjects == last:
            first = rows.pop()[0].partition(" ")[0]
            name = f"{first} to {name.removeprefix(_RELEASES)}"
        last = subjects if is_release else None
        more = f" and {human_count(len(subjects) - _FEW)} more" if len(subjects) > _FEW else ""
        words = ", ".join(subjects[:_FEW]) + more or "nothing stands in the way"
        rows.append((name, one.target.known_by, human_count(len(subjects)), words))
    notes = (Hint("{check(model, target='TARGET')} lists the nodes and what to do"),)
    return Section("", rows, ("target", "known by", "obstacles", ""), notes, right=frozenset({2}))


@checked
def check(
    model: ModelOrPath,
    target: str,
    *,
    outputs: Names = (),
    signature: str | None = None,
    all: bool = False,
    **options: Unpack[Loads],
) -> Checked:
    """Tells which parts of a model another program cannot import, with the nodes and what to do. Reads no weights.

    Args:
        model: A SavedModel, a `.meta`, or a GraphDef.
        target: onnx (what `convert` writes), migraphx, openvino, tf2onnx, tflite, tflite-flex or tensorflow-X.Y, or all
            of them in one table: all; `check --list` names them.
        outputs: Only what these outputs need; by default those of the signatures, else everything in the graph counts.
        signature: Only what this signature needs.
        all: Name all nodes in the report, not the first three.

    Raises:
        UsageError: There is no such target.
        NotFoundInModelError: There is no graph, or no such output or signature.

    Example:
        tfsmith check saved_model --for tflite
        tfsmith check saved_model --for all
    """
    wanted = None if target == _ALL.name else _target(target)
    opened = open_model(model, options)
    path = str(opened.path or "") if isinstance(model, Model) else str(model)
    if wanted is None:
        each = tuple(_checked(opened, _target(name), outputs, signature, path, all=all) for name in _names())
        obstacles = tuple(obstacle for one in each for obstacle in one.obstacles)
        return Checked(_ALL, obstacles, (), max(one.node_count for one in each), False, path, all, each)
    return _checked(opened, wanted, outputs, signature, path, all=all)


def _checked(
    model: Model, target: Target, outputs: Sequence[str], signature: str | None, path: str, *, all: bool
) -> Checked:
    if target.name == _ONNX:
        return _checked_onnx(model, target, outputs, signature, path, all=all)
    checked = check_target(model, target, outputs=outputs, signature=signature)
    checked = _with_recipes(model, _with_folding(model, checked, outputs, signature), outputs, signature)
    return Checked(checked.target, checked.obstacles, checked.notes, checked.node_count, checked.frozen, path, all)


def _names() -> list[str]:
    """The names of all targets: ONNX, which is tried, where its packages are installed, and those with tables."""
    return [*([_ONNX] if find_spec("onnx_ir") else []), *target_names()]


def _target(name: str) -> Target:
    """The target of this name; that for ONNX is what `convert` writes."""
    if name.strip().lower() != _ONNX:
        return find_target(name)
    if find_spec("onnx_ir") is None:
        remedy = "pip install 'tfsmith[onnx]'"
        raise UnsupportedError("to lower to ONNX needs the packages onnx and onnx-ir", remedy=remedy)
    from tfsmith import __version__
    from tfsmith.onnx.lower import DEFAULT_OPSET
    from tfsmith.onnx.registry import lowerings

    version = f"opset {DEFAULT_OPSET}"
    source = f"the lowerings of tfsmith {__version__}"
    return Target(_ONNX, "ONNX", version, source, _DATE, frozenset(lowerings()), known_by="trial")


def _checked_onnx(
    model: Model, target: Target, outputs: Sequence[str], signature: str | None, path: str, *, all: bool
) -> Checked:
    """What has no form in ONNX: found by lowering, as `convert` does it. Writes nothing."""
    from tfsmith.engines.program import make_program
    from tfsmith.verbs._onnx import OnnxOptions, lower_program

    try:
        program = make_program(model, tuple(outputs) or None, signature=signature)
    except UsageError as error:  # nothing says what its outputs are
        unclear = Obstacle("format", "", error.what, (), error.remedy or "")
        return Checked(target, (unclear,), (), len(model.graph), True, path, all)
    lowered = lower_program(program, OnnxOptions())
    keep = call("convert", map_ops={"OP": "DOMAIN:OP"})
    remedy = Hint(f"cut it off ({{convert(cut_at='TENSOR')}}), replace it by a recipe, or keep it ({keep})")
    obstacles = tuple(
        Obstacle("op", one.op, f"{one.op}: {one.reason}", one.nodes, _later(one.since) if one.since else remedy)
        for one in lowered.lacks
    )
    count = len(program.flat(frozenset(key for key, port in program.inputs.items() if port.required)).graph)
    return Checked(target, obstacles, (*lowered.notes, target.known), count, True, path, all)


def _later(opset: int) -> Hint:
    """The remedy for what a later version of ONNX' ops has."""
    return Hint(f"write that version ({call('convert', opset=opset)})")


def _with_folding(model: Model, checked: TargetCheck, outputs: Sequence[str], signature: str | None) -> TargetCheck:
    """The obstacles, with `freeze --fold-shapes` as the remedy of ops that only compute shapes: tried in memory."""
    left = _unsolved(checked)
    if not left & folded_ops():
        return checked
    shapes = [node.get("shape") for node in model.graph if node.op == "Placeholder"]
    is_open = any(not isinstance(shape, Shape) or not shape.is_static for shape in shapes)
    options = FreezeOptions(tuple(outputs), signature, batch_size=1 if is_open else None, fold_shapes=True)
    try:
        after = check_target(freeze(model, options).model, checked.target)
    except TfsmithError:
        return checked
    given: dict[str, Any] = {"outputs": list(outputs)} if outputs else {}
    given |= {"batch_size": 1} if is_open else {}
    command = Hint(call("freeze", model.path or "MODEL", out="fixed.pb", **given, fold_shapes=True))
    return _with_remedy(checked, command, left, after)


def _with_recipes(model: Model, checked: TargetCheck, outputs: Sequence[str], signature: str | None) -> TargetCheck:
    """The obstacles, with the recipe that removes them as the remedy, where one does: each is tried in memory."""
    for recipe in _SIMPLER:
        left = _unsolved(checked)
        if not left:
            break
        after = _after(model, recipe, checked.target, outputs, signature)
        if after is not None:
            command = Hint(call("replace", model.path or "MODEL", recipe, out="OUT"))
            checked = _with_remedy(checked, command, left, after)
    return checked


def _unsolved(checked: TargetCheck) -> set[str]:
    """The ops for which none of our commands is the remedy."""
    return {one.subject for one in checked.obstacles if one.kind == "op" and not one.remedy.startswith(_COMMAND)}


def _with_remedy(checked: TargetCheck, command: str, left: set[str], after: TargetCheck) -> TargetCheck:
    """The obstacles, with a command as the remedy of those ops that are gone after it."""
    gone = left - {one.subject for one in after.obstacles}
    obstacles = (
        replace(one, remedy=command) if one.kind == "op" and one.subject in gone else one for one in checked.obstacles
    )
    return replace(checked, obstacles=tuple(obstacles))


def _after(
    model: Model, recipe: str, target: Target, outputs: Sequence[str], signature: str | None
) -> TargetCheck | None:
    """What is left once a recipe was applied; None where it does not fit."""
    from tfsmith.verbs.replace import replace as replace_matches  # most models need none of this

    try:
        replaced = replace_matches(model, recipe, outputs=outputs)
        return check_target(replaced.model, target, outputs=outputs, signature=signature) if replaced.matches else None
    except TfsmithError:
        return None


@record
class TargetList(Result):
    """All targets that `check` knows, each with the version and the source of its table."""

    targets: tuple[Target, ...]
    notes: tuple[str, ...] = ()

    def report(self) -> Iterator[Section]:
        """One line each."""
        lines = [
            (one.name, one.title, one.version, human_count(len(one.ops)), one.known_by, one.date)
            for one in self.targets
        ]
        yield Section("", lines, ("target", "", "version", "ops", "known by", "taken"), right=frozenset({3}))

    def to_json(self) -> list[dict[str, Any]]:
        """The same, with the source of each."""
        return [
            {"name": one.name, "title": one.title, "version": one.version, "ops": len(one.ops), "date": one.date}
            | {"source": one.source, "known_by": one.known_by}
            for one in self.targets
        ]


def list_targets() -> TargetList:
    """Lists the targets that `check` knows, with the versions of their tables.

    Example:
        tfsmith check --list
    """
    return TargetList(tuple(_target(name) for name in _names()))
