"""Samples of control flow: functions, branches and loops, in the forms of TensorFlow 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ir.graph import Function
from tfsmith.ir.node import Attr, Node
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, chain, numbers, samples
from tfsmith.ops.samples.draft import Draft

__all__: list[str] = []

_F32 = "float32"
_COMMON = ("float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "complex64")


def _twice() -> Function:
    draft = Draft()
    x = draft.feed(numpy.zeros(3, numpy.float32))
    return draft.function("twice", draft.add("AddV2", x, x))


def _negated() -> Function:
    draft = Draft()
    return draft.function("negated", draft.add("Neg", draft.feed(numpy.zeros(3, numpy.float32))))


def _swapped() -> Function:
    draft = Draft()
    x, y = draft.feed(numpy.zeros(3, numpy.float32)), draft.feed(numpy.zeros((), numpy.int32))
    less = draft.add("Sub", y, draft.const(1))
    return draft.function("swapped", less, draft.add("Mul", x, draft.const(2.0)))


@samples("PartitionedCall StatefulPartitionedCall")
def _calls(op: str) -> Iterator[Case]:
    draft = Draft()
    y = draft.add(op, [draft.feed(numbers(_F32, 3))], f="twice", Tout=["float32"])
    yield draft.case(op, "one argument", y, functions=[_twice()])
    draft = Draft()
    y = draft.add(op, [draft.feed(numbers(_F32, 3)), draft.const(7)], f="swapped", Tout=["int32", "float32"])
    yield draft.case(op, "two results", y, f"{y}:1", functions=[_swapped()])
    inner = Draft()
    y = inner.add("PartitionedCall", [inner.feed(numpy.zeros(3, numpy.float32))], f="twice", Tout=["float32"])
    nested = inner.function("nested", inner.add("Neg", y))
    draft = Draft()
    y = draft.add(op, [draft.feed(numbers(_F32, 3))], f="nested", Tout=["float32"])
    yield draft.case(op, "a call inside", y, functions=[nested, _twice()])
    draft = Draft()
    x = draft.feed(numbers(_F32, 3))
    first = draft.add(op, [x], f="twice", Tout=["float32"])
    second = draft.add(op, [first], f="twice", Tout=["float32"])
    yield draft.case(op, "called twice", second, functions=[_twice()])


_TRUTHS: dict[str, Any] = {
    "true": numpy.array(True),
    "false": numpy.array(False),
    "int32 3": numpy.array(3, "int32"),
    "int32 0": numpy.array(0, "int32"),
    "float32 0.5": numpy.array(0.5, "float32"),
    "float32 0": numpy.array(0, "float32"),
    "a vector": numpy.array([0.0], "float32"),
    "an empty vector": numpy.array([], "float32"),
    "a word": numpy.array(b"x", object),
    "an empty word": numpy.array(b"", object),
}


@samples("If StatelessIf")
def _ifs(op: str) -> Iterator[Case]:
    for name, truth in _TRUTHS.items():
        draft = Draft()
        y = draft.add(
            op,
            draft.feed(truth),
            [draft.feed(numbers(_F32, 3))],
            then_branch="twice",
            else_branch="negated",
            Tout=["float32"],
        )
        yield draft.case(op, name, y, functions=[_twice(), _negated()])


@samples("Case StatelessCase")
def _branches(op: str) -> Iterator[Case]:
    for which in (0, 1, 2, 7, -1):
        draft = Draft()
        x = draft.feed(numbers(_F32, 3))
        branches = ["twice", "negated"]
        y = draft.add(op, draft.feed(numpy.array(which, "int32")), [x], branches=branches, Tout=["float32"])
        yield draft.case(op, f"branch {which} of 2", y, functions=[_twice(), _negated()])


@samples("While StatelessWhile")
def _whiles(op: str) -> Iterator[Case]:
    body = Draft()
    x, count = body.feed(numpy.zeros(3, numpy.float32)), body.feed(numpy.zeros((), numpy.int32))
    more = body.add("AddV2", count, body.const(1))
    run = body.function("body", body.add("Mul", x, body.const(2.0)), more)
    test = Draft()
    test.feed(numpy.zeros(3, numpy.float32))
    ask = test.function("cond", test.add("Less", test.feed(numpy.zeros((), numpy.int32)), test.const(4)))
    for start in (0, 3, 4, 9):
        draft = Draft()
        inputs = [draft.feed(numbers(_F32, 3)), draft.feed(numpy.array(start, "int32"))]
        y = draft.add(op, inputs, cond="cond", body="body")
        yield draft.case(op, f"from {start} to 4", y, f"{y}:1", functions=[run, ask])


@samples("Identity StopGradient Snapshot PreventGradient GuaranteeConst CheckNumerics EnsureShape IdentityN"
         " PlaceholderWithDefault", exact=True)  # fmt: skip
def _identities(op: str) -> Iterator[Case]:
    kinds = ("float32", "float64", "float16") if op == "CheckNumerics" else (*_COMMON, "string", "bool")
    attrs: dict[str, Any] = {"message": "no"} if op == "CheckNumerics" else {"shape": [None, 3]}
    attrs = attrs if op in ("CheckNumerics", "EnsureShape", "PlaceholderWithDefault") else {}
    for kind in kinds:
        draft = Draft()
        x = draft.feed(numbers(kind, 2, 3))
        y = draft.add(op, [x, x], **attrs) if op == "IdentityN" else draft.add(op, x, **attrs)
        yield draft.case(op, kind, y, *([f"{y}:1"] if op == "IdentityN" else []))
    if op in ("CheckNumerics", "EnsureShape"):
        draft = Draft()
        bad = [[1, numpy.nan]] if op == "CheckNumerics" else [[1, 2]]
        yield draft.case(op, "refused", draft.add(op, draft.feed(numpy.array(bad, "float32")), **attrs))
    if op == "CheckNumerics":
        draft = Draft()
        yield draft.case(op, "infinity", draft.add(op, draft.feed(numpy.array([numpy.inf], "float32")), **attrs))


@samples("Assert")
def _assertions(op: str) -> Iterator[Case]:
    for truth in (True, False):
        draft = Draft()
        x = draft.feed(numbers(_F32, 3))
        said = draft.add(op, draft.feed(numpy.array(truth)), [x, draft.const(b"no")], summarize=2)
        yield draft.case(op, str(truth).lower(), draft.add("Identity", x, after=[said]))


def _const(name: str, values: Any, kind: str) -> Node:
    found = as_dtype(kind)
    tensor = ArrayTensor(found, numpy.asarray(values, found.numpy()))
    return Node(name, "Const", (), {"dtype": found, "value": Attr("tensor", tensor)})


def _node(name: str, op: str, *inputs: str, kind: str = "int32", **attrs: Any) -> Node:
    return Node(name, op, inputs, {"T": as_dtype(kind), **attrs})


@samples("Switch Merge")
def _switches(op: str) -> Iterator[Case]:
    for truth in (True, False):
        nodes = [
            _node("switch", "Switch", "x", "p", kind=_F32),
            _node("negated", "Neg", "switch:0", kind=_F32),
            _node("squared", "Square", "switch:1", kind=_F32),
            _node("merge", "Merge", "negated", "squared", kind=_F32, N=2),
        ]
        feeds = {"x": numbers(_F32, 3), "p": numpy.array(truth)}
        yield chain(op, f"cond, {truth}", nodes, feeds, ["merge:0", "merge:1"])
        yield chain(op, f"one side alone, {truth}", nodes, feeds, ["negated:0"])


@samples("Enter Exit NextIteration LoopCond")
def _loops(op: str) -> Iterator[Case]:
    frame: dict[str, Any] = {"frame_name": "loop", "parallel_iterations": 10}
    for start in (0, 3, 8):
        nodes = [
            _node("enter", "Enter", "x", **frame, is_constant=False),
            _node("enter_sum", "Enter", "s", kind=_F32, **frame, is_constant=False),
            _node("step", "Enter", "d", kind=_F32, **frame, is_constant=True),
            _node("merge", "Merge", "enter", "next", N=2),
            _node("merge_sum", "Merge", "enter_sum", "next_sum", kind=_F32, N=2),
            Node("four", "Const", ("^merge",), _const("four", 4, "int32").attrs),
            Node("one", "Const", ("^switch",), _const("one", 1, "int32").attrs),
            _node("less", "Less", "merge", "four"),
            Node("test", "LoopCond", ("less",), {}),
            _node("switch", "Switch", "merge", "test"),
            _node("switch_sum", "Switch", "merge_sum", "test", kind=_F32),
            _node("added", "AddV2", "switch:1", "one"),
            _node("summed", "AddV2", "switch_sum:1", "step", kind=_F32),
            _node("next", "NextIteration", "added"),
            _node("next_sum", "NextIteration", "summed", kind=_F32),
            _node("exit", "Exit", "switch"),
            _node("exit_sum", "Exit", "switch_sum", kind=_F32),
        ]
        feeds = {"x": numpy.array(start, "int32"), "s": numbers(_F32, 3), "d": numbers(_F32, 3, start=4)}
        yield chain(op, f"from {start} to 4", nodes, feeds, ["exit:0", "exit_sum:0"])


@samples("ToBool", exact=True)
def _to_bool(op: str) -> Iterator[Case]:
    for kind in ("float32", "int64", "string", "bool"):
        yield case(op, numbers(kind), name=kind)
        yield case(
            op,
            numpy.zeros_like(numbers(kind)) if kind != "string" else numpy.array(b"", object),
            name=f"{kind}, nothing",
        )
        yield case(op, numbers(kind, 2), name=f"{kind}, two")
        yield case(op, numbers(kind, 0), name=f"{kind}, none")


@samples("DeepCopy Copy", exact=True)
def _copies(op: str) -> Iterator[Case]:
    for kind in ("float32", "int64"):
        yield case(op, numbers(kind, 2, 3), name=kind)
