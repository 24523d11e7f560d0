"""Thawing: TensorFlow loads, restores, saves and trains what we make of a frozen graph; freezing it gives it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.docs.runner import ROOT, blocks, chdir
from tests.support import freeze_models as models
from tests.support.freeze_models import Made, make_tf1
from tests.verbs.test_freeze_tf1_parity import frozen_by_tensorflow, parse_graph
from tests.verbs.test_freeze_tf1_parity import run as run_graph

import tfsmith
from tfsmith.cli.main import main
from tfsmith.records import replace
from tfsmith.testing.models import BertConfig, TestModel, bert_classifier, conv_net
from tfsmith.testing.write import write_checkpoint_files, write_frozen

pytestmark = pytest.mark.tensorflow

BUILDERS: dict[str, Callable[[Any, Path], Any]] = {
    "ref": lambda tf, _: models.dense(tf, resource=False),
    "resource": lambda tf, _: models.dense(tf, resource=True),
    "embedding": lambda tf, _: models.embedding(tf),
    "batch_norm": lambda tf, _: models.batch_norm(tf),
    "control_flow_ref": lambda tf, _: models.control_flow(tf, resource=False, v2=False),
    "control_flow_resource": lambda tf, _: models.control_flow(tf, resource=True, v2=False),
    "control_flow_v2": lambda tf, _: models.control_flow(tf, resource=True, v2=True),
    "vocabulary": lambda tf, tmp: models.vocabulary(tf, tmp / "words.txt"),
    "partitioned_ref": lambda tf, _: models.dense(tf, resource=False, partitions=2),
    "partitioned_resource": lambda tf, _: models.dense(tf, resource=True, partitions=2),
}
OURS: dict[str, Callable[[], TestModel]] = {
    "bert_ref": lambda: bert_classifier(variables="ref", length=16),
    "bert_resource": lambda: bert_classifier(variables="resource", length=16),
    "conv_net_ref": lambda: conv_net(variables="ref"),
    "conv_net_resource": lambda: conv_net(variables="resource"),
}


@dataclass(frozen=True)
class Frozen:
    """A model, and its frozen graph."""

    made: Made
    path: Path

    @property
    def interface(self) -> dict[str, Any]:
        return {
            "inputs": {name.split(":")[0].replace("/", "_"): name for name in self.fed},
            "outputs": {name: f"{name}:0" for name in self.made.outputs},
        }

    @property
    def fed(self) -> dict[str, Any]:
        there = {node.name for node in parse_graph(self.path).node}
        return {name: value for name, value in self.made.feeds.items() if name.split(":")[0] in there}


def made_by_us(model: TestModel, folder: Path) -> Made:
    """A model of `tfsmith.testing` on disk, with the answers that TensorFlow gives."""
    import tensorflow as tf

    prefix = write_checkpoint_files(model, folder)
    feeds = {model.inputs[key]: value for key, value in model.example_inputs().items()}
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.import_meta_graph(f"{prefix}.meta").restore(session, str(prefix))
        answers = session.run([f"{name}:0" for name in model.output_nodes], feeds)
    return Made(folder, prefix, folder, tuple(model.output_nodes), feeds, answers)


@pytest.fixture(scope="module", params=[*BUILDERS, *OURS])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    tmp = tmp_path_factory.mktemp(request.param)
    if request.param in OURS:
        return made_by_us(OURS[request.param](), tmp / "model")
    return make_tf1(tmp / "model", lambda tf: BUILDERS[request.param](tf, tmp))


@pytest.fixture(scope="module")
def frozen(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Frozen:
    path = tmp_path_factory.mktemp("frozen") / "frozen.pb"
    tfsmith.save(tfsmith.freeze(tfsmith.load(made.prefix), made.outputs).model, path)
    return Frozen(made, path)


WITH_TABLES = "vocabulary"
"""Of the models, the one whose frozen graph does not run by itself: nothing fills its tables."""
each_runnable = pytest.mark.parametrize(
    "made", [name for name in (*BUILDERS, *OURS) if name != WITH_TABLES], indirect=True, scope="module"
)


def test_one_model_has_tables(frozen: Frozen, request: pytest.FixtureRequest) -> None:
    has_tables = any(node.op.startswith("HashTable") for node in parse_graph(frozen.path).node)
    assert has_tables == (request.node.callspec.params["made"] == WITH_TABLES)


def run(session: Any, frozen: Frozen) -> None:
    """The graph of the session answers as the original did."""
    answers = session.run([f"{name}:0" for name in frozen.made.outputs], frozen.fed)
    for ours, theirs in zip(answers, frozen.made.answers, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def needed_keys(made: Made) -> set[str]:
    """The keys of the original checkpoint that freezing takes."""
    return set(tfsmith.freeze(tfsmith.load(made.prefix), made.outputs).converted.values())


@pytest.mark.parametrize("by", ["us", "tensorflow"])
def test_freezing_gives_back_an_equal_graph(made: Made, frozen: Frozen, by: str, tmp_path: Path) -> None:
    if by == "tensorflow":
        meta = {"input_meta_graph": f"{made.prefix}.meta", "input_checkpoint": str(made.prefix)}
        frozen_by_tensorflow(made, tmp_path / "theirs.pb", **meta)
        frozen = Frozen(made, tmp_path / "theirs.pb")
    before = parse_graph(frozen.path)
    thawed = tfsmith.thaw(tfsmith.load(frozen.path), **frozen.interface).model
    assert not [node for node in thawed.graph if node.op == "Const" and node.name in frozen_variables(frozen)]
    tfsmith.save(thawed, tmp_path / "saved_model")
    tfsmith.save(thawed, tmp_path / "model.ckpt.meta", format="meta")
    for name, model in (
        ("memory", thawed),
        ("saved_model", tfsmith.load(tmp_path / "saved_model")),
        ("meta", tfsmith.load(tmp_path / "model.ckpt")),
    ):
        tfsmith.save(tfsmith.freeze(model, frozen.made.outputs).model, tmp_path / f"{name}.pb")
        after = parse_graph(tmp_path / f"{name}.pb")
        assert [node.name for node in after.node] == [node.name for node in before.node]
        for ours, theirs in zip(after.node, before.node, strict=True):
            assert ours == theirs
        assert after == before


def frozen_variables(frozen: Frozen) -> set[str]:
    return set(tfsmith.freeze(tfsmith.load(frozen.made.prefix), frozen.made.outputs).converted)


@each_runnable
def test_a_saved_model_that_tensorflow_loads_both_ways(frozen: Frozen, tmp_path: Path) -> None:
    import tensorflow as tf

    tfsmith.save(tfsmith.thaw(tfsmith.load(frozen.path), **frozen.interface).model, tmp_path / "out")
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], str(tmp_path / "out"))
        run(session, frozen)
        assert {variable.op.name for variable in v1.global_variables()} == frozen_variables(frozen)
        assert not session.run(v1.report_uninitialized_variables()).size
    function = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
    fed = {name.split(":")[0].replace("/", "_"): tf.constant(value) for name, value in frozen.fed.items()}
    answers = function(**fed)
    for name, theirs in zip(frozen.made.outputs, frozen.made.answers, strict=True):
        np.testing.assert_allclose(answers[name].numpy(), theirs, rtol=1e-5, atol=1e-6)


@each_runnable
def test_the_checkpoints_are_interchangeable(frozen: Frozen, tmp_path: Path) -> None:
    """The original checkpoint restores into the thawed graph, and the thawed one into the original's variables."""
    import tensorflow as tf

    thawed = tfsmith.thaw(tfsmith.load(frozen.path), as_="meta").model
    tfsmith.save(thawed, tmp_path / "model.ckpt.meta")
    theirs = tf.train.load_checkpoint(str(frozen.made.prefix))
    ours = tf.train.load_checkpoint(str(tmp_path / "model.ckpt"))
    keys = needed_keys(frozen.made)
    assert set(ours.get_variable_to_shape_map()) == keys
    for key in keys:
        np.testing.assert_array_equal(ours.get_tensor(key), theirs.get_tensor(key))
        assert ours.get_tensor(key).dtype == theirs.get_tensor(key).dtype
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        saver = v1.train.import_meta_graph(str(tmp_path / "model.ckpt.meta"))
        session.run("init")
        for checkpoint in (frozen.made.prefix, tmp_path / "model.ckpt"):
            saver.restore(session, str(checkpoint))
            run(session, frozen)
        saver.save(session, str(tmp_path / "again"), write_meta_graph=False)
        v1.train.Saver().save(session, str(tmp_path / "python"), write_meta_graph=False)  # by the collections
    for name in ("again", "python"):
        assert set(tf.train.load_checkpoint(str(tmp_path / name)).get_variable_to_shape_map()) == keys
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.import_meta_graph(f"{frozen.made.prefix}.meta")
        session.run(v1.global_variables_initializer())
        needed = [variable for variable in v1.global_variables() if variable.op.name in frozen_variables(frozen)]
        v1.train.Saver(needed).restore(session, str(tmp_path / "model.ckpt"))
        run(session, frozen)


