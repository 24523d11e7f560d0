"""The one way out: an output is written aside, may be proven there, and is put in place whole or not at all.

    with Output("frozen.pb", inputs=files_that_were_read, force=force) as output:
        write(output.aside)
        if not is_right(output.aside):
            output.discard()

An output is a file, a folder, or a set of files with one prefix (a checkpoint, shards of safetensors). All that is
written beside `output.aside` comes along. Nothing that the command read is ever replaced, whatever `force` says.

A process that is killed cannot clean up. So each holds a lock on its hidden folder while it lives, and whoever writes
beside it next removes the folders that nobody holds, after putting back what was moved out of the way.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tfsmith.errors import OutputError, TfsmithError, UsageError
from tfsmith.storage import FileSink, explained, real_path, spelled

try:
    import fcntl
except ImportError:  # a system without such locks: what a killed process leaves is left alone
    fcntl = None  # type: ignore[assignment]

__all__ = ["Output", "write_file"]

_SHARD = re.compile(r"-\d{5}-of-\d{5}")
_SET = re.compile(r"\.(meta|index|data-\d{5}-of-\d{5})$")
_OTHER = "choose another name"
_STAGE = re.compile(r"\..+\.tfsmith-[0-9a-f]{12}")
_JOURNAL = "moves.json"
_EXCHANGE = 2
"""Linux' flag for `renameat2`: two names change places in one step."""


