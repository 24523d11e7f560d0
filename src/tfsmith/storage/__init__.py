"""F0: bytes without meaning: where they lie, and where they go.

`Span` is a checked range of a `ByteSource`, which is a file mapped once or bytes in memory; sinks take bytes and spans.
"""

from __future__ import annotations

import contextlib
import errno
import io
import mmap
import os
import stat
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, ClassVar, Protocol

import google_crc32c

from tfsmith.errors import OutputError, TruncatedFileError, UnreadableFileError
from tfsmith.records import record

__all__ = [
    "ARCHIVES",
    "ByteSource",
    "FileSource",
    "MOUNTS",
    "MemorySource",
    "Span",
    "SpanFile",
    "crc32c",
    "extend",
    "from_bytes",
    "is_mounted",
    "is_remote",
    "mask",
    "mounted",
    "open_file",
    "read_pieces",
    "real_path",
    "release_pages",
    "span_crc32c",
    "spelled",
    "stream_crc32c",
    "unmask",
    "Sink",
    "FileSink",
    "explained",
    "link_file",
]

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")


class Mounts:
    """The mounts of this process. They end with it.

    Attributes:
        roots: The folders, with the URL or archive that each stands for.
        files: What opens a file of a mount: gives a source of bytes, or None where the file itself is now whole.
        lock: Held by who unpacks.
    """

    def __init__(self) -> None:
        self.roots: dict[str, str] = {}
        self.files: dict[str, Callable[[], Any]] = {}
        self.lock = Lock()


MOUNTS = Mounts()


def mounted(path: str | os.PathLike[str]) -> Callable[[], Any] | None:
    """What opens a file of a mount; None for all other files."""
    return MOUNTS.files.get(os.fspath(path)) if MOUNTS.files else None


