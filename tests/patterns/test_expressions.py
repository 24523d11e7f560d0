"""Expressions: what they may say, what they give, and how they go wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.replace_models import FLOAT, INT32

from tfsmith.errors import TfsmithError, UnsupportedError, UsageError
from tfsmith.ir.node import Attr
from tfsmith.ir.tensor import ArrayTensor, FilledTensor, Tensor
from tfsmith.ir.types import UNKNOWN, DType, Shape, dtype_named
from tfsmith.patterns.expressions import evaluate, parse_expression, typed


class Known:
    """What the tests know."""

    units = 12

    def shape(self, x: str) -> Shape:
        return {"kernel": Shape((768, 3072)), "x": Shape((-1, 128)), "a/b": Shape((5,))}.get(x, UNKNOWN)

    def dtype(self, x: str) -> DType | None:
        return FLOAT if x == "kernel" else None

    def constant(self, x: str) -> Tensor | None:
        if x == "huge":
            return FilledTensor(FLOAT, Shape((1 << 20,)), b"")
        if x == "names":
            return ArrayTensor.of([b"a", b"b"], dtype_named("string"))
        return {"eps": ArrayTensor.of(np.float32(0.5)), "perm": ArrayTensor.of([[0, 2], [1, 3]])}.get(x)

    def attr(self, node: str, name: str) -> Attr | None:
        return {"N": Attr("int", 3), "T": Attr("type", FLOAT)}.get(name)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("rank(kernel) == 2", True),
        ("rank(kernel) + 1 != 3", False),
        ("dim(x, 1) >= 128", True),
        ("dim(x, 1) < 128", False),
        ("2 <= 1", False),
        ("3 > 2.5", True),
        ("dtype(kernel) == 'float32'", True),
        ("attr(a, T) == 'float32'", True),
        ("shape(kernel) != shape(x)", True),
        ("(1 + 2) * 3", 9),
        ("7 // 2", 3),
        ("7 / 2", 3.5),
        ("10 - 3 - 2", 5),
        ("-2 * -3", 6),
        ("2.5e1", 25.0),
        ("1e-12", 1e-12),
        ("dim(kernel, 0)", 768),
        ("dim(kernel, -1) // dim(kernel, 0)", 4),
        ("dim(x, 1)", 128),
        ('dim("a/b", 0)', 5),
        ("rank(kernel)", 2),
        ("size(kernel)", 768 * 3072),
        ("shape(x)", Shape((-1, 128))),
        ("dtype(kernel)", FLOAT),
        ("attr(split, N)", Attr("int", 3)),
        ("attr(split, N) * 2", 6),
        ("value(eps)", 0.5),
        ("value(perm, 0, 1)", 2),
        ("value(perm, -1, -1)", 3),
        ("value(names, 1)", b"b"),
        ("units()", 12),
        ("count(a, b, c)", 36),
        ("[1, dim(x, 1), -1]", (1, 128, -1)),
        ("[]", ()),
        ("'gelu'", "gelu"),
        ("true", True),
        ("dim(kernel, rank(kernel) - 1)", 3072),
    ],
)
def test_values(text: str, value: Any) -> None:
    found = evaluate(text, Known())
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "1 +", "(1", "1)", "dim(kernel", "x", "dim kernel", "1 2", "a.b.c", "[1", "__import__('os')", "1 ** 2"),
        *(
            "dim(,)",
            '"open',
            "1" * 30,
            "lambda: 1",
            "x if y else z",
            "(" * 5000,
            "-" * 1500 + "1",
            "[" * 500 + "]" * 500,
        ),
    ],
)
def test_what_is_no_expression_says_so(text: str) -> None:
    with pytest.raises(UsageError):
        evaluate(text, Known())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dim(z, 0)", "the shape of 'z' is not known"),
        ("dim(x, 0)", r"axis 0 of 'x', whose shape is \[\?, 128\], is not known"),
        ("dim(x, 2)", "has no axis 2"),
        ("size(x)", "its size is not known"),
        ("rank(z)", "the shape of 'z' is not known"),
        ("dtype(x)", "the type of 'x' is not known"),
        ("attr(split, axis)", "no attribute 'axis'"),
        ("value(kernel)", "'kernel' is no constant"),
        ("value(perm)", "no element"),
        ("value(perm, 0, 5)", "no element"),
        ("value(huge, 1)", "too much"),
        ("1 / (2 - 2)", "divides by zero"),
        ("dim(kernel, 1)" + " * dim(kernel, 1)" * 9, "out of all bounds"),
    ],
)
def test_what_is_not_known_says_what(text: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        evaluate(text, Known())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nose(x)", "there is no function 'nose'"),
        ("dim(x)", "has 1 arguments"),
        ("dim(kernel, 'a')", "wants a whole number"),
        ("dim(1 + 1, 0)", "wants a name"),
        ("attr(split, T) + 1", "is no number"),
        ("'a' + 'b'", "is no number"),
        ("rank(x, x)", "has 2 arguments"),
        ("dim(kernel, x)", "stands where a value is wanted"),
        ("1 < 2 < 3", "is no expression"),
        ("1 = 1", "is no expression"),
        ("'a' < 1", "compares no numbers"),
    ],
)
def test_wrong_use_says_what_is_right(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        evaluate(text, Known())


def test_long_sums_are_no_problem() -> None:
    assert evaluate("1" + " + 1" * 450, Known()) == 451


@given(st.text(max_size=60))
def test_no_text_does_anything_else_than_give_or_refuse(text: str) -> None:
    try:
        parse_expression(text)
        evaluate(text, Known())
    except TfsmithError:
        pass


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        (3, "int", Attr("int", 3)),
        (3.0, "int", Attr("int", 3)),
        (3, "float", Attr("float", 3.0)),
        (Attr("int", 3), "float", Attr("float", 3.0)),
        (Attr("placeholder", "T"), "type", Attr("placeholder", "T")),
        ("float32", "type", Attr("type", FLOAT)),
        (dtype_named("float32_ref"), "type", Attr("type", FLOAT)),
        ("text", "string", Attr("string", b"text")),
        (1, "bool", Attr("bool", True)),
        ((1, -1), "shape", Attr("shape", Shape((1, -1)))),
        ((1, 2), "list(int)", Attr("list(int)", (1, 2))),
        (Shape((1, 2)), "list(int)", Attr("list(int)", (1, 2))),
        ((), "list(int)", Attr("list", ())),
        ("text", "", Attr("string", b"text")),
        (3, "", Attr("int", 3)),
        (FLOAT, "", Attr("type", FLOAT)),
    ],
)
def test_the_op_says_of_what_kind_an_attribute_is(value: Any, kind: str, wanted: Attr) -> None:
    found = typed(value, kind)
    assert found == wanted
    assert type(found.value) is type(wanted.value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *((2.5, "int"), ("x", "int"), (True, "int"), ("nothing", "type"), (2, "bool"), (3, "shape"), (3, "list(int)")),
        *((3, "func"), ("a", "tensor"), (2**70, "int"), (UNKNOWN, "list(int)")),
    ],
)
def test_what_cannot_be_of_a_kind_is_refused(value: Any, kind: str) -> None:
    with pytest.raises(UsageError):
        typed(value, kind)


def test_numbers_become_constants_of_the_nodes_own_type() -> None:
    made = [typed((1, -1), "tensor", INT32).tensor, typed(0.5, "tensor").tensor, typed(1, "tensor", FLOAT).tensor]
    found = [(one.numpy().tolist(), one.dtype, one.shape) for one in made if one is not None]
    assert found == [([1, -1], INT32, Shape((2,))), (0.5, FLOAT, Shape(())), (1.0, FLOAT, Shape(()))]
    with pytest.raises(UsageError, match="uint8 cannot hold 300"):
        typed(300, "tensor", dtype_named("uint8"))
    with pytest.raises(UsageError, match="string cannot hold"):
        typed(3, "tensor", dtype_named("string"))
