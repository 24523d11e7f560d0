"""Models in other places: URLs that fsspec opens, and archives. They are seen as folders of this machine.

A mount is a temporary folder with a file for each file of the place, of the same name and size. Large files of weights
and graphs are holes: `open_file` gives a span of them whose bytes are fetched by ranges when they are looked at. All
other files, which are small, are fetched at once. So whoever opens a path needs to know nothing of it.

Outputs go the other way: they are written to a folder of this machine, and uploaded when they are whole.
"""

from __future__ import annotations

import atexit
import mmap
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import has_magic as glob_has_magic
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

from tfsmith.errors import CorruptFileError, LimitError, OutputError, UnreadableFileError, UnsupportedError
from tfsmith.limits import MAX_DEFLATE_RATIO, MAX_MOUNTED_FILES
from tfsmith.storage import ARCHIVES, MOUNTS

__all__ = ["LazySource", "is_url", "list_files", "local_path", "remote_exists", "upload", "url_text", "without_file"]

_FILE_URL = re.compile(r"file:/+", re.IGNORECASE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/{1,2}[^/].*|[A-Za-z][A-Za-z0-9+.-]+://.*::.+", re.DOTALL)
_BLOCK = 1 << 17
_BY_RANGES = re.compile(r".*(\.data-\d{5}-of-\d{5}|\.index|\.meta|\.pb|\.pbtxt|\.safetensors)", re.DOTALL)
"""What is read through spans alone; all else is fetched whole, for it may be opened by its path."""
_FIRST_FILES = ("saved_model.pb", "saved_model.pbtxt", "checkpoint", "fingerprint.pb", "keras_metadata.pb",
                "variables/variables.index", "variables/variables.data-00000-of-00001")  # fmt: skip
_ENDINGS = ("", ".index", ".meta", ".data-00000-of-00001")
"""What is asked for where a server does not list its files."""


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether this is a URL of another place; `Path` makes one slash of two, which counts as well."""
    text = os.fspath(path)
    return _URL.fullmatch(text) is not None and _FILE_URL.match(text) is None


def without_file(path: str | os.PathLike[str]) -> str:
    """A path of this machine as it is, or out of a `file://` URL."""
    return _FILE_URL.sub("/", os.fspath(path), count=1) if _FILE_URL.match(os.fspath(path)) else os.fspath(path)


def url_text(path: str | os.PathLike[str]) -> str:
    """A URL as it was before `Path` made one slash of two."""
    return re.sub(r"^([A-Za-z][A-Za-z0-9+.-]+):/(?!/)", r"\1://", os.fspath(path))


def _new_root(name: str) -> Path:
    """An empty folder for a mount, which goes with the process."""
    if not MOUNTS.roots:
        folder = tempfile.mkdtemp(prefix="tfsmith-mounts-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    else:
        folder = str(Path(next(iter(MOUNTS.roots))).parent)
    root = Path(os.path.realpath(folder)) / f"{len(MOUNTS.roots):06}"
    MOUNTS.roots[str(root)] = name
    root.mkdir()
    return root


def local_path(path: str | os.PathLike[str]) -> Path:
    """A path of this machine for a path, a URL or an archive. What a URL or an archive holds is listed, no more.

    Raises:
        UnreadableFileError: There is nothing there, or it cannot be reached.
        UnsupportedError: fsspec, or what it needs for such a URL, is not installed.
    """
    text = without_file(path)
    if is_url(text):
        return _mount_url(url_text(text))
    if text.lower().endswith(ARCHIVES) and Path(text).is_file():
        return _mount_archive(Path(text).resolve(), text)
    return Path(text)


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Turns what a store raises, which may be anything, into one error."""
    try:
        yield
    except (UnreadableFileError, UnsupportedError, CorruptFileError, LimitError, OutputError):
        raise
    except ImportError as error:
        what = f"what reads such a URL is not installed ({error})"
        raise UnsupportedError(what, path=url, remedy="pip install it, or 'tfsmith[remote]' for s3 and http") from error
    except FileNotFoundError as error:
        raise UnreadableFileError("there is no such file or folder", path=url, remedy="check the URL") from error
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        remedy = "check the URL, the connection and what you may read"
        raise UnreadableFileError(f"cannot be read ({said})", path=url, remedy=remedy) from error


def _filesystem(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        what, remedy = "fsspec, which reads URLs, is not installed", "pip install 'tfsmith[remote]'"
        raise UnsupportedError(what, path=url, remedy=remedy) from error
    found: tuple[Any, str] = url_to_fs(url)
    return found


def _mount_url(url: str) -> Path:
    with _explained(url):
        if url.lower().endswith(ARCHIVES) and "::" not in url:
            return _mount_remote_archive(url)
        folder, _, name = url.rpartition("/")
        if name in _FIRST_FILES[:2]:  # the graph of a SavedModel, whose folder it stands for
            return _mount_url(folder) / name
        fs, place = _filesystem(url)
        place = place.rstrip("/") or place
        if not _is_http(fs) and fs.isdir(place):
            return _mount_files(fs, place, url, _found(fs.find(place, detail=True), place))
        if _is_http(fs) and not _BY_RANGES.fullmatch(place):
            inside = _http_inside(fs, place)
            if inside:
                return _mount_files(fs, place, url, inside)
        parent, _, name = place.rpartition("/")
        beside = _http_beside(fs, place) if _is_http(fs) else _beside(fs, parent, name)
        if not beside:
            fs.cat_file(place, start=0, end=1)  # says why: not there, no connection, not allowed
        root_url = url.rstrip("/").removesuffix(name).removesuffix("/")
        return _mount_files(fs, parent, root_url, beside) / name


def _is_http(fs: Any) -> bool:
    return "http" in (fs.protocol if isinstance(fs.protocol, (tuple, list)) else (fs.protocol,))


def _beside(fs: Any, parent: str, name: str) -> dict[str, int]:
    """The files of a folder that may belong to one of them: those of the same stem, and the list of checkpoints."""
    stem = re.sub(r"\.(meta|index|data-\d{5}-of-\d{5})$", "", name)
    found = {PurePosixPath(one["name"]).name: one for one in fs.ls(parent, detail=True) if one["type"] == "file"}
    return {key: int(one["size"]) for key, one in found.items() if key.startswith(stem) or key == "checkpoint"}


def _found(listed: dict[str, Any], place: str) -> dict[str, int]:
    if len(listed) > MAX_MOUNTED_FILES:
        what = f"the folder has {len(listed):,} files"
        raise LimitError(what, path=place, remedy=f"pass a model's own folder, of at most {MAX_MOUNTED_FILES:,}")
    start = f"{place}/" if place and not place.endswith("/") else place
    return {name.removeprefix(start).lstrip("/"): int(one["size"] or 0) for name, one in listed.items()}


def _http_inside(fs: Any, place: str) -> dict[str, int]:
    return {name: size for name in _FIRST_FILES if (size := _size(fs, f"{place}/{name}")) is not None}


def _http_beside(fs: Any, place: str) -> dict[str, int]:
    stem = re.sub(r"\.(meta|index|data-\d{5}-of-\d{5})$", "", place)
    names = dict.fromkeys([place, *(f"{stem}{ending}" for ending in _ENDINGS)])
    sizes = {one.rpartition("/")[2]: _size(fs, one) for one in names}
    return {name: size for name, size in sizes.items() if size is not None}


def _size(fs: Any, place: str) -> int | None:
    try:
        size = fs.info(place).get("size")
    except FileNotFoundError:
        return None
    return None if size is None else int(size)


def _mount_files(fs: Any, place: str, url: str, files: dict[str, int]) -> Path:
    """A folder with these files: those that are read by ranges as holes, the others with their bytes."""
    root = _new_root(url)
    for name, size in files.items():
        if not name or not _is_safe(name):
            continue
        target, source = root / name, f"{place}/{name}" if place else name
        target.parent.mkdir(parents=True, exist_ok=True)
        if _BY_RANGES.fullmatch(name):
            _make_hole(target, size)
            MOUNTS.files[str(target)] = _opener(fs, source, f"{url}/{name}", size, target)
        else:
            fs.get_file(source, str(target))
    return root


def _opener(fs: Any, source: str, url: str, size: int, target: Path) -> Callable[[], Any]:
    made: list[LazySource] = []

    def opened() -> LazySource:
        """The one source of the file, so that nothing is fetched twice."""
        if not made:
            made.append(LazySource(lambda start, stop: fs.cat_file(source, start=start, end=stop), url, size, target))
        return made[0]

    return opened


def _make_hole(path: Path, size: int) -> None:
    with open(path, "wb") as file:
        file.truncate(size)


def _is_safe(name: str) -> bool:
    """Whether a name of an archive or a store stays below the folder that it is put into."""
    parts = PurePosixPath(name).parts
    return not PurePosixPath(name).is_absolute() and ".." not in parts and "\\" not in name and "\0" not in name


class LazySource:
    """A file of a store. What is looked at is fetched, in blocks, and kept in a local file of the same size."""

    def __init__(self, fetch: Callable[[int, int], bytes], name: str, size: int, kept: Path) -> None:
        self.name = name
        self.size = size
        self._fetch = fetch
        self._lock = Lock()
        self._have = bytearray(-(-size // _BLOCK))
        self._map = memoryview(b"")
        if size:
            with open(kept, "r+b") as file:
                self._map = memoryview(mmap.mmap(file.fileno(), size))
        self.buffer: Any = _LazyBuffer(self)

    def fileno(self) -> int | None:
        """There is none: the local file has holes."""
        return None

    def bytes_at(self, start: int, stop: int) -> memoryview:
        """Bytes of the file; those that are not here yet are fetched, in one request where they lie together.

        Raises:
            UnreadableFileError: The store does not give them.
        """
        first, last = start // _BLOCK, -(-stop // _BLOCK)
        with self._lock:
            block = first
            while block < last:
                if self._have[block]:
                    block += 1
                    continue
                end = block
                while end < last and not self._have[end]:
                    end += 1
                self._get(block, end)
                block = end
        return self._map[start:stop].toreadonly()

    def _get(self, first: int, last: int) -> None:
        start, stop = first * _BLOCK, min(last * _BLOCK, self.size)
        with _explained(self.name):
            data = self._fetch(start, stop)
        if len(data) == self.size and stop - start != self.size:
            data = data[start:stop]  # a server that knows no ranges
        if len(data) != stop - start:
            what = f"{stop - start} bytes were asked for, {len(data)} came"
            raise UnreadableFileError(what, path=self.name, offset=start, remedy="the file has changed; begin again")
        self._map[start:stop] = data
        self._have[first:last] = b"\1" * (last - first)


class _LazyBuffer:
    """Looks like the memory of a file, and fetches what is looked at."""

    __slots__ = ("_source",)

    def __init__(self, source: LazySource) -> None:
        self._source = source

    def __len__(self) -> int:
        return self._source.size

    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, slice):
            start, stop, _ = key.indices(self._source.size)
            return self._source.bytes_at(start, max(start, stop))
        return self._source.bytes_at(key, key + 1)[0]


def _mount_remote_archive(url: str) -> Path:
    """An archive on a store is fetched whole: its parts lie anywhere in it, and may be compressed."""
    fs, place = _filesystem(url)
    folder = _new_root(url)
    local = folder / (place.rpartition("/")[2] or "archive")
    fs.get_file(place, str(local))
    return _mount_archive(local, url)


def _mount_archive(archive: Path, name: str) -> Path:
    """A folder with the members of an archive; the large ones are unpacked when they are opened."""
    import tarfile
    import zipfile

    root = _new_root(name)
    try:
        if zipfile.is_zipfile(archive):
            _fill_from_zip(archive, root, name)
        else:
            _fill_from_tar(archive, root, name)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, RuntimeError, ValueError) as error:
        said = " ".join(str(error).split())
        what = f"no archive that can be read ({said})"
        raise CorruptFileError(what, path=name, remedy="fetch it again, or unpack it yourself") from error
    while True:  # an archive of a folder holds that folder
        inside = [one for one in root.iterdir() if one.name != "__MACOSX" and not one.name.startswith(".")]
        if len(inside) != 1:
            return root
        if not inside[0].is_dir():
            return inside[0]
        root = inside[0]


def _check_member(name: str, archive: str) -> None:
    if not _is_safe(name):
        remedy = "do not trust the archive; unpack it yourself if you must"
        raise CorruptFileError(f"the member {name[:100]!r} would leave the folder", path=archive, remedy=remedy)


def _fill_from_zip(archive: Path, root: Path, name: str) -> None:
    import zipfile

    with zipfile.ZipFile(archive) as opened:
        members = [one for one in opened.infolist() if not one.is_dir()]
        _check_count(len(members), name)
        for one in members:
            _check_member(one.filename, name)
            if one.file_size > MAX_DEFLATE_RATIO * max(one.compress_size, 1):
                what = f"the member {one.filename[:100]!r} claims {one.file_size:,} bytes"
                raise CorruptFileError(what, path=name, remedy="do not trust the archive")

            def unpack(target: Path, member: str = one.filename) -> None:
                with zipfile.ZipFile(archive) as again, again.open(member) as source, open(target, "r+b") as file:
                    shutil.copyfileobj(source, file, 1 << 20)

            _place_member(root / one.filename, one.file_size, unpack, f"{name}/{one.filename}")


def _fill_from_tar(archive: Path, root: Path, name: str) -> None:
    import tarfile

    with tarfile.open(archive) as opened:
        members = [one for one in opened if one.isfile()]  # links and devices are left out
        _check_count(len(members), name)
        for one in members:
            _check_member(one.name, name)

            def unpack(target: Path, member: str = one.name) -> None:
                with tarfile.open(archive) as again, open(target, "r+b") as file:
                    source = again.extractfile(member)
                    if source is None:
                        raise CorruptFileError("a member is gone", path=name, remedy="let nothing write to the archive")
                    shutil.copyfileobj(source, file, 1 << 20)

            _place_member(root / one.name, one.size, unpack, f"{name}/{one.name}")


def _check_count(count: int, name: str) -> None:
    if count > MAX_MOUNTED_FILES:
        raise LimitError(f"the archive has {count:,} files", path=name, remedy="unpack it yourself")


def _place_member(target: Path, size: int, unpack: Callable[[Path], None], name: str) -> None:
    """Puts a member where it belongs: at once, or as a hole that is filled when it is opened."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _make_hole(target, size)
    if not _BY_RANGES.fullmatch(target.name):
        unpack(target)
        return

    def opened() -> None:
        with MOUNTS.lock:
            if MOUNTS.files.pop(str(target), None) is not None:
                with _explained(name):
                    unpack(target)

    MOUNTS.files[str(target)] = opened


def list_files(pattern: str) -> Iterator[tuple[str, tuple[int, str]]]:
    """The files that a URL with wildcards matches, or that lie below it: sizes, and what changes when they do.

    Raises:
        UnreadableFileError: The store cannot be read.
    """
    with _explained(pattern):
        fs, place = _filesystem(pattern)
        found = fs.glob(place, detail=True) if glob_has_magic(place) else fs.find(place, detail=True)
        for name, one in found.items():
            if one.get("type") != "file":
                continue
            etag = next((str(one[key]) for key in ("ETag", "etag", "LastModified", "created") if one.get(key)), "")
            yield fs.unstrip_protocol(name), (int(one.get("size") or 0), etag.strip('"'))


def remote_exists(url: str) -> bool:
    """Whether there is something at a URL, a folder too.

    Raises:
        UnreadableFileError: The store cannot be reached.
    """
    with _explained(url):
        fs, place = _filesystem(url)
        return bool(fs.exists(place))


def upload(folder: Path, url: str) -> None:
    """Puts all that is in a folder below a URL. What makes a set of files valid comes last; a failure takes them back.

    Raises:
        OutputError: The store does not take them.
    """
    files = [one for one in folder.rglob("*") if one.is_file()]
    files.sort(key=lambda one: (one.suffix == ".index", one.name.startswith("saved_model."), str(one)))
    done: list[str] = []
    fs: Any = None
    try:
        fs, place = _filesystem(url)
        for one in files:
            target = f"{place.rstrip('/')}/{one.relative_to(folder).as_posix()}"
            fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            if not fs.exists(target):  # what is replaced is not taken away if that fails
                done.append(target)
            fs.put_file(str(one), target)
    except Exception as error:
        for target in done:
            try:
                fs.rm_file(target)
            except Exception:  # it may not have come that far
                continue
        said = " ".join(str(error).split()) or type(error).__name__
        raise OutputError(f"cannot be uploaded ({said})", path=url, remedy="check what you may write there") from error
