"""Running models: OpenVINO through tfsmith against TensorFlow, on every model of the suite that both support."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.freeze_models import make_tf1
from tests.verbs.test_detector_parity import detector
from tests.verbs.test_freeze_tf1_parity import BUILDERS
from tests.verbs.test_freeze_tf2_parity import KERAS, _Made

import tfsmith
from tfsmith.engines.feeds import find_input
from tfsmith.engines.program import make_program
from tfsmith.engines.protocol import LackError
from tfsmith.errors import EngineError
from tfsmith.testing.models import TestModel, bert_classifier, conv_net, linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model
from tfsmith.verbs.run import engine_lacks

pytestmark = pytest.mark.tensorflow

OURS: dict[str, Callable[[], TestModel]] = {
    "linear_regression": linear_regression,
    "conv_net": conv_net,
    "bert_ref": lambda: bert_classifier(variables="ref"),
    "bert_resource": lambda: bert_classifier(variables="resource"),
    "bert_of_3": lambda: bert_classifier(batch=3, length=7, labels=4),
}
TF1: dict[str, Callable[[Any, Path], Any]] = {**BUILDERS, "detector": lambda tf, _: detector(tf)}


def assert_close(found: Mapping[str, Any], wanted: Mapping[str, Any], *, dtypes: bool = True) -> None:
    assert list(found) == list(wanted)
    for key, values in wanted.items():
        assert found[key].shape == values.shape
        assert not dtypes or found[key].dtype == values.dtype
        np.testing.assert_allclose(found[key], values, rtol=1e-5, atol=2e-6)


def run_in_tensorflow(path: Path, model: TestModel, feeds: dict[str, Any]) -> dict[str, Any]:
    """What TensorFlow itself answers, in this process."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], str(path))
        found = session.run(model.outputs, {model.inputs[key]: value for key, value in feeds.items()})
    return {key: np.asarray(values) for key, values in found.items()}


@pytest.mark.parametrize("name", OURS)
def test_our_models(name: str, tmp_path: Path) -> None:
    """The SavedModel in both engines, and in OpenVINO also the checkpoint and the frozen graph."""
    model = OURS[name]()
    path = write_saved_model(model, tmp_path / "saved_model")
    prefix = write_checkpoint_files(model, tmp_path / "training", step=1)
    frozen = write_frozen(model, tmp_path / "frozen.pb")
    feeds = model.example_inputs(3, 2)
    wanted = run_in_tensorflow(path, model, feeds)
    reference = model.reference(feeds)
    assert_close(wanted, {key: reference[key] for key in wanted})
    own = ("openvino", "reference")
    for engine in (*own, "tensorflow") if name in ("bert_resource", "linear_regression") else own:
        assert_close(tfsmith.run(path, feeds, engine=engine), wanted)
    tensors = {model.inputs[key]: value for key, value in feeds.items()}
    for other in (prefix, frozen):
        known = make_program(tfsmith.load(other), list(model.outputs.values())).inputs
        needed = {name: value for name, value in tensors.items() if find_input(known, name)}
        found = tfsmith.run(other, needed, list(model.outputs.values()))
        assert_close(found, {model.outputs[key]: wanted[key] for key in wanted})


