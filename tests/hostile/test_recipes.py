"""Damaged and hostile patterns, recipes and nodes: whatever is in them, the answer is an exit code and one line."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.attack import CONTROL, Answer, cli
from tests.support.helpers import attr_value, const_node, field, graph_def, node_def, write_files
from tests.support.mutate import byte_mutations, mutate

from tfsmith.formats.recipe.toml import recipe_toml
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Pattern
from tfsmith.patterns.extract import recipe_from_pattern
from tfsmith.wire import new, parse

T = {"T": attr_value(type=1)}
NODES = [
    node_def("x", "Placeholder", attrs={"dtype": attr_value(type=1)}),
    const_node("c", [1.0, 2.0]),
    node_def("a", "Relu", ["x"], T),
    node_def("s", "Split", ["c", "a", "^x"], {**T, "num_split": attr_value(i=2)}),
    node_def("y", "AddV2", ["s:1", "s"], T),
    node_def("out", "Neg", ["y"], T),
]
PATTERN = field(1, NODES[4]) + field(2, NODES[3]) + field(2, NODES[2]) + field(2, NODES[1]) + field(3, b"x")
RECIPE = field(1, PATTERN) + field(2, node_def("fused", "Mine", ["x", "s:1"], {"N": attr_value(i=2)}))


def sound(*words: str | Path) -> Answer:
    """As `attack.sound`, for commands whose answer may also be no."""
    answer = cli(*words)
    assert answer.code in (0, 1, 2), answer
    errors = [line for line in answer.err.splitlines() if not line.startswith("warning: ")]
    assert len(errors) == (answer.code == 2), answer.err
    assert all(line.startswith("error: ") and "; " in line for line in errors), answer.err
    assert not CONTROL.search(answer.err + answer.out)
    return answer


def attack(folder: Path, recipe: Path) -> list[Answer]:
    """Uses a recipe in every way."""
    model, out = folder / "m.pb", folder / "o.pb"
    out.unlink(missing_ok=True)
    answers = [sound("recipe", "check", recipe, model), sound("recipe", "check", recipe, model, "--attrs", "none")]
    answers.append(sound("replace", model, "-r", recipe, "-o", out, "--keep-shared", "--explain"))
    assert out.exists() == (answers[-1].code == 0)
    if out.exists():
        assert sound("show", out, "--all").code in (0, 2)
    return answers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path, {"m.pb": graph_def(NODES)})


def test_the_sound_one_is_used(folder: Path) -> None:
    assert [answer.code for answer in attack(folder, write_files(folder, {"r.pb": RECIPE}) / "r.pb")] == [0, 0, 0]


@pytest.mark.parametrize("seed", range(3))
def test_damaged_bytes(folder: Path, seed: int) -> None:
    for data in byte_mutations(RECIPE, Random(seed), 40):
        attack(folder, write_files(folder, {"r.pb": data}) / "r.pb")


@pytest.mark.parametrize("seed", range(3))
def test_other_messages(folder: Path, seed: int) -> None:
    random = Random(100 + seed)
    for _ in range(40):
        message = parse("Recipe", RECIPE)
        for _ in range(random.randrange(1, 4)):
            mutate(message, random, ["x", "c", "a", "s", "y", "out"])
        attack(folder, write_files(folder, {"r.pb": message.SerializeToString()}) / "r.pb")


@pytest.mark.parametrize("seed", range(2))
def test_damaged_toml(folder: Path, seed: int) -> None:
    pattern = Pattern((Node("y", "AddV2", ("a", "x")),), (Node("a", "Relu", ("x",), {"T": "t"}),), ("x",))
    text = recipe_toml(recipe_from_pattern(pattern, Node("fused", "Mine", ("x",), {"n": [1, 2], "s": "=a"})))
    for data in byte_mutations(text.encode(), Random(seed), 60):
        attack(folder, write_files(folder, {"r.toml": data}) / "r.toml")


@pytest.mark.parametrize("seed", range(2))
def test_damaged_patterns_and_nodes(folder: Path, seed: int) -> None:
    random = Random(seed)
    write_files(folder, {"p.pb": PATTERN, "n.pb": node_def("f", "Mine", ["x"])})
    for data in byte_mutations(PATTERN, random, 40):
        write_files(folder, {"q.pb": data})
        for form in ("r.pb", "r.pbtxt", "r.toml"):
            sound("recipe", "make", folder / "q.pb", folder / "n.pb", folder / form)
    for data in byte_mutations(node_def("f", "Mine", ["x"], T), random, 40):
        write_files(folder, {"q.pb": data})
        sound("recipe", "make", folder / "p.pb", folder / "q.pb", folder / "r.pb")


@pytest.mark.parametrize("seed", range(2))
def test_extraction_from_hostile_graphs(folder: Path, seed: int) -> None:
    random = Random(seed)
    for _ in range(40):
        message = parse("GraphDef", graph_def(NODES))
        mutate(message, random, ["x", "a", "y"])
        write_files(folder, {"m.pb": message.SerializeToString()})
        sound("extract", folder / "m.pb", "-o", folder / "p.pb", "-s", "y", "-b", "x", "--constants")
        sound("extract", folder / "m.pb", "-o", folder / "p.pbtxt", "-s", "out", "-B", "Placeholder", "Const")
        sound("configure", folder / "m.pb", "--node", "*", "--set", "_x=1", "-o", folder / "c.pb", "--force")


def test_a_graph_that_leads_back_to_itself(folder: Path) -> None:
    nodes = [node_def("a", "Relu", ["b"], T), node_def("b", "Relu", ["a"], T)]
    write_files(folder, {"m.pb": graph_def(nodes)})
    assert sound("extract", folder / "m.pb", "-o", folder / "p.pb", "-s", "b").code == 0
    write_files(folder, {"n.pb": node_def("f", "Mine")})
    assert sound("recipe", "make", folder / "p.pb", folder / "n.pb", folder / "r.pb").code == 0
    assert sound("recipe", "check", folder / "r.pb", folder / "m.pb").code == 2


def test_a_long_chain(folder: Path) -> None:
    count = 5_000
    chain = [node_def(f"n{number}", "Relu", [f"n{number - 1}" if number else "x"], T) for number in range(count)]
    write_files(folder, {"m.pb": graph_def([NODES[0], *chain]), "n.pb": node_def("f", "Mine", ["x"])})
    assert sound("extract", folder / "m.pb", "-o", folder / "p.pb", "-s", f"n{count - 1}", "-b", "x").code == 0
    assert sound("recipe", "make", folder / "p.pb", folder / "n.pb", folder / "r.toml").code == 0
    assert sound("recipe", "check", folder / "r.toml", folder / "m.pb").code == 0
    assert "n0 <- x" in sound("extract", folder / "m.pb", "-o", folder / "p.pb", "-s", f"n{count - 1}").err


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\nerror: b", "a\u202eb", "y" * 5000])
def test_names_cannot_command_a_terminal(folder: Path, name: str) -> None:
    message: Any = new("GraphDef")
    message.ParseFromString(graph_def(NODES))
    for node in message.node:
        node.name = node.name.replace("a", name)
        for number, text in enumerate(node.input):
            node.input[number] = text.replace("a", name)
    write_files(folder, {"m.pb": message.SerializeToString(), "n.pb": node_def("f", "Mine", [name])})
    assert sound("extract", folder / "m.pb", "-o", folder / "p.pb", "-s", "y", "-b", name, "-B", "Const").code == 0
    assert sound("recipe", "make", folder / "p.pb", folder / "n.pb", folder / "r.toml").code == 0
    sound("recipe", "check", folder / "r.toml", folder / "m.pb")
    sound("configure", folder / "m.pb", "--node", "*", "--set", f"_{name}={name}")
    sound("extract", folder / "m.pb", "-o", folder / "p.pb", "-s", f"{name}x")
