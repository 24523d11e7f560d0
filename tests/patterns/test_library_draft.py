"""`recipe draft`: the block that a model repeats, found without being told where."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import NotFoundInModelError, UsageError
from tfsmith.formats.recipe.toml import parse_recipe_toml, recipe_toml
from tfsmith.ir.body import Part
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.recipe import parse_name_rule
from tfsmith.patterns.draft import local_name, rule_of, rules_of_units
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import TestModel, bert_classifier, conv_net, linear_regression
from tfsmith.testing.variables import Kind
from tfsmith.testing.write import frozen_graph, write_frozen

pytestmark = pytest.mark.slow

WEIGHTS = [
    *(f"attention/self/{name}/{what}" for name in ("query", "key", "value") for what in ("kernel", "bias")),
    *("attention/output/dense/kernel", "attention/output/dense/bias"),
    *("attention/output/LayerNorm/gamma", "attention/output/LayerNorm/beta"),
    *("intermediate/dense/kernel", "intermediate/dense/bias", "output/dense/kernel", "output/dense/bias"),
    *("output/LayerNorm/gamma", "output/LayerNorm/beta"),
]


def frozen(test: TestModel) -> Model:
    graph = frozen_graph(test.model.graph, test.model.variables, test.output_nodes)
    return Model("graphdef", (MetaGraph(Part.of(graph)),))


def bert(layers: int, variables: Kind = "ref") -> TestModel:
    return bert_classifier(BertConfig(30, 16, layers, 2, 32), length=6, variables=variables)


@pytest.mark.parametrize("layers", [2, 3, 7])
def test_an_encoder_of_tensorflow_1(layers: int) -> None:
    model = frozen(bert(layers))
    drafted = tfsmith.draft_recipe(model, op="MyEncoder")
    assert (drafted.block.units, drafted.block.body) == (layers, None)
    weights = [one for one in drafted.block.inputs if one.kind == "weight"]
    assert [one.name for one in weights] == WEIGHTS
    assert [one.rule for one in weights] == [f"bert/encoder/layer_{{i}}/{name}" for name in WEIGHTS]
    assert weights[0].shape.dims == (16, 16)
    assert [one.kind for one in drafted.block.inputs if one.kind != "weight"] == ["carry", "shared", "shared"]
    replaced = tfsmith.replace(model, drafted.recipe)
    assert [len(match.units) for match in replaced.matches] == [layers]
    node = next(node for node in replaced.model.graph if node.op == "MyEncoder")
    assert node.inputs[0] == "bert/encoder/Reshape_1"
    assert len(node.inputs) == 3 + 16 * layers
    assert node.get("NumWeights") == 16 * layers
    assert node.inputs[3 + 16].startswith("bert/encoder/layer_1/attention/self/query/kernel")


@pytest.mark.parametrize("variables", ["ref", "resource"])
def test_with_variables(variables: Kind) -> None:
    drafted = tfsmith.draft_recipe(bert(2, variables=variables).saved_model(output_shapes=False))
    assert drafted.block.units == 2
    assert [one.name for one in drafted.block.inputs if one.kind == "weight"] == WEIGHTS


def test_the_text_is_the_recipe_and_fits_other_depths() -> None:
    drafted = tfsmith.draft_recipe(frozen(bert(2)), name="mine")
    text = drafted.toml
    assert "#   weight  attention/self/query/kernel" in text
    assert "bert/encoder/layer_{i}/attention/self/query/kernel" in text
    recipe = parse_recipe_toml(text)
    assert recipe_toml(recipe) == text[text.index("[recipe]") :]
    deeper = tfsmith.replace(frozen(bert(5)), recipe)
    assert [len(match.units) for match in deeper.matches] == [5]


def test_names_are_rules() -> None:
    drafted = tfsmith.draft_recipe(frozen(bert(3)))
    rules = drafted.recipe.variants[0].query.names
    assert {name: rule.text for name, rule in rules.items()} == {name: f"layer_{{i}}/{name}" for name in WEIGHTS}
    text = drafted.toml
    assert '"attention/self/query/kernel" = "layer_{i}/attention/self/query/kernel"' in text
    for variables in ("ref", "resource"):
        saved = tfsmith.replace(bert(4, variables).saved_model(output_shapes=False), parse_recipe_toml(text))
        assert [unit.number for match in saved.matches for unit in match.units] == [0, 1, 2, 3]
    other = text.replace('"layer_{i}/attention/self/key/bias"', '"layer_{i}/attention/self/query/bias"')
    missed = tfsmith.replace(frozen(bert(3)), parse_recipe_toml(other))
    assert not missed.matches
    assert missed.nearest_miss is not None
    assert "its name must fit 'layer_{i}/attention/self/query/bias'" in missed.nearest_miss.reason


@pytest.mark.parametrize(
    ("names", "rules"),
    [
        ({"w": ["a/l_3/w", "a/l_4/w", "a/l_5/w"]}, {"w": "a/l_{i}/w"}),
        ({"w": ["a/l_3/w", "a/l_4/w"], "v": ["l_4/v", "l_5/v"], "u": ["l_3/u", "l_4/u"]},
         {"w": "a/l_{i}/w", "v": "l_{i+1}/v", "u": "l_{i}/u"}),
        ({"w": ["dense/w", "dense_6/w", "dense_12/w"]}, {"w": "dense_{6i}/w"}),
        ({"w": ["b_0/d_2/w", "b_1/d_8/w"]}, {"w": "b_{i}/d_{6i+2}/w"}),
        ({"w": ["b_0/w", "b_1/w", "b_3/w"], "v": ["b_1/w", "b_0/w"], "u": ["b/w", "c/w"], "t": ["a", "a/1"]}, {}),
    ],
)  # fmt: skip
def test_rules_over_all_blocks(names: dict[str, list[str]], rules: dict[str, str]) -> None:
    assert rules_of_units(names) == rules
    for name, rule in rules.items():
        first = parse_name_rule(rule).count([names[name][0]])
        assert first is not None
        numbers = [parse_name_rule(rule).count([text]) for text in names[name]]
        assert numbers == [first + at for at in range(len(numbers))]


def test_another_block_is_no_match() -> None:
    recipe = tfsmith.draft_recipe(frozen(bert(2))).recipe
    test = bert(3)
    model = frozen(test)
    name = "bert/encoder/layer_1/intermediate/dense/Tanh"
    tanh = model.graph[name]
    other = tfsmith.Node(name, "Sigmoid", tanh.inputs, dict(tanh.attrs))
    changed = model.replace_graph(model.graph.map_nodes({name: other}))
    assert max((len(match.units) for match in tfsmith.replace(changed, recipe).matches), default=0) <= 1


def test_scope_seeds_and_barriers() -> None:
    model = frozen(bert(3))
    output = "bert/encoder/layer_2/output/LayerNorm/batchnorm/add_1"
    assert tfsmith.draft_recipe(model, scope="bert/encoder/*").block.units == 3
    by_seed = tfsmith.draft_recipe(model, seeds=[output])
    assert (by_seed.block.units, by_seed.block.nodes) == (3, 95)
    middle = tfsmith.draft_recipe(model, scope="*/attention/output/LayerNorm/batchnorm/add_1")
    assert middle.block.units == 2
    hidden = [f"bert/encoder/layer_{number}/attention/self/mul_1" for number in range(3)]
    barred = tfsmith.draft_recipe(model, seeds=[output], barriers=hidden)
    assert [one.kind for one in barred.block.inputs].count("other") == 1
    with pytest.raises(NotFoundInModelError, match="no block"):
        tfsmith.draft_recipe(model, scope="loss/*")
    with pytest.raises(NotFoundInModelError, match="layer_2/output"):
        tfsmith.draft_recipe(model, seeds=[output + "_"])


def test_nothing_repeats() -> None:
    with pytest.raises(NotFoundInModelError, match="no block"):
        tfsmith.draft_recipe(linear_regression().model)


def test_blocks_whose_weights_have_other_shapes_still_are_a_chain() -> None:
    drafted = tfsmith.draft_recipe(frozen(conv_net()))
    assert drafted.block.units == 2
    assert any(one.name.endswith("kernel") for one in drafted.block.inputs)


def test_an_op_needs_a_name() -> None:
    with pytest.raises(UsageError, match="no name for an op"):
        tfsmith.draft_recipe(frozen(bert(2)), op="my op")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_frozen(bert(2), tmp_path / "bert.pb")
    target = tmp_path / "encoder.toml"
    assert main(["recipe", "draft", str(path), "-o", str(target), "--op", "Encoder"]) == 0
    assert "2 blocks of 95 nodes and 16 weights become one Encoder" in capsys.readouterr().out
    assert main(["recipe", "check", str(target), str(path)]) == 0
    assert "Recipe encoder: 1 match would be replaced" in capsys.readouterr().out
    assert main(["recipe", "draft", str(path)]) == 0
    assert capsys.readouterr().out.startswith("# Drafted: 2 blocks of 95 nodes in a row, in the graph.\n")
    assert main(["recipe", "draft", str(path), "-o", str(tmp_path / "encoder.pb")]) == 2
    assert "ends in .toml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("first", "second", "rule", "name"),
    [
        ("a/layer_0/q/kernel", "a/layer_1/q/kernel", "a/layer_{i}/q/kernel", "q/kernel"),
        ("a/layer_9/q/read", "a/layer_10/q/read", "a/layer_{i}/q/read", "q"),
        ("layer_1_out/w", "layer_2_out/w", "layer_{i}_out/w", "out/w"),
        ("conv2d/kernel", "conv2d_1/kernel", "conv2d_{i}/kernel", "kernel"),
        ("MatMul_3", "MatMul_9", "MatMul_{i}", "MatMul"),
        ("a_1/b_2", "a_2/b_4", None, "op"),
        ("x", "a/x", None, "op"),
        ("conv", "dense", None, "op"),
    ],
)
def test_rules_of_names(first: str, second: str, rule: str | None, name: str) -> None:
    assert rule_of(first, second) == rule
    assert local_name(rule, "Op") == name
