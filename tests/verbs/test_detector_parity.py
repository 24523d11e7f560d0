"""An SSD-like detector, with a while loop and non-maximum suppression: frozen and unfrozen answer alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.freeze_models import Made, make_tf1
from tests.verbs.test_freeze_tf1_parity import frozen_by_tensorflow, run

import tfsmith

pytestmark = pytest.mark.tensorflow

OUTPUTS = ("detection_boxes", "detection_scores", "num_detections")


def detector(tf: Any) -> tuple[list[Any], dict[Any, Any]]:
    """Anchors, box decoding, and for each image of the batch a loop step with non-maximum suppression."""
    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    images = v1.placeholder(tf.uint8, [None, 16, 16, 3], "image_tensor")
    with v1.variable_scope("FeatureExtractor", use_resource=False):
        kernel = v1.get_variable("kernel", [3, 3, 3, 8], initializer=v1.random_normal_initializer())
        features = tf.nn.relu(tf.nn.conv2d(tf.cast(images, tf.float32) / 255.0, kernel, 4, "SAME"))
    with v1.variable_scope("BoxPredictor", use_resource=True):
        box = v1.get_variable("box", [8, 4], initializer=v1.random_normal_initializer(stddev=0.1))
        score = v1.get_variable("score", [8, 1], initializer=v1.random_normal_initializer())
    cells = tf.reshape(features, [tf.shape(images)[0], 16, 8])
    offsets = tf.tensordot(cells, box, 1)
    scores = tf.squeeze(tf.sigmoid(tf.tensordot(cells, score, 1)), -1)
    centre = (tf.cast(tf.range(16), tf.float32) + 0.5) / 16
    anchors = tf.stack([centre - 0.2, centre - 0.2, centre + 0.2, centre + 0.2], -1)

    def one(number: Any, boxes: Any, kept: Any, counts: Any) -> Any:
        decoded = anchors + offsets[number]
        chosen = tf.image.non_max_suppression(decoded, scores[number], 5, 0.4)
        count = tf.size(chosen)
        padding = [[0, 5 - count]]
        return (
            number + 1,
            boxes.write(number, tf.pad(tf.gather(decoded, chosen), [*padding, [0, 0]])),
            kept.write(number, tf.pad(tf.gather(scores[number], chosen), padding)),
            counts.write(number, tf.cast(count, tf.float32)),
        )

    size = tf.shape(images)[0]
    arrays = [tf.TensorArray(tf.float32, size, element_shape=shape) for shape in ([5, 4], [5], [])]
    _, boxes, kept, counts = tf.while_loop(lambda number, *_: number < size, one, [0, *arrays])
    outputs = [
        tf.identity(array.stack(), name=name) for array, name in zip((boxes, kept, counts), OUTPUTS, strict=True)
    ]
    v1.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_mean(scores))
    data = np.random.default_rng(1).integers(0, 255, (2, 16, 16, 3), np.uint8)
    return outputs, {images: data}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_tf1(tmp_path_factory.mktemp("detector") / "training", detector)


def test_frozen_and_unfrozen_answer_alike(made: Made, tmp_path: Path) -> None:
    import tensorflow as tf

    tfsmith.export(
        made.folder,
        tmp_path / "saved_model",
        inputs={"inputs": "image_tensor:0"},
        outputs={name: f"{name}:0" for name in OUTPUTS},
        prune=True,
    )
    names = sorted(p.relative_to(tmp_path).as_posix() for p in (tmp_path / "saved_model").rglob("*") if p.is_file())
    assert names == [
        "saved_model/saved_model.pb",
        "saved_model/variables/variables.data-00000-of-00001",
        "saved_model/variables/variables.index",
    ]
    tfsmith.save(tfsmith.freeze(tfsmith.load(made.folder), OUTPUTS).model, tmp_path / "frozen.pb")
    frozen = run(tf.compat.v1.GraphDef.FromString((tmp_path / "frozen.pb").read_bytes()), made)
    function = tf.saved_model.load(str(tmp_path / "saved_model")).signatures["serving_default"]
    unfrozen = function(tf.constant(made.feeds["image_tensor:0"]))
    for name, one, expected in zip(OUTPUTS, frozen, made.answers, strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-6)  # TensorFlow fuses what is constant
        np.testing.assert_allclose(unfrozen[name].numpy(), expected, rtol=1e-6, atol=1e-6)


def test_frozen_as_tensorflow_freezes_it(made: Made, tmp_path: Path) -> None:
    from tests.verbs.test_freeze_tf1_parity import assert_same_nodes, frozen_by_us

    ours = frozen_by_us(tfsmith.load(made.prefix), made, tmp_path / "ours.pb", clear_devices=True)
    theirs = frozen_by_tensorflow(
        made, tmp_path / "theirs.pb", input_meta_graph=f"{made.prefix}.meta", input_checkpoint=str(made.prefix)
    )
    assert_same_nodes(ours, theirs)
