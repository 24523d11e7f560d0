"""Values of convolution and pooling that no case of 64 elements reaches: layouts of other devices, large inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tfsmith.ir.node import Attr, attr
from tfsmith.ir.opdef import builtin_ops
from tfsmith.ops.values import compute, convolution

FIRST = (0, 3, 1, 2)
LAST = (0, 2, 3, 1)


def attrs(op: str, **given: Any) -> dict[str, Attr]:
    kinds = {one.name: one.kind for one in builtin_ops()[op].attrs}
    return {key: attr(one, kinds[key]) for key, one in given.items()}


def numbers(*shape: int) -> NDArray[Any]:
    return np.random.default_rng(len(shape)).integers(-8, 8, shape).astype(np.float32)


def turned(values: list[int]) -> list[int]:
    return [values[axis] for axis in FIRST]


@pytest.mark.parametrize("op", ["Conv2D", "DepthwiseConv2dNative", "MaxPool", "AvgPool"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_channels_first_is_the_same_turned(op: str, padding: str) -> None:
    x = numbers(2, 7, 6, 3)
    inputs = [numbers(3, 2, 3, 4)] if "Conv" in op else []
    step = [1, 2, 2, 1]
    size: dict[str, Any] = {} if "Conv" in op else {"ksize": [1, 3, 2, 1]}
    [wanted] = compute(op, [x, *inputs], attrs(op, strides=step, padding=padding, **size))
    size = {key: turned(one) for key, one in size.items()}
    options = attrs(op, strides=turned(step), padding=padding, data_format="NCHW", **size)
    [found] = compute(op, [x.transpose(FIRST), *inputs], options)
    np.testing.assert_array_equal(found.transpose(LAST), wanted)


def test_transposed_convolution_channels_first() -> None:
    back, kernel = numbers(2, 4, 3, 5), numbers(3, 3, 2, 5)
    options: dict[str, Any] = {"padding": "SAME"}
    op = "Conv2DBackpropInput"
    [wanted] = compute(op, [np.array([2, 7, 6, 2]), kernel, back], attrs(op, strides=[1, 2, 2, 1], **options))
    first = attrs(op, strides=[1, 1, 2, 2], data_format="NCHW", **options)
    [found] = compute(op, [np.array([2, 2, 7, 6]), kernel, back.transpose(FIRST)], first)
    np.testing.assert_array_equal(found.transpose(LAST), wanted)


def test_blocks_of_a_large_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    x, kernel = numbers(2, 9, 8, 3), numbers(3, 3, 3, 4)
    options = attrs("Conv2D", strides=[1, 1, 1, 1], padding="SAME")
    [wanted] = compute("Conv2D", [x, kernel], options)
    monkeypatch.setattr(convolution, "_BLOCK", 500)
    [found] = compute("Conv2D", [x, kernel], options)
    np.testing.assert_array_equal(found, wanted)


def test_the_batch_norm_of_old_graphs() -> None:
    """TensorFlow has the op for graphs before version 9 only."""
    x, mean, variance = numbers(1, 2, 2, 3), numbers(3), np.abs(numbers(3)) + 1
    op, beta, gamma = "BatchNormWithGlobalNormalization", numbers(3) / 2, numbers(3) / 4
    wanted = (x - mean) / np.sqrt(variance + 0.25)
    for scaled, factor in ((True, gamma), (False, 1)):
        options = attrs(op, variance_epsilon=0.25, scale_after_normalization=scaled)
        [found] = compute(op, [x, mean, variance, beta, gamma], options)
        np.testing.assert_allclose(found, wanted * factor + beta, rtol=1e-5)
