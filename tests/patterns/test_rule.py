"""Rules in Python: what they find however it is spelled, what they leave alone, what they put there, and errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith import op
from tfsmith.errors import UsageError
from tfsmith.ir.body import Part
from tfsmith.ir.editor import Editor
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.patterns.rule import Form, NewTensor, Operand, Units
from tfsmith.patterns.rule import Graph as NewNodes

Build = Callable[[Editor], Any]


def weights(*dims: int) -> Any:
    return np.random.default_rng(sum(dims)).normal(size=dims).astype(np.float32)


def model(build: Build) -> Model:
    """A graph with placeholders x [?, 6], cube [2, 5, 6] and heads [2, 3, 5, 4]; its output is called y."""
    with Model("graphdef", (MetaGraph(Part.of(Graph(()))),)).edit() as g:
        g.placeholder("float32", (None, 6), name="x")
        g.placeholder("float32", (2, 5, 6), name="cube")
        g.placeholder("float32", (2, 3, 5, 4), name="heads")
        g.add("Identity", [build(g)], name="y")
    return g.model


def matches(rule: tfsmith.Rule, build: Build) -> list[dict[str, str]]:
    """What the rule's parameters are bound to in each match."""
    found = tfsmith.find(model(build), rule)
    return [{name: match.bindings[name] for name in match.units[0].inputs} for match in found]


def ops(done: Any) -> list[str]:
    return [node.op for node in done.model.graph if node.op not in ("Const", "Placeholder")]


# The forms: each is found in several spellings, and each has what it must not match


@tfsmith.rule
def gelu(x: Form) -> Form:
    """A GELU becomes one node."""
    return 0.5 * x * (1 + op.erf(x / sqrt(2)))


@gelu.replace
def _(g: NewNodes, x: Operand) -> NewTensor:
    return g.add("MyGelu", [x])


def gelu_of(g: Editor, x: Any, half: float = 0.5, root: float = sqrt(2), function: str = "Erf") -> Any:
    share = g.add("AddV2", [g.add(function, [g.add("RealDiv", [x, root])]), 1.0])
    return g.add("Mul", [g.add("Mul", [share, half]), x])


def erfc_gelu(g: Editor) -> Any:
    x = g.add("Tanh", ["x"], name="t")
    inner = g.add("Mul", [g.add("Neg", [x]), sqrt(0.5)])
    return g.add("Mul", [g.add("Mul", [0.5, x]), g.add("Erfc", [inner])])


def test_a_formula_finds_every_spelling_of_it() -> None:
    assert matches(gelu, lambda g: gelu_of(g, "x")) == [{"x": "x:0"}]
    assert matches(gelu, erfc_gelu) == [{"x": "t:0"}]
    assert matches(gelu, lambda g: gelu_of(g, g.add("AddV2", ["x", 1.0], name="t"))) == [{"x": "t:0"}]


def test_a_formula_leaves_alone_what_is_not_quite_it() -> None:
    for wrong in ({"half": 0.51}, {"root": 1.5}, {"function": "Tanh"}):
        assert matches(gelu, lambda g, wrong=wrong: gelu_of(g, "x", **wrong)) == []  # type: ignore[misc]
    assert matches(gelu, lambda g: g.add("Mul", [g.add("Erf", ["x"]), "x"])) == []


def norm_of(g: Editor, x: str, axis: int = -1, epsilon: float = 1e-5, gamma: Any = None, squared: bool = True) -> Any:
    mean = g.add("Mean", [x, [axis]], keep_dims=True)
    centered = g.add("Sub", [x, mean])
    squares = g.add("Square", [centered]) if squared else g.add("Abs", [centered])
    variance = g.add("Mean", [squares, [axis]], keep_dims=True)
    normal = g.add("RealDiv", [centered, g.add("Sqrt", [g.add("AddV2", [variance, epsilon])])])
    scaled = g.add("Mul", [normal, weights(6) if gamma is None else gamma])
    return g.add("AddV2", [scaled, weights(6) + 1])


@tfsmith.rule
def layer_norm(x: Form, gamma: Form, beta: Form, epsilon: Form) -> Form:
    return op.LayerNorm(x, gamma, beta, epsilon=epsilon)


@layer_norm.replace
def _(g: NewNodes, x: Operand, gamma: Operand, beta: Operand, epsilon: float) -> NewTensor:
    return g.add("MyNorm", [x, gamma, beta], epsilon=epsilon)


