"""The reference engine on the cases that values alone cannot compute: functions, branches, loops."""

from __future__ import annotations

import pytest

from tfsmith.ops.samples import Samples, samples_of
from tfsmith.testing.conformance.isolated import engine_compute, with_constants
from tfsmith.testing.conformance.runner import check_samples, compute_values

BEYOND = {
    "Sum: of a sparse tensor made dense",
    "Sum: of sums of segments",
    "TensorListPushBackBatch: a batch of two",
}
"""What only TensorFlow computes today."""


@pytest.mark.parametrize("samples", samples_of("flow", "stores"), ids=lambda one: one.op)
def test_the_reference_engine_is_tensorflows(samples: Samples) -> None:
    verdicts = list(check_samples(samples, engine_compute("reference")))
    assert [str(one) for one in verdicts if one.kind not in ("equal", "lacks")] == []


@pytest.mark.slow
def test_no_sample_is_beyond_the_reference_engine() -> None:
    """What the values lack, the engine has; a new op without either is found here."""
    lacking = [
        samples
        for samples in samples_of()
        if any(one.kind == "lacks" for one in check_samples(samples, compute_values))
    ]
    verdicts = [one for samples in lacking for one in check_samples(samples, engine_compute("reference"))]
    beyond = {f"{one.op}: {one.case}" for one in verdicts if one.kind != "equal"}
    assert beyond <= BEYOND


def test_constants_in_the_place_of_inputs_give_the_same() -> None:
    (samples,) = samples_of("reductions") and [one for one in samples_of("Sum") if one.family == "reductions"]
    case = next(one for one in samples.cases() if len(one.feeds) > 1)
    wanted = compute_values(case)
    variants = list(with_constants(case))
    assert [len(one.feeds) for one in variants] == [1, 1, 0]
    for one in variants:
        assert [values.tolist() for values in compute_values(one)] == [values.tolist() for values in wanted]
