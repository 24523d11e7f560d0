"""`tfsmith weights`: the table, the totals, the files, the comparison."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import ChecksumError, NotFoundInModelError, OutputError, UnsupportedError, UsageError
from tfsmith.ir.tensor import ArrayTensor, SpanTensor, StringTensor, Tensor, Weights
from tfsmith.ir.tensor_views import (
    JoinedTensor,
    ReshapedTensor,
    RowsTensor,
    TransposedTensor,
    cast_tensor,
    read_array,
    read_pieces,
    resize_rows,
    split_tensor,
)
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.records import replace
from tfsmith.storage import from_bytes
from tfsmith.testing.models import bert_classifier
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model
from tfsmith.weights.compare import compare_weights
from tfsmith.weights.source import select_weights, weights_of
from tfsmith.weights.table import Stats, measure, scope_rows, weight_rows

KERNEL = "bert/pooler/dense/kernel"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT in every form."""
    folder = tmp_path_factory.mktemp("bert")
    model = bert_classifier(global_step=1603)
    write_checkpoint_files(model, folder / "training")
    write_saved_model(model, folder / "saved_model")
    write_frozen(model, folder / "frozen.pb")
    write_checkpoint_files(bert_classifier(variables="resource"), folder / "resource")
    tfsmith.save(
        tfsmith.freeze(tfsmith.load(folder / "resource"), ["loss/output"]).model, folder / "frozen_resource.pb"
    )
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    assert main(["weights", *map(str, arguments)]) == code
    out, err = capsys.readouterr()
    if code < 2:
        assert err == ""
    return out if code < 2 else err


def of(**arrays: Any) -> Weights:
    return Weights({name: ArrayTensor.of(values) for name, values in arrays.items()})


def test_table(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, files / "training", "--match", "output_*", "--match", "global_step")
    assert out == (
        "  name            dtype    shape     size\n"
        "  global_step     int64    []         8 B\n"
        "  output_bias     float32  [2]        8 B\n"
        "  output_weights  float32  [2, 16]  128 B\n"
        "  3 weights, 35 parameters, 144 B; float32 x2, int64 x1\n"
    )
    out = run(capsys, files / "training", "--match", "output_*", "--sort", "bytes", "--stats")
    values = tfsmith.load(files / "training").variables["output_weights"].numpy()
    assert out.splitlines()[0].split() == ["name", "dtype", "shape", "size", "min", "max", "mean", "NaN", "inf"]
    wanted = [f"{value:.4g}" for value in (values.min(), values.max(), values.mean())]
    assert out.splitlines()[1].split()[-5:-1] == [*wanted, "0"]


def test_the_same_weights_from_every_form(files: Path) -> None:
    wanted = tfsmith.load_weights(files / "training", training=False)
    assert len(wanted) == 41
    for form in ("saved_model", "frozen.pb", "frozen_resource.pb", "training/model.ckpt-1603.meta"):
        found = tfsmith.load_weights(files / form, training=False)
        assert set(found) == set(wanted), form
        assert {one.verdict for one in tfsmith.compare_weights(wanted, found)} == {"same"}, form
    bare = tfsmith.load_weights(files / "training/graph.pbtxt", checkpoint=files / "training")
    assert set(bare) == {*wanted, "global_step"}


def test_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(capsys, files / "frozen.pb", "--json", "--stats", "--match", "output_bias"))
    assert {key: facts[key] for key in ("count", "parameters", "bytes", "metadata")} == {
        "count": 1,
        "parameters": 2,
        "bytes": 8,
        "metadata": {},
    }
    row = facts["weights"][0]
    assert (row["name"], row["dtype"], row["shape"], row["nan"]) == ("output_bias", "float32", [2], 0)


def test_scopes(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, files / "training", "--model-only", "--scopes", "3")
    names = [line.split()[0] for line in out.splitlines()[1:-1]]
    assert names == [
        "(none)",
        "bert/embeddings",
        "bert/embeddings/LayerNorm",
        "bert/encoder/layer_0",
        "bert/encoder/layer_1",
        "bert/pooler/dense",
    ]
    facts = json.loads(run(capsys, files / "training", "--scopes", "1", "--json"))
    assert sum(row["bytes"] for row in facts["scopes"]) == facts["bytes"]
    assert "holds nothing" in run(capsys, files / "training", "--scopes", "0", code=2)


