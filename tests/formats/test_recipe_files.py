"""Pattern and recipe files: read, written, and told from others."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.helpers import UNKNOWN, const_node, field, graph_def, node_def, write_files

import tfsmith
from tfsmith.errors import CorruptFileError, OutputError, TfsmithError, UnreadableFileError, UsageError, WrongFileError
from tfsmith.formats.recipe.protobuf import read_node, read_pattern, read_recipe, write_pattern, write_recipe
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Pattern

SEED = node_def("y", "AddV2", ["a", "b:1"], {"T": b"\x30\x01"}, device="/cpu:0", extra=UNKNOWN)
INNER = node_def("a", "Relu", ["x", "^c"])
PATTERN = field(1, SEED) + field(2, INNER) + field(3, b"b") + field(3, b"x")
TARGET = node_def("fused", "Mine", ["x", "b:1"], {"N": b"\x18\x02"})
RECIPE = field(1, PATTERN) + field(2, TARGET)
TEXT = """\
seed_nodes {
  name: "y"
  op: "AddV2"
  input: "a"
  input: "b:1"
  device: "/cpu:0"
  attr {
    key: "T"
    value {
      type: DT_FLOAT
    }
  }
}
internal_nodes {
  name: "a"
  op: "Relu"
  input: "x"
  input: "^c"
}
inputs: "b"
inputs: "x"
"""
NODE_TEXT = 'name: "fused"\nop: "Mine"\ninput: "x"\ninput: "b:1"\nattr {\n  key: "N"\n  value {\n    i: 2\n  }\n}\n'


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def shape(pattern: Pattern) -> tuple[list[tuple[str, str, tuple[str, ...]]], int, tuple[str, ...]]:
    nodes = [(node.name, node.op, node.inputs) for node in pattern.nodes]
    return nodes, len(pattern.seed_nodes), pattern.inputs


WANTED = ([("y", "AddV2", ("a", "b:1")), ("a", "Relu", ("x", "^c"))], 1, ("b", "x"))


@pytest.mark.parametrize("data", [PATTERN, TEXT.encode(), b"# a comment\n\n" + TEXT.encode()])
def test_patterns_are_read_whatever_their_name(tmp_path: Path, data: bytes) -> None:
    found = read_pattern(write_files(tmp_path, {"p": data}) / "p")
    assert shape(found) == WANTED
    assert found.seed_nodes[0].device == "/cpu:0"
    assert str(found.seed_nodes[0].attrs["T"].value) == "float32"


def test_patterns_are_written_as_they_were(tmp_path: Path) -> None:
    pattern = read_pattern(write_files(tmp_path, {"p.pb": PATTERN}) / "p.pb")
    write_pattern(tmp_path / "copy.pb", pattern)
    assert (tmp_path / "copy.pb").read_bytes() == PATTERN  # what no schema knows included
    write_pattern(tmp_path / "copy.pbtxt", pattern)
    assert (tmp_path / "copy.pbtxt").read_text() == TEXT
    assert shape(read_pattern(tmp_path / "copy.pbtxt")) == WANTED


@pytest.mark.parametrize("text", [False, True])
def test_recipes_are_read_and_written(tmp_path: Path, text: bool) -> None:
    words = f"source_pattern {{\n{indented(TEXT)}}}\ntarget_node {{\n{indented(NODE_TEXT)}}}\n"
    data, name = (words.encode(), "copy.pbtxt") if text else (RECIPE, "copy.pb")
    pattern, target = read_recipe(write_files(tmp_path, {"r": data}) / "r")
    assert shape(pattern) == WANTED
    assert (target.name, target.op, target.inputs, target.get("N")) == ("fused", "Mine", ("x", "b:1"), 2)
    write_recipe(tmp_path / name, pattern, target)
    assert (tmp_path / name).read_bytes() == data


@pytest.mark.parametrize("data", [TARGET, NODE_TEXT.encode()])
def test_nodes_are_read(tmp_path: Path, data: bytes) -> None:
    target = read_node(write_files(tmp_path, {"n": data}) / "n")
    assert (target.name, target.op, target.inputs, target.get("N")) == ("fused", "Mine", ("x", "b:1"), 2)


def test_parts_of_a_message_add_up(tmp_path: Path) -> None:
    data = field(1, field(1, SEED)) + field(2, node_def("fused", "Mine")) + field(1, field(2, INNER) + field(3, b"x"))
    pattern, target = read_recipe(write_files(tmp_path, {"r": data + field(2, field(3, b"x"))}) / "r")
    assert shape(pattern) == (WANTED[0], 1, ("x",))
    assert target.inputs == ("x",)


def test_a_pattern_that_was_made_in_memory(tmp_path: Path) -> None:
    pattern = Pattern((Node("y", "Relu", ("x",), {"T": "a"}),), (), ("x",))
    write_pattern(tmp_path / "p.pb", pattern)
    assert shape(read_pattern(tmp_path / "p.pb")) == ([("y", "Relu", ("x",))], 1, ("x",))


GRAPH = graph_def([node_def("x", "Placeholder"), node_def("y", "Relu", ["x"])])
TOML = b'[recipe]\nname = "a"\n'
OTHERS = {
    "pattern": (PATTERN, "this is a pattern"),
    "pattern.pbtxt": (TEXT.encode(), "this is a pattern"),
    "recipe": (RECIPE, "this is a recipe"),
    "node": (TARGET, "this is a single node (NodeDef)"),
    "node.pbtxt": (NODE_TEXT.encode(), "this is a single node (NodeDef)"),
    "toml": (TOML, "this is the readable form of a recipe (TOML)"),
    "graph": (GRAPH, "this is a graph (GraphDef)"),
    "nodes alone": (field(1, SEED) + field(1, INNER), "this is a graph (GraphDef)"),
    "graph.pbtxt": (b'node {\n  name: "x"\n  op: "NoOp"\n}\n', "this is a graph (GraphDef)"),
    "meta": (field(1, b"\x22\x05serve") + field(2, GRAPH), "this is a graph (MetaGraphDef)"),
    "saved_model": (b"\x08\x01" + field(2, field(1, b"\x22\x05serve") + field(2, GRAPH)), "the graph of a SavedModel"),
    "empty": (b"", "the file is empty"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
    "noise": (b"\xff\xfe\xfd\xfc", "nor any file that we know"),
    "words": (b"just some words", "nor any file that we know"),
}
REMEDIES = {
    "pattern": "pass what `tfsmith.extract(model)` wrote",
    "recipe": "pass what `tfsmith.make_recipe()` wrote, a recipe in TOML, or a name of `tfsmith.list_recipes()`",
    "node": "pass the new node alone",
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("wanted", ["pattern", "recipe", "node"])
def test_other_files_are_told_apart(tmp_path: Path, name: str, wanted: str) -> None:
    data, says = OTHERS[name]
    path = write_files(tmp_path, {"file": data}) / "file"
    read = {"pattern": read_pattern, "recipe": read_recipe, "node": read_node}[wanted]
    if name.partition(".")[0] == wanted:
        read(path)
        return
    with pytest.raises(WrongFileError) as caught:
        read(path)
    assert says in caught.value.what
    if "wanted" in caught.value.what:
        makes = (wanted, name.partition(".")[0]) == ("recipe", "pattern")
        assert ("`tfsmith.make_recipe('PATTERN', 'NODE', 'RECIPE')`" if makes else REMEDIES[wanted]) in str(
            caught.value
        )


def test_folders_and_missing_files(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone"):
        for read in (read_pattern, read_recipe, read_node):
            with pytest.raises(UnreadableFileError):
                read(path)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (field(1, PATTERN), "the recipe has no node to put in"),
        (field(2, TARGET), "and a recipe is wanted"),
        (RECIPE[:-3], "the file is cut off"),
        (field(1, field(1, node_def("y", "Relu", extra=b"\x1a\xff"))) + field(2, TARGET), "a node cannot"),
        (field(1, SEED) + field(3, b"\xff\xfe") + field(2, INNER), "a name is not text"),
        (
            field(1, SEED) + field(2, node_def("a", "Relu", extra=field(3, b"\xff"))) + field(3, b"x"),
            "a node cannot be",
        ),
    ],
)
def test_damage(tmp_path: Path, data: bytes, says: str) -> None:
    path = write_files(tmp_path, {"file": data}) / "file"
    with pytest.raises(TfsmithError, match=says) as caught:
        (read_pattern if data.startswith(field(1, SEED)) else read_recipe)(path)
    assert caught.value.remedy


def test_a_recipe_without_a_node(tmp_path: Path) -> None:
    path = write_files(tmp_path, {"r.pbtxt": b"source_pattern { inputs: 'x' }"}) / "r.pbtxt"
    with pytest.raises(CorruptFileError, match="the recipe has no node to put in"):
        read_recipe(path)


def test_broken_text_says_its_line(tmp_path: Path) -> None:
    path = write_files(tmp_path, {"p.pbtxt": b'seed_nodes {\n  nam: "x"\n}\n'}) / "p.pbtxt"
    with pytest.raises(CorruptFileError, match="2"):
        read_pattern(path)


def test_large_constants_stay_in_the_file(tmp_path: Path) -> None:
    big = const_node("w", [1.0] * 50_000)
    path = write_files(tmp_path, {"p.pb": field(1, SEED) + field(2, big) + field(3, b"x")}) / "p.pb"
    pattern = read_pattern(path)
    assert pattern.internal_nodes[0].get("value").shape.dims == (50_000,)
    write_pattern(tmp_path / "q.pb", pattern)
    assert (tmp_path / "q.pb").read_bytes() == path.read_bytes()


def test_an_input_is_never_replaced(tmp_path: Path) -> None:
    write_files(tmp_path, {"p.pb": PATTERN, "n.pb": TARGET, "g.pb": GRAPH})
    recipe = tfsmith.make_recipe(tmp_path / "p.pb", tmp_path / "n.pb")
    for name in ("p.pb", "n.pb"):
        with pytest.raises(OutputError, match="the output is also the input"):
            tfsmith.save_recipe(recipe, tmp_path / name)
    model = tfsmith.load(tmp_path / "g.pb")
    with pytest.raises(OutputError, match="the output is also the input"):
        tfsmith.save_pattern(tfsmith.extract(model, ["y"], ["x"]), tmp_path / "g.pb")
    assert (tmp_path / "g.pb").read_bytes() == GRAPH
    (tmp_path / "old.pb").write_bytes(b"old")
    tfsmith.save_pattern(tfsmith.extract(model, ["y"], ["x"]), tmp_path / "old.pb", force=True)
    assert shape(read_pattern(tmp_path / "old.pb")) == ([("y", "Relu", ("x",))], 1, ("x",))


def test_load_recipe_takes_any_form(tmp_path: Path) -> None:
    write_files(tmp_path, {"r.pb": RECIPE})
    recipe = tfsmith.load_recipe(tmp_path / "r.pb")
    assert recipe.name == "r"
    tfsmith.save_recipe(recipe, tmp_path / "r.toml")
    again = tfsmith.load_recipe(tmp_path / "r.toml")
    assert again.variants[0] == recipe.variants[0]
    (tmp_path / "hidden").write_bytes((tmp_path / "r.toml").read_bytes())
    assert tfsmith.load_recipe(tmp_path / "hidden").variants == again.variants
    with pytest.raises(UsageError, match="only a recipe that was made of a pattern and a node"):
        tfsmith.save_recipe(again, tmp_path / "again.pb")
    with pytest.raises(UsageError, match="there is no recipe 'gelluu'"):
        tfsmith.load_recipe("gelluu")
    with pytest.raises(UnreadableFileError):
        tfsmith.load_recipe(str(tmp_path / "gone.pb"))
    with pytest.raises(WrongFileError, match=r"make_recipe\('PATTERN', 'NODE', 'RECIPE'\)"):
        tfsmith.load_recipe(write_files(tmp_path, {"p": PATTERN}) / "p")