def test_layer_norm() -> None:
    for x in ("x", "cube"):
        (found,) = matches(layer_norm, lambda g, x=x: norm_of(g, x))  # type: ignore[misc]
        assert found["x"] == f"{x}:0"
        done = tfsmith.replace(model(lambda g, x=x: norm_of(g, x)), layer_norm)  # type: ignore[misc]
        assert ops(done) == ["MyNorm", "Identity"]
        assert done.model.graph["layer_norm"].get("epsilon") == pytest.approx(1e-5)


def test_what_is_no_layer_norm() -> None:
    assert matches(layer_norm, lambda g: norm_of(g, "x", squared=False)) == []
    assert matches(layer_norm, lambda g: norm_of(g, "cube", axis=1)) == []  # weights along another axis
    assert matches(layer_norm, lambda g: norm_of(g, "x", gamma=weights(1, 1))) == []
    other = tfsmith.rule(name="bare")(lambda x: op.LayerNorm(x))
    (inner,) = tfsmith.find(model(lambda g: norm_of(g, "x")), other)
    assert inner.outputs == ("RealDiv",)  # before the weights, which the formula has not
    fixed = tfsmith.rule(name="fixed")(lambda x, gamma, beta: op.LayerNorm(x, gamma, beta, epsilon=1e-3))
    assert matches(fixed, lambda g: norm_of(g, "x")) == []
    assert len(matches(fixed, lambda g: norm_of(g, "x", epsilon=1e-3))) == 1


@tfsmith.rule
def dense(x: Form, kernel: Form, bias: Form) -> Form:
    return op.Dense(x, kernel, op.Optional(bias))


@dense.replace
def _(g: NewNodes, x: Operand, kernel: Operand, bias: Operand | None) -> NewTensor:
    inputs = [x, kernel] if bias is None else [x, kernel, bias]
    return g.add("MyDense", inputs, transposed=kernel.transposed)


def test_dense() -> None:
    spellings: dict[str, Build] = {
        "MatMul": lambda g: g.add("MatMul", ["x", weights(6, 4)]),
        "transposed": lambda g: g.add("MatMul", ["x", weights(4, 6)], transpose_b=True),
        "with a bias": lambda g: g.add("BiasAdd", [g.add("MatMul", ["x", weights(6, 4)]), weights(4)]),
        "Einsum": lambda g: g.add("Einsum", [["cube", weights(6, 4)]], equation="abc,cd->abd"),
        "Conv2D": lambda g: g.add(
            "Conv2D", ["heads", weights(1, 1, 4, 7)], strides=[1, 1, 1, 1], padding="VALID", name="conv"
        ),
    }
    for name, build in spellings.items():
        done = tfsmith.replace(model(build), dense)
        assert ops(done) == ["MyDense", "Identity"], (name, done.reason, done.skipped)
        node = done.model.graph["dense"]
        assert len(node.inputs) == 2 + (name == "with a bias")
        assert node.get("transposed") == (name == "transposed")


def test_what_is_no_dense_layer() -> None:
    assert matches(dense, lambda g: g.add("MatMul", ["x", g.add("Tanh", [weights(6, 4)])])) == []
    assert matches(dense, lambda g: g.add("Mul", ["x", weights(6)])) == []
    wide = weights(3, 3, 4, 7)
    assert matches(dense, lambda g: g.add("Conv2D", ["heads", wide], strides=[1, 1, 1, 1], padding="SAME")) == []


def test_a_layout_that_differs_is_not_replaced() -> None:
    """The product is along the first axis: a node in its place would give another shape."""
    done = tfsmith.replace(model(lambda g: g.add("Einsum", [["cube", weights(2, 4)]], equation="abc,ad->dbc")), dense)
    assert not done.matches
    assert "last axis" in (done.reason or "") or "lie" in (done.reason or "")


@tfsmith.rule
def softmax(x: Form) -> Form:
    return op.Softmax(x)


@softmax.replace
def _(g: NewNodes, x: Operand) -> NewTensor:
    return g.add("Softmax", [x])


def softmax_of(g: Editor, x: str, axis: int = -1, base: str = "Exp") -> Any:
    shares = g.add(base, [x])
    return g.add("RealDiv", [shares, g.add("Sum", [shares, [axis]], keep_dims=True)])


def test_softmax() -> None:
    done = tfsmith.replace(model(lambda g: softmax_of(g, "cube")), softmax)
    assert ops(done) == ["Softmax", "Identity"]
    assert matches(softmax, lambda g: softmax_of(g, "x", base="Abs")) == []
    done = tfsmith.replace(model(lambda g: softmax_of(g, "cube", axis=1)), softmax)
    assert not done.matches
    assert "last axis" in (done.reason or "")


