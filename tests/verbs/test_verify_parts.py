"""The parts of verifying that need no engine: tolerances, pairs, and inputs that models can stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfsmith.engines.compare import Tolerance, compare_arrays, tolerance_for
from tfsmith.engines.program import ModelProgram, make_program
from tfsmith.engines.samples import InputMaker, PortPair, pair_inputs, pair_outputs
from tfsmith.errors import UsageError
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.passes.freeze import FreezeOptions, freeze
from tfsmith.passes.input_ranges import integer_limits
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier, linear_regression

CONFIG = BertConfig(70, 16, 1, 2, 32, max_position_embeddings=20)
EXACT = Tolerance(0.0, 0.0)


def arr(values: Any, dtype: str) -> Any:
    return np.array(values, dtype)


def const(name: str, value: Any) -> Node:
    tensor = ArrayTensor.of(np.asarray(value))
    return Node(name, "Const", (), {"value": tensor, "dtype": tensor.dtype})


@pytest.mark.parametrize(
    ("a", "b", "same", "most"),
    [
        (arr([1, 2], "float32"), arr([1, 2], "float32"), True, 0.0),
        (arr([1, 2], "float32"), arr([1, 2.5], "float32"), False, 0.5),
        (arr([1e6], "float32"), arr([1e6 + 1], "float32"), True, 1.0),
        (arr([np.nan, 1], "float32"), arr([np.nan, 1], "float32"), True, 0.0),
        (arr([np.inf], "float32"), arr([np.inf], "float32"), True, 0.0),
        (arr([np.inf], "float32"), arr([-np.inf], "float32"), False, np.inf),
        (arr([np.nan], "float32"), arr([1], "float32"), False, np.inf),
        (arr([1], "float32"), arr([[1]], "float32"), False, np.inf),
        (arr([], "float32"), arr([], "float32"), True, 0.0),
        (arr([1, 2], "int32"), arr([1, 3], "int32"), False, 1.0),
        (arr([2**62], "int64"), arr([2**62], "int64"), True, 0.0),
        (arr([True], "bool"), arr([False], "bool"), False, 1.0),
        (np.array([b"a"], object), np.array([b"a"], object), True, 0.0),
        (np.array([b"a"], object), np.array([b"b"], object), False, 1.0),
        (arr([1 + 1j], "complex64"), arr([1 + 2j], "complex64"), False, 1.0),
    ],
)
def test_differences(a: Any, b: Any, same: bool, most: float) -> None:
    found = compare_arrays(a, b, tolerance_for(a.dtype.name, reordered=False))
    assert (not found.reason) == same
    assert found.max_abs == pytest.approx(most)


def test_tolerances_fit_the_dtype_and_the_engines() -> None:
    assert tolerance_for("int32", reordered=True) == EXACT
    assert tolerance_for("float16", reordered=False).relative > tolerance_for("float32", reordered=False).relative
    assert tolerance_for("float32", reordered=True).absolute > tolerance_for("float32", reordered=False).absolute
    assert tolerance_for("float8_e5m2", reordered=False).relative > 0


def test_ids_stay_below_the_vocabulary() -> None:
    frozen = freeze(bert_classifier(CONFIG).model, FreezeOptions(("loss/output",))).model.graph
    found = integer_limits(frozen, ["input_ids:0", "segment_ids:0", "input_mask:0"])
    assert found == {"input_ids:0": 70, "segment_ids:0": 2}


def test_ids_of_one_hot_and_through_reshapes() -> None:
    nodes = (
        Node("ids", "Placeholder", (), {"dtype": "int32"}),
        const("shape", arr([-1], "int32")),
        Node("flat", "Reshape", ("ids", "shape"), {}),
        const("depth", np.int32(5)),
        const("on", np.float32(1)),
        const("off", np.float32(0)),
        Node("hot", "OneHot", ("flat", "depth", "on", "off"), {}),
        const("table", np.zeros((9, 2), np.float32)),
        const("axis", np.int32(1)),
        Node("rows", "GatherV2", ("table", "flat", "axis"), {}),
    )
    assert integer_limits(Graph(nodes), ["ids:0"]) == {"ids:0": 2}
    assert integer_limits(Graph(nodes[:7]), ["ids:0"]) == {"ids:0": 5}
    assert integer_limits(Graph(nodes[:3]), ["ids:0"]) == {}


def test_bert_is_fed_what_it_can_stand() -> None:
    program = make_program(bert_classifier(CONFIG).model)
    sampler = InputMaker(program, program, pair_inputs(program, program))
    made = sampler.make(3, np.random.default_rng(0))
    assert set(made) == {"input_ids", "input_mask", "segment_ids"}
    assert made["input_ids"].max() < 70
    assert made["input_ids"].max() > 10
    assert set(np.unique(made["segment_ids"])) <= {0, 1}
    assert (np.diff(made["input_mask"], axis=1) <= 0).all(), "a mask is ones, then zeros"
    assert (made["input_mask"][:, 0] == 1).all()
    assert sampler.batches([1, 4]) == (1, 4)


def test_fixed_shapes_win() -> None:
    model = bert_classifier(CONFIG).model
    fixed = freeze(model, FreezeOptions(("loss/output",), batch_size=2)).model
    a, b = make_program(model), make_program(fixed)
    sampler = InputMaker(a, b, pair_inputs(a, b))
    assert sampler.batches([1, 4]) == ()
    assert sampler.make(1, np.random.default_rng(0))["input_ids"].shape[0] == 2


def test_shapes_that_no_input_fits() -> None:
    model = bert_classifier(CONFIG).model
    a, b = (make_program(freeze(model, FreezeOptions(("loss/output",), batch_size=size)).model) for size in (2, 3))
    with pytest.raises(UsageError, match="no input fits both"):
        InputMaker(a, b, pair_inputs(a, b)).make(1, np.random.default_rng(0))


def test_types_that_no_input_fits() -> None:
    model = linear_regression().model

    def program(kind: str) -> ModelProgram:
        nodes = (
            Node("x", "Placeholder", (), {"dtype": dtype_named(kind), "shape": Shape((2,))}),
            Node("y", "Identity", ("x",)),
        )
        return make_program(model.replace_graph(Graph(nodes)), ["y"], inputs=["x"])

    def made(one: str, other: str) -> Any:
        a, b = program(one), program(other)
        return InputMaker(a, b, pair_inputs(a, b)).make(1, np.random.default_rng(0))["x"].dtype.name

    assert made("float64", "float32") == made("float32", "float64") == "float32"
    assert made("int64", "int32") == "int32"
    with pytest.raises(UsageError, match="input 'x' is int32 in A and float32 in B; no made-up input fits both"):
        made("int32", "float32")


def test_pairs_by_key_then_by_tensor() -> None:
    model = linear_regression().model
    a, b = make_program(model), make_program(freeze(model, FreezeOptions()).model)
    assert [pair for pair in pair_inputs(a, b) if pair.b] == [PortPair("inputs/x_sample", "inputs/x_sample")]
    assert len(pair_outputs(a, b)) == 1


def test_no_output_in_common() -> None:
    model = bert_classifier(CONFIG).model
    names = ["bert/pooler/dense/BiasAdd", "bert/pooler/dense/Tanh"]
    others = ["loss/output", "bert/pooler/dense/MatMul"]
    with pytest.raises(UsageError, match="no output in common"):
        pair_outputs(make_program(model, names), make_program(model, others))
    assert pair_outputs(make_program(model, names[:1]), make_program(model, others[:1])) == (
        PortPair(names[0], others[0]),
    )
