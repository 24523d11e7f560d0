"""`verify` and runners at their edges: constant outputs, names of outputs, numbers that mean nothing, threads."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.cli import common
from tfsmith.cli.main import main
from tfsmith.errors import EngineError, NotFoundInModelError, UsageError
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import MetaGraph, Model, Signature, TensorInfo
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.storage import FileSink

FLOAT = dtype_named("float32")


def const(name: str, value: Any) -> Node:
    tensor = ArrayTensor.of(np.asarray(value, np.float32))
    return Node(name, "Const", (), {"value": tensor, "dtype": tensor.dtype})


def model(*nodes: Node, batch: int = -1, **outputs: str) -> Model:
    """A graph with the input `x` and these nodes; with outputs, it has a signature."""
    x = Node("x", "Placeholder", (), {"dtype": FLOAT, "shape": Shape((batch, 2))})
    graph = Part.of(Graph((x, *nodes)))
    if not outputs:
        return Model("graphdef", (MetaGraph(graph_part=graph),))
    known = {key: TensorInfo(name, FLOAT, Shape((batch, 2))) for key, name in outputs.items()}
    signature = Signature({"x": TensorInfo("x:0", FLOAT, Shape((batch, 2)))}, known)
    return Model("metagraph", (MetaGraph(graph, signatures_part=Part.of({"serving_default": signature})),))


def node(name: str, op: str, *inputs: str) -> Node:
    return Node(name, op, inputs, {"T": FLOAT})


def relu_above(limit: float, name: str = "out") -> tuple[Node, ...]:
    """0 wherever the input is below the limit."""
    return const("limit", limit), node("less", "Sub", "x", "limit"), node(name, "Relu", "less")


def test_a_result_has_the_truth_of_its_answer() -> None:
    one, same, other = (model(node("out", op, "x")) for op in ("Tanh", "Tanh", "Sigmoid"))
    assert tfsmith.verify(one, same, engine="openvino")
    found = tfsmith.verify(one, other, engine="openvino")
    assert not found
    assert bool(found) is False
    assert not found.outputs[0]


def test_a_verb_that_writes_nothing_verifies_too() -> None:
    one = model(node("out", "Tanh", "x"), y="out:0")
    assert tfsmith.convert(one).verified is None
    found = tfsmith.convert(one, verify=True, verify_engine="openvino")
    assert found
    assert found.out is None
    assert found.verified is not None
    assert [(each.key, each.is_same) for each in found.verified.outputs] == [("out:0", True)]
    with pytest.raises(UsageError, match=r"^verify_engine= goes with verify=; add verify=True, or leave it out$"):
        tfsmith.convert(one, verify_engine="openvino")


def test_other_inputs_are_tried_where_an_output_is_constant() -> None:
    """Of normal numbers nearly none is above 8: only what is tried besides shows the difference."""
    a, b = model(*relu_above(8.0)), model(*relu_above(9.0))
    found = tfsmith.verify(a, b, engine="openvino", bisect=True)
    assert not found
    assert found.samples > 2
    assert found.parted is not None
    assert found.parted.node == "limit"
    assert not found.outputs[0].constant
    again = tfsmith.verify(a, a, engine="openvino")
    assert again
    assert again.notes == ()


@pytest.mark.parametrize("batch", [-1, 2])
def test_an_output_that_stays_constant_is_named(batch: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = model(*relu_above(1e6), batch=batch)
    found = tfsmith.verify(one, one, engine="openvino")
    assert found
    assert found.outputs[0].constant
    count = {-1: 10, 2: 4}[batch]
    (note,) = found.notes
    wanted = f"output 'out:0' is the same for all {count} inputs that were tried, so equal results prove little"
    assert note == f"{wanted}; pass inputs of your own (`tfsmith.verify(inputs='...')`)"
    tfsmith.save(one, tmp_path / "one.pb")
    assert main(["verify", str(tmp_path / "one.pb"), str(tmp_path / "one.pb"), "--engine", "openvino"]) == 0
    out, err = capsys.readouterr()
    assert "same, but constant" in out
    assert f"warning: {wanted}; pass inputs of your own (`tfsmith verify --input ...`)" in err


def test_given_inputs_that_show_nothing_are_named() -> None:
    one = model(*relu_above(8.0))
    found = tfsmith.verify(one, one, inputs={"x": np.zeros((3, 2), np.float32)}, engine="openvino")
    assert found.outputs[0].constant
    assert found.samples == 1
    single = tfsmith.verify(one, one, inputs={"x": np.zeros((1, 2), np.float32)}, engine="openvino")
    assert not single.outputs[0].constant, "one input says nothing of that"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"seed": -1}, "seed=-1 makes no sense; pass 0 or more"),
        ({"samples": 0}, "samples=0 makes no sense; pass 1 or more"),
        ({"batches": (1, 0)}, "batches=0 makes no sense; pass 1 or more"),
        ({"atol": float("nan")}, "atol=nan makes no sense; pass a finite number, 0 or more"),
        ({"atol": -1e-3}, "atol=-0.001 makes no sense; pass a finite number, 0 or more"),
        ({"rtol": float("inf")}, "rtol=inf makes no sense; pass a finite number, 0 or more"),
        ({"engine": "onnx"}, "there is no engine 'onnx'; choose auto, openvino, reference or tensorflow"),
        ({"other_engine": "onnx"}, "there is no engine 'onnx'; choose auto, openvino, reference or tensorflow"),
    ],
)
def test_numbers_that_mean_nothing(wrong: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused before a file is opened, in Python and by the command."""
    with pytest.raises(UsageError) as refused:
        tfsmith.verify("no/such/a", "no/such/b", **wrong)
    assert str(refused.value) == says
    words = [f"--{name.replace('_', '-')}={_text(value)}" for name, value in wrong.items()]
    assert main(["verify", "no/such/a", "no/such/b", *words]) == 2
    (name, value) = next(iter(wrong.items()))
    flag = says.replace(f"{name}={value}", f"--{name} {value}").replace("batches=0", "--batches 0")
    assert capsys.readouterr().err == f"error: {flag}\n"


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def test_an_unknown_engine_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "no/such/model", "-i", "random", "--engine", "onnx"]) == 2
    assert (
        capsys.readouterr().err == "error: there is no engine 'onnx'; choose auto, openvino, reference or tensorflow\n"
    )


