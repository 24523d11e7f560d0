"""Export: TensorFlow loads what we write, in every way that it can, and finds the checkpoint's values in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import freeze_models as models
from tests.support.freeze_models import Made, make_tf1

import tfsmith

pytestmark = pytest.mark.tensorflow

BUILDERS: dict[str, Callable[[Any, Path], Any]] = {
    "ref": lambda tf, _: models.dense(tf, resource=False),
    "resource": lambda tf, _: models.dense(tf, resource=True),
    "embedding": lambda tf, _: models.embedding(tf),
    "control_flow_ref": lambda tf, _: models.control_flow(tf, resource=False, v2=False),
    "control_flow_v2": lambda tf, _: models.control_flow(tf, resource=True, v2=True),
    "vocabulary": lambda tf, tmp: models.vocabulary(tf, tmp / "words.txt"),
    "partitioned_ref": lambda tf, _: models.dense(tf, resource=False, partitions=2),
    "partitioned_resource": lambda tf, _: models.dense(tf, resource=True, partitions=2),
}


@pytest.fixture(scope="module", params=list(BUILDERS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    tmp = tmp_path_factory.mktemp(request.param)
    return make_tf1(tmp / "model", lambda tf: BUILDERS[request.param](tf, tmp))


def interface(made: Made) -> dict[str, Any]:
    return {
        "inputs": {name.split(":")[0].replace("/", "_"): name for name in made.feeds},
        "outputs": {name: f"{name}:0" for name in made.outputs},
    }


def assert_answers(folder: Path, made: Made) -> None:
    """TF1's loader, TF2's loader: the same answers as before the export."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], str(folder))
        answers = session.run([f"{name}:0" for name in made.outputs], made.feeds)
    for ours, theirs in zip(answers, made.answers, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    function = tf.saved_model.load(str(folder)).signatures["serving_default"]
    fed = {name.split(":")[0].replace("/", "_"): tf.constant(value) for name, value in made.feeds.items()}
    for name, theirs in zip(made.outputs, made.answers, strict=True):
        np.testing.assert_allclose(function(**fed)[name].numpy(), theirs, rtol=1e-6, atol=1e-6)


def assert_values(folder: Path, made: Made, keys: set[str]) -> None:
    """The variables hold the checkpoint's values, for TensorFlow's own reader."""
    import tensorflow as tf

    before = tf.train.load_checkpoint(str(made.prefix))
    after = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    assert set(after.get_variable_to_shape_map()) == keys
    for key in keys:
        np.testing.assert_array_equal(after.get_tensor(key), before.get_tensor(key))


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("source", ["meta", "graph.pb", "graph.pbtxt"])
def test_sources(made: Made, tmp_path: Path, source: str, prune: bool) -> None:
    path = made.prefix if source == "meta" else made.folder / source
    model = tfsmith.load(path, checkpoint=None if source == "meta" else made.folder)
    exported = tfsmith.export(model, tmp_path / "out", **interface(made), prune=prune)
    assert_answers(tmp_path / "out", made)
    assert_values(tmp_path / "out", made, set(exported.variables))
    assert not [key for key in exported.variables if "Adam" in key or key == "global_step"]
    files = sorted(
        path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()
    )
    expected = ["saved_model.pb", "variables/variables.data-00000-of-00001", "variables/variables.index"]
    assert files == (["assets/words.txt", *expected] if exported.assets else expected)


def test_all_variables(made: Made, tmp_path: Path) -> None:
    import tensorflow as tf

    tfsmith.export(made.prefix, tmp_path / "out", **interface(made), all_variables=True)
    assert_answers(tmp_path / "out", made)
    assert_values(tmp_path / "out", made, set(tf.train.load_checkpoint(str(made.prefix)).get_variable_to_shape_map()))


def test_a_fresh_checkpoint_has_the_same_tensors(made: Made, tmp_path: Path) -> None:
    """What we made to save works: TensorFlow loads the export and saves it again through its own saver_def."""
    import tensorflow as tf

    exported = tfsmith.export(made.prefix, tmp_path / "out", **interface(made), prune=True)
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.load(session, ["serve"], str(tmp_path / "out"))
        saver = meta.saver_def
        session.run(saver.save_tensor_name, {saver.filename_tensor_name: str(tmp_path / "again")})
    again = tf.train.load_checkpoint(str(tmp_path / "again"))
    before = tf.train.load_checkpoint(str(made.prefix))
    assert set(again.get_variable_to_shape_map()) == set(exported.variables)
    for key in exported.variables:
        np.testing.assert_array_equal(again.get_tensor(key), before.get_tensor(key))


def test_a_live_graph_in_one_line(tmp_path: Path) -> None:
    """What the object-detection exporter calls in place of write_saved_model."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        image = v1.placeholder(tf.float32, [1, 4], "image_tensor")
        w = v1.get_variable("w", [4, 2], use_resource=True, initializer=v1.random_normal_initializer())
        boxes = tf.matmul(image, w, name="detection_boxes")
        session.run(v1.global_variables_initializer())
        prefix = v1.train.Saver().save(session, str(tmp_path / "model.ckpt"), global_step=5)
        expected = session.run(boxes, {image: np.ones((1, 4), np.float32)})
        tfsmith.export(
            graph.as_graph_def(),
            tmp_path / "out",
            inputs={"inputs": image.name},
            outputs={"detection_boxes": boxes.name},
            checkpoint=prefix,
        )
    function = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
    np.testing.assert_allclose(function(tf.ones((1, 4)))["detection_boxes"].numpy(), expected, rtol=1e-6)


def test_saved_model_cli_runs_it(tmp_path: Path) -> None:
    made = make_tf1(tmp_path / "model", lambda tf: models.dense(tf, resource=True))
    tfsmith.export(made.prefix, tmp_path / "out", **interface(made))
    np.save(tmp_path / "x.npy", made.feeds["x:0"])
    tool = Path(sys.executable).with_name("saved_model_cli")
    flags = ["--tag_set", "serve", "--signature_def", "serving_default", "--inputs", f"x={tmp_path / 'x.npy'}"]
    subprocess.run(
        [tool, "run", "--dir", tmp_path / "out", *flags, "--outdir", tmp_path], check=True, capture_output=True
    )
    np.testing.assert_allclose(np.load(tmp_path / "probabilities.npy"), made.answers[0], rtol=1e-6)


def test_several_signatures_fixed_batch_and_shards(tmp_path: Path) -> None:
    import tensorflow as tf

    made = make_tf1(tmp_path / "model", lambda tf: models.dense(tf, resource=False))
    options: dict[str, Any] = {
        "signatures": {
            "serving_default": ({"x": "x:0"}, {"probabilities": "probabilities:0"}),
            "logits": ({"x": "x:0"}, {"logits": "net/logits:0"}),
        },
        "batch_size": 2,
        "set_tags": ("serve", "cpu"),
    }
    tfsmith.export(made.prefix, tmp_path / "out", **options, shards=3)
    assert len(list((tmp_path / "out" / "variables").glob("*.data-*"))) == 3
    loaded = tf.saved_model.load(str(tmp_path / "out"), tags=["serve", "cpu"])
    assert sorted(loaded.signatures) == ["logits", "serving_default"]
    assert loaded.signatures["logits"].inputs[0].shape == (2, 6)
    (x,) = made.feeds.values()
    answer = loaded.signatures["serving_default"](tf.constant(x))["probabilities"].numpy()
    np.testing.assert_allclose(answer, made.answers[0], rtol=1e-6)
