"""Bad input of every kind that users meet: one line, exit 2, and no more memory than the file itself has bytes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.support.attack import const, tensor
from tests.support.helpers import attr_value, field, graph_def, node_def

import tfsmith
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model

MB = 1 << 20
MEASURE = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "tfsmith", *sys.argv[1:]], capture_output=True, text=True)
sys.stderr.write(done.stderr)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def measure(*arguments: str, folder: Path | None = None) -> tuple[int, int, str]:
    """The exit code, the peak memory in bytes and what was said, of a command in a process of its own."""
    command = [sys.executable, "-c", MEASURE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    code, peak = done.stdout.split()
    return int(code), int(peak), done.stderr


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of some 18 MB as checkpoint, SavedModel and frozen graph."""
    folder = tmp_path_factory.mktemp("sound")
    made = bert_classifier(BertConfig(30_000, 128, 2, 2, 256))
    write_checkpoint_files(made, folder, step=3)
    write_saved_model(made, folder / "saved_model")
    write_frozen(made, folder / "frozen.pb")
    return folder


@pytest.fixture(scope="module")
def usual(model: Path) -> int:
    """The memory that a command takes whatever it is given."""
    return max(
        measure("show", str(model / "model.ckpt-3"), "--verify")[1], measure("show", str(model / "frozen.pb"))[1]
    )


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x55
    path.write_bytes(data)


def truncated_data(folder: Path) -> list[str]:
    data = folder / "model.ckpt-3.data-00000-of-00001"
    cut(data, data.stat().st_size // 2)
    return ["show", str(folder / "model.ckpt-3"), "--verify"]


def truncated_graph(folder: Path) -> list[str]:
    cut(folder / "frozen.pb", (folder / "frozen.pb").stat().st_size * 3 // 4)
    return ["show", str(folder / "frozen.pb")]


def truncated_index(folder: Path) -> list[str]:
    cut(folder / "model.ckpt-3.index", 700)
    return ["show", str(folder / "model.ckpt-3")]


def corrupted_index(folder: Path) -> list[str]:
    flip(folder / "saved_model/variables/variables.index", 40)
    return ["show", str(folder / "saved_model")]


def wrong_crc(folder: Path) -> list[str]:
    flip(folder / "model.ckpt-3.data-00000-of-00001", 5 * MB)
    return ["show", str(folder / "model.ckpt-3"), "--verify"]


def wrong_crc_when_frozen(folder: Path) -> list[str]:
    flip(folder / "model.ckpt-3.data-00000-of-00001", 5 * MB)
    return ["freeze", str(folder / "model.ckpt-3"), "-o", str(folder / "new.pb"), "--outputs", "loss/output"]


def missing_shard(folder: Path) -> list[str]:
    (folder / "model.ckpt-3.data-00000-of-00001").unlink()
    return ["show", str(folder / "model.ckpt-3"), "--verify"]


def mixed_steps(folder: Path) -> list[str]:
    other = bert_classifier(BertConfig(20_000, 128, 2, 2, 256))
    write_checkpoint_files(other, folder / "other", step=3)
    shutil.copy(folder / "other" / "model.ckpt-3.data-00000-of-00001", folder)
    return ["show", str(folder / "model.ckpt-3"), "--verify"]


def pointer_for_data(folder: Path) -> list[str]:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    (folder / "model.ckpt-3.data-00000-of-00001").write_text(pointer)
    return ["show", str(folder / "model.ckpt-3"), "--verify"]


def duplicate_nodes(folder: Path) -> list[str]:
    twice = [const("a", tensor([3 * MB], content=bytes(12 * MB))) for _ in range(2)]
    (folder / "m.pb").write_bytes(graph_def(twice))
    return ["show", str(folder / "m.pb"), "--all"]


def missing_node(folder: Path) -> list[str]:
    nodes = [const("a", tensor([3 * MB], content=bytes(12 * MB))), node_def("b", "Identity", ["nowhere"])]
    (folder / "m.pb").write_bytes(graph_def(nodes))
    return ["show", str(folder / "m.pb"), "--all"]


def impossible_shape(folder: Path) -> list[str]:
    (folder / "m.pb").write_bytes(graph_def([const("a", tensor([-7, 2**40], content=bytes(12 * MB)))]))
    return ["show", str(folder / "m.pb"), "--all"]


def length_past_the_end(folder: Path) -> list[str]:
    (folder / "m.pb").write_bytes(graph_def([const("a", tensor([4], content=bytes(16)))]) + b"\x0a\xff\xff\xff\xff\x07")
    return ["show", str(folder / "m.pb")]


def recursion(folder: Path) -> list[str]:
    nested = attr_value(type=1)
    for _ in range(2000):
        nested = field(10, field(1, b"f") + field(2, field(1, b"a") + field(2, nested)))
    (folder / "m.pb").write_bytes(graph_def([node_def("a", "NoOp", attrs={"f": nested})]))
    return ["show", str(folder / "m.pb"), "--all"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (truncated_data, "ends at"),
        (truncated_graph, "past the end"),
        (truncated_index, "model.ckpt-3.index"),
        (corrupted_index, "checksum"),
        (wrong_crc, "checksum"),
        (wrong_crc_when_frozen, "checksum"),
        (missing_shard, "is missing"),
        (mixed_steps, "different steps"),
        (pointer_for_data, "git lfs pull"),
        (duplicate_nodes, "two nodes have one name"),
        (missing_node, "nowhere"),
        (impossible_shape, "impossible shape"),
        (length_past_the_end, "past the end"),
        (recursion, "cannot be decoded"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_bad_input_takes_no_more_memory_than_its_file(
    model: Path, usual: int, tmp_path: Path, spoil: Callable[[Path], list[str]], says: str
) -> None:
    folder = tmp_path / "bad"
    shutil.copytree(model, folder)
    arguments = [one.replace(f"{folder}{os.sep}", "") for one in spoil(folder)]  # short, so that all of it is said
    before = sorted(folder.rglob("*"))
    code, peak, said = measure(*arguments, folder=folder)
    assert code == 2
    assert len(said.splitlines()) == 1
    assert said.startswith("error: ")
    assert says in said
    assert sorted(folder.rglob("*")) == before, "something was left behind"
    size = max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert peak - usual <= size


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_terminated_command_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    """SIGTERM and SIGHUP in the middle of writing are as orderly an end as Ctrl-C."""
    slow = """
import os, signal, sys
from tfsmith.cli.main import main
from tfsmith.storage import FileSink
usual = FileSink.write_span
def stop(self, span):
    usual(self, span)
    os.kill(os.getpid(), signal.SIGNAL)
FileSink.write_span = stop
sys.exit(main(sys.argv[1:]))
"""
    np.savez(tmp_path / "w.npz", w=np.zeros(4 * MB, np.float32))
    tfsmith.save(tfsmith.load(tmp_path / "w.npz"), tmp_path / "w.ckpt", format="checkpoint")
    before = sorted(tmp_path.iterdir())
    slow = slow.replace("signal.SIGNAL", f"signal.{name}")
    command = [sys.executable, "-c", slow, "convert", str(tmp_path / "w.ckpt"), "-o", str(tmp_path / "v.ckpt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 128 + getattr(signal, name)
    assert done.stderr == "error: stopped by another program; nothing was written\n"
    assert sorted(tmp_path.iterdir()) == before


def test_sigterm_is_left_as_it_was() -> None:
    from tfsmith.cli.main import main

    usual = signal.getsignal(signal.SIGTERM)
    main(["--version"])
    main(["show", "nowhere"])
    assert signal.getsignal(signal.SIGTERM) is usual