@pytest.mark.parametrize("name", TF1)
def test_tf1_models(name: str, tmp_path: Path) -> None:
    """What TensorFlow answered when the model was made, of the SavedModel and of the checkpoint."""
    made = make_tf1(tmp_path / "model", lambda tf: TF1[name](tf, tmp_path))
    wanted = dict(zip(made.outputs, made.answers, strict=True))
    tables = name == "vocabulary"
    engines = ["tensorflow"] if tables else ["openvino", "reference"]
    if name in ("ref", "control_flow_v2", "detector"):  # each start of TensorFlow takes seconds
        engines.append("tensorflow")
    for engine in engines:
        found = tfsmith.run(made.saved_model, made.feeds, engine=engine)
        for key in wanted:
            np.testing.assert_allclose(found[key.replace("/", "_")], wanted[key], rtol=1e-5, atol=1e-6)
        assert_close(tfsmith.run(made.prefix, made.feeds, made.outputs, engine=engine), wanted)
    if tables:
        with pytest.raises(EngineError) as refused:
            tfsmith.run(made.prefix, made.feeds, made.outputs, engine="reference")
        assert "it reads the file 'words.txt', which is no asset of the model" in refused.value.what
        with pytest.raises(LackError) as caught:
            tfsmith.run(made.saved_model, made.feeds, engine="openvino")
        assert re.search(r"HashTableV2 \(hash_table\): OpenVINO says: .* is not initialized", caught.value.what)
        with tfsmith.compile(made.prefix, made.outputs) as runner:
            assert runner.engine == "tensorflow"
            assert "openvino is not proven for this model: HashTableV2" in runner.refusals[0]
            assert_close(runner.run(made.feeds), wanted)


@pytest.mark.parametrize("name", list(KERAS))
def test_keras_models(name: str, tmp_path: Path) -> None:
    import tensorflow as tf

    build, shape = KERAS[name]
    tf.keras.utils.set_random_seed(3)
    keras = build(tf)
    keras.export(str(tmp_path / "model"), verbose=False)
    x = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    feeds = {_only_input(tmp_path / "model"): x}
    wanted = {"output_0": keras(x, training=False).numpy()}
    for engine in ("openvino", "reference", "tensorflow") if name == "lstm" else ("openvino", "reference"):
        assert_close(tfsmith.run(tmp_path / "model", feeds, engine=engine), wanted)


def _only_input(path: Path) -> str:
    (key,) = tfsmith.load(path).signatures["serving_default"].inputs
    return key


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import tensorflow as tf

    tmp = tmp_path_factory.mktemp("module")
    made = _Made(tf, tmp / "words.txt").module
    signatures = {"nested": made.nested, "lookup": made.lookup, "branches": made.branches, "cases": made.cases}
    tf.saved_model.save(made, str(tmp / "model"), signatures=signatures)
    return tmp / "model"


@pytest.fixture(scope="module")
def nested(module: Path) -> Iterator[tfsmith.Runner]:
    with tfsmith.compile(module, signature="nested", engine="tensorflow") as runner:
        yield runner


X = np.array([[1.0, 2.0, -0.5, 0.25]], np.float32)


def test_functions(module: Path, nested: tfsmith.Runner) -> None:
    """Also an output that is an input."""
    wanted = nested.run({"x": X})
    np.testing.assert_array_equal(wanted["same"], X)
    assert_close(tfsmith.run(module, {"x": X}, signature="nested", engine="openvino"), wanted)


def test_control_flow(module: Path) -> None:
    runners = [tfsmith.compile(module, signature="branches", engine=engine) for engine in ("openvino", "tensorflow")]
    for sign in (1, -1):
        assert_close(*(runner.run({"x": sign * X[0]}) for runner in runners))
    for runner in runners:
        runner.close()


def test_ops_that_openvino_lacks(module: Path) -> None:
    model = tfsmith.load(module)
    (lack,) = engine_lacks(model, "openvino", signature="cases")
    assert lack.op == "Case"
    assert lack.nodes == ("StatefulPartitionedCall_1/StatefulPartitionedCall/switch_case/indexed_case",)
    assert engine_lacks(model, "openvino", signature="branches") == ()
    assert [lack.op for lack in engine_lacks(model, "openvino", signature="lookup")] == [
        "HashTableV2",
        "LookupTableFindV2",
    ]
    with pytest.raises(LackError, match=r"Case \(.*indexed_case\): OpenVINO has no such op; run it with TensorFlow"):
        tfsmith.run(model, {"x": X[0]}, signature="cases", engine="openvino")
    with tfsmith.compile(model, signature="cases") as runner:
        assert runner.engine == "reference"


