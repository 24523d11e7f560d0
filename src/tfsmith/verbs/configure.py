"""`configure`: sets attributes of nodes, in place or in a copy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.errors import UsageError
from tfsmith.formats import MAIN_FILES, sniff
from tfsmith.ir.literals import literal_of
from tfsmith.ir.model import Model
from tfsmith.ir.node import Attr
from tfsmith.passes.configure import ConfiguredNodes, NodeSetting
from tfsmith.passes.configure import configure as configure_nodes
from tfsmith.records import record, replace
from tfsmith.storage import open_file, real_path
from tfsmith.storage.place import Output
from tfsmith.verbs._declare import checked
from tfsmith.verbs._shared import ModelResult, open_model, output_name, size_of, sized
from tfsmith.view import plural

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.verbs._prove import Verified
    from tfsmith.verbs._shared import FilePath, Globs, LoadsAndWrites, Many, ModelOrPath, Out, Pairs

__all__ = ["FLAGS", "Configured", "configure", "save_in_place", "save_main_file"]

FLAGS = MappingProxyType({"settings": ("--set",), "out": ("--output",)})
IN_COMMAND = MappingProxyType({"in_place": True})
_SHOWN = 100


@record(eq=False)
class Configured(ConfiguredNodes, ModelResult):
    """What came of it.

    Attributes:
        model: The model; its bytes are the old ones, but for the nodes that changed.
        changed: The nodes that changed.
        unchanged: The nodes that were chosen and had these values already.
        nearest: If no node was chosen: ops or nodes with names like those asked for.
        source: The model as it was.
        asked: Which nodes were asked for, in words.
        link: Whether weight files are hard-linked.
        notes: What the user should know.
        out: Where the model was written, if it was.
        verified: Nothing: the result is meant to differ.
    """

    source: Model
    asked: str
    link: bool = False
    notes: tuple[object, ...] = ()
    out: Path | None = None
    verified: Verified | None = None

    def __bool__(self) -> bool:
        """Whether a node was chosen."""
        return bool(self.changed or self.unchanged)

    def report(self) -> Iterator[str]:
        """Each attribute that changed, and where it was written."""
        if not self:
            near = f"; the nearest are {', '.join(self.nearest)}" if self.nearest else ""
            yield f"No node has {self.asked}{near}; nothing was written"
        for one in self.changed[:_SHOWN]:
            place = one.node if one.body is None else f"{one.node} in {one.body}"
            for key, value in one.after.items():
                if one.before[key] != value:
                    yield f"{place}: {key} = {_shown(value)} (was {_shown(one.before[key])})"
        if len(self.changed) > _SHOWN:
            yield f"... and {plural(len(self.changed) - _SHOWN, 'more node')}"
        if self.unchanged:
            yield f"{plural(len(self.unchanged), 'node')} had these values already"
        if self.out is not None:
            yield f"Wrote {sized(self.out)}"

    def to_json(self) -> dict[str, Any]:
        """Every node with its attributes before and after."""
        return {
            "output": None if self.out is None else output_name(self.out),
            "bytes": size_of(self.out),
            "changed": [_facts(one) for one in self.changed],
            "unchanged": [one.node for one in self.unchanged],
            "nearest": list(self.nearest),
        }

    def save_in_place(self) -> Configured:
        """Writes the graph over the file that it was read from, in one step, if something changed.

        Raises:
            OutputError: It cannot be written; the file is as it was.
        """
        if not self.changed:
            return self
        written = save_in_place(self.model)
        notes = self.notes
        if any(side.name == "fingerprint.pb" for side in self.source.side_files):
            notes += ("fingerprint.pb is of the model as it was; nothing needs it, and you may remove it",)
        return replace(self, out=written, notes=notes)


@checked
def configure(
    model: ModelOrPath,
    settings: Pairs,
    *,
    ops: Many = (),
    nodes: Globs = (),
    out: Out | None = None,
    in_place: bool = False,
    link: bool = False,
    **options: Unpack[LoadsAndWrites],
) -> Configured:
    """Sets attributes of nodes, in all meta graphs and functions. The command does so in place, unless told where to.

    Args:
        model: A SavedModel, a `.meta`, a GraphDef, or a checkpoint with its graph.
        settings: An attribute and its value, which is read as the kind that the op's definition says; lists are joined
            by commas. `ATTR:KIND=VALUE` for ops that nobody knows.
        ops: Nodes of this op.
        nodes: Nodes whose names fit this glob; if ops are given too, only if both fit.
        out: Write it there, as its ending says: `.pb`, `.pbtxt`, `.meta`, a SavedModel folder.
        in_place: Write the graph over the file that it was read from, if there is no other output.
        link: Hard-link the weight files of a folder, in place of copies.

    Raises:
        UsageError: The op has no such attribute, or the value is of another kind.

    Example:
        tfsmith configure model --op Bert --set QuantizableDataType=qint8 --set MaxSequenceLength=128
    """
    given = {"as_": options.get("as_"), "force": options.get("force"), "link": link}
    idle = next((name for name, value in given.items() if value and out is None), None)
    if idle is not None:
        raise UsageError(f"{{{idle}}} goes with {{out}}", remedy="add {out}, or leave it out")
    source = open_model(model, options)
    done = configure_nodes(source, settings, ops=ops, nodes=nodes)
    asked = " and ".join([*(f"op {op}" for op in ops), *(f"name {glob}" for glob in nodes)])
    result = Configured(done.model, done.changed, done.unchanged, done.nearest, source, asked, link)
    if out is None:
        return result.save_in_place() if in_place else result
    return result.placed(out, options) if result else result


def save_in_place(model: Model) -> Path:
    """Writes the graph of a changed model over the file that it was read from, in one step; returns the file.

    The weights beside it stay as they are. Where the file's name is a link, what it leads to is replaced.

    Raises:
        OutputError: It cannot be written; the file is as it was.
    """
    from tfsmith.formats.write import main_file, write_main_file

    path = main_file(model)
    with Output(real_path(path), force=True) as output:
        write_main_file(model, output.aside)
    return path


def save_main_file(model: Model, path: FilePath, *, force: bool = False) -> None:
    """Writes the main file of a model alone (a SavedModel's graph), to be put in its place by hand.

    It may lie in the model's own folder, but replaces no file that was there when the model was opened.

    Raises:
        OutputError: It cannot be written there.
    """
    from tfsmith.formats.write import inputs_of, write_main_file

    folder = [model.path / name for name in MAIN_FILES] if model.path is not None and model.path.is_dir() else []
    files = [*(one for one in inputs_of(model) if not one.is_dir()), *folder]
    others = [side.path for side in model.side_files if not _is_main_file(side.path)]
    with Output(path, inputs=(*files, *others), force=force) as output:
        write_main_file(model, output.aside)


def _is_main_file(path: Path) -> bool:
    """Whether this is a graph that was so written before."""
    return path.is_file() and sniff(open_file(path)).kind == "saved_model"


def _facts(setting: NodeSetting) -> dict[str, object]:
    after = {key: _plain(value) for key, value in setting.after.items()}
    before = {key: _plain(value) for key, value in setting.before.items()}
    return {"function": setting.body, "node": setting.node, "op": setting.op, "before": before, "after": after}


def _plain(value: Attr | None) -> object:
    if value is None:
        return None
    if value.kind == "list":  # an empty one, of whatever
        return []
    return "a tensor" if "tensor" in value.kind else literal_of(value, value.kind)


def _shown(value: Attr | None) -> str:
    plain = _plain(value)
    return "not there" if value is None else plain if isinstance(plain, str) else json.dumps(plain)
