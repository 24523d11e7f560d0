"""The TensorFlow op `Bert`, built for the TensorFlow that was installed then.

`library()` is the path for `tf.load_op_library`, for `tfsmith run --op-library`, or for TF_LoadLibrary.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

__all__ = ["LibraryError", "library"]

_FOLDER = Path(__file__).resolve().parent
_LIBRARY = "libtfsmith_bert_op.so"
_TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly")
_REMEDY = "reinstall it: pip install --force-reinstall --no-deps native/bert_op"


class LibraryError(Exception):
    """The library is not there, or is not for the TensorFlow that is."""


def library() -> Path:
    """The path of the op's library. Does not load it, and does not import TensorFlow.

    Raises:
        LibraryError: It is missing, or TensorFlow has changed since it was built.
    """
    path = _FOLDER / _LIBRARY
    if not path.is_file():
        raise LibraryError(f"{path} is missing; {_REMEDY}")
    built = json.loads((_FOLDER / "built.json").read_text())["tensorflow"]
    installed = _tensorflow()
    if installed is not None and _release(installed) != _release(built):
        raise LibraryError(f"{path} was built for TensorFlow {built}, and this is {installed}; {_REMEDY}")
    return path


def _tensorflow() -> str | None:
    """The version of the installed TensorFlow, if its package has a name that we know."""
    for name in _TENSORFLOWS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _release(version: str) -> list[str]:
    """Its C++ interface may change with these."""
    return version.split(".")[:2]
