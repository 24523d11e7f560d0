"""Weights against TensorFlow: `tf.train.load_variable` for every dtype, and checkpoints made of other files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import dtype_named

pytestmark = pytest.mark.tensorflow

KINDS = [
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex64", "complex128", "float8_e5m2", "float8_e4m3fn",
]  # fmt: skip


@pytest.fixture(scope="module")
def tf() -> Any:
    import tensorflow

    return tensorflow


@pytest.fixture
def checkpoint(tf: Any, tmp_path: Path) -> Path:
    """A checkpoint that TensorFlow wrote, with every dtype."""
    random = np.random.default_rng(0)
    values = {kind: (random.standard_normal((3, 4)) * 3).astype(dtype_named(kind).numpy()) for kind in KINDS}
    prefix = tmp_path / "model.ckpt"
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=[f"layer/{kind}" for kind in values],
        shape_and_slices=[""] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )
    return prefix


def test_every_dtype_is_what_load_variable_gives(tf: Any, checkpoint: Path) -> None:
    weights = tfsmith.load_weights(checkpoint)
    assert sorted(weights) == sorted(f"layer/{kind}" for kind in KINDS)
    for name, tensor in weights.items():
        wanted = tf.train.load_variable(str(checkpoint), name)
        found = tensor.numpy()
        assert found.dtype == wanted.dtype
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("ending", [".safetensors", ".npz"])
def test_tensorflow_restores_what_other_files_held(tf: Any, checkpoint: Path, tmp_path: Path, ending: str) -> None:
    excluded = ["layer/complex128"] if ending == ".safetensors" else []
    weights = tfsmith.load_weights(checkpoint, excluded=excluded)
    tfsmith.save_weights(weights, tmp_path / f"w{ending}")
    back = tmp_path / "back.ckpt"
    tfsmith.save_weights(tfsmith.load_weights(tmp_path / f"w{ending}"), back)
    reader = tf.train.load_checkpoint(str(back))
    assert sorted(reader.get_variable_to_shape_map()) == sorted(weights)
    for name in weights:
        wanted = tf.train.load_variable(str(checkpoint), name)
        assert reader.get_tensor(name).tobytes() == wanted.tobytes()


def test_a_saver_restores_it(tf: Any, tmp_path: Path) -> None:
    tfsmith.save_weights({"w": ArrayTensor.of(np.arange(1, 4, dtype=np.float32))}, tmp_path / "model.ckpt")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("w", [3])
        tf.compat.v1.train.Saver().restore(session, str(tmp_path / "model.ckpt"))
        np.testing.assert_array_equal(session.run(variable), [1, 2, 3])