def test_outputs_are_paired_by_names_and_keys() -> None:
    """B is found by A's keys, by A's tensors, by what A's signature calls a tensor, or as it is said."""
    nodes = node("inner", "Tanh", "x"), node("out", "Sigmoid", "inner")
    a = model(*nodes, probabilities="out:0")
    by_key = model(node("inner", "Tanh", "x"), node("probabilities", "Sigmoid", "inner"), node("end", "Neg", "inner"))
    by_tensor = model(*nodes, node("logits", "Neg", "inner"))
    for b in (by_key, by_tensor):
        for found in (tfsmith.verify(a, b, engine="openvino"), tfsmith.verify(b, a, engine="openvino")):
            assert found
            assert [one.tensor_a for one in found.outputs] in (["out:0"], ["probabilities:0"])
    assert tfsmith.verify(a, by_key, ["out"], engine="openvino"), "by the key that A's signature has for it"
    assert tfsmith.verify(a, by_tensor, "inner", engine="openvino").outputs[0].tensor_b == "inner:0"
    assert tfsmith.verify(a, by_key, ["inner", "out=probabilities"], engine="openvino")
    assert not tfsmith.verify(a, by_key, {"out": "end"}, engine="openvino")
    with pytest.raises(NotFoundInModelError, match="no node 'nothing'"):
        tfsmith.verify(a, by_key, ["nothing"], engine="openvino")


def test_the_likely_outputs_of_one_are_looked_for_in_the_other() -> None:
    a = model(node("inner", "Tanh", "x"), node("output", "Sigmoid", "inner"))
    b = model(node("inner", "Tanh", "x"), node("output", "Sigmoid", "inner"), node("probabilities", "Softmax", "inner"))
    found = tfsmith.verify(a, b, engine="openvino")
    assert found
    assert [one.tensor_b for one in found.outputs] == ["output:0"]


