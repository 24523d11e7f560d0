"""`verify --bisect` on a BERT of base size, and where one of the models does not run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.helpers import python

import tfsmith
from tfsmith.cli.main import main
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier, linear_regression
from tfsmith.testing.write import write_frozen

INPUTS = ("input_ids", "input_mask", "segment_ids")
LAYER = "bert/encoder/layer_4"
KERNEL = f"{LAYER}/intermediate/dense/kernel"
SUB = f"{LAYER}/output/LayerNorm/batchnorm/sub"
PRODUCT = f"{LAYER}/attention/self/query/MatMul"
FAULTS = """
import json, sys
import tfsmith
from tfsmith.ir.tensor import ArrayTensor

sound = tfsmith.load(sys.argv[1])
kernel, sub, product = (sound.graph[name] for name in sys.argv[2:])
values = kernel.get("value").numpy().copy()
values[3, 5] += 1.0
faults = [
    kernel.replace(attrs={"value": ArrayTensor.of(values)}),
    sub.replace(inputs=sub.inputs[::-1]),
    product.replace(attrs={"transpose_b": True}),
]
for fault in faults:
    other = sound.replace_graph(sound.graph.map_nodes({fault.name: fault}))
    found = tfsmith.verify(sound, other, engine="openvino", bisect=True, batches=[1])
    print(json.dumps([found.is_same, found.parted.node, found.parted.reason]))
with open("/proc/self/status") as status:  # `ru_maxrss` counts the memory of who started this process, too
    print(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
"""


@pytest.mark.slow
def test_faults_in_a_bert_as_wide_as_base(tmp_path: Path) -> None:
    """One weight, one edge, one attribute; with little more memory than it takes to run the model."""
    write_frozen(bert_classifier(BertConfig(30522, 768, 6, 12, 3072), length=32), tmp_path / "base.pb")
    done = python("-c", FAULTS, str(tmp_path / "base.pb"), KERNEL, SUB, PRODUCT)
    assert done.returncode == 0, done.stderr
    *found, peak = map(json.loads, done.stdout.splitlines())
    assert [(same, node) for same, node, _ in found] == [(False, KERNEL), (False, SUB), (False, PRODUCT)]
    assert found[0][2] == "the constant differs: 1 of 2359296 values differ"
    assert found[1][2].startswith(f"it takes {LAYER}/output/LayerNorm/beta/read:0, ")
    assert found[2][2].startswith("attribute transpose_b is False in A and True in B")
    assert peak < 1_000_000, "kilobytes, of which 270,000 are the file itself"


def const(name: str, value: Any) -> Node:
    tensor = ArrayTensor.of(np.asarray(value))
    return Node(name, "Const", (), {"value": tensor, "dtype": tensor.dtype})


def changed(model: Model, *nodes: Node) -> Model:
    return model.replace_graph(model.graph.map_nodes({node.name: node for node in nodes}))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "frozen.pb"
    write_frozen(bert_classifier(BertConfig(60, 32, 3, 4, 64, max_position_embeddings=32), length=12), path)
    return path


@pytest.mark.parametrize("engine", ["openvino", pytest.param("tensorflow", marks=pytest.mark.tensorflow)])
def test_a_model_that_does_not_run(
    small: Path, tmp_path: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of kernels that are not square, the product with the transposed one does not exist."""
    name = "bert/encoder/layer_1/intermediate/dense/MatMul"
    sound = tfsmith.load(small)
    broken = changed(sound, sound.graph[name].replace(attrs={"transpose_b": True}))
    found = tfsmith.verify(sound, broken, bisect=True, engine=engine)
    assert not found.is_same
    assert found.parted is not None
    assert found.parted.node == name
    assert "attribute transpose_b is False in A and True in B; it does not run in B: " in found.parted.reason
    assert [output.reason for output in found.outputs] == ["B does not run"]
    if engine == "tensorflow":
        return  # its process takes seconds to start
    tfsmith.save(broken, tmp_path / "broken.pb")
    assert main(["verify", str(small), str(tmp_path / "broken.pb"), "--bisect", "--engine", engine]) == 1
    told = capsys.readouterr()
    assert f"They part at {name} (MatMul), behind " in told.out
    assert "warning: B does not run: " in told.err


def test_a_failure_that_no_node_explains_is_told(small: Path) -> None:
    sound = tfsmith.load(small)
    renamed = sound.graph.replace(nodes=tuple(_renamed(node) for node in sound.graph))
    spoiled = "other/bert/encoder/layer_1/intermediate/dense/MatMul"
    other = sound.replace_graph(renamed.map_nodes({spoiled: renamed[spoiled].replace(attrs={"transpose_b": True})}))
    with pytest.raises(tfsmith.TfsmithError, match="OpenVINO"):
        tfsmith.verify(sound, other, bisect=True, engine="openvino", outputs={"loss/output": "other/loss/output"})


def _renamed(node: Node) -> Node:
    if node.op == "Placeholder":
        return node
    inputs = tuple(text if text in INPUTS else re.sub(r"^(\^?)", r"\1other/", text) for text in node.inputs)
    return Node(f"other/{node.name}", node.op, inputs, node.attrs)


def program(*nodes: Node) -> Model:
    x = Node("x", "Placeholder", (), {"dtype": dtype_named("float32"), "shape": Shape((-1, 4))})
    return linear_regression().model.replace_graph(Graph((x, *nodes)))


def bisected(nodes: Callable[[float], tuple[Node, ...]], monkeypatch: pytest.MonkeyPatch) -> tfsmith.Verified:
    """A against B, one node at a step."""
    monkeypatch.setattr("tfsmith.engines.bisect._AT_ONCE", 1)
    a, b = program(*nodes(1.0)), program(*nodes(2.0))
    return tfsmith.verify(a, b, outputs={"out": "out"}, bisect=True, engine="openvino")


def test_steps_start_from_all_outputs_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second output of a Split is what leads on; and integers are computed again."""
    kind = dtype_named("float32")

    def nodes(factor: float) -> tuple[Node, ...]:
        return (
            const("axis", np.int32(1)),
            Node("split", "Split", ("axis", "x"), {"num_split": 2, "T": kind}),
            Node("shape", "Shape", ("split:1",), {"T": kind, "out_type": dtype_named("int32")}),
            Node("flat", "Reshape", ("split:1", "shape"), {"T": kind, "Tshape": dtype_named("int32")}),
            Node("half", "Relu" if factor == 1.0 else "Neg", ("flat",), {"T": kind}),
            Node("out", "Tanh", ("half",), {"T": kind}),
        )

    found = bisected(nodes, monkeypatch)
    assert found.parted is not None
    assert found.parted.node == "half"
    assert found.parted.checked == 4
    assert found.parted.reason.startswith("its op is Relu in A and Neg in B; ")


def test_what_only_one_model_has_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = dtype_named("float32")

    def nodes(factor: float) -> tuple[Node, ...]:
        first = Node("first", "Relu", ("x",), {"T": kind})
        if factor == 1.0:
            return (first, Node("out", "Tanh", ("first",), {"T": kind}))
        return (first, Node("more", "Neg", ("first",), {"T": kind}), Node("out", "Tanh", ("more",), {"T": kind}))

    found = bisected(nodes, monkeypatch)
    assert found.parted is not None
    assert found.parted.node == "out"
    assert found.parted.reason.startswith("it takes first:0 in A and more:0 in B")
