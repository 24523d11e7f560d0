"""Folding what follows from shapes: what becomes a constant, what must not, and that the check offers it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.passes.fold_shapes import fold_shapes
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier
from tfsmith.testing.write import write_frozen

FLOAT, INT = dtype_named("float32"), dtype_named("int32")


def const(name: str, value: Any, *controls: str) -> Node:
    tensor = ArrayTensor.of(np.asarray(value))
    return Node(name, "Const", controls, {"value": tensor, "dtype": tensor.dtype})


def x(*dims: int) -> Node:
    return Node("x", "Placeholder", (), {"dtype": FLOAT, "shape": Shape(dims)})


def size(*controls: str, **attrs: int) -> tuple[Node, ...]:
    """The first dimension of x."""
    return (
        Node("shape", "Shape", ("x", *controls), {"T": FLOAT, "out_type": INT}),
        const("begin", np.array([0], np.int32)),
        const("end", np.array([1], np.int32)),
        const("stride", np.array([1], np.int32)),
        Node("size", "StridedSlice", ("shape", "begin", "end", "stride"), {"T": INT, "shrink_axis_mask": 1, **attrs}),
    )


def fill() -> tuple[Node, ...]:
    return (
        const("three", np.int32(3)),
        Node("dims", "Pack", ("size", "three"), {"T": INT, "N": 2, "axis": 0}),
        const("one", np.float32(1)),
        Node("ones", "Fill", ("dims", "one"), {"T": FLOAT, "index_type": INT}),
    )


def folded(*nodes: Node) -> dict[str, Any]:
    """The values of all nodes that are constants now and were none before."""
    before = Graph(nodes)
    after = fold_shapes(before)
    assert [node.name for node in after] == [node.name for node in before]
    new = [node for node in after if node.op == "Const" and before[node.name].op != "Const"]
    for node in new:
        assert not node.data_inputs
    return {node.name: node.get("value").numpy() for node in new}


def test_what_follows_from_a_fixed_shape() -> None:
    found = folded(x(2, 5), *size(), *fill())
    assert {name: values.tolist() for name, values in found.items()} == {
        "shape": [2, 5],
        "size": 2,
        "dims": [2, 3],
        "ones": [[1, 1, 1], [1, 1, 1]],
    }
    assert {values.dtype.name for values in found.values()} == {"int32", "float32"}


@pytest.mark.parametrize("dims", [(-1, 5), ()])
def test_open_shapes_stay(dims: tuple[int, ...]) -> None:
    assert set(folded(x(*dims), *size(), *fill())) <= {"shape"}
    assert "size" not in folded(x(*dims), *size(), *fill())


@pytest.mark.parametrize(
    ("attrs", "wanted"),
    [({}, 2), ({"shrink_axis_mask": 0}, [2]), ({"shrink_axis_mask": 0, "end_mask": 1}, [2, 5])],
)
def test_slices(attrs: dict[str, int], wanted: Any) -> None:
    assert folded(x(2, 5), *size(**attrs))["size"].tolist() == wanted


@pytest.mark.parametrize("mask", ["ellipsis_mask", "new_axis_mask"])
def test_other_slices_stay(mask: str) -> None:
    assert set(folded(x(2, 5), *size(**{mask: 1}))) == {"shape"}


def test_shapes_of_inner_tensors() -> None:
    """Through a reshape, a reduction, and what is broadcast."""
    nodes = (
        x(2, 6),
        const("wanted", np.array([-1, 3], np.int32)),
        Node("flat", "Reshape", ("x", "wanted"), {"T": FLOAT, "Tshape": INT}),
        const("axis", np.array([1], np.int32)),
        Node("mean", "Mean", ("flat", "axis"), {"T": FLOAT, "Tidx": INT, "keep_dims": True}),
        Node("apart", "Sub", ("mean", "flat"), {"T": FLOAT}),
        Node("a", "Shape", ("mean",), {"T": FLOAT, "out_type": INT}),
        Node("b", "Shape", ("apart",), {"T": FLOAT, "out_type": dtype_named("int64")}),
        Node("product", "Prod", ("a", "zero"), {"T": INT, "Tidx": INT}),
        const("zero", np.array([0], np.int32)),
    )
    found = folded(*nodes)
    assert found["a"].tolist() == [4, 1]
    assert found["b"].tolist() == [4, 3]
    assert found["b"].dtype == np.int64
    assert found["product"].tolist() == 4


def test_control_edges_stay() -> None:
    nodes = (x(2, 5), Node("check", "NoOp"), *size("^check"))
    assert fold_shapes(Graph(nodes))["shape"].inputs == ("^check",)


def test_in_a_condition_nothing_is_folded() -> None:
    """Whether a node of a branch runs is told by its control edge."""
    branch = Node("branch", "Switch", ("flag", "flag"), {"T": dtype_named("bool")})
    nodes = (x(2, 5), const("flag", np.bool_(True)), branch, *size("^branch"), *fill())
    assert folded(*nodes) == {}


@pytest.mark.parametrize("dims", [(1 << 20, 1 << 20), (1 << 40, 1)])
def test_what_would_be_large_stays(dims: tuple[int, int]) -> None:
    shape = Node("dims", "Shape", ("x",), {"T": FLOAT, "out_type": dtype_named("int64")})
    ones = Node("ones", "Fill", ("dims", "one"), {"T": FLOAT, "index_type": dtype_named("int64")})
    assert "ones" not in folded(x(*dims), shape, const("one", np.float32(1)), ones)
    assert "small" not in folded(x(1 << 40, 1), Node("small", "Shape", ("x",), {"T": FLOAT, "out_type": INT})), (
        "it does not fit 32 bits"
    )


def test_the_check_offers_it_and_it_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_frozen(bert_classifier(BertConfig.tiny()), tmp_path / "open.pb")
    checked = tfsmith.check(tmp_path / "open.pb", "migraphx")
    remedies = {one.subject: one.remedy for one in checked.obstacles if one.kind == "op"}
    wanted = f"`tfsmith.freeze({str(tmp_path / 'open.pb')!r}, out='fixed.pb', batch_size=1, fold_shapes=True)`"
    assert remedies == {"Fill": wanted}
    assert main(["check", str(tmp_path / "open.pb"), "--for", "migraphx"]) == 1
    command = f"tfsmith freeze {tmp_path / 'open.pb'} -o fixed.pb --batch-size 1 --fold-shapes"
    assert f"-> `{command}`\n" in capsys.readouterr().out
    assert main(command.replace("fixed.pb", str(tmp_path / "fixed.pb")).split()[1:]) == 0
    assert tfsmith.check(tmp_path / "fixed.pb", "migraphx").is_clean
    left = tfsmith.load(tmp_path / "fixed.pb").graph.op_counts()
    assert not {"Shape", "Pack", "Fill"} & set(left)
