"""Extract, make, check, replace by the command line, and where the results go."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.support.helpers import attr_value, field, files_of, graph_def, node_def, payloads, write_files

import tfsmith
from tfsmith.cli.main import main
from tfsmith.compat.replace_pattern import main as replace_pattern
from tfsmith.errors import NotFoundInModelError, OutputError
from tfsmith.testing.models import BertConfig, bert_classifier
from tfsmith.testing.write import write_checkpoint_files, write_saved_model
from tfsmith.verbs._files import select_meta_graph

FLOAT = attr_value(type=1)
T = {"T": FLOAT}
TF2 = Path(__file__).parents[1] / "docs/files/tf2_model"
NODES = [
    node_def("x", "Placeholder", attrs={"dtype": FLOAT}),
    node_def("w", "Placeholder", attrs={"dtype": FLOAT}),
    node_def("b/a", "Relu", ["x"], T),
    node_def("b/y", "AddV2", ["b/a", "w"], T),
    node_def("out", "Neg", ["b/y"], T),
]
GRAPH = graph_def(NODES)
NODE = 'name: "fused"\nop: "Mine"\ninput: "w"\ninput: "x"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a graph, a pattern, a node and a recipe."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, {"m.pb": GRAPH, "n.pbtxt": NODE.encode()})
    assert main(["extract", "m.pb", "-o", "p.pb", "-s", "b/y", "-b", "x", "w"]) == 0
    assert main(["recipe", "make", "p.pb", "n.pbtxt", "r.pb"]) == 0
    return tmp_path


def test_the_way_through(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", "m.pb", "-o", "p.pb", "-s", "b/y", "-b", "x", "w"]) == 2
    assert main(["recipe", "make", "p.pb", "n.pbtxt", "r.pb"]) == 2
    assert capsys.readouterr().err.count("the output exists already; choose another, or pass --force") == 2
    assert main(["extract", "m.pb", "-o", "p.pb", "-s", "b/y", "-b", "x", "w", "--force"]) == 0
    assert main(["recipe", "make", "p.pb", "n.pbtxt", "r.pb", "--force"]) == 0
    assert capsys.readouterr().out == (
        "Wrote p.pb (1 seed, 1 other node, 2 inputs, 62 B)\n"
        "Wrote r.pb (2 nodes become fused, a Mine, which takes 2 of 2 inputs, 85 B)\n"
    )
    assert main(["recipe", "check", "r.pb", "m.pb"]) == 0
    assert capsys.readouterr().out == (
        "Recipe r: 1 match would be replaced\n"
        "match 1 in the graph: b/y (2 nodes)\n  + fused (Mine, 2 inputs)\n  - 2 nodes would go\n"
    )
    assert main(["replace", "m.pb", "-r", "r.pb", "-o", "o.pb"]) == 0
    assert capsys.readouterr().out == (
        "match 1 in the graph: b/y (2 nodes)\n  + fused (Mine, 2 inputs)\n  - 2 nodes\n"
        f"Wrote o.pb ({(folder / 'o.pb').stat().st_size} B)\n"
    )
    nodes = payloads((folder / "o.pb").read_bytes(), 1)
    assert nodes[:2] == NODES[:2]  # as they were
    graph = tfsmith.load("o.pb").graph
    assert [node.name for node in graph] == ["x", "w", "fused", "out"]
    assert graph["fused"].inputs == ("w", "x")
    assert graph["out"].inputs == ("fused",)
    assert (folder / "m.pb").read_bytes() == GRAPH


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["extract", "m.pb", "-o", "p.pbtxt", "-s", "b/y", "-b", "x", "w", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "output": "p.pbtxt",
        "seed_nodes": ["b/y"],
        "internal_nodes": ["b/a"],
        "inputs": ["w", "x"],
    }
    assert main(["replace", "m.pb", "-r", "r.pb", "-o", "o.pb", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    (match,) = facts["matches"]
    assert match["units"] == [{"nodes": {"b/y": "b/y", "b/a": "b/a"}, "inputs": {"w": "w:0", "x": "x:0"}, "passed": []}]
    assert facts["added"] == [{"name": "fused", "op": "Mine", "inputs": ["w", "x"]}]
    assert (facts["output"], facts["removed"], facts["reason"]) == ("o.pb", 2, None)
    assert main(["recipe", "check", "r.pb", "o.pb", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["matches"], facts["added"]) == ([], [])
    assert "matches nothing" in facts["reason"]
    assert main(["recipe", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == tfsmith.list_recipes().recipes


@pytest.mark.parametrize("explain", [False, True])
def test_nothing_matches(folder: Path, capsys: pytest.CaptureFixture[str], explain: bool) -> None:
    other = [*NODES[:2], node_def("b/a", "Relu6", ["x"], T), *NODES[3:]]
    (folder / "other.pb").write_bytes(graph_def(other))
    capsys.readouterr()
    words = ["replace", "other.pb", "-r", "r.pb", "-o", "o.pb", *(["--explain"] if explain else [])]
    assert main(words) == 1
    out = capsys.readouterr().out
    assert out.startswith("No match: recipe 'r' matches nothing in this model; nothing was written\n")
    assert ("the op must be Relu, and it is Relu6" in out) == explain
    assert not (folder / "o.pb").exists()
    assert main(["recipe", "check", "r.pb", "other.pb"]) == 1
    out = capsys.readouterr().out
    assert "nearest miss in the graph (variant pattern): 1 node fitted\n  wanted b/a: " in out
    assert "the op must be Relu, and it is Relu6" in out


def test_a_shared_node_is_not_lost(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "shared.pb").write_bytes(graph_def([*NODES, node_def("other", "Neg", ["b/a"], T)]))
    capsys.readouterr()
    words = ["replace", "shared.pb", "-r", "r.pb", "-o", "o.pb", "--outputs", "out,other"]
    assert main(words) == 1
    assert "is also used by other (Neg)" in capsys.readouterr().out
    assert main([*words, "--keep-shared"]) == 0
    graph = tfsmith.load("o.pb").graph
    assert {"b/a", "fused", "other"} <= {node.name for node in graph}
    assert main(["replace", "shared.pb", "-r", "r.pb", "-o", "o2.pb", "--outputs", "out"]) in (0, 1)


@pytest.mark.parametrize(
    ("options", "code"),
    [([], 1), (["--attrs", "none"], 0), (["--attrs", "types"], 1), (["--ignore-attr", "T"], 0)],
)
def test_what_must_be_equal(folder: Path, options: list[str], code: int) -> None:
    half = {"T": attr_value(type=19)}
    nodes = [*NODES[:2], node_def("b/a", "Relu", ["x"], half), node_def("b/y", "AddV2", ["b/a", "w"], half), NODES[4]]
    (folder / "half.pb").write_bytes(graph_def(nodes))
    assert main(["replace", "half.pb", "-r", "r.pb", "-o", "o.pb", *options]) == code
    assert main(["recipe", "make", "p.pb", "n.pbtxt", "again.toml", *options]) == 0
    assert main(["recipe", "check", "again.toml", "half.pb"]) == code


def test_shapes_may_count_too(folder: Path) -> None:
    shapes = {**T, "_output_shapes": field(1, field(7, field(2, b"\x08\x02")))}
    (folder / "s.pb").write_bytes(graph_def([*NODES[:2], node_def("b/a", "Relu", ["x"], shapes), *NODES[3:]]))
    assert main(["extract", "s.pb", "-o", "ps.pb", "-s", "b/y", "-b", "x", "w"]) == 0
    assert main(["recipe", "make", "ps.pb", "n.pbtxt", "rs.pb"]) == 0
    assert main(["recipe", "check", "rs.pb", "m.pb"]) == 0
    assert main(["recipe", "check", "rs.pb", "m.pb", "--match-attr", "_output_shapes"]) == 1
    assert main(["recipe", "check", "rs.pb", "s.pb", "--match-attr", "_output_shapes"]) == 0


def test_constants_inside(folder: Path) -> None:
    def graph(value: float) -> bytes:
        from tests.support.helpers import const_node

        return graph_def([NODES[0], const_node("c", [value, 1.0]), node_def("y", "AddV2", ["x", "c"], T)])

    write_files(folder, {"one.pb": graph(1.0), "two.pb": graph(2.0), "n2.pbtxt": b'name: "f" op: "Mine" input: "x"'})
    assert main(["extract", "one.pb", "-o", "pc.pb", "-s", "y", "-b", "x"]) == 2
    assert main(["extract", "one.pb", "-o", "pc.pb", "-s", "y", "-b", "x", "--constants"]) == 0
    assert main(["recipe", "make", "pc.pb", "n2.pbtxt", "rc.pb"]) == 0
    assert main(["recipe", "check", "rc.pb", "one.pb"]) == 0
    assert main(["recipe", "check", "rc.pb", "two.pb"]) == 1
    assert main(["recipe", "check", "rc.pb", "two.pb", "--no-values"]) == 0


def test_find(folder: Path) -> None:
    found = tfsmith.find("m.pb", "r.pb")
    assert found
    assert len(found) == 1
    (match,) = found
    assert (match.where, match.nodes, match.outputs) == ("the graph", ("b/y", "b/a"), ("b/y",))
    assert match.bindings == {"b/y": "b/y", "b/a": "b/a", "w": "w:0", "x": "x:0"}
    assert str(found) == "match 1 in the graph: b/y (2 nodes)\n"
    assert [one["outputs"] for one in found.to_json()["matches"]] == [["b/y"]]
    assert tfsmith.replace("m.pb", "r.pb").matches == found.matches
    assert (folder / "m.pb").read_bytes() == GRAPH


def test_what_is_not_found_has_a_nearest_miss(folder: Path) -> None:
    other = [*NODES[:2], node_def("b/a", "Relu6", ["x"], T), *NODES[3:]]
    (folder / "other.pb").write_bytes(graph_def(other))
    found = tfsmith.find("other.pb", "r.pb")
    assert not found
    assert list(found) == []
    assert found.nearest_miss is not None
    assert "the op must be Relu, and it is Relu6" in found.nearest_miss.reason
    assert "the op must be Relu, and it is Relu6" in str(found)


def test_a_match_that_the_recipe_does_not_want_is_not_found(folder: Path) -> None:
    """`require` is part of what is looked for: of a tensor without a known shape, no rank is known."""
    recipe = """