class Output:
    """A context for one output. It appears under its name when the block ends well and did not discard it.

    Args:
        path: The file or folder to make, or the file or prefix that a set of files is known by.
        inputs: The files and folders that the command read. A name that is one of them, is in one of them, holds one
            of them, or belongs to the same set of files is refused.
        force: Whether what is there may be replaced. It is kept until the new output is in place.
        folder: Whether the output is a folder.
        others: What the names of the other files of a set look like.
        shared: A file beside the output that belongs to others too: it is made where it is missing, and never replaced.
        marks: Files of which an existing folder must hold one, to be replaced.
        what: What such a folder is called.

    Attributes:
        path: The name that it is to have.
        aside: The same name in a hidden folder beside it: where to write.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        inputs: Iterable[str | os.PathLike[str]] = (),
        force: bool = False,
        folder: bool = False,
        others: re.Pattern[str] | None = None,
        shared: str | None = None,
        marks: Collection[str] = (),
        what: str = "such output",
    ) -> None:
        if not os.fspath(path):
            raise UsageError("the path is empty", remedy="pass the path of the output")
        self._url = ""
        self.path = Path(path)
        if ":/" in str(path):
            self._set_url(path)
        if not self.path.name or "\0" in str(self.path):
            remedy = "leave the zero byte out" if self.path.name else _OTHER
            raise OutputError("no file can have this name", path=path, remedy=remedy)
        self._inputs = list(dict.fromkeys(Path(one) for one in inputs))
        self._force = force
        self._folder = folder
        self._others = others
        self._shared = shared
        self._marks = marks
        self._what = what
        self._is_discarded = False

    def _set_url(self, path: str | os.PathLike[str]) -> None:
        """An output on a store is made in a folder of this machine, and uploaded when it is whole."""
        from tfsmith.storage.remote import is_url, url_text, without_file

        if not is_url(path):
            self.path = Path(without_file(path))
            return
        self._url = url_text(path).rstrip("/")
        folder = tempfile.mkdtemp(prefix="tfsmith-upload-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / self._url.rpartition("/")[2]

    def check(self) -> None:
        """Refuses a place where the output cannot go. `with` does it too; this is for before long work.

        Raises:
            OutputError: It is an input, it exists and `force` is not set, or something else has the name.
        """
        if self._url:
            self._check_url()
        with explained(self.path):
            self._check(self.path, is_folder=self._folder)
            for member in self._members():
                self._check(member, is_folder=False)

    def _check_url(self) -> None:
        from tfsmith.storage.remote import remote_exists

        for one in self._inputs:
            source = spelled(str(one))
            if source == self._url or source.startswith(f"{self._url}/") or self._url.startswith(f"{source}/"):
                raise OutputError("the output is also the input", path=self._url, remedy=_OTHER)
        names = [self._url, f"{self._url}.index"] if self._others is not None else [self._url]
        if not self._force and any(map(remote_exists, names)):
            raise _exists(self._url)

    def __enter__(self) -> Output:
        self.check()
        parent = self.path.parent
        with explained(self.path):
            if not parent.is_dir():
                remedy = "make it first, or check the path"
                raise OutputError("the output's folder does not exist", path=parent, remedy=remedy)
            _clean(parent)
            self._lock = self._make_stage()
            self._new.mkdir()
        self.aside = self._new / self.path.name
        return self

    def _make_stage(self) -> int | None:
        """Makes the hidden folder and locks it; returns what holds the lock."""
        while True:
            # cut, for a name may be as long as is allowed
            self._stage = self.path.parent / f".{self.path.name[:32]}.tfsmith-{os.urandom(6).hex()}"
            self._stage.mkdir()
            descriptor = _lock(self._stage)
            if self._stage.is_dir():  # somebody may have taken it for a stale one before it was locked
                return descriptor
            _close(descriptor)

    def discard(self) -> None:
        """Has nothing put in place: what was written aside is not what was wanted."""
        self._is_discarded = True

    def final(self, path: Path) -> Path:
        """The name that something written aside will have."""
        return self.path.parent / path.relative_to(self._new) if path.is_relative_to(self._new) else path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._is_discarded:
                with explained(self.path):
                    self._commit()
                self._upload()
        finally:
            shutil.rmtree(self._stage, ignore_errors=True)
            _close(self._lock)
        if isinstance(error, TfsmithError) and error.path is not None:
            error.at(self.final(Path(error.path)))  # nobody knows the name that it had for now

    def _upload(self) -> None:
        if not self._url:
            return
        from tfsmith.storage.remote import upload

        shutil.rmtree(self._stage, ignore_errors=True)
        upload(self.path.parent, self._url.rpartition("/")[0])

    @property
    def _new(self) -> Path:
        return self._stage / "new"

    def _members(self) -> Iterator[Path]:
        """The other files of the set that are there already."""
        parent = self.path.parent
        if self._others is None or not parent.is_dir():
            return
        for path in sorted(parent.iterdir()):
            if path != self.path and self._others.fullmatch(path.name):
                yield path

    def _check(self, target: Path, *, is_folder: bool) -> None:
        self._refuse_inputs(target)
        if not os.path.lexists(target):
            return
        if target.is_dir() and not is_folder:
            raise OutputError("the output is an existing folder", path=target, remedy="pass the name of a file")
        if target.exists() and not target.is_dir() and not target.is_file():  # such as /dev/null
            raise OutputError("the output exists and is no file", path=target, remedy="pass the name of a file")
        if is_folder:
            self._check_folder(target)
        elif not self._force:
            raise _exists(target)

    def _check_folder(self, target: Path) -> None:
        """Only a folder of the kind that is written is ever replaced: `force` is offered where it would help."""
        if target.is_symlink() or not target.is_dir():
            what = "the output exists and is no folder, so it is not replaced"
            raise OutputError(what, path=target, remedy=f"{_OTHER}, or remove it yourself")
        names = {path.name for path in target.iterdir()}
        if names and self._marks and names.isdisjoint(self._marks):
            what = f"the folder exists and is no {self._what}, so it is not replaced"
            raise OutputError(what, path=target, remedy=f"{_OTHER}, or remove the folder yourself")
        if names and not self._force:
            raise _exists(target)

    def _refuse_inputs(self, target: Path) -> None:
        """An input is never overwritten, however its path is spelled."""
        output = real_path(target)
        for path in self._inputs:
            source = real_path(path)
            if source in output.parents:
                what = "the output lies inside of an input"
                raise OutputError(what, path=target, remedy=f"choose a place outside of {path}")
            is_same = output == source or (target.exists() and source.exists() and target.samefile(source))
            is_of_set = source.parent == output.parent and self._is_of_set(source.name)
            if is_same or output in source.parents or is_of_set:
                raise OutputError("the output is also the input", path=target, remedy=_OTHER)

    def _is_of_set(self, name: str) -> bool:
        """Whether a file belongs to the set that is written, or to one whose prefix the output would be."""
        prefix = _SET.sub("", name)
        return bool(self._others and self._others.fullmatch(name)) or (prefix == self.path.name != name)

    def _is_head(self, name: str) -> bool:
        """Whether a file is what its set is opened by: the index of a checkpoint or of shards, or the named file."""
        return name == self.path.name or name.endswith((".index", ".index.json"))

    def _commit(self) -> None:
        entries = sorted(self._new.iterdir(), key=lambda entry: (self._is_head(entry.name), entry.name))
        moves = [(entry, self.path.parent / entry.name) for entry in entries]  # a head last: it makes the set valid
        moves = [move for move in moves if move[1].name != self._shared or not os.path.lexists(move[1])]
        for entry, place in moves:
            self._check(place, is_folder=entry.is_dir())
            with explained(place):
                _sync(entry)
        places = {place for _, place in moves}
        stale = [path for path in self._members() if path not in places and _is_part(path.name)]
        self._old = self._stage / "old"
        self._old.mkdir()
        _write_journal(self._stage, moves, stale)
        touched: list[tuple[Path, bool]] = []
        self._swapped: list[tuple[Path, Path]] = []
        try:
            # without its head a set is none, which is better than one of old and new files
            heads = [place for place in places if self._is_head(place.name) and place.is_file()]
            gone = [*sorted(heads if len(moves) > 1 or stale else ()), *stale]
            for path in gone:
                touched.append((path, True))
                path.replace(self._old / path.name)
            for entry, place in moves:
                with explained(place):
                    touched.append((place, os.path.lexists(place)))
                    self._put(entry, place)
        except BaseException:  # Ctrl-C between two of them must not lose what was there
            for entry, place in self._swapped:
                _exchange(entry, place)
            for place, was_there in reversed(touched):
                self._restore(place, was_there=was_there)
            raise
        _sync_folder(self.path.parent)

    def _put(self, entry: Path, place: Path) -> None:
        """Puts an entry in its place, and what was there aside; in one step where the system can."""
        if entry.is_dir() and place.is_dir() and not place.is_symlink() and _exchange(entry, place):
            self._swapped.append((entry, place))
            return
        self._keep(place)
        entry.rename(place) if entry.is_dir() else entry.replace(place)

    def _keep(self, place: Path) -> None:
        """Gives what is there another name, so that it can come back."""
        if not os.path.lexists(place):
            return
        kept = self._old / place.name
        if place.is_dir() and not place.is_symlink():
            place.rename(kept)
            return
        try:
            os.link(place, kept, follow_symlinks=False)
        except (OSError, RuntimeError):  # a file system without links, or a system that cannot link a symlink
            place.rename(kept)

    def _restore(self, place: Path, *, was_there: bool) -> None:
        kept = self._old / place.name
        with suppress(OSError):
            if os.path.lexists(kept):
                kept.rename(place) if kept.is_dir() else kept.replace(place)
            elif not was_there and place.is_dir():
                shutil.rmtree(place)
            elif not was_there:
                place.unlink(missing_ok=True)


def write_file(
    path: str | os.PathLike[str],
    data: bytes,
    *,
    inputs: Iterable[str | os.PathLike[str]] = (),
    force: bool = False,
) -> None:
    """Writes a small file, whole or not at all; see `Output`."""
    with Output(path, inputs=inputs, force=force) as output, FileSink(output.aside) as sink:
        sink.write(data)


def _lock(folder: Path) -> int | None:
    """Locks a folder for as long as this process lives; None where that cannot be, or somebody else has locked it."""
    if fcntl is None:
        return None
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        _close(descriptor)
        return None
    return descriptor


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        with suppress(OSError):
            os.close(descriptor)


def _clean(parent: Path) -> None:
    """Removes the hidden folders of processes that were killed, and puts back what they had moved out of the way."""
    for stage in sorted(parent.glob(".*.tfsmith-*")):
        if not _STAGE.fullmatch(stage.name) or stage.is_symlink() or not stage.is_dir():
            continue
        descriptor = _lock(stage)
        if descriptor is None:
            continue  # its process lives
        try:
            with suppress(OSError, ValueError, TypeError, AttributeError):
                _put_back(stage)
            shutil.rmtree(stage, ignore_errors=True)
        finally:
            _close(descriptor)


def _is_part(name: str) -> bool:
    """Whether a file of an old set belongs to its parts, and so goes with them."""
    return _SHARD.search(name) is not None or name.endswith((".index.json", ".onnx.data"))


def _write_journal(stage: Path, moves: Iterable[tuple[Path, Path]], stale: Iterable[Path]) -> None:
    """Notes which files are about to be put in place, which of the places were empty, and what goes."""
    import json

    noted = {place.name: [os.lstat(entry).st_ino, os.path.lexists(place)] for entry, place in moves}
    noted |= {place.name: [0, True] for place in stale}
    (stage / _JOURNAL).write_text(json.dumps(noted))


def _put_back(stage: Path) -> None:
    """Undoes an output of which a part was put in place when its process was killed.

    A file that somebody has put there since is left alone: only what the journal notes is taken away.
    """
    import json

    old, new, journal = stage / "old", stage / "new", stage / _JOURNAL
    if not (old.is_dir() and journal.is_file() and any(new.iterdir())):
        return  # it had not begun, or was done
    noted = json.loads(journal.read_text())
    for name, (number, was_there) in noted.items():
        place = stage.parent / Path(name).name
        is_ours = os.path.lexists(place) and os.lstat(place).st_ino == number
        kept = old / place.name
        if os.path.lexists(kept) and (is_ours or not os.path.lexists(place)):
            if is_ours and stat.S_ISDIR(os.lstat(place).st_mode):
                shutil.rmtree(place)
            kept.rename(place)
        elif is_ours and not was_there and not place.is_dir():
            place.unlink()


def _exchange(one: Path, other: Path) -> bool:
    """Lets two names change places in one step; False where the system cannot."""
    import ctypes

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here = -100  # the current folder, for paths that are relative
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), _EXCHANGE) == 0


def _exists(path: str | os.PathLike[str]) -> OutputError:
    return OutputError("the output exists already", path=path, remedy="choose another, or pass {force=True}")


def _sync(entry: Path) -> None:
    """Waits until a file, or all of a folder, is on the disk. All was written by now, so most of it is."""
    if not entry.is_dir():
        _sync_file(entry)
    for folder, _, names in os.walk(entry):
        for name in names:
            _sync_file(Path(folder, name))
        _sync_folder(folder)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: str | os.PathLike[str]) -> None:
    """Makes a rename inside `path` last across a crash. Systems that cannot sync a folder are left alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
