"""Where the library of the op `Bert` lies, which the recipe `bert-encoder` puts in: that of `native/bert_op`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tfsmith.errors import EngineError

__all__ = ["library"]

_PACKAGE = "tfsmith_bert_op"
_INSTALL = "pip install ./native/bert_op, from a checkout of tfsmith"


def library() -> Path:
    """The path of the op's library, for the verbs, `tf.load_op_library` or TF_LoadLibrary. Loads nothing.

    Raises:
        EngineError: It is not installed, or was built for another TensorFlow.
    """
    try:
        package = import_module(_PACKAGE)
    except ImportError:
        raise EngineError("the library of the op Bert is not installed", remedy=_INSTALL) from None
    try:
        return Path(package.library())
    except package.LibraryError as error:
        what, _, remedy = str(error).partition("; ")
        raise EngineError(what, remedy=remedy or _INSTALL) from error
