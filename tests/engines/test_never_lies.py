"""`auto` where OpenVINO is known to be wrong or to die: its answers are those of the definitions, and exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.engines.program import make_program
from tfsmith.engines.runner import compile_program
from tfsmith.errors import EngineError
from tfsmith.ir.body import Part
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ops.samples.draft import Draft
from tfsmith.verbs.run import engine_options

pytest.importorskip("openvino")


def run(draft: Draft, fetch: str, *, engine: str = "auto") -> tuple[str, Any]:
    """The engine that was chosen, and what it gives."""
    case = draft.case("Identity", "a graph", fetch)
    model = Model("graphdef", (MetaGraph(Part.of(case.graph())),))
    with compile_program(make_program(model, case.fetches), engine, engine_options()) as runner:
        found = runner.run(dict(case.feeds), warn=False)
        return runner.engine, found[case.fetches[0]]


def test_float64_keeps_its_digits() -> None:
    x = np.array([[0.1, 1 / 3], [0.7, 123456789.123]])
    draft = Draft()
    engine, found = run(draft, draft.add("MatMul", draft.feed(x), draft.const(x)))
    assert engine == "reference"
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, x @ x, rtol=1e-15)
    draft = Draft()
    assert run(draft, draft.add("Identity", draft.feed(x)))[1].tolist() == x.tolist()


def test_halves_are_rounded_after_each_op() -> None:
    draft = Draft()
    x = draft.feed(np.array([2048.0], np.float16))
    up = draft.add("AddV2", x, draft.const(np.array([1.0], np.float16)))
    assert run(draft, draft.add("Sub", up, x))[1].tolist() == [0.0]  # 2049 is no half


def test_short_integers_wrap_around_after_each_op() -> None:
    draft = Draft()
    x = draft.feed(np.array([30000], np.int16))
    assert run(draft, draft.add("Cast", draft.add("AddV2", x, x), DstT="int32"))[1].tolist() == [60000 - 65536]


def test_integers_that_a_float32_does_not_hold() -> None:
    for op, small, wanted in (("MatMul", [[1], [1]], [[2**25 + 3]]), ("FloorMod", [[2, 3]], [[1, 0]])):
        draft = Draft()
        x = draft.feed(np.array([[2**24 + 1, 2**24 + 2]], np.int32))
        assert run(draft, draft.add(op, x, draft.const(np.array(small, np.int32))))[1].tolist() == wanted
    draft = Draft()
    x = draft.feed(np.array([[5, -6]], np.int32))
    engine, found = run(draft, draft.add("AddV2", x, draft.const(np.array([1], np.int32))))
    assert (engine, found.tolist()) == ("openvino", [[6, -5]])


def test_quotients_that_are_whole() -> None:
    """OpenVINO multiplies by the reciprocal, and rounds the product down."""
    y = np.arange(3, 51, dtype=np.float32) / 7
    draft = Draft()
    found = run(draft, draft.add("FloorDiv", draft.feed(y * 3), draft.feed(y)))[1]
    assert found.tolist() == np.floor(y * 3 / y).tolist()


def test_chains_of_empty_tensors_do_not_kill_the_process() -> None:
    draft = Draft()
    part = draft.add("Slice", draft.feed(np.ones((3, 1, 2, 3), np.float32)), draft.const([1, 0, 0, 1]),
                     draft.const([2, 0, -1, 0]))  # fmt: skip
    wide = draft.add("ExpandDims", part, draft.const(-2))
    assert run(draft, draft.add("Pack", [wide, wide], axis=-3))[1].shape == (2, 0, 2, 2, 1, 0)


@pytest.mark.parametrize("op", ["Mod", "FloorDiv"])
def test_constants_that_are_divided_by_zero_do_not_kill_the_process(op: str) -> None:
    """OpenVINO computes them when it compiles, before anything is fed."""
    draft = Draft()
    ends = (np.array([-1, 6], np.int64), np.array([0, -3], np.int64))
    y = draft.add(op, *(draft.const(one) for one in ends))
    with pytest.raises(EngineError, match=f"node '{y}' in the graph: {op} failed"):
        run(draft, y)


def test_a_float64_input_costs_no_more_than_its_nodes() -> None:
    """What is computed in float32 stays on OpenVINO, in segments, if it is worth it."""
    weight = np.ones((1024, 1024), np.float32) / 1024
    draft = Draft()
    x = draft.feed(np.full((1, 1024), 0.1))
    assert run(draft, draft.add("MatMul", draft.add("Cast", x, DstT="float32"), draft.const(weight)))[0] == "openvino"
    draft = Draft()
    x = draft.add("Cast", draft.add("Neg", draft.feed(np.full((1, 1024), -0.1))), DstT="float32")
    engine, found = run(draft, draft.add("MatMul", x, draft.const(weight)))
    assert engine == "openvino+reference"
    np.testing.assert_allclose(found, np.full((1, 1024), np.float32(0.1)), rtol=1e-5)


def test_the_reason_is_told() -> None:
    draft = Draft()
    y = draft.add("Abs", draft.feed(np.array([0.1])))
    case = draft.case("Abs", "a graph", y)
    with tfsmith.compile(Model("graphdef", (MetaGraph(Part.of(case.graph())),)), [y]) as runner:
        assert "OpenVINO computes float64 as float32" in runner.refusals[0]
