"""Freezing TensorFlow 2 SavedModels: one flat graph, with the original's answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.errors import UsageError

pytestmark = pytest.mark.tensorflow


def conv_net(tf: Any) -> Any:
    keras = tf.keras
    model = keras.Sequential(
        [
            keras.layers.Input((8, 8, 3)),
            keras.layers.Conv2D(4, 3),
            keras.layers.BatchNormalization(),
            keras.layers.Activation("relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.layers[1].moving_mean.assign([0.1, 0.2, -0.3, 0.4])
    return model


def recurrent(kind: str) -> Callable[[Any], Any]:
    def build(tf: Any) -> Any:
        keras = tf.keras
        layer = getattr(keras.layers, kind)(5, return_sequences=True)
        return keras.Sequential([keras.layers.Input((6, 3)), layer, keras.layers.Dense(2)])

    return build


def _example(shape: tuple[int, ...]) -> Any:
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


KERAS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "conv_net": (conv_net, (2, 8, 8, 3)),
    "lstm": (recurrent("LSTM"), (2, 6, 3)),
    "gru": (recurrent("GRU"), (2, 6, 3)),
}


def run_frozen(path: Path, feeds: Mapping[str, Any], outputs: Mapping[str, str]) -> dict[str, Any]:
    """Runs a frozen GraphDef in the real TensorFlow."""
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session(graph=graph) as session:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(path.read_bytes()), name="")
        return dict(session.run(dict(outputs), dict(feeds)))


def run_in_openvino(path: Path, feeds: Mapping[str, Any], outputs: Mapping[str, str]) -> dict[str, Any]:
    """Runs a frozen GraphDef in the real OpenVINO, which reads it by itself."""
    import openvino

    compiled = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled(dict(feeds))
    named = {name for output in compiled.outputs for name in output.names}  # it forgets outputs that are inputs
    return {key: results[name] for key, name in outputs.items() if name in named}


def freeze_and_run(
    model: tfsmith.Model, out: Path, feeds: Mapping[str, Any], signature: str | None = None, *, openvino: bool = True
) -> Any:
    """Freezes by signature, and runs the result by the tensor names that the frozen signature tells."""
    frozen = tfsmith.freeze(model, signature=signature).model
    tfsmith.save(frozen, out)
    (found,) = frozen.signatures.values()
    named = {found.inputs[key].name: value for key, value in feeds.items()}
    outputs = {key: info.name for key, info in found.outputs.items()}
    answers = run_frozen(out, named, outputs)
    for key, answer in (run_in_openvino(out, named, outputs) if openvino else {}).items():
        np.testing.assert_allclose(answer, answers[key], rtol=1e-4, atol=1e-5)
    return answers


def assert_flat(model: tfsmith.Model) -> None:
    assert not {"PartitionedCall", "StatefulPartitionedCall", "VarHandleOp", "ReadVariableOp"} & {
        n.op for n in model.graph
    }


@pytest.mark.parametrize("name", list(KERAS))
def test_keras(name: str, tmp_path: Path) -> None:
    import tensorflow as tf

    build, shape = KERAS[name]
    tf.keras.utils.set_random_seed(3)
    keras = build(tf)
    keras.export(str(tmp_path / "model"), verbose=False)
    x = _example(shape)
    model = tfsmith.load(tmp_path / "model")
    (key,) = model.signatures["serving_default"].inputs
    (answer,) = freeze_and_run(model, tmp_path / "frozen.pb", {key: x}).values()
    np.testing.assert_allclose(answer, keras(x, training=False).numpy(), rtol=1e-5, atol=1e-6)
    assert_flat(tfsmith.load(tmp_path / "frozen.pb"))


def test_keras_trained_and_saved_as_an_object(tmp_path: Path) -> None:
    """`tf.saved_model.save` of a Keras 3 model leaves two nodes for each variable; the saver restores only one."""
    import tensorflow as tf

    keras = conv_net(tf)
    keras.compile("adam", "mse")
    x = _example((2, 8, 8, 3))
    keras.fit(x, keras(x) * 0 + 1, verbose=0)
    tf.saved_model.save(keras, str(tmp_path / "model"))
    model = tfsmith.load(tmp_path / "model")
    (key,) = model.signatures["serving_default"].inputs
    (answer,) = freeze_and_run(model, tmp_path / "frozen.pb", {key: x}).values()
    np.testing.assert_allclose(answer, keras(x, training=False).numpy(), rtol=1e-5, atol=1e-6)


class _Made:
    """A tf.Module with nested functions, several signatures, tables and control flow."""

    def __init__(self, tf: Any, words: Path) -> None:
        words.write_text("alpha\nbeta\n")

        class Module(tf.Module):
            def __init__(self) -> None:
                super().__init__()
                self.w = tf.Variable(tf.random.stateless_normal([4, 4], [1, 2]), name="w")
                self.b = tf.Variable(tf.random.stateless_normal([4], [3, 4]), name="b")
                self.rows = tf.Variable(tf.random.stateless_normal([3, 4], [5, 6]), name="rows")
                self.asset = tf.saved_model.Asset(str(words))
                init = tf.lookup.TextFileInitializer(
                    self.asset,
                    tf.string,
                    tf.lookup.TextFileIndex.WHOLE_LINE,
                    tf.int64,
                    tf.lookup.TextFileIndex.LINE_NUMBER,
                )
                self.table = tf.lookup.StaticHashTable(init, 2)

            @tf.function
            def inner(self, x: Any) -> Any:
                return tf.matmul(x, self.w) + self.b

            @tf.function
            def middle(self, x: Any) -> Any:
                return self.inner(x) * 2.0, self.inner(tf.nn.relu(x))

            @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
            def nested(self, x: Any) -> Any:
                first, second = self.middle(x)
                return {"first": first, "both": first + second, "same": x}

            @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
            def lookup(self, words: Any) -> Any:
                return {"vectors": tf.gather(self.rows, self.table.lookup(words))}

            @tf.function(input_signature=[tf.TensorSpec([4], tf.float32, name="x")])
            def branches(self, x: Any) -> Any:
                chosen = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.linalg.matvec(self.w, x), lambda: x - self.b)
                for _ in tf.range(3):
                    chosen = chosen * 0.5 + tf.gather(self.rows, 1) + self.inner(chosen[None])[0]
                return {"answer": chosen}

            @tf.function(input_signature=[tf.TensorSpec([4], tf.float32, name="x")])
            def cases(self, x: Any) -> Any:
                number = tf.cast(x[0], tf.int32)
                return {"answer": tf.switch_case(number, [lambda: x, lambda: x + self.b, lambda: x * self.rows[0]])}

        self.module = Module()


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    import tensorflow as tf

    tmp = tmp_path_factory.mktemp("module")
    made = _Made(tf, tmp / "words.txt").module
    signatures = {"nested": made.nested, "lookup": made.lookup, "branches": made.branches, "cases": made.cases}
    tf.saved_model.save(made, str(tmp / "model"), signatures=signatures)
    return made, tmp / "model"


def assert_same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    assert sorted(ours) == sorted(theirs)
    for key, value in theirs.items():
        np.testing.assert_allclose(ours[key], value.numpy(), rtol=1e-6, atol=1e-6)


def test_nested_functions(module: tuple[Any, Path], tmp_path: Path) -> None:
    made, path = module
    x = _example((2, 4))
    answers = freeze_and_run(tfsmith.load(path), tmp_path / "f.pb", {"x": x}, "nested")
    assert_same(answers, made.nested(x))
    flat = tfsmith.load(tmp_path / "f.pb")
    assert_flat(flat)
    assert not flat.graph.library


@pytest.mark.parametrize("sign", [1, -1])
def test_control_flow(module: tuple[Any, Path], tmp_path: Path, sign: int) -> None:
    made, path = module
    x = sign * np.array([1.0, 2.0, -0.5, 0.25], np.float32)
    assert_same(freeze_and_run(tfsmith.load(path), tmp_path / "f.pb", {"x": x}, "branches"), made.branches(x))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_cases(module: tuple[Any, Path], tmp_path: Path, number: int) -> None:
    """OpenVINO has no Case, so only TensorFlow answers here."""
    made, path = module
    x = np.array([number, 2.0, -0.5, 0.25], np.float32)
    answers = freeze_and_run(tfsmith.load(path), tmp_path / "f.pb", {"x": x}, "cases", openvino=False)
    assert_same(answers, made.cases(x))


def test_tables_survive_in_a_saved_model(module: tuple[Any, Path], tmp_path: Path) -> None:
    import tensorflow as tf

    made, path = module
    frozen = tfsmith.freeze(tfsmith.load(path), signature="lookup", as_="saved_model").model
    tfsmith.save(frozen, tmp_path / "frozen", format="saved_model")
    assert (tmp_path / "frozen" / "assets" / "words.txt").read_text() == "alpha\nbeta\n"
    words = np.array([b"beta", b"alpha", b"else"], object)
    loaded = tf.saved_model.load(str(tmp_path / "frozen"))
    assert_same(loaded.signatures["lookup"](tf.constant(words)), made.lookup(tf.constant(words)))


def test_several_signatures_need_a_choice(module: tuple[Any, Path]) -> None:
    with pytest.raises(tfsmith.TfsmithError, match=r"choose one .signature=.: branches, cases, lookup, nested"):
        tfsmith.freeze(tfsmith.load(module[1]))


def test_assignments_in_branches_are_dropped_and_told(tmp_path: Path) -> None:
    """A branch that counts its calls: the count goes, the answer stays. In a loop it is refused."""
    import tensorflow as tf

    class Module(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = tf.Variable(0.0)
            self.w = tf.Variable(3.0)

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32, name="x")])
        def branch(self, x: Any) -> Any:
            if x > 0:
                self.count.assign_add(1.0)
                y = x * self.w
            else:
                y = x - self.w
            return {"y": y}

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32, name="x")])
        def loop(self, x: Any) -> Any:
            for _ in tf.range(3):
                self.w.assign_add(1.0)
                x = x + self.w
            return {"y": x}

    module = Module()
    signatures = {"branch": module.branch, "loop": module.loop}
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=signatures)
    model = tfsmith.load(tmp_path / "model")
    for x in (2.0, -2.0):
        answer = freeze_and_run(model, tmp_path / f"{x}.pb", {"x": np.float32(x)}, "branch")["y"]
        assert answer == (x * 3.0 if x > 0 else x - 3.0)
    report = tfsmith.freeze(model, signature="branch")
    assert "assignments to variables were dropped" in {note.what for note in report.notes}
    with pytest.raises(
        tfsmith.TfsmithError, match="AssignAddVariableOp takes a variable in a way that no constant can serve"
    ):
        tfsmith.freeze(model, signature="loop")


def attention(tf: Any) -> Any:
    """A module whose only named tensors are inner ones, with a key that input and output share."""

    class Attention(tf.Module):
        def __init__(self) -> None:
            self.w = tf.Variable(tf.random.stateless_normal([4, 4], (1, 2)), name="w")

        @tf.function(input_signature=[tf.TensorSpec([None, 3, 4], tf.float32, "tokens")])
        def one(self, tokens: Any) -> Any:
            keys = tokens @ self.w
            return {"hidden": tf.nn.softmax(keys @ tf.transpose(keys, [0, 2, 1])) @ keys}

        @tf.function(input_signature=[tf.TensorSpec([None, 3, 4], tf.float32, "tokens")])
        def two(self, tokens: Any) -> Any:
            return {"tokens": tf.nn.relu(tokens @ self.w), "probs": tf.nn.softmax(tokens @ self.w)}

    return Attention()


@pytest.mark.parametrize(
    ("signature", "outputs"), [("one", {"hidden": "hidden:0"}), ("two", {"probs": "probs:0", "tokens": "tokens_1:0"})]
)
def test_frozen_inputs_and_outputs_are_called_by_their_keys(
    tmp_path: Path, signature: str, outputs: dict[str, str]
) -> None:
    import tensorflow as tf

    module = attention(tf)
    tf.saved_model.save(module, str(tmp_path / "saved"), {"one": module.one, "two": module.two})
    model = tfsmith.load(tmp_path / "saved")
    frozen = tfsmith.freeze(model, signature=signature).model
    assert {key: info.name for key, info in frozen.signatures[signature].inputs.items()} == {"tokens": "tokens:0"}
    assert {key: info.name for key, info in frozen.signatures[signature].outputs.items()} == outputs
    tfsmith.save(frozen, tmp_path / "frozen.pb")
    alone = tfsmith.load(tmp_path / "frozen.pb")
    assert [found.tensor for found in tfsmith.likely_inputs(alone)] == ["tokens:0"]
    assert [found.tensor for found in tfsmith.likely_outputs(alone)] == list(outputs.values())
    tokens = _example((2, 3, 4))
    answers = run_frozen(tmp_path / "frozen.pb", {"tokens:0": tokens}, outputs)
    for key, expected in getattr(module, signature)(tokens).items():
        np.testing.assert_allclose(answers[key], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["tokens", "one_tokens", "one_tokens:0"])
def test_an_input_shape_is_given_by_key_or_by_the_name_that_the_placeholder_had(tmp_path: Path, name: str) -> None:
    import tensorflow as tf

    module = attention(tf)
    tf.saved_model.save(module, str(tmp_path / "saved"), {"one": module.one, "two": module.two})
    model = tfsmith.load(tmp_path / "saved")
    frozen = tfsmith.freeze(model, signature="one", input_shapes={name: (5, 3, 4)}).model
    assert str(frozen.graph["tokens"].get("shape")) == "[5, 3, 4]"
    with pytest.raises(UsageError, match="two shapes are given for placeholder 'tokens'; give one"):
        tfsmith.freeze(model, signature="one", input_shapes={"tokens": (5, 3, 4), "one_tokens": (5, 3, 4)})
