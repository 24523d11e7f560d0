"""Folding: the values that TensorFlow would compute, and nothing read before they are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.support.replace_models import FLOAT, const, model_of

import tfsmith
from tfsmith.ir.node import Attr, attr
from tfsmith.ir.tensor import ArrayTensor, FilledTensor, StringTensor, Tensor, TensorBase
from tfsmith.ir.types import DType, Shape, dtype_named
from tfsmith.patterns.fold import FOLDED_OPS, fold
from tfsmith.storage import Span


def tensor(values: Any, kind: str = "float32") -> Tensor:
    return ArrayTensor.of(values, dtype_named(kind))


def ints(*values: int) -> Tensor:
    return tensor(list(values), "int32")


A = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
B = np.array([10, 20, 30], np.float32)


CASES: list[tuple[str, list[Tensor], dict[str, Any], Any]] = [
    ("Identity", [tensor(A)], {}, A),
    ("Reshape", [tensor(A), ints(3, -1)], {}, A.reshape(3, 2)),
    ("Reshape", [tensor([2.0]), ints()], {}, np.float32(2)),
    ("Transpose", [tensor(A), ints(1, 0)], {}, A.T),
    ("ConcatV2", [tensor(A), tensor(A), ints(1)], {}, np.concatenate([A, A], 1)),
    ("ConcatV2", [tensor(A), tensor(A), tensor(-2, "int32")], {}, np.concatenate([A, A], 0)),
    ("Pack", [tensor(B), tensor(B)], {"axis": 1}, np.stack([B, B], 1)),
    ("Pack", [tensor(2.0), tensor(3.0)], {}, np.array([2, 3], np.float32)),
    ("Pack", [tensor(B), tensor(B)], {"axis": -2}, np.stack([B, B], 0)),
    ("Mul", [tensor(A), tensor(B)], {}, A * B),
    ("Add", [tensor(A), tensor(1.0)], {}, A + 1),
    ("AddV2", [tensor(B), tensor(A)], {}, A + B),
    ("Sub", [tensor(A), tensor(B)], {}, A - B),
    ("RealDiv", [tensor(A), tensor(B)], {}, A / B),
    ("Neg", [tensor(A)], {}, -A),
    ("Sqrt", [tensor(A)], {}, np.sqrt(A)),
    ("Rsqrt", [tensor(A)], {}, 1 / np.sqrt(A)),
    ("Square", [tensor(A)], {}, A * A),
    ("Cast", [tensor(A)], {"DstT": dtype_named("int32")}, A.astype(np.int32)),
    ("Cast", [tensor(A)], {"DstT": dtype_named("bfloat16")}, A.astype(ml_dtypes.bfloat16)),
    ("Cast", [tensor([True, False], "bool")], {"DstT": FLOAT}, np.array([1, 0], np.float32)),
    ("Squeeze", [tensor(A[None, :, :, None])], {}, A),
    ("Squeeze", [tensor(A[None, :, :, None])], {"squeeze_dims": [-1]}, A[None]),
    ("ExpandDims", [tensor(A), ints(1)], {}, A[:, None]),
    ("ExpandDims", [tensor(A), tensor(-1, "int32")], {}, A[..., None]),
]


@pytest.mark.parametrize(("op", "inputs", "attrs", "wanted"), CASES, ids=[case[0] for case in CASES])
def test_values(op: str, inputs: list[Tensor], attrs: dict[str, Any], wanted: Any) -> None:
    found = fold(op, inputs, {key: attr(value) for key, value in attrs.items()})
    assert found is not None
    assert found.numpy().dtype == wanted.dtype
    np.testing.assert_array_equal(found.numpy(), wanted)
    assert found.shape == Shape(np.shape(wanted))
    assert found.nbytes == wanted.nbytes
    flat = b"".join(part.tobytes() if isinstance(part, Span) else part for part in found.parts())
    assert flat == np.ascontiguousarray(wanted).tobytes()


def test_every_op_of_the_list_is_tested() -> None:
    assert {case[0] for case in CASES} == FOLDED_OPS


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("Reshape", [tensor(A), ints(4, -1)], {}),
        ("Reshape", [tensor(A), ints(-1, -1)], {}),
        ("Reshape", [tensor(A), ints(7)], {}),
        ("Reshape", [tensor(A), ints(0, -1)], {}),
        ("Reshape", [tensor(A), tensor([3.0, 2.0])], {}),
        ("Transpose", [tensor(A), ints(0)], {}),
        ("Transpose", [tensor(A), ints(0, 0)], {}),
        ("ConcatV2", [tensor(A), tensor(B), ints(0)], {}),
        ("ConcatV2", [tensor(A), tensor(A), ints(2)], {}),
        ("ConcatV2", [tensor(A), tensor(A.astype("f8"), "float64"), ints(0)], {}),
        ("Pack", [tensor(A), tensor(B)], {}),
        ("Pack", [tensor(A)], {"axis": 5}),
        ("Mul", [tensor(A), tensor([1.0, 2.0])], {}),
        ("Mul", [tensor(A), tensor(A.astype("f8"), "float64")], {}),
        ("Mul", [tensor(A)], {}),
        ("Mul", [tensor(A), tensor(A), tensor(A)], {}),
        ("RealDiv", [ints(1), ints(2)], {}),
        ("Sqrt", [ints(1)], {}),
        ("Neg", [StringTensor(Shape(()), (b"a",))], {}),
        ("Cast", [tensor(A)], {}),
        ("Cast", [tensor(A)], {"DstT": dtype_named("string")}),
        ("Squeeze", [tensor(A)], {"squeeze_dims": [0]}),
        ("Squeeze", [tensor(A)], {"squeeze_dims": [7]}),
        ("ExpandDims", [tensor(A), ints(4)], {}),
        ("ExpandDims", [tensor(A), ints(1, 1)], {}),
        ("MatMul", [tensor(A), tensor(A)], {}),
        ("Mul", [FilledTensor(FLOAT, Shape((1 << 20, 1)), b""), FilledTensor(FLOAT, Shape((1, 1 << 20)), b"")], {}),
    ],
)
def test_what_cannot_be_computed_is_left_to_tensorflow(op: str, inputs: list[Tensor], attrs: dict[str, Any]) -> None:
    assert fold(op, inputs, {key: attr(value) for key, value in attrs.items()}) is None


@dataclass(frozen=True, slots=True, eq=False)
class Unread(TensorBase):
    """Weights that must not be read."""

    shape: Shape

    @property
    def dtype(self) -> DType:
        return FLOAT

    def numpy(self) -> Any:
        raise AssertionError("it was read")

    def parts(self) -> Iterator[bytes | Span]:
        raise AssertionError("it was read")


@pytest.mark.parametrize(
    ("op", "more"),
    [("Reshape", ints(-1)), ("Transpose", ints(1, 0)), ("Mul", tensor(2.0)), ("ConcatV2", ints(0)), ("Sqrt", None)],
)
def test_weights_are_not_read_before_they_are_wanted(op: str, more: Tensor | None) -> None:
    found = fold(op, [Unread(Shape((4, 5))), *([] if more is None else [more])], {})
    assert found is not None
    assert found.nbytes == 80
    with pytest.raises(AssertionError, match="it was read"):
        found.numpy()


def test_odd_values_are_as_in_tensorflow_and_warn_nobody() -> None:
    found = fold("Rsqrt", [tensor([0.0, -1.0])], {})
    assert found is not None
    assert found.numpy()[0] == np.inf
    assert np.isnan(found.numpy()[1])
    halves = fold("Mul", [tensor([60000.0], "float16"), tensor([2.0], "float16")], {})
    assert halves is not None
    assert halves.numpy().dtype == np.float16
    assert halves.numpy()[0] == np.inf


def test_it_is_written_like_any_constant(tmp_path: Any) -> None:
    value = fold("Mul", [tensor(A), tensor(B)], {})
    assert value is not None
    scalar = fold("Mul", [tensor(2.0), tensor(4.0)], {})
    nodes = [const("c", 1.0).replace(name=name, attrs={"value": Attr("tensor", found)}) for name, found in
             (("a", value), ("b", scalar))]  # fmt: skip
    tfsmith.save(model_of(nodes), tmp_path / "m.pb")
    graph = tfsmith.load(tmp_path / "m.pb").graph
    np.testing.assert_array_equal(graph["a"].get("value").numpy(), A * B)
    assert graph["b"].get("value").numpy() == 8