def is_mounted(path: str | os.PathLike[str]) -> bool:
    """Whether a path lies in a mount, where only spans see the bytes of all files."""
    text = os.fspath(path)
    return any(text == root or text.startswith(f"{root}/") for root in MOUNTS.roots)


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path may be a URL or an archive; a cheap look at its text."""
    text = os.fspath(path)
    return ":/" in text or text.lower().endswith(ARCHIVES)


def spelled(text: str) -> str:
    """A text for people: with the URLs and archives that mounts stand for."""
    for root, name in MOUNTS.roots.items():
        text = text.replace(root, name)
    return text


_CHECK = "check the path"
_SMALL_FILE = 1 << 22
"""A file up to this size is read at once: what happens to it afterwards is then nothing to us."""


class ByteSource(Protocol):
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
    """One file, opened once; a small one is read at once, a large one is mapped.

    It stays readable even when its name is replaced or removed. Should another program cut off a large one, what is
    read by its descriptor or checked beforehand raises an error; only to look into the map at that very moment is left
    to the system, which ends the process (SIGBUS).
    """

    __slots__ = ("__weakref__", "_buffer", "_fd", "_mapping", "identity", "modified", "name", "size")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)  # never wait for a named pipe
        try:
            descriptor = os.open(self.name, flags)
        except OSError as error:
            raise UnreadableFileError(_reason(error), path=self.name, remedy=_remedy(error)) from error
        except ValueError as error:  # a zero byte, or what no file system can spell
            raise UnreadableFileError("this cannot be the name of a file", path=self.name, remedy=_CHECK) from error
        self._fd: int | None = descriptor
        closing = weakref.finalize(self, os.close, descriptor)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise UnreadableFileError(f"this is {kind}", path=self.name, remedy="pass the path of a file")
        self.size: int = status.st_size
        self.identity: tuple[int, int] = (status.st_dev, status.st_ino)
        self.modified: int = status.st_mtime_ns
        self._mapping: mmap.mmap | None = None
        if self.size > _SMALL_FILE:
            self._mapping = self._map(descriptor)
            self._buffer = memoryview(self._mapping)
            return
        self._buffer = memoryview(self._read(descriptor))
        self._fd = None
        closing()

    def _read(self, descriptor: int) -> bytes:
        try:
            return b"".join(read_pieces(descriptor, self.name, 0, self.size, self.size or 1))
        except OSError as error:
            raise UnreadableFileError(_reason(error), path=self.name, remedy=_remedy(error)) from error

    def _map(self, descriptor: int) -> mmap.mmap:
        try:
            return mmap.mmap(descriptor, self.size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            what = f"cannot be mapped into memory ({error})"
            raise UnreadableFileError(what, path=self.name, remedy="copy it to a local disk") from error

    def check(self, stop: int) -> None:
        """Sees that the file still reaches to `stop`.

        Raises:
            TruncatedFileError: It was cut off since it was opened.
        """
        if self._fd is not None and os.fstat(self._fd).st_size < stop:
            raise _shrunk(self.name, os.fstat(self._fd).st_size)

    def __reduce__(self) -> tuple[object, ...]:
        """For `pickle`: the file by its path. Who unpickles it opens the file again, if it is still the same."""
        return _reopened, (str(Path(self.name).absolute()), self.size, self.modified)

    @property
    def buffer(self) -> memoryview:
        """The whole file, mapped."""
        return self._buffer

    def fileno(self) -> int | None:
        """The descriptor, open as long as this source lives; None for a small file, which is in memory."""
        return self._fd

    def release_pages(self) -> None:
        """See `release_pages`."""
        if self._mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            with contextlib.suppress(OSError):  # a system may refuse; it only costs memory
                self._mapping.madvise(mmap.MADV_DONTNEED)


def _reopened(path: str, size: int, modified: int) -> FileSource:
    source = FileSource(path)
    if (source.size, source.modified) != (size, modified):
        what = "the file has changed since the model that uses it was pickled"
        raise UnreadableFileError(what, path=path, remedy="load the model again")
    return source


class MemorySource:
    """Bytes that are in memory already."""

    __slots__ = ("_buffer", "name", "size")

    def __init__(self, data: bytes | memoryview, name: str = "<memory>") -> None:
        self._buffer = memoryview(data).cast("B").toreadonly()
        self.name = name
        self.size: int = self._buffer.nbytes

    def __reduce__(self) -> tuple[object, ...]:
        return MemorySource, (bytes(self._buffer), self.name)

    @property
    def buffer(self) -> memoryview:
        """The bytes themselves."""
        return self._buffer

    def fileno(self) -> int | None:
        """There is none."""
        return None


def open_file(path: str | os.PathLike[str]) -> Span:
    """Maps a file and returns the span of all of it. No byte is read yet.

    Raises:
        UnreadableFileError: It is missing, is a folder, or may not be read.
    """
    opener = mounted(path)
    source: ByteSource = (None if opener is None else opener()) or FileSource(path)
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


def read_pieces(descriptor: int, name: str, start: int, stop: int, size: int) -> Iterator[bytes]:
    """Bytes of an open file, in pieces of at most `size`. A file that shrinks meanwhile is an error, and no signal.

    Raises:
        TruncatedFileError: It ends before `stop`.
    """
    while start < stop:
        piece = os.pread(descriptor, min(size, stop - start), start)
        if not piece:
            raise _shrunk(name, start)
        start += len(piece)
        yield piece


def _shrunk(name: str, size: int) -> TruncatedFileError:
    what = "the file became shorter while it was in use"
    return TruncatedFileError(what, path=name, offset=size, remedy="let nothing write to it, and begin again")


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return f"cannot be opened ({error.strerror or error})"


def _remedy(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return _CHECK
    return "check its permissions" if isinstance(error, PermissionError) else "check the disk"


_PIECE = 1 << 18


@record(eq=False)
class Span:
    """Bytes `start` to `stop` of a source. Holding a span keeps the source's mapping alive."""

    source: ByteSource
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop <= self.source.size:
            raise TruncatedFileError(
                f"bytes {self.start} to {self.stop} are wanted, but the file ends at {self.source.size}",
                path=self.source.name,
                offset=self.source.size,
                remedy="the file is cut off or damaged; fetch it again",
            )

    def __repr__(self) -> str:
        return f"<Span {self.source.name!r}, bytes {self.start} to {self.stop}>"

    def __deepcopy__(self, memo: object) -> Span:
        return self

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def name(self) -> str:
        """The name of the source, for messages."""
        return self.source.name

    def view(self) -> memoryview:
        """The bytes, read-only and without a copy; pages are read when touched.

        Raises:
            TruncatedFileError: The file was cut off since it was opened.
        """
        if isinstance(self.source, FileSource):
            self.source.check(self.stop)
        return self.source.buffer[self.start : self.stop]

    def tobytes(self) -> bytes:
        """A copy of the bytes. Those of a large file are read, for the system may map megabytes of it for one."""
        start, stop, descriptor = self.start, self.stop, self.source.fileno()
        if descriptor is None:
            return self.source.buffer[start:stop].tobytes()
        if stop - start <= _PIECE:  # most are small, and read at once
            found = os.pread(descriptor, stop - start, start)
            if len(found) == stop - start:
                return found
        return b"".join(self.chunks(max(_PIECE, stop - start)))

    def chunks(self, size: int = _PIECE) -> Iterator[bytes]:
        """The bytes in pieces of at most `size`; memory stays at a few pieces, whatever the span's length.

        A megabyte at a time takes half as long again: so large a piece is memory fresh from the system each time.
        """
        descriptor = self.source.fileno()
        if descriptor is not None:
            yield from read_pieces(descriptor, self.source.name, self.start, self.stop, size)
            return
        buffer = self.source.buffer
        for start in range(self.start, self.stop, size):
            yield buffer[start : min(start + size, self.stop)].tobytes()

    def sub(self, start: int, stop: int, what: str = "a field") -> Span:
        """The part from `start` to `stop`, counted from this span's own start.

        Raises:
            TruncatedFileError: The part is not inside this span.
        """
        if not 0 <= start <= stop <= self.stop - self.start:
            raise TruncatedFileError(
                f"{what} reaches to byte {self.start + stop}, past the end of what holds it ({self.stop})",
                path=self.source.name,
                offset=self.start + start,
                remedy="the file is cut off or damaged; fetch it again",
            )
        return Span(self.source, self.start + start, self.start + stop)


