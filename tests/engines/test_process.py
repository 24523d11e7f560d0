"""TensorFlow's process when it is missing, broken or hostile; and how engines are chosen. Needs neither engine."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.engines import tensorflow, tensorflow_child
from tfsmith.engines.conformance import Proof
from tfsmith.engines.frames import read_frame, write_frame
from tfsmith.engines.protocol import Lack, LackError, Options, Program
from tfsmith.errors import EngineError
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.testing.models import linear_regression
from tfsmith.verbs.run import engine_lacks

pytestmark = pytest.mark.slow

FEEDS = {"x_sample": [[1.0]]}


@pytest.fixture(scope="module")
def model() -> Model:
    return linear_regression().model


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts other code in TensorFlow's place."""

    def use(body: str) -> None:
        start = f"""
import json, os, sys
sys.path[:] = json.loads(sys.argv[1])
from tfsmith.engines.frames import read_frame, write_frame
import numpy as np
requests, answers = sys.stdin.buffer, sys.stdout.buffer
read_frame(requests)
{body}
"""
        monkeypatch.setattr(tensorflow, "_START", start)
        monkeypatch.setattr(tensorflow, "find_spec", lambda name: True)

    return use


LOADED = 'write_frame(answers, {"version": "0"})\nread_frame(requests)\n'


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise SystemExit(3)", r"process ended with 3; try: pip install 'tfsmith\[tensorflow\]'"),
        ("raise MemoryError('no more')", r"process ended with 1 \(MemoryError: no more\)"),
        ("os.kill(os.getpid(), 9)", r"was ended by SIGKILL; the model, an op library"),
        (LOADED + "os.abort()", "was ended by SIGABRT"),
        ("answers.write(b'hello, I am TensorFlow')", "process ended with 0"),
        ("write_frame(answers, {'error': 'no such op'})", "TensorFlow: no such op"),
        (
            "write_frame(answers, {'error': 'x', 'remedy': 3})",
            "TensorFlow: x; check what is fed, or choose other",
        ),
        (LOADED + "write_frame(answers, {}, {'other:0': np.ones(1)})", "other tensors than asked for"),
        (LOADED + "write_frame(answers, {}, {})", "other tensors than asked for"),
        (LOADED + "answers.write(b'tfsm' + b'\\xff' * 60)", "process ended with 0"),
    ],
)
def test_a_broken_process(model: Model, child: Callable[[str], None], body: str, words: str) -> None:
    child(body)
    with pytest.raises(EngineError, match=words):
        tfsmith.run(model, FEEDS, engine="tensorflow")