def test_inner_tensors(module: Path, nested: tfsmith.Runner, tmp_path: Path) -> None:
    """Of a graph, in both engines; of a function, when all is one graph."""
    model = bert_classifier()
    prefix = write_checkpoint_files(model, tmp_path / "training", step=1)
    feeds = {model.inputs[key]: value for key, value in model.example_inputs(1, 2).items() if key != "label_ids"}
    inner = ["bert/pooler/dense/Tanh:0", "bert/encoder/layer_0/attention/self/Softmax"]
    inner += ["bert/embeddings/LayerNorm/moments/mean:0", "bert/embeddings/LayerNorm/batchnorm/add_1"]  # see _config
    found = [tfsmith.run(prefix, feeds, inner, engine=engine) for engine in ("openvino", "tensorflow")]
    assert_close(*found)
    name = "StatefulPartitionedCall_3/StatefulPartitionedCall/add:0"
    answers = [
        tfsmith.run(module, {"x": X}, [name, "first"], signature="nested", engine=engine)
        for engine in ("openvino", "tensorflow")
    ]
    assert_close(*answers)
    assert list(answers[0]) == [name, "first"]
    np.testing.assert_allclose(answers[0][name], nested.run({"x": X})["both"], rtol=1e-6)
    pooled = np.ones((2, model.model.variables["bert/pooler/dense/bias"].shape.elements or 0), np.float32)
    fed = [
        tfsmith.run(prefix, {"bert/pooler/dense/Tanh:0": pooled}, ["loss/output"], engine=engine)
        for engine in ("openvino", "tensorflow")
    ]
    assert_close(*fed)


def test_a_default_counts_until_something_is_fed(tmp_path: Path) -> None:
    def build(tf: Any) -> Any:
        v1 = tf.compat.v1
        x = v1.placeholder(tf.float32, [None], "x")
        rate = v1.placeholder_with_default(2.0, [], "rate")
        w = v1.get_variable("w", [], use_resource=True, initializer=v1.constant_initializer(3.0))
        return [tf.identity(x * rate * w, name="y")], {x: np.ones(2, np.float32)}

    made = make_tf1(tmp_path / "model", build)
    for engine in ("openvino", "tensorflow"):
        with tfsmith.compile(made.prefix, ["y"], engine=engine) as runner:
            assert [key for key, port in runner.inputs.items() if port.required] == ["x"]
            assert runner.run({"x": [1.0]})["y"] == 6
            assert runner.run({"x": [1.0], "rate": 5.0})["y"] == 15
            assert runner.run({"x": [2.0]})["y"] == 12


def test_types(tmp_path: Path) -> None:
    """Types come back as TensorFlow gives them."""

    def build(tf: Any) -> Any:
        v1 = tf.compat.v1
        v1.get_variable("unused", [1])
        kinds = (tf.float64, tf.float16, tf.bfloat16, tf.int64, tf.int32, tf.int8, tf.uint8, tf.bool)
        fed = {v1.placeholder(kind, [2], kind.name): np.array([0, 1]).astype(kind.as_numpy_dtype) for kind in kinds}
        return [tf.concat([x, x], 0, name=f"{x.op.name}_twice") for x in fed], fed

    made = make_tf1(tmp_path / "model", build)
    wanted = dict(zip(made.outputs, made.answers, strict=True))
    for engine in ("openvino", "tensorflow"):
        found = tfsmith.run(made.saved_model, made.feeds, engine=engine)
        for key, values in wanted.items():
            assert found[key].dtype == values.dtype, key
            np.testing.assert_array_equal(found[key], values)


