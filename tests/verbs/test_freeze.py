"""Freezing without TensorFlow: what is asked for, what is refused, what is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import tfsmith
from tfsmith import records
from tfsmith.cli.main import main
from tfsmith.errors import ChecksumError, LimitError, NotFoundInModelError, UsageError
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Checkpoint, Collection, MetaGraph, MetaInfo, Model
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import ArrayTensor, SpanTensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.storage import open_file
from tfsmith.testing.models import bert_classifier, linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_saved_model

FLOAT = dtype_named("float32")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    model = bert_classifier(batch=1)
    write_checkpoint_files(model, folder / "training")
    write_saved_model(model, folder / "saved_model")
    return folder


def small(*, variable: str = "w", value: object = (1.0, 2.0)) -> Model:
    """y = x * w, with one reference variable."""
    nodes = (
        Node("x", "Placeholder", (), {"dtype": FLOAT, "shape": Shape((3, 2))}),
        Node("w", "VariableV2", (), {"dtype": FLOAT, "shape": Shape((2,)), "container": "", "shared_name": ""}),
        Node("w/read", "Identity", ("w",), {"T": FLOAT}),
        Node("y", "Mul", ("x", "w/read"), {"T": FLOAT}),
    )
    variables = {variable: ArrayTensor.of(value, FLOAT)}
    return Model("metagraph", (MetaGraph(Part.of(Graph(nodes))),), variables)


def test_every_source_gives_the_same_graph(folder: Path, tmp_path: Path) -> None:
    sources = {
        "folder": tfsmith.load(folder / "training"),
        "prefix": tfsmith.load(folder / "training" / "model.ckpt-1603"),
        "meta": tfsmith.load(folder / "training" / "model.ckpt-1603.meta"),
        "text": tfsmith.load(folder / "training" / "graph.pbtxt", checkpoint=folder / "training"),
    }
    for name, model in sources.items():
        tfsmith.save(tfsmith.freeze(model, ["loss/output"]).model, tmp_path / f"{name}.pb")
    graphs = {name: tfsmith.load(tmp_path / f"{name}.pb").graph for name in sources}
    expected = [(node.name, node.op, node.inputs) for node in graphs["folder"]]
    for graph in graphs.values():
        assert [(node.name, node.op, node.inputs) for node in graph] == expected
    ops = {node.op for node in graphs["folder"]}
    assert not {op for op in ops if op.startswith(("Variable", "Assign", "Save", "Restore"))}


def test_values_are_those_of_the_checkpoint(folder: Path, tmp_path: Path) -> None:
    model = tfsmith.load(folder / "saved_model")
    tfsmith.save(tfsmith.freeze(model).model, tmp_path / "frozen.pb")
    graph = tfsmith.load(tmp_path / "frozen.pb").graph
    for name, tensor in model.variables.items():
        np.testing.assert_array_equal(graph[name].get("value").numpy(), tensor.numpy())


def test_freezing_reads_no_value(folder: Path) -> None:
    """A damaged value is noticed by the writer, not by the pass."""
    model = tfsmith.load(folder / "saved_model")
    frozen = tfsmith.freeze(model).model
    name = "bert/pooler/dense/kernel"
    assert frozen.graph[name].get("value") is model.variables[name]


def test_a_damaged_checkpoint_leaves_no_output(folder: Path, tmp_path: Path) -> None:
    write_saved_model(bert_classifier(batch=1), tmp_path / "m")
    data = tmp_path / "m" / "variables" / "variables.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[1000] ^= 1
    data.write_bytes(content)
    with pytest.raises(ChecksumError, match=r"tensor 'bert/.*' do not fit their checksum"):
        tfsmith.save(tfsmith.freeze(tfsmith.load(tmp_path / "m")).model, tmp_path / "frozen.pb")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_outputs_that_are_not_there() -> None:
    with pytest.raises(NotFoundInModelError, match="no node 'yy'"):
        tfsmith.freeze(small(), ["yy"])


def test_a_missing_value_lists_the_nearest_names() -> None:
    with pytest.raises(NotFoundInModelError, match=r"no value for variable 'w'.*nearest names there are w_1"):
        tfsmith.freeze(small(variable="w_1"), ["y"])


def test_a_checkpoint_without_its_data_says_so() -> None:
    lost = Checkpoint(Path("v"), 2, (), missing=(Path("v.data-00000-of-00001"),))
    with pytest.raises(NotFoundInModelError, match=r"no value: v.data-00000-of-00001 is missing; copy all files"):
        tfsmith.freeze(records.replace(small(variable="w_1"), checkpoint=lost), ["y"])


def test_a_value_of_another_shape_is_refused() -> None:
    with pytest.raises(tfsmith.TfsmithError, match=r"the graph says \[2\], but 'w' in the checkpoint is \[3\]"):
        tfsmith.freeze(small(value=(1.0, 2.0, 3.0)), ["y"])


def test_a_graph_without_a_checkpoint() -> None:
    graph = small().graph
    with pytest.raises(NotFoundInModelError, match=r"there is no checkpoint; .*checkpoint="):
        tfsmith.freeze(Model("graphdef", (MetaGraph(Part.of(graph)),)), ["y"])


def test_only_and_except() -> None:
    assert tfsmith.freeze(small(), ["y"], excluded=["w*"]).model.graph["w"].op == "VariableV2"
    assert tfsmith.freeze(small(), ["y"], only=["w"]).model.graph["w"].op == "Const"
    with pytest.raises(UsageError, match=r"no variable is called 'ww\*'; the nearest names are w$"):
        tfsmith.freeze(small(), ["y"], excluded=["ww*"])
    with pytest.raises(UsageError, match="no variable that the outputs need is called 'v'"):
        tfsmith.freeze(small(), ["y"], only=["v"])


def test_batch_size_and_shapes() -> None:
    assert tfsmith.freeze(small(), ["y"], batch_size=7).model.graph["x"].get("shape") == Shape((7, 2))
    shaped = tfsmith.freeze(small(), ["y"], input_shapes={"x": [None, 2]}).model
    assert shaped.graph["x"].get("shape") == Shape((-1, 2))
    with pytest.raises(UsageError, match="has 2 dimensions"):
        tfsmith.freeze(small(), ["y"], input_shapes={"x": [1]})
    with pytest.raises(NotFoundInModelError, match="the placeholders are: x"):
        tfsmith.freeze(small(), ["y"], input_shapes={"z": [1]})
    with pytest.raises(UsageError, match="a batch of 0 cannot be"):
        tfsmith.freeze(small(), ["y"], batch_size=0)


def test_constants_that_bake_in_the_batch_size_are_told() -> None:
    model = small()
    int32 = dtype_named("int32")
    nodes = (
        *model.graph.nodes,
        Node("shape", "Const", (), {"dtype": int32, "value": ArrayTensor.of([3, -1], int32)}),
        Node("z", "Reshape", ("y", "shape"), {"T": FLOAT, "Tshape": int32}),
    )
    baked = model.replace_graph(model.graph.replace(nodes=nodes))
    (note,) = tfsmith.freeze(baked, ("z",), batch_size=6).notes
    assert note.nodes == ("shape",)
    assert "bake in the old batch size 3" in note.what
    with pytest.raises(UsageError) as caught:  # two elements cannot become three rows
        tfsmith.freeze(baked, ("z",), batch_size=1)
    assert str(caught.value) == (
        "the graph, node 'z' (Reshape): the new shapes of the inputs do not fit: shape [1, 2] cannot become [3, -1]; "
        "constants bake in the old batch size 3; export the model with an open batch size"
    )


def test_input_shapes_that_contradict_the_next_op_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        tfsmith.freeze(small(), ("y",), input_shapes={"x": (3, 5)})
    assert str(caught.value) == (
        "the graph, node 'y' (Mul): the new shapes of the inputs do not fit: shapes are [3, 5] and [2], which cannot "
        "be broadcast; pass shapes that the graph can take"
    )


def test_stale_shapes_are_dropped_when_a_shape_changes() -> None:
    model = small()
    nodes = tuple(
        node.replace(attrs={"_output_shapes": (Shape((3, 2)),)}) if node.name == "y" else node for node in model.graph
    )
    changed = model.replace_graph(model.graph.replace(nodes=nodes))
    assert "_output_shapes" in tfsmith.freeze(changed, ["y"]).model.graph["y"].attrs
    assert "_output_shapes" not in tfsmith.freeze(changed, ["y"], batch_size=1).model.graph["y"].attrs


def test_over_two_gib_is_refused_before_writing(tmp_path: Path) -> None:
    shape = Shape((2**29 + 1,))
    with open(tmp_path / "values", "wb") as file:
        file.truncate(4 * (2**29 + 1))  # sparse: it takes no room
    nodes = (
        Node("w", "VariableV2", (), {"dtype": FLOAT, "shape": shape, "container": "", "shared_name": ""}),
        Node("y", "Identity", ("w",), {"T": FLOAT}),
    )
    variables = {"w": SpanTensor(FLOAT, shape, open_file(tmp_path / "values"))}
    model = Model("metagraph", (MetaGraph(Part.of(Graph(nodes))),), variables)
    with pytest.raises(LimitError, match="over 2 GiB"):
        tfsmith.save(tfsmith.freeze(model, ["y"]).model, tmp_path / "f.pb")
    assert [path.name for path in tmp_path.iterdir()] == ["values"]


def test_training_leftovers_drop_away(folder: Path) -> None:
    frozen = tfsmith.freeze(tfsmith.load(folder / "training"), ["loss/output"]).model
    assert not [node.name for node in frozen.graph if node.name.startswith("save/")]
    assert "label_ids" not in frozen.graph


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "frozen.pb"
    assert main(["freeze", str(folder / "saved_model"), "-o", str(out), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["outputs"] == {"probabilities": "loss/output:0"}
    assert len(facts["converted"]) == 41
    assert main(["freeze", str(folder / "saved_model"), "-o", str(tmp_path / "t.pbtxt"), "--as", "pbtxt"]) == 0
    written = f"Wrote {tmp_path / 't.pbtxt'} ({(tmp_path / 't.pbtxt').stat().st_size / 1000:.1f} kB)\n"
    done = "Converted 41 variables to const ops.\noutput probabilities: loss/output:0\n"
    assert capsys.readouterr().out == done + written
    text, binary = tfsmith.load(tmp_path / "t.pbtxt").graph, tfsmith.load(out).graph
    assert [node.name for node in text] == [node.name for node in binary]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--outputs", "loss/outputs"],
            "there is no node 'loss/outputs' in the graph; the nearest names are loss/output",
        ),
        (["--signature", "serve"], "there is no signature 'serve'; the signatures are: serving_default"),
        (["--tag-set", "train"], "the tag sets are: 'serve'"),
        (["--input-shape", "input_ids"], "write NAME=1,128"),
        (["--checkpoint", "nowhere"], "there is no checkpoint with this prefix"),
        (["--except", "bert/*", "--as", "saved_model"], "some variables are to stay variables"),
        (["--outputs", ""], "error: --outputs names nothing; write A,B, or leave it out\n"),
        (
            ["--outputs", "loss/output", "--outputs", " , "],
            "error: --outputs names nothing; write A,B, or leave it out\n",
        ),
        (
            ["--verify-engine", "openvino"],
            "error: --verify-engine goes with --verify; add --verify, or leave it out\n",
        ),
        (["--op-library", "ops.so"], "error: --op-library goes with --verify; add --verify, or leave it out\n"),
    ],
)
def test_wrong_arguments(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["freeze", str(folder / "saved_model"), "-o", str(tmp_path / "out"), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error
    assert not list(tmp_path.iterdir())


def test_outputs_given_twice_add_up(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--outputs", "loss/output", "--outputs", "bert/pooler/dense/Tanh,loss/BiasAdd"]
    assert main(["freeze", str(folder / "saved_model"), "-o", str(tmp_path / "out.pb"), *words]) == 0
    assert capsys.readouterr().out == (
        "Converted 41 variables to const ops.\n"
        "output loss/output:0\noutput bert/pooler/dense/Tanh:0\noutput loss/BiasAdd:0\n"
        f"Wrote {tmp_path / 'out.pb'} (76.8 kB)\n"
    )


def test_a_saved_model_keeps_what_fills_its_tables(tmp_path: Path) -> None:
    """Whether that is asked for by `as_`, by the output, or when it is saved; a plain graph has none of it."""
    plain = small()
    graph = plain.graph.replace(nodes=(*plain.graph.nodes, Node("fill", "NoOp", ())))
    collections: Mapping[str, Collection] = {"saved_model_main_op": Collection("node", ("fill",))}
    info = Part.of(MetaInfo(tags=("serve",)))
    meta = MetaGraph(Part.of(graph), info, collections_part=Part.of(collections))
    model = records.replace(plain, meta_graphs=(meta,))
    asked = tfsmith.freeze(model, ["y"], as_="saved_model")
    written = tfsmith.freeze(model, ["y"], out=tmp_path / "written")
    later = tfsmith.freeze(model, ["y"])
    assert "fill" not in later.model.graph
    later = later.save(tmp_path / "later")
    tfsmith.save(asked.model, tmp_path / "asked")
    for found in (asked.model, written.model, later.model, *map(tfsmith.load, sorted(tmp_path.iterdir()))):
        assert "fill" in found.graph
        assert found.meta.collections["saved_model_main_op"].values == ("fill",)
    assert "fill" not in tfsmith.freeze(model, ["y"], as_="pb").model.graph


def test_likely_outputs_are_offered_when_it_is_not_clear() -> None:
    model = small()
    other = Node("other", "Relu", ("x",), {"T": FLOAT})
    unclear = model.replace_graph(model.graph.replace(nodes=(*model.graph.nodes, other)))
    with pytest.raises(UsageError, match=r"choose with outputs=; likely are: y:0 \(nothing .*; other:0"):
        tfsmith.freeze(unclear)
    assert "y" in tfsmith.freeze(model).model.graph  # the only one, so it is clear


def test_collections_name_the_outputs(tmp_path: Path) -> None:
    prefix = write_checkpoint_files(linear_regression(), tmp_path / "m")
    frozen = tfsmith.freeze(tfsmith.load(prefix)).model
    assert linear_regression().output_nodes[0] in frozen.graph
