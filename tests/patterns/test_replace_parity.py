"""Replacements whose result runs: the real TensorFlow gives the same answers before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.replace_models import (
    INT32,
    layer_norm_recipe,
    no_identity,
    query,
    recipe_of,
    relu_recipe,
    square_recipe,
)

import tfsmith
from tfsmith.ir.node import Attr
from tfsmith.ir.recipe import Expression, NodeQuery, Recipe, TargetNode
from tfsmith.patterns.replace import Replacement, ReplaceOptions, replace

pytestmark = pytest.mark.tensorflow

X = np.linspace(-2, 3, 24, dtype=np.float32).reshape(4, 6)


def fused_matmul() -> Recipe:
    """MatMul and BiasAdd as the one node that TensorFlow's own optimizer makes of them."""
    wanted = [query("m", "MatMul", "x", "k"), query("s", "BiasAdd", "m", "b")]
    attrs: dict[str, Attr | Expression] = {
        "fused_ops": Attr("list(string)", (b"BiasAdd",)),
        "transpose_a": Expression("attr(m, transpose_a)"),
        "transpose_b": Expression("attr(m, transpose_b)"),
    }
    target = TargetNode("fused", "_FusedMatMul", ("x", "k", "b"), attrs)
    return recipe_of(wanted, ["x", "k", "b"], {"s": "fused"}, target)


def scaled_matmul() -> Recipe:
    """Mul(MatMul(x, k), c) as MatMul(x, k * c): the weights are computed where they are constants."""
    wanted = [query("m", "MatMul", "x", "k"), query("s", "Mul", "m", "c")]
    targets = (
        TargetNode("kernel", "Mul", ("k", "c"), fold=True),
        TargetNode("product", "MatMul", ("x", "kernel"), {"transpose_a": Expression("attr(m, transpose_a)")}),
    )
    return recipe_of(wanted, ["x", "k", "c"], {"s": "product"}, *targets)


def two_outputs() -> Recipe:
    """Two halves of a tensor, each for itself, as one Split with two outputs."""
    wanted = [query("one", "Slice", "x", "begin1", "size"), query("two", "Slice", "x", "begin2", "size")]
    axis: dict[str, Attr | Expression] = {
        "dtype": Attr("type", INT32),
        "value": Expression("1"),
    }
    targets = (
        TargetNode("axis", "Const", (), axis),
        TargetNode("split", "Split", ("axis", "x"), {"num_split": Attr("int", 2)}),
    )
    nodes: list[NodeQuery] = [*wanted, query("size", "Const")]
    return recipe_of(nodes, ["x", "begin1", "begin2"], {"one": "split", "two": "split:1"}, *targets)


def net(tf: Any, x: Any, weights: Mapping[str, Any]) -> dict[str, Any]:
    """All that the recipes look for."""
    dense = tf.nn.bias_add(tf.linalg.matmul(x, weights["k"]), weights["b"])
    mean = tf.reduce_mean(dense, [1], keepdims=True)
    squares = tf.math.squared_difference(dense, tf.stop_gradient(mean))
    variance = tf.reduce_mean(squares, [1], keepdims=True)
    scale = tf.math.rsqrt(variance + 1e-6) * weights["gamma"]
    normed = dense * scale + (weights["beta"] - mean * scale)
    cubed = normed * normed * weights["gamma"]
    relu = tf.maximum(cubed, tf.constant(0.0))
    scaled = tf.linalg.matmul(relu, weights["k2"]) * weights["c"]
    same = tf.identity(scaled)
    size = tf.constant([4, 2])
    halves = tf.slice(same, [0, 0], size), tf.slice(same, [0, 2], size)
    return {"sum": halves[0] + tf.tanh(halves[1]), "normed": tf.identity(normed)}


def weights_of(make: Callable[[str, Any], Any]) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    shapes = {"k": (6, 5), "b": (5,), "gamma": (5,), "beta": (5,), "k2": (5, 4), "c": (4,)}
    return {name: make(name, rng.normal(size=shape).astype(np.float32)) for name, shape in shapes.items()}