@tfsmith.rule
def attention(query: Form, key: Form, value: Form, mask: Form, scale: Form) -> Form:
    return op.Attention(query, key, value, op.Optional(mask), scale=scale)


def attention_of(
    g: Editor, *, mask: bool = True, after: bool = False, turned: bool = False, factor: str | None = None
) -> Any:
    key, value = g.add("Relu", ["heads"], name="key"), g.add("Neg", ["heads"], name="value")
    if factor is not None:
        shape = {"element": (2, 1, 5, 4), "feature": (1, 1, 1, 4)}[factor]
        key = g.add("Mul", [key, g.placeholder("float32", shape, name="factor")], name="other_key")
    key = g.add("Transpose", [key, [0, 1, 3, 2]], name="turned_key") if turned else key
    scores = g.add("Mul", [g.add("BatchMatMulV2", ["heads", key], adj_y=not turned), 0.5])
    hidden = g.add("Mul", [g.placeholder("float32", (2, 1, 1, 5), name="mask"), -10000.0], name="adder")
    scores = g.add("AddV2", [scores, hidden]) if mask and not after else scores
    shares = g.add("Softmax", [scores])
    shares = g.add("AddV2", [shares, hidden]) if after else shares
    return g.add("BatchMatMulV2", [shares, value])


def test_attention() -> None:
    assert matches(attention, attention_of) == [
        {"mask": "adder:0", "query": "heads:0", "key": "key:0", "value": "value:0"}
    ]
    (found,) = matches(attention, lambda g: attention_of(g, mask=False))
    assert "mask" not in found
    (found,) = matches(attention, lambda g: attention_of(g, turned=True))
    assert found["key"] == "turned_key:0"
    for factor in ("element", "feature"):
        (found,) = matches(attention, partial(attention_of, factor=factor))
        assert (found["query"], found["key"]) == ("heads:0", "other_key:0"), factor


def test_attention_whose_mask_is_added_after_the_softmax_is_named_so() -> None:
    found = tfsmith.find(model(lambda g: attention_of(g, after=True)), attention)
    assert not found
    assert found.nearest_miss is not None
    assert found.nearest_miss.reason == "attention: the mask is added after the softmax"


def test_activation() -> None:
    rule = tfsmith.rule(name="act")(lambda x, kind: op.Activation(x, kind=kind))
    assert len(matches(rule, lambda g: g.add("Relu", ["x"]))) == 1
    assert len(matches(rule, lambda g: gelu_of(g, "x"))) == 1
    assert matches(rule, lambda g: g.add("Relu6", ["x"])) == []
    exact = tfsmith.rule(name="exact")(lambda x: op.Gelu(x, kind="erf"))
    assert len(matches(exact, lambda g: gelu_of(g, "x"))) == 1
    approximate = tfsmith.rule(name="approximate")(lambda x: op.Gelu(x, kind="tanh"))
    assert matches(approximate, lambda g: gelu_of(g, "x")) == []


# Arithmetic, plain ops, alternatives, composition, repetition


def test_arithmetic() -> None:
    swish = tfsmith.rule(name="swish")(lambda x: x * op.sigmoid(x))
    assert matches(swish, lambda g: g.add("Mul", [g.add("Sigmoid", ["x"]), "x"])) == [{"x": "x:0"}]
    assert matches(swish, lambda g: g.add("Mul", [g.add("Sigmoid", ["x"]), g.add("Neg", ["x"])])) == []
    line = tfsmith.rule(name="line")(lambda x: op.tanh(2 * x + 1))
    assert matches(line, lambda g: g.add("Tanh", [g.add("AddV2", [g.add("AddV2", ["x", "x"]), 1.0])])) == [{"x": "x:0"}]
    assert matches(line, lambda g: g.add("Tanh", [g.add("AddV2", [g.add("AddV2", ["x", "x"]), 2.0])])) == []
    both = tfsmith.rule(name="both")(lambda x, y: op.relu(x + y))
    build: Build = lambda g: g.add("Relu", [g.add("AddV2", ["x", g.add("Tanh", ["x"], name="t")])])  # noqa: E731
    assert matches(both, build) == [{"x": "x:0", "y": "t:0"}]


