"""What is fed, told in text as `KEY=VALUE`: files, JSON, text, images, or made up."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith.engines.feeds import Fill, find_input, make_input, unknown_input
from tfsmith.engines.protocol import Port
from tfsmith.errors import UnreadableFileError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FeedReader", "read_feeds"]

_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_PLAIN_IMAGES = {b"P5": 1, b"P6": 3}
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_FORMS = "write KEY=FILE.npy, KEY=FILE.npz, KEY=JSON, KEY=IMAGE, KEY=TEXT, KEY=random or KEY=zeros"


def read_feeds(
    inputs: Mapping[str, Port], feeds: Mapping[str, Any] | Sequence[str], *, seed: int = 0, batch: int = 1
) -> tuple[dict[str, Any], list[Path]]:
    """What to feed by key, and the files that it was read from.

    Args:
        inputs: What the model takes.
        feeds: Arrays by key, or texts `KEY=VALUE`.
        seed: Of random values.
        batch: The batch size of random values and zeros.
    """
    if isinstance(feeds, Mapping):
        return dict(feeds), []
    reader = FeedReader(inputs, seed=seed, batch=batch)
    return reader.read([feeds] if isinstance(feeds, str) else feeds), reader.files


class FeedReader:
    """Reads the values of inputs. Large `.npy` files stay where they are, mapped into memory.

    Attributes:
        files: All files that were read.
    """

    def __init__(self, inputs: Mapping[str, Port], *, seed: int, batch: int) -> None:
        import numpy

        self._inputs = inputs
        self._generator = numpy.random.default_rng(seed)
        self._batch = batch
        self.files: list[Path] = []

    def read(self, texts: Sequence[str]) -> dict[str, Any]:
        """All feeds by key. One without a key is for all inputs (random, zeros, an .npz), or for the only one."""
        feeds: dict[str, Any] = {}
        rest: Fill | None = None
        for text in texts:
            key, value = self._split(text)
            if key is None and value in ("random", "zeros"):
                rest = "random" if value == "random" else "zeros"
                continue
            found = self._all(value) if key is None else {key: self._one(key, value)}
            twice = next((name for name in found if name in feeds), None)
            if twice is not None:
                raise UsageError(f"input {twice!r} is given twice", remedy="leave one of them out")
            feeds |= found
        if rest is not None:
            feeds |= {key: self._make(key, rest) for key in self._left(feeds)}
        return feeds

    def _split(self, text: str) -> tuple[str | None, str]:
        key, equals, value = text.partition("=")
        if text in ("random", "zeros") or not equals or (_is_file(text) and self._port(key) is None):
            return None, text
        return key, value

    def _port(self, key: str) -> Port | None:
        found = find_input(self._inputs, key)
        return None if found is None else self._inputs[found]

    def _left(self, feeds: Mapping[str, Any]) -> list[str]:
        given = {find_input(self._inputs, name) for name in feeds}
        return [key for key, port in self._inputs.items() if port.required and key not in given]

    def _all(self, value: str) -> dict[str, Any]:
        """The feeds of a value without a key."""
        if value.endswith(".npz"):
            return dict(self._archive(Path(value)))
        if value.endswith(".json") or value.lstrip().startswith("{"):
            found = self._json(value)
            if isinstance(found, dict):
                return {str(key): item for key, item in found.items()}
        keys = [key for key, port in self._inputs.items() if port.required] or list(self._inputs)
        if len(keys) != 1:
            raise UsageError(f"{value!r} does not say for which input it is", remedy=_FORMS)
        return {keys[0]: self._one(keys[0], value)}

    def _one(self, key: str, value: str) -> Any:
        """The value of one input."""
        port = self._port(key)
        is_text = port is not None and port.dtype is not None and port.dtype.base.name == "string"
        path = Path(value)
        ending = path.suffix.lower()
        if value in ("random", "zeros"):
            return self._make(key, "random" if value == "random" else "zeros")
        if ending == ".npy":
            return self._array(path)
        if ending == ".npz":
            return self._member(key, path)
        if ending in _IMAGES and (_is_file(value) or not is_text):
            return self._image(key, path, port)
        if ending == ".json" and (_is_file(value) or not is_text):
            return self._json(value)
        return _text(value, port) if is_text else self._json(value, key)

    def _make(self, key: str, how: Fill) -> NDArray[Any]:
        port = self._port(key)
        if port is None:
            raise unknown_input(self._inputs, key)
        return make_input(port, how, generator=self._generator, batch=self._batch)

    def _array(self, path: Path) -> NDArray[Any]:
        import numpy

        self._note(path)
        try:
            found: NDArray[Any] = numpy.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise _unreadable(path, error) from error
        return found

    def _archive(self, path: Path) -> Mapping[str, NDArray[Any]]:
        import numpy

        self._note(path)
        try:
            with open(path, "rb") as file, numpy.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
            raise _unreadable(path, error) from error

    def _member(self, key: str, path: Path) -> NDArray[Any]:
        found = self._archive(path)
        if key not in found and len(found) != 1:
            remedy = f"it has: {', '.join(found) or 'nothing'}"
            raise UsageError(f"the archive has no array {key!r}", path=path, remedy=remedy)
        return found[key] if key in found else next(iter(found.values()))

    def _json(self, value: str, key: str | None = None) -> Any:
        try:
            if value.endswith(".json"):
                self._note(Path(value))
                return json.loads(Path(value).read_text("utf-8"))
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            what = f"{value[:60]!r} is neither a file nor JSON" if key is not None else f"no JSON ({error})"
            if key is not None and _is_file(value):
                what = f"{value[:60]!r} is a file whose name does not say what is in it"
            where = None if key is None else f"input {key!r}"
            raise UsageError(what, where=where, remedy=_FORMS) from error

    def _image(self, key: str, path: Path, port: Port | None) -> Any:
        self._note(path)
        if port is not None and port.dtype is not None and port.dtype.base.name == "string":
            return _shaped_text(path.read_bytes(), port)
        if port is None or port.dtype is None or port.dtype.base.name != "uint8":
            wants = "something else" if port is None else port.wants()
            remedy = "scale it as the model was trained, and pass an .npy"
            raise UsageError(f"an image is uint8, but input {key!r} wants {wants}", path=path, remedy=remedy)
        dims = port.shape.dims
        pixels = _pixels(path, dims[-1] if dims and len(dims) in (3, 4) else -1)
        return pixels[None] if dims is not None and len(dims) == 4 else pixels

    def _note(self, path: Path) -> None:
        if not _is_file(str(path)):
            raise UnreadableFileError("there is no such file", path=path, remedy="check the path")
        self.files.append(path)


def _is_file(text: str) -> bool:
    """Whether this is the path of a file. JSON may be longer than any path, and a text may have zeros in it."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def _unreadable(path: Path, error: Exception) -> UnreadableFileError:
    with open(path, "rb") as file:
        magic = file.read(6)
    if not magic.startswith((b"\x93NUMPY", b"PK")):  # numpy takes whatever it does not know for pickled objects
        return UnreadableFileError("this is no file of numpy's", path=path, remedy="save it with numpy.save or savez")
    if "allow_pickle" in str(error) or "Python objects" in str(error):
        return UnreadableFileError(
            "it holds Python objects, which are never unpickled", path=path, remedy="save plain numbers or bytes"
        )
    return UnreadableFileError(f"numpy cannot read it ({error})", path=path, remedy="save it with numpy.save or savez")


