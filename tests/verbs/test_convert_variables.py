"""Convert: fewer variables, other names, smaller types, in checkpoint and graph alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.support.convert_models import (
    BFLOAT,
    FLOAT,
    HALF,
    INT64,
    STRING,
    array,
    ops,
    saved_model,
    small,
    values_of,
    write_models,
)
from tests.support.helpers import MemorySink, files_of
from tests.support.table_files import bundle_entry, header, write_raw_bundle

import tfsmith
from tfsmith.errors import ChecksumError, LimitError, NotFoundInModelError, UnsupportedError, UsageError
from tfsmith.formats.checkpoint.writer import write_bundle
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import MetaGraph, Model, training_names
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import ArrayTensor, FilledTensor, Piece, SlicedTensor, SpanTensor, StringTensor, Tensor
from tfsmith.ir.tensor_views import CastTensor, cast_tensor
from tfsmith.ir.types import Shape
from tfsmith.passes.variables import restore_sources
from tfsmith.records import replace
from tfsmith.storage import crc32c, from_bytes, mask


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_models(tmp_path)


# Fewer variables


def test_inference_only(folder: Path) -> None:
    for source in ("m", "sm"):
        converted = tfsmith.convert(folder / "in" / source, folder / f"{source}.ckpt.meta", inference_only=True)
        assert converted.names == {"w/Adam": None, "global_step": None}
        model = tfsmith.load(folder / f"{source}.ckpt")
        assert values_of(folder / f"{source}.ckpt") == {"w": [1, 2]}
        assert {name: found.key for name, found in restore_sources(model.meta).items()} == {"w": "w"}
        assert not {"update", "w/Adam", "global_step/read"} & set(ops(model))
        assert model.graph["train"].inputs == ()
    tfsmith.convert(folder / "in" / "m", folder / "alone", as_="checkpoint", inference_only=True)
    assert values_of(folder / "alone") == {"w": [1, 2]}


def test_inference_only_with_nothing_to_leave_out(folder: Path) -> None:
    tfsmith.convert(folder / "in" / "sm", folder / "sm", inference_only=True)
    tfsmith.convert(folder / "sm", folder / "again", inference_only=True)
    assert files_of(folder / "again") == files_of(folder / "sm")


def test_a_step_that_an_answer_needs_stays(folder: Path) -> None:
    model = saved_model(serving_default="y:0", step="global_step/read:0")
    tfsmith.convert(model, folder / "out", inference_only=True)
    assert set(values_of(folder / "out")) == {"w", "global_step"}


@pytest.mark.parametrize(
    ("name", "others", "is_training"),
    [
        ("global_step", [], True),
        ("net/beta1_power", [], True),
        ("net/w/Adam_1", [], True),
        ("attention/v", [], False),
        ("attention/v", ["attention"], True),
        ("training/Adam/dense/kernel/v", [], True),
        ("optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE", [], True),
        ("w/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE", [], True),
        ("save_counter/.ATTRIBUTES/VARIABLE_VALUE", [], True),
        ("w/ExponentialMovingAverage", ["w"], False),
        ("global_step_embedding", [], False),
    ],
)
def test_names_of_training(name: str, others: list[str], is_training: bool) -> None:
    assert (name in training_names([name, *others])) is is_training


def test_drop(folder: Path) -> None:
    converted = tfsmith.convert(folder / "in" / "sm", folder / "sm", drop=("w*",))
    assert values_of(folder / "sm") == {"global_step": 7}
    assert "the answers need variables that were dropped: w" in str(converted.notes[0])
    with pytest.raises(NotFoundInModelError, match=r"there is no tensor 'v\*'"):
        tfsmith.convert(folder / "in" / "sm", folder / "x", drop=("v*",))
    with pytest.raises(UsageError, match=r"no variables here to rename or drop"):
        tfsmith.convert(Model("graphdef", (MetaGraph(Part.of(Graph(()))),)), folder / "x.pb", drop=("v",))
    assert not (folder / "x").exists()


def test_a_saver_of_tables_is_not_replaced(folder: Path) -> None:
    """It restores a table, which a saver of ours could not; but its names can change."""
    model = small()
    graph, saver = model.graph, model.meta.saver
    assert saver is not None
    names = Node(
        "t/names", "Const", (), {"dtype": STRING, "value": StringTensor(Shape((2,)), (b"t-keys", b"t-values"))}
    )
    slices = Node("t/slices", "Const", (), {"dtype": STRING, "value": StringTensor(Shape((2,)), (b"", b""))})
    read = Node("t/read", "RestoreV2", ("save/Const", "t/names", "t/slices"), {"dtypes": (STRING, INT64)})
    fill = Node("t/fill", "LookupTableImportV2", ("x", "t/read", "t/read:1"), {"Tin": STRING, "Tout": INT64})
    root = graph[saver.restore_op_name]
    graph = graph.map_nodes({root.name: root.replace(inputs=(*root.inputs, "^t/fill"))})
    graph = graph.replace(nodes=(*graph.nodes, names, slices, read, fill))
    tables: dict[str, Tensor] = {
        "t-keys": StringTensor(Shape((1,)), (b"a",)),
        "t-values": ArrayTensor.of(np.ones(1, np.int64)),
    }
    model = replace(model.replace_graph(graph), variables={**model.variables, **tables})
    with pytest.raises(UnsupportedError, match=r"also restores 't-keys', which is no variable.*as_='checkpoint'"):
        tfsmith.convert(model, folder / "x.meta", drop=("w/Adam",))
    tfsmith.convert(model, folder / "ok", as_="checkpoint", drop=("w/Adam",))
    tfsmith.convert(model, folder / "y.meta", rename=(("t-keys", "table/keys"),))
    renamed = tfsmith.load(folder / "y.meta")
    assert renamed.graph["t/names"].get("value").numpy().tolist() == [b"table/keys", b"t-values"]
    assert "table/keys" in renamed.variables


# Other names


def test_rename_changes_names_and_nothing_else(folder: Path) -> None:
    converted = tfsmith.convert(folder / "in" / "m", folder / "out.meta", rename=(("w", "v"), ("re:^w/", "v/")))
    assert converted.names == {"w": "v", "w/Adam": "v/Adam"}
    model = tfsmith.load(folder / "out")
    assert values_of(folder / "out") == {"v": [1, 2], "v/Adam": [3, 4], "global_step": 7}
    assert {name: found.key for name, found in restore_sources(model.meta).items()} == {
        "w": "v", "w/Adam": "v/Adam", "global_step": "global_step",
    }  # fmt: skip
    before = tfsmith.load(folder / "in" / "m").graph
    changed = [node.name for node in model.graph if node.raw is None or node.raw.tobytes() != _raw(before[node.name])]
    assert changed == ["save/SaveV2/tensor_names", "save/RestoreV2/tensor_names"]
    assert (folder / "out.data-00000-of-00001").read_bytes() == (folder / "in" / "m.data-00000-of-00001").read_bytes()


def _raw(node: Node) -> bytes:
    assert node.raw is not None
    return node.raw.tobytes()


def test_two_can_change_places(folder: Path) -> None:
    tfsmith.convert(folder / "in" / "m", folder / "out", rename=(("w", "w/Adam"), ("w/Adam", "w")))
    assert values_of(folder / "out") == {"w": [3, 4], "w/Adam": [1, 2], "global_step": 7}
    sources = restore_sources(tfsmith.load(folder / "out").meta)
    assert (sources["w"].key, sources["w/Adam"].key) == ("w/Adam", "w")


BAD_RULES: list[tuple[tuple[str, str], type[Exception], str]] = [
    (("ww", "v"), NotFoundInModelError, r"there is no tensor 'ww'; the nearest names are w"),
    (("re:^bert", "v"), NotFoundInModelError, r"the rule 're:\^bert' fits no tensor"),
    (("w", "global_step"), UsageError, r"two tensors would be called 'global_step': '.*' and '.*'"),
    (("re:^.*$", "all"), UsageError, r"two tensors would be called 'all'"),
    (("re:^w$", ""), UsageError, r"tensor 'w' would have no name"),
    (("re:(", "v"), UsageError, r"'\(' is no regular expression"),
    (("re:w", r"\2"), UsageError, r"cannot take the place of what 'w' finds"),
]


@pytest.mark.parametrize(("rule", "error", "words"), BAD_RULES)
def test_rules_that_do_not_work(folder: Path, rule: tuple[str, str], error: type[Exception], words: str) -> None:
    before = files_of(folder)
    with pytest.raises(error, match=words):
        tfsmith.convert(folder / "in" / "m", folder / "out", rename=(rule,))
    assert files_of(folder) == before


def test_slices_keep_their_form(tmp_path: Path) -> None:
    """A partitioned variable stays one, renamed and made small; the index alone changes for a name."""
    from tfsmith.formats.checkpoint.bundle import StoredSlices, open_bundle

    pieces = (Piece((0,), array(1, 2)), Piece((2,), array(3)))
    whole = StoredSlices(FLOAT, Shape((3,)), pieces, "w", (((0, 2),), ((2, 1),)))
    write_bundle(tmp_path / "m", {"w": whole, "b": array(5)})
    tfsmith.convert(tmp_path / "m", tmp_path / "n.ckpt", rename=(("w", "v"),))
    assert (tmp_path / "n.ckpt.data-00000-of-00001").read_bytes() == (tmp_path / "m.data-00000-of-00001").read_bytes()
    tfsmith.convert(tmp_path / "n.ckpt", tmp_path / "h.ckpt", dtype="float16")
    for prefix, kind in (("n.ckpt", "float32"), ("h.ckpt", "float16")):
        found = open_bundle(tmp_path / prefix)["v"]
        assert isinstance(found, StoredSlices)
        assert found.extents == (((0, 2),), ((2, 1),))
        assert (found.dtype.name, found.numpy().tolist()) == (kind, [1, 2, 3])


def test_other_byte_order(tmp_path: Path) -> None:
    """A name changes the index alone, which must still say that the values are big-endian."""
    data = np.array([1, 2], ">f4").tobytes()
    write_raw_bundle(tmp_path / "m", {b"w": bundle_entry(1, [2], data)}, [data], header(big_endian=True))
    tfsmith.convert(tmp_path / "m", tmp_path / "n.ckpt", rename=(("w", "v"),))
    assert (tmp_path / "n.ckpt.data-00000-of-00001").read_bytes() == data
    assert values_of(tmp_path / "n.ckpt") == {"v": [1, 2]}
    tfsmith.convert(tmp_path / "n.ckpt", tmp_path / "h.ckpt", dtype="float16")
    assert values_of(tmp_path / "h.ckpt") == {"v": [1, 2]}


# Other types


def test_casting_streams_and_rounds_as_numpy_does() -> None:
    values = np.random.default_rng(0).standard_normal(300_001).astype(np.float32)
    values[:4] = (np.nan, np.inf, -np.inf, -0.0)
    source = SpanTensor(FLOAT, Shape((300_001,)), from_bytes(values.tobytes()))
    for kind, numpy_kind in ((HALF, np.float16), (BFLOAT, ml_dtypes.bfloat16)):
        tensor = CastTensor(kind, source)
        assert tensor.nbytes == 600_002
        parts = list(tensor.parts())
        assert len(parts) > 3
        wanted = values.astype(numpy_kind)
        assert b"".join(part for part in parts if isinstance(part, bytes)) == wanted.tobytes()
        sink = MemorySink()
        tensor.write_to(sink)
        assert sink.data == wanted.tobytes()
        assert tensor.numpy().tobytes() == wanted.tobytes()
    assert CastTensor(HALF, ArrayTensor.of(np.float32(2.5))).numpy().tolist() == 2.5


def test_values_that_do_not_fit() -> None:
    source = array(1, -70000, 65519, np.inf)
    with pytest.raises(
        LimitError, match=r"tensor 'w': the value -70000 does not fit into float16.*65504.*saturate=True"
    ):
        list(CastTensor(HALF, source, "tensor 'w'").parts())
    with pytest.raises(LimitError, match="does not fit"):
        CastTensor(HALF, source).numpy()
    clipped = CastTensor(HALF, source, saturate=True)
    assert clipped.numpy().tolist() == [1, -65504, 65504, np.inf]
    assert CastTensor(BFLOAT, array(70000)).numpy().astype(np.float32).tolist() == [70144]
    largest = array(np.finfo(np.float32).max)
    with pytest.raises(LimitError, match="does not fit into bfloat16"):
        CastTensor(BFLOAT, largest).numpy()
    assert np.isfinite(CastTensor(BFLOAT, largest, saturate=True).numpy().astype(np.float32)).all()


def test_few_values_stay_few_and_slices_slices() -> None:
    filled = cast_tensor(FilledTensor(FLOAT, Shape((1000, 1000)), np.array([1, 2], np.float32).tobytes()), HALF, "c")
    assert isinstance(filled, FilledTensor)
    assert filled.values == np.array([1, 2], np.float16).tobytes()
    assert cast_tensor(FilledTensor(FLOAT, Shape((3,)), b""), HALF, "c").numpy().tolist() == [0, 0, 0]
    sliced = cast_tensor(SlicedTensor(FLOAT, Shape((2,)), (Piece((1,), array(2)), Piece((0,), array(1)))), HALF, "s")
    assert isinstance(sliced, SlicedTensor)
    assert sliced.numpy().tolist() == [1, 2]
    assert (
        b"".join(part for part in sliced.parts() if isinstance(part, bytes)) == np.array([1, 2], np.float16).tobytes()
    )


def test_what_is_damaged_is_not_cast() -> None:
    data = np.array([1, 2], np.float32).tobytes()
    good = SpanTensor(FLOAT, Shape((2,)), from_bytes(data), mask(crc32c(data)))
    assert list(CastTensor(HALF, good).parts()) == [np.array([1, 2], np.float16).tobytes()]
    bad = SpanTensor(FLOAT, Shape((2,)), from_bytes(data[::-1]), mask(crc32c(data)))
    with pytest.raises(ChecksumError):
        list(CastTensor(HALF, bad).parts())


def test_weights_in_a_graph(folder: Path) -> None:
    options: dict[str, Any] = {"inference_only": True, "dtype": "bfloat16"}
    converted = tfsmith.convert(folder / "in" / "sm", folder / "sm", **options)
    assert converted.cast == ("w",)
    model = tfsmith.load(folder / "sm")
    assert model.variables["w"].dtype == BFLOAT
    assert model.graph["w"].get("dtype") == BFLOAT
    read = model.graph["w/read"]
    assert (read.op, read.get("SrcT"), read.get("DstT")) == ("Cast", BFLOAT, FLOAT)
    assert model.graph["y"].raw is not None
    assert model.graph["y"].inputs == ("x", "w/read")


def test_constants_of_a_frozen_graph(folder: Path) -> None:
    large = ArrayTensor.of(np.arange(20, dtype=np.float32))
    nodes = (
        Node("large", "Const", (), {"dtype": FLOAT, "value": large}),
        Node("large/read", "Identity", ("large",), {"T": FLOAT}),
        Node("epsilon", "Const", (), {"dtype": FLOAT, "value": array(1e-12)}),
        Node("zeros", "Const", (), {"dtype": FLOAT, "value": FilledTensor(FLOAT, Shape((20,)), b"")}),
        Node("a", "Add", ("large/read", "large"), {"T": FLOAT}),
        Node("b", "Add", ("large:0", "epsilon"), {"T": FLOAT}),
    )
    model = Model("graphdef", (MetaGraph(Part.of(Graph(nodes))),))
    tfsmith.convert(model, folder / "h.pb", dtype="float16")
    found = tfsmith.load(folder / "h.pb").graph
    assert found["large"].get("dtype") == HALF
    assert found["large"].get("value").numpy().tolist() == list(range(20))
    assert (found["large/read"].op, found["large/float32"].op) == ("Cast", "Cast")
    assert found["large/float32"].inputs == ("large",)
    assert found["a"].inputs == ("large/read", "large/float32")
    assert found["b"].inputs == ("large/float32", "epsilon")
    assert found["epsilon"].get("dtype") == FLOAT
    assert found["zeros"].get("dtype") == FLOAT
    tfsmith.convert(model, folder / "e.pb", dtype="float16", only=("eps*",))
    assert tfsmith.load(folder / "e.pb").graph["epsilon"].get("dtype") == HALF
    assert tfsmith.load(folder / "e.pb").graph["large"].get("dtype") == FLOAT


def test_constants_are_cast_while_they_are_written(folder: Path) -> None:
    """The plan of a message knows its size before any value is read."""
    from tfsmith.formats.graph import plan_tensor
    from tfsmith.wire import WritePlan

    class Counted(FilledTensor):
        read = 0

        def parts(self) -> Any:
            Counted.read += 1
            return FilledTensor.parts(self)

    tensor = CastTensor(HALF, Counted(FLOAT, Shape((1 << 20,)), b""))
    plan = WritePlan()
    plan.add_field(8, plan_tensor(tensor))
    assert plan.size > 1 << 21
    assert Counted.read == 0
    sink = MemorySink()
    plan.write_to(sink)
    assert len(sink.data) == plan.size
    assert sink.data == plan.tobytes()
    assert Counted.read == 2


def test_only_some_weights(folder: Path) -> None:
    tfsmith.convert(folder / "in" / "m", folder / "c", as_="checkpoint", dtype="float16", only=("w",))
    kinds = {name: tensor.dtype.name for name, tensor in tfsmith.load(folder / "c").variables.items()}
    assert kinds == {"w": "float16", "w/Adam": "float32", "global_step": "int64"}


def test_types_that_cannot_be(folder: Path) -> None:
    before = files_of(folder)
    cases: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
        ({"only": ("w",)}, UsageError, "only= and saturate=True go with dtype="),
        ({"dtype": "float16", "only": ("v",)}, NotFoundInModelError, "there is no tensor 'v'"),
        (
            {"dtype": "float16"},
            UnsupportedError,
            r"node 'update'.*ApplyAdam takes a variable.*inference_only=True",
        ),
        ({"dtype": "float16", "drop": ("w*",)}, NotFoundInModelError, "no weight of float32 or float64"),
    )
    for options, error, words in cases:
        with pytest.raises(error, match=words):
            tfsmith.convert(folder / "in" / "m", folder / "out", **options)
    tfsmith.convert(folder / "in" / "m.meta", folder / "g.pb")
    with pytest.raises(NotFoundInModelError, match=r"no weight.*pass it \(checkpoint=\)"):
        tfsmith.convert(folder / "g.pb", folder / "h.pb", dtype="float16")
    (folder / "g.pb").unlink()
    assert files_of(folder) == before


@pytest.mark.parametrize("out", ["x.meta", "x.ckpt", "y.ckpt.meta"])
def test_a_value_that_does_not_fit_leaves_nothing(folder: Path, out: str) -> None:
    values: dict[str, Tensor] = {"a": array(1), "w": array(1e6, 2), "z": array(3)}
    tfsmith.save(Model("checkpoint", (), values), folder / "large", format="checkpoint")
    tfsmith.save(replace(small(), variables={**small().variables, "w": array(1e6, 2)}), folder / "large2.meta")
    before = files_of(folder)
    source = folder / ("large" if out == "x.ckpt" else "large2")
    options: dict[str, Any] = {"dtype": "float16", "inference_only": out != "x.ckpt"}
    with pytest.raises(LimitError, match=r"tensor 'w': the value 1e\+06 does not fit into float16"):
        tfsmith.convert(source, folder / out, **options)
    assert files_of(folder) == before
    tfsmith.convert(source, folder / out, **options, saturate=True)
    assert values_of(folder / out.removesuffix(".meta"))["w"] == [65504, 2]


def test_a_constant_that_does_not_fit_leaves_nothing(folder: Path) -> None:
    value = ArrayTensor.of(np.full(20, 1e6, np.float32))
    graph = Graph(
        (Node("c", "Const", (), {"dtype": FLOAT, "value": value}), Node("i", "Identity", ("c",), {"T": FLOAT}))
    )
    model = Model("graphdef", (MetaGraph(Part.of(graph)),))
    before = files_of(folder)
    for name in ("c.pb", "c.pbtxt", "c.meta", "c"):
        with pytest.raises(LimitError, match=r"constant 'c': the value 1e\+06 does not fit"):
            tfsmith.convert(model, folder / name, dtype="float16")
        assert files_of(folder) == before
