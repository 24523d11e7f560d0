"""What equal means."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tfsmith.ops.samples import Tolerance
from tfsmith.testing.conformance.equality import difference

EXACT = Tolerance(exact=True)
NAN, INF = float("nan"), float("inf")
ONE = np.float32(1)
NEXT = np.nextafter(ONE, np.float32(2))
BF16 = ml_dtypes.bfloat16


def f32(values: Any) -> NDArray[Any]:
    return np.asarray(values, np.float32)


def i32(values: Any) -> NDArray[Any]:
    return np.asarray(values, np.int32)


def f16(values: Any) -> NDArray[Any]:
    return np.asarray(values, np.float16)


def c64(values: Any) -> NDArray[Any]:
    return np.asarray(values, np.complex64)


@pytest.mark.parametrize(
    ("found", "wanted", "tolerance"),
    [
        (f32([NAN, INF, -INF, -0.0]), f32([NAN, INF, -INF, -0.0]), EXACT),
        (f32([NAN, INF, -INF, -0.0]), f32([NAN, INF, -INF, 0.0]), Tolerance()),
        (np.float32(NEXT), np.float32(1), Tolerance(ulps=1)),
        (f32([1, 1e-6]), f32([1, 0]), Tolerance(ulps=0, n_eps=9)),
        (c64([1 + 2j]), c64([1 + 2j]), EXACT),
        (f16([1 + 2**-10]), f16([1]), Tolerance(ulps=1)),
        (BF16(1 + 2**-7), BF16(1), Tolerance(ulps=1)),
        (f32([2**-149]), f32([0]), Tolerance(ulps=1)),
        (np.array([b"a"], object), np.array([b"a"], object), EXACT),
        (np.empty((0, 3), np.float32), np.empty((0, 3), np.float32), EXACT),
        (np.int64(3), np.int64(3), Tolerance()),
    ],
)
def test_equal(found: Any, wanted: Any, tolerance: Tolerance) -> None:
    assert difference(np.asarray(found), np.asarray(wanted), tolerance) is None


@pytest.mark.parametrize(
    ("found", "wanted", "tolerance", "words"),
    [
        (f32([0.0]), f32([-0.0]), EXACT, "1 of 1 differ"),
        (f32([3.4e38]), f32([INF]), Tolerance(ulps=1e9, n_eps=1e9), "differ"),
        (f32([INF]), f32([3.4e38]), Tolerance(ulps=1e9, n_eps=1e9), "differ"),
        (f32([-INF]), f32([INF]), Tolerance(), "differ"),
        (f32([0]), f32([NAN]), Tolerance(ulps=1e9), "differ"),
        (f32([NAN]), f32([0]), Tolerance(ulps=1e9), "differ"),
        (f32([1, NEXT, 3]), f32([1, 1, 3]), EXACT, "1 of 3 differ"),
        (f32([1 + 2**-22]), f32([1]), Tolerance(ulps=1), "at [0]"),
        (f32([1, 1e-6]), f32([1, 0]), Tolerance(ulps=0, n_eps=7), "at [1]"),
        (c64([1 + 2j]), c64([1 + 3j]), Tolerance(), "1 of 1"),
        (f16([1 + 2**-9]), f16([1]), Tolerance(ulps=1), "differ"),
        (f32([1]), np.ones(1), Tolerance(), "is float32, not float64"),
        (f32([1]), np.float32(1), Tolerance(), "has shape [1], not []"),
        (i32([1, 2]), i32([1, 3]), Tolerance(ulps=100), "1 of 2 differ: np.int32(2), not"),
        (np.array([b"a"], object), np.array([b"b"], object), Tolerance(), "b'a', not b'b' at [0]"),
        (np.bool_(True), np.bool_(False), Tolerance(), "1 of 1"),
    ],
)
def test_different(found: Any, wanted: Any, tolerance: Tolerance, words: str) -> None:
    reason = difference(np.asarray(found), np.asarray(wanted), tolerance)
    assert reason is not None
    assert words in reason
