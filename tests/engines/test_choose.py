"""Which engine runs a program: by what is proven, and by what is fed. OpenVINO itself is not needed."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engines.test_reference import FLOAT, INT, binary, const, model, placeholder

import tfsmith
from tfsmith.cli.main import main
from tfsmith.engines import choose, guard, isolated
from tfsmith.engines.conformance import BAD, EMPTY, NONFINITE, WIDE, Proof
from tfsmith.engines.frames import read_frame, write_frame
from tfsmith.engines.openvino import OpenVino
from tfsmith.engines.program import make_program
from tfsmith.engines.protocol import Options, Program
from tfsmith.engines.tensorflow import TensorFlow
from tfsmith.errors import EngineError
from tfsmith.ir.model import Model
from tfsmith.ir.node import Attr, Node
from tfsmith.ir.types import Shape, dtype_named

RIGHT = Proof()


class Sevens:
    """In OpenVINO's place: gives sevens, whatever it is fed."""

    version = "1"
    notes = ()

    def __init__(self, program: Program, options: Options) -> None:
        self._keys = tuple(program.outputs)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        return {key: np.full(2, 7, np.float32) for key in self._keys}

    def close(self) -> None:
        pass


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Proof]:
    """What is proven of each op; an op that is not there is not."""
    found: dict[str, Proof] = {}

    def proven(engine: str, version: str, op: str, attrs: Mapping[str, Attr]) -> Proof:
        return found.get(op, Proof(f"{op} was not checked"))

    monkeypatch.setattr(guard, "proven", proven)
    monkeypatch.setattr(choose, "installed_openvino", lambda: "1")
    monkeypatch.setattr(OpenVino, "available", lambda self: None)
    monkeypatch.setattr(OpenVino, "compile", lambda self, program, options: Sevens(program, options))
    return found


def run(made: Model, name: str, **feeds: Any) -> tuple[str, list[Any], tuple[str, ...]]:
    found = tfsmith.run(made, feeds, [name])
    return found.engine, found[name].tolist(), found.notes


SUM = model([placeholder("x"), binary("y", "AddV2", "x", "x")])


def test_what_is_proven_runs_on_openvino(proofs: dict[str, Proof]) -> None:
    proofs["AddV2"] = RIGHT
    assert run(SUM, "y", x=[1.0, 2.0]) == ("openvino", [7.0, 7.0], ())


def test_what_is_not_proven_runs_on_reference(proofs: dict[str, Proof]) -> None:
    with tfsmith.compile(SUM, ["y"]) as runner:
        assert runner.engine == "reference"
        assert runner.refusals == ("openvino is not proven for this model: AddV2 (y): AddV2 was not checked",)
        assert runner.run({"x": [1.0, 2.0]})["y"].tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("condition", "good", "bad", "wanted"),
    [(NONFINITE, [1.0, 2.0], [1.0, np.inf], [2.0, np.inf]), (EMPTY, [1.0, 2.0], np.zeros(0, np.float32), [])],
)
def test_inputs_for_which_it_is_not_proven(
    proofs: dict[str, Proof], condition: Any, good: Any, bad: Any, wanted: list[float]
) -> None:
    proofs["AddV2"] = Proof(except_for=frozenset({condition}))
    assert run(SUM, "y", x=good)[:2] == ("openvino", [7.0, 7.0])
    _, values, notes = run(SUM, "y", x=bad)
    assert values == wanted
    assert any(note.startswith("it ran on reference, for OpenVINO is not proven for") for note in notes)


def test_masks_of_infinities(proofs: dict[str, Proof]) -> None:
    """A constant counts as well as what is fed."""
    proofs["AddV2"] = Proof(except_for=frozenset({NONFINITE}))
    made = model([placeholder("x"), const("mask", [0.0, -np.inf]), binary("y", "AddV2", "x", "mask")])
    assert run(made, "y", x=[1.0, 2.0])[1] == [1.0, -np.inf]


def test_infinities_that_arise_inside(proofs: dict[str, Proof]) -> None:
    """The logarithm of 0 is not seen in inputs or outputs; of a number that is surely greater, it is finite."""
    proofs.update(Log=RIGHT, AddV2=RIGHT, Exp=RIGHT, Relu=Proof(except_for=frozenset({NONFINITE})))
    logarithm = Node("log", "Log", ("x",), {"T": FLOAT})
    made = model([placeholder("x"), logarithm, Node("y", "Relu", ("log",), {"T": FLOAT})])
    assert run(made, "y", x=[1.0, 2.0])[:2] == ("openvino", [7.0, 7.0])
    _, values, notes = run(made, "y", x=[1.0, 0.0])
    assert values == [0.0, 0.0]
    assert "it ran on reference, for OpenVINO is not proven for infinities and NaN, which y (Relu) may meet" in notes


