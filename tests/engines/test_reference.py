"""The reference engine without TensorFlow: functions, control flow of both kinds, state, and wrong inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.engines import interpreter, tf1_flow
from tfsmith.engines.protocol import LackError
from tfsmith.errors import EngineError, InvalidModelError, TfsmithError
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Function, FunctionParts, Graph, Library
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.node import Attr, Func, Node
from tfsmith.ir.opdef import ArgDef, AttrDef, OpDef, builtin_op
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import DType, dtype_named

FLOAT, INT, BOOL, RESOURCE = (dtype_named(name) for name in ("float32", "int32", "bool", "resource"))
STRING = dtype_named("string")


def const(name: str, values: Any, kind: DType = FLOAT, controls: Sequence[str] = ()) -> Node:
    array = np.asarray(values, kind.numpy())
    return Node(name, "Const", tuple(controls), {"dtype": kind, "value": Attr("tensor", ArrayTensor(kind, array))})


def placeholder(name: str, kind: DType = FLOAT) -> Node:
    return Node(name, "Placeholder", (), {"dtype": kind})


def function(
    name: str, args: dict[str, DType], nodes: Sequence[Node], ret: dict[str, str], kinds: dict[str, DType] | None = None
) -> Function:
    first = next(iter(args.values()))
    outputs = tuple(ArgDef(key, (kinds or {}).get(key, first)) for key in ret)
    signature = OpDef(name, tuple(ArgDef(key, kind) for key, kind in args.items()), outputs)
    return Function(name, Part.of(FunctionParts(signature, tuple(nodes), ret)))


def model(nodes: Sequence[Node], functions: Sequence[Function] = ()) -> Model:
    graph = Graph(tuple(nodes), library=Library({one.name: one for one in functions}))
    return Model("graphdef", (MetaGraph(graph_part=Part.of(graph)),))


def run(made: Model, outputs: str | list[str], **feeds: Any) -> list[Any]:
    names = [outputs] if isinstance(outputs, str) else outputs
    found = tfsmith.run(made, feeds, names, engine="reference")
    return [found[name].tolist() for name in names]


def binary(name: str, op: str, one: str, other: str, kind: DType = FLOAT, controls: Sequence[str] = ()) -> Node:
    return Node(name, op, (one, other, *controls), {"T": kind})


DOUBLE = function("double", {"a": FLOAT}, [binary("sum", "AddV2", "a", "a")], {"r": "sum:z:0"})
SQUARE = function("square", {"a": FLOAT}, [binary("product", "Mul", "a", "a")], {"r": "product:z:0"})


def call(name: str, op: str, inputs: Sequence[str], **attrs: Any) -> Node:
    kinds = {"Tin": (FLOAT,), "Tout": (FLOAT,)} if op != "While" else {}
    return Node(name, op, tuple(inputs), {**kinds, **attrs})


def test_constants_inputs_and_outputs_are_not_shared() -> None:
    x = np.ones(3, np.float32)
    made = model([placeholder("x"), const("c", [1, 2, 3]), Node("y", "Identity", ("x",), {"T": FLOAT})])
    with tfsmith.compile(made, ["y", "c"], engine="reference") as runner:
        found = runner.run({"x": x})
        found["y"][0] = 5
        found["c"][0] = 5
        assert x.tolist() == [1, 1, 1]
        assert runner.run({"x": x})["c"].tolist() == [1, 2, 3]


def test_calls_and_conditions() -> None:
    made = model(
        [
            placeholder("x"),
            placeholder("which", BOOL),
            placeholder("number", INT),
            call("direct", "PartitionedCall", ["x"], f=Func("double", {})),
            Node("legacy", "double", ("direct",)),
            call(
                "if", "If", ["which", "x"], then_branch=Func("double", {}), else_branch=Func("square", {}), Tcond=BOOL
            ),
            call("case", "Case", ["number", "x"], branches=(Func("double", {}), Func("square", {}))),
        ],
        [DOUBLE, SQUARE],
    )
    assert run(made, ["direct", "legacy"], x=3.0) == [6.0, 12.0]
    assert run(made, "if", x=3.0, which=True) == [6.0]
    assert run(made, "if", x=3.0, which=False) == [9.0]
    assert [run(made, "case", x=3.0, number=number) for number in (0, 1, 2, -1)] == [[6.0], [9.0], [9.0], [9.0]]


def while_model() -> Model:
    """i, x = 0, 1; while i < n: i, x = i + 1, x + x."""
    args = {"i": INT, "x": FLOAT, "n": INT}
    condition = function("cond", args, [binary("less", "Less", "i", "n", INT)], {"r": "less:z:0"}, {"r": BOOL})
    step = [const("one", 1, INT), binary("more", "AddV2", "i", "one:output:0", INT), binary("twice", "AddV2", "x", "x")]
    ret = {"a": "more:z:0", "b": "twice:z:0", "c": "n"}
    body = function("body", args, step, ret, {"b": FLOAT})
    attrs = {"T": (INT, FLOAT, INT), "cond": Func("cond", {}), "body": Func("body", {})}
    loop = Node("loop", "While", ("zero", "x", "n"), attrs)
    nodes = [placeholder("x"), placeholder("n", INT), const("zero", 0, INT), loop]
    return model(nodes, [condition, body])


def test_while() -> None:
    assert run(while_model(), ["loop:0", "loop:1"], x=1.0, n=5) == [5, 32.0]
    assert run(while_model(), ["loop:0", "loop:1"], x=1.0, n=0) == [0, 1.0]


def test_a_loop_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "MAX_LOOP_STEPS", 100)
    with pytest.raises(EngineError, match=r"node 'loop' in the graph: While failed: it is a loop that never ends"):
        run(while_model(), "loop:1", x=1.0, n=101)
    assert run(while_model(), "loop:0", x=1.0, n=99) == [99]


def test_functions_that_call_each_other() -> None:
    parts = function("f", {"a": FLOAT}, [Node("again", "f", ("a",))], {"r": "again:r:0"}).part
    endless = Function("f", parts, lambda op: parts.value.signature if op == "f" else builtin_op(op))
    made = model([placeholder("x"), Node("y", "f", ("x",))], [endless])
    with pytest.raises(EngineError, match="more than 100 deep"):
        run(made, "y", x=1.0)


def test_parameters_of_a_function() -> None:
    """A function of TensorFlow 1 may leave a type to its call."""
    kind = Attr("placeholder", "T")
    signature = OpDef("f", (ArgDef("a", type_attr="T"),), (ArgDef("r", type_attr="T"),), (AttrDef("T", "type"),))
    body = (
        Node("sum", "AddV2", ("a", "a"), {"T": kind}),
        Node("out", "Cast", ("sum:z:0",), {"SrcT": kind, "DstT": kind}),
    )
    made = Function("f", Part.of(FunctionParts(signature, body, {"r": "out:y:0"})))
    nodes = [
        placeholder("x"),
        Node("y", "f", ("x",), {"T": FLOAT}),
        call("z", "PartitionedCall", ["y"], f=Func("f", {"T": Attr("type", FLOAT)})),
    ]
    assert run(model(nodes, [made]), ["y", "z"], x=2.0) == [4.0, 8.0]


# Control flow of TensorFlow 1


def switch(name: str, data: str, pred: str, kind: DType = FLOAT) -> Node:
    return Node(name, "Switch", (data, pred), {"T": kind})


def enter(name: str, data: str, frame: str, kind: DType = FLOAT, *, constant: bool = False) -> Node:
    attrs = {"T": kind, "frame_name": frame, "is_constant": constant}
    return Node(name, "Enter", (data,), attrs)


def merge(name: str, one: str, other: str, kind: DType = FLOAT) -> Node:
    return Node(name, "Merge", (one, other), {"T": kind, "N": 2})


def passes(name: str, op: str, data: str, kind: DType = FLOAT) -> Node:
    return Node(name, op, (data,), {"T": kind})


COND = [
    placeholder("x"),
    placeholder("p", BOOL),
    switch("switch", "x", "p"),
    passes("true", "Identity", "switch:1"),
    const("two", 2, FLOAT, ["^true"]),
    binary("product", "Mul", "switch:1", "two"),
    passes("minus", "Neg", "switch"),
    merge("merge", "minus", "product"),
]


def test_condition_of_tf1() -> None:
    made = model(COND)
    assert run(made, ["merge", "merge:1"], x=3.0, p=True) == [6.0, 1]
    assert run(made, ["merge", "merge:1"], x=3.0, p=False) == [-3.0, 0]
    with pytest.raises(EngineError, match="is in a branch that was not taken"):
        run(made, "product", x=3.0, p=False)


def loop_nodes(prefix: str, start: str, count: str, body: Sequence[Node], result: str) -> list[Node]:
    """i, x = 0, start; while i < count: i, x = i + 1, <result of body, which takes {prefix}x_body>."""
    p = prefix
    return [
        const(f"{p}zero", 0, INT),
        enter(f"{p}i_enter", f"{p}zero", p, INT),
        enter(f"{p}x_enter", start, p),
        enter(f"{p}n_enter", count, p, INT, constant=True),
        merge(f"{p}i_merge", f"{p}i_enter", f"{p}i_next", INT),
        merge(f"{p}x_merge", f"{p}x_enter", f"{p}x_next"),
        binary(f"{p}less", "Less", f"{p}i_merge", f"{p}n_enter", INT),
        passes(f"{p}cond", "LoopCond", f"{p}less", BOOL),
        switch(f"{p}i_switch", f"{p}i_merge", f"{p}cond", INT),
        switch(f"{p}x_switch", f"{p}x_merge", f"{p}cond"),
        passes(f"{p}x_body", "Identity", f"{p}x_switch:1"),
        const(f"{p}one", 1, INT, [f"^{p}x_body"]),
        binary(f"{p}i_more", "AddV2", f"{p}i_switch:1", f"{p}one", INT),
        *body,
        passes(f"{p}i_next", "NextIteration", f"{p}i_more", INT),
        passes(f"{p}x_next", "NextIteration", result),
        passes(f"{p}i_exit", "Exit", f"{p}i_switch", INT),
        passes(f"{p}x_exit", "Exit", f"{p}x_switch"),
    ]


def test_loop_of_tf1() -> None:
    body = [binary("twice", "AddV2", "a/x_body", "a/x_body")]
    made = model([placeholder("x"), placeholder("n", INT), *loop_nodes("a/", "x", "n", body, "twice")])
    for count in (0, 1, 5):
        assert run(made, ["a/x_exit", "a/i_exit"], x=1.0, n=count) == [2.0**count, count]


def test_loop_in_a_loop() -> None:
    """Doubles n times in each of n steps, then adds one."""
    inner = loop_nodes("b/", "a/x_body", "a/n_enter", [binary("twice", "AddV2", "b/x_body", "b/x_body")], "twice")
    inner[0] = const("b/zero", 0, INT, ["^a/x_body"])
    body = [*inner, const("plus", 1, FLOAT, ["^a/x_body"]), binary("sum", "AddV2", "b/x_exit", "plus")]
    made = model([placeholder("x"), placeholder("n", INT), *loop_nodes("a/", "x", "n", body, "sum")])
    assert run(made, "a/x_exit", x=1.0, n=3) == [((8 + 1) * 8 + 1) * 8 + 1]
    assert run(made, "a/x_exit", x=1.0, n=0) == [1.0]


def test_condition_in_a_loop() -> None:
    """Doubles what is below 10, and takes 7 from what is not."""
    body = [
        const("ten", 10, FLOAT, ["^a/x_body"]),
        binary("small", "Less", "a/x_body", "ten"),
        switch("branch", "a/x_body", "small"),
        binary("twice", "AddV2", "branch:1", "branch:1"),
        passes("pivot", "Identity", "branch"),
        const("seven", 7, FLOAT, ["^pivot"]),
        binary("less", "Sub", "branch", "seven"),
        merge("either", "less", "twice"),
    ]
    made = model([placeholder("x"), placeholder("n", INT), *loop_nodes("a/", "x", "n", body, "either")])
    wanted = 3.0
    for count in range(6):
        assert run(made, "a/x_exit", x=3.0, n=count) == [wanted]
        wanted = wanted * 2 if wanted < 10 else wanted - 7


def test_loop_in_a_branch() -> None:
    """The loop of the branch that is not taken is dead, and so is what comes out of it."""
    loop = loop_nodes("a/", "switch:1", "n_switch:1", [binary("twice", "AddV2", "a/x_body", "a/x_body")], "twice")
    loop[0] = const("a/zero", 0, INT, ["^true"])
    nodes = [
        placeholder("x"),
        placeholder("p", BOOL),
        placeholder("n", INT),
        switch("switch", "x", "p"),
        switch("n_switch", "n", "p", INT),
        passes("true", "Identity", "switch:1"),
        *loop,
        passes("minus", "Neg", "switch"),
        merge("merge", "minus", "a/x_exit"),
    ]
    assert run(model(nodes), "merge", x=3.0, n=4, p=True) == [48.0]
    assert run(model(nodes), "merge", x=3.0, n=4, p=False) == [-3.0]


def test_values_change_places_in_a_loop() -> None:
    """x takes y's value, and y x's: both as they were in the step before."""
    p = "a/"
    loop = loop_nodes(p, "x", "n", [], "a/y_body")
    extra = [
        enter("a/y_enter", "y", p),
        merge("a/y_merge", "a/y_enter", "a/y_next"),
        switch("a/y_switch", "a/y_merge", "a/cond"),
        passes("a/y_body", "Identity", "a/y_switch:1"),
        passes("a/y_next", "NextIteration", "a/x_body"),
        passes("a/y_exit", "Exit", "a/y_switch"),
    ]
    made = model([placeholder("x"), placeholder("y"), placeholder("n", INT), *loop, *extra])
    assert run(made, ["a/x_exit", "a/y_exit"], x=1.0, y=2.0, n=3) == [2.0, 1.0]
    assert run(made, ["a/x_exit", "a/y_exit"], x=1.0, y=2.0, n=4) == [1.0, 2.0]


def test_a_tf1_loop_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf1_flow, "MAX_LOOP_STEPS", 50)
    body = [binary("twice", "AddV2", "a/x_body", "a/x_body")]
    made = model([placeholder("x"), placeholder("n", INT), *loop_nodes("a/", "x", "n", body, "twice")])
    with pytest.raises(EngineError, match="a loop that never ends"):
        run(made, "a/x_exit", x=1.0, n=51)


def test_a_loop_that_needs_what_it_gives() -> None:
    body = [binary("twice", "AddV2", "a/x_body", "a/x_body")]
    nodes = [placeholder("x"), placeholder("n", INT), *loop_nodes("a/", "x", "a/i_exit", body, "twice")]
    with pytest.raises(TfsmithError):
        run(model(nodes), "a/x_exit", x=1.0, n=3)


# State


def test_tensor_array() -> None:
    nodes = [
        placeholder("x"),
        const("size", 2, INT),
        const("at", 1, INT),
        Node("array", "TensorArrayV3", ("size",), {"dtype": FLOAT}),
        Node("write", "TensorArrayWriteV3", ("array", "at", "x", "array:1"), {"T": FLOAT}),
        Node("read", "TensorArrayReadV3", ("array", "at", "write"), {"dtype": FLOAT}),
        Node("again", "TensorArrayReadV3", ("array", "at", "write", "^read"), {"dtype": FLOAT}),
        Node("count", "TensorArraySizeV3", ("array", "write")),
    ]
    assert run(model(nodes), ["read", "count"], x=[1.0, 2.0]) == [[1.0, 2.0], 2]
    with pytest.raises(EngineError, match="index 1 of the TensorArray was cleared when it was read before"):
        run(model(nodes), "again", x=[1.0])
    nodes[2] = const("at", 2, INT)
    with pytest.raises(EngineError, match="node 'write' in the graph: TensorArrayWriteV3 failed: index 2 is not in"):
        run(model(nodes), "read", x=[1.0])


def test_tables_of_constants() -> None:
    """Filled once, before the first run."""
    attrs = {"key_dtype": STRING, "value_dtype": dtype_named("int64")}
    kinds = {"Tin": STRING, "Tout": dtype_named("int64")}
    nodes = [
        placeholder("words", STRING),
        Node("table", "HashTableV2", (), attrs),
        const("keys", np.array([b"a", b"b"], object), STRING),
        const("values", [1, 2], dtype_named("int64")),
        const("other", -1, dtype_named("int64")),
        Node("fill", "InitializeTableV2", ("table", "keys", "values"), {"Tkey": STRING, "Tval": dtype_named("int64")}),
        Node("found", "LookupTableFindV2", ("table", "words", "other"), kinds),
        Node("size", "LookupTableSizeV2", ("table",)),
    ]
    assert run(model(nodes), ["found", "size"], words=["b", "c", "a"]) == [[2, -1, 1], 2]
    del nodes[5]
    with pytest.raises(EngineError, match="the table is not filled; a plain graph has lost"):
        run(model(nodes), "found", words=["b"])


def test_a_file_that_is_no_asset(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a\nb\n")
    attrs = {"key_dtype": STRING, "value_dtype": dtype_named("int64")}
    text = {"vocab_size": -1, "key_index": -2, "value_index": -1, "delimiter": b"\t"}
    nodes = [
        placeholder("words", STRING),
        Node("table", "HashTableV2", (), attrs),
        const("file", np.array(str(tmp_path / "words.txt").encode(), object), STRING),
        const("other", -1, dtype_named("int64")),
        Node("fill", "InitializeTableFromTextFileV2", ("table", "file"), text),
        Node("found", "LookupTableFindV2", ("table", "words", "other"), {"Tin": STRING, "Tout": dtype_named("int64")}),
    ]
    with pytest.raises(EngineError, match=r"words\.txt', which is no asset of the model"):
        run(model(nodes), "found", words=["b"])


def test_assert_and_print() -> None:
    nodes = [
        placeholder("x"),
        placeholder("p", BOOL),
        Node("print", "Print", ("x", "x"), {"T": FLOAT, "U": (FLOAT,), "message": "x is "}),
        Node("assert", "Assert", ("p", "x"), {"T": (FLOAT,)}),
        Node("y", "Identity", ("print", "^assert"), {"T": FLOAT}),
    ]
    found = tfsmith.run(model(nodes), {"x": [1.0, 2.5], "p": True}, ["y"], engine="reference")
    assert found["y"].tolist() == [1.0, 2.5]
    assert found.notes == ("the model prints: x is [1.0 2.5]",)
    with pytest.raises(EngineError, match=r"node 'assert' in the graph: Assert failed: assertion failed: \[1.0 2.5\]"):
        run(model(nodes), "y", x=[1.0, 2.5], p=False)


# Wrong inputs


def test_ops_that_are_lacking() -> None:
    inner = function("f", {"a": FLOAT}, [Node("n", "XlaDot", ("a", "a"))], {"r": "a"})
    nodes = [placeholder("x"), Node("y", "f", ("x",)), Node("z", "PyFunc", ("y",), {"Tin": (FLOAT,), "Tout": (FLOAT,)})]
    with pytest.raises(LackError) as caught:
        run(model(nodes, [inner]), "z", x=1.0)
    assert {lack.op: lack.nodes for lack in caught.value.lacks} == {"PyFunc": ("z",), "XlaDot": ("n in function 'f'",)}


def test_shapes_that_do_not_fit() -> None:
    outer = call("f", "PartitionedCall", ["z"], f=Func("double", {}))
    made = model([placeholder("x"), placeholder("y"), outer, binary("z", "AddV2", "x", "y")], [DOUBLE])
    with pytest.raises(EngineError) as caught:
        run(made, "f", x=[1.0, 2.0], y=[1.0, 2.0, 3.0])
    assert "node 'z' in the graph: AddV2 failed" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_in_a_function_says_who_called_it() -> None:
    body = [binary("sum", "AddV2", "a", "b")]
    inner = function("add", {"a": FLOAT, "b": FLOAT}, body, {"r": "sum:z:0"})
    made = model([placeholder("x"), placeholder("y"), Node("outer", "add", ("x", "y"))], [inner])
    with pytest.raises(EngineError, match="node 'sum' in function 'add', called by node 'outer': AddV2 failed"):
        run(made, "outer", x=[1.0, 2.0], y=[1.0, 2.0, 3.0])


def test_a_function_that_is_not_there() -> None:
    made = model([placeholder("x"), call("y", "PartitionedCall", ["x"], f=Func("nobody", {}))])
    with pytest.raises(InvalidModelError, match="nobody"):
        run(made, "y", x=1.0)


def test_an_output_that_is_no_tensor() -> None:
    made = model([const("size", 2, INT), Node("array", "TensorArrayV3", ("size",), {"dtype": FLOAT})])
    with pytest.raises(EngineError, match=r"output 'array' .* is no tensor but a TensorArray"):
        run(made, "array")


def test_closed() -> None:
    runner = tfsmith.compile(while_model(), ["loop:1"], engine="reference")
    runner.close()
    with pytest.raises(EngineError, match="closed"):
        runner.run({"x": 1.0, "n": 1})
