"""Tensors, shapes and dtypes do what they look like to users of numpy."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

import tfsmith
from tfsmith.errors import UsageError
from tfsmith.formats.checkpoint.bundle import open_bundle
from tfsmith.formats.checkpoint.writer import write_checkpoint
from tfsmith.ir.tensor import ArrayTensor, FilledTensor, StringTensor, Tensor
from tfsmith.ir.tensor_views import RowsTensor, TransposedTensor
from tfsmith.ir.types import SCALAR, UNKNOWN, Shape, as_dtype, dtype, dtype_named

FLOAT = dtype_named("float32")
ARRAY = numpy.arange(6, dtype="float32").reshape(2, 3)


def test_public_names() -> None:
    assert (tfsmith.DType, tfsmith.Shape) == (type(FLOAT), Shape)


@pytest.mark.parametrize(
    ("tensor", "wanted"),
    [
        (ArrayTensor.of(ARRAY), ARRAY),
        (FilledTensor(FLOAT, Shape((2, 3)), numpy.float32(7).tobytes()), numpy.full((2, 3), 7, "float32")),
        (RowsTensor(ArrayTensor.of(ARRAY), 1, 2), ARRAY[1:]),
        (TransposedTensor(ArrayTensor.of(ARRAY), (1, 0)), ARRAY.T),
        (StringTensor(Shape((2,)), [b"a", b"b"]), numpy.array([b"a", b"b"], object)),
    ],
)
def test_tensors_are_arrays(tensor: Tensor, wanted: numpy.ndarray) -> None:
    found = numpy.asarray(tensor)
    assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())
    assert tensor.shape == found.shape
    assert not found.flags.writeable
    assert numpy.array(tensor).flags.writeable


def test_arrays_of_another_dtype() -> None:
    tensor = ArrayTensor.of(ARRAY)
    assert numpy.asarray(tensor, "float64").dtype == "float64"
    assert numpy.asarray(tensor, "float32", copy=False).dtype == "float32"
    assert (numpy.add(tensor, 1) == ARRAY + 1).all()
    assert float(numpy.mean(tensor)) == 2.5
    with pytest.raises(ValueError, match="values of float32 cannot become float64 without a copy"):
        numpy.asarray(tensor, "float64", copy=False)


def test_variables_of_a_checkpoint(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "m", {"v": ArrayTensor.of(ARRAY)})
    tensor = open_bundle(tmp_path / "m")["v"]
    assert tensor.shape == (2, 3)
    assert tensor.dtype == "float32"
    assert (numpy.asarray(tensor) == ARRAY).all()


def test_shapes_are_like_tuples() -> None:
    shape = Shape.of((None, 3, 4))
    assert shape == (None, 3, 4)
    assert shape == [None, 3, 4]
    assert shape == (None, 3, 4)
    assert shape != (3, 4)
    assert shape != (2, 3, 4)
    assert shape != "text"
    assert (shape[0], shape[1], shape[-1], shape[1:]) == (None, 3, 4, Shape((3, 4)))
    assert (list(shape), len(shape), 3 in shape) == ([None, 3, 4], 3, True)
    assert {shape: 1}[Shape((-1, 3, 4))] == 1
    assert hash(shape) == hash((None, 3, 4))
    assert hash(Shape((3,))) == hash((3,))
    assert numpy.zeros(Shape((2, 3))).shape == Shape((2, 3))  # type: ignore[call-overload]
    assert (bool(SCALAR), bool(Shape((1,))), bool(UNKNOWN)) == (False, True, True)
    with pytest.raises(IndexError):
        _ = SCALAR[0]


def test_shapes_of_unknown_rank() -> None:
    assert Shape(None) == UNKNOWN
    assert UNKNOWN != ()
    for use in (len, list, lambda shape: shape[0]):
        with pytest.raises(UsageError) as error:
            use(UNKNOWN)
        assert str(error.value) == "even the rank of this shape is unknown; look at shape.rank first"


def test_dtypes_are_like_numpys() -> None:
    assert FLOAT == "float32"
    assert numpy.float32 == FLOAT
    assert numpy.dtype("float32") == FLOAT
    assert numpy.float32 == FLOAT
    assert numpy.dtype("float32") == FLOAT
    assert FLOAT == "DT_FLOAT"
    assert dtype_named("float64") == float  # noqa: E721
    assert dtype_named("string") == object  # noqa: E721
    assert dtype_named("bfloat16") == "bfloat16"
    assert FLOAT != "float64"
    assert numpy.int32 != FLOAT
    assert FLOAT != "no type"
    assert FLOAT != 3
    assert FLOAT != None  # noqa: E711
    assert dtype(101) != FLOAT
    assert hash(FLOAT) == hash("float32")
    assert {FLOAT: 1}[dtype_named("DT_FLOAT")] == 1
    assert "float32" in {FLOAT}


@pytest.mark.parametrize("kind", ["float32", "DT_FLOAT", numpy.float32, numpy.dtype("float32"), FLOAT])
def test_anything_that_means_a_dtype(kind: object) -> None:
    assert as_dtype(kind) is FLOAT
