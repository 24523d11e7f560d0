"""What is proven of an engine: the key of a node, the lookup, and the table that ships."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tfsmith.engines import conformance
from tfsmith.engines.conformance import BAD, EMPTY, FOLDER, NONFINITE, node_kind, proven
from tfsmith.ir.node import Attr, attr
from tfsmith.ir.opdef import builtin_ops

SHIPPED = "2026.4.1"
USUAL = {"padding": "SAME", "strides": [1, 1, 1, 1]}


def attrs_of(op: str, **given: Any) -> dict[str, Attr]:
    kinds = {one.name: one.kind for one in builtin_ops()[op].attrs}
    return {name: attr(value, kinds[name]) for name, value in given.items()}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(conformance, "FOLDER", tmp_path)
    conformance._table.cache_clear()
    yield tmp_path
    conformance._table.cache_clear()


def write(folder: Path, **ops: Any) -> None:
    lines = [{"engine": "e", "version": "1"}, *({"op": op, "types": types} for op, types in ops.items())]
    (folder / "e-1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_kinds_of_nodes() -> None:
    found = node_kind("Conv2D", attrs_of("Conv2D", T="float32", strides=[1, 2, 2, 1], padding="SAME"))
    assert found is not None
    assert found.types == "T=float32"
    assert found.attrs == {
        "strides": "1++1",
        "use_cudnn_on_gpu": "true",
        "padding": "SAME",
        "explicit_paddings": "none",
        "data_format": "NHWC",
        "dilations": "1111",
    }
    one = node_kind("Einsum", attrs_of("Einsum", T="float32", N=2, equation="BFNH,NHD->BFD"))
    two = node_kind("Einsum", attrs_of("Einsum", T="float32", N=2, equation="abcd, cde->abe"))
    assert one == two
    assert node_kind("OfNobody", {}) is None


def test_a_node_is_proven_by_types_and_attributes(table: Path) -> None:
    same = {"padding": ["SAME"], "strides": ["1111"]}
    rest = {"use_cudnn_on_gpu": ["true"], "explicit_paddings": ["none"], "data_format": ["NHWC"], "dilations": ["1111"]}
    write(table, Conv2D={"T=float32": {"equal": 1, "attrs": {**same, **rest}, "empty": "no images: 0"}})
    found = proven("e", "1", "Conv2D", attrs_of("Conv2D", T="float32", **USUAL))
    assert found
    assert found.except_for == {EMPTY}
    for given, words in (
        ({"T": "float64", **USUAL}, "Conv2D was not checked with T=float64"),
        ({"T": "float32", **USUAL, "padding": "VALID"}, "Conv2D was not checked with padding=VALID"),
        ({"T": "float32", **USUAL, "strides": [1, 2, 2, 1]}, "Conv2D was not checked with strides=1++1"),
    ):
        refused = proven("e", "1", "Conv2D", attrs_of("Conv2D", **given))
        assert not refused
        assert refused.reason == words
    assert proven("e", "1", "Relu", attrs_of("Relu", T="float32")).reason == "Relu was not checked"
    assert proven("e", "2", "Relu", {}).reason == "e 2 was not checked"
    assert proven("f", "1", "Relu", {}).reason == "f 1 was not checked"


def test_a_wrong_case_disproves_nodes_with_its_attributes(table: Path) -> None:
    row = {
        "equal": 3,
        "attrs": {"keep_dims": ["false", "true"]},
        "wrong": [[{"keep_dims": "true"}, "kept: 1 of 2 differ"]],
        "nonfinite": "NaN",
        "bad": "axis 7",
    }
    write(table, Sum={"T=float32 Tidx=int32": row}, Relu={"T=float32": {"wrong": [[{}, "of 1"]], "equal": 5}})
    given = {"T": "float32", "Tidx": "int32"}
    assert proven("e", "1", "Sum", attrs_of("Sum", **given, keep_dims=False)).except_for == {NONFINITE, BAD}
    reason = proven("e", "1", "Sum", attrs_of("Sum", **given, keep_dims=True)).reason
    assert reason == "Sum with T=float32 Tidx=int32 is wrong: kept: 1 of 2 differ"
    assert not proven("e", "1", "Relu", attrs_of("Relu", T="float32"))


def test_what_was_only_refused_is_not_proven(table: Path) -> None:
    write(table, Relu={"T=float32": {"refused": "whole: it has no such op"}})
    reason = proven("e", "1", "Relu", attrs_of("Relu", T="float32")).reason
    assert reason == "Relu was refused with T=float32: whole: it has no such op"


@pytest.mark.parametrize(
    ("op", "given"),
    [
        ("Conv2D", {"T": "float32", **USUAL}),
        ("Conv2D", {"T": "float32", "padding": "VALID", "strides": [1, 2, 2, 1]}),
        ("DepthwiseConv2dNative", {"T": "float32", **USUAL}),
        ("FusedBatchNormV3", {"T": "float32", "U": "float32", "is_training": False, "epsilon": 0.001}),
        ("MaxPool", {"T": "float32", "ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}),
        ("BiasAdd", {"T": "float32"}),
        ("Relu", {"T": "float32"}),
        ("Relu6", {"T": "float32"}),
        ("MatMul", {"T": "float32", "transpose_b": True}),
        ("BatchMatMulV2", {"T": "float32", "adj_y": True}),
        ("Einsum", {"T": "float32", "N": 2, "equation": "BFNH,NHD->BFD"}),
        ("Softmax", {"T": "float32"}),
        ("Erf", {"T": "float32"}),
        ("Tanh", {"T": "float32"}),
        ("Rsqrt", {"T": "float32"}),
        ("SquaredDifference", {"T": "float32"}),
        ("Mean", {"T": "float32", "Tidx": "int32", "keep_dims": True}),
        ("GatherV2", {"Tparams": "float32", "Tindices": "int32", "Taxis": "int32"}),
        ("Reshape", {"T": "float32", "Tshape": "int32"}),
        ("Transpose", {"T": "float32", "Tperm": "int32"}),
        ("Cast", {"SrcT": "int32", "DstT": "float32"}),
    ],
)
def test_what_a_bert_and_a_resnet_need_is_proven(op: str, given: dict[str, Any]) -> None:
    assert proven("openvino", SHIPPED, op, attrs_of(op, **given)).reason == ""


@pytest.mark.parametrize(
    ("op", "given"),
    [
        ("LogSoftmax", {"T": "float32"}),
        ("LRN", {"T": "float32"}),
        ("NonMaxSuppressionV3", {"T": "float16", "T_threshold": "float16"}),
        ("Tanh", {"T": "float64"}),
        ("Softmax", {"T": "complex64"}),
    ],
)
def test_what_openvino_gets_wrong_is_not_proven(op: str, given: dict[str, Any]) -> None:
    assert not proven("openvino", SHIPPED, op, attrs_of(op, **given))


def test_openvino_is_not_believed_for_all_inputs() -> None:
    reduced = {"T": "float32", "Tidx": "int32"}
    assert EMPTY in proven("openvino", SHIPPED, "Max", attrs_of("Max", **reduced)).except_for
    assert NONFINITE in proven("openvino", SHIPPED, "Relu", attrs_of("Relu", T="float32")).except_for
    ids = {"Tparams": "float32", "Tindices": "int32", "Taxis": "int32"}
    assert BAD in proven("openvino", SHIPPED, "GatherV2", attrs_of("GatherV2", **ids)).except_for


def test_tables_are_whole() -> None:
    paths = sorted(FOLDER.glob("*.jsonl"))
    assert paths
    for path in paths:
        header, *rows = map(json.loads, path.read_text().splitlines())
        assert path.stem == f"{header['engine']}-{header['version']}"
        assert {row["op"] for row in rows} <= set(builtin_ops())
        assert [row["op"] for row in rows] == sorted(row["op"] for row in rows)