def test_bad_inputs_and_failures(nested: tfsmith.Runner, module: Path, tmp_path: Path) -> None:
    with pytest.raises(tfsmith.TfsmithError, match=r"given float64 \[1, 4\]; the model wants float32 \[\?, 4\]"):
        nested.run({"x": X.astype(np.float64) / 3})
    with pytest.raises(tfsmith.TfsmithError, match="no input 'y'; the inputs are: x"):
        nested.run({"y": X})
    with pytest.warns(RuntimeWarning) as told:
        nested.run({"x": X * np.nan})
    assert {str(found.message) for found in told} == {
        f"output {key!r}: 4 of 4 values are NaN, and 0 are infinite" for key in ("both", "first", "same")
    }

    def build(tf: Any) -> Any:
        v1 = tf.compat.v1
        a, b = (v1.placeholder(tf.float32, None, name) for name in "ab")
        w = v1.get_variable("w", [], use_resource=True)
        return [tf.matmul(a * w, b, name="y")], {a: np.ones((2, 3)), b: np.ones((3, 2))}

    made = make_tf1(tmp_path / "model", build)
    wrong = {"a": np.ones((2, 3), np.float32), "b": np.ones((4, 2), np.float32)}
    for engine in ("openvino", "tensorflow"):
        with tfsmith.compile(made.prefix, ["y"], engine=engine) as runner:
            with pytest.raises(EngineError) as refused:
                runner.run(wrong)
            assert "\n" not in str(refused.value)
            good = runner.run({**wrong, "b": np.ones((3, 2), np.float32)})  # it still runs
            np.testing.assert_allclose(good["y"], made.answers[0], rtol=1e-6)


def test_tables_that_nothing_fills(tmp_path: Path) -> None:
    from tests.support import freeze_models

    made = make_tf1(tmp_path / "model", lambda tf: freeze_models.vocabulary(tf, tmp_path / "words.txt"))
    tfsmith.freeze(made.prefix, made.outputs).save(tmp_path / "frozen.pb")
    with pytest.raises(EngineError, match=r"the table is not filled; a plain graph has lost what fills its tables"):
        tfsmith.run(tmp_path / "frozen.pb", made.feeds)
    for path, checkpoint in ((made.folder / "graph.pb", made.prefix), (made.saved_model, None)):
        model = tfsmith.load(path, checkpoint=checkpoint)
        edited = model.replace_graph(model.graph.replace(nodes=model.graph.nodes))  # no longer what lies on disk
        (found,) = tfsmith.run(edited, made.feeds, ["vectors"]).values()
        np.testing.assert_array_equal(found, made.answers[0])


def test_tables_of_numbers(tmp_path: Path) -> None:
    """OpenVINO fills them from constants, if it is handed what does; nothing but that needs those nodes."""

    def build(tf: Any) -> Any:
        v1 = tf.compat.v1
        key = v1.placeholder(tf.int64, [None], "key")
        pairs = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], tf.int64), tf.constant([10.0, 20.0]))
        w = v1.get_variable("w", [], use_resource=True, initializer=v1.constant_initializer(2.0))
        return [tf.identity(v1.lookup.StaticHashTable(pairs, -1.0).lookup(key) * w, name="y")], {key: np.array([2, 7])}

    made = make_tf1(tmp_path / "model", build)
    for path, outputs in ((made.saved_model, ()), (made.prefix, ["y"])):
        assert tfsmith.run(path, made.feeds, outputs, engine="openvino")["y"].tolist() == [40, -2]


def test_an_op_library_that_is_none(module: Path, tmp_path: Path) -> None:
    (tmp_path / "ops.so").write_bytes(b"no library")
    with pytest.raises(EngineError, match=r"TensorFlow: .*ops\.so"):
        tfsmith.run(module, {"x": X}, signature="nested", op_libraries=[tmp_path / "ops.so"])


def test_damaged_weights_are_found(tmp_path: Path) -> None:
    prefix = write_checkpoint_files(linear_regression(), tmp_path, step=1)
    data = Path(f"{prefix}.data-00000-of-00001")
    data.write_bytes(bytes(byte ^ 1 for byte in data.read_bytes()))
    with pytest.raises(tfsmith.TfsmithError, match="do not fit their checksum"):
        tfsmith.run(prefix, {"x_sample": [[1.0]]}, engine="openvino")