def test_nothing_stays_behind(
    model: Model, child: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    child("write_frame(answers, {'error': 'no'})")
    with pytest.raises(EngineError):
        tfsmith.run(model, FEEDS, engine="tensorflow")
    child(LOADED + "write_frame(answers, {}, {'linear_regression/add:0': np.full((1, 1), 7.0)})\nread_frame(requests)")
    runner = tfsmith.compile(model, engine="tensorflow")
    assert runner.run(FEEDS)["linear_regression/add:0"] == 7
    assert list(tmp_path.iterdir())
    runner.close()
    runner.close()
    assert not list(tmp_path.iterdir())
    with pytest.raises(EngineError, match="was closed"):
        runner.run(FEEDS)


def test_the_process_does_not_look_into_the_working_directory(
    model: Model, child: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ambient.py").write_text("raise SystemExit(9)\n")
    (tmp_path / "json.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    child("""
try:
    import ambient
except ImportError:
    write_frame(answers, {'error': 'it is not found'})
""")
    with pytest.raises(EngineError, match="it is not found"):
        tfsmith.run(model, FEEDS, engine="tensorflow")


def test_missing_engines(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensorflow", "openvino"):
        monkeypatch.setattr(f"tfsmith.engines.{name}.find_spec", lambda name: None)
        with pytest.raises(EngineError, match=rf"is not installed; pip install 'tfsmith\[{name}\]'$"):
            tfsmith.run(model, FEEDS, engine=name)
    custom = model.replace_graph(model.graph.replace(nodes=(*model.graph.nodes, Node("fast", "BertOp", ()))))
    with pytest.raises(
        EngineError, match=r"OpenVINO is not installed; pip .*; reference lacks .*; TensorFlow is not installed; pip"
    ) as told:
        tfsmith.run(custom, {}, ["fast"])
    assert "\n" not in str(told.value)
    assert tfsmith.run(model, FEEDS).engine == "reference"
    with pytest.raises(tfsmith.TfsmithError, match="no engine 'onnx'; choose auto, openvino, reference or tensorflow"):
        tfsmith.run(model, FEEDS, engine="onnx")


def test_op_libraries(model: Model, child: Callable[[str], None], tmp_path: Path) -> None:
    child(LOADED)
    with pytest.raises(EngineError, match="there is no such op library"):
        tfsmith.run(model, FEEDS, op_libraries=[tmp_path / "ops.so"])
    custom = model.replace_graph(model.graph.replace(nodes=(*model.graph.nodes, Node("fast", "BertOp", ()))))
    assert engine_lacks(custom, "tensorflow") == (Lack("BertOp", ("fast",), "it is a custom op"),)
    with pytest.raises(LackError, match=r"BertOp \(fast\): it is a custom op; pass the library"):
        tfsmith.run(custom, FEEDS, engine="tensorflow")


class Fake:
    """An engine that answers zeros, or lacks something."""

    def __init__(self, name: str, *lacks: Lack) -> None:
        self.name = name
        self.version = "1"
        self.notes = ()
        self._lacks = lacks

    def available(self) -> str | None:
        return None

    def lacks(self, program: Program) -> tuple[Lack, ...]:
        return self._lacks

    def compile(self, program: Program, options: Options) -> Any:
        if self._lacks:
            raise LackError(self.name, self._lacks, remedy="use another")
        self.outputs = program.outputs
        return self

    def run(self, feeds: Any) -> dict[str, Any]:
        return {key: np.zeros(1) for key in self.outputs}

    def close(self) -> None:
        pass


def test_auto_takes_the_first_that_can(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = [Fake(name, Lack("Case", ("n",), "none")) for name in ("openvino", "reference")]
    engines = {"openvino": lacks[0], "reference": lacks[1], "tensorflow": Fake("tensorflow")}
    monkeypatch.setattr("tfsmith.engines.runner.engine_named", engines.__getitem__)
    monkeypatch.setattr("tfsmith.engines.choose.installed_openvino", lambda: "1")
    monkeypatch.setattr("tfsmith.engines.guard._proof", lambda *asked: Proof())
    with tfsmith.compile(model) as runner:
        assert (runner.engine, runner.version) == ("tensorflow", "1")
        assert runner.refusals == (
            "openvino lacks what this model needs: Case (n): none",
            "reference lacks what this model needs: Case (n): none",
        )
    engines["reference"] = Fake("reference")
    with tfsmith.compile(model) as runner:
        assert (runner.engine, len(runner.refusals)) == ("reference", 1)
    engines["openvino"] = Fake("openvino")
    with tfsmith.compile(model) as runner:
        assert (runner.engine, runner.refusals) == ("openvino", ())
    engines.update(dict.fromkeys(engines, Fake("each", Lack("Case", ("n",), "none"))))
    with pytest.raises(EngineError, match=r"no engine can run it: each lacks .*; each lacks .*: none; use another$"):
        tfsmith.compile(model)


def test_the_child_answers_nonsense_with_an_error() -> None:
    requests, answers = io.BytesIO(), io.BytesIO()
    write_frame(requests, {"do": "run", "fetches": ["x:0"]})
    write_frame(requests, {"do": "load"})
    requests.seek(0)
    tensorflow_child.serve(requests, answers)
    answers.seek(0)
    assert read_frame(answers)[0] == {"error": "no model is loaded"}
    assert "error" in read_frame(answers)[0]
    assert answers.read() == b""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "Graph execution error:\n\nDetected at node x\nNot filled.\n\t [[{{node a/b}}]]",
            "Not filled. (node a/b)",
        ),
        ("one\ntwo", "one two"),
        ("", "ValueError"),
        ("x" * 5000, "x" * 600 + " [...]"),
    ],
)
def test_errors_of_tensorflow_become_one_line(text: str, wanted: str) -> None:
    assert tensorflow_child.explain(ValueError(text))["error"] == wanted


SERVING = """
write_frame(answers, {"version": str(os.getpid())})
while True:
    said = read_frame(requests)[0]
    write_frame(answers, {"version": str(os.getpid())} if said["do"] == "load" else {}, {} if said["do"] != "run" else {
        "linear_regression/add:0": np.full((1, 1), 7.0)})
"""


def test_a_process_takes_the_next_program(
    model: Model, child: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(SERVING)

    def process() -> str:
        with tfsmith.compile(model, engine="tensorflow") as runner:
            assert runner.run(FEEDS)["linear_regression/add:0"] == 7
            return runner.version

    first = process()
    assert process() == first
    with tfsmith.compile(model, engine="tensorflow") as one, tfsmith.compile(model, engine="tensorflow") as other:
        assert one.version == first
        assert other.version != first  # a process runs one program at a time
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    second = process()
    assert second not in (first, other.version)
    monkeypatch.chdir(tmp_path)
    assert process() != second
    monkeypatch.undo()


@pytest.mark.parametrize(
    "then",
    [
        pytest.param("", id="ends"),
        pytest.param("os.kill(os.getpid(), 9)", id="is killed"),
        pytest.param("read_frame(requests)", id="does not answer"),
        pytest.param("read_frame(requests)\nanswers.write(b'?' * 99)", id="answers nonsense"),
        pytest.param("read_frame(requests)\nwrite_frame(answers, {})\nread_frame(requests)", id="dies of the next"),
    ],
)
def test_a_process_that_does_not_take_the_next_program_is_replaced(
    model: Model, child: Callable[[str], None], then: str
) -> None:
    child(LOADED + "write_frame(answers, {}, {'linear_regression/add:0': np.full((1, 1), 7.0)})\n" + then)
    for _ in range(2):
        assert tfsmith.run(model, FEEDS, engine="tensorflow")["linear_regression/add:0"] == 7


def test_a_process_without_a_program_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfsmith.engines.frames._REST", 0.01)
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as requests, os.fdopen(writer, "wb") as sender:
        write_frame(sender, {"do": "rest"})
        answers = io.BytesIO()
        tensorflow_child.serve(requests, answers)  # returns, although the pipe is open
    answers.seek(0)
    assert read_frame(answers) == ({}, {})
