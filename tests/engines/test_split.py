"""A program in segments: OpenVINO for what it is proven for, the reference engine for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.engines.test_reference import FLOAT, INT, binary, const, model, placeholder

import tfsmith
from tfsmith.engines import choose, guard, split
from tfsmith.engines.conformance import EMPTY, Proof
from tfsmith.engines.openvino import OpenVino
from tfsmith.engines.program import make_program
from tfsmith.engines.protocol import Options, Program
from tfsmith.engines.split import SPLIT, split_graph
from tfsmith.errors import EngineError
from tfsmith.ir.model import Model
from tfsmith.ir.node import Attr, Node
from tfsmith.ir.types import Shape, dtype_named

STRING = dtype_named("string")
SIZE = 1024


def matmul(name: str, one: str, other: str) -> Node:
    return Node(name, "MatMul", (one, other), {"T": FLOAT})


def relu(name: str, source: str) -> Node:
    return Node(name, "Relu", (source,), {"T": FLOAT})


def text_model(*more: Node, controls: tuple[str, ...] = ()) -> Model:
    """Numbers as text in, a product with a large weight, numbers as text out."""
    weight = np.zeros((SIZE, SIZE), np.float32)
    weight[:3, :3] = [[1, 2, 0], [0, -1, 1], [0, 0, 3]]
    texts = Node("texts", "Placeholder", (), {"dtype": STRING, "shape": Shape((-1, SIZE))})
    nodes = [
        texts,
        Node("numbers", "StringToNumber", ("texts",), {"out_type": FLOAT}),
        *more,
        const("weight", weight),
        Node("product", "MatMul", ("numbers", "weight", *controls), {"T": FLOAT}),
        relu("relu", "product"),
        Node("out", "AsString", ("relu",), {"T": FLOAT, "precision": Attr("int", 2)}),
    ]
    return model(nodes)


def texts(*rows: list[bytes]) -> Any:
    made = np.full((len(rows), SIZE), b"0", object)
    for number, row in enumerate(rows):
        made[number, : len(row)] = row
    return made


class Counted:
    """In OpenVINO's place: the reference engine, which counts the nodes and runs that it gets."""

    version = "1"
    notes = ()
    nodes: ClassVar[list[set[str]]] = []
    runs = 0

    def __init__(self, program: Program, options: Options) -> None:
        from tfsmith.engines.reference import Reference

        flat = program.flat(frozenset(program.inputs))
        Counted.nodes.append({node.op for node in flat.graph} - {"Const", "Placeholder"})
        self._real = Reference().compile(program, options)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        Counted.runs += 1
        return self._real.run(feeds)

    def close(self) -> None:
        self._real.close()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    """OpenVINO is proven for a few ops."""
    proofs = {"MatMul": Proof(), "Relu": Proof(except_for=frozenset({EMPTY})), "AddV2": Proof(), "Mul": Proof()}

    def proven(engine: str, version: str, op: str, attrs: Mapping[str, Attr]) -> Proof:
        return proofs.get(op, Proof(f"{op} was not checked"))

    monkeypatch.setattr(guard, "proven", proven)
    monkeypatch.setattr(choose, "installed_openvino", lambda: "1")
    monkeypatch.setattr(split, "installed_openvino", lambda: "1")
    monkeypatch.setattr(OpenVino, "available", lambda self: None)
    monkeypatch.setattr(OpenVino, "compile", lambda self, program, options: Counted(program, options))
    Counted.nodes, Counted.runs = [], 0
    return Counted


def test_a_product_between_texts(counted: type[Counted]) -> None:
    found = tfsmith.run(text_model(), {"texts": texts([b"1", b"2", b"3"], [b"-1"])}, ["out", "relu"])
    assert found.engine == SPLIT
    assert counted.nodes == [{"MatMul", "Relu"}]
    assert counted.runs == 1
    assert found["out"][:, :3].tolist() == [[b"1.00", b"0.00", b"11.00"], [b"0.00", b"0.00", b"0.00"]]
    assert found["relu"][0, :3].tolist() == [1, 0, 11]
    (note,) = [note for note in found.notes if "segments" in note]
    assert note.startswith(
        "2 nodes run on openvino and 2 on reference, in 3 segments; openvino is not proven for String"
    )


def test_what_is_not_proven_for_an_input_runs_on_reference(counted: type[Counted]) -> None:
    """The guard of a segment sees what comes into the segment: here, nothing."""
    found = tfsmith.run(text_model(), {"texts": np.zeros((0, SIZE), object)}, ["relu"])
    assert found.engine == SPLIT
    assert counted.runs == 0
    assert found["relu"].shape == (0, SIZE)


def test_assertions_before_a_segment_hold(counted: type[Counted]) -> None:
    limit = const("limit", 10.0)
    less = Node("less", "Less", ("numbers", "limit"), {"T": FLOAT})
    every = Node("every", "All", ("less", "axes"), {"Tidx": INT})
    hold = Node("hold", "Assert", ("every", "numbers"), {"T": (FLOAT,)})
    made = text_model(limit, less, const("axes", [0, 1], INT), every, hold, controls=("^hold",))
    assert tfsmith.run(made, {"texts": texts([b"1"])}, ["relu"]).engine == SPLIT
    with pytest.raises(EngineError, match="node 'hold'"):
        tfsmith.run(made, {"texts": texts([b"11"])}, ["relu"])
    assert counted.runs == 1


def test_what_does_not_pay_is_not_split(counted: type[Counted]) -> None:
    nodes = [
        Node("texts", "Placeholder", (), {"dtype": STRING, "shape": Shape((1, 2))}),
        Node("numbers", "StringToNumber", ("texts",), {"out_type": FLOAT}),
        const("weight", np.ones((2, 2))),
        matmul("y", "numbers", "weight"),
    ]
    found = tfsmith.run(model(nodes), {"texts": np.array([[b"1", b"2"]], object)}, ["y"])
    assert (found.engine, found["y"].tolist()) == ("reference", [[3, 3]])


def test_few_segments() -> None:
    """A sum beside the product does not make a segment of its own, and neither does what leads to both."""
    nodes = [
        placeholder("x"),
        binary("a", "AddV2", "x", "x"),
        Node("b", "Log", ("a",), {"T": FLOAT}),
        const("w", np.ones((SIZE, SIZE))),
        matmul("c", "b", "w"),
        binary("d", "AddV2", "c", "a"),
        Node("e", "Log", ("d",), {"T": FLOAT}),
        binary("f", "Mul", "e", "a"),
    ]
    flat = make_program(model(nodes), ["f"]).flat(frozenset({"x"}))
    found = split_graph(flat, {"b", "e"})
    assert [(one.engine, one.nodes) for one in found] == [
        ("reference", ("a", "b")),
        ("openvino", ("c", "d")),
        ("reference", ("e", "f")),
    ]
    assert [[str(tensor) for tensor in one.inputs] for one in found] == [["x:0"], ["b:0", "a:0"], ["d:0", "a:0"]]
    assert [[str(tensor) for tensor in one.outputs] for one in found] == [["b:0", "a:0"], ["d:0"], ["f:0"]]


def test_loops_of_tensorflow_1_are_not_cut() -> None:
    enter = Node("enter", "Enter", ("x",), {"T": FLOAT, "frame_name": Attr("string", b"f")})
    leave = Node("leave", "Exit", ("enter",), {"T": FLOAT})
    nodes = [placeholder("x"), enter, leave, const("w", np.ones((SIZE, SIZE))), matmul("y", "leave", "w")]
    flat = make_program(model(nodes), ["y"]).flat(frozenset({"x"}))
    assert split_graph(flat, set()) == ()
