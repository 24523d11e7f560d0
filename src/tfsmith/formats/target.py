"""Where a converted model goes: what OUT means, and that nothing is overwritten by accident."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tfsmith.errors import OutputError
from tfsmith.formats.saver import save_model
from tfsmith.ir.model import Kind, Model
from tfsmith.records import record, replace

__all__ = ["Target", "Written", "choose_target", "write_target"]

_FINGERPRINT = "fingerprint.pb"
_CKPT = re.compile(r"\.ckpt(-\d+)?$")
_DATA = re.compile(r"\.data-\d{5}-of-\d{5}$")
_KINDS: dict[str, Kind] = {
    "pb": "graphdef",
    "pbtxt": "graphdef",
    "meta": "metagraph",
    "saved_model": "saved_model",
    "checkpoint": "checkpoint",
}


@record
class Target:
    """What to write, and where.

    Attributes:
        path: The file, folder or prefix.
        kind: What kind the model must be of.
        text: Whether to write text.
        prefix: For a checkpoint, also one beside a `.meta`: its prefix.
    """

    path: Path
    kind: Kind
    text: bool = False
    prefix: Path | None = None

    @property
    def format(self) -> str | None:
        """What `save` must be told."""
        return "pbtxt" if self.text else None

    def refuse_existing(self) -> None:
        """Sees that nothing is there yet.

        Raises:
            OutputError: Something is.
        """
        if self.kind == "saved_model":
            return  # folders are looked at when they are made
        there = [self.path] if self.path.is_file() else []
        there += self.existing()
        if there:
            raise OutputError("the output exists already", path=there[0], remedy="choose another, or pass --force")

    def existing(self) -> list[Path]:
        """The files of a checkpoint that are there under the prefix."""
        return [] if self.prefix is None else _files_of(self.prefix)


def choose_target(path: Path, format: str | None, kind: Kind, *, as_set: bool, has_variables: bool) -> Target:
    """What an output path means for a model of some kind.

    Args:
        path: What the user said.
        format: "pb", "pbtxt", "meta", "saved_model", "checkpoint", or None: the path's ending decides.
        kind: What the model is.
        as_set: Whether the model was given as a checkpoint, so that a path without ending is the prefix of another.
        has_variables: Whether there is a checkpoint to write.

    Raises:
        OutputError: That kind of file cannot hold this model.
    """
    if format is not None and format not in _KINDS:
        remedy = "use pb, pbtxt, meta, saved_model or checkpoint"
        raise OutputError(f"there is no format {format!r}", path=path, remedy=remedy)
    chosen = _by_ending(path, kind, as_set=as_set) if format is None else format
    wanted = _KINDS[chosen]
    if kind == "checkpoint" and wanted != "checkpoint":
        what = f"a checkpoint has no graph, so it cannot become {_WORDS[chosen]}"
        remedy = "pass its graph as MODEL and the checkpoint as --checkpoint, or choose another prefix as OUT"
        raise OutputError(what, path=path, remedy=remedy)
    if path.suffix == ".index" or _DATA.search(path.name):
        what = "this is the name of one file of a checkpoint"
        raise OutputError(what, path=path, remedy=f"pass the prefix {path.with_suffix('').name}")
    text = chosen == "pbtxt" or (path.suffix == ".pbtxt" and format == "meta")
    if chosen == "pbtxt" and kind == "saved_model" and path.suffix not in (".pbtxt", ".pb", ".txt"):
        wanted = "saved_model"  # the folder, with its main file as text
    if wanted == "checkpoint":
        return Target(path, wanted, prefix=path)
    if wanted != "metagraph":
        return Target(path, wanted, text)
    if not text and path.suffix != ".meta":
        path = path.with_name(f"{path.name}.meta")
    return Target(path, wanted, text, path.with_suffix("") if has_variables else None)


_WORDS = {"pb": "a .pb", "pbtxt": "a .pbtxt", "meta": "a .meta", "saved_model": "a SavedModel", "checkpoint": "it"}


def _by_ending(path: Path, kind: Kind, *, as_set: bool) -> str:
    if path.is_dir():
        return "saved_model"
    ending = path.suffix[1:]
    if ending in ("pb", "pbtxt", "meta"):
        return ending
    if kind == "checkpoint":
        return "checkpoint"
    return "meta" if as_set or _CKPT.search(path.name) else "saved_model"


@record
class Written:
    """What happened on the way.

    Attributes:
        files: The files that the weights are in, if there are any.
        linked: Those of them that are links to the files of the model as it was.
        fingerprint: Whether a `fingerprint.pb` was left out, because it is of the model as it was.
    """

    files: tuple[Path, ...]
    linked: tuple[Path, ...]
    fingerprint: bool


def write_target(
    model: Model, before: Model, target: Target, *, shards: int | None, link: bool, force: bool
) -> Written:
    """Writes a converted model, whole or not at all.

    Args:
        model: What to write; it is of the target's kind.
        before: The model as it was opened.
        target: Where it goes.
        shards: The number of data files; None for as many as there were.
        link: Whether to make hard links of weight files that did not change.
        force: Whether to replace what is there.
    """
    old = () if before.checkpoint is None else before.checkpoint.files
    count = max(1, sum(_DATA.search(path.name) is not None for path in old)) if shards is None else shards
    if shards is not None:
        model = replace(model, checkpoint=None)
    is_stale = model.raw is None or model.checkpoint is not before.checkpoint
    sides = tuple(side for side in model.side_files if not (is_stale and side.name == _FINGERPRINT))
    replaced = target.existing()
    save_model(
        replace(model, side_files=sides),
        target.path,
        format=target.format,
        shards=1 if model.checkpoint is not None and model.checkpoint.version == 2 else count,
        force=force,
        link=link,
    )
    _remove_others(replaced, count)
    prefix = target.path / "variables" / "variables" if target.kind == "saved_model" else target.prefix
    files = tuple(_files_of(prefix)) if prefix is not None and model.variables else ()
    linked = tuple(file for file in files if any(path.exists() and file.samefile(path) for path in old))
    return Written(files, linked, len(sides) < len(model.side_files))


def _remove_others(files: Iterable[Path], count: int) -> None:
    """Removes the data files of a checkpoint that was replaced by one with another number of them."""
    for path in files:
        if _DATA.search(path.name) and not path.name.endswith(f"-of-{count:05d}"):
            with suppress(OSError):
                path.unlink()


def _files_of(prefix: Path) -> list[Path]:
    """The files of the checkpoint with this prefix that are there."""
    folder = prefix.parent
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    endings = [(name, name[len(prefix.name) :]) for name in names if name.startswith(prefix.name)]
    return sorted(folder / name for name, end in endings if end == ".index" or _DATA.fullmatch(end))