class SpanFile(io.RawIOBase):
    """A span as a file to read from."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where it is."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes somewhere else."""
        self._at = offset + (0, self._at, len(self._span))[whence]
        if self._at < 0:
            raise ValueError("an offset before the file")
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Reads some bytes."""
        stop = min(self._at + len(buffer), len(self._span))
        count = max(0, stop - self._at)
        if count:
            buffer[:count] = self._span.sub(self._at, stop).tobytes()
            self._at += count
        return count


_MASK_DELTA = 0xA282EAD8
_CHUNK = 1 << 20


def crc32c(data: bytes) -> int:
    """The plain checksum of some bytes."""
    return int(google_crc32c.value(data))


def extend(crc: int, data: bytes) -> int:
    """The plain checksum of what `crc` covers followed by `data`."""
    return int(google_crc32c.extend(crc, data))


def mask(crc: int) -> int:
    """Rotates right by 15 bits and adds a constant, as LevelDB's tables and TensorFlow's checkpoints do."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def unmask(masked: int) -> int:
    """The inverse of `mask`."""
    rotated = (masked - _MASK_DELTA) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF


def span_crc32c(span: Span, crc: int = 0) -> int:
    """The plain checksum of a span's bytes, after those that `crc` covers. Reads them all, copies none."""
    if len(span) <= _CHUNK:
        return extend(crc, span.tobytes())
    import numpy  # the library takes a read-only ndarray where it refuses a memoryview

    return int(google_crc32c.extend(crc, numpy.frombuffer(span.view(), numpy.uint8)))


def stream_crc32c(span: Span, crc: int = 0) -> int:
    """As `span_crc32c`, but reads through a small buffer, so that the bytes never count as our memory."""
    for chunk in span.chunks():
        crc = extend(crc, chunk)
    return crc


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
