"""The scripts of light-model-transformer: the document's own example, by its flags, and files that both can read."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.compat import configure_bert_op, extract_pattern, make_recipe, replace_pattern
from tfsmith.testing.models import BertConfig, bert_classifier
from tfsmith.testing.write import write_frozen, write_saved_model

# The sizes of uncased_L-12_H-768_A-12 decide no name and no edge of its graph; the narrow one is quicker.
CONFIG = BertConfig(100, 24, 12, 12, 48, max_position_embeddings=32)
SEED = "bert/encoder/layer_11/output/LayerNorm/batchnorm/add_1"
BARRIERS = [
    "bert/encoder/Reshape_1",
    "bert/encoder/Reshape",
    "bert/encoder/strided_slice",
    "bert/encoder/strided_slice_2",
]
WEIGHTS = [
    f"bert/encoder/layer_{layer}/{name}"
    for layer in range(12)
    for name in (
        *(f"attention/self/{part}/{kind}" for part in ("query", "key", "value") for kind in ("kernel", "bias")),
        "attention/output/dense/kernel",
        "attention/output/dense/bias",
        "attention/output/LayerNorm/gamma",
        "attention/output/LayerNorm/beta",
        "intermediate/dense/kernel",
        "intermediate/dense/bias",
        "output/dense/kernel",
        "output/dense/bias",
        "output/LayerNorm/gamma",
        "output/LayerNorm/beta",
    )
]


class Case(NamedTuple):
    """A model on disk, and the ops at which to stop in it."""

    path: Path
    ops: list[str]


KINDS = ["ref", "ref frozen", "resource", "resource frozen"]


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return write_case(CONFIG, request.param, tmp_path_factory.mktemp("bert"))


def write_case(config: BertConfig, name: str, folder: Path) -> Case:
    kind: Any
    kind, _, frozen = name.partition(" ")
    model = bert_classifier(config, variables=kind)
    ops = ["Identity", "Const"]
    if frozen:
        return Case(write_frozen(model, folder / "frozen.pb"), ops)
    path = write_saved_model(model, folder / "uncased_L-12_H-768_A-12")
    return Case(path, ops if kind == "ref" else ["ReadVariableOp", "Const"])


def extract(case: Case, output: Path) -> list[str]:
    words = [str(case.path), "-o", str(output), "-s", SEED, "-b", *BARRIERS, "-B", *case.ops, "-m", "0"]
    return words[:-2] if case.path.suffix == ".pb" else words


def original(graph: tfsmith.Graph, ops: list[str]) -> tuple[list[str], list[str]]:
    """What the original tool finds, by its own rules: a stack, and the inputs of a node in the order of the graph."""
    places = {node.name: number for number, node in enumerate(graph)}
    found: list[str] = []
    inputs: set[str] = set()
    todo = [SEED]
    while todo:
        node = graph[todo.pop()]
        if node.name in BARRIERS or node.op in ops:
            inputs.add(node.name)
            continue
        if node.name != SEED and node.name not in found:
            found.append(node.name)
        names = {re.split("[:]", text)[0] for text in node.inputs}
        todo += [name for name in sorted(names, key=places.__getitem__) if name not in found]
    return found, sorted(inputs)


def test_the_documents_example(case: Case, tmp_path: Path) -> None:
    check_extract(case, tmp_path)


def check_extract(case: Case, tmp_path: Path) -> None:
    assert extract_pattern.main(extract(case, tmp_path / "bert_pattern.pb")) == 0
    pattern = tfsmith.load_pattern(tmp_path / "bert_pattern.pb")
    assert [node.name for node in pattern.seed_nodes] == [SEED]
    assert len(pattern.internal_nodes) == 783
    graph = tfsmith.load(case.path).graph
    assert ([node.name for node in pattern.internal_nodes], list(pattern.inputs)) == original(graph, case.ops)
    for node in pattern.nodes:
        assert node.raw is not None
        base = graph[node.name].raw
        assert base is not None
        assert node.raw.tobytes() == base.tobytes()


def weight_inputs(case: Case, inputs: tuple[str, ...]) -> list[str]:
    """The tensors that give the encoder's weights, in the op's order: reads of variables, or constants behind them."""
    graph = tfsmith.load(case.path).graph
    by_variable = {text: name for name in inputs for text in graph[name].inputs}
    return [by_variable[weight] for weight in WEIGHTS]


def node_text(inputs: list[str]) -> str:
    lines = ['name: "bert/fused"', 'op: "Bert"', *(f'input: "{name}"' for name in inputs)]
    return "\n".join([*lines, f'attr {{ key: "NumWeights" value {{ i: {len(inputs) - 2} }} }}']) + "\n"


def test_from_the_model_to_the_replacement(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_replacement(case, tmp_path, capsys)


def check_replacement(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The document's way: extract, make the recipe, replace, configure."""
    pattern, node, recipe = (tmp_path / name for name in ("bert_pattern.pb", "node.pbtxt", "bert_recipe.pb"))
    assert extract_pattern.main(extract(case, pattern)) == 0
    weights = weight_inputs(case, tfsmith.load_pattern(pattern).inputs)
    node.write_text(node_text(["bert/encoder/Reshape_1", "bert/encoder/Reshape", *weights]))
    assert make_recipe.main([str(pattern), str(node), str(recipe)]) == 0
    output = tmp_path / "modified_saved_model.pb"
    for _ in range(2):  # as the original, it replaces what was there
        assert replace_pattern.main([str(case.path), "-r", str(recipe), "-o", str(output)]) == 0
    model, before = tfsmith.load(output), tfsmith.load(case.path)
    assert model.kind == before.kind
    assert model.graph["bert/fused"].inputs == ("bert/encoder/Reshape_1", "bert/encoder/Reshape", *weights)
    assert sum(node.op == "MatMul" for node in model.graph) == 3  # segments, pooler, classifier
    users = [node.name for node in model.graph if any(text.startswith("bert/fused") for text in node.inputs)]
    assert [name for name in users if name != "bert/encoder/Shape_14"] == ["bert/encoder/Reshape_13"]
    assert not [node for node in model.graph if node.name.startswith("bert/encoder/layer_1/") and node.op == "Shape"]
    assert replace_pattern.main([str(output), "-r", str(recipe), "-o", str(tmp_path / "again.pb")]) == 1
    assert "Failed to find and replace the pattern" in capsys.readouterr().err
    assert not (tmp_path / "again.pb").exists()
    assert (
        configure_bert_op.main([str(output), "--max-seq-len", "128", "-q", "-B", "-C", "-p", "f.bin", "-h", "24"]) == 0
    )
    assert capsys.readouterr().out == "Following Bert nodes will be updated: ['bert/fused']\n"
    attrs = tfsmith.load(output).graph["bert/fused"].attrs
    assert {key: (attr.kind, str(attr.value)) for key, attr in attrs.items()} == {
        "NumWeights": ("int", "192"),
        "HiddenSize": ("int", "24"),
        "MaxSequenceLength": ("int", "128"),
        "QuantizableDataType": ("type", "qint8"),
        "NonQuantizableDataType": ("type", "float32"),
        "CalibrateQuantFactors": ("bool", "False"),
        "QuantizationFactorsPath": ("string", "b'f.bin'"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_documents_example_at_its_own_size(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """uncased_L-12_H-768_A-12 itself, 438 MB: the nodes are those of the narrow one; the shipped recipe fits, too."""
    narrow = tmp_path / "narrow"
    narrow.mkdir()
    small = write_case(CONFIG, kind, narrow)
    with tempfile.TemporaryDirectory(dir=tmp_path) as large:
        folder = Path(large)
        case = write_case(BertConfig.base(), kind, folder)
        check_extract(case, folder)
        check_replacement(case, folder, capsys)
        assert extract_pattern.main(extract(small, narrow / "p.pb")) == 0
        ours, theirs = (tfsmith.load_pattern(path) for path in (folder / "bert_pattern.pb", narrow / "p.pb"))
        assert [(node.name, node.op, node.inputs) for node in ours.nodes] == [
            (node.name, node.op, node.inputs) for node in theirs.nodes
        ]
        done = tfsmith.replace(tfsmith.load(case.path), "bert-encoder")
        assert [len(match.units) for match in done.matches] == [12]
        node = next(node for node in done.model.graph if node.op == "Bert")
        sizes = ("HiddenSize", "NumAttentionHeads", "IntermediateSize", "NumWeights", "MaxSequenceLength")
        assert [node.get(name) for name in sizes] == [768, 12, 3072, 192, 128]


def test_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert configure_bert_op.main(["--help"]) == 0
    assert configure_bert_op.main(["-h"]) == 2  # it is the hidden size
    assert "--no-bfloat16" in capsys.readouterr().out
    for tool in (extract_pattern, make_recipe, replace_pattern):
        assert tool.main(["--help"]) == 0
        assert tool.main([]) == 2
    capsys.readouterr()
    model = write_saved_model(bert_classifier(), tmp_path / "sm")
    assert configure_bert_op.main([str(model), "-b"]) == 1
    assert "the model has no Bert node" in capsys.readouterr().err
    capsys.readouterr()
    words = [str(model), "-o", str(tmp_path / "p.pbtxt"), "-s", "loss/output", "-b", "loss/BiasAdd", "-l"]
    assert extract_pattern.main([*words, "INFO"]) == 0
    assert capsys.readouterr().err == "INFO: 1 nodes, 1 inputs\n"
    assert extract_pattern.main([*words, "LOUD"]) == 2
    assert extract_pattern.main([*words, "WARN", "-m", "3"]) == 2
    assert extract_pattern.main([*words, "WARN", "-f", "gone"]) == 2


def messages() -> tuple[Any, Any]:
    """Pattern and Recipe as the original's .proto files declare them, around TensorFlow's own NodeDef."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from tensorflow.core.framework import node_def_pb2

    pool = descriptor_pool.Default()
    field = descriptor_pb2.FieldDescriptorProto
    node_file = node_def_pb2.DESCRIPTOR.name
    pattern_file = descriptor_pb2.FileDescriptorProto(
        name="model_modifier/pattern.proto", package="model_modifier", syntax="proto3", dependency=[node_file]
    )
    pattern = pattern_file.message_type.add(name="Pattern")
    node = ".tensorflow.NodeDef"
    many, one = field.LABEL_REPEATED, field.LABEL_OPTIONAL
    pattern.field.add(name="seed_nodes", number=1, label=many, type=field.TYPE_MESSAGE, type_name=node)
    pattern.field.add(name="internal_nodes", number=2, label=many, type=field.TYPE_MESSAGE, type_name=node)
    pattern.field.add(name="inputs", number=3, label=many, type=field.TYPE_STRING)
    recipe_file = descriptor_pb2.FileDescriptorProto(
        name="model_modifier/recipe.proto",
        package="model_modifier",
        syntax="proto3",
        dependency=["model_modifier/pattern.proto", node_file],
    )
    recipe = recipe_file.message_type.add(name="Recipe")
    name = ".model_modifier.Pattern"
    recipe.field.add(name="source_pattern", number=1, label=one, type=field.TYPE_MESSAGE, type_name=name)
    recipe.field.add(name="target_node", number=2, label=one, type=field.TYPE_MESSAGE, type_name=node)
    for file in (pattern_file, recipe_file):
        pool.AddSerializedFile(file.SerializeToString())
    found = (pool.FindMessageTypeByName(f"model_modifier.{name}") for name in ("Pattern", "Recipe"))
    first, second = (message_factory.GetMessageClass(one) for one in found)
    return first, second


@pytest.mark.tensorflow
def test_files_are_those_of_the_original(case: Case, tmp_path: Path) -> None:
    pattern_class, recipe_class = messages()
    for name in ("p.pb", "p.pbtxt"):
        assert extract_pattern.main(extract(case, tmp_path / name)) == 0
    theirs = pattern_class.FromString((tmp_path / "p.pb").read_bytes())
    graph = tfsmith.load(case.path).graph
    assert [node.name for node in theirs.internal_nodes] == original(graph, case.ops)[0]
    assert (tmp_path / "p.pbtxt").read_text() == str(theirs)

    (tmp_path / "theirs.pb").write_bytes(theirs.SerializeToString())
    (tmp_path / "theirs.pbtxt").write_text(str(theirs))
    node = type(theirs.seed_nodes[0])(name="fused", op="Bert", input=["bert/encoder/Reshape_1", BARRIERS[1]])
    node.attr["N"].i = 3
    node.attr["f"].f = 0.1
    (tmp_path / "node.pb").write_bytes(node.SerializeToString())
    (tmp_path / "node.pbtxt").write_text(str(node))
    wanted = recipe_class(source_pattern=theirs, target_node=node)
    for pattern_name in ("theirs.pb", "theirs.pbtxt"):
        for node_name in ("node.pb", "node.pbtxt"):
            words = [str(tmp_path / name) for name in (pattern_name, node_name, "r.pb")]
            assert make_recipe.main(words) == 0
            assert recipe_class.FromString((tmp_path / "r.pb").read_bytes()) == wanted
    (tmp_path / "recipe.pb").write_bytes(wanted.SerializeToString())
    words = [str(case.path), "-r", str(tmp_path / "recipe.pb"), "-o", str(tmp_path / "out.pb"), "-l", "FATAL"]
    assert replace_pattern.main(words) == 0
    assert tfsmith.load(tmp_path / "out.pb").graph["fused"].get("N") == 3
    tfsmith.save_recipe(tfsmith.load_recipe(tmp_path / "recipe.pb"), tmp_path / "recipe.pbtxt")
    assert (tmp_path / "recipe.pbtxt").read_text() == str(wanted)


def test_barriers_that_a_model_lacks_do_not_matter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a fixed batch size, Google's BERT has no `strided_slice` there; the document's command runs all the same."""
    write_frozen(bert_classifier(BertConfig(30, 16, 12, 2, 32), batch=1, length=6), tmp_path / "frozen.pb")
    scope = "bert/encoder"
    seeds = ["-s", f"{scope}/layer_11/output/LayerNorm/batchnorm/add_1"]
    barriers = [f"{scope}/{name}" for name in ("Reshape_1", "Reshape", "strided_slice", "strided_slice_2", "Reshape")]
    rest = ["-b", *barriers, "-B", "Identity", "Const", "-m", "0"]
    assert main(["extract", str(tmp_path / "frozen.pb"), "-o", str(tmp_path / "a.pb"), *seeds, *rest]) == 0
    assert "barrier bert/encoder/strided_slice is not in the graph" in capsys.readouterr().err
    assert extract_pattern.main([str(tmp_path / "frozen.pb"), "-o", str(tmp_path / "b.pb"), *seeds, *rest]) == 0
    assert (tmp_path / "a.pb").read_bytes() == (tmp_path / "b.pb").read_bytes()