def test_scopes_are_in_the_order_of_their_numbers() -> None:
    rows = weight_rows(of(**{f"layer_{number}/w": [1.0] for number in (10, 9, 2)}))
    assert [row.name for row in scope_rows(rows, 1)] == ["layer_2", "layer_9", "layer_10"]
    rows = weight_rows(of(**{"a.b.c": [1.0], "a.d": [2.0]}))
    assert [(row.name, row.count) for row in scope_rows(rows, 2)] == [("a", 1), ("a.b", 1)]


def test_globs(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no weight is called 'output_wieghts'; the nearest names are output_weights" in run(
        capsys, files / "training", "--match", "output_wieghts", code=2
    )
    assert "no weight is called 'output_wieghts*'; the nearest names are output_weights" in run(
        capsys, files / "training", "--except", "output_wieghts*", code=2
    )
    out = run(capsys, files / "training", "--match", "*/kernel", "--except", "*layer_*")
    assert [line.split()[0] for line in out.splitlines()[1:-1]] == [KERNEL]
    slots = of(w=[1.0], **{"w/Adam": [1.0], "v/m": [1.0], "w/m": [1.0]}, global_step=3)
    assert list(select_weights(slots, training=False)) == ["w", "v/m"]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1.0, float("nan"), -3.0, float("inf")], Stats(-3.0, float("inf"), float("inf"), 1, 1)),
        ([1, 2, 6], Stats(1, 6, 3.0)),
        ([True, False, False, False], Stats(False, True, 0.25)),
        ([float("nan")], Stats(None, None, None, 1)),
        (np.zeros((0, 3), "float32"), Stats(None, None, None)),
        (
            np.full(700_000, 0.1, "float32"),
            Stats(float(np.float32(0.1)), float(np.float32(0.1)), float(np.float32(0.1))),
        ),
        ([b"words"], None),
        ([1j], None),
    ],
)
def test_stats(values: Any, wanted: Stats | None) -> None:
    found = measure(ArrayTensor.of(values))
    if wanted is None or found is None or wanted.mean is None or found.mean is None:
        assert found == wanted
        return
    assert replace(found, mean=None) == replace(wanted, mean=None)
    assert found.mean == pytest.approx(wanted.mean)


def test_stats_of_small_floats() -> None:
    for kind in ("bfloat16", "float16", "float8_e4m3fn"):
        tensor = ArrayTensor.of([0.5, -1.5, 2.0, float("nan")], dtype_named(kind))
        found = measure(tensor)
        assert found is not None
        assert (found.min, found.max, found.nan) == (-1.5, 2.0, 1)
        assert found.mean == pytest.approx(1 / 3)


def test_stats_check_the_checksum() -> None:
    broken = SpanTensor(dtype_named("int8"), Shape((3,)), from_bytes(b"abc"), masked_crc=1)
    with pytest.raises(ChecksumError):
        measure(broken)


@pytest.mark.parametrize("ending", [".safetensors", ".npz", ".ckpt"])
def test_files(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str) -> None:
    """Out and back: the same weights."""
    target = tmp_path / f"weights{ending}"
    metadata = ["--metadata", "from=a test"]
    if ending == ".ckpt":
        told = run(capsys, files / "training", "-o", target, *metadata, code=2)
        assert "a checkpoint holds no metadata; leave it out, or write .npz, .h5 or .safetensors" in told
        metadata = []
    out = run(capsys, files / "training", "-o", target, *metadata)
    assert out.startswith("Wrote 42 weights, ")
    out = run(capsys, files / "training", "--compare", target)
    assert out.splitlines()[-1] == "  42 of 42 are equal (42 same)"
    if metadata:
        assert json.loads(run(capsys, target, "--json"))["metadata"] == {"from": "a test"}
    back = tmp_path / "back" / "model.ckpt-7"
    back.parent.mkdir()
    run(capsys, target, "-o", back)
    run(capsys, files / "training", "--compare", back)
    facts = json.loads(run(capsys, target, "-o", tmp_path / "again.safetensors", "--json"))
    assert facts["output"] == [str(tmp_path / "again.safetensors")]


