"""The values of `ops/` against TensorFlow's packed answers, op by op; no engine and no TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tfsmith.ops.samples import Samples, case, samples_of
from tfsmith.testing.conformance.answers import Answer, Answers, digest, load_answers, pack_answers
from tfsmith.testing.conformance.runner import check_case, check_samples, compute_values

MOST_ELEMENTS = 64


def f32(values: Any) -> NDArray[Any]:
    return np.asarray(values, np.float32)


def i32(values: Any) -> NDArray[Any]:
    return np.asarray(values, np.int32)


@pytest.mark.parametrize("samples", samples_of(), ids=lambda one: f"{one.family}-{one.op}")
def test_values_are_tensorflows(samples: Samples) -> None:
    verdicts = list(check_samples(samples, compute_values))
    assert verdicts, "a maker of samples that makes none"
    assert [str(one) for one in verdicts if one.kind not in ("equal", "lacks")] == []


@pytest.mark.parametrize("samples", samples_of(), ids=lambda one: f"{one.family}-{one.op}")
def test_cases_are_small_and_have_names_of_their_own(samples: Samples) -> None:
    cases = list(samples.cases())
    assert len({one.name for one in cases}) == len(cases)
    assert {one.op for one in cases} == {samples.op}
    arrays = [array for one in cases for array in one.feeds.values()]
    arrays += [node.tensor("value").numpy() for one in cases for node in one.nodes if node.op == "Const"]
    assert max((array.size for array in arrays), default=0) <= MOST_ELEMENTS


def test_a_digest_covers_what_is_asked() -> None:
    one = case("AddV2", f32([1, 2]), f32([3, 4]), name="a")
    assert digest(one) == digest(case("AddV2", f32([1, 2]), f32([3, 4]), name="b"))
    others = [
        case("AddV2", f32([1, 2]), f32([3, 5]), name="a"),
        case("AddV2", f32([-0.0, 2]), f32([3, 4]), name="a"),
        case("AddV2", f32([0.0, 2]), f32([3, 4]), name="a"),
        case("AddV2", f32([[1, 2]]), f32([3, 4]), name="a"),
        case("AddV2", i32([1, 2]), i32([3, 4]), name="a"),
        case("Sub", f32([1, 2]), f32([3, 4]), name="a"),
        case("AddV2", f32([1, 2]), f32([3, 4]), name="a", constants=[1]),
        case("AddV2", f32([1, 2]), f32([3, 4]), name="a", unknown=True),
    ]
    assert len({digest(other) for other in (one, *others)}) == 1 + len(others)


def test_a_wrong_value_is_found() -> None:
    tolerance = samples_of()[0].tolerance
    one = case("AddV2", f32([1, 2]), f32([3, 4]), name="a")
    right = Answer("values", (f32([4, 6]),))
    assert check_case(one, right, tolerance, compute_values) == ("equal", "")
    assert check_case(one, Answer("values", (f32([4, 7]),)), tolerance, compute_values)[0] == "wrong"
    assert check_case(one, Answer("refused"), tolerance, compute_values)[0] == "wrong"
    assert check_case(one, Answer("lacks"), tolerance, compute_values) == ("equal", "")
    assert check_case(one, None, tolerance, compute_values)[0] == "unasked"
    torn = case("AddV2", f32([1, 2]), f32([3, 4, 5]), name="a")
    assert check_case(torn, right, tolerance, compute_values)[0] == "refused"
    assert check_case(torn, Answer("refused"), tolerance, compute_values) == ("equal", "")


def test_answers_are_packed_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strings = np.array([b"a\0", b"", b"\xff"], object)
    answers = {"b": Answer("values", (f32([1, np.nan]), strings)), "a": Answer("refused"), "c": Answer("lacks")}
    packed = pack_answers(Answers("1.2", answers))
    assert packed == pack_answers(Answers("1.2", dict(reversed(answers.items()))))
    monkeypatch.setattr("tfsmith.testing.conformance.answers.FOLDER", tmp_path)
    (tmp_path / "of_a_test.zlib").write_bytes(packed)
    found = load_answers("of_a_test")
    assert found.version == "1.2"
    assert {key: one.kind for key, one in found.by_digest.items()} == {"a": "refused", "b": "values", "c": "lacks"}
    numbers, words = found.by_digest["b"].values
    np.testing.assert_array_equal(numbers, f32([1, np.nan]))
    assert words.tolist() == strings.tolist()
    assert load_answers("of_none").by_digest == {}
