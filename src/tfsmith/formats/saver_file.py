"""A SaverDef in a file of its own, as `freeze_graph --input_saver` takes it."""

from __future__ import annotations

from pathlib import Path

from tfsmith.errors import WrongFileError
from tfsmith.formats.metagraph import read_saver
from tfsmith.formats.textfile import read_text
from tfsmith.ir.metagraph import Saver
from tfsmith.storage.source import open_file

__all__ = ["read_saver_file"]

_TEXT = tuple(name.encode() for name in ("filename_tensor_name", "save_tensor_name", "restore_op_name"))


def read_saver_file(path: Path) -> Saver:
    """Reads a SaverDef, binary or text.

    Raises:
        WrongFileError: The file is no SaverDef.
    """
    span = open_file(path)
    is_text = span.tobytes().lstrip().startswith(_TEXT) if len(span) < 1 << 20 else False
    saver = read_saver(read_text(span, "SaverDef") if is_text else span)
    if saver is None or not saver.restore_op_name:
        raise WrongFileError("this is no SaverDef", path=path, remedy="pass what tf.train.Saver.as_saver_def() gave")
    return saver
