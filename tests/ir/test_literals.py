"""Attributes as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from tfsmith.errors import UnsupportedError, UsageError
from tfsmith.ir.literals import attr_from_literal, attr_from_text, literal_of, shortest
from tfsmith.ir.node import Attr, Func, attr, float32
from tfsmith.ir.tensor import ArrayTensor, FilledTensor
from tfsmith.ir.types import UNKNOWN, Shape, dtype_named

FLOAT, TEXT = dtype_named("float32"), dtype_named("string")
CASES: list[tuple[Any, str | None, Attr]] = [
    ("SAME", "string", Attr("string", b"SAME")),
    ("SAME", None, Attr("string", b"SAME")),
    ("float32", "type", Attr("type", FLOAT)),
    ("float32", None, Attr("string", b"float32")),
    ({"type": "float32"}, None, Attr("type", FLOAT)),
    (3, "int", Attr("int", 3)),
    (3, None, Attr("int", 3)),
    (3.0, "float", Attr("float", 3.0)),
    (0.001, "float", Attr("float", float32(0.001))),
    (0.001, None, Attr("float", float32(0.001))),
    (True, "bool", Attr("bool", True)),
    (True, None, Attr("bool", True)),
    ([1, -1], "shape", Attr("shape", Shape((1, -1)))),
    ([], "shape", Attr("shape", Shape(()))),
    ("?", "shape", Attr("shape", UNKNOWN)),
    ({"shape": [1, -1]}, None, Attr("shape", Shape((1, -1)))),
    ({"shape": "?"}, None, Attr("shape", UNKNOWN)),
    ([1, 2], "list(int)", Attr("list(int)", (1, 2))),
    ([1, 2], None, Attr("list(int)", (1, 2))),
    ([], "list(int)", Attr("list", ())),
    ([], None, Attr("list", ())),
    (["float32", "string"], "list(type)", Attr("list(type)", (FLOAT, TEXT))),
    ([{"type": "float32"}], None, Attr("list(type)", (FLOAT,))),
    ([[1], "?"], "list(shape)", Attr("list(shape)", (Shape((1,)), UNKNOWN))),
    ({"string": "=x"}, None, Attr("string", b"=x")),
    ({"hex": "ff00"}, "string", Attr("string", b"\xff\x00")),
    ({"placeholder": "T"}, "type", Attr("placeholder", "T")),
    ({"none": True}, None, Attr("none", None)),
    ({"func": "f"}, "func", Attr("func", Func("f", {}))),
    ({"func": "f", "attrs": {"T": {"type": "float32"}}}, None, Attr("func", Func("f", {"T": Attr("type", FLOAT)}))),
]


@pytest.mark.parametrize(("value", "kind", "wanted"), CASES)
def test_there_and_back(value: Any, kind: str | None, wanted: Attr) -> None:
    found = attr_from_literal(value, kind)
    assert found == wanted
    assert attr_from_literal(literal_of(found, kind), kind) == wanted
    assert literal_of(found, kind) == value


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [(3, "float", Attr("float", 3.0)), ([1, 2.5], None, Attr("list(float)", (1.0, 2.5))), ("half", "type", None)],
)
def test_other_spellings(value: Any, kind: str | None, wanted: Attr | None) -> None:
    assert attr_from_literal(value, kind) == (wanted or Attr("type", dtype_named("float16")))


@pytest.mark.parametrize(
    ("value", "kind", "says"),
    [
        (3.5, "int", "3.5 is no int; write a whole number"),
        (True, "int", "True is no int"),
        (1, "bool", "1 is no bool; write true or false"),
        ("x", "bool", "'x' is no bool"),
        (3, "string", "3 is no string"),
        ("flot32", "type", "TensorFlow has no dtype 'flot32'"),
        (2**63, "int", "does not fit 64 bits"),
        (1e300, "float", "too large for a float"),
        ([1], "int", "a list is no int"),
        ("x", "shape", "'x' is no shape"),
        ([1.5], "shape", "is no shape"),
        ([-2], "shape", "it has a dimension of -2"),
        ([1, "a"], None, "values of one kind"),
        ([[1]], None, "no lists"),
        ({}, None, "a table with nothing is no attribute"),
        ({"kind": 1}, None, "a table with kind is no attribute"),
        ({"type": "float32", "shape": [1]}, None, "a table with shape, type is no attribute"),
        ({"type": "float32"}, "int", "a type is no int"),
        ({"hex": "xyz"}, None, "'xyz' is no hex"),
        ({"func": 3}, None, "a function has a name"),
        ({"tensor": [1]}, None, "a tensor needs its type"),
        ({"tensor": [1, 2], "type": "int32", "shape": [3]}, None, "2 values do not fill the shape"),
        ({"tensor": ["a"], "type": "int32"}, None, "no values of type int32"),
        ({"tensor": [1], "type": "string"}, None, "no values of type string"),
        ({"tensor": [[1]], "type": "int32"}, None, "no values of type int32"),
        ({"tensor": [1], "type": "int8", "shape": [1 << 30]}, None, "1 values do not fill the shape"),
        (None, None, "no attribute can hold None"),
        (object, "func", "is no func"),
    ],
)
def test_what_is_no_attribute(value: Any, kind: str | None, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        attr_from_literal(value, kind)
    assert says in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([1.5, 2.0], "float32"),
        ([[1, 2], [3, 4]], "int64"),
        (7, "int8"),
        ([b"a", b"b"], "string"),
        ([1.5], "bfloat16"),
        ([True], "bool"),
    ],
)
def test_tensors(value: Any, kind: str) -> None:
    tensor = ArrayTensor.of(value, dtype_named(kind))
    literal = literal_of(attr(tensor), "tensor")
    found = attr_from_literal(literal, "tensor").tensor
    assert found is not None
    assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
    assert found.numpy().tolist() == tensor.numpy().tolist()


def test_a_value_fills_a_tensor() -> None:
    found = attr_from_literal({"tensor": 2.0, "type": "float32", "shape": [2, 2]}, None).tensor
    assert found is not None
    assert found.numpy().tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_large_constants_are_not_written_out() -> None:
    with pytest.raises(UnsupportedError, match="keep the recipe in its wire format"):
        literal_of(attr(FilledTensor(FLOAT, Shape((5000,)), b"")), None)


@pytest.mark.parametrize("value", [0.1, 1e-12, 1 / 3, 3.4e38, 1.0, -0.0, 16777217.0, float("inf")])
def test_floats_are_short_and_the_same(value: float) -> None:
    single = value if value == float("inf") else float32(value)
    assert shortest(single) == value or float32(shortest(single)) == single
    assert len(repr(shortest(single))) <= len(repr(single))


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        ("float32", "type", Attr("type", FLOAT)),
        ("DT_FLOAT", "type", Attr("type", FLOAT)),
        ("3", "int", Attr("int", 3)),
        ("3", None, Attr("int", 3)),
        ("3", "float", Attr("float", 3.0)),
        ("3", "string", Attr("string", b"3")),
        ("true", "bool", Attr("bool", True)),
        ("False", None, Attr("bool", False)),
        ("words, two", None, Attr("string", b"words, two")),
        ("1e-3", "float", Attr("float", float32(1e-3))),
        ("1,2, 3", "list(int)", Attr("list(int)", (1, 2, 3))),
        ("[1,2]", "list(int)", Attr("list(int)", (1, 2))),
        ("", "list(int)", Attr("list", ())),
        ("float32,string", "list(type)", Attr("list(type)", (FLOAT, TEXT))),
        ("1,?", "shape", Attr("shape", Shape((1, -1)))),
        ("[]", "shape", Attr("shape", Shape(()))),
        ("?", "shape", Attr("shape", UNKNOWN)),
        ("f", "func", Attr("func", Func("f", {}))),
    ],
)
def test_words_of_the_command_line(text: str, kind: str | None, wanted: Attr) -> None:
    assert attr_from_text(text, kind) == wanted


@pytest.mark.parametrize(
    ("text", "kind"),
    [("x", "int"), ("1.5", "int"), ("1", "bool"), ("x", "float"), ("9" * 5000, "int"), ("x", "shape"), ("x", "tensor")],
)
def test_words_of_another_kind(text: str, kind: str) -> None:
    with pytest.raises(UsageError, match=f"is no {kind}"):
        attr_from_text(text, kind)
