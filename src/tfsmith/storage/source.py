"""Where bytes come from: one read-only mapping per file, or bytes in memory."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import weakref
from pathlib import Path
from typing import Protocol

from tfsmith.errors import UnreadableFileError
from tfsmith.storage.span import Span

__all__ = ["Source", "FileSource", "MemorySource", "open_file", "from_bytes", "real_path", "release_pages"]

_CHECK = "check the path"


class Source(Protocol):
    """Something that holds bytes that never change while it is held."""

    @property
    def name(self) -> str:
        """What to call it in messages: a path, or "<memory>"."""
        ...

    @property
    def size(self) -> int:
        """Length in bytes; no I/O."""
        ...

    @property
    def buffer(self) -> memoryview:
        """All of it, mapped; pages are read when touched."""
        ...

    def fileno(self) -> int | None:
        """A descriptor to copy from inside the kernel, or None."""
        ...


class FileSource:
    """One file, opened once and mapped once. It stays readable even when its name is replaced or removed."""

    __slots__ = ("__weakref__", "_buffer", "_fd", "_mapping", "identity", "name", "size")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)  # never wait for a named pipe
        try:
            self._fd = os.open(self.name, flags)
        except OSError as error:
            raise UnreadableFileError(_reason(error), path=self.name, remedy=_remedy(error)) from error
        except ValueError as error:  # a zero byte, or what no file system can spell
            raise UnreadableFileError("this cannot be the name of a file", path=self.name, remedy=_CHECK) from error
        weakref.finalize(self, os.close, self._fd)
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise UnreadableFileError(f"this is {kind}", path=self.name, remedy="pass the path of a file")
        self.size: int = status.st_size
        self.identity: tuple[int, int] = (status.st_dev, status.st_ino)
        self._mapping = self._map()
        self._buffer = memoryview(b"" if self._mapping is None else self._mapping)

    def _map(self) -> mmap.mmap | None:
        if self.size == 0:  # an empty file cannot be mapped
            return None
        try:
            return mmap.mmap(self._fd, self.size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            what = f"cannot be mapped into memory ({error})"
            raise UnreadableFileError(what, path=self.name, remedy="copy it to a local disk") from error

    @property
    def buffer(self) -> memoryview:
        """The whole file, mapped."""
        return self._buffer

    def fileno(self) -> int | None:
        """The descriptor, open as long as this source lives."""
        return self._fd

    def release_pages(self) -> None:
        """See `release_pages`."""
        if self._mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            with contextlib.suppress(OSError):  # a system may refuse; it only costs memory
                self._mapping.madvise(mmap.MADV_DONTNEED)


class MemorySource:
    """Bytes that are in memory already."""

    __slots__ = ("_buffer", "name", "size")

    def __init__(self, data: bytes | memoryview, name: str = "<memory>") -> None:
        self._buffer = memoryview(data).cast("B").toreadonly()
        self.name = name
        self.size: int = self._buffer.nbytes

    @property
    def buffer(self) -> memoryview:
        """The bytes themselves."""
        return self._buffer

    def fileno(self) -> int | None:
        """There is none."""
        return None


def open_file(path: str | os.PathLike[str]) -> Span:
    """Maps a file and gives the span of all of it. No byte is read yet.

    Raises:
        UnreadableFileError: It is missing, is a folder, or may not be read.
    """
    source = FileSource(path)
    return Span(source, 0, source.size)


def from_bytes(data: bytes | memoryview, name: str = "<memory>") -> Span:
    """A span of bytes in memory; nothing is copied."""
    source = MemorySource(data, name)
    return Span(source, 0, source.size)


def release_pages(span: Span) -> None:
    """Lets go of the pages of a mapped file that were touched so far; to touch them again reads them again.

    For one byte that is looked at the system may map two megabytes, where it holds the file in pages that large. To
    look here and there into a file of weights would thus count as most of the file in our memory.
    """
    if isinstance(span.source, FileSource):
        span.source.release_pages()


def real_path(path: Path) -> Path:
    """Where a path leads, all links followed. A loop of links stays what it is, where `Path.resolve` may raise."""
    return Path(os.path.realpath(path))


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return f"cannot be opened ({error.strerror or error})"


def _remedy(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return _CHECK
    return "check its permissions" if isinstance(error, PermissionError) else "check the disk"