def test_plain_ops_go_by_name_and_attributes() -> None:
    conv = tfsmith.rule(name="conv")(lambda x, w, b: op.relu(op.BiasAdd(op.Conv2D(x, w, padding="SAME"), b)))

    def build(g: Editor, padding: str) -> Any:
        product = g.add("Conv2D", ["heads", weights(3, 3, 4, 7)], strides=[1, 1, 1, 1], padding=padding, name="c")
        return g.add("Relu", [g.add("BiasAdd", [product, weights(7)], name="b")])

    assert matches(conv, lambda g: build(g, "SAME")) == [{"x": "heads:0", "w": "c/filter:0", "b": "b/bias:0"}]
    assert matches(conv, lambda g: build(g, "VALID")) == []
    padded = tfsmith.rule(name="padded")(lambda x: op.Pad(x, [0, 0, 1, 1]))
    assert len(matches(padded, lambda g: g.add("Pad", ["x", [[0, 0], [1, 1]]]))) == 1
    assert matches(padded, lambda g: g.add("Pad", ["x", [[0, 0], [1, 2]]])) == []


def test_alternatives() -> None:
    rule = tfsmith.rule(name="either")(lambda x: op.OneOf(op.relu(x), op.tanh(x)))
    counts = [len(matches(rule, lambda g, name=name: g.add(name, ["x"]))) for name in ("Relu", "Tanh", "Elu")]  # type: ignore[misc]
    assert counts == [1, 1, 0]
    maybe = tfsmith.rule(name="maybe")(lambda x, gamma: op.tanh(op.Optional(op.LayerNorm(x, gamma), op.relu(x))))
    assert matches(maybe, lambda g: g.add("Tanh", [g.add("Relu", ["x"])])) == [{"x": "x:0"}]


def test_guards() -> None:
    flat = tfsmith.rule(name="flat", where=lambda x: x.rank == 2)(lambda x: op.relu(x))
    assert len(matches(flat, lambda g: g.add("Relu", ["x"]))) == 1
    assert matches(flat, lambda g: g.add("Relu", ["cube"])) == []
    text = tfsmith.rule(name="text", where=["rank(x) == 2", lambda x: x.shape[1] == 6])(lambda x: op.relu(x))
    assert len(matches(text, lambda g: g.add("Relu", ["x"]))) == 1
    assert matches(text, lambda g: g.add("Relu", ["cube"])) == []
    known = tfsmith.rule(name="known", where=lambda w: w.numpy().max() < 9)(lambda x, w: op.Dense(x, w))
    assert len(matches(known, lambda g: g.add("MatMul", ["x", weights(6, 4)]))) == 1
    assert matches(known, lambda g: g.add("MatMul", ["x", weights(6, 4) + 20])) == []


@tfsmith.rule
def block(x: Form, kernel: Form, bias: Form) -> Form:
    return op.relu(op.Dense(x, kernel, bias))


@tfsmith.rule
def tower(x: Form, layers: Form) -> Form:
    return op.Repeat(block, x, layers, least=2)


@tower.replace
def _(g: NewNodes, x: Operand, layers: Units) -> NewTensor:
    return g.add("Tower", [x, [(layer["kernel"], layer["bias"]) for layer in layers]], depth=len(layers))


def tower_of(g: Editor, depth: int, exit_at: int | None = None) -> Any:
    x: Any = "x"
    for number in range(depth):
        product = g.add("MatMul", [x, weights(6, 6) * (number + 1)], name=f"product_{number}")
        x = g.add("Relu", [g.add("BiasAdd", [product, weights(6) + number])], name=f"relu_{number}")
        if number == exit_at:
            g.add("Neg", [x], name="side")
    return x


def test_repetition_with_a_carry() -> None:
    done = tfsmith.replace(model(lambda g: tower_of(g, 4)), tower)
    assert ops(done) == ["Tower", "Identity"]
    node = done.model.graph["tower"]
    assert node.get("depth") == 4
    assert [text.partition("/")[0] for text in node.inputs[1::2]] == [f"product_{number}" for number in range(4)]
    assert matches(tower, lambda g: tower_of(g, 1)) == []


def test_a_value_inside_that_others_use_is_not_lost() -> None:
    done = tfsmith.replace(model(lambda g: tower_of(g, 3, exit_at=1)), tower)
    assert not done.matches
    assert "is also used by side" in (done.reason or "")
    kept = tfsmith.replace(model(lambda g: tower_of(g, 3, exit_at=1)), tower, keep_shared=True)
    assert "Tower" in ops(kept)
    assert kept.model.graph["side"].inputs == ("relu_1",)


def test_rules_are_made_of_rules_and_their_guards_count() -> None:
    narrow = tfsmith.rule(name="narrow", where=lambda x: x.rank == 2)(lambda x: op.relu(x))
    outer = tfsmith.rule(name="outer")(lambda x: op.tanh(narrow(x)))
    assert len(matches(outer, lambda g: g.add("Tanh", [g.add("Relu", ["x"])]))) == 1
    assert matches(outer, lambda g: g.add("Tanh", [g.add("Relu", ["cube"])])) == []