@pytest.mark.parametrize("name", ["ref", "resource", "embedding", "batch_norm", "bert_ref", "bert_resource"])
def test_one_step_of_training(name: str, tmp_path: Path) -> None:
    import tensorflow as tf

    model = OURS[name]() if name in OURS else None
    if model is not None:
        made = made_by_us(model, tmp_path / "model")
    else:
        made = make_tf1(tmp_path / "model", lambda tf: BUILDERS[name](tf, tmp_path))
    tfsmith.save(tfsmith.freeze(tfsmith.load(made.prefix), made.outputs).model, tmp_path / "frozen.pb")
    frozen = Frozen(made, tmp_path / "frozen.pb")
    tfsmith.save(tfsmith.thaw(tfsmith.load(frozen.path), **frozen.interface).model, tmp_path / "out")
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], str(tmp_path / "out"))
        trainable = v1.trainable_variables()
        statistics = {"conv/moving_mean", "conv/moving_variance"}
        assert {variable.op.name for variable in trainable} == frozen_variables(frozen) - statistics
        output = session.graph.get_tensor_by_name(f"{made.outputs[0]}:0")
        goal = np.roll(made.answers[0], 1, -1) + 0.1
        loss = tf.reduce_mean(tf.square(output - goal))
        optimizer = v1.train.AdamOptimizer(1e-3)
        step = optimizer.minimize(loss)
        session.run(v1.variables_initializer(optimizer.variables()))
        before, weights = session.run([loss, trainable], frozen.fed)
        session.run(step, frozen.fed)
        after, changed = session.run([loss, trainable], frozen.fed)
        assert after < before
        still = [one.op.name for one, old, new in zip(trainable, weights, changed, strict=True) if (old == new).all()]
        # A key's bias adds the same to all of a query's scores, which softmax does not see.
        assert [name for name in still if not name.endswith("attention/self/key/bias")] == []
        thawed = [one for one in v1.global_variables() if one.op.name in frozen_variables(frozen)]
        v1.train.Saver(thawed).save(session, str(tmp_path / "tuned"))
    again = tfsmith.freeze(tfsmith.load(tmp_path / "tuned"), made.outputs).model.graph
    before_that = tfsmith.load(frozen.path).graph
    pairs = (again, before_that)  # TensorFlow wrote the first, and puts nodes behind what they take
    nodes, expected = ({one.name: (one.op, one.inputs) for one in graph} for graph in pairs)
    assert nodes == expected
    for variable, new in zip(trainable, changed, strict=True):
        np.testing.assert_array_equal(again[variable.op.name].get("value").numpy(), new)


