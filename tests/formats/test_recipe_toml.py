"""Recipes in their readable form: read, written, and what is said of those that are wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfsmith.errors import UnreadableFileError, UsageError
from tfsmith.formats.recipe.toml import parse_recipe_toml, read_recipe_toml, recipe_toml
from tfsmith.ir.node import Attr, Endpoint, Node, float32
from tfsmith.ir.recipe import ConstantQuery, Expression, Pattern, parse_name_rule
from tfsmith.ir.types import dtype_named
from tfsmith.patterns.extract import recipe_from_pattern

FULL = """\
[recipe]
name = "norm"
description = "LayerNorm becomes one node"

[[variant]]
name = "tf1"
inputs = ["x", "gamma", "mask"]
through = ["Identity", "StopGradient"]
[[variant.node]]
name = "axes"
op = "Const"
value = [0, 2]
[[variant.node]]
name = "mean"
op = "Mean"
inputs = ["x", "axes", "^ctl"]
attrs = {keep_dims = true, T = "float32"}
[[variant.node]]
name = "ctl"
op = "NoOp"
[[variant.node]]
name = "eps"
op = "Const"
value = {values = [1e-12], shape = [], tolerance = 0.5}
[[variant.node]]
name = "sum"
op = ["Add", "AddV2"]
inputs = ["mean", "eps"]
[[variant.node]]
name = "odd"
op = "AddV2"
inputs = ["sum", "gamma"]
commutative = false
[[variant.node]]
name = "custom"
op = "Mine"
inputs = ["odd:1", "mask"]
attrs = {K = {type = "float32"}, n = 3, f = 0.5, s = "x", shape = {shape = [1, -1]}}
[variant.names]
gamma = "layer_{i}/gamma"
"odd" = "layer_{2i+1}/add"
[variant.repeat]
carry = {x = "custom"}
shared = ["mask"]
least = 2
[variant.before]
inputs = ["raw"]
links = {mask = "cast"}
[[variant.before.node]]
name = "cast"
op = "Cast"
inputs = ["raw"]
[variant.before.names]
raw = "input_mask"
[[variant.target]]
name = "fused"
op = "Fused"
inputs = ["x", "each(gamma, mean:0)", "raw", "other:1", "^ctl"]
attrs = {epsilon = 0.001, T = "=attr(mean, T)", units = "= dim(gamma, 0)", plain = {string = "=x"}}
device = "/cpu:0"
rename = "{seed}/fused"
fold = true
output_args = ["y"]
[[variant.target]]
name = "other"
op = "Const"
attrs = {dtype = "int32", value = {tensor = [1, 2], type = "int32", shape = [2]}}
[variant.replace]
custom = "fused:0"
"sum:0" = "x"
"""
RULES = {"gamma": "layer_{i}/gamma", "odd": "layer_{2i+1}/add"}


def test_everything_is_read() -> None:
    recipe = parse_recipe_toml(FULL)
    assert (recipe.name, recipe.description) == ("norm", "LayerNorm becomes one node")
    (variant,) = recipe.variants
    query = variant.query
    assert (variant.name, query.inputs, query.through) == ("tf1", ("x", "gamma", "mask"), ("Identity", "StopGradient"))
    axes, mean, _, eps, total, odd, custom = query.nodes
    assert axes.constant == ConstantQuery((0, 2))
    assert eps.constant == ConstantQuery((1e-12,), (), 0.5)
    assert mean.inputs == (Endpoint("x", 0), Endpoint("axes", 0), Endpoint("ctl", -1))
    assert mean.attrs == {"keep_dims": Attr("bool", True), "T": Attr("type", dtype_named("float32"))}
    assert (total.ops, total.is_commutative, odd.is_commutative) == (("Add", "AddV2"), True, False)
    assert custom.inputs == (Endpoint("odd", 1), Endpoint("mask", 0))
    assert {key: value.kind for key, value in custom.attrs.items()} == {
        "K": "type",
        "n": "int",
        "f": "float",
        "s": "string",
        "shape": "shape",
    }
    assert query.names == {name: parse_name_rule(text) for name, text in RULES.items()}
    assert query.outputs == (Endpoint("custom", 0), Endpoint("sum", 0))
    repeat = variant.repeat
    assert repeat is not None
    assert repeat.before is not None
    assert (dict(repeat.carry), repeat.shared, repeat.least) == ({"x": Endpoint("custom", 0)}, ("mask",), 2)
    assert repeat.before.names == {"raw": parse_name_rule("input_mask")}
    assert (repeat.before.outputs, dict(repeat.links)) == ((Endpoint("cast", 0),), {"mask": Endpoint("cast", 0)})
    fused, other = variant.targets
    assert fused.attrs == {
        "epsilon": Attr("float", float32(0.001)),
        "T": Expression("attr(mean, T)"),
        "units": Expression("dim(gamma, 0)"),
        "plain": Attr("string", b"=x"),
    }
    assert (fused.device, fused.rename, fused.fold, fused.output_args) == ("/cpu:0", "{seed}/fused", True, ("y",))
    assert fused.inputs == ("x", "each(gamma, mean:0)", "raw", "other:1", "^ctl")
    value = other.attrs["value"]
    assert isinstance(value, Attr)
    assert value.tensor is not None
    assert value.tensor.numpy().tolist() == [1, 2]
    assert variant.outputs == {Endpoint("custom", 0): Endpoint("fused", 0), Endpoint("sum", 0): Endpoint("x", 0)}


def test_there_and_back() -> None:
    text = recipe_toml(parse_recipe_toml(FULL))
    again = parse_recipe_toml(text)
    assert recipe_toml(again) == text
    first, second = parse_recipe_toml(FULL).variants[0], again.variants[0]
    assert (first.query, first.repeat, first.outputs) == (second.query, second.repeat, second.outputs)
    assert first.targets[0] == second.targets[0]


def test_a_recipe_of_a_pattern_there_and_back() -> None:
    float_type = dtype_named("float32")
    pattern = Pattern(
        (Node("a/y", "AddV2", ("s:1", "b c"), {"T": float_type}),),
        (Node("s", "Split", ("axis", 'q"\\\x7f\n'), {"T": float_type, "num_split": 2}),),
        (),
    )
    target = Node("f", "Mine", ("axis", "b c"), {"x": b"\xff", "empty": [], "n": [1.5], "w": "=1"})
    recipe = recipe_from_pattern(pattern, target)
    again = parse_recipe_toml(recipe_toml(recipe))
    assert again.variants == recipe.variants
    assert (again.name, again.description) == (recipe.name, recipe.description)


MINIMAL = """\
[[variant]]
inputs = ["x"]
[[variant.node]]
name = "a"
op = "Relu"
inputs = ["x"]
[[variant.target]]
name = "t"
op = "Relu6"
inputs = ["x"]
[variant.replace]
a = "t"
"""


def test_the_least_that_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL)
    recipe = read_recipe_toml(path)
    assert recipe.name == "mine"
    assert recipe.variants[0].name == "1"
    assert recipe.variants[0].targets[0].rename == "{scope}/{name}"


@pytest.mark.parametrize(
    ("old", "new", "where", "says"),
    [
        ('op = "Relu"', "op = ", "", "this is no sound TOML: .*line 5"),
        ('op = "Relu"', 'opp = "Relu"', "variant '1', node 'a'", "'opp' is nothing that this table has; there is op"),
        ('op = "Relu"', "", "variant '1', node 'a'", "it has no op"),
        ('op = "Relu"', "op = 3", "variant '1', node 'a'", "'op' is no text and no list of texts"),
        ('name = "a"', "", "variant '1', node 1", r"it has no sound name \(''\)"),
        ('name = "a"', 'name = "a:0"', "node 'a:0'", "it has no sound name"),
        ('inputs = ["x"]\n[[variant.t', 'inputs = ["y"]\n[[variant.t', "node 'a'", "'y' is no node and no input"),
        ('inputs = ["x"]\n[variant.r', 'inputs = ["y"]\n[variant.r', "target 't'", "'y' is nothing that is found or"),
        (
            'inputs = ["x"]\n[variant.r',
            'inputs = ["each(t)"]\n[variant.r',
            "target 't'",
            "'t' is nothing that is",
        ),
        ('inputs = ["x"]\n[[variant.n', 'inputs = ["x", "x"]\n[[variant.n', "variant '1'", "'x' cannot be the name"),
        ('inputs = ["x"]\n[[variant.n', 'inputs = ["a", "x"]\n[[variant.n', "variant '1'", "'a' cannot be the name"),
        ('a = "t"', 'b = "t"', "variant '1'", "'b' is the output of no node"),
        ('a = "t"', 'a = "u"', "replace", "which is no target and no input"),
        ('a = "t"', 'a = "^t"', "replace", "which is no target and no input"),
        ('a = "t"', 'a = "x:1"', "replace", "which is no target and no input"),
        ('a = "t"', "a = 1", "replace", "'a' is no text"),
        ('a = "t"', "", "variant '1'", "nothing is said to be its output"),
        ('name = "t"', 'name = "a"', "variant '1'", "'a' is the name of a target and of what is looked for"),
        ('op = "Relu6"', "", "target 't'", "it has no op"),
        (
            'op = "Relu6"',
            'op = "Relu6"\nattrs = {T = 3}',
            "target 't', attrs",
            "T: 3 is no type; write",
        ),
        (
            'op = "Relu6"',
            'op = "Relu6"\nattrs = {U = 3}',
            "target 't', attrs",
            "'U' is no attribute of Relu6",
        ),
        ('op = "Relu6"', 'op = "Relu6"\nattrs = 3', "target 't'", "'attrs' is no table"),
        ('op = "Relu6"', 'op = "Relu6"\nfold = 3', "target 't'", "'fold' is neither true nor false"),
        ('op = "Relu"', 'op = "Relu"\nvalue = []', "node 'a'", "value is no number, text, or list of these"),
        ('op = "Relu"', 'op = "Relu"\nvalue = [[1]]', "node 'a'", "value is no number, text, or list of these"),
        ('op = "Relu"', 'op = "Relu"\nvalue = {value = 1}', "node 'a', value", "'value' is nothing that this table"),
        ('op = "Relu"', 'op = "Relu"\nvalue = {values = 1, shape = 3}', "value", "3 is no shape"),
        ('op = "Relu"', 'op = "Relu"\nvalue = {values = 1, tolerance = "a"}', "value", "'tolerance' is no number"),
        ("[variant.replace]", "[variant.repeat]\n[variant.replace]", "repeat", "nothing is carried from unit to unit"),
        ("[variant.replace]", '[variant.repeat]\ncarry = {y = "a"}\n[variant.replace]', "carry", "carries no output"),
        (
            "[variant.replace]",
            '[variant.repeat]\ncarry = {x = "a"}\nshared = ["x"]\n[variant.replace]',
            "repeat",
            "no input that units can share",
        ),
        (
            "[variant.replace]",
            '[variant.repeat]\ncarry = {x = "a"}\nleast = 0\n[variant.replace]',
            "repeat",
            "least = 0 is no number of units",
        ),
        ("[variant.replace]", "[variant.before]\n[variant.replace]", "variant '1'", r"write \[variant.repeat\] too"),
        ("[variant.replace]", '[variant.names]\ny = "a"\n[variant.replace]', "names", "'y' is no node and no input"),
        ("[variant.replace]", "[variant.names]\nx = 3\n[variant.replace]", "names", "'x' is no text"),
        ("[variant.replace]", '[variant.names]\nx = "a_{n}"\n[variant.replace]', "names", "x: 'a_{n}' has braces.*{i}"),
        ("[[variant]]", "[variants]", "the file", "'variants' is nothing that this table has; there is variant"),
        ("[[variant]]", "[recipe]\nnam = 1\n[[variant]]", "the file, recipe", "'nam' is nothing.*there is name"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, where: str, says: str) -> None:
    assert old in MINIMAL
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        read_recipe_toml(path)
    assert str(caught.value).startswith(str(path))
    assert where in (caught.value.where or "")
    assert re.search(says, f"{caught.value.what}; {caught.value.remedy}")


def test_two_of_one_name_and_nothing_at_all() -> None:
    node = '[[variant.node]]\nname = "a"\nop = "Relu"\ninputs = ["x"]\n'
    with pytest.raises(UsageError, match=r"two tables of \[\[node\]\] have the name 'a'"):
        parse_recipe_toml(MINIMAL.replace("[[variant.target]]", node + "[[variant.target]]"))
    with pytest.raises(UsageError, match="there is no variant"):
        parse_recipe_toml("")
    with pytest.raises(UsageError, match="there is no node to look for"):
        parse_recipe_toml("[[variant]]\n")
    with pytest.raises(UsageError, match="with two brackets"):
        parse_recipe_toml("[variant]\n")
    both = MINIMAL.replace('inputs = ["x"]', 'inputs = ["x"]\noutputs = ["a:1"]', 1)
    with pytest.raises(UsageError, match="do not name the same"):
        parse_recipe_toml(both)


def test_before_must_be_linked() -> None:
    before = '[variant.before]\ninputs = ["r"]\n[[variant.before.node]]\nname = "c"\nop = "Relu"\ninputs = ["r"]\n'
    repeat = '[variant.repeat]\ncarry = {x = "a"}\n'
    text = MINIMAL.replace("[variant.replace]", repeat + before + "[variant.replace]")
    with pytest.raises(UsageError, match="nothing is said to be its output"):
        parse_recipe_toml(text)
    with pytest.raises(UsageError, match="links no output of these nodes to a shared input"):
        parse_recipe_toml(text.replace('["r"]\n[[', '["r"]\nlinks = {y = "c"}\n[['))
    with pytest.raises(UsageError, match="nothing links it to the units"):
        parse_recipe_toml(text.replace('["r"]\n[[', '["r"]\noutputs = ["c"]\n[['))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="No such file"):
        read_recipe_toml(tmp_path / "gone.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff")
    with pytest.raises(UnreadableFileError, match="this is not text"):
        read_recipe_toml(tmp_path / "b.toml")
    for text in ("a = " + "[" * 100_000, "a = " + "9" * 100_000):
        with pytest.raises(UsageError, match="no sound TOML"):
            parse_recipe_toml(text)
