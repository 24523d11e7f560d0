"""`tfsmith demo`: the whole story on a small BERT made on the spot, without TensorFlow."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tfsmith import api, records
from tfsmith.cli.common import DONE, NO, emit, human_bytes
from tfsmith.cli.render import print_sections
from tfsmith.errors import EngineError, OutputError
from tfsmith.ir.tensor import Tensor
from tfsmith.testing.models import BertConfig, bert_classifier
from tfsmith.testing.write import write_checkpoint_files, write_saved_model
from tfsmith.verbs.freeze import freeze
from tfsmith.verbs.show import show

__all__ = ["add_arguments", "work"]

_SIZES = ("tiny", "small", "base", "large")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument("--keep", metavar="DIR", help="write the files here, and leave them")
    parser.add_argument("--size", choices=_SIZES, default="small", help="how large a BERT (base is 438 MB)")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    keep = None if arguments.keep is None else Path(arguments.keep)
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise OutputError("the folder is not empty", path=keep, remedy="choose another for --keep")
    with tempfile.TemporaryDirectory() if keep is None else nullcontext(keep) as folder:
        return _tell(Path(folder), arguments.size)


def _tell(folder: Path, size: str) -> int:
    test_model = bert_classifier(getattr(BertConfig, size)(), length=128 if size != "tiny" else None, batch=1)
    with _step("1. A BERT classifier is made and written as a training run leaves it, and as a SavedModel"):
        prefix = write_checkpoint_files(test_model, folder / "training")
        write_saved_model(test_model, folder / "saved_model")
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            emit(f"  {path.relative_to(folder).as_posix():<51}  {human_bytes(path.stat().st_size):>8}\n")

    with _step("2. tfsmith show saved_model"):
        model = api.load(folder / "saved_model")
        shown = show(model)
        print_sections(records.replace(shown, facts={**shown.facts, "path": "saved_model"}).report())

    with _step("3. The checkpoint is opened again: every value is as it was made, every checksum fits"):
        trained = api.load(prefix)
        names = [
            name for name, value in test_model.model.variables.items() if not _same(value, trained.variables[name])
        ]
        api.verify_checksums(trained)
        emit(f"  {len(trained.variables)} variables read, {len(names)} differ\n")

    with _step("4. Opened and saved again, the model is the same, byte for byte"):
        api.save(model, folder / "copy")
        differ = [path for path in (folder / "saved_model").rglob("*") if path.is_file() and not _copied(path, folder)]
        emit(f"  {len(differ)} files differ\n")

    with _step("5. tfsmith freeze training -o frozen.pb --outputs loss/output"):
        frozen = freeze(trained, ["loss/output"], out=folder / "frozen.pb")
        emit(f"  Converted {len(frozen.converted)} variables to const ops.\n")
        graph = api.load(folder / "frozen.pb")
        now = human_bytes((folder / "frozen.pb").stat().st_size)
        emit(f"  {len(trained.graph)} nodes before, {len(graph.graph)} after, {now}\n")

    with _step("6. tfsmith verify saved_model frozen.pb"):
        is_same = _verified(folder)
    return DONE if is_same and not names and not differ else NO


def _verified(folder: Path) -> bool:
    """Runs the model and what freezing made of it, and shows how far apart they are; the engine may be missing."""
    try:
        found = api.verify(folder / "saved_model", folder / "frozen.pb")
    except EngineError as error:
        emit(f"  not run: {error}\n")
        return True
    for one in found.outputs:
        emit(f"  {one.key}: {'the same' if one.is_same else one.reason}, max abs {one.max_abs:.2g}")
        emit(f" ({found.engines[0]})\n")
    return found.is_same


@contextmanager
def _step(title: str) -> Iterator[None]:
    """A headline, and on stderr how long it took."""
    emit(f"\n{title}\n")
    sys.stdout.flush()
    start = time.perf_counter()
    yield
    sys.stdout.flush()
    sys.stderr.write(f"  ({time.perf_counter() - start:.2f} s)\n")


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()


def _copied(path: Path, folder: Path) -> bool:
    return (folder / "copy" / path.relative_to(folder / "saved_model")).read_bytes() == path.read_bytes()
