"""ONNX out of TensorFlow's files: it is valid, computes the same, and what has no form is refused."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import numpy
import pytest

import onnx
import tfsmith
from tfsmith.cli.main import main
from tfsmith.engines.onnxruntime import OnnxSession
from tfsmith.errors import EngineError, LimitError, OutputError, TfsmithError, UnsupportedError, UsageError
from tfsmith.formats.onnx.writer import write_onnx
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph, Versions
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.node import Attr, Node
from tfsmith.ir.opdef import ArgDef, AttrDef, OpDef, builtin_op
from tfsmith.ir.tensor import ArrayTensor, FilledTensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.onnx.registry import lowerings
from tfsmith.ops.samples import samples_of
from tfsmith.testing.conformance.answers import digest, load_answers
from tfsmith.testing.conformance.equality import for_engines
from tfsmith.testing.conformance.isolated import engine_compute
from tfsmith.testing.conformance.runner import check_case
from tfsmith.testing.models import bert_classifier, conv_net, linear_regression
from tfsmith.testing.write import write_frozen, write_saved_model

ENCODERS = Path(__file__).parents[1] / "data/encoders"
FLOAT32, INT32 = dtype_named("float32"), dtype_named("int32")


def encoder(name: str, folder: Path) -> Path:
    path = folder / f"{name}.pb"
    path.write_bytes(lzma.decompress((ENCODERS / f"{name}.pb.xz").read_bytes()))
    return path


def ops_of(path: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in onnx.load(path, load_external_data=False).graph.node:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return counts


def graph_model(*nodes: Node) -> Model:
    return Model("graphdef", (MetaGraph(Part.of(Graph(nodes, Versions(1000)))),))


def placeholder(name: str = "x", *dims: int, kind: Any = FLOAT32) -> Node:
    return Node(name, "Placeholder", (), {"dtype": kind, "shape": Shape(dims)})


def constant(name: str, values: Any, kind: Any = INT32) -> Node:
    tensor = ArrayTensor.of(values, kind)
    return Node(name, "Const", (), {"dtype": kind, "value": Attr("tensor", tensor)})


@pytest.mark.parametrize(
    "name", ["transformers-bert", "transformers-distilbert", "transformers-no-gpt2", "bert-base", "models-bert"]
)
def test_encoders(name: str, tmp_path: Path) -> None:
    """As published by Google, Hugging Face and in the model garden: valid, complete shapes, the same answers."""
    out = tmp_path / "model.onnx"
    done = tfsmith.convert(encoder(name, tmp_path), out, verify=True)
    assert done
    assert done.verified is not None
    assert max(one.max_abs for one in done.verified.outputs) < 1e-4
    onnx.checker.check_model(out, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(onnx.load(out), strict_mode=True, data_prop=True)
    for value in inferred.graph.output:
        assert value.type.tensor_type.HasField("shape")
        assert all(dim.WhichOneof("value") for dim in value.type.tensor_type.shape.dim)


def test_layer_norms_and_gelus_are_ops_of_their_own(tmp_path: Path) -> None:
    path = encoder("transformers-bert", tmp_path)
    assert tfsmith.convert(path, tmp_path / "a.onnx")
    counts = ops_of(tmp_path / "a.onnx")
    assert (counts["LayerNormalization"], counts["Erf"], counts.get("Gelu")) == (5, 2, None)
    assert tfsmith.convert(path, tmp_path / "b.onnx", opset=20, verify=True)
    counts = ops_of(tmp_path / "b.onnx")
    assert (counts["LayerNormalization"], counts["Gelu"], counts.get("Erf")) == (5, 2, None)


@pytest.mark.parametrize("name", ["bert-base", "transformers-bert"])
def test_attention_is_an_op_of_its_own(name: str, tmp_path: Path) -> None:
    """From opset 23 on, whether it is spelled by letters or by products of matrices."""
    assert tfsmith.convert(encoder(name, tmp_path), tmp_path / "a.onnx", opset=23, verify=True)
    counts = ops_of(tmp_path / "a.onnx")
    assert (counts["Attention"], counts.get("Softmax")) == (2, None)
    onnx.checker.check_model(tmp_path / "a.onnx", full_check=True)


def test_what_is_nearly_a_layer_norm_is_none(tmp_path: Path) -> None:
    """The mean that is taken away is that of another tensor than the one that the variance is of."""
    one, two = constant("axis", [-1]), constant("eps", 1e-3, FLOAT32)
    given = {"T": FLOAT32, "Tidx": INT32, "keep_dims": True}
    nodes = [placeholder("x", -1, 8), placeholder("z", -1, 8), one, two]
    nodes += [Node("mean", "Mean", ("x", "axis"), given), Node("other", "Mean", ("z", "axis"), given)]
    nodes += [Node("d", "SquaredDifference", ("x", "other"), {"T": FLOAT32}), Node("v", "Mean", ("d", "axis"), given)]
    nodes += [Node("e", "AddV2", ("v", "eps"), {"T": FLOAT32}), Node("r", "Rsqrt", ("e",), {"T": FLOAT32})]
    nodes += [Node("c", "Sub", ("x", "mean"), {"T": FLOAT32}), Node("y", "Mul", ("c", "r"), {"T": FLOAT32})]
    tfsmith.convert(graph_model(*nodes), tmp_path / "n.onnx", outputs=["y"], verify=True)
    assert "LayerNormalization" not in ops_of(tmp_path / "n.onnx")


def test_a_checkpoint_of_googles_bert(tmp_path: Path) -> None:
    write_saved_model(bert_classifier(), tmp_path / "bert")
    done = tfsmith.convert(tmp_path / "bert", tmp_path / "model.onnx", verify=True)
    assert done
    model = onnx.load(tmp_path / "model.onnx")
    assert [one.name for one in model.graph.input] == ["input_ids", "input_mask", "segment_ids"]
    assert [one.name for one in model.graph.output] == ["probabilities"]
    assert "bert/pooler/dense/kernel" in {one.name for one in model.graph.initializer}
    tfsmith.convert(tmp_path / "bert", tmp_path / "own.onnx", keep_names=True)
    own = onnx.load(tmp_path / "own.onnx")
    assert [one.name for one in own.graph.output] == ["loss/output:0"]


def test_a_run_fails_where_tensorflows_does(tmp_path: Path) -> None:
    """ONNX counts indices below zero from behind, cuts slices that are too long, and lets NaN pass."""
    nodes = [placeholder("x", 4, 3), placeholder("i", -1, kind=INT32), constant("zero", 0)]
    taken = {"Tparams": FLOAT32, "Tindices": INT32, "Taxis": INT32}
    nodes += [
        placeholder("n", kind=INT32),
        constant("begin", [1]),
        Node("n1", "ExpandDims", ("n", "zero"), {"T": INT32}),
    ]
    nodes += [Node("row", "GatherV2", ("x", "zero", "zero"), taken)]
    nodes += [Node("g", "GatherV2", ("x", "i", "zero"), taken)]
    nodes += [Node("s", "Slice", ("row", "begin", "n1"), {"T": FLOAT32, "Index": INT32})]
    nodes += [Node("c", "CheckNumerics", ("x",), {"T": FLOAT32, "message": b""})]
    done = tfsmith.convert(graph_model(*nodes), tmp_path / "m.onnx", outputs=["g", "s", "c"], verify=True)
    assert done
    x = numpy.ones((4, 3), numpy.float32)
    with OnnxSession(tmp_path / "m.onnx") as session:
        right = {"x": x, "i": numpy.array([3], numpy.int32), "n": numpy.array(2, numpy.int32)}
        assert session.run(right)["s"].shape == (2,)
        for wrong in ({"i": numpy.array([-1], numpy.int32)}, {"n": numpy.array(3, numpy.int32)}, {"x": x * numpy.nan}):
            with pytest.raises(EngineError, match="onnxruntime failed"):
                session.run({**right, **wrong})


def test_images_are_transposed_once(tmp_path: Path) -> None:
    write_frozen(conv_net(), tmp_path / "net.pb")
    assert tfsmith.convert(tmp_path / "net.pb", tmp_path / "net.onnx", verify=True)
    counts = ops_of(tmp_path / "net.onnx")
    assert counts["Conv"] >= 2
    assert counts.get("Transpose", 0) <= 2
    onnx.checker.check_model(tmp_path / "net.onnx", full_check=True)


def test_shapes_and_batch_sizes(tmp_path: Path) -> None:
    model = graph_model(placeholder("x", -1, -1, 4), Node("y", "Relu", ("x",), {"T": FLOAT32}))
    done = tfsmith.convert(model, tmp_path / "a.onnx", outputs=["y"])
    assert done.inputs == {"x": "float32 [batch, size_1, 4]"}
    done = tfsmith.convert(model, tmp_path / "b.onnx", outputs=["y"], batch_size=2)
    assert done.inputs == {"x": "float32 [2, size_1, 4]"}
    done = tfsmith.convert(model, tmp_path / "c.onnx", outputs=["y"], input_shapes={"x": (2, 3, 4)})
    assert (done.inputs, done.outputs) == ({"x": "float32 [2, 3, 4]"}, {"y": "float32 [2, 3, 4]"})
    with pytest.raises(UsageError, match=r"is .*, not"):
        tfsmith.convert(model, tmp_path / "d.onnx", outputs=["y"], input_shapes={"x": (2, 3, 5)})
    with pytest.raises(UsageError, match="there is no input 'z'"):
        tfsmith.convert(model, tmp_path / "d.onnx", outputs=["y"], input_shapes={"z": (2,)})
    with pytest.raises(UsageError, match="opset 3 is not written; choose one from 18 to 23"):
        tfsmith.convert(model, tmp_path / "d.onnx", outputs=["y"], opset=3)
    with pytest.raises(UsageError, match="does not go with ONNX"):
        tfsmith.convert(model, tmp_path / "d.onnx", outputs=["y"], dtype="float16")
    with pytest.raises(UsageError, match="is for ONNX"):
        tfsmith.convert(model, tmp_path / "d.pb", opset=18)
    assert not (tmp_path / "d.onnx").exists()


def test_what_has_no_form_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of it at once; `check` says the same."""
    nodes = [placeholder("x", -1, 3), Node("a", "Lgamma", ("x",), {"T": FLOAT32})]
    nodes += [Node("b", "Digamma", ("a",), {"T": FLOAT32}), Node("c", "Digamma", ("b",), {"T": FLOAT32})]
    tfsmith.save(graph_model(*nodes), tmp_path / "g.pb")
    with pytest.raises(UnsupportedError) as caught:
        tfsmith.convert(tmp_path / "g.pb", tmp_path / "g.onnx", outputs=["c"])
    assert "Lgamma (a): it has no lowering; Digamma (b, c): it has no lowering" in str(caught.value)
    assert not (tmp_path / "g.onnx").exists()
    found = tfsmith.check(tmp_path / "g.pb", "onnx", outputs=["c"])
    assert [(one.subject, one.nodes) for one in found.obstacles] == [("Lgamma", ("a",)), ("Digamma", ("b", "c"))]
    assert main(["check", str(tmp_path / "g.pb"), "--for", "onnx", "--outputs", "c"]) == 1
    assert "Digamma: it has no lowering: 2 nodes" in capsys.readouterr().out
    cut = tfsmith.convert(tmp_path / "g.pb", tmp_path / "cut.onnx", outputs=["c"], cut_at=["b:0"], map_ops={
        "Digamma": "my.domain:Psi"})  # fmt: skip
    assert cut.ops == {"my.domain:Psi": 1}
    with pytest.raises(UsageError, match="write OP=domain:Name"):
        tfsmith.convert(tmp_path / "g.pb", tmp_path / "x.onnx", outputs=["c"], map_ops={"Digamma": "Psi"})
    with pytest.raises(UsageError, match="the model has no op 'Nope'"):
        tfsmith.convert(tmp_path / "g.pb", tmp_path / "x.onnx", outputs=["c"], map_ops={"Nope": "a:B"})