[recipe]
name = "no-relu"
description = "A Relu goes"
[[variant]]
name = "relu"
inputs = ["x"]
node = [{name = "relu", op = "Relu", inputs = ["x"]}]
REQUIRE
[variant.replace]
"relu" = "x"
"""
    (folder / "any.toml").write_text(recipe.replace("REQUIRE", ""))
    (folder / "plane.toml").write_text(recipe.replace("REQUIRE", 'require = ["rank(x) == 2"]'))
    assert [match.nodes for match in tfsmith.find("m.pb", "any.toml")] == [("b/a",)]
    assert not tfsmith.find("m.pb", "plane.toml")


def test_alike_warnings_are_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [*NODES[:2]]
    for number in range(30):
        nodes.append(node_def(f"{number}/a", "Relu", ["x"], T))
        nodes.append(node_def(f"{number}/y", "AddV2", [f"{number}/a", "w"], T))
        nodes.append(node_def(f"{number}/other", "Neg", [f"{number}/a"], T))
    nodes += [*NODES[2:]]
    (folder / "many.pb").write_bytes(graph_def(nodes))
    outputs = ",".join(["out", *(f"{number}/{name}" for number in range(30) for name in ("y", "other"))])
    capsys.readouterr()
    assert main(["replace", "many.pb", "-r", "r.pb", "-o", "o.pb", "--outputs", outputs]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "left alone" in line]
    assert line == (
        "warning: 30 matches were left alone, the first because node '0/a' is also used by 0/other (Neg), "
        "the others likewise"
    )


# Where results go


def test_existing_outputs_and_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["replace", "m.pb", "-r", "r.pb", "-o"]
    (folder / "o.pb").write_bytes(b"old")
    assert main([*words, "o.pb"]) == 2
    assert "the output exists already; choose another, or pass --force" in capsys.readouterr().err
    assert (folder / "o.pb").read_bytes() == b"old"
    assert main([*words, "o.pb", "--force"]) == 0
    assert main([*words, "m.pb", "--force"]) == 2
    assert "the output is also the input" in capsys.readouterr().err
    assert (folder / "m.pb").read_bytes() == GRAPH
    assert main([*words, "o.pbtxt"]) == 0
    assert (folder / "o.pbtxt").read_text().startswith("node {\n")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers as SavedModel and as training files, and a recipe for one node in it."""
    folder = tmp_path_factory.mktemp("bert")
    model = bert_classifier(BertConfig.tiny())
    write_saved_model(model, folder / "sm")
    write_checkpoint_files(model, folder / "training")
    (folder / "n.pbtxt").write_text('name: "mine" op: "Mine" input: "loss/MatMul" input: "output_bias/read"')
    words = ["-s", "loss/output", "-b", "loss/MatMul", "output_bias/read"]
    assert main(["extract", str(folder / "sm"), "-o", str(folder / "p.pb"), *words]) == 0
    assert main(["recipe", "make", str(folder / "p.pb"), str(folder / "n.pbtxt"), str(folder / "r.pb")]) == 0
    return folder