def test_training_in_tensorflow_2(tmp_path: Path) -> None:
    """The loaded object has the variables, and a tape finds their gradients through the signature."""
    import tensorflow as tf

    made = make_tf1(tmp_path / "model", lambda tf: models.dense(tf, resource=True))
    frozen = tfsmith.freeze(tfsmith.load(made.prefix), made.outputs).model
    tfsmith.save(tfsmith.thaw(frozen).model, tmp_path / "out")
    loaded = tf.saved_model.load(str(tmp_path / "out"))
    function = loaded.signatures["serving_default"]
    assert sorted(variable.name for variable in loaded.variables) == ["net/b:0", "net/w2:0", "net/w:0"]
    x = tf.constant(made.feeds["x:0"])
    goal = tf.constant(np.roll(made.answers[0], 1, -1))
    losses = []
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(function(x)["probabilities"] - goal))
        losses.append(float(loss))
        for variable, gradient in zip(loaded.variables, tape.gradient(loss, loaded.variables), strict=True):
            variable.assign_sub(0.1 * gradient)
    assert losses[1] < losses[0]


def test_a_frozen_saved_model_with_a_vocabulary(tmp_path: Path) -> None:
    """Signature, tables and assets of a SavedModel survive."""
    import tensorflow as tf

    made = make_tf1(tmp_path / "model", lambda tf: models.vocabulary(tf, tmp_path / "words.txt"))
    frozen = tfsmith.freeze(tfsmith.load(made.saved_model), as_="saved_model").model
    tfsmith.save(frozen, tmp_path / "frozen", format="saved_model")
    tfsmith.save(tfsmith.thaw(tfsmith.load(tmp_path / "frozen")).model, tmp_path / "out")
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], str(tmp_path / "out"))
        answers = session.run([f"{name}:0" for name in made.outputs], made.feeds)
        assert [variable.op.name for variable in v1.trainable_variables()] == ["weights"]
    np.testing.assert_array_equal(answers[0], made.answers[0])
    function = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
    np.testing.assert_array_equal(function(tf.constant(made.feeds["text:0"]))["vectors"].numpy(), made.answers[0])
    again = tfsmith.freeze(tfsmith.load(tmp_path / "out"), as_="saved_model").model
    tfsmith.save(again, tmp_path / "again", format="saved_model")
    before, after = (tfsmith.load(tmp_path / name) for name in ("frozen", "again"))
    tfsmith.save(before, tmp_path / "before.pb", format="pb")
    tfsmith.save(after, tmp_path / "after.pb", format="pb")
    assert parse_graph(tmp_path / "before.pb") == parse_graph(tmp_path / "after.pb")