def test_empty_tensors_that_arise_inside(proofs: dict[str, Proof]) -> None:
    """How many elements are not 0 is only known in the run."""
    proofs.update(Where=RIGHT, Shape=RIGHT, Sum=Proof(except_for=frozenset({EMPTY})))
    where = Node("where", "Where", ("x",), {"T": FLOAT})
    wide = dtype_named("int64")
    total = Node("y", "Sum", ("where", "axes"), {"T": wide, "Tidx": INT})
    _, values, _ = run(model([placeholder("x"), where, const("axes", [0, 1], INT), total]), "y", x=[0.0, 3.0])
    assert np.array(values).item() == 1


def test_integers_that_grow_wide_inside(proofs: dict[str, Proof]) -> None:
    wide = dtype_named("int64")
    proofs.update(Mul=Proof(except_for=frozenset({WIDE})), FloorDiv=Proof(except_for=frozenset({WIDE})))
    square = binary("square", "Mul", "x", "x", wide)
    made = model(
        [placeholder("x", wide), square, const("by", 1 << 20, wide), binary("y", "FloorDiv", "square", "by", wide)]
    )
    assert run(made, "y", x=[1, 2])[1] == [7.0, 7.0]
    assert run(made, "y", x=[1 << 20, 1 << 25])[1] == [1 << 20, 1 << 30]


def gather() -> Model:
    attrs = {"Tparams": FLOAT, "Tindices": INT, "Taxis": INT}
    nodes = [placeholder("ids", INT), const("rows", [1.0, 2.0, 3.0]), const("axis", 0, INT)]
    return model([*nodes, Node("y", "GatherV2", ("rows", "ids", "axis"), attrs)])


def test_ids_out_of_range_are_refused(proofs: dict[str, Proof]) -> None:
    proofs["GatherV2"] = Proof(except_for=frozenset({BAD}))
    assert run(gather(), "y", ids=[0, 2])[:2] == ("openvino", [7.0, 7.0])
    for ids, wrong in (([0, 3], 3), ([-1, 0], -1)):
        with pytest.raises(EngineError, match=rf"node 'y': GatherV2 failed: index {wrong} is not in \[0, 3\)"):
            run(gather(), "y", ids=ids)


def test_ids_that_cannot_be_checked_run_on_reference(proofs: dict[str, Proof]) -> None:
    """Whether ids that are made of floats are in range, is only known when all is computed."""
    attrs = {"Tparams": FLOAT, "Tindices": INT, "Taxis": INT}
    cast = Node("ids", "Cast", ("x",), {"SrcT": FLOAT, "DstT": INT})
    nodes = [placeholder("x"), cast, const("rows", [1.0, 2.0, 3.0]), const("axis", 0, INT)]
    made = model([*nodes, Node("y", "GatherV2", ("rows", "ids", "axis"), attrs)])
    proofs.update(Cast=RIGHT, GatherV2=Proof(except_for=frozenset({BAD})))
    assert run(made, "y", x=[2.0, 0.0])[1] == [3.0, 1.0]


def test_shapes_that_do_not_fit_are_refused(proofs: dict[str, Proof]) -> None:
    proofs["MatMul"] = Proof(except_for=frozenset({BAD}))
    x = Node("x", "Placeholder", (), {"dtype": FLOAT, "shape": Shape(None)})
    made = model([x, const("w", np.ones((3, 2))), Node("y", "MatMul", ("x", "w"), {"T": FLOAT})])
    assert run(made, "y", x=np.ones((1, 3), np.float32))[1] == [7.0, 7.0]
    with pytest.raises(EngineError, match="node 'y'"):
        run(made, "y", x=np.ones((1, 4), np.float32))


def test_assertions_are_checked(proofs: dict[str, Proof]) -> None:
    """OpenVINO leaves them out."""
    proofs["AddV2"] = RIGHT
    hold = Node("hold", "Assert", ("p", "x"), {"T": (FLOAT,)})
    y = Node("y", "AddV2", ("x", "x", "^hold"), {"T": FLOAT})
    made = model([placeholder("x"), placeholder("p", dtype_named("bool")), hold, y])
    assert run(made, "y", x=[1.0, 2.0], p=True)[1] == [7.0, 7.0]
    with pytest.raises(EngineError, match="node 'hold': Assert failed: the assertion does not hold"):
        run(made, "y", x=[1.0, 2.0], p=False)


