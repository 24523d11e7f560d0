"""Makes the models of `tests/data/images`: ResNet50, MobileNetV2, EfficientNetB0 and a detector, frozen, compressed.

    python -m tools.make_image_models

Needs TensorFlow with Keras 3. Nothing is trained: weights are a short pattern of numbers, which compresses to nothing.
"""

from __future__ import annotations

import lzma
import tempfile
from pathlib import Path
from typing import Any

import numpy

import tfsmith

_OUT = Path(__file__).resolve().parents[1] / "tests/data/images"
_PERIOD = 61


def main() -> None:
    import keras
    import tensorflow as tf

    _OUT.mkdir(exist_ok=True)
    made = keras.applications
    for name, build in {
        "resnet50": made.ResNet50,
        "mobilenet": made.MobileNetV2,
        "efficientnet": made.EfficientNetB0,
    }.items():
        model = build(weights=None, input_shape=(64, 64, 3), classes=10)
        for weight in model.weights:
            weight.assign(_pattern(weight.path, weight.shape))
        with tempfile.TemporaryDirectory() as folder:
            model.export(f"{folder}/model", verbose=False)
            _keep(name, f"{folder}/model", folder)
    with tempfile.TemporaryDirectory() as folder:
        detector = _detector(tf)
        signature = detector.__call__.get_concrete_function(tf.TensorSpec((None, None, 3), tf.float32, "image"))
        tf.saved_model.save(detector, f"{folder}/model", {"serving_default": signature})
        _keep("detector", f"{folder}/model", folder)


def _pattern(name: str, shape: Any) -> Any:
    """Numbers that repeat, as large as training begins with; variances and scales are about 1."""
    count = int(numpy.prod(shape))
    wave = (numpy.arange(count) * 7 % _PERIOD - _PERIOD // 2) / (_PERIOD // 2)
    if "variance" in name or "gamma" in name:
        values = 1 + 0.1 * wave
    elif len(shape) < 2:
        values = 0.05 * wave
    else:
        values = wave * (3 / max(int(numpy.prod(shape[:-1])), 1)) ** 0.5
    return values.reshape(shape).astype("float32")


def _detector(tf: Any) -> Any:
    """Any image, resized; boxes and scores by convolutions; which of them stay, by non-maximum suppression."""

    class Detector(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            self.stem = tf.Variable(_pattern("stem", (3, 3, 3, 8)))
            self.boxes = tf.Variable(_pattern("boxes", (3, 3, 8, 4)))
            self.scores = tf.Variable(_pattern("scores", (3, 3, 8, 1)))

        @tf.function  # type: ignore[untyped-decorator]
        def __call__(self, image: Any) -> dict[str, Any]:
            small = tf.image.resize(image[None], (32, 32)) / 127.5 - 1.0
            found = tf.nn.relu6(tf.nn.conv2d(small, self.stem, 2, "SAME"))
            centers = tf.sigmoid(tf.reshape(tf.nn.conv2d(found, self.boxes, 2, "SAME"), (-1, 4)))
            scores = tf.reshape(tf.sigmoid(tf.nn.conv2d(found, self.scores, 2, "SAME")), (-1,))
            low = tf.minimum(centers[:, :2], centers[:, 2:])
            boxes = tf.concat([low, tf.maximum(centers[:, :2], centers[:, 2:]) + 0.05], -1)
            kept = tf.image.non_max_suppression(boxes, scores, 10, 0.5, 0.1)
            return {"boxes": tf.gather(boxes, kept), "scores": tf.gather(scores, kept), "count": tf.size(kept)}

    return Detector()


def _keep(name: str, model: str, folder: str) -> None:
    frozen = Path(folder, "frozen.pb")
    tfsmith.freeze(model).save(frozen)
    (_OUT / f"{name}.pb.xz").write_bytes(lzma.compress(frozen.read_bytes(), preset=9))


if __name__ == "__main__":
    main()