@pytest.mark.parametrize("name", ["training", "saved_model", "w.npz"])
def test_verify_reads_what_the_checkpoint_has(files: Path, tmp_path: Path, name: str) -> None:
    tfsmith.save_weights(tfsmith.load_weights(files / "training"), tmp_path / "w.npz")
    source = tmp_path / name if name == "w.npz" else shutil.copytree(files / name, tmp_path / name)
    weights = tfsmith.load_weights(source)
    weights.verify()
    data = tmp_path / "w.npz" if name == "w.npz" else next(source.rglob("*.data-*"))
    content = bytearray(data.read_bytes())
    content[content.index(weights["output_weights"].numpy().tobytes())] ^= 1
    data.write_bytes(content)
    with pytest.raises(ChecksumError):
        tfsmith.load_weights(source).verify()
    tfsmith.save_weights(tfsmith.load_weights(files / "training"), tmp_path / "w.safetensors")
    with pytest.raises(UnsupportedError, match="this format keeps no checksums"):
        tfsmith.load_weights(tmp_path / "w.safetensors").verify()


def test_sharded(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "model.safetensors"
    out = run(capsys, files / "training", "-o", target, "--max-shard-size", "10kB")
    index = tmp_path / "model.safetensors.index.json"
    assert out.rstrip().endswith(str(index))
    run(capsys, index, "--compare", files / "training")
    assert "the output is also the input" in run(capsys, index, "-o", target, "--force", code=2)
    assert "is not understood; write a size" in run(capsys, index, "-o", "x", "--max-shard-size", "big", code=2)
    assert "only safetensors" in run(capsys, index, "-o", tmp_path / "x.npz", "--max-shard-size", "1MB", code=2)


def test_an_input_is_never_overwritten(files: Path, tmp_path: Path) -> None:
    weights = tfsmith.load_weights(files / "training")
    with pytest.raises(OutputError, match="also the input"):
        tfsmith.save_weights(weights, files / "training" / "model.ckpt-1603")
    tfsmith.save_weights(weights, tmp_path / "w.npz")
    with pytest.raises(OutputError, match="also the input"):
        tfsmith.save_weights(tfsmith.load_weights(tmp_path / "w.npz"), tmp_path / "w.npz")
    with pytest.raises(OutputError, match="no weights to write"):
        tfsmith.save_weights({}, tmp_path / "x.npz")


def test_compare_tells_every_kind_of_difference() -> None:
    first = of(
        same=[1.0, float("nan")],
        zero=[0.0],
        value=[1.0, 2.0, 3.0],
        near=[1.0],
        shape=[[1.0]],
        kind=np.array([1.5], np.float32),
        nan=[1.0],
        gone=[1.0],
        words=[b"a", b"b"],
        flags=[True, False],
    )
    second = of(
        same=[1.0, float("nan")],
        zero=[-0.0],
        value=[1.0, 2.5, 5.0],
        near=[1.0 + 1e-9],
        shape=[1.0],
        kind=np.array([1.5], np.float64),
        nan=[float("nan")],
        new=[1.0],
        words=[b"a", b"c"],
        flags=[True, True],
    )
    found = {one.name: one for one in compare_weights(first, second, tolerance=1e-6)}
    assert {name: one.verdict for name, one in found.items()} == {
        "same": "same",
        "zero": "close",
        "value": "differs",
        "near": "close",
        "shape": "shape",
        "kind": "dtype",
        "nan": "differs",
        "gone": "only in first",
        "new": "only in second",
        "words": "differs",
        "flags": "differs",
    }
    assert (found["value"].max_difference, found["value"].unequal) == (2.0, 2)
    assert found["nan"].max_difference == float("inf")
    assert not found["kind"].is_equal()
    assert found["kind"].is_equal(any_dtype=True)
    exact = {one.name: one.verdict for one in compare_weights(first, second)}
    assert (exact["zero"], exact["near"], exact["same"]) == ("differs", "differs", "same")


def test_compare_pairs_by_the_names_of_variables() -> None:
    tensors = of(a=[1.0], b=[2.0], c=[3.0], d=[4.0])
    keys = {"a": "0/.ATTRIBUTES/V", "b": "1/.ATTRIBUTES/V", "c": "2/.ATTRIBUTES/V", "d": "d"}
    names = {keys["a"]: ("x_1", "x"), keys["b"]: ("y",), keys["c"]: ("z",)}
    first = Weights({keys[name]: tensor for name, tensor in tensors.items()}, names=names)
    second = of(x=[1.0], y=[2.5], d=[4.0], e=[5.0])
    wanted = [("d", "same"), ("e", "only in second"), ("x", "same"), ("y", "differs"), ("z", "only in first")]
    assert [(one.name, one.verdict) for one in compare_weights(first, second)] == wanted
    swapped = {"only in second": "only in first", "only in first": "only in second"}
    back = [(name, swapped.get(verdict, verdict)) for name, verdict in wanted]
    assert [(one.name, one.verdict) for one in compare_weights(second, first)] == back


TF2 = Path(__file__).parents[1] / "docs" / "files" / "tf2_model"


@pytest.mark.parametrize("source", [TF2, TF2 / "variables" / "variables"])
def test_a_tensorflow_2_model_has_the_weights_that_it_was_frozen_from(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tfsmith.save(tfsmith.freeze(tfsmith.load(TF2)).model, tmp_path / "frozen.pb")
    out = run(capsys, source, "--compare", tmp_path / "frozen.pb")
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["b", "same", "0"],
        ["w", "same", "0"],
        ["2", "of", "2", "are", "equal", "(2", "same)"],
    ]
    assert tfsmith.diff(source, tmp_path / "frozen.pb", only=["weights"]).is_equal


@pytest.mark.parametrize("source", [TF2, TF2 / "variables" / "variables"])
def test_keys_of_tensorflow_2_stand_beside_the_names_of_variables(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(capsys, source, "--match", "w")
    assert [line.split() for line in out.splitlines()[:-1]] == [
        ["name", "dtype", "shape", "size", "variable"],
        ["w/.ATTRIBUTES/VARIABLE_VALUE", "float32", "[4,", "2]", "32", "B", "w"],
    ]
    rows = json.loads(run(capsys, source, "--json"))["weights"]
    assert [row["variable"] for row in rows] == ["b", "w"]
    assert main(["show", str(source), "--variables", "--json"]) == 0
    assert [row["variable"] for row in json.loads(capsys.readouterr().out)["variable_list"]] == ["b", "w"]


def test_compare_reads_pieces_of_different_length() -> None:
    values = np.arange(900_000, dtype=np.float32)
    other = values.copy()
    other[-1] += 64
    span = SpanTensor(dtype_named("float32"), Shape((900_000,)), from_bytes(other.tobytes()))
    (found,) = compare_weights(of(a=values), {"a": span})
    assert (found.verdict, found.unequal, found.max_difference) == ("differs", 1, 64.0)


def test_compare_on_the_command_line(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, files / "training", "--compare", files / "frozen.pb", code=1)
    assert "global_step" in out
    assert out.splitlines()[-1] == "  41 of 42 are equal (41 same, 1 only in first)"
    run(capsys, files / "training", "--compare", files / "frozen.pb", "--model-only")
    half = {
        name: cast_tensor(tensor, dtype_named("float16"), name)
        for name, tensor in tfsmith.load_weights(files / "frozen.pb").items()
    }
    tfsmith.save_weights(half, tmp_path / "half.safetensors")
    run(capsys, files / "frozen.pb", "--compare", tmp_path / "half.safetensors", code=1)
    facts = json.loads(
        run(capsys, files / "frozen.pb", "--compare", tmp_path / "half.safetensors", "--tolerance", "0.01", "--json")
    )
    assert facts["equal"]
    assert facts["weights"][0]["verdict"] == "dtype"
    assert "--compare writes nothing; leave one of them out" in run(
        capsys, files / "frozen.pb", "--compare", "x", "-o", "y", code=2
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metadata", "a=b"], "--metadata goes with --out; add --out, such as --out model.safetensors"),
        (["--max-shard-size", "1GB"], "--max-shard-size goes with --out; add --out, such as --out model.safetensors"),
        (["--tolerance", "0.1"], "--tolerance goes with --compare; add --compare, or leave it out"),
        (["--compare", "x", "--tolerance", "nan"], "--tolerance nan makes no sense; pass a finite number, 0 or more"),
        (["--compare", "x", "--tolerance", "-1"], "--tolerance -1.0 makes no sense; pass a finite number, 0 or more"),
    ],
)
def test_options_without_effect_are_refused(
    files: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["weights", str(files / "training"), *arguments]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"


def test_weights_that_are_not_there(files: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundInModelError, match="not their values; pass their checkpoint"):
        tfsmith.load_weights(files / "training/graph.pbtxt")


def test_a_frozen_graph_with_folded_reads(files: Path) -> None:
    """An optimizer may fold a constant and its read into one, and a constant with a transpose into another."""
    model = tfsmith.load(files / "frozen.pb")
    graph = model.graph
    reads = {
        node.name: graph[node.inputs[0]] for node in graph if node.op == "Identity" and node.name.endswith("/read")
    }
    folded = [
        reads[node.name].replace(name=node.name) if node.name in reads else node
        for node in graph
        if node.name not in {found.name for found in reads.values()}
    ]
    found = weights_of(model.replace_graph(graph.replace(nodes=tuple(folded))))
    assert set(found) == set(tfsmith.load_weights(files / "frozen.pb"))

    constants = [node for node in graph if node.op == "Const"]
    bare = [node.replace(name=f"folded_{number}", inputs=()) for number, node in enumerate(constants)]
    stripped = model.replace_graph(graph.replace(nodes=tuple(bare)))
    with pytest.raises(NotFoundInModelError, match=r"none of the graph's \d+ constants shows .*constants=True"):
        weights_of(stripped)
    assert len(weights_of(stripped, constants=True)) == len(bare)


VALUES = np.arange(24, dtype=np.float32).reshape(4, 6)
OTHER = VALUES * 10


def _cases() -> list[tuple[Tensor, Any]]:
    one, other = ArrayTensor.of(VALUES), ArrayTensor.of(OTHER)
    span = SpanTensor(dtype_named("float32"), Shape((4, 6)), from_bytes(VALUES.tobytes()))
    cube = ArrayTensor.of(VALUES.reshape(2, 3, 4))
    return [
        (TransposedTensor(one, (1, 0)), VALUES.T),
        (TransposedTensor(cube, (2, 0, 1)), VALUES.reshape(2, 3, 4).transpose(2, 0, 1)),
        (JoinedTensor((one, other), 0), np.concatenate([VALUES, OTHER])),
        (JoinedTensor((span, other), 1), np.concatenate([VALUES, OTHER], 1)),
        (RowsTensor(span, 1, 3), VALUES[1:3]),
        (RowsTensor(JoinedTensor((span, other), 0), 3, 6), np.concatenate([VALUES, OTHER])[3:6]),
        (ReshapedTensor(span, Shape((2, 12))), VALUES.reshape(2, 12)),
        (resize_rows(span, 4), VALUES),
        (resize_rows(span, 2), VALUES[:2]),
        (resize_rows(one, 7), np.concatenate([VALUES, np.zeros((3, 6), np.float32)])),
        (split_tensor(span, 2, 0)[1], VALUES[2:]),
        (split_tensor(span, 3, 1)[1], VALUES[:, 2:4]),
        (TransposedTensor(JoinedTensor((one, other), 1), (1, 0)), np.concatenate([VALUES, OTHER], 1).T),
    ]


@pytest.mark.parametrize("number", range(len(_cases())))
def test_made_tensors(number: int) -> None:
    """Whichever way it is read: as an array, as bytes, in pieces, or copied."""
    tensor, wanted = _cases()[number]
    assert tensor.shape.dims == wanted.shape
    assert tensor.nbytes == wanted.nbytes
    np.testing.assert_array_equal(tensor.numpy(), wanted)
    np.testing.assert_array_equal(read_array(tensor), wanted)
    parts = [part if isinstance(part, bytes) else part.tobytes() for part in tensor.parts()]
    assert b"".join(parts) == wanted.tobytes()
    np.testing.assert_array_equal(np.concatenate(list(read_pieces(tensor))), wanted.reshape(-1))


def test_strings_are_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights: dict[str, Tensor] = {"w": ArrayTensor.of([1.0]), "words": StringTensor(Shape((2,)), [b"a", b"b"])}
    tfsmith.save_weights(weights, tmp_path / "model.ckpt")
    assert "words  string" in run(capsys, tmp_path / "model.ckpt", "--stats")
    assert "'words': safetensors has no type for string; leave it out" in run(
        capsys, tmp_path / "model.ckpt", "-o", tmp_path / "w.safetensors", code=2
    )
    run(capsys, tmp_path / "model.ckpt", "--except", "words", "-o", tmp_path / "w.safetensors")
    with pytest.raises(UsageError):
        tfsmith.save_weights({"w": ArrayTensor.of([1.0])}, tmp_path / "w.npz", max_shard_bytes=10)
