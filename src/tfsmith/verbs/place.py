"""Outputs that are put in place only when they have been proven."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tfsmith.errors import OutputError, TfsmithError
from tfsmith.ir.model import Model
from tfsmith.storage.output import AtomicFolder
from tfsmith.storage.sink import explained, fsync_folder, temporary_sibling
from tfsmith.verbs.files import _path, _refuse_own_files

__all__ = ["place_if"]

T = TypeVar("T")


def place_if(
    model: Model,
    path: str | os.PathLike[str],
    write: Callable[[Path], None],
    prove: Callable[[Path], tuple[bool, T]],
    *,
    force: bool = False,
    overwrite: bool = False,
) -> T:
    """Writes an output aside, has it proven there, and moves it to its name only if it is right.

    Args:
        model: What it is made of; none of its files is replaced.
        path: The name that it is to have: of a file, a folder, or the prefix of a set of files.
        write: Writes it, under the name that it gets. All that it writes beside it comes along.
        prove: Looks at what was written, and says whether it is right, and what it found.
        force: Whether what is there may be replaced.
        overwrite: Whether files that are there may be, but no folders.

    Returns:
        What `prove` found; the output is in place only if that is right.

    Raises:
        OutputError: It cannot be written there.
    """
    target = _path(path)
    with explained(target):
        _refuse_own_files(model, target)
        _refuse_existing(target, force=force, overwrite=overwrite)
        aside = temporary_sibling(target)
        aside.mkdir()
        try:
            write(aside / target.name)
            is_right, found = prove(aside / target.name)
            if is_right:
                for entry in aside.iterdir():
                    _refuse_existing(target.parent / entry.name, force=force, overwrite=overwrite)
                _move(aside, target.parent, force=force)
            return found
        except TfsmithError as error:
            if error.path is not None and Path(error.path).is_relative_to(aside):
                raise error.moved(target.parent / Path(error.path).relative_to(aside)) from error
            raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _refuse_existing(target: Path, *, force: bool, overwrite: bool) -> None:
    is_taken = next(target.iterdir(), None) is not None if target.is_dir() else target.exists() and not overwrite
    if is_taken and not force and target.name != "checkpoint":
        raise OutputError("the output exists already", path=target, remedy="choose another, or pass --force")


def _move(aside: Path, folder: Path, *, force: bool) -> None:
    """All that was written, to where it belongs. A checkpoint's `.index` goes last, for it makes the set valid."""
    for entry in sorted(aside.iterdir(), key=lambda entry: (entry.suffix == ".index", entry.name)):
        place = folder / entry.name
        if entry.name == "checkpoint" and place.exists():
            continue  # that one belongs to whoever trains there
        if entry.is_dir():
            with AtomicFolder(place, replace=force) as work:
                work.rmdir()
                entry.rename(work)
        else:
            entry.replace(place)
    fsync_folder(folder)
