"""Where bytes go: sinks, and the file that takes bytes and spans."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Protocol

from tfsmith.errors import OutputError
from tfsmith.storage.span import Span, real_path

__all__ = ["Sink", "FileSink", "explained", "link_file"]


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
    """A context for a new file that takes bytes and spans in order. It is removed again when the block ends badly.

    Small writes are gathered, large spans never become objects. The system is told early to write to the disk;
    `tfsmith.storage.place` waits for it, and puts files in their place.

    Args:
        path: The file to make; it must not exist.
    """

    _GATHER = 1 << 18
    _PUSH = 1 << 23
    """After so many bytes the system starts writing them to the disk, so that the sync at the end is short."""
    total: ClassVar[int] = 0
    """How many bytes all sinks of this process have written: what a long command shows while it works."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._written = 0
        self._pushed = 0
        self._buffer = bytearray()
        with explained(self.path):
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)

    def __enter__(self) -> FileSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._flush()
        except BaseException:
            self._remove()
            raise
        finally:
            self._release()
        if kind is not None:
            self._remove()

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
        if len(span) < self._GATHER:
            self.write(span.tobytes())
            return
        if descriptor is None:
            for chunk in span.chunks():  # read, for to look into the mapped file would count as memory of ours
                self.write(chunk)
            return
        self._flush()
        # The kernel copies page by page, and where the pages of both files are not aligned alike, each in two pieces.
        lie_alike = (span.start - self._written) % _PAGE == 0
        start = stop = span.start
        while start == stop < span.stop:
            stop = min(start + self._PUSH, span.stop)
            with explained(self.path):
                if lie_alike:
                    copied = _copy_in_kernel(descriptor, self._fd, start, stop - start)
                else:
                    copied = self._copy_by_buffer(descriptor, start, stop - start)
            start += copied
            self._written += copied
            FileSink.total += copied
            self._push()
        for chunk in Span(span.source, start, span.stop).chunks():  # what the system could not copy, if it is there
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

    def _remove(self) -> None:
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
        with explained(self.path):
            while data:
                count = os.write(self._fd, data)
                self._written += count
                FileSink.total += count
                data = data[count:]
        self._push()

    def _push(self) -> None:
        """Starts writing to the disk; errors in that are raised by the sync at the end."""
        length = self._written - self._pushed
        if length < self._PUSH or not hasattr(os, "posix_fadvise"):
            return
        with contextlib.suppress(OSError):
            # On Linux this starts the writing of dirty pages; only those that are clean by now leave the cache.
            os.posix_fadvise(self._fd, self._pushed, length, os.POSIX_FADV_DONTNEED)
        self._pushed = self._written


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


def link_file(source: str | os.PathLike[str], path: Path) -> bool:
    """Makes `path` a second name of a file that exists.

    Returns:
        False if the system cannot: across devices, on file systems without links, for files of somebody else.
    """
    try:
        os.link(real_path(Path(source)), path)  # resolved, for the link would else be to the symlink itself
    except OSError:
        return False
    return True


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