def test_a_tensorflow_2_model_frozen_flat(tmp_path: Path) -> None:
    import tensorflow as tf

    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(tf.random.stateless_normal([4, 3], (1, 2)), name="w")
            self.b = tf.Variable([0.5, -1.0, 2.0], name="b")

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def serve(self, x: Any) -> Any:
            return {"y": tf.cond(tf.reduce_sum(x) > 0, lambda: tf.matmul(x, self.w), lambda: x[:, :3] * self.b)}

    net = Net()
    tf.saved_model.save(net, str(tmp_path / "model"), signatures=net.serve)
    frozen = tfsmith.freeze(tfsmith.load(tmp_path / "model")).model
    tfsmith.save(frozen, tmp_path / "frozen.pb")
    thawed = tfsmith.thaw(frozen).model
    assert len(thawed.variables) == 2
    tfsmith.save(thawed, tmp_path / "out")
    function = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
    for x in (tf.ones([2, 4]), -tf.ones([2, 4])):
        np.testing.assert_allclose(function(x)["y"].numpy(), net.serve(x)["y"].numpy(), rtol=1e-6)
    tfsmith.save(tfsmith.freeze(tfsmith.load(tmp_path / "out")).model, tmp_path / "again.pb")
    assert parse_graph(tmp_path / "again.pb") == parse_graph(tmp_path / "frozen.pb")


def test_what_the_guide_says_about_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Python of the guide that needs TensorFlow, which the tests of the documents cannot run."""
    guide = (ROOT / "docs" / "guides" / "thaw.md").read_text()
    code = [block.text for block in blocks(guide) if block.language == "text"]
    assert len(code) == 2
    sizes = replace(BertConfig.tiny(), max_position_embeddings=128)
    write_frozen(bert_classifier(sizes, batch=1, length=128), tmp_path / "frozen.pb")
    names = [f"{name}={name}:0" for name in ("input_ids", "input_mask", "segment_ids")]
    flags = [word for name in names for word in ("--input", name)]
    arguments = ["thaw", str(tmp_path / "frozen.pb"), "-o", str(tmp_path / "thawed"), *flags]
    assert main([*arguments, "--output", "probabilities=loss/output:0"]) == 0
    found: dict[str, Any] = {}
    with chdir(tmp_path):
        exec(code[0], found)
        assert found["after"] < found["before"]
        kernel = tfsmith.load(tmp_path / "tuned.ckpt").variables["bert/pooler/dense/kernel"].numpy()
        assert not (kernel == tfsmith.load(tmp_path / "thawed").variables["bert/pooler/dense/kernel"].numpy()).all()
        exec(code[1], found)
        assert float(-np.log(found["serve"](**found["x"])["probabilities"][0, 1])) < float(found["loss"])


def test_tensorflow_freezes_it_too(tmp_path: Path) -> None:
    made = make_tf1(tmp_path / "model", lambda tf: models.embedding(tf))
    frozen = tfsmith.freeze(tfsmith.load(made.prefix), made.outputs).model
    tfsmith.save(tfsmith.thaw(frozen).model, tmp_path / "out")
    theirs = frozen_by_tensorflow(made, tmp_path / "theirs.pb", input_saved_model_dir=str(tmp_path / "out"))
    assert {node.name for node in theirs.node} - set(frozen.graph.by_name) == {"table/Read/ReadVariableOp"}
    np.testing.assert_array_equal(run_graph(theirs, made)[0], made.answers[0])
