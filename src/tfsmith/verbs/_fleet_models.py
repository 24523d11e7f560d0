"""Which models a pattern means: files and folders of this machine, or of a store, and what tells a changed one."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from tfsmith.errors import UsageError
from tfsmith.records import record

__all__ = ["Found", "find_models", "out_of"]

_MAIN = ("saved_model.pb", "saved_model.pbtxt")
_ENDINGS = (".pb", ".pbtxt", ".meta", ".safetensors", ".zip", ".tar", ".tar.gz", ".tgz", ".h5", ".keras")
_FIELD = re.compile(r"\{(\w*)\}")


@record
class Found:
    """A model: its path, how many bytes its files have, and what changes when one of them does."""

    path: str
    size: int
    etag: str


def find_models(patterns: Iterable[str]) -> list[Found]:
    """The models that match: SavedModel folders, checkpoints by their prefix, and files of graphs and weights.

    Raises:
        UsageError: Nothing matches a pattern.
        UnreadableFileError: A store cannot be read.
    """
    found: dict[str, Found] = {}
    for pattern in patterns:
        files = dict(_remote_files(pattern) if "://" in pattern else _local_files(pattern))
        models = list(_models(files))
        if not models:
            raise UsageError(f"no model matches {pattern!r}", remedy="check the pattern; ** is for all folders below")
        found.update({one.path: one for one in models})
    return list(found.values())


def _local_files(pattern: str) -> Iterator[tuple[str, tuple[int, str]]]:
    matches = glob.glob(pattern, recursive=True) or glob.glob(f"{glob.escape(pattern)}.*")  # noqa: PTH207 (any root)
    for match in sorted(matches):
        path = Path(match)
        for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if one.is_file():
                status = one.stat()
                yield os.path.normpath(one), (status.st_size, str(status.st_mtime_ns))


def _remote_files(pattern: str) -> Iterator[tuple[str, tuple[int, str]]]:
    from tfsmith.storage.remote import list_files

    yield from list_files(pattern)


def _models(files: dict[str, tuple[int, str]]) -> Iterator[Found]:
    """The models among files; what lies inside of a SavedModel's folder is no model of its own."""
    folders = {name.rpartition("/")[0] or "." for name in files if name.rpartition("/")[2] in _MAIN}
    groups: dict[str, list[tuple[int, str]]] = {}
    for name, facts in files.items():
        inside = next((folder for folder in _parents(name) if folder in folders), None)
        key = inside or _prefix(name)
        if inside is None and key == name and not name.lower().endswith(_ENDINGS):
            continue
        groups.setdefault(key, []).append(facts)
    for key, group in groups.items():
        yield Found(key, sum(size for size, _ in group), "-".join(sorted({etag for _, etag in group}))[:200])


def _parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name
    yield "."


def _prefix(name: str) -> str:
    """The prefix of a checkpoint that a file is of; else the file."""
    return re.sub(r"\.(index|data-\d{5}-of-\d{5})$", "", name).removesuffix(".meta")


def out_of(template: str, model: str) -> str:
    """Where the output of a model goes: {stem}, {name} and {parent} are of its path.

    Raises:
        UsageError: The template names something else, or nothing of the model.
    """
    path = PurePosixPath(model)
    words = {"stem": path.stem, "name": path.name, "parent": path.parent.name or "."}
    fields = _FIELD.findall(template)
    wrong = next((field for field in fields if field not in words), None)
    if wrong is not None or not fields:
        what = f"{{out}} has no {{{wrong}}}" if fields else "{out} would be the same for all models"
        raise UsageError(what.replace(f"{{{wrong}}}", repr(wrong)), remedy="write 'out/STEM.onnx' with stem in braces")
    return _FIELD.sub(lambda found: words[found[1]], template)
