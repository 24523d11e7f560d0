"""The command line under bad conditions: full disks, closed streams, little memory, names that command a terminal."""

from __future__ import annotations

import os
import pty
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.attack import (
    CONTROL,
    FLOAT,
    X,
    Y,
    cli,
    const,
    meta_graph,
    refused,
    sound,
    tensor,
    write_graph,
    write_saved_model,
)
from tests.support.helpers import attr_value, field, graph_def, node_def

import tfsmith
from tfsmith.errors import OutputError
from tfsmith.storage import FileSink
from tfsmith.testing.models import linear_regression
from tfsmith.testing.write import write_saved_model as write_test_model
from tfsmith.wire import tag

MB = 2**20
RANDOM = {"dtype": FLOAT, "T": attr_value(type=3)}
ESCAPES = ["a\x1b[31mb", "a\x9b31mb", "a\nerror: b", "a\rb", "a\0b", "a\u202eb", "a\u2028b", "\x07"]


def run(
    *arguments: str | Path, before: Callable[[], None] | None = None, redirect: str = "", timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Runs tfsmith aside; `redirect` is of the shell, `before` runs in the new process."""
    source = str(Path(__file__).parents[2] / "src")
    command = ["sh", "-c", f'exec "$@" {redirect}', "sh", sys.executable, "-m", "tfsmith", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": source, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=timeout, check=False, preexec_fn=before
    )


# Terminals


@pytest.mark.parametrize("name", ESCAPES)
def test_names_cannot_command_a_terminal(tmp_path: Path, name: str) -> None:
    """They reach stdout and stderr escaped, and on one line: in tables, results, warnings and errors."""
    nodes = [
        node_def(name, "Placeholder", attrs={"dtype": FLOAT}, device=name),
        node_def(f"dropout/{name}", "RandomUniform", [name], {**RANDOM, name: attr_value(s=name.encode())}),
        node_def(
            "plain", "Identity", [f"dropout/{name}"], {"T": FLOAT}
        ),  # files are known by the ops of their first three nodes
        node_def(f"out/{name}", f"Op{name}", ["plain", f"^{name}"]),
    ]
    path = write_graph(tmp_path, nodes)  # files are known by the ops of their first three nodes
    answers = [sound("show", path, "--all"), sound("show", path, "--json", "--all")]
    answers.append(sound("freeze", path, "-o", tmp_path / "out", "--outputs", f"out/{name}"))
    answers += [sound("diff", path, path), sound("scan", path, "--fail-on", "dangerous")]
    assert [answer.code for answer in answers] == [0, 0, 2, 0, 0]
    assert "TensorFlow takes no node of this name; " in answers[2].err
    assert "warning: TensorFlow refuses the graph: the graph, node " in answers[4].err
    assert all(len(answer.err.splitlines()) <= 1 for answer in answers)
    answers.append(sound("freeze", path, "-o", tmp_path / "out", "--outputs", f"{name}gone"))
    assert answers[-1].code == 2
    answers.append(sound("show", tmp_path / name.replace("\0", "0")))
    for answer in answers:
        assert not CONTROL.search(answer.out + answer.err)
        assert "\u2028" not in answer.out + answer.err


def in_terminal(*arguments: str | Path) -> str:
    """What tfsmith prints when its output is a terminal."""
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "dumb", "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, "-m", "tfsmith", *map(str, arguments)]
    with subprocess.Popen(command, stdout=follower, stderr=follower, env=environment) as process:
        os.close(follower)
        pieces: list[bytes] = []
        while select.select([leader], [], [], 60)[0]:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the terminal is gone with the last that had it open
                break
            if not piece:
                break
            pieces.append(piece)
        process.wait(60)
    os.close(leader)
    return b"".join(pieces).decode()


def test_text_is_exact_in_a_pipe_and_safe_in_a_terminal(tmp_path: Path) -> None:
    path = write_graph(tmp_path, [node_def("a\x9b31m\u202e", "NoOp")])
    assert 'name: "a\x9b31m\u202e"' in cli("show", path, "--text").out
    shown = in_terminal("show", path, "--text")
    assert r'name: "a\x9b31m\u202e"' in shown
    assert not CONTROL.search(shown.replace("\r\n", "\n"))


def test_long_names_make_no_long_lines(tmp_path: Path) -> None:
    """An error is cut in its middle; a table does not fill up every row to the width of the longest."""
    long = "n" * MB
    path = write_graph(tmp_path, [X, node_def(long, "Identity", ["x"]), node_def("y", "Identity", [f"{long}2"])])
    message = refused("show", path, "--outputs", says=["node 'y'", " [...] ", "write it again from its source"])
    assert len(message) < 300
    others = [node_def(f"o{number}", "NoOp") for number in range(500)]
    path = write_graph(tmp_path, [X, node_def(long, "Identity", ["x"]), *others])
    assert len(sound("show", path, "--nodes").out) < 2 * MB
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", f"{long}3", says=["there is no node", "[...]"])


# Arguments


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--batch-size", "0"], "a batch of 0 cannot be; pass a positive number"),
        (["--batch-size", "9" * 30], "more elements than can be counted; pass a shape that a tensor can have"),
        (["--batch-size", "1" * 5000], "invalid int value"),
        (["--input-shape", "x=--5"], "write NAME=1,128"),
        (["--input-shape", "x=" + "9" * 5000], "write NAME=1,128"),
        (["--input-shape", "x=-7"], "write NAME=1,128"),
        (["--input-shape", "=1"], "write NAME=1,128"),
        (["--input-shape", "x"], "write NAME=1,128"),
        (["--input-shape", "x=" + ",".join(["1"] * 300)], "no tensor has more than 254; pass a shape"),
        (["--input-shape", "x=" + ",".join(["2147483648"] * 3)], "more elements than can be counted"),
        (["--input-shape", "gone=1"], "there is no placeholder 'gone'; the placeholders are: x"),
        (["--step", "5"], "--step chooses among the checkpoints of a folder"),
        (["--only", "["], "no variable that the outputs need is called '['"),
        (["--checkpoint", ""], "the path is empty"),
        (["--checkpoint", "/dev/null"], "there is no checkpoint with this prefix"),
        (["--tag-set", "q\x1b"], r"there is no meta graph with the tag set"),
    ],
)
def test_arguments_that_make_no_sense(tmp_path: Path, words: list[str], says: str) -> None:
    placeholder = node_def("x", "Placeholder", attrs={"dtype": FLOAT, "shape": field(7, field(2, b""))})
    if "--input-shape" in words:
        placeholder = X
    path = write_graph(tmp_path, [placeholder, Y])
    refused("freeze", path, "-o", tmp_path / "out", "--outputs", "y", *words, says=[says])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "the path is empty"),
        ("/dev/null", "not a regular file"),
        ("/dev/zero", "not a regular file"),
        ("/proc/self/mem", "the file is empty"),
        ("/", "no SavedModel and has no checkpoint"),
        ("n" * 300, "File name too long"),
        ("/".join(["n" * 200] * 50), "File name too long"),
        ("\udcff", "there is no such file"),
        ("/etc/passwd/x", "there is no such file or folder"),
    ],
)
def test_paths_that_are_no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, says: str) -> None:
    monkeypatch.chdir(tmp_path)
    refused("show", path, says=[says])
    refused("freeze", path, "-o", "out", says=[says])


@pytest.mark.parametrize("path", ["", "/", ".", "..", "/dev/null", "/dev/full", "n" * 300, "/proc/x", "/etc/passwd/x"])
def test_outputs_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    model = write_graph(tmp_path / "in", [X, Y])
    for how in ((), ("--as", "saved_model", "--force"), ("--as", "pbtxt")):
        answer = sound("freeze", model, "-o", path, "--outputs", "y", *how)
        assert answer.code == 2
    assert [found.name for found in tmp_path.rglob("*")] == ["in", "m.pb"]


# Streams, disks, interrupts


@pytest.mark.parametrize("redirect", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full", ">/dev/full"])
def test_closed_and_full_streams(tmp_path: Path, redirect: str) -> None:
    path = write_graph(tmp_path, [X, Y, node_def("r", "RandomUniform", ["y"], RANDOM)])
    full = redirect == ">/dev/full"
    for arguments, code in (
        (("show", path, "--all"), 2 if full else 0),
        (("show", tmp_path / "gone"), 2),
        (("freeze", path, "-o", tmp_path / "out", "--outputs", "y,r"), 2 if full else 0),
    ):
        done = run(*arguments, redirect=redirect)
        assert done.returncode == code, (arguments, done)
        assert "Traceback" not in done.stderr
    if "2>" not in redirect:
        assert "error: stdout: No space left on device" in done.stderr or not full
    assert len(tfsmith.load(tmp_path / "out").graph) == 3  # nothing else was written into the file


@pytest.mark.parametrize("limit", [0, 100, 2000])
@pytest.mark.parametrize("how", [(), ("--as", "saved_model"), ("--as", "pbtxt")])
def test_a_full_disk_leaves_nothing(tmp_path: Path, limit: int, how: tuple[str, ...]) -> None:
    weights = const("w", tensor([1000], content=bytes(4000)))
    path = write_graph(tmp_path, [X, weights, node_def("y", "AddV2", ["x", "w"], {"T": FLOAT})])
    (tmp_path / "o").mkdir()

    def before() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = run("freeze", path, "-o", tmp_path / "o/out", "--outputs", "y", *how, before=before)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {tmp_path / 'o/out'}")
    assert "cannot be written (File too large); free some space or choose another disk" in line
    assert list((tmp_path / "o").iterdir()) == []


def test_what_was_there_outlives_a_failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_test_model(linear_regression(), tmp_path / "m")
    other = write_test_model(linear_regression(slope=2.0), tmp_path / "o")
    before = {file.name: file.read_bytes() for file in other.rglob("*") if file.is_file()}
    monkeypatch.setattr(FileSink, "write_span", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        tfsmith.save(tfsmith.load(path), other, force=True)
    for name in ("out", "out.meta"):
        with pytest.raises(KeyboardInterrupt):
            tfsmith.save(tfsmith.load(path), tmp_path / name)
    answer = cli("freeze", path, "-o", tmp_path / "f.pb")
    assert answer.code == 130
    assert answer.err == "error: stopped by the keyboard; nothing was written\n"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["m", "o"]
    assert {file.name: file.read_bytes() for file in other.rglob("*") if file.is_file()} == before


def _interrupted(self: FileSink, span: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_stop_between_two_renames_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Replacing a folder takes two renames; what was there is back when the second does not happen."""
    path = write_test_model(linear_regression(), tmp_path / "m")
    other = write_test_model(linear_regression(), tmp_path / "o")
    rename = Path.rename

    def stopped(self: Path, target: Path) -> Path:
        if target == other and self.parent.name == "new" and (self / "saved_model.pb").exists() and not other.exists():
            if not stops:
                return rename(self, target)
            stops.pop()
            raise error
        return rename(self, target)

    stops = [1]
    monkeypatch.setattr(Path, "rename", stopped)
    monkeypatch.setattr("tfsmith.storage.place._exchange", lambda one, other: False)  # as where the system has no swap
    with pytest.raises((KeyboardInterrupt, OutputError)):
        tfsmith.save(tfsmith.load(path), other, force=True)
    assert stops == []
    assert tfsmith.load(other).kind == "saved_model"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["m", "o"]


@pytest.mark.parametrize("verb", [("show",), ("show", "--all"), ("freeze", "-o", "o.pb")])
def test_a_pipe_is_never_waited_for(tmp_path: Path, verb: tuple[str, ...]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = run(verb[0], pipe, *verb[1:], timeout=30)
    assert done.returncode == 2
    assert f"error: {pipe}: this is not a regular file; pass the path of a file" in done.stderr


# Memory


def _many_fields() -> bytes:
    return graph_def([X, Y]) + (tag(9, 0) + b"\0") * 2_000_000


def _many_meta_graphs() -> bytes:
    return tag(1, 0) + b"\1" + field(2, meta_graph(graph_def([X, Y]))) + (tag(2) + b"\0") * 2_000_000


def _wide_table() -> bytes:
    return graph_def([X, Y, node_def("w" * MB, "NoOp"), *(node_def(f"n{number}", "NoOp") for number in range(3000))])


def _claims() -> bytes:
    huge = tensor([2**33], 7)
    floats = tensor([2**31], floats=[1.0, 2.0])
    reshape = node_def("z", "Reshape", ["x", "f"], {"T": FLOAT, "Tshape": attr_value(type=1)})
    return graph_def([X, Y, const("c", huge, 7), const("f", floats), reshape])


SHOW, FREEZE = ("show", "--all"), ("freeze", "-o", "o.pb", "--outputs", "y", "--batch-size", "2")


@pytest.mark.parametrize(
    ("make", "verb"),
    [
        (_many_fields, SHOW),
        (_many_meta_graphs, SHOW),
        (_wide_table, SHOW),
        (_wide_table, FREEZE),
        (_claims, SHOW),
        (_claims, FREEZE),
    ],
)
def test_little_memory_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], bytes], verb: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.pb").write_bytes(make())

    def before() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (500 * MB, 500 * MB))

    done = run(verb[0], "m.pb", *verb[1:], before=before)
    assert done.returncode in (0, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert "memory" not in done.stderr


def test_a_model_in_memory_says_so(tmp_path: Path) -> None:
    path = write_saved_model(tmp_path / "m", meta_graph(graph_def([X, X])))
    with pytest.raises(tfsmith.TfsmithError, match="two nodes have one name"):
        tfsmith.freeze(tfsmith.load((path / "saved_model.pb").read_bytes()), outputs=["x"])
