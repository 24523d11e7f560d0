"""Trains the detector on pictures that are drawn on the spot, and leaves what a training run leaves.

training/model.ckpt-N.*   the graph, and the variables after N steps
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from config import Pipeline, read_pipeline
from detector import OUTPUTS, build, build_loss, make_anchors, make_input
from scoring import HELD_OUT, overlaps, score
from shapes import Scene, draw, make_scene

PICTURES = 1500  # seeds 0 to 1499; the held-out ones begin at 100000
EVERY = 100


def make_targets(scene: Scene, anchors: Any, pipeline: Pipeline) -> tuple[Any, Any, Any]:
    """For each anchor: how it is to be moved, which class it shows, and whether it counts."""
    boxes, classes = scene.boxes(), scene.classes()
    overlap = overlaps(anchors, boxes)
    nearest, best = overlap.argmax(1), overlap.max(1)
    sure = best >= pipeline.matched_threshold
    for number, anchor in enumerate(overlap.argmax(0)):  # each shape has an anchor, be it a bad one
        nearest[anchor], sure[anchor] = number, True
    labels = np.zeros((len(anchors), pipeline.num_classes), np.float32)
    labels[sure, classes[nearest[sure]] - 1] = 1.0
    weights = (sure | (best < pipeline.unmatched_threshold)).astype(np.float32)
    return encode(boxes[nearest], anchors, pipeline), labels, weights


def encode(boxes: Any, anchors: Any, pipeline: Pipeline) -> Any:
    """How to move anchors so that they become boxes; the detector's decoding is the way back."""
    size, wanted = anchors[:, 2:] - anchors[:, :2], boxes[:, 2:] - boxes[:, :2]
    moved = ((boxes[:, :2] + boxes[:, 2:]) - (anchors[:, :2] + anchors[:, 2:])) / 2 / size
    encoded = np.concatenate([moved, np.log(wanted / size)], 1) * pipeline.box_scales
    return encoded.astype(np.float32)


def make_data(pipeline: Pipeline) -> tuple[Any, ...]:
    """All pictures with their targets, stacked."""
    scenes = [make_scene(seed) for seed in range(PICTURES)]
    pictures = np.stack([draw(scene, pipeline.height) for scene in scenes])
    anchors = make_anchors(pipeline)
    targets = [make_targets(scene, anchors, pipeline) for scene in scenes]
    return pictures, *(np.stack(column) for column in zip(*targets, strict=True))


def train(pipeline: Pipeline, output: str) -> None:
    """Builds, trains, and writes the checkpoint."""
    pictures, *targets = make_data(pipeline)
    tf.set_random_seed(1)
    placeholder, images = make_input("image_tensor")
    encoding, logits, detections = build(pipeline, images)
    with tf.name_scope("targets"):
        feeds = [tf.placeholder(tf.float32, [None, *column.shape[1:]]) for column in targets]
    loss = build_loss(encoding, logits, *feeds)
    step = tf.train.get_or_create_global_step()
    rate = tf.train.cosine_decay(pipeline.learning_rate, step, pipeline.num_steps)
    update = tf.train.AdamOptimizer(rate).minimize(loss, step)
    random = np.random.default_rng(0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        total = 0.0
        for number in range(1, pipeline.num_steps + 1):
            chosen = random.integers(0, PICTURES, pipeline.batch_size)
            batch = dict(zip(feeds, (column[chosen] for column in targets), strict=True))
            total += session.run([update, loss], {placeholder: pictures[chosen], **batch})[1]
            if number % EVERY == 0:
                print(f"step {number:4}  loss {total / EVERY:.3f}", flush=True)
                total = 0.0
        tf.train.Saver().save(session, f"{output}/model.ckpt", global_step=step)
        found = score(lambda shown: session.run({name: detections[name] for name in OUTPUTS}, {placeholder: shown}))
    print(f"{HELD_OUT} pictures that it has never seen: {found}")


def main() -> None:
    """Reads the configuration, and trains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipeline_config_path", default="pipeline.config")
    parser.add_argument("--model_dir", default="training")
    told = parser.parse_args()
    tf.logging.set_verbosity(tf.logging.ERROR)  # it warns that this style is old
    tf.disable_resource_variables()  # the variables of TensorFlow 1: VariableV2
    tf.disable_control_flow_v2()  # its loops: Enter, Switch, Merge, Exit
    tf2.config.experimental.enable_op_determinism()  # each run gives the same numbers
    with tf.Graph().as_default():
        train(read_pipeline(told.pipeline_config_path), told.model_dir)


if __name__ == "__main__":
    main()