def test_integers_that_are_wide(proofs: dict[str, Proof]) -> None:
    proofs["AddV2"] = Proof(except_for=frozenset({WIDE}))
    wide = dtype_named("int64")
    made = model([placeholder("x", wide), binary("y", "AddV2", "x", "x", wide)])
    assert run(made, "y", x=[1, 2])[1] == [7.0, 7.0]
    assert run(made, "y", x=[1, 2**40])[1] == [2, 2**41]


def test_strings_are_not_given_to_openvino(proofs: dict[str, Proof]) -> None:
    """It would cut zeros at their end."""
    proofs["Reshape"] = RIGHT
    string = dtype_named("string")
    shape = const("shape", [2], INT)
    made = model([placeholder("x", string), shape, Node("y", "Reshape", ("x", "shape"), {"T": string, "Tshape": INT})])
    found = tfsmith.run(made, {"x": np.array([b"a\0", b"b"], object)}, ["y"])
    assert (found.engine, found["y"].tolist()) == ("reference", [b"a\0", b"b"])


def range_model() -> Model:
    nodes = [placeholder("step", INT), const("first", 0, INT), const("last", 4, INT)]
    return model([*nodes, Node("y", "Range", ("first", "last", "step"), {"Tidx": INT})])


def test_what_would_kill_the_process_is_computed_before(proofs: dict[str, Proof]) -> None:
    proofs["Range"] = Proof(except_for=frozenset({BAD}), dies_of=frozenset({BAD}))
    assert run(range_model(), "y", step=2)[:2] == ("openvino", [7.0, 7.0])
    with pytest.raises(EngineError, match="node 'y' in the graph: Range failed"):
        run(range_model(), "y", step=0)


def test_native_code_that_may_die_is_isolated(proofs: dict[str, Proof], monkeypatch: pytest.MonkeyPatch) -> None:
    """A death is an error that names the engine and the node; what is known to be deadly is not even tried."""
    start = """
import json, os, sys
sys.path[:] = json.loads(sys.argv[1])
from tfsmith.engines.frames import read_frame, write_frame
read_frame(sys.stdin.buffer)
write_frame(sys.stdout.buffer, {"version": "0"})
read_frame(sys.stdin.buffer)
os.kill(os.getpid(), 8)
"""
    monkeypatch.setattr(isolated, "_START", start)
    with pytest.raises(EngineError) as caught:
        tfsmith.run(range_model(), {"step": 0}, ["y"], engine="openvino")
    assert "OpenVINO's process was ended by SIGFPE by node y (Range)" in str(caught.value)
    proofs["Range"] = Proof(except_for=frozenset({BAD}), dies_of=frozenset({BAD}))
    assert tfsmith.run(range_model(), {"step": 2}, ["y"], engine="openvino")["y"].tolist() == [7.0, 7.0]
    with pytest.raises(EngineError, match="node 'y' in the graph: Range failed"):
        tfsmith.run(range_model(), {"step": 0}, ["y"], engine="openvino")


def test_a_death_names_the_one_node_of_many(proofs: dict[str, Proof], monkeypatch: pytest.MonkeyPatch) -> None:
    """None of three nodes is proven; which one kills the process is found out in other processes."""
    start = """
import json, os, pickle, sys
sys.path[:] = json.loads(sys.argv[1])
from tfsmith.engines import isolated
load = isolated._load
def deadly(say, arrays):
    program = pickle.loads(arrays["program"].tobytes())
    if any(node.op == "Cos" for node in program.flat(frozenset(program.inputs)).graph):
        os.kill(os.getpid(), 8)
    return load({**say, "engine": "reference"}, arrays)
isolated._load = deadly
isolated.main()
"""
    monkeypatch.setattr(isolated, "_START", start)
    nodes = [placeholder("x")]
    for name, op in zip("abcdef", ("Sin", "Tan", "Exp", "Cos", "Sinh", "Cosh"), strict=True):
        nodes.append(Node(name, op, (nodes[-1].name,), {"T": FLOAT}))
    with pytest.raises(EngineError, match=r"OpenVINO's process was ended by SIGFPE by node d \(Cos\)"):
        tfsmith.run(model(nodes), {"x": [1.0]}, ["f"], engine="openvino")


