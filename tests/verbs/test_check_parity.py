"""The tables of `tfsmith check` against the programs that they speak of, as far as those are installed."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.passes.check_target import find_target, target_names
from tfsmith.testing.models import bert_classifier, conv_net
from tfsmith.testing.write import write_frozen

pytestmark = pytest.mark.tensorflow
TOOLS = Path(__file__).parents[2] / "tools"
REGENERATE = "the table is of another release: run `python tools/make_targets.py`, and commit what it writes"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    import make_targets  # type: ignore[import-not-found, unused-ignore]

    sys.modules.pop("make_targets")
    return make_targets  # type: ignore[no-any-return, unused-ignore]


def converts(graph_def: Any, inputs: dict[str, str], outputs: dict[str, str], *, flex: bool = False) -> bool:
    """Whether TensorFlow Lite's converter takes a frozen graph, with its own ops or with select ops, too."""
    import tensorflow as tf

    def import_it() -> None:
        tf.compat.v1.import_graph_def(graph_def, name="")

    wrapped = tf.compat.v1.wrap_function(import_it, [])
    graph = wrapped.graph
    pruned = wrapped.prune([graph.get_tensor_by_name(name) for name in inputs.values()],
                           [graph.get_tensor_by_name(name) for name in outputs.values()])  # fmt: skip
    converter = tf.lite.TFLiteConverter.from_concrete_functions([pruned])
    sets = [tf.lite.OpsSet.TFLITE_BUILTINS] + ([tf.lite.OpsSet.SELECT_TF_OPS] if flex else [])
    converter.target_spec.supported_ops = sets
    try:
        return bool(converter.convert())
    except Exception as error:
        if "neither a custom op nor a flex op" in str(error) or "failed to legalize" in str(error):
            return False
        raise


def graph_def(path: Path) -> Any:
    import tensorflow as tf

    return tf.compat.v1.GraphDef.FromString(path.read_bytes())


def test_openvino_has_what_the_table_says(tool: ModuleType, tmp_path: Path) -> None:
    from openvino.frontend import FrontEndManager

    target = find_target("openvino")
    assert importlib.metadata.version("openvino") == target.version, REGENERATE
    frontend = FrontEndManager().load_by_framework("tf")
    path = tmp_path / "probe.pb"
    for op in ("Switch", "Enter", "TensorListReserve", "Selu", "Betainc", "Skipgram", "Einsum", "Where", "Svd", "Qr"):
        path.write_bytes(tool._probe(op))
        assert tool._is_translated(frontend, str(path)) == (op in target.ops), op


def test_openvino_imports_what_is_clean(tmp_path: Path) -> None:
    import openvino

    path = write_frozen(bert_classifier(batch=1), tmp_path / "frozen.pb")
    assert tfsmith.check(path, "openvino").is_clean
    assert len(openvino.Core().read_model(path).inputs) == 3


def test_tensorflow_knows_what_the_table_says() -> None:
    import tensorflow as tf

    release = ".".join(tf.__version__.split(".")[:2])
    target = find_target(f"tensorflow-{release}")
    assert target.graph_version == tf.compat.v1.GRAPH_DEF_VERSION
    missing = [op for op in dir(tf.raw_ops) if op[0].isupper() and op not in target.ops]
    assert missing == []
    assert not target.later_attrs


def test_tensorflow_passes_over_attributes_that_it_does_not_know() -> None:
    """As the table says of releases since 2.5; those before refuse the graph."""
    import tensorflow as tf

    graph = tf.compat.v1.GraphDef()
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    node = graph.node.add(name="y", op="Relu", input=["x"])
    node.attr["T"].type = 1
    node.attr["not_yet"].b = True
    with tf.Graph().as_default() as imported:
        tf.compat.v1.import_graph_def(graph, name="")
    assert imported.get_operation_by_name("y").type == "Relu"
    assert find_target("tensorflow-2.5").ignores_attrs
    assert not find_target("tensorflow-2.4").ignores_attrs


@pytest.mark.parametrize("build", [bert_classifier, conv_net])
def test_tflite_converts_what_is_clean(build: Any, tmp_path: Path) -> None:
    made = build(batch=1)
    path = write_frozen(made, tmp_path / "frozen.pb")
    assert tfsmith.check(path, "tflite").is_clean
    frozen = graph_def(path)
    there = {node.name for node in frozen.node}
    inputs = {key: name for key, name in made.inputs.items() if name.partition(":")[0] in there}
    assert converts(frozen, inputs, made.outputs)


def with_end(path: Path, op: str) -> Model:
    model = tfsmith.load(path)
    (end,) = [node for node in model.graph if not model.graph.consumers(node.name) and node.op == "Softmax"]
    node = Node("end", op, (end.name,), {"T": end.get("T")})
    return model.replace_graph(model.graph.replace(nodes=(*model.graph.nodes, node)))


@pytest.mark.parametrize(
    ("op", "alone", "flex"), [("Selu", True, True), ("Erf", False, True), ("Digamma", False, False)]
)
def test_tflite_and_its_select_ops(op: str, alone: bool, flex: bool, tmp_path: Path) -> None:
    made = conv_net(batch=1)
    tfsmith.save(with_end(write_frozen(made, tmp_path / "frozen.pb"), op), tmp_path / "end.pb")
    assert tfsmith.check(tmp_path / "end.pb", "tflite").is_clean is alone
    assert tfsmith.check(tmp_path / "end.pb", "tflite-flex").is_clean is flex
    assert converts(graph_def(tmp_path / "end.pb"), made.inputs, {"end": "end:0"}) is alone


def test_flex_is_what_tensorflow_says(tool: ModuleType) -> None:
    import ctypes

    import tensorflow as tf

    assert find_target("tflite-flex").version.startswith(".".join(tf.__version__.split(".")[:2])), REGENERATE
    library = ctypes.CDLL(str(Path(tf.__file__).with_name("libtensorflow_cc.so.2")))
    is_allowed = getattr(library, tool.FLEX)
    is_allowed.restype = ctypes.c_bool
    own = find_target("tflite").ops
    listed = find_target("tflite-flex").ops - own
    for op in ("Erf", "Digamma", "Betainc", "AddV2", "Svd", "FFT", "StringJoin", "Skipgram"):
        allowed = is_allowed(ctypes.byref(tool._String(op.encode(), len(op), b"")))
        assert allowed == (op in listed or op in own), op


def test_every_release_is_a_target() -> None:
    import tensorflow as tf

    major, minor = (int(part) for part in tf.__version__.split(".")[:2])
    releases = [name.removeprefix("tensorflow-") for name in target_names() if name.startswith("tensorflow-")]
    assert np.all([f"2.{number}" in releases for number in range(minor + 1)])
    assert major == 2