def test_inputs_are_protected(tmp_path: Path) -> None:
    write_frozen(linear_regression(), tmp_path / "line.pb")
    (tmp_path / "line.onnx").write_bytes(b"there")
    with pytest.raises(OutputError, match="exists already"):
        tfsmith.convert(tmp_path / "line.pb", tmp_path / "line.onnx")
    assert (tmp_path / "line.onnx").read_bytes() == b"there"
    assert tfsmith.convert(tmp_path / "line.pb", tmp_path / "line.onnx", force=True)


def test_run_verify_and_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_frozen(bert_classifier(), tmp_path / "bert.pb")
    assert main(["convert", str(tmp_path / "bert.pb"), "-o", str(tmp_path / "bert.onnx"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["opset"] == 18
    output = next(iter(facts["outputs"]))
    found = tfsmith.run(tmp_path / "bert.onnx", "random")
    assert found.engine == "onnxruntime"
    assert numpy.allclose(found[output].sum(-1), 1)
    assert tfsmith.verify(tmp_path / "bert.pb", tmp_path / "bert.onnx")
    other = tmp_path / "other.onnx"
    model = onnx.load(tmp_path / "bert.onnx")
    weight = next(one for one in model.graph.initializer if one.name == "bert/pooler/dense/kernel")
    weight.raw_data = bytes(len(weight.raw_data))
    onnx.save(model, other)
    assert not tfsmith.verify(tmp_path / "bert.pb", other)
    with pytest.raises(UsageError, match="compares nodes of TensorFlow"):
        tfsmith.verify(tmp_path / "bert.pb", other, bisect=True)
    assert main(["show", str(tmp_path / "bert.onnx"), "--variables"]) == 0
    out = capsys.readouterr().out
    assert "ONNX, opset ai.onnx 18" in out
    assert "bert/pooler/dense/kernel" in out
    with pytest.raises(UsageError, match="of an ONNX file"):
        tfsmith.show(tmp_path / "bert.onnx", nodes=True)


@pytest.mark.parametrize("data", [b"", b"no", bytes(range(256)), b"\x08\x08:\x05", b"\x08\x08B\x02\x10\x12:\xff\x7f"])
def test_files_that_are_no_onnx(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(data)
    for verb in (tfsmith.show, tfsmith.run):
        with pytest.raises(TfsmithError):
            verb(path)


def test_weights_beside_the_model(tmp_path: Path) -> None:
    write_frozen(bert_classifier(), tmp_path / "bert.pb")
    assert tfsmith.convert(tmp_path / "bert.pb", tmp_path / "b.onnx", external_data="always", verify=True)
    data = tmp_path / "b.onnx.data"
    assert data.is_file()
    placed = [
        int(entry.value)
        for tensor in onnx.load(tmp_path / "b.onnx", load_external_data=False).graph.initializer
        for entry in tensor.external_data
        if entry.key == "offset"
    ]
    assert placed
    assert all(offset % 4096 == 0 for offset in placed)
    assert tfsmith.verify(tmp_path / "bert.pb", tmp_path / "b.onnx")
    assert tfsmith.convert(tmp_path / "bert.pb", tmp_path / "b.onnx", force=True)
    assert not data.exists()  # the new file has its weights inside


def test_over_two_gigabytes_are_refused_without_a_file_beside(tmp_path: Path) -> None:
    weights = {"w": FilledTensor(FLOAT32, Shape((1 << 15, 1 << 15)), bytes(4))}
    with pytest.raises(LimitError, match="over protobuf's 2 GiB"):
        write_onnx(tmp_path / "a.onnx", b"", b"", weights, "never")


def test_over_two_gigabytes_lie_beside_and_run(tmp_path: Path) -> None:
    """Written once: zeros, of which the disk keeps little; onnxruntime maps them and gathers the last rows."""
    rows, width = 70_000, 8192
    table = FilledTensor(FLOAT32, Shape((rows, width)), numpy.float32(0.5).tobytes())
    nodes = [placeholder("i", -1, kind=INT32), constant("zero", 0), constant("small", [1.0], FLOAT32)]
    nodes += [Node("table", "Const", (), {"dtype": FLOAT32, "value": Attr("tensor", table)})]
    nodes += [Node("y", "GatherV2", ("table", "i", "zero"), {"Tparams": FLOAT32, "Tindices": INT32, "Taxis": INT32})]
    nodes += [Node("z", "AddV2", ("y", "small"), {"T": FLOAT32})]
    done = tfsmith.convert(graph_model(*nodes), tmp_path / "large.onnx", outputs=["z"])
    assert done.weights[1] > 1 << 31
    data = tmp_path / "large.onnx.data"
    assert data.stat().st_size >= rows * width * 4
    assert (tmp_path / "large.onnx").stat().st_size < 4096
    placed = {
        entry.key: entry.value
        for tensor in onnx.load(tmp_path / "large.onnx", load_external_data=False).graph.initializer
        for entry in tensor.external_data
    }
    assert placed["location"] == "large.onnx.data"
    assert int(placed["offset"]) % (1 << 16) == 0
    with OnnxSession(tmp_path / "large.onnx") as session:
        found = session.run({"i": numpy.array([0, rows - 1], numpy.int32)})["z"]
    data.unlink()
    assert found.shape == (2, width)
    assert (found == 1.5).all()


@pytest.mark.parametrize("opset", range(18, 24))
def test_every_opset(opset: int, tmp_path: Path) -> None:
    """Valid, complete and right: a BERT, images, and a loop."""
    write_frozen(conv_net(), tmp_path / "net.pb")
    write_frozen(bert_classifier(), tmp_path / "bert.pb")
    recurrent = tmp_path / "gru.pb"
    recurrent.write_bytes(lzma.decompress((ENCODERS.parent / "recurrent/keras-gru-tagger.pb.xz").read_bytes()))
    for path in (tmp_path / "net.pb", tmp_path / "bert.pb", recurrent):
        out = tmp_path / f"{path.stem}.onnx"
        done = tfsmith.convert(path, out, opset=opset, verify=True)
        assert done
        assert done.opset == opset
        onnx.checker.check_model(out, full_check=True)
        inferred = onnx.shape_inference.infer_shapes(onnx.load(out), strict_mode=True, data_prop=True)
        assert all(value.type.tensor_type.HasField("shape") for value in inferred.graph.output)


def test_tables(tmp_path: Path) -> None:
    """A vocabulary that lies in an asset becomes a LabelEncoder; words that it lacks are what they were."""
    vocabulary = Path(__file__).parents[1] / "docs/files/vocabulary"
    done = tfsmith.convert(vocabulary, tmp_path / "v.onnx", verify=True)
    assert done.ops["ai.onnx.ml:LabelEncoder"] == 1
    onnx.checker.check_model(tmp_path / "v.onnx", full_check=True)
    words = [*(vocabulary / "assets/words.txt").read_text().split(), "nowhere"]
    ours = tfsmith.run(vocabulary, {"words": words}, engine="reference")["vectors"]
    assert len(numpy.unique(ours, axis=0)) > 1
    assert (tfsmith.run(tmp_path / "v.onnx", {"words": words})["vectors"] == ours).all()


def test_examples_are_cut_off(tmp_path: Path) -> None:
    """ONNX parses no protobuf: it says so, and what it gives becomes an input."""
    string = dtype_named("string")
    nodes = [placeholder("serialized", -1, kind=string), constant("names", [], string), constant("key", b"x", string)]
    columns = {"Nsparse": 0, "Ndense": 1, "Tdense": (FLOAT32,), "dense_shapes": (Shape((3,)),)}
    attrs = {**columns, "sparse_types": Attr("list(type)", ())}
    nodes += [
        constant("none", [], FLOAT32),
        Node("parse", "ParseExample", ("serialized", "names", "key", "none"), attrs),
    ]
    nodes += [Node("y", "Relu", ("parse",), {"T": FLOAT32})]
    with pytest.raises(UnsupportedError, match=r"ParseExample \(parse\): .*cut there") as caught:
        tfsmith.convert(graph_model(*nodes), tmp_path / "e.onnx", outputs=["y"])
    assert len(str(caught.value)) < 300
    done = tfsmith.convert(graph_model(*nodes), tmp_path / "e.onnx", outputs=["y"], cut_at=["parse:0"], verify=True)
    assert done.inputs == {"parse:0": "float32 [batch, 3]"}


def test_ops_that_tensorflow_does_not_have_stay_with_a_warning(tmp_path: Path) -> None:
    """As nodes of a domain of their own, with their attributes; `map_ops` gives them another name, without a word."""
    kind = (AttrDef("T", "type"), AttrDef("times", "int"))
    own = OpDef("Mish2", (ArgDef("x", type_attr="T"),), (ArgDef("y", type_attr="T"),), kind)
    nodes = (placeholder("x", -1, 3), Node("m", "Mish2", ("x",), {"T": FLOAT32, "times": 2}))
    graph = Graph(nodes, Versions(1000), ops=lambda name: own if name == "Mish2" else builtin_op(name))
    model = Model("graphdef", (MetaGraph(Part.of(graph)),))
    done = tfsmith.convert(model, tmp_path / "own.onnx", outputs=["m"])
    assert done.ops == {"tensorflow:Mish2": 1}
    assert [note for note in done.notes if "it stays as tensorflow:Mish2" in note]
    (node,) = onnx.load(tmp_path / "own.onnx").graph.node
    assert {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute} == {"T": 1, "times": 2}
    done = tfsmith.convert(model, tmp_path / "mapped.onnx", outputs=["m"], map_ops={"Mish2": "com.me:Mish"})
    assert dict(done.ops) == {"com.me:Mish": 1}
    assert not [note for note in done.notes if "Mish" in note]
    assert [note for note in done.notes if "the rank of output 'm' is not known" in note]


def test_many_ops_without_a_form_fit_one_line(tmp_path: Path) -> None:
    """As many names as there is room for, and how many more; nothing is cut in the middle."""
    ops = [
        "Lgamma",
        "Digamma",
        "BesselI0e",
        "BesselI1e",
        "BesselK0e",
        "Ndtri",
        "BesselI0",
        "BesselI1",
        "Dawsn",
        "Expint",
    ]
    ops += [
        "Spence",
        "FresnelCos",
        "FresnelSin",
        "BesselK0",
        "BesselK1",
        "BesselJ0",
        "BesselJ1",
        "BesselY0",
        "BesselY1",
    ]
    nodes = [placeholder("x", -1, 3)]
    for number, op in enumerate(ops):
        nodes.append(Node(f"a_name_as_long_as_they_are/{number}", op, (nodes[-1].name,), {"T": FLOAT32}))
    with pytest.raises(UnsupportedError) as caught:
        tfsmith.convert(graph_model(*nodes), tmp_path / "m.onnx", outputs=[nodes[-1].name])
    text = str(caught.value)
    assert len(text) < 300
    assert "[...]" not in text
    assert "Lgamma, Digamma, BesselI0e" in text
    assert "ops more (19 nodes)" in text
    assert "lists nodes and reasons" in text


def test_fourier_transforms(tmp_path: Path) -> None:
    """Complex numbers are two tensors between what makes them and what makes real numbers of them."""
    kind = dtype_named("complex64")
    parts, whole = {"T": kind, "Tout": FLOAT32}, {"Treal": FLOAT32, "Tcomplex": kind}
    nodes = [placeholder("x", -1, 64), constant("n", [64]), Node("f", "RFFT", ("x", "n"), whole)]
    nodes += [Node("size", "ComplexAbs", ("f",), parts), Node("square", "Mul", ("f", "f"), {"T": kind})]
    nodes += [
        Node("back", "IRFFT", ("square", "n"), whole),
        Node("c", "Complex", ("x", "x"), {"T": FLOAT32, "Tout": kind}),
    ]
    nodes += [Node("there", "FFT", ("c",), {"Tcomplex": kind}), Node("imaginary", "Imag", ("there",), parts)]
    for opset in (18, 20):
        out = tmp_path / f"{opset}.onnx"
        outputs = ["size", "back", "imaginary"]
        assert tfsmith.convert(graph_model(*nodes), out, outputs=outputs, opset=opset, verify=True)
        onnx.checker.check_model(out, full_check=True)
    with pytest.raises(UnsupportedError, match="no form in ONNX"):
        tfsmith.convert(graph_model(*nodes), tmp_path / "c.onnx", outputs=["f"])


def test_a_later_opset_is_named(tmp_path: Path) -> None:
    nodes = [placeholder("x", -1, kind=dtype_named("string"))]
    nodes += [Node("y", "StringUpper", ("x",), {"encoding": b""})]
    nodes += [Node("z", "AddV2", ("y", "x"), {"T": dtype_named("string")})]
    with pytest.raises(UnsupportedError, match="opset=20"):
        tfsmith.convert(graph_model(*nodes), tmp_path / "s.onnx", outputs=["z"])
    tfsmith.convert(graph_model(*nodes), tmp_path / "s.onnx", outputs=["z"], opset=20)
    with OnnxSession(tmp_path / "s.onnx") as session:
        assert session.run({"x": numpy.array([b"abC"], object)})["z"].tolist() == [b"ABCabC"]


def test_asserts_stop_a_run(tmp_path: Path) -> None:
    nodes = [placeholder("x", 2), constant("zero", 0.0, FLOAT32), constant("axis", [0])]
    nodes += [Node("least", "Min", ("x", "axis"), {"T": FLOAT32, "Tidx": INT32})]
    nodes += [Node("is_right", "Greater", ("least", "zero"), {"T": FLOAT32})]
    nodes += [Node("check", "Assert", ("is_right", "x"), {"T": (FLOAT32,)})]
    nodes += [Node("y", "Sqrt", ("x", "^check"), {"T": FLOAT32})]
    tfsmith.convert(graph_model(*nodes), tmp_path / "a.onnx", outputs=["y"])
    onnx.checker.check_model(tmp_path / "a.onnx", full_check=True)
    with OnnxSession(tmp_path / "a.onnx") as session:
        assert session.run({"x": numpy.array([4, 9], numpy.float32)})["y"].tolist() == [2, 3]
        with pytest.raises(EngineError):
            session.run({"x": numpy.array([4, -9], numpy.float32)})


def test_bfloat16_runs(tmp_path: Path) -> None:
    kind = dtype_named("bfloat16")
    nodes = [placeholder("x", -1, kind=kind), Node("y", "Exp", ("x",), {"T": kind})]
    assert tfsmith.convert(graph_model(*nodes), tmp_path / "b.onnx", outputs=["y"], verify=True)


def test_one_hot_of_what_is_out_of_range(tmp_path: Path) -> None:
    """ONNX' own op counts from behind; TensorFlow gives zeros."""
    nodes = [placeholder("x", -1, kind=INT32), constant("d", 3), constant("on", 1.0, FLOAT32)]
    nodes += [constant("off", 0.0, FLOAT32)]
    nodes += [Node("y", "OneHot", ("x", "d", "on", "off"), {"T": FLOAT32, "TI": INT32, "axis": -1})]
    tfsmith.convert(graph_model(*nodes), tmp_path / "o.onnx", outputs=["y"])
    with OnnxSession(tmp_path / "o.onnx") as session:
        found = session.run({"x": numpy.array([-1, 0, 3, 2], numpy.int32)})["y"]
    assert found.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1]]


NOTED = {"MaxPool", "MaxPool3D", "MaxPoolWithArgmax"}
"""Ops with a warning when they are converted: runtimes make other numbers of NaN."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", ["arrays", "boxes", "convolution", "elementwise", "flow", "indices", "matrices", "nn", "pooling",
               "reductions", "resize", "colors", "counts", "diagonals", "quantize", "sparse", "strings"]
)  # fmt: skip
def test_conformance(family: str) -> None:
    """Each lowering gives TensorFlow's answers on onnxruntime, or is refused; what TensorFlow refuses fails, too."""
    compute = engine_compute("onnx")
    wrong: list[str] = []
    equal = 0
    for samples in samples_of(family):
        if samples.family != family or samples.op not in lowerings():
            continue
        answers = load_answers(family).by_digest
        for case in samples.cases():
            answer = answers[digest(case)]
            kind, reason = check_case(case, answer, for_engines(samples.tolerance), compute)
            equal += kind == "equal"
            if kind == "wrong" and samples.op not in NOTED:
                wrong.append(f"{case}: {reason}")
    assert equal > 8
    assert wrong == []
