"""A small single-shot detector, in the style of TensorFlow 1 and of the Object Detection API.

A few convolutions look at the whole picture once. At each cell of two grids, boxes of known sizes (the anchors) are
moved, stretched and scored. What overlaps a better box of the same class is dropped, by non-maximum suppression, in
the graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from config import Pipeline

__all__ = ["INPUT_TYPES", "OUTPUTS", "build", "build_loss", "make_anchors", "make_input"]

OUTPUTS = ("detection_boxes", "detection_scores", "detection_classes", "num_detections")
INPUT_TYPES = ("image_tensor", "encoded_image_string_tensor")
_STRIDES = (8, 16)  # pixels per cell of the two grids


def make_anchors(pipeline: Pipeline) -> Any:
    """The boxes that the detector begins with, as rows of ymin, xmin, ymax, xmax: two sizes per cell, all square."""
    scales = [*np.linspace(pipeline.min_scale, pipeline.max_scale, pipeline.num_layers), 1.0]
    rows = []
    for layer, stride in enumerate(_STRIDES[: pipeline.num_layers]):
        height, width = -(-pipeline.height // stride), -(-pipeline.width // stride)
        between = float(np.sqrt(scales[layer] * min(scales[layer + 1], scales[layer] * 1.8)))
        y, x, size = np.meshgrid(
            (np.arange(height) + 0.5) / height,
            (np.arange(width) + 0.5) / width,
            [scales[layer], between],
            indexing="ij",
        )
        rows.append(np.stack([y - size / 2, x - size / 2, y + size / 2, x + size / 2], -1).reshape(-1, 4))
    return np.concatenate(rows).astype(np.float32)


def make_input(input_type: str, shape: tuple[int | None, ...] = (None, None, None, 3)) -> tuple[Any, Any]:
    """The placeholder that is fed, and the pictures in it as uint8 [N, height, width, 3]."""
    if input_type == "image_tensor":
        images = tf.placeholder(tf.uint8, shape, name="image_tensor")
        return images, images
    encoded = tf.placeholder(tf.string, shape[:1], name="encoded_image_string_tensor")

    def decode(data: Any) -> Any:
        return tf.ensure_shape(tf.image.decode_image(data, channels=3, expand_animations=False), shape[1:])

    return encoded, tf.map_fn(decode, encoded, tf.uint8, parallel_iterations=8)


def build(pipeline: Pipeline, images: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Adds the detector to the default graph.

    Returns:
        For each anchor how to move it, and a logit per class; and the detections, by the names of the Object Detection
        API: boxes as ymin, xmin, ymax, xmax from 0 to 1, the best first, padded with zeros to a fixed number.
    """
    with tf.name_scope("Preprocessor"):
        size = [pipeline.height, pipeline.width]
        resized = tf.image.resize_bilinear(tf.cast(images, tf.float32), size, half_pixel_centers=True)
        pixels = resized * (2.0 / 255.0) - 1.0
    grids = _features(pixels)[: pipeline.num_layers]
    encodings, logits = zip(*(_predict(grid, n, pipeline.num_classes) for n, grid in enumerate(grids)), strict=True)
    encoding, logit = tf.concat(encodings, 1), tf.concat(logits, 1)
    with tf.name_scope("Postprocessor"):
        boxes = _decode(encoding, make_anchors(pipeline), pipeline.box_scales)
        scores = tf.sigmoid(logit)
        found = tf.map_fn(
            lambda one: _suppress(one[0], one[1], pipeline), (boxes, scores), (tf.float32,) * 4, parallel_iterations=8
        )
    return encoding, logit, {name: tf.identity(one, name) for name, one in zip(OUTPUTS, found, strict=True)}


def _features(pixels: Any) -> list[Any]:
    """The grids: what the convolutions make of the picture, at every 8th and at every 16th pixel."""
    with tf.variable_scope("FeatureExtractor"):
        net = _layer(pixels, "Conv_0", 24, 7, 4)
        net = _layer(net, "Conv_1", 48, 3, 2)
        fine = _layer(net, "Conv_2", 48, 3, 1)
        net = _layer(fine, "Conv_3", 64, 3, 2)
        coarse = _layer(net, "Conv_4", 64, 3, 1)
    return [fine, coarse]


def _layer(net: Any, name: str, depth: int, size: int, stride: int) -> Any:
    """A convolution whose every channel is normalized within its picture: what training computes is what is served."""
    with tf.variable_scope(name):
        net = _convolve(net, depth, size, stride, 2.0)
        mean, variance = tf.nn.moments(net, [1, 2], keepdims=True)
        gamma = tf.get_variable("InstanceNorm/gamma", [depth], initializer=tf.ones_initializer())
        beta = tf.get_variable("InstanceNorm/beta", [depth], initializer=tf.zeros_initializer())
        return tf.nn.relu((net - mean) * tf.rsqrt(variance + 1e-3) * gamma + beta)


