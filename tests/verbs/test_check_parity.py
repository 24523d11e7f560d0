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


GELUS = {
    "erfc": lambda tf, x: 0.5 * x * tf.math.erfc(-x * 0.7071067811865476),
    "erfc, halved last": lambda tf, x: x * (0.5 * tf.math.erfc(-x * 0.7071067811865476)),
    "erfc, halved behind": lambda tf, x: tf.math.erfc(-x * 0.7071067811865476) * (0.5 * x),
    "erfc alone": lambda tf, x: tf.math.erfc(x),
    "erf": lambda tf, x: 0.5 * x * (1.0 + tf.math.erf(x / 1.4142135623730951)),
    "erf, halved last": lambda tf, x: x * (0.5 * (1.0 + tf.math.erf(x / 1.4142135623730951))),
    "erf alone": lambda tf, x: tf.math.erf(x),
    "keras": lambda tf, x: tf.nn.gelu(x),
}


@pytest.mark.parametrize("name", GELUS)
def test_tflite_converts_the_gelus_that_are_clean(name: str, tmp_path: Path) -> None:
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [2, 3], "x")
        tf.identity(GELUS[name](tf, x), name="y")
    (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
    clean = tfsmith.check(tmp_path / "g.pb", "tflite").is_clean
    assert converts(graph.as_graph_def(), {"x": "x:0"}, {"y": "y:0"}) == clean == (name in ("erfc", "erf", "keras"))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("batch", [None, 1])
def test_tflite_converts_recurrent_models_of_a_fixed_batch(kind: str, batch: int | None, tmp_path: Path) -> None:
    import tensorflow as tf

    inputs = tf.keras.Input((5, 3), batch_size=batch)
    made = tf.keras.Model(inputs, getattr(tf.keras.layers, kind)(4)(inputs))
    tf.saved_model.save(made, str(tmp_path / "saved"))
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "saved"))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    found = tfsmith.check(tmp_path / "saved", "tflite")
    if batch is not None:
        assert found.is_clean
        assert converter.convert()
        return
    assert [one.subject for one in found.obstacles] == ["TensorListReserve"]
    with pytest.raises(Exception, match="requires element_shape to be static"):
        converter.convert()


@pytest.mark.parametrize("op", ["MatMul", "IsInf", "Lgamma", "MatrixSetDiag", "Asin", "Betainc"])
def test_tflite_has_what_the_table_says(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    target = find_target("tflite")
    assert tf.__version__.startswith(f"{target.version}."), REGENERATE
    monkeypatch.syspath_prepend(str(TOOLS))
    import tflite_ops  # type: ignore[import-not-found, unused-ignore]

    assert (tflite_ops.ask(op) == "yes") == (op in target.ops)


@pytest.mark.parametrize("op", ["Abs", "Softmax", "ResizeBilinear", "Cast"])
def test_tflite_takes_the_types_that_the_table_says(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of each: types that it takes, and types that it does not."""
    monkeypatch.syspath_prepend(str(TOOLS))
    import tflite_ops  # type: ignore[import-not-found, unused-ignore]

    table, cases = find_target("tflite").types[op], tflite_ops._cases(op)
    assert set(table) == set(cases), REGENERATE
    for taken in (True, False):
        types = next(types for types in sorted(table) if table[types] is taken)
        assert any(tflite_ops._case_converts(case) for case in cases[types]) is taken, types
