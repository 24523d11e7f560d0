"""A ResNet50 with random weights, as Keras saves it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["save_resnet"]


def save_resnet(path: Path, *, quick: bool) -> None:
    """Writes the SavedModel; a quick one takes small images."""
    import tensorflow as tf

    size = 64 if quick else 224
    model = tf.keras.applications.ResNet50(weights=None, input_shape=(size, size, 3))
    model.export(str(path))
