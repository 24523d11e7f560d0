"""Hostile models against `diff` and `check`: an answer or one of our errors, in time that grows with the file."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hostile.test_models import damaged
from tests.support import attack, planted
from tests.support.attack import call, cli, const, function, if_node, refused, tensor
from tests.support.helpers import attr_value, const_node, field, graph_def, node_def
from tests.support.mutate import confuse

import tfsmith
from tfsmith.errors import TfsmithError
from tfsmith.passes.check_target import target_names
from tfsmith.wire import parse

FLOAT = attr_value(type=1)
SOUND = planted.saved_model()


def write_graph(folder: Path, nodes: list[bytes], functions: list[bytes] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    return attack.write_graph(folder, nodes, functions or ())


def compare(data: bytes, other: bytes = SOUND) -> None:
    """Asks for every difference, in both directions, and for every obstacle."""
    models = []
    for one in (data, other):
        try:
            models.append(tfsmith.load(one))
        except TfsmithError:
            return
    for first, second in (models, models[::-1]):
        try:
            found = tfsmith.diff(first, second, inferred_shapes=True)
        except TfsmithError:
            continue
        json.dumps(found.facts(), allow_nan=False, default=str)
        assert str(found)
    for target in ("migraphx", "openvino", "onnx", "tflite", "tensorflow-1.15"):
        try:
            tfsmith.check(models[0], target)
        except TfsmithError:
            continue


@given(damaged())
@settings(max_examples=150, deadline=None)
def test_damaged_models(data: bytes) -> None:
    compare(data)


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_confused_graphs(seed: int) -> None:
    graph = parse("GraphDef", planted.graph())
    confuse(graph, Random(seed))
    compare(bytes(graph.SerializeToString()), planted.graph())


def test_many_alike_nodes(tmp_path: Path) -> None:
    """Nodes that are all alike could be paired in the square of their number of ways."""
    paths = []
    for scope in ("a", "b"):
        nodes = [node_def(f"{scope}/{number}/n", "NoOp") for number in range(20_000)]
        paths.append(write_graph(tmp_path / scope, nodes))
    answer = cli("diff", *paths)
    assert answer.code == 1
    assert "20,000 renamed" in answer.out


def test_cycles(tmp_path: Path) -> None:
    paths = []
    for scope in ("a", "b"):
        ring = [node_def(f"{scope}{n}", "Relu", [f"{scope}{(n + 1) % 50}"], {"T": FLOAT}) for n in range(50)]
        paths.append(write_graph(tmp_path / scope, ring))
    assert "50 added, 50 removed" in cli("diff", *paths).out
    assert cli("check", paths[0], "--for", "migraphx").code == 0  # nothing of it leads anywhere


def test_dangling_inputs(tmp_path: Path) -> None:
    path = write_graph(tmp_path, [node_def("y", "Relu", ["nowhere"], {"T": FLOAT})])
    assert cli("diff", path, path).code == 0
    assert cli("check", path, "--for", "migraphx").code == 0
    refused("check", path, "--for", "migraphx", "--outputs", "y", says=["nowhere"])


def test_a_constant_that_claims_much(tmp_path: Path) -> None:
    huge = tensor([2**33], floats=[1.0])
    one = write_graph(tmp_path / "a", [const("w", huge)])
    other = write_graph(tmp_path / "b", [const("w", tensor([2**33], floats=[2.0]))])
    assert cli("diff", one, one).code == 0
    refused("diff", one, other, says=["claims"])
    assert cli("diff", one, other, "--no-weights").code == 0


def test_names_that_command_a_terminal(tmp_path: Path) -> None:
    one = write_graph(tmp_path / "a", [const_node("w", [1.0])])
    other = write_graph(tmp_path / "b", [const_node("w", [1.0]), node_def("\x1b[31mred", "Evil")])
    for arguments in (("diff", one, other), ("check", other, "--for", "migraphx")):
        answer = cli(*arguments)
        assert answer.code == 1
        assert "\x1b" not in answer.out


def test_functions_that_never_end(tmp_path: Path) -> None:
    functions = [function(f"f{n}", [call("c", f"f{(n + 1) % 9}")], ret="c:output:0") for n in range(9)]
    nodes = [node_def("x", "Placeholder", attrs={"dtype": FLOAT}), call("y", "f0")]
    path = write_graph(tmp_path, nodes, functions)
    assert cli("diff", path, path).code == 0
    assert cli("check", path, "--for", "openvino").code == 0


def test_branches_of_branches(tmp_path: Path) -> None:
    """Each function calls the next one twice: a walk that forgets where it was takes 2 to the 40 steps."""
    functions = [function(f"f{n}", [if_node("a", f"f{n + 1}", ["x", "x"], [1])], ret="a:output:0") for n in range(40)]
    functions.append(function("f40", [node_def("r", "Relu", ["x"], {"T": FLOAT})], ret="r:activations:0"))
    nodes = [node_def("x", "Placeholder", attrs={"dtype": FLOAT}), call("y", "f0")]
    assert cli("check", write_graph(tmp_path, nodes, functions), "--for", "openvino").code in (0, 1)


@pytest.mark.parametrize("target", ["migraphx", "tensorflow-2.3"])
def test_a_version_that_cannot_be(target: str) -> None:
    versions = field(4, b"\x08\xff\xff\xff\xff\x07\x10\xff\xff\xff\xff\x07")
    model = tfsmith.load(field(1, node_def("x", "NoOp")) + versions)
    kinds = [one.kind for one in tfsmith.check(model, target).obstacles]
    assert kinds == (["version"] if target != "migraphx" else [])


def test_every_target_takes_an_empty_graph() -> None:
    model = tfsmith.load(graph_def([node_def("x", "NoOp")]))
    for name in target_names():
        assert tfsmith.check(model, name).is_clean


def test_switch_without_its_condition(tmp_path: Path) -> None:
    """Was a traceback of the lowering to ONNX, which `check` asks."""
    nodes = [node_def("x", "Placeholder", attrs={"dtype": FLOAT}), node_def("s", "Switch", ["x"], {"T": FLOAT})]
    path = write_graph(tmp_path, [*nodes, node_def("y", "Merge", ["s:1", "s"], {"T": FLOAT, "N": attr_value(i=2)})])
    refused("check", path, "--for", "onnx", says=["Switch takes 2 tensors, but it has 1", "'s'"])
