"""`demo`: the whole story on a small BERT made on the spot, without TensorFlow."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tfsmith import records
from tfsmith.errors import EngineError, OutputError
from tfsmith.ir.tensor import Tensor
from tfsmith.testing.models import BertConfig, TestModel, bert_classifier
from tfsmith.testing.write import write_checkpoint_files, write_saved_model
from tfsmith.verbs._declare import checked
from tfsmith.verbs._files import load, save, verify_checksums
from tfsmith.verbs._shared import Result
from tfsmith.verbs.freeze import freeze
from tfsmith.verbs.show import show
from tfsmith.verbs.verify import verify
from tfsmith.view import Section, human_bytes

if TYPE_CHECKING:
    from tfsmith.verbs._shared import FilePath, Progress

__all__ = ["DemoResult", "DemoStep", "demo"]


@records.record
class DemoStep:
    """One step of the demo: what it shows, whether all was as it should be, and how long it took."""

    title: str
    lines: tuple[Section | str, ...]
    is_right: bool
    seconds: float


@records.record
class DemoResult(Result):
    """What the demo showed. It is true if every step went as it should.

    Attributes:
        steps: The steps.
        notes: None.
    """

    steps: tuple[DemoStep, ...]
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return all(step.is_right for step in self.steps)

    @property
    def remarks(self) -> tuple[str, ...]:
        """How long each step took."""
        return tuple(f"step {number}: {step.seconds:.2f} s" for number, step in enumerate(self.steps, 1))

    def report(self) -> Iterator[Section | str]:
        """Each step under its title."""
        for number, step in enumerate(self.steps, 1):
            if number > 1:
                yield ""
            yield f"{number}. {step.title}"
            yield from step.lines

    def to_json(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        steps = [{"title": one.title, "right": one.is_right, "seconds": one.seconds} for one in self.steps]
        return {"right": bool(self), "steps": steps}


@checked
def demo(
    *,
    keep: FilePath | None = None,
    size: Literal["tiny", "small", "base", "large"] = "small",
    progress: Progress | None = None,
) -> DemoResult:
    """Shows the whole story on a BERT made on the spot: written, shown, opened, saved, frozen and verified.

    Args:
        keep: Write the files to this folder, and leave them there.
        size: How large a BERT; base is 438 MB.
        progress: Is called with the name of each step that begins.

    Returns:
        What each step showed.

    Raises:
        OutputError: The folder is not empty.

    Example:
        tfsmith demo
        tfsmith demo --keep models --size tiny
    """
    folder = None if keep is None else Path(keep)
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise OutputError("the folder is not empty", path=folder, remedy="choose another for {keep}")
    test_model = bert_classifier(getattr(BertConfig, size)(), length=128 if size != "tiny" else None, batch=1)
    done: list[DemoStep] = []
    with tempfile.TemporaryDirectory() if folder is None else nullcontext(folder) as place:
        for title, work in _STEPS:
            if progress is not None:
                progress(title)
            start = time.perf_counter()
            lines, is_right = work(test_model, Path(place))
            done.append(DemoStep(title, tuple(lines), is_right, time.perf_counter() - start))
    return DemoResult(tuple(done))


_Shown = tuple[list["Section | str"], bool]
"""What a step shows, and whether all was as it should be."""


def _make(made: TestModel, folder: Path) -> _Shown:
    write_checkpoint_files(made, folder / "training")
    write_saved_model(made, folder / "saved_model")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sizes = {path.relative_to(folder).as_posix(): human_bytes(path.stat().st_size) for path in files}
    return [f"  {name:<51}  {size:>8}" for name, size in sizes.items()], True


def _show(made: TestModel, folder: Path) -> _Shown:
    shown = show(folder / "saved_model")
    return list(records.replace(shown, facts={**shown.facts, "path": "saved_model"}).report()), True


def _open(made: TestModel, folder: Path) -> _Shown:
    trained = load(folder / "training")
    differ = [name for name, value in made.model.variables.items() if not _same(value, trained.variables[name])]
    verify_checksums(trained)
    return [f"  {len(trained.variables)} variables read, {len(differ)} differ"], not differ


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()


def _save(made: TestModel, folder: Path) -> _Shown:
    saved = folder / "saved_model"
    save(load(saved), folder / "copy")
    files = [path for path in saved.rglob("*") if path.is_file()]
    differ = [path for path in files if (folder / "copy" / path.relative_to(saved)).read_bytes() != path.read_bytes()]
    return [f"  {len(differ)} files differ"], not differ


def _freeze(made: TestModel, folder: Path) -> _Shown:
    frozen = freeze(folder / "training", ["loss/output"], out=folder / "frozen.pb")
    size = human_bytes((folder / "frozen.pb").stat().st_size)
    nodes = f"  {len(frozen.source.graph)} nodes before, {len(load(folder / 'frozen.pb').graph)} after, {size}"
    return [f"  Converted {len(frozen.converted)} variables to const ops.", nodes], True


def _verify(made: TestModel, folder: Path) -> _Shown:
    """Runs the model and what freezing made of it, and shows how far apart they are; the engine may be missing."""
    try:
        found = verify(folder / "saved_model", folder / "frozen.pb")
    except EngineError as error:
        return [f"  not run: {error}"], True
    lines: list[Section | str] = [
        f"  {one.key}: {'the same' if one.is_same else one.reason}, max abs {one.max_abs:.2g} ({found.engines[0]})"
        for one in found.outputs
    ]
    return lines, found.is_same


_STEPS: tuple[tuple[str, Callable[[TestModel, Path], _Shown]], ...] = (
    ("A BERT classifier is made and written as a training run leaves it, and as a SavedModel", _make),
    ("tfsmith show saved_model", _show),
    ("The checkpoint is opened again: every value is as it was made, every checksum fits", _open),
    ("Opened and saved again, the model is the same, byte for byte", _save),
    ("tfsmith freeze training -o frozen.pb --outputs loss/output", _freeze),
    ("tfsmith verify saved_model frozen.pb", _verify),
)