def test_the_command_names_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = model(node("p", "Tanh", "x"), node("q", "Neg", "x")), model(node("p", "Tanh", "x"), node("r", "Neg", "x"))
    paths = [str(tmp_path / "a.pb"), str(tmp_path / "b.pb")]
    tfsmith.save(a, paths[0])
    tfsmith.save(b, paths[1])
    assert main(["verify", *paths, "--outputs", "p,q=r", "--json", "--engine", "openvino"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [(one["tensor_a"], one["tensor_b"]) for one in facts["outputs"]] == [("p:0", "p:0"), ("q:0", "r:0")]
    assert main(["verify", *paths, "--output", "p", "--output", "q=p", "--json", "--engine", "openvino"]) == 1
    assert [one["same"] for one in json.loads(capsys.readouterr().out)["outputs"]] == [True, False]
    assert main(["verify", *paths, "--outputs", ""]) == 2
    assert capsys.readouterr().err.startswith("error: --output names nothing; write A[=B]")


def test_a_runner_may_be_called_from_many_threads() -> None:
    with tfsmith.compile(model(node("out", "Neg", "x")), ["out"], engine="openvino") as runner:
        inputs = [np.full((200, 2), number, np.float32) for number in range(24)]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda x: runner.run({"x": x})["out"], inputs))
    for x, y in zip(inputs, found, strict=True):
        np.testing.assert_array_equal(y, -x)


def test_a_closed_runner_says_so() -> None:
    runner = tfsmith.compile(model(node("out", "Neg", "x")), ["out"], engine="openvino")
    assert "closed" not in repr(runner)
    runner.close()
    runner.close()
    assert "(closed)" in repr(runner)
    with pytest.raises(EngineError, match="the runner was closed; compile the model again"):
        runner.run({"x": np.ones((1, 2), np.float32)})


def test_one_tensor_by_two_names() -> None:
    """OpenVINO ended the process with a segmentation fault."""
    found = tfsmith.run(model(node("out", "Neg", "x")), {"x": [[1, 2]]}, ["out", "out:0"], engine="openvino")
    assert {key: values.tolist() for key, values in found.items()} == {"out": [[-1, -2]], "out:0": [[-1, -2]]}


def test_a_result_is_a_mapping() -> None:
    found = tfsmith.run(model(node("out", "Neg", "x")), {"x": [[1, 2]]}, "out", engine="openvino")
    assert dict(found).keys() == {"out"}
    assert found["out"].tolist() == [[-1, -2]]
    assert repr(found) == f"{{'out': {found['out']!r}}}"
    assert found.engine == "openvino"
    assert "out  float32  [1, 2]  -2" in str(found)
    assert tfsmith.run(model(node("out", "Neg", "x")), ["x=[[1, 2]]"], "out", engine="openvino")["out"].sum() == -3


def test_progress_is_shown_on_a_terminal_for_long_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with common.progress() as step:
        step("running A")
        time.sleep(1.3)
    assert capsys.readouterr().err == "", "not on a terminal"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with common.progress() as step:
        step("opening the models")
        step("running A")
        time.sleep(1.5)
    told = capsys.readouterr().err
    assert "running A (1 s)" in told
    assert "opening" not in told
    assert told.endswith("\r\x1b[K")


def test_every_command_shows_that_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A verb that tells no steps is shown by its name, with the bytes that it has written so far."""
    path = tmp_path / "frozen.pb"
    tfsmith.save(model(node("out", "Tanh", "x")), path)
    flush = FileSink._flush

    def slow(self: FileSink) -> None:
        flush(self)
        time.sleep(1.5)

    monkeypatch.setattr(FileSink, "_flush", slow)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["convert", str(path), "-o", str(tmp_path / "copy.pb")]) == 0
    told = capsys.readouterr().err
    assert re.search(r"\r\x1b\[Kconvert \(1 s, \d+ B written\)", told)


def test_verify_tells_its_steps() -> None:
    steps: list[str] = []
    one = model(node("out", "Tanh", "x"))
    tfsmith.verify(one, one, engine="openvino", bisect=True, progress=steps.append)
    assert steps == ["opening the models", "running A", "running B", "looking for the first node that differs"]