RECIPES: dict[str, tuple[Recipe, str]] = {
    "layer norm": (layer_norm_recipe(), "StopGradient"),
    "square": (square_recipe(), ""),
    "relu": (relu_recipe(), "Maximum"),
    "fused matmul": (fused_matmul(), "BiasAdd"),
    "scaled matmul": (scaled_matmul(), ""),
    "two outputs": (two_outputs(), "Slice"),
}
each_recipe = pytest.mark.parametrize(("recipe", "gone"), RECIPES.values(), ids=RECIPES)


def ops_of(model: tfsmith.Model) -> set[str]:
    found = {node.op for node in model.graph}
    return found | {node.op for function in model.graph.library.values() for node in function}


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    assert one.keys() == other.keys()
    for key, value in one.items():
        np.testing.assert_allclose(other[key], value, rtol=2e-5, atol=2e-6, err_msg=key)


def session_of(graph: Any) -> Any:
    """A session that runs a graph as it is: TensorFlow's own fused layer norm is off by 4e-4."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.compat.v1.Session(graph=graph, config=config)


# A TF1 graph, frozen


def run_pb(path: Path, outputs: list[str]) -> dict[str, Any]:
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default(), session_of(graph) as session:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(path.read_bytes()), name="")
        return dict(session.run({name: f"{name}:0" for name in outputs}, {"x:0": X}))


def frozen_graph(build: Callable[[Any, Any], dict[str, Any]], path: Path) -> list[str]:
    """Writes a graph of constants; gives the names of its outputs."""
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [4, 6], "x")
        found = build(tf, x)
        names = [tf.identity(tensor, name=f"out_{key}").op.name for key, tensor in found.items()]
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return names


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], dict[str, Any]]:
    path = tmp_path_factory.mktemp("frozen") / "graph.pb"
    names = frozen_graph(lambda tf, x: net(tf, x, weights_of(lambda name, value: tf.constant(value, name=name))), path)
    return path, names, run_pb(path, names)


@each_recipe
def test_a_frozen_graph(
    frozen: tuple[Path, list[str], dict[str, Any]], recipe: Recipe, gone: str, tmp_path: Path
) -> None:
    path, names, answers = frozen
    old = tfsmith.load(path)
    done = replace(old, recipe)
    assert done.matches, (done.reason, done.nearest_miss)
    assert gone not in ops_of(done.model)
    tfsmith.save(done.model, tmp_path / "new.pb")
    same(answers, run_pb(tmp_path / "new.pb", names))
    untouched = [node for node in done.model.graph if node.raw is not None]
    assert all(node is old.graph[node.name] for node in untouched)
    assert len(untouched) >= len(old.graph) - 16


def test_all_recipes_one_after_the_other(frozen: tuple[Path, list[str], dict[str, Any]], tmp_path: Path) -> None:
    path, names, answers = frozen
    model = tfsmith.load(path)
    for recipe, _ in RECIPES.values():
        done = replace(model, recipe)
        assert done.matches, recipe.variants[0].name
        model = done.model
    assert len(model.graph) < len(tfsmith.load(path).graph)
    tfsmith.save(model, tmp_path / "new.pb")
    same(answers, run_pb(tmp_path / "new.pb", names))


def test_folded_weights_are_a_constant(frozen: tuple[Path, list[str], dict[str, Any]]) -> None:
    done = replace(tfsmith.load(frozen[0]), scaled_matmul())
    product = next(node for node in done.model.graph if node.name.endswith("product"))
    assert done.model.graph[product.inputs[1]].op == "Const"


def test_identities_go_but_fetched_names_stay(frozen: tuple[Path, list[str], dict[str, Any]], tmp_path: Path) -> None:
    path, names, answers = frozen
    done = replace(tfsmith.load(path), no_identity())
    assert {node.name for node in done.model.graph if node.op == "Identity"} == set(names)
    assert len(done.matches) == 2
    tfsmith.save(done.model, tmp_path / "new.pb")
    same(answers, run_pb(tmp_path / "new.pb", names))


def test_a_fetched_inner_name_still_answers(frozen: tuple[Path, list[str], dict[str, Any]], tmp_path: Path) -> None:
    path, names, _ = frozen
    old = tfsmith.load(path)
    found = next(node.name for node in old.graph if node.op == "BiasAdd")
    before = run_pb(path, [*names, found])
    done = replace(old, fused_matmul(), ReplaceOptions(outputs=(*names, found)))
    assert done.model.graph[found].op == "Identity"
    tfsmith.save(done.model, tmp_path / "new.pb")
    same(before, run_pb(tmp_path / "new.pb", [*names, found]))


def shared_square(tf: Any, x: Any) -> dict[str, Any]:
    inner = x * x
    return {"y": inner * 2.0, "z": tf.exp(-inner)}


def test_a_shared_node_is_refused_or_kept(tmp_path: Path) -> None:
    names = frozen_graph(shared_square, tmp_path / "old.pb")
    old = tfsmith.load(tmp_path / "old.pb")
    refused = replace(old, square_recipe())
    assert refused.model is old
    assert refused.skipped[0].users == ("Neg (Neg)",)
    kept = replace(old, square_recipe(), ReplaceOptions(keep_shared=True))
    tfsmith.save(kept.model, tmp_path / "new.pb")
    assert "Square" in ops_of(kept.model)
    same(run_pb(tmp_path / "old.pb", names), run_pb(tmp_path / "new.pb", names))


def dangling(tf: Any, x: Any) -> dict[str, Any]:
    inner = x * x
    tf.raw_ops.Size(input=tf.raw_ops.Shape(input=inner))
    tf.unstack(tf.raw_ops.Shape(input=inner))
    two = tf.constant(2.0)
    with tf.control_dependencies([tf.compat.v1.assert_greater(tf.reduce_sum(x), -1e9, name="check")]):
        return {"y": inner * two + tf.identity(x)}


def test_dangling_shapes_go_and_checks_stay(tmp_path: Path) -> None:
    names = frozen_graph(dangling, tmp_path / "old.pb")
    old = tfsmith.load(tmp_path / "old.pb")
    assert "Shape" in ops_of(old)
    done = replace(old, square_recipe())
    assert done.matches
    assert not {"Shape", "Size", "Unpack"} & ops_of(done.model)
    assert "Assert" in ops_of(done.model)
    product = next(node for node in done.model.graph if node.name.endswith("product"))
    square = next(node for node in done.model.graph if node.name.endswith("square"))
    assert any("check" in text for text in (*square.control_inputs, *product.control_inputs))
    tfsmith.save(done.model, tmp_path / "new.pb")
    same(run_pb(tmp_path / "old.pb", names), run_pb(tmp_path / "new.pb", names))


def loop(tf: Any, x: Any) -> dict[str, Any]:
    """A loop of TF1, in which constants belong to the loop by what they wait for."""
    found = tf.compat.v1.while_loop(
        lambda number, value: number < 3,
        lambda number, value: (number + 1, tf.maximum(value * 0.5, 0.0)),
        [tf.constant(0), x],
    )
    return {"y": found[1]}


def test_inside_of_a_tf1_loop(tmp_path: Path) -> None:
    import tensorflow as tf

    tf.compat.v1.disable_control_flow_v2()
    try:
        names = frozen_graph(loop, tmp_path / "old.pb")
    finally:
        tf.compat.v1.enable_control_flow_v2()
    wanted = relu_recipe().variants[0].query.nodes
    constant: dict[str, Attr | Expression] = {"dtype": Expression("dtype(x)"), "value": Expression("value(zero)")}
    targets = (TargetNode("low", "Const", (), constant), TargetNode("clip", "Maximum", ("low", "x")))
    done = replace(tfsmith.load(tmp_path / "old.pb"), recipe_of(wanted, ["x"], {"max": "clip"}, *targets))
    assert done.matches
    tfsmith.save(done.model, tmp_path / "new.pb")
    same(run_pb(tmp_path / "old.pb", names), run_pb(tmp_path / "new.pb", names))


# TF1 SavedModels, with variables of both kinds


def run_tf1(folder: Path) -> dict[str, Any]:
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default(), session_of(graph) as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
        outputs = {key: info.name for key, info in meta.signature_def["serving_default"].outputs.items()}
        return dict(session.run(outputs, {"x:0": X}))


@pytest.fixture(scope="module", params=[False, True], ids=["ref", "resource"])
def tf1_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    import tensorflow as tf

    v1 = tf.compat.v1
    folder = tmp_path_factory.mktemp("tf1") / "model"
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [None, 6], "x")
        made = weights_of(lambda name, value: v1.get_variable(name, initializer=value, use_resource=request.param))
        found = net(tf, x, {name: tf.convert_to_tensor(value) for name, value in made.items()})
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder), {"x": x}, found)
    return folder, run_tf1(folder)


@each_recipe
def test_a_tf1_saved_model(tf1_model: tuple[Path, dict[str, Any]], recipe: Recipe, gone: str, tmp_path: Path) -> None:
    folder, answers = tf1_model
    done = replace(tfsmith.load(folder), recipe)
    assert done.matches, (done.reason, done.nearest_miss)
    assert gone not in ops_of(done.model)
    tfsmith.save(done.model, tmp_path / "new")
    same(answers, run_tf1(tmp_path / "new"))


def test_loops_and_conditions_of_tf1_in_a_saved_model(tmp_path: Path) -> None:
    """Its collections list the nodes of loops, and TensorFlow looks for all of them when it loads the model."""
    import tensorflow as tf

    v1 = tf.compat.v1
    graph = tf.Graph()
    v1.disable_control_flow_v2()
    try:
        with graph.as_default(), session_of(graph) as session:
            x = v1.placeholder(tf.float32, [None, 6], "x")
            y = loop(tf, x)["y"]
            z = v1.cond(tf.reduce_sum(y) > 0, lambda: tf.maximum(y * y * 3.0, 0.0), lambda: -y)
            v1.saved_model.simple_save(session, str(tmp_path / "old"), {"x": x}, {"z": z})
    finally:
        v1.enable_control_flow_v2()
    old = tfsmith.load(tmp_path / "old")
    assert {"while_context", "cond_context"} <= set(old.collections)
    for name, recipe in (("relu", relu_recipe()), ("square", square_recipe())):
        done = replace(old, recipe)
        assert done.matches, (done.reason, done.nearest_miss)
        assert "cond_context" not in done.model.collections
        tfsmith.save(done.model, tmp_path / name)
        same(run_tf1(tmp_path / "old"), run_tf1(tmp_path / name))


# TF2 SavedModels, with functions


def run_tf2(folder: Path) -> dict[str, Any]:
    import tensorflow as tf

    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        loaded = tf.saved_model.load(str(folder))
        found = loaded.signatures["serving_default"](x=tf.constant(X))
        direct = loaded(tf.constant(X))
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False, **before})
    return {**{key: value.numpy() for key, value in found.items()}, "direct": direct["sum"].numpy()}


@pytest.fixture(scope="module")
def tf2_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    import tensorflow as tf

    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.made = weights_of(lambda name, value: tf.Variable(value, name=name))

        @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, "x")])
        def __call__(self, x: Any) -> Any:
            return self.inner(x)

        @tf.function
        def inner(self, x: Any) -> Any:
            return net(tf, x, self.made)

    folder = tmp_path_factory.mktemp("tf2") / "model"
    tf.saved_model.save(Net(), str(folder))
    return folder, run_tf2(folder)


@each_recipe
def test_a_tf2_saved_model(tf2_model: tuple[Path, dict[str, Any]], recipe: Recipe, gone: str, tmp_path: Path) -> None:
    folder, answers = tf2_model
    done = replace(tfsmith.load(folder), recipe)
    assert done.matches, (done.reason, done.nearest_miss)
    assert all(match.body is not None for match in done.matches)
    assert gone not in ops_of(done.model)
    tfsmith.save(done.model, tmp_path / "new")
    same(answers, run_tf2(tmp_path / "new"))


def test_tf2_identities(tf2_model: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, answers = tf2_model
    done: Replacement = replace(tfsmith.load(folder), no_identity())
    assert done.matches
    tfsmith.save(done.model, tmp_path / "new")
    same(answers, run_tf2(tmp_path / "new"))