def _convolve(net: Any, depth: int, size: int, stride: int, spread: float) -> Any:
    shape = [size, size, int(net.shape[-1]), depth]
    begin = tf.truncated_normal_initializer(stddev=np.sqrt(spread / np.prod(shape[:3])))
    weights = tf.get_variable("weights", shape, initializer=begin)
    return tf.nn.conv2d(net, weights, [1, stride, stride, 1], "SAME")


def _predict(grid: Any, number: int, classes: int) -> tuple[Any, Any]:
    """For the two anchors of each cell: four numbers that move the box, and a logit per class."""
    cells = int(grid.shape[1]) * int(grid.shape[2])
    found = []
    with tf.variable_scope(f"BoxPredictor_{number}"):
        # Most anchors are background, so the logits begin low.
        for name, depth, bias in (("BoxEncodingPredictor", 4, 0.0), ("ClassPredictor", classes, -3.0)):
            with tf.variable_scope(name):
                net = _convolve(grid, 2 * depth, 3, 1, 0.1)
                begin = tf.constant_initializer(bias)
                net = tf.nn.bias_add(net, tf.get_variable("biases", [2 * depth], initializer=begin))
            found.append(tf.reshape(net, [-1, 2 * cells, depth]))
    return found[0], found[1]


def _decode(encoding: Any, anchors: Any, scales: tuple[float, ...]) -> Any:
    """Boxes, of anchors and how to move them: the coding of Faster R-CNN."""
    centre, size = (anchors[:, :2] + anchors[:, 2:]) / 2, anchors[:, 2:] - anchors[:, :2]
    middle = encoding[..., :2] / scales[:2] * size + centre
    half = tf.exp(encoding[..., 2:] / scales[2:]) * size / 2
    return tf.concat([middle - half, middle + half], -1)


def _suppress(boxes: Any, scores: Any, pipeline: Pipeline) -> tuple[Any, Any, Any, Any]:
    """The detections of one picture: each class by itself, then the best of all, padded."""
    parts = []
    for number in range(pipeline.num_classes):
        score = scores[:, number]
        chosen = tf.image.non_max_suppression(
            boxes, score, pipeline.max_detections_per_class, pipeline.iou_threshold, pipeline.score_threshold
        )
        kind = tf.fill([tf.size(chosen)], float(number + 1))
        parts.append((tf.gather(boxes, chosen), tf.gather(score, chosen), kind))
    box, score, kind = (tf.concat(part, 0) for part in zip(*parts, strict=True))
    count = tf.minimum(tf.size(score), pipeline.max_total_detections)
    score, order = tf.nn.top_k(score, count)
    box = tf.clip_by_value(tf.gather(box, order), 0.0, 1.0)
    room = [0, pipeline.max_total_detections - count]
    padded = (tf.pad(box, [room, [0, 0]]), tf.pad(score, [room]), tf.pad(tf.gather(kind, order), [room]))
    for tensor in padded:
        tensor.set_shape([pipeline.max_total_detections, *tensor.shape[1:]])
    return *padded, tf.cast(count, tf.float32)


def build_loss(encoding: Any, logits: Any, wanted: Any, labels: Any, weights: Any) -> Any:
    """What training makes small: where the boxes are (smooth L1), and what they are (focal loss).

    Args:
        encoding: How the detector moves the anchors.
        logits: A logit per anchor and class.
        wanted: How they should be moved, [N, anchors, 4].
        labels: 1 for the class of an anchor that lies on a shape, else 0, [N, anchors, classes].
        weights: 0 for anchors that are neither on a shape nor off it, [N, anchors].
    """
    matched = tf.reduce_sum(labels, -1)
    count = tf.maximum(tf.reduce_sum(matched), 1.0)
    away = tf.abs(encoding - wanted)
    smooth = tf.where(away < 1.0, 0.5 * away * away, away - 0.5)
    place = tf.reduce_sum(matched * tf.reduce_sum(smooth, -1))
    cross = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    score = tf.sigmoid(logits)
    wrong = labels * (1 - score) + (1 - labels) * score
    balance = labels * 0.25 + (1 - labels) * 0.75
    kind = tf.reduce_sum(weights[..., None] * balance * wrong * wrong * cross)
    return (place + 4.0 * kind) / count
