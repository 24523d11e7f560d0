"""Outputs of several files: a folder, or a set of files with one prefix, all of them or none."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tfsmith.errors import OutputError
from tfsmith.storage.sink import FileSink, explained, fsync_folder, open_beside, temporary_sibling
from tfsmith.storage.span import real_path

__all__ = ["AtomicFolder", "AtomicFiles"]


class AtomicFolder:
    """A context whose folder appears under its name only if the block ends well.

    Args:
        path: The folder to make.
        replace: Whether an existing folder may be replaced. It is moved aside first and comes back on failure.
    """

    def __init__(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        self.path = Path(path)
        self._replace = replace

    def __enter__(self) -> Path:
        if os.path.lexists(self.path) and not self._may_take_place():
            raise OutputError(
                "the output exists already", path=self.path, remedy="choose another, or pass {force=True}"
            )
        self._work = temporary_sibling(self.path)
        with explained(self.path):
            self._work.mkdir()
        return self._work

    def _may_take_place(self) -> bool:
        if not self.path.is_dir() or self.path.is_symlink():
            return False
        return self._replace or next(self.path.iterdir(), None) is None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            shutil.rmtree(self._work, ignore_errors=True)
        if isinstance(error, OutputError) and error.path is not None and Path(error.path).is_relative_to(self._work):
            path = self.path / Path(error.path).relative_to(self._work)  # nobody knows the name that it had for now
            raise OutputError(error.what, path=path, remedy=error.remedy) from error

    def _commit(self) -> None:
        with explained(self.path):
            for folder, _, _ in os.walk(self._work):
                fsync_folder(Path(folder))
            old = temporary_sibling(self.path) if self.path.exists() else None
            try:
                if old is not None:
                    self.path.rename(old)
                self._work.rename(self.path)
            except BaseException:  # Ctrl-C between the two must not lose what was there
                if old is not None and old.exists() and not self.path.exists():
                    old.rename(self.path)
                raise
            fsync_folder(self.path.parent)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)


class AtomicFiles:
    """A context for files that belong together; each appears, in the order opened, only if the block ends well.

    Open the file that makes the set valid (a checkpoint's `.index`) last: should the machine die between two
    renames, there is then no index that names missing data.
    """

    def __init__(self) -> None:
        self._open: list[tuple[FileSink | _Link, Path]] = []

    def open(self, path: str | os.PathLike[str]) -> FileSink:
        """A new file of the set."""
        target = Path(path)
        sink = open_beside(target)
        self._open.append((sink, target))
        return sink

    def link(self, source: str | os.PathLike[str], path: str | os.PathLike[str]) -> bool:
        """A file of the set that is a second name of a file that exists.

        Returns:
            False if the system cannot: across devices, on file systems without links, for files of somebody else.
        """
        target = Path(path)
        beside = temporary_sibling(target)
        try:
            os.link(real_path(Path(source)), beside)  # resolved, for the link would else be to the symlink itself
        except OSError:
            return False
        self._open.append((_Link(beside), target))
        return True

    def __enter__(self) -> AtomicFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            for sink, _ in self._open:
                sink.abandon()

    def _commit(self) -> None:
        for sink, _ in self._open:
            sink.close(sync=True)
        moved: list[tuple[Path, Path | None]] = []
        try:
            for sink, target in self._open:
                with explained(target):
                    moved.append((target, _second_name(target)))
                    sink.path.replace(target)
        except BaseException:
            for target, old in reversed(moved):
                _restore(target, old)
            raise
        for _, old in moved:
            if old is not None:
                with suppress(OSError):
                    old.unlink()
        for parent in {target.parent for _, target in self._open}:
            fsync_folder(parent)


class _Link:
    """A second name of a file, which takes no bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def close(self, *, sync: bool) -> None:
        """There is nothing to write."""

    def abandon(self) -> None:
        """Removes the name, unless it has moved already. Never raises."""
        with suppress(OSError):
            self.path.unlink()


def _second_name(path: Path) -> Path | None:
    """Another name for what has this one now, so that it can come back; None if nothing has it."""
    if not os.path.lexists(path):
        return None
    name = temporary_sibling(path)
    try:
        os.link(path, name, follow_symlinks=False)
    except (OSError, NotImplementedError):  # a file system without links, or a system that cannot link a symlink
        path.rename(name)
    return name


def _restore(path: Path, old: Path | None) -> None:
    with suppress(OSError):
        if old is None:
            path.unlink(missing_ok=True)
        else:
            old.replace(path)
            old.unlink(missing_ok=True)  # a move does nothing where both names are of one file