def test_control_edges_move_and_names_stay() -> None:
    def build(g: Editor) -> Any:
        first = g.add("Tanh", ["x"], name="first")
        old = g.add("Relu", [first, "^cube"], name="old")
        g.add("NoOp", ["^old"], name="after")
        return old

    rule = tfsmith.rule(name="relu")(lambda x: op.relu(x))
    rule.replace(lambda g, x: g.add("MyRelu", [x]))
    done = tfsmith.replace(model(build), rule)
    graph = done.model.graph
    assert graph["relu"].inputs == ("first", "^cube")
    assert graph["after"].inputs == ("^relu",)
    assert graph["y"].inputs == ("relu",)


def test_what_it_takes_can_be_passed_on() -> None:
    rule = tfsmith.rule(name="gone")(lambda x: op.relu(op.relu(x)))
    with pytest.raises(UsageError, match="builder returns NoneType"):
        rule.replace(lambda g, x: None)
    rule.replace(lambda g, x: x)
    done = tfsmith.replace(model(lambda g: g.add("Relu", [g.add("Relu", ["x"])])), rule)
    assert ops(done) == ["Identity"]


def test_matches_do_not_overlap_and_know_where_they_are() -> None:
    rule = tfsmith.rule(name="twice")(lambda x: op.relu(op.tanh(x)))
    found = tfsmith.find(model(lambda g: g.add("Relu", [g.add("Tanh", [g.add("Relu", [g.add("Tanh", ["x"])])])])), rule)
    assert [match.where for match in found] == ["the graph"] * 2
    assert [len(match.nodes) for match in found] == [2, 2]
    assert found.to_json()["matches"][0]["variant"] == "formula"


# Errors


def test_errors_name_the_rule() -> None:
    with pytest.raises(UsageError, match="rule 'constant': its formula returns float"):
        tfsmith.rule(name="constant")(lambda x: 1.0)  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="rule 'unused': its formula does not use the parameter 'y'"):
        tfsmith.rule(name="unused")(lambda x, y: op.relu(x))
    with pytest.raises(UsageError, match="rule 'guarded': its guard takes 'z'"):
        tfsmith.rule(name="guarded", where=lambda z: True)(lambda x: op.relu(x))
    with pytest.raises(AttributeError, match="no function 'rleu'; there are relu"):
        tfsmith.rule(name="misspelled")(lambda x: op.rleu(x))
    with pytest.raises(UsageError, match="neither true nor false"):
        tfsmith.rule(name="choice")(lambda x: op.relu(x) if x else x)


def relu_rule() -> tfsmith.Rule:
    return tfsmith.rule(name="r")(lambda x: op.relu(x))


def test_a_rule_is_proven_when_it_is_made() -> None:
    wrong: list[tuple[Callable[..., Any], str]] = [
        (lambda g, y: g.add("Relu", [y]), "its builder takes 'y'"),
        (lambda g, x: g.add("MatMul", [x]), "MatMul"),
        (lambda g, x: g.add("Relu", [x], alpha=2.0), "alpha"),
        (lambda g, x: g.add("Relu", [x], T="int32"), "float"),
        (lambda g, x: (g.add("Tanh", [x]), g.add("Relu", [x]))[1], "the new node Tanh leads to no output"),
        (lambda g, x: g.add("Relu", ["x"]), "gives 'x' to a new node"),
    ]
    for build, reason in wrong:
        with pytest.raises(UsageError, match=rf"rule 'r'.*{reason}"):
            relu_rule().replace(build)
    relu_rule().replace(lambda g, x: g.add("Reshape", [x, [-1, x.shape[1] or 1]]))  # which only a match can say


def test_a_rule_without_a_builder_only_finds() -> None:
    with pytest.raises(UsageError, match=r"rule 'r'.*no builder"):
        tfsmith.replace(model(lambda g: g.add("Relu", ["x"])), relu_rule())


def test_a_rule_can_be_drawn(tmp_path: Path) -> None:
    drawn = tfsmith.draw_recipe(layer_norm, tmp_path / "r.svg")
    assert drawn.recipe is layer_norm
    assert "LayerNorm" in (tmp_path / "r.svg").read_text()
    build = model(lambda g: norm_of(g, "x"))
    tfsmith.draw_recipe(layer_norm, tmp_path / "m.html", model=build)
    assert "Sqrt" in (tmp_path / "m.html").read_text()