def test_what_the_process_refuses() -> None:
    """Errors come back as they were raised there."""
    requests, answers = io.BytesIO(), io.BytesIO()
    code = Node("y", "PyFunc", ("x",), {"Tin": (FLOAT,), "Tout": (FLOAT,)})
    data = np.frombuffer(pickle.dumps(make_program(model([placeholder("x"), code]), ["y"])), np.uint8)
    write_frame(requests, {"do": "run"})
    write_frame(requests, {"do": "load", "engine": "reference", "settings": {}}, {"program": data})
    data = np.frombuffer(pickle.dumps(make_program(SUM, ["y"])), np.uint8)
    write_frame(requests, {"do": "load", "engine": "reference", "settings": {}}, {"program": data})
    write_frame(requests, {"do": "run"}, {"x": np.ones(2, np.float32)})
    requests.seek(0)
    isolated.serve(requests, answers)
    answers.seek(0)
    assert read_frame(answers)[0] == {"error": "no model is loaded"}
    (lack,) = read_frame(answers)[0]["refused"]["lacks"]
    assert (lack["op"], lack["nodes"]) == ("PyFunc", ["y"])
    assert read_frame(answers)[0]["notes"] == []
    assert read_frame(answers)[1]["y"].tolist() == [2.0, 2.0]


def test_cross_check(proofs: dict[str, Proof], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """OpenVINO gives sevens, and so does the reference engine for one of the inputs."""
    proofs["AddV2"] = RIGHT
    same = tfsmith.run(SUM, {"x": [3.5, 3.5]}, ["y"], cross_check=True)
    assert same
    assert same.crossed is not None
    assert (same.crossed.engine, same.crossed.outputs["y"].max_abs) == ("reference", 0)
    other = tfsmith.run(SUM, {"x": [3.5, 1.0]}, ["y"], cross_check=True)
    assert not other
    assert other.crossed is not None
    assert other.crossed.outputs["y"].max_abs == 5
    assert other.to_json()["cross_check"]["same"] is False
    assert str(other).endswith("The engines openvino and reference differ.\n")
    graph = tmp_path / "graph.pb"
    tfsmith.save(SUM, graph)
    assert main(["run", str(graph), "-i", "x=[3.5, 1.0]", "--outputs", "y", "--cross-check"]) == 1
    assert "The engines openvino and reference differ." in capsys.readouterr().out
    assert main(["run", str(graph), "-i", "x=[3.5, 3.5]", "--outputs", "y", "--cross-check"]) == 0


def test_cross_check_of_chunks(monkeypatch: pytest.MonkeyPatch, proofs: dict[str, Proof]) -> None:
    """The other engine gets the same chunks."""
    made = model(
        [Node("x", "Placeholder", (), {"dtype": FLOAT, "shape": Shape((-1,))}), binary("y", "AddV2", "x", "x")]
    )
    x = np.arange(10, dtype=np.float32)
    sizes: list[int] = []

    class Doubles(Sevens):
        def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
            sizes.append(len(feeds["x"]))
            return dict.fromkeys(self._keys, 2 * feeds["x"])

    proofs["AddV2"] = RIGHT
    monkeypatch.setattr(OpenVino, "compile", lambda self, program, options: Doubles(program, options))
    monkeypatch.setattr(TensorFlow, "available", lambda self: "none")
    found = tfsmith.run(made, {"x": x}, ["y"], engine="reference", chunk=4, cross_check=True)
    assert found
    np.testing.assert_array_equal(found["y"], 2 * x)
    assert sizes == [4, 4, 2]


def test_cross_check_needs_a_second_engine(proofs: dict[str, Proof], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenVino, "available", lambda self: "none")
    monkeypatch.setattr(TensorFlow, "available", lambda self: "none")
    with pytest.raises(EngineError, match="no engine besides reference can run it to compare; install another"):
        tfsmith.run(SUM, {"x": [1.0]}, ["y"], cross_check=True)


class Wavers(Sevens):
    """In OpenVINO's place: gives something else each time that it is compiled."""

    count = 0

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        Wavers.count += 1
        return {key: values * Wavers.count for key, values in super().run(feeds).items()}


def test_verify_asks_a_second_engine(proofs: dict[str, Proof], monkeypatch: pytest.MonkeyPatch) -> None:
    """What OpenVINO computes of one and the same model differs; the reference engine finds it the same."""
    monkeypatch.setattr(OpenVino, "compile", lambda self, program, options: Wavers(program, options))
    proofs["AddV2"] = proofs["Mul"] = RIGHT
    feeds = {"x": [1.0, 5.0]}
    found = tfsmith.verify(SUM, SUM, ["y"], inputs=feeds)
    assert found
    (note,) = [note for note in found.notes if "computes" in note]
    assert note == "openvino computes them differently, but reference the same: the difference is that engine's"
    other = model([placeholder("x"), binary("y", "Mul", "x", "x")])
    found = tfsmith.verify(SUM, other, ["y"], inputs=feeds)
    assert not found
    assert found.arbiter == "reference"
    assert found.remarks[0].endswith("; reference finds a difference, too")
    assert not tfsmith.verify(SUM, SUM, ["y"], inputs=feeds, engine="openvino")
