"""Where bytes go: outputs that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol

from tfsmith.errors import OutputError
from tfsmith.storage.span import Span

__all__ = [
    "Sink",
    "FileSink",
    "AtomicFile",
    "explained",
    "fsync_folder",
    "open_beside",
    "temporary_sibling",
    "write_atomically",
]


class Sink(Protocol):
    """Something that takes bytes in order."""

    def write(self, data: bytes) -> None:
        """Takes some bytes."""
        ...

    def write_span(self, span: Span) -> None:
        """Takes a span's bytes, inside the kernel where that is possible."""
        ...


_PAGE = 4096
_BUFFER = 1 << 20


class FileSink:
    """A new file that takes bytes and spans in order. Small writes are gathered, large spans never become objects.

    Args:
        path: The file to make.
        title: What to call it in errors, if not by its path: the name that it is to have in the end.
    """

    _GATHER = 1 << 18
    _PUSH = 1 << 23
    """After so many bytes the system is told to begin writing them to the disk: the sync at the end is then short."""

    def __init__(self, path: Path, title: Path | None = None) -> None:
        self.path = path
        self._title = path if title is None else title
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._written = 0
        self._pushed = 0
        self._buffer = bytearray()
        with explained(self._title):
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)

    def tell(self) -> int:
        """How many bytes were taken so far."""
        return self._written + self._pending_size

    def write(self, data: bytes) -> None:
        """Takes some bytes."""
        self._pending.append(data)
        self._pending_size += len(data)
        if self._pending_size >= self._GATHER:
            self._flush()

    def write_span(self, span: Span) -> None:
        """Takes a span's bytes; large ones by a copy in the kernel, or by one buffer."""
        descriptor = span.source.fileno()
        if descriptor is None or len(span) < self._GATHER:
            for chunk in span.chunks():  # read, for to look into the mapped file would count as memory of ours
                self.write(chunk)
            return
        self._flush()
        # The kernel copies page by page, and where the pages of both files do not lie alike, each one in two pieces.
        lie_alike = (span.start - self._written) % _PAGE == 0
        start = stop = span.start
        while start == stop < span.stop:
            stop = min(start + self._PUSH, span.stop)
            with explained(self._title):
                if lie_alike:
                    copied = _copy_in_kernel(descriptor, self._fd, start, stop - start)
                else:
                    copied = self._copy_by_buffer(descriptor, start, stop - start)
            start += copied
            self._written += copied
            self._push()
        for chunk in Span(span.source, start, span.stop).chunks():  # what the system could not copy
            self.write(chunk)

    def _copy_by_buffer(self, source: int, start: int, length: int) -> int:
        """Copies as far as the source can be read; returns how far that was."""
        if not hasattr(os, "preadv"):
            return 0
        self._buffer = self._buffer or bytearray(_BUFFER)
        whole, done = memoryview(self._buffer), 0
        while done < length:
            count = os.preadv(source, [whole[: min(_BUFFER, length - done)]], start + done)
            if count == 0:
                return done
            piece = whole[:count]
            while piece:
                piece = piece[os.write(self._fd, piece) :]
            done += count
        return done

    def close(self, *, sync: bool) -> None:
        """Writes what is pending, syncs it to the disk if asked, and closes."""
        try:
            self._flush()
            if sync:
                with explained(self._title):
                    os.fsync(self._fd)
        finally:
            self._release()

    def abandon(self) -> None:
        """Closes and removes the file, unless it has moved to its name already. Never raises."""
        self._release()
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _release(self) -> None:
        descriptor, self._fd = self._fd, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _flush(self) -> None:
        data = memoryview(b"".join(self._pending))
        self._pending, self._pending_size = [], 0
        with explained(self._title):
            while data:
                count = os.write(self._fd, data)
                self._written += count
                data = data[count:]
        self._push()

    def _push(self) -> None:
        """Has the system begin to write to the disk; errors in that are for the sync at the end to tell."""
        length = self._written - self._pushed
        if length < self._PUSH or not hasattr(os, "posix_fadvise"):
            return
        with contextlib.suppress(OSError):
            # On Linux this starts the writing of dirty pages; only those that are clean by now leave the cache.
            os.posix_fadvise(self._fd, self._pushed, length, os.POSIX_FADV_DONTNEED)
        self._pushed = self._written


class AtomicFile:
    """A context whose file appears under its name only if the block ends well.

    The bytes go to a temporary sibling, are synced, and the name is replaced in one step. When the block raises, the
    sibling is removed and whatever had the name before is untouched.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __enter__(self) -> FileSink:
        self._sink = open_beside(self.path)
        return self._sink

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._sink.abandon()
            return
        try:
            self._sink.close(sync=True)
            with explained(self.path):
                self._sink.path.replace(self.path)
                fsync_folder(self.path.parent)
        except BaseException:
            self._sink.abandon()
            raise


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a small file whole or not at all."""
    with AtomicFile(path) as sink:
        sink.write(data)


def open_beside(target: Path) -> FileSink:
    """A temporary sibling of `target`, open, to be moved to that name when it is whole.

    Raises:
        OutputError: Something that is no file has the name, or there is no folder for it.
    """
    if target.is_dir():
        raise OutputError("the output is an existing folder", path=target, remedy="pass the name of a file")
    if target.exists() and not target.is_file():  # such as /dev/null, which must not be replaced by a file
        raise OutputError("the output exists and is no file", path=target, remedy="pass the name of a file")
    return FileSink(temporary_sibling(target), target)


def temporary_sibling(path: Path) -> Path:
    """A name beside `path` that nothing has; the parent must exist.

    Raises:
        OutputError: The parent is missing or is not a folder.
    """
    parent = path.parent
    if not parent.is_dir():
        raise OutputError("the output's folder does not exist", path=parent, remedy="make it first, or check the path")
    return parent / f".{path.name[:32]}.tfsmith-{os.urandom(6).hex()}"  # cut, for a name may be as long as is allowed


def fsync_folder(path: Path) -> None:
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


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns an `OSError` about an output into an `OutputError` with a remedy."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
        remedy = "free some space or choose another disk" if is_full else "check the path"
        if isinstance(error, PermissionError):
            remedy = "check the permissions of the folder"
        raise OutputError(f"cannot be written ({error.strerror or error})", path=path, remedy=remedy) from error


def _copy_in_kernel(source: int, target: int, start: int, length: int) -> int:
    """Copies as far as the system can without the bytes entering this process; returns how far that was."""
    copy = getattr(os, "copy_file_range", None)
    if copy is None:
        return 0
    done = 0
    while done < length:
        try:
            count = copy(source, target, min(length - done, 1 << 30), start + done)
        except OSError as error:
            if error.errno in (
                errno.EXDEV,
                errno.EINVAL,
                errno.ENOSYS,
                errno.EOPNOTSUPP,
                errno.EPERM,
                errno.EBADF,
            ):
                return done
            raise
        if count == 0:
            return done
        done += count
    return done
