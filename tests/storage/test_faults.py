"""Writers that run against each other, are stopped, or write to places that refuse: old output or new, no litter.

Every verb that writes is killed at many moments in `test_kills.py`.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.helpers import files_of

import tfsmith
from tfsmith.errors import OutputError
from tfsmith.storage.place import Output, write_file
from tfsmith.testing.models import linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_saved_model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_saved_model(linear_regression(), folder / "saved")
    write_checkpoint_files(linear_regression(), folder / "training")
    return folder


def outputs(folder: Path) -> dict[str, bytes]:
    return files_of(folder)


def test_a_set_that_was_half_in_place_is_put_back(tmp_path: Path) -> None:
    """The process dies between two files of a checkpoint: the next run restores the old one."""
    for name in ("m.index", "m.data-00000-of-00001"):
        (tmp_path / name).write_text("old")
    code = """
import os, signal, sys
from pathlib import Path
from tfsmith.storage import place
usual = place.Output._put
def put(self, entry, target):
    if target.suffix == ".index":
        os.kill(os.getpid(), signal.SIGKILL)
    usual(self, entry, target)
place.Output._put = put
with place.Output(sys.argv[1], force=True) as output:
    for name in ("m.index", "m.data-00000-of-00001", "m.extra"):
        (output.aside.parent / name).write_text("new")
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "m")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "m.data-00000-of-00001").read_text() == "new"
    assert not (tmp_path / "m.index").exists()  # so nobody takes it for a checkpoint
    write_file(tmp_path / "other", b"")
    assert outputs(tmp_path) == {"m.index": b"old", "m.data-00000-of-00001": b"old", "other": b""}


def test_what_somebody_wrote_since_is_not_put_back(tmp_path: Path) -> None:
    stage = tmp_path / ".m.tfsmith-0123456789ab"
    for folder in (stage / "old", stage / "new"):
        folder.mkdir(parents=True)
    (stage / "old" / "m.index").write_text("old")
    (stage / "new" / "m.index").write_text("new")
    (stage / "moves.json").write_text('{"m.index": [1, true], "../../up": [2, false]}')
    (tmp_path / "m.index").write_text("of somebody else")
    write_file(tmp_path / "other", b"")
    assert outputs(tmp_path) == {"m.index": b"of somebody else", "other": b""}


@pytest.mark.parametrize("journal", ["", "[]", "{", '{"m": 1}', '{"m": [1]}'])
def test_a_damaged_journal_is_passed_over(tmp_path: Path, journal: str) -> None:
    stage = tmp_path / ".m.tfsmith-0123456789ab"
    for folder in (stage / "old", stage / "new"):
        folder.mkdir(parents=True)
    (stage / "new" / "m").write_text("new")
    (stage / "moves.json").write_text(journal)
    write_file(tmp_path / "other", b"")
    assert outputs(tmp_path) == {"other": b""}


def test_the_folder_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    with Output(tmp_path / "first") as first:
        first.aside.write_text("1")
        with Output(tmp_path / "second") as second:
            second.aside.write_text("2")
    assert outputs(tmp_path) == {"first": b"1", "second": b"2"}


def test_what_only_looks_like_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".m.tfsmith-mine").mkdir()
    (tmp_path / ".m.tfsmith-0123456789ab").write_text("a file")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".n.tfsmith-0123456789ab").symlink_to(tmp_path / "elsewhere")
    write_file(tmp_path / "other", b"")
    assert {path.name for path in tmp_path.iterdir()} == {
        ".m.tfsmith-mine", ".m.tfsmith-0123456789ab", "elsewhere", ".n.tfsmith-0123456789ab", "other"
    }  # fmt: skip


def test_two_writers_at_once(tmp_path: Path) -> None:
    """One of them wins, whole; the other one may be told that the output exists."""
    contents = [bytes([number]) * 200_000 for number in range(8)]
    problems: list[BaseException] = []

    def write(data: bytes) -> None:
        try:
            write_file(tmp_path / "out", data, force=True)
        except OutputError:
            pass
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=write, args=(data,)) for data in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert (tmp_path / "out").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.fixture
def small_files() -> Iterator[Callable[[int], None]]:
    """Lets no file become larger than so many bytes, as a quota does."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("name", ["out.pb", "out.ckpt", "out.npz", "out.safetensors", "out"])
def test_a_quota(models: Path, tmp_path: Path, name: str, small_files: Callable[[int], None]) -> None:
    np.savez(tmp_path / "w.npz", w=np.ones(100_000, np.float32))
    weights = tfsmith.load(tmp_path / "w.npz")
    model = tfsmith.freeze(models / "saved").model if name == "out.pb" else tfsmith.load(models / "saved")
    before = sorted(tmp_path.iterdir())
    small_files(64)
    with pytest.raises(OutputError, match=r"free some space or choose another disk"):
        tfsmith.save(model if name in ("out.pb", "out") else weights, tmp_path / name)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("how", ["path", "symlink", "hard link", "folder link"])
def test_the_output_is_an_input(tmp_path: Path, how: str, models: Path) -> None:
    source = tmp_path / "in.pb"
    tfsmith.freeze(models / "saved").save(source)
    before = source.read_bytes()
    target = tmp_path / "other.pb"
    if how == "path":
        target = tmp_path / "." / "x" / ".." / "in.pb"
        (tmp_path / "x").mkdir()
    elif how == "symlink":
        target.symlink_to(source)
    elif how == "hard link":
        os.link(source, target)
    else:
        (tmp_path / "again").symlink_to(tmp_path)
        target = tmp_path / "again" / "in.pb"
    for force in (False, True):
        with pytest.raises(OutputError, match=r"the output is also the input"):
            tfsmith.save(tfsmith.load(source), target, force=force)
    assert source.read_bytes() == before


def test_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")

    def stop(path: Path) -> None:
        path.write_text("new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Output(tmp_path / "out", force=True) as output:
        stop(output.aside)
    assert outputs(tmp_path) == {"out": b"old"}


def test_a_set_goes_with_its_parts(tmp_path: Path) -> None:
    """One file in place of several: what belonged to the old set does not stay beside it."""
    weights = {name: np.ones(8, np.float32) for name in ("a", "b", "c")}
    tfsmith.save_weights(weights, tmp_path / "m.safetensors", max_shard_bytes=32)
    assert len(outputs(tmp_path)) == 4
    tfsmith.save_weights(weights, tmp_path / "m.safetensors", force=True)
    assert list(outputs(tmp_path)) == ["m.safetensors"]