def _text(value: str, port: Port | None) -> Any:
    """Text for a string input: a JSON list of strings, or the text itself."""
    if value.startswith(("[", '"')):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            pass
    return _shaped_text(value.encode(), port)


def _shaped_text(value: bytes, port: Port | None) -> Any:
    """One text in the shape that the input wants: as a scalar, or as the only one of a batch."""
    import numpy

    dims = None if port is None else port.shape.dims
    found = numpy.empty((1,) * (1 if dims is None else len(dims)), object)
    found[...] = value
    return found


def _pixels(path: Path, channels: int) -> NDArray[Any]:
    """An image as uint8, height by width by channels."""
    import numpy

    if path.suffix.lower() in (".ppm", ".pgm"):
        return _plain_pixels(path, channels)
    try:
        from PIL import Image
    except ImportError as error:
        remedy = "pip install 'tfsmith[image]', or pass an .npy or .ppm"
        raise UnsupportedError("Pillow, which reads images, is not installed", path=path, remedy=remedy) from error
    try:
        with Image.open(path) as image:
            found: NDArray[Any] = numpy.asarray(image.convert(_MODES.get(channels, "RGB")))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UnreadableFileError(f"no image that can be read ({error})", path=path, remedy="convert it") from error
    return found[..., None] if found.ndim == 2 else found


def _plain_pixels(path: Path, channels: int) -> NDArray[Any]:
    """A binary PPM or PGM, which needs no library: "P6", width, height, 255, and the pixels."""
    import numpy

    data = path.read_bytes()
    words = data[:200].split(maxsplit=4)
    head = [word.isdigit() and int(word) for word in words[1:4]]
    depth = _PLAIN_IMAGES.get(words[0]) if words else None
    if depth is None or len(head) < 3 or head[2] != 255 or not head[0] or not head[1]:
        raise UnreadableFileError("no binary PPM or PGM of 8 bits", path=path, remedy="convert it to .png or .npy")
    size = head[0] * head[1] * depth
    if len(data) < size or channels not in (-1, depth):
        what = f"it has {depth} channels, but the model wants {channels}" if len(data) >= size else "it is cut off"
        raise UnreadableFileError(what, path=path, remedy="convert it, or pass an .npy")
    return numpy.frombuffer(data[-size:], numpy.uint8).reshape(head[1], head[0], depth)
