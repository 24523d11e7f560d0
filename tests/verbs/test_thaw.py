"""Thawing without TensorFlow: which constants, under which names, what is refused; freezing gives back the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.helpers import attr_value, const_node, files_of, graph_def, node_def, unknown

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import NotFoundInModelError, UsageError
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Function, FunctionParts, Graph, Library
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.node import Node
from tfsmith.ir.opdef import ArgDef, OpDef
from tfsmith.ir.tensor import ArrayTensor, FilledTensor, SpanTensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.testing.models import bert_classifier, conv_net
from tfsmith.testing.write import write_checkpoint_files, write_frozen
from tfsmith.wire import parse

FLOAT, INT = dtype_named("float32"), dtype_named("int32")


def const(name: str, shape: Sequence[int], kind: str = "float32", inputs: tuple[str, ...] = (), **attrs: Any) -> Node:
    count = int(np.prod(shape))
    value = ArrayTensor.of(np.arange(count).reshape(shape), dtype_named(kind))
    return Node(name, "Const", inputs, {"dtype": dtype_named(kind), "value": value, **attrs})


def identity(name: str, *inputs: str, **attrs: Any) -> Node:
    return Node(name, "Identity", inputs, {"T": FLOAT, **attrs})


def mul(name: str, *inputs: str) -> Node:
    return Node(name, "Mul", inputs, {"T": FLOAT})


X = Node("x", "Placeholder", (), {"dtype": FLOAT, "shape": Shape((-1, 40))})
Y = mul("y", "x", "last")


def model_of(*nodes: Node, library: Library | None = None) -> Model:
    """A graph x -> these nodes, of which the one called `last` -> y."""
    return Model("graphdef", (MetaGraph(Part.of(Graph((X, *nodes, Y), library=library))),))


def thawed(model: Model, **options: Any) -> list[str]:
    return sorted(tfsmith.thaw(model, **options).model.variables)


SEVERAL = model_of(
    const("large", (40, 40)),
    const("bias", (40,)),
    identity("bias/read", "bias"),
    const("scale", ()),
    const("ids", (2000,), "int32"),
    Node("wide", "Cast", ("ids",), {"SrcT": INT, "DstT": FLOAT}),
    const("step", (), "int64"),
    Node("step/read", "Identity", ("step",), {"T": dtype_named("int64")}),
    Node("past", "Cast", ("step/read",), {"SrcT": dtype_named("int64"), "DstT": FLOAT}),
    Node("sum", "AddN", ("large", "bias/read", "wide", "past"), {"T": FLOAT, "N": 4}),
    Node("last", "Mul", ("sum", "scale"), {"T": FLOAT}),
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["bias", "large", "step"]),
        ({"min_elements": 1024}, ["large"]),
        ({"min_elements": 40}, ["bias", "large"]),
        ({"min_elements": 0}, ["bias", "large", "scale", "step"]),
        ({"only": ("*",)}, ["bias", "ids", "large", "step"]),
        ({"only": ("ids", "scale")}, ["ids", "scale"]),
        ({"only": ("b*", "l*")}, ["bias", "large"]),
        ({"only": ("*",), "min_elements": 41}, ["ids", "large"]),
        ({"excluded": ("l*", "step")}, ["bias"]),
    ],
)
def test_which_constants(options: dict[str, Any], expected: list[str]) -> None:
    assert thawed(SEVERAL, **options) == expected


def test_the_node_keeps_its_name_and_place() -> None:
    graph = tfsmith.thaw(SEVERAL).model.graph
    assert [node.name for node in graph][: len(SEVERAL.graph)] == [node.name for node in SEVERAL.graph]
    variable = graph["large"]
    assert (variable.op, variable.inputs) == ("VarHandleOp", ())
    assert variable.get("dtype") == FLOAT
    assert variable.get("shape") == Shape((40, 40))
    assert variable.get("shared_name") == b"large"
    assert "value" not in variable.attrs
    assert graph["sum"].inputs == ("large/Read/ReadVariableOp", "bias/read", "wide", "past")
    assert graph["bias/read"].op == graph["large/Read/ReadVariableOp"].op == "ReadVariableOp"
    assert graph["large/Assign"].inputs == ("large", "large/Initializer/zeros")
    assert graph["large/IsInitialized/VarIsInitializedOp"].inputs == ("large",)
    assert graph["init"].inputs == ("^large/Assign", "^bias/Assign", "^step/Assign")


def test_no_value_is_read(tmp_path: Path) -> None:
    write_frozen(bert_classifier(length=8), tmp_path / "frozen.pb")
    model = tfsmith.load(tmp_path / "frozen.pb")
    result = tfsmith.thaw(model).model
    assert isinstance(model.graph["bert/pooler/dense/kernel"].get("value"), SpanTensor)
    for name, tensor in result.variables.items():
        assert tensor is model.graph[name].get("value")


@pytest.mark.parametrize("kind", ["ref", "resource"])
@pytest.mark.parametrize("build", [bert_classifier, conv_net])
def test_the_checkpoint_has_what_the_original_had(build: Any, kind: str, tmp_path: Path) -> None:
    """Every variable that the outputs need comes back, the smallest too, and freezing gives the same bytes."""
    original = build(variables=kind)
    prefix = write_checkpoint_files(original, tmp_path / "training")
    frozen = tfsmith.freeze(tfsmith.load(prefix), original.output_nodes).model
    tfsmith.save(frozen, tmp_path / "frozen.pb")
    tfsmith.save(tfsmith.thaw(tfsmith.load(tmp_path / "frozen.pb")).model, tmp_path / "out")
    result = tfsmith.load(tmp_path / "out")
    assert set(result.variables) == set(original.model.variables)
    for name, tensor in original.model.variables.items():
        np.testing.assert_array_equal(result.variables[name].numpy(), tensor.numpy())
    tfsmith.verify_checksums(result)
    tfsmith.save(tfsmith.freeze(result).model, tmp_path / "again.pb")
    assert (tmp_path / "again.pb").read_bytes() == (tmp_path / "frozen.pb").read_bytes()


def message_of(model: Model, path: Path) -> Any:
    tfsmith.save(model, path, format="pb")
    return parse("GraphDef", path.read_bytes())


def test_freezing_gives_back_every_attribute_device_and_edge(tmp_path: Path) -> None:
    """Also what freezing itself never leaves behind."""
    place = (b"loc:@w",)
    shapes = (Shape((40,)),)
    plain = model_of(
        Node(*("w", "Const"), (), const("w", (40,), _output_shapes=shapes, _mine=7).attrs, "/device:CPU:0"),
        Node("w/read", "Identity", ("w:0", "^x"), {"T": FLOAT, "_class": place, "_output_shapes": shapes}, "/cpu:0"),
        identity("other/ReadVariableOp", "w", _class=place),
        const("v", (2000,)),
        identity("waits", "x", "^v"),
        Node("big", "Sum", ("v:0", "axis"), {"T": FLOAT, "Tidx": INT, "keep_dims": False}),
        const("axis", (1,), "int32"),
        Node("last", "AddN", ("w/read", "other/ReadVariableOp", "big", "waits"), {"T": FLOAT, "N": 4}),
    )
    before = message_of(plain, tmp_path / "before.pb")
    assert thawed(plain) == ["v", "w"]
    result = tfsmith.thaw(plain).model
    assert message_of(tfsmith.freeze(result).model, tmp_path / "after.pb") == before
    tfsmith.save(result, tmp_path / "out")
    loaded = tfsmith.load(tmp_path / "out")
    assert loaded.graph["w"].get("_output_shapes") == (Shape(()),)  # of a handle; TensorFlow compares
    assert loaded.graph["w"].device == "/device:CPU:0"
    assert loaded.graph["big"].inputs == ("v/Read/ReadVariableOp:0", "axis")
    assert loaded.graph["waits"].inputs == ("x", "^v")
    assert message_of(tfsmith.freeze(loaded).model, tmp_path / "again.pb") == before


def test_freezing_gives_back_unknown_fields(tmp_path: Path) -> None:
    nodes = [
        node_def("x", "Placeholder", attrs={"dtype": attr_value(type=1)}),
        const_node("w", [1.0, 2.0], extra=unknown("const")),
        node_def("w/read", "Identity", ["w"], {"T": attr_value(type=1)}, extra=unknown("read")),
        node_def("y", "Mul", ["x", "w/read"], {"T": attr_value(type=1)}),
    ]
    model = tfsmith.load(graph_def(nodes, extra=unknown("graph")))
    again = tfsmith.freeze(tfsmith.thaw(model).model).model
    assert message_of(again, tmp_path / "again.pb") == message_of(model, tmp_path / "model.pb")


def test_what_stays_a_variable_keeps_its_reads() -> None:
    frozen = tfsmith.freeze(tfsmith.thaw(SEVERAL).model, excluded=["large"]).model
    assert frozen.graph["large"].op == "VarHandleOp"
    assert frozen.graph["large/Read/ReadVariableOp"].op == "ReadVariableOp"
    assert frozen.graph["sum"].inputs[0] == "large/Read/ReadVariableOp"
    assert frozen.graph["bias"].op == "Const"


def test_a_read_that_is_an_output_stays() -> None:
    frozen = tfsmith.freeze(tfsmith.thaw(SEVERAL).model, ["large/Read/ReadVariableOp", "sum"]).model
    assert frozen.graph["large/Read/ReadVariableOp"].op == "Identity"
    assert frozen.graph["sum"].inputs[0] == "large/Read/ReadVariableOp"


def test_names_that_clash_give_way() -> None:
    taken = [f"w/{name}" for name in ("Assign", "Read/ReadVariableOp", "Initializer/zeros")]
    model = model_of(
        const("w", (40, 40)),
        *(identity(name, "x") for name in taken),
        mul("init", "x", "w"),
        mul("save/Const", "init", "w"),
        Node("last", "AddN", ("save/Const", *taken), {"T": FLOAT, "N": 4}),
    )
    result = tfsmith.thaw(model).model
    graph = result.graph
    assert all(graph[name].op == "Identity" for name in taken)
    (definition,) = result.get_collection("variables")
    assert isinstance(definition, Mapping)
    assert definition["initializer_name"] == "w/Assign_1"
    assert definition["snapshot_name"] == "w/Read/ReadVariableOp_1:0"
    assert definition["initial_value_name"] == "w/Initializer/zeros_1:0"
    assert graph["init_1"].op == "NoOp"
    assert result.meta.saver is not None
    assert result.meta.saver.restore_op_name == "save_1/restore_all"
    frozen = tfsmith.freeze(result).model
    assert [(node.name, node.op, node.inputs) for node in frozen.graph] == [
        (node.name, node.op, node.inputs) for node in model.graph
    ]


def test_what_cannot_be_a_variable_stays_and_is_told() -> None:
    model = model_of(
        const("w", (2000,)),
        const("inside", (2000,), inputs=("^x",)),
        const("answer", (2000,)),
        const("idle", (2000,)),
        identity("after", "x", "^idle"),
        Node("last", "AddN", ("w", "inside", "answer", "after"), {"T": FLOAT, "N": 4}),
    )
    asked = {"serving_default": ({"x": "x:0"}, {"y": "y:0", "answer": "answer:0"})}
    report = tfsmith.thaw(model, signatures=asked)
    assert list(report.variables) == ["w"]
    (note,) = report.notes
    assert note.nodes == ("inside", "answer")
    assert report.model.graph["answer"].op == report.model.graph["idle"].op == "Const"
    with pytest.raises(UsageError, match=r"nothing to thaw: 'inside' waits for other nodes"):
        tfsmith.thaw(model, only=["inside"])


def test_large_constants_without_a_sign_are_told() -> None:
    (note,) = tfsmith.thaw(SEVERAL).notes
    assert note.nodes == ("large",)
    assert "{excluded}" in note.remedy
    assert tfsmith.thaw(SEVERAL, excluded=("large",)).notes == ()


def gather(*, late: bool) -> Model:
    axis = const("rows/axis", (), "int32")
    rows = Node("rows", "GatherV2", ("table", "ids", "rows/axis"), {"Tparams": FLOAT, "Tindices": INT, "Taxis": INT})
    ids = Node("ids", "Placeholder", (), {"dtype": INT, "shape": Shape((-1,))})
    last = identity("last", "rows")
    return model_of(const("table", (5, 4)), ids, *([rows, last, axis] if late else [axis, rows, last]))


def test_a_gather_that_got_its_axis_from_freezing() -> None:
    assert thawed(gather(late=True)) == ["table"]
    with pytest.raises(UsageError, match="nothing to thaw"):
        tfsmith.thaw(gather(late=False))


@pytest.mark.parametrize("op", ["Enter", "Switch"])
def test_reads_behind_control_flow(op: str) -> None:
    nodes = [const("w", (4,)), Node("on", op, ("w",), {"T": FLOAT}), identity("last", "on")]
    with pytest.raises(UsageError, match="nothing to thaw"):
        tfsmith.thaw(model_of(*nodes))
    nodes[2:] = [identity("loop/ReadVariableOp_1", "on"), identity("last", "loop/ReadVariableOp_1")]
    result = tfsmith.thaw(model_of(*nodes)).model
    assert result.graph["on"].inputs == ("w/Read/ReadVariableOp",)
    assert tfsmith.freeze(result).model.graph["on"].inputs == ("w",)


def call(read: str) -> Model:
    """A call of a function that takes a small constant."""
    body = (identity(read, "arg"), Node("twice", "Add", (f"{read}:output:0",) * 2, {"T": FLOAT}))
    signature = OpDef("f", (ArgDef("arg", FLOAT),), (ArgDef("ret", FLOAT),))
    function = Function("f", Part.of(FunctionParts(signature, body, {"ret": "twice:z:0"})))
    return model_of(const("w", (4,)), Node("last", "f", ("w",)), library=Library({"f": function}))


def test_reads_inside_of_functions() -> None:
    assert thawed(call("ReadVariableOp")) == ["w"]
    with pytest.raises(UsageError, match="nothing to thaw"):
        tfsmith.thaw(call("copy"))


def test_constants_in_functions_have_another_remedy() -> None:
    body = (const("inner", (2000,)),)
    function = Function(
        "f", Part.of(FunctionParts(OpDef("f", (), (ArgDef("r", FLOAT),)), body, {"r": "inner:output:0"}))
    )
    model = model_of(Node("last", "f"), library=Library({"f": function}))
    with pytest.raises(UsageError, match=r"its constants are in functions: freeze it first"):
        tfsmith.thaw(model)


def test_statistics_are_not_trainable() -> None:
    norm = {"T": FLOAT, "U": FLOAT, "epsilon": 1e-3, "data_format": "NHWC", "is_training": False}
    names = ("gamma", "beta", "mu", "sigma")
    model = model_of(
        *(const(name, (40,)) for name in names),
        *(identity(f"{name}/read", name) for name in names),
        const("bn/moving_mean", (40,)),
        identity("bn/moving_mean/read", "bn/moving_mean"),
        Node("norm", "FusedBatchNormV3", ("x", *(f"{name}/read" for name in names)), norm),
        mul("last", "norm", "bn/moving_mean/read"),
    )
    report = tfsmith.thaw(model)
    assert set(report.variables) == {*names, "bn/moving_mean"}
    assert report.trainable == ("gamma", "beta")
    trainable = report.model.get_collection("trainable_variables")
    assert [found["variable_name"] for found in trainable if isinstance(found, Mapping)] == ["gamma:0", "beta:0"]
    assert tfsmith.thaw(SEVERAL).trainable == ("large", "bias")  # no integers


def partitioned(*names: str, axis: int = 1) -> Model:
    return model_of(
        *(const(name, (6, 4)) for name in names),
        *(identity(f"{name}/read", name) for name in names),
        const("axis", (), "int32").replace(attrs={"value": ArrayTensor.of(axis, INT)}),
        Node("last", "ConcatV2", (*(f"{name}/read" for name in names), "axis"), {"T": FLOAT, "Tidx": INT, "N": 2}),
    )


@pytest.mark.parametrize(("axis", "shape"), [(0, (12, 4)), (1, (6, 8)), (-1, (6, 8))])
def test_parts_of_a_partitioned_variable_are_one_tensor(axis: int, shape: tuple[int, int], tmp_path: Path) -> None:
    model = partitioned("w/part_0", "w/part_1", axis=axis)
    result = tfsmith.thaw(model).model
    assert {key: tensor.shape.dims for key, tensor in result.variables.items()} == {"w": shape}
    part = np.arange(24).reshape(6, 4)
    np.testing.assert_array_equal(result.variables["w"].numpy(), np.concatenate([part, part], axis))
    first, second = result.get_collection("variables")
    assert isinstance(second, Mapping)
    start = (0, 4) if axis else (6, 0)
    info = {"full_name": "w", "full_shape": shape, "var_offset": start, "var_shape": (6, 4)}
    assert second["save_slice_info_def"] == info
    tfsmith.save(result, tmp_path / "out")
    loaded = tfsmith.load(tmp_path / "out")
    assert loaded.get_collection("variables") == (first, second)
    before = message_of(model, tmp_path / "before.pb")
    assert message_of(tfsmith.freeze(loaded).model, tmp_path / "after.pb") == before


@pytest.mark.parametrize("names", [("w/part_0", "w/part_2"), ("w/part_1", "w/part_2"), ("w/part_0", "w")])
def test_what_only_looks_like_parts(names: tuple[str, str]) -> None:
    assert set(tfsmith.thaw(partitioned(*names)).model.variables) == set(names)


def test_a_filled_constant_of_any_shape(tmp_path: Path) -> None:
    """A few bytes may claim a size whose dimensions no int32 holds."""
    huge = Node("w", "Const", (), {"dtype": FLOAT, "value": FilledTensor(FLOAT, Shape((2**40,)), b"")})
    result = tfsmith.thaw(model_of(huge, mul("last", "x", "w"))).model
    assert result.graph["w/Initializer/zeros"].get("index_type").name == "int64"
    with pytest.raises(tfsmith.TfsmithError, match="a constant of a few values claims"):
        tfsmith.save(result, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_strange_constants_are_left_alone() -> None:
    strange = [
        Node("none", "Const", (), {"dtype": FLOAT}),
        Node("number", "Const", (), {"dtype": FLOAT, "value": 3}),
        Node("other", "Const", (), {"dtype": INT, "value": ArrayTensor.of(np.zeros(2000, np.float32))}),
    ]
    users = ("none", "number", "other", "w")
    model = model_of(*strange, const("w", (2000,)), Node("last", "AddN", users, {"T": FLOAT, "N": 4}))
    assert thawed(model) == ["w"]


def test_a_cycle_of_identities_ends() -> None:
    nodes = [const("w", (2000,)), identity("a", "w", "^b"), identity("b", "a"), identity("last", "b")]
    assert thawed(model_of(*nodes)) == ["w"]


@pytest.mark.parametrize("place", [(b"loc:@\xff",), (b"loc:@gone",), (7,), 7, b"loc:@x"])
def test_wishes_for_a_place_that_make_no_sense(place: Any) -> None:
    model = model_of(const("w", (2000,), _class=place), identity("w/read", "w"), identity("last", "w/read"))
    assert tfsmith.freeze(tfsmith.thaw(model).model).model.graph["w"].op == "Const"


# What the signature is


def test_the_signature_is_the_models_own_the_asked_one_or_the_likely_one() -> None:
    result = tfsmith.thaw(SEVERAL).model
    assert {key: info.name for key, info in result.signatures["serving_default"].outputs.items()} == {"y": "y:0"}
    asked = tfsmith.thaw(SEVERAL, inputs={"in": "x:0"}, outputs={"out": "sum"}, signature="other").model
    assert list(asked.signatures) == ["other"]
    assert asked.signatures["other"].outputs["out"].name == "sum:0"
    assert list(tfsmith.thaw(tfsmith.freeze(asked).model).model.signatures) == ["other"]
    with pytest.raises(NotFoundInModelError, match="no node 'summ'"):
        tfsmith.thaw(SEVERAL, outputs={"out": "summ"})


def test_a_meta_needs_no_signature() -> None:
    z = Node("z", "Softmax", ("last",), {"T": FLOAT})
    clear = model_of(const("w", (2000,)), mul("last", "x", "w"), z)
    assert list(tfsmith.thaw(clear).model.signatures["serving_default"].outputs) == ["z", "y"]
    unclear = model_of(const("w", (2000,)), const("stray", (1,)), mul("last", "x", "w"), z)
    with pytest.raises(UsageError, match=r"outputs='KEY=TENSOR'; likely outputs are: z:0 .*; y:0"):
        tfsmith.thaw(unclear)
    result = tfsmith.thaw(unclear, as_="meta").model
    assert (result.kind, result.signatures, result.meta.tags) == ("metagraph", {}, ())


# What is refused


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (SEVERAL, {"only": ("larg",)}, r"no constant of the graph is called 'larg'; the nearest names are large"),
        (SEVERAL, {"only": ("*", "v*")}, r"no constant of the graph is called 'v\*'"),
        (SEVERAL, {"excluded": ("bais*",)}, r"no constant .* is called 'bais\*'; the nearest names are bias,"),
        (SEVERAL, {"min_elements": 5000}, r"no constant has 5000 elements; the largest of floats is 'large' with 1600"),
        (
            SEVERAL,
            {"only": ("sca*",)},
            r"no constant has 1024 elements or was a variable; the largest .* 'scale' with 1",
        ),
        (SEVERAL, {"min_elements": -1}, r"min_elements=-1 cannot be"),
        (SEVERAL, {"excluded": ("*",)}, r"it has no constants of floats at all"),
        (model_of(identity("last", "x")), {}, r"it has no constants of floats at all; is this the right file\?"),
    ],
)
def test_nothing_to_thaw(model: Model, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tfsmith.thaw(model, **options)


def test_variables_that_are_there_already() -> None:
    with pytest.raises(UsageError, match=r"has 3 variables already, such as 'large'; .*`tfsmith\.export\(model\)`"):
        tfsmith.thaw(tfsmith.thaw(SEVERAL).model)
    checkpoint = Model("checkpoint", (), {"w": ArrayTensor.of([1.0])})
    with pytest.raises(NotFoundInModelError, match="no graph"):
        tfsmith.thaw(checkpoint)


# The command


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_frozen(bert_classifier(batch=1), tmp_path_factory.mktemp("bert") / "frozen.pb")


def test_the_command(frozen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["thaw", str(frozen), "-o", str(out)]) == 0
    assert capsys.readouterr().out == (
        f"Thawed 41 constants (5,618 elements) to variables in {out} (159.5 kB)\n"
        "signature serving_default: input_ids, input_mask, segment_ids -> output\n"
    )
    assert set(files_of(out)) == {
        "saved_model.pb",
        "variables/variables.data-00000-of-00001",
        "variables/variables.index",
    }
    assert main(["thaw", str(frozen), "-o", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    flags = ["--signature", "s", "--input", "ids=input_ids:0", "--input", "mask=input_mask", "--input"]
    flags += ["segments=segment_ids", "--output", "p=loss/output:0", "--only", "bert/*"]
    assert main(["thaw", str(frozen), "-o", str(out), "--force", "--json", "--shards", "2", *flags]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert set(facts) == {"output", "bytes", "variables", "trainable", "signatures", "assets", "warnings"}
    assert set(facts["signatures"]["s"]["inputs"]) == {"ids", "mask", "segments"}
    assert facts["variables"] == {name: name for name in facts["trainable"]}
    assert len(facts["variables"]) == 39
    assert len(list(out.glob("variables/*.data-*"))) == 2


def test_the_command_writes_a_meta(frozen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["thaw", str(frozen), "--as", "meta", "--min-elements", "100", "-o"]
    assert main([*arguments, str(tmp_path / "net.ckpt")]) == 0
    assert capsys.readouterr().out.endswith(f"{tmp_path / 'net.ckpt.meta'} (105.4 kB)\n")
    names = {"checkpoint", *(f"net.ckpt{end}" for end in (".meta", ".index", ".data-00000-of-00001"))}
    assert set(files_of(tmp_path)) == names
    model = tfsmith.load(tmp_path)
    assert all((tensor.shape.elements or 0) >= 100 for tensor in model.variables.values())
    assert model.graph["bert/pooler/dense/bias"].op == "Const"
    assert main([*arguments, str(tmp_path / "net.ckpt")]) == 2
    assert "net.ckpt.meta: the output exists already" in capsys.readouterr().err
    assert main([*arguments, str(tmp_path / "net.ckpt.meta"), "--force"]) == 0
    assert main([*arguments, str(tmp_path)]) == 0
    assert (tmp_path / "model.ckpt.meta").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "brt/*"], "no constant of the graph is called 'brt/*'"),
        (["--min-elements", "99999999"], "nothing to thaw"),
        (["--min-elements", "many"], "invalid int value"),
        (["--output", "loss/output"], "write KEY=TENSOR"),
        (["--input", "x=input_ids"], "signature 'serving_default' has no output"),
        (["--tag-set", "train"], "no meta graph with the tag set 'train'"),
        (["--as", "pb"], "invalid choice"),
    ],
)
def test_wrong_arguments(
    frozen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["thaw", str(frozen), "-o", str(tmp_path / "out"), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error
    assert not list(tmp_path.iterdir())
