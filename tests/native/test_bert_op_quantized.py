"""The op with bytes and with bfloat16, and how ranges are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.native.cases import Array, make_case

pytestmark = pytest.mark.tensorflow

Op = Callable[..., Any]
SIZES: dict[str, Any] = {"layers": 2, "batch": 3, "length": 40, "heads": 4, "head_size": 16, "inner": 200}


def _types(*, quantized: bool, narrow: bool) -> dict[str, Any]:
    import tensorflow as tf

    return {
        "QuantizableDataType": tf.qint8 if quantized else tf.float32,
        "NonQuantizableDataType": tf.bfloat16 if narrow else tf.float32,
    }


def _error(result: Array, expected: Array) -> float:
    """The root of the mean square, where values have a size of about 1."""
    return float(np.sqrt(((result - expected) ** 2).mean()))


@pytest.mark.parametrize(
    ("quantized", "narrow", "most"), [(False, True, 0.02), (True, False, 0.04), (True, True, 0.05)]
)
@pytest.mark.parametrize("keras", [False, True])
def test_near_to_floats(bert_op: Op, quantized: bool, narrow: bool, most: float, keras: bool) -> None:
    case = make_case(**SIZES, keras=keras)
    result = case.run(bert_op, **_types(quantized=quantized, narrow=narrow))
    assert 0 < _error(result, case.expected) < most


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [
        {"length": 1, "heads": 1, "head_size": 8, "inner": 1},
        {"length": 17, "heads": 3, "head_size": 11, "inner": 77},
        {"length": 130, "heads": 2, "head_size": 50, "inner": 401, "batch": 2},
    ],
)
def test_odd_sizes(bert_op: Op, quantized: bool, sizes: dict[str, Any]) -> None:
    case = make_case(**sizes)
    assert _error(case.run(bert_op, **_types(quantized=quantized, narrow=True)), case.expected) < 0.06


def test_calibration_writes_ranges(bert_op: Op, tmp_path: Path) -> None:
    case = make_case(**SIZES, keras=True)
    path = tmp_path / "ranges.txt"
    result = case.run(bert_op, CalibrateQuantFactors=True, QuantizationFactorsPath=str(path))
    np.testing.assert_allclose(result, case.expected, rtol=0, atol=3e-5)
    ranges = np.loadtxt(path)
    assert ranges.shape == (2, 8)
    assert (ranges[:, ::2] <= 0).all()
    assert (ranges[:, 1::2] >= 0).all()
    assert ranges[0, 0] == pytest.approx(case.embedded.min())
    assert ranges[0, 1] == pytest.approx(case.embedded.max())
    assert ranges[:, 6].min() >= -0.1701  # no less is what GELU gives
    assert [child.name for child in tmp_path.iterdir()] == ["ranges.txt"]


def test_calibration_remembers_earlier_runs(bert_op: Op, tmp_path: Path) -> None:
    case = make_case(**SIZES, keras=True)
    path = tmp_path / "ranges.txt"
    attributes = {"CalibrateQuantFactors": True, "QuantizationFactorsPath": str(path)}
    case.run(bert_op, embedded=case.embedded * 2, **attributes)
    case.run(bert_op, **attributes)
    assert np.loadtxt(path)[0, 1] == pytest.approx(2 * case.embedded.max())


def test_ranges_are_used(bert_op: Op, tmp_path: Path) -> None:
    case = make_case(**SIZES, keras=True)
    path = tmp_path / "ranges.txt"
    case.run(bert_op, CalibrateQuantFactors=True, QuantizationFactorsPath=str(path))
    kinds = _types(quantized=True, narrow=False)
    right = case.run(bert_op, **kinds, QuantizationFactorsPath=str(path))
    assert 0 < _error(right, case.expected) < 0.06
    narrow = tmp_path / "narrow.txt"
    np.savetxt(narrow, np.loadtxt(path) / 10)
    assert _error(case.run(bert_op, **kinds, QuantizationFactorsPath=str(narrow)), case.expected) > 0.2


def test_ranges_in_the_node(bert_op: Op, tmp_path: Path) -> None:
    import tensorflow as tf

    case = make_case(**SIZES, keras=True)
    path = tmp_path / "ranges.txt"
    case.run(bert_op, CalibrateQuantFactors=True, QuantizationFactorsPath=str(path))
    kinds = _types(quantized=True, narrow=False)
    numbers = np.loadtxt(path).reshape(-1).tolist()
    from_file = case.run(bert_op, **kinds, QuantizationFactorsPath=str(path))
    np.testing.assert_array_equal(case.run(bert_op, **kinds, QuantizationFactors=numbers), from_file)
    for wrong in (numbers[:-1], [*numbers, 1.0], [1.0, -1.0] * 8, [-1.0, float("inf")] * 8):
        with pytest.raises(tf.errors.InvalidArgumentError, match="QuantizationFactors does not have 4 ranges for each"):
            case.run(bert_op, **kinds, QuantizationFactors=wrong)


@pytest.mark.parametrize(
    "text", ["", "1 2 3\n", "-1 1 " * 7, "-1 1 " * 9, "-1 nan " * 8, "1 -1 " * 8, "-1 x " * 8, "-1 inf " * 8, "\0" * 99]
)
def test_a_file_that_has_no_such_ranges(bert_op: Op, tmp_path: Path, text: str) -> None:
    import tensorflow as tf

    path = tmp_path / "ranges.txt"
    path.write_text(text)
    with pytest.raises(tf.errors.InvalidArgumentError, match="calibrate anew"):
        make_case(**SIZES).run(bert_op, **_types(quantized=True, narrow=False), QuantizationFactorsPath=str(path))


def test_a_file_that_is_not_there(bert_op: Op, tmp_path: Path) -> None:
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"none\.txt' cannot be opened"):
        make_case().run(
            bert_op, **_types(quantized=True, narrow=False), QuantizationFactorsPath=str(tmp_path / "none.txt")
        )


def test_a_file_that_cannot_be_written(bert_op: Op, tmp_path: Path) -> None:
    import tensorflow as tf

    path = tmp_path / "no such folder" / "ranges.txt"
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be written"):
        make_case().run(bert_op, CalibrateQuantFactors=True, QuantizationFactorsPath=str(path))


@pytest.mark.parametrize("changes", [{"quantized": True, "narrow": False}, {"quantized": False, "narrow": True}])
def test_calibration_is_for_floats(bert_op: Op, tmp_path: Path, changes: dict[str, bool]) -> None:
    import tensorflow as tf

    path = str(tmp_path / "ranges.txt")
    with pytest.raises(tf.errors.InvalidArgumentError, match="CalibrateQuantFactors needs float"):
        make_case().run(bert_op, **_types(**changes), CalibrateQuantFactors=True, QuantizationFactorsPath=path)
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs a QuantizationFactorsPath"):
        make_case().run(bert_op, CalibrateQuantFactors=True)


def test_values_that_are_no_numbers(bert_op: Op) -> None:
    case = make_case(**SIZES, keras=True)
    embedded = case.embedded.copy()
    embedded[0, 0, 3] = np.nan
    result = case.run(bert_op, embedded=embedded, **_types(quantized=True, narrow=False))
    assert np.isnan(result[0]).all()
    assert np.isfinite(result[1:]).all()