def test_a_saved_model_gives_the_graph_alone(bert: Path, tmp_path: Path) -> None:
    words = ["replace", str(bert / "sm"), "-r", str(bert / "r.pb"), "-o"]
    assert main([*words, str(tmp_path / "main.pb"), "--as", "keep"]) == 0
    assert main([*words, str(tmp_path / "main.pbtxt"), "--as", "keep"]) == 0
    shutil.copytree(bert / "sm", tmp_path / "copy")
    shutil.copy(tmp_path / "main.pb", tmp_path / "copy" / "saved_model.pb")
    model = tfsmith.load(tmp_path / "copy")
    assert model.graph["mine"].inputs == ("loss/MatMul", "output_bias/read")
    assert len(model.variables) == 41
    assert main([*words, str(tmp_path / "whole")]) == 0
    assert files_of(tmp_path / "whole") == files_of(tmp_path / "copy")
    assert main([*words, str(tmp_path / "linked"), "--link"]) == 0
    data = "variables/variables.data-00000-of-00001"
    assert (tmp_path / "linked" / data).samefile(bert / "sm" / data)
    text = tfsmith.load(tmp_path / "main.pbtxt")
    assert (text.kind, text.graph["mine"].op) == ("saved_model", "Mine")


def test_into_the_models_own_folder(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the original tools have it: the new graph lies beside the old one. Our own verbs write nothing there."""
    folder = shutil.copytree(bert / "sm", tmp_path / "sm")
    before = files_of(folder)
    words = ["replace", str(folder), "-r", str(bert / "r.pb"), "-o"]
    for options in ([], ["--force"], ["--as", "keep"]):
        assert main([*words, str(folder / "modified.pb"), *options]) == 2
    assert capsys.readouterr().err.count("the output lies inside of an input; choose a place outside of") == 3
    words = [str(folder), "-r", str(bert / "r.pb"), "-o"]
    for _ in range(2):
        assert replace_pattern([*words, str(folder / "modified.pb")]) == 0
    for name in ("saved_model.pb", "variables/variables.index", "variables"):
        assert replace_pattern([*words, str(folder / name)]) == 2
    (folder / "note.pb").write_bytes(b"note")
    assert replace_pattern([*words, str(folder / "note.pb")]) == 2
    assert "the output is also the input" in capsys.readouterr().err
    (folder / "saved_model.pb").rename(folder / "original.pb")
    (folder / "saved_model.pb").symlink_to("modified.pb")
    assert replace_pattern([*words, str(folder / "modified.pb")]) != 0
    after = files_of(folder)
    assert {name: after[name] for name in before if name != "saved_model.pb"} | {
        "saved_model.pb": after["original.pb"]
    } == before


def test_a_meta_and_its_checkpoint(bert: Path, tmp_path: Path) -> None:
    words = ["replace", str(bert / "training"), "-r", str(bert / "r.pb"), "--outputs", "loss/output", "-o"]
    assert main([*words, str(tmp_path / "new.ckpt.meta")]) == 0
    model = tfsmith.load(tmp_path / "new.ckpt")
    assert model.graph["mine"].op == "Mine"
    assert len(model.variables) == 41
    assert main([*words, str(tmp_path / "graph.pb")]) == 0
    assert tfsmith.load(tmp_path / "graph.pb").kind == "graphdef"
    assert main([*words, str(tmp_path / "new.ckpt.meta")]) == 2


def test_a_checkpoint_alone(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = bert / "sm" / "variables" / "variables"
    assert main(["replace", str(prefix), "-r", str(bert / "r.pb"), "-o", str(tmp_path / "o.pb")]) == 2
    assert "a checkpoint holds variables but no graph" in capsys.readouterr().err
    assert main(["extract", str(prefix), "-o", str(tmp_path / "p.pb"), "-s", "a"]) == 2


def test_choosing_a_meta_graph(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extract = [
        "extract",
        str(bert / "sm"),
        "-o",
        str(tmp_path / "p.pb"),
        "-s",
        "loss/BiasAdd",
        "-B",
        "MatMul",
        "Identity",
        "--force",
    ]
    assert main([*extract, "-m", "0"]) == 0
    assert main([*extract, "--tag-set", "serve"]) == 0
    assert main([*extract, "-m", "1"]) == 2
    assert "there is no meta graph 1; it has 1, counted from 0" in capsys.readouterr().err
    assert main([*extract, "--tag-set", "serve", "-m", "0"]) == 2
    with pytest.raises(NotFoundInModelError):
        select_meta_graph(tfsmith.load(bert / "sm"), -1)


def test_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tfsmith.load(TF2)
    name = next(name for name, one in model.graph.library.items() if any(node.op == "Softmax" for node in one))
    seed = next(node for node in model.graph.library[name] if node.op == "Softmax")
    words = ["extract", str(TF2), "-o", str(tmp_path / "p.pb"), "-s", seed.name, "-f", name]
    assert main(words) == 0
    pattern = tfsmith.load_pattern(tmp_path / "p.pb")
    assert set(pattern.inputs) <= set(model.graph.library[name].args)
    assert main([*words[:-1], name[:-1]]) == 2
    assert name in capsys.readouterr().err
    taken = pattern.inputs[0]
    attr = 'attr {key: "T" value {type: DT_FLOAT}}'
    (tmp_path / "n.pbtxt").write_text(f'name: "mine" op: "Relu" input: "{taken}" {attr}')
    assert main(["recipe", "make", str(tmp_path / "p.pb"), str(tmp_path / "n.pbtxt"), str(tmp_path / "r.toml")]) == 0
    assert main(["replace", str(TF2), "-r", str(tmp_path / "r.toml"), "-o", str(tmp_path / "out")]) == 0
    changed = tfsmith.load(tmp_path / "out").graph.library[name]
    assert changed["mine"].op == "Relu"
    assert any(text.startswith("mine:activations:0") for node in changed for text in node.inputs) or any(
        text == "mine:activations:0" for text in changed.ret.values()
    )


def test_the_python_way(bert: Path, tmp_path: Path) -> None:
    model = tfsmith.load(bert / "sm")
    pattern = tfsmith.extract(model, seeds=["loss/output"], barriers=["loss/MatMul"], barrier_ops=["Identity"])
    recipe = tfsmith.make_recipe(pattern, tfsmith.Node("mine", "Mine", ("loss/MatMul",)))
    done = tfsmith.replace(model, recipe)
    assert len(done.matches) == 1
    assert (done.reason, done.nearest_miss) == (None, None)
    assert done.save(tmp_path / "new.pb", as_="keep").notes == done.notes
    assert "name it as an output (outputs=)" in str(done.notes[0])
    again = tfsmith.replace(done.model, recipe)
    assert not again.matches
    assert again.reason
    with pytest.raises(OutputError, match="exists already"):
        done.save(tmp_path / "new.pb")
    tfsmith.save(done.model, tmp_path / "folder")
    assert tfsmith.load(tmp_path / "folder").graph["mine"].op == "Mine"


def test_usage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["recipe"]) == 2
    assert main(["recipe", "bake"]) == 2
    assert main(["recipe", "make", "p.pb"]) == 2
    assert capsys.readouterr().err.count("error: ") == 3
    assert main(["recipe", "make", "gone", "n.pbtxt", "x.pb", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err
    assert main(["recipe", "make", "--help"]) == 0
    assert main(["extract", "m.pb", "-o", "p.pb", "-s", "b/y", "-B", "Placeholder", "-l", "DEBUG", "--force"]) == 0
    assert "debug: node b/a (Relu)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "verb",
    [["extract"], ["recipe", "make"], ["recipe", "check"], ["recipe", "list"], ["replace"], ["configure"]],
    ids=" ".join,
)
def test_the_guide_has_every_option(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb, "--help"]) == 0
    options = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out)) - {"--help", "--debug"}
    text = (Path(__file__).parents[2] / "docs/guides/patterns.md").read_text()
    assert options <= set(re.findall(r"--[a-z][a-z-]+", text))
