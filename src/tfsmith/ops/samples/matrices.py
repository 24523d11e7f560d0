"""Samples of products of matrices and of einsum."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy

from tfsmith.ir.node import Node
from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, chain, numbers, samples, types_of

__all__: list[str] = []

_KINDS = ("bfloat16", "float16", "float32", "float64", "int16", "int32", "int64", "complex64", "complex128")


@samples("MatMul", n_eps=8)
def _mat_mul(op: str) -> Iterator[Case]:
    for kind in (*(kind for kind in _KINDS if kind != "int16"), "int8", "int16"):
        if kind in types_of(op):
            yield case(op, numbers(kind, 3, 4), numbers(kind, 4, 5, start=20), name=kind)
    for left, right in product((False, True), repeat=2):
        for kind in ("float32", "complex64", "bfloat16"):
            a = numbers(kind, *((4, 3) if left else (3, 4)))
            b = numbers(kind, *((5, 4) if right else (4, 5)), start=20)
            name = f"{kind}, transposed {left} {right}"
            yield case(op, a, b, name=name, transpose_a=left, transpose_b=right)
    for shape, other in (
        ((1, 1), (1, 1)),
        ((1, 6), (6, 1)),
        ((6, 1), (1, 6)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 3)),
        ((2, 3), (3, 0)),
    ):
        yield case(op, numbers("float32", *shape), numbers("float32", *other, start=7), name=f"{shape} by {other}")
    x = numpy.array([[1.0, float("nan")], [float("inf"), 0.0]], "float32")
    yield case(op, x, numbers("float32", 2, 2), name="NaN and infinity")
    yield case(op, x, numpy.zeros((2, 2), "float32"), name="NaN and infinity by zeros")
    yield case(op, numbers("float32", 2, 3), numbers("float32", 2, 3), name="do not fit", unknown=True)
    yield case(op, numbers("float32", 2, 3), numbers("float32", 3), name="a vector", unknown=True)
    yield case(op, numbers("float32", 2, 3), numbers("float32", 3, 2), name="a constant weight", constants=(1,))
    yield case(op, numbers("float32", 2, 3), numbers("float32", 3, 2), name="unknown shapes", unknown=True)
    float32 = as_dtype("float32")
    feeds = {
        "x": numbers("float32", 3, 4),
        "w": numbers("float32", 4, 5, start=20),
        "b": numbers("float32", 5, start=50),
    }
    nodes = [
        Node("m", op, ("x", "w"), {"T": float32}),
        Node("s", "AddV2", ("m", "b"), {"T": float32}),
        Node("y", "Relu", ("s",), {"T": float32}),
    ]
    yield chain(op, "with a bias and Relu", nodes, feeds, ["y:0"])
    feeds = {"x": numbers("float32", 3, 4), "w": numbers("float32", 3, 5, start=20), "p": numpy.array([1, 0], "int32")}
    nodes = [
        Node("t", "Transpose", ("x", "p"), {"T": float32, "Tperm": as_dtype("int32")}),
        Node("m", op, ("t", "w"), {"T": float32}),
        Node("y", "Transpose", ("m", "p"), {"T": float32, "Tperm": as_dtype("int32")}),
    ]
    yield chain(op, "between transposes", nodes, feeds, ["y:0"])


@samples("BatchMatMul BatchMatMulV2 BatchMatMulV3", n_eps=8)
def _batch_mat_mul(op: str) -> Iterator[Case]:
    def made(x: object, y: object, name: str, **more: object) -> Case:
        if op == "BatchMatMulV3":
            more = {"Tout": as_dtype(numpy.asarray(x).dtype).name, **more}
        return case(op, x, y, name=name, **more)  # type: ignore[arg-type]  # attributes and flags together

    without = {"BatchMatMul": "int16", "BatchMatMulV2": "", "BatchMatMulV3": "float16"}[op]
    kinds = [kind for kind in _KINDS if kind != without]
    for kind in kinds:
        yield made(numbers(kind, 2, 3, 2), numbers(kind, 2, 2, 4, start=20), kind)
    for left, right in product((False, True), repeat=2):
        for kind in ("float32", "complex64"):
            x = numbers(kind, 2, *((4, 3) if left else (3, 4)))
            y = numbers(kind, 2, *((2, 4) if right else (4, 2)), start=20)
            yield made(x, y, f"{kind}, adjoint {left} {right}", adj_x=left, adj_y=right)
    for shape, other in (
        ((2, 3), (3, 4)),
        ((2, 2, 1, 3), (2, 2, 3, 2)),
        ((2, 0, 3), (2, 3, 2)),
        ((2, 2, 0), (2, 0, 3)),
        ((0, 2, 3), (0, 3, 2)),
        ((2, 3), (2, 3, 2)),
        ((2, 1, 2, 3), (3, 3, 1)),
        ((2, 2, 3), (3, 3, 1)),
        ((1, 2, 3), (3, 2)),
    ):
        yield made(numbers("float32", *shape), numbers("float32", *other, start=9), f"{shape} by {other}", unknown=True)
    yield made(numbers("float32", 2, 2, 3), numbers("float32", 2, 2, 3), "do not fit", unknown=True)
    yield made(numbers("float32", 3), numbers("float32", 3, 2), "a vector", unknown=True)
    if op == "BatchMatMulV3":
        yield made(numbers("int8", 2, 2, 3), numbers("int8", 2, 3, 2), "int8 to int32", Tout="int32")
        yield made(numbers("uint8", 2, 2, 3), numbers("int8", 2, 3, 2), "uint8 and int8 to int32", Tout="int32")
        yield made(numbers("bfloat16", 2, 2, 3), numbers("int8", 2, 3, 2), "bfloat16 and int8", Tout="bfloat16")


@samples("SparseMatMul", n_eps=8)
def _sparse_mat_mul(op: str) -> Iterator[Case]:
    for left, right in product(("float32", "bfloat16"), repeat=2):
        yield case(op, numbers(left, 3, 4), numbers(right, 4, 2, start=9), name=f"{left} by {right}")
    x, y = numbers("float32", 4, 3), numbers("float32", 2, 4, start=9)
    yield case(op, x, y, name="transposed", transpose_a=True, transpose_b=True)
    yield case(op, x, y, name="do not fit", unknown=True)


@samples("Cross", n_eps=4)
def _cross(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        yield case(op, numbers(kind, 2, 3), numbers(kind, 2, 3, start=9), name=kind)
    yield case(op, numbers("float32", 3), numbers("float32", 3, start=9), name="vectors")
    yield case(op, numbers("float32", 2), numbers("float32", 2), name="two elements", unknown=True)
    yield case(op, numbers("float32", 2, 3), numbers("float32", 3), name="shapes differ", unknown=True)


_EQUATIONS: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = (
    ("ab,bc->ac", ((2, 3), (3, 4))),
    ("ab,bc->ca", ((2, 3), (3, 4))),
    ("ab,cb->ac", ((2, 3), (4, 3))),
    ("abc,cde->abde", ((2, 3, 2), (2, 2, 2))),
    ("abcd,cde->abe", ((1, 2, 2, 3), (2, 3, 4))),
    ("BFNH,BTNH->BNFT", ((1, 2, 2, 3), (1, 3, 2, 3))),
    ("BNFT,BTNH->BFNH", ((1, 2, 2, 3), (1, 3, 2, 4))),
    ("aecd,abcd->acbe", ((1, 2, 2, 3), (1, 3, 2, 3))),
    ("bi,bj->bij", ((2, 3), (2, 4))),
    ("i,j->ij", ((3,), (4,))),
    ("i,i->", ((3,), (3,))),
    ("ij,ij->", ((2, 3), (2, 3))),
    ("ab,ab->ab", ((2, 3), (2, 3))),
    ("ab,b->a", ((2, 3), (3,))),
    ("ab,->ab", ((2, 3), ())),
    ("abc,ab->c", ((2, 3, 4), (2, 3))),
    ("abc,cd->d", ((2, 3, 4), (4, 2))),
    ("...ab,...bc->...ac", ((2, 3, 2), (2, 2, 4))),
    ("...ab,bc->...ac", ((2, 1, 3, 2), (2, 4))),
    ("...ab,...bc->...ac", ((2, 1, 3, 2), (3, 2, 2))),
    ("a...,a...->...", ((2, 3), (2, 3))),
    ("a...b,b->...a", ((2, 3, 4), (4,))),
    ("abc->cba", ((2, 3, 4),)),
    ("abc->ac", ((2, 3, 4),)),
    ("ab->", ((2, 3),)),
    ("aa->a", ((3, 3),)),
    ("aa->", ((3, 3),)),
    ("aba->ab", ((2, 3, 2),)),
    ("a->aa", ((3,),)),
    ("ab->aab", ((2, 3),)),
    ("a...->...a", ((2, 3, 4),)),
    ("aab,bc->ac", ((2, 2, 3), (3, 2))),
    ("ab,bc->aac", ((2, 3), (3, 2))),
    ("ab,bc->ac", ((0, 3), (3, 4))),
    ("ab,bc->ac", ((2, 0), (0, 4))),
    (" a b , b c -> a c", ((2, 3), (3, 4))),
    ("ab,bc->ac", ((2, 3), (2, 4))),
    ("ab,bc->ad", ((2, 3), (3, 4))),
    ("ab,bc->ac", ((2, 3, 1), (3, 4))),
    ("a...,a...->a", ((2, 3), (2, 3))),
    ("ab,bc", ((2, 3), (3, 4))),
    ("ab,ab->ab", ((1, 3), (2, 3))),
    ("...,...->...", ((2, 1), (3,))),
    ("...a->...", ((2, 3),)),
    ("ab->a", ((2,),)),
)


@samples("Einsum", n_eps=8)
def _einsum(op: str) -> Iterator[Case]:
    for kind in (kind for kind in _KINDS if kind not in ("int16",)):
        yield case(op, [numbers(kind, 2, 3, 2), numbers(kind, 2, 4, start=9)], name=kind, equation="abc,cd->abd")
        yield case(op, [numbers(kind, 2, 3, 2)], name=f"{kind}, one", equation="abc->b")
    for equation, shapes in _EQUATIONS:
        given = [numbers("float32", *shape, start=20 * place) for place, shape in enumerate(shapes)]
        yield case(op, given, name=f"{equation} of {shapes}", equation=equation, unknown=True)
