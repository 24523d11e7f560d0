"""Which local files stand for files of other places; see `storage.remote`, which is loaded where there are some."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock
from typing import Any

__all__ = ["ARCHIVES", "MOUNTS", "is_mounted", "is_remote", "mounted", "spelled"]

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
