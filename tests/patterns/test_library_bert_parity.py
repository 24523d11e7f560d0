"""bert-encoder on real models: the node that it puts in takes the right weights, in an order that computes the same.

TensorFlow does not have the op, so numpy computes it from what the node takes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.recipe_models import (
    HEADS,
    IDS,
    INNER,
    LENGTH,
    MASK,
    WIDTH,
    einsum,
    encode,
    exact_gelu,
    google,
    google_gelu,
    google_tanh,
    older_gelu,
    rows,
    save_functions,
    save_keras,
    shared,
    tanh_gelu,
)

import tfsmith
from tfsmith.ir.graph import Function
from tfsmith.ir.node import Node
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier
from tfsmith.testing.write import write_frozen

pytestmark = pytest.mark.tensorflow

Save = Callable[[Path], list[str]]
MODELS: dict[str, tuple[Save, bytes]] = {
    "google's, tanh": (lambda path: save_functions(path, google, google_tanh), b"gelu_tanh"),
    "google's, erf": (lambda path: save_functions(path, google, google_gelu, layers=3), b"gelu_erf"),
    "one adder, tanh": (lambda path: save_functions(path, shared, tanh_gelu), b"gelu_tanh"),
    "one adder, exact": (lambda path: save_functions(path, shared, exact_gelu), b"gelu_erf"),
    "einsum, tanh": (lambda path: save_functions(path, einsum, tanh_gelu), b"gelu_tanh"),
    "einsum, exact": (lambda path: save_functions(path, einsum, exact_gelu), b"gelu_erf"),
    "rows, tanh": (lambda path: save_functions(path, rows, tanh_gelu), b"gelu_tanh"),
    "rows, exact": (lambda path: save_functions(path, rows, exact_gelu, layers=3), b"gelu_erf"),
    "rows, erf": (lambda path: save_functions(path, rows, older_gelu), b"gelu_erf"),
    "rows of fixed sizes, tanh": (lambda path: save_functions(path, rows, tanh_gelu, batch=len(IDS)), b"gelu_tanh"),
    "rows of fixed sizes, exact": (lambda path: save_functions(path, rows, exact_gelu, batch=len(IDS)), b"gelu_erf"),
    "keras, tanh": (lambda path: save_keras(path, dropout=0.1, approximate=True), b"gelu_tanh"),
    "keras, exact": (lambda path: save_keras(path, dropout=0.0, approximate=False), b"gelu_erf"),
}


@pytest.fixture(scope="module", params=MODELS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], bytes]:
    save, activation = MODELS[request.param]
    folder = tmp_path_factory.mktemp("bert") / "model"
    return folder, save(folder), activation


def variable(model: tfsmith.Model, function: Function, text: str) -> str:
    """The name of the variable that a function reads, by what it captures or what its caller gives it."""
    node = function.by_name[function.resolve(text).node]
    while node.op == "Identity":
        node = function.by_name[function.resolve(node.inputs[0]).node]
    assert node.op == "ReadVariableOp"
    number = function.args.index(node.inputs[0])
    objects = model.meta.objects
    assert objects is not None
    bound = objects.concrete_functions[function.name]["bound_inputs"]
    captured = objects.nodes[bound[number - len(function.args)]]
    return str(captured.details["name"])


def test_in_functions(saved: tuple[Path, list[str], bytes]) -> None:
    folder, names, activation = saved
    model = tfsmith.load(folder)
    replaced = tfsmith.replace(model, "bert-encoder")
    assert len(replaced.matches) == 1, (replaced.reason, replaced.nearest_miss)
    assert replaced.matches[0].body is not None
    function = replaced.model.graph.library[replaced.matches[0].body]
    node = next(node for node in function if node.op == "Bert")
    assert len(node.inputs) == 2 + len(names)
    assert node.get("HiddenAct") == activation
    sizes = {name: node.get(name) for name in ("HiddenSize", "NumAttentionHeads", "IntermediateSize", "NumWeights")}
    assert sizes == dict(zip(sizes, (WIDTH, HEADS, INNER, len(names)), strict=True))
    assert node.get("MaxSequenceLength") == LENGTH
    users = [use.node for use in function.uses[node.name]]
    assert users
    assert all(f"{node.name}:encoded:0" in user.inputs for user in users)
    found = [variable(model, function, text) for text in node.inputs[2:]]
    if found[0].count("/") < 2:  # Keras 3 calls every kernel "kernel"; the function's own names say where it belongs
        found = [text.split("/ReadVariableOp")[0] for text in node.inputs[2:]]
        assert [_place(text) for text in found] == [name.rpartition("/")[0] for name in names]
    else:
        assert found == names
    computing = {"MatMul", "BatchMatMulV2", "Einsum", "Softmax", "Rsqrt", "SelectV2"}
    assert len([one for one in function if one.op in computing]) <= 3  # the classifier's


def _place(text: str) -> str:
    """Where a read of Keras stands: layer_0_attention/query, of functional_1/layer_0_attention_1/query_1/Cast."""
    words = [
        word for word in text.split("/") if not word.startswith(("functional", "Cast", "Add", "BiasAdd", "Reshape"))
    ]
    return "/".join(word.removesuffix("_1") for word in words)


def run(path: Path, feeds: dict[str, Any], fetches: list[str]) -> list[Any]:
    import tensorflow as tf

    graph, config = tf.Graph(), tf.compat.v1.ConfigProto()
    # TensorFlow's own optimizer fuses layer norms, and takes 0.001 for their epsilon.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with graph.as_default(), tf.compat.v1.Session(graph=graph, config=config) as session:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(path.read_bytes()), name="")
        return list(session.run(fetches, feeds))


def tensor(text: str) -> str:
    return text if ":" in text else f"{text}:0"


def check(path: Path, feeds: dict[str, Any]) -> Node:
    """Whether numpy makes of the node's inputs what the nodes that it replaces give."""
    replaced = tfsmith.replace(tfsmith.load(path), "bert-encoder")
    assert len(replaced.matches) == 1, (replaced.reason, replaced.nearest_miss)
    node = next(node for node in replaced.model.graph if node.op == "Bert")
    match = replaced.matches[0]
    output = match.units[-1].nodes["output_norm"]
    values = run(path, feeds, [*map(tensor, node.inputs), f"{output}:0"])
    activation = node.get("HiddenAct").decode()
    found = encode(values[0], values[1], values[2:-1], node.get("NumAttentionHeads"), activation)
    np.testing.assert_allclose(found.reshape(values[-1].shape), values[-1], rtol=1e-4, atol=2e-5)
    return node


def test_numbers_of_frozen_functions(saved: tuple[Path, list[str], bytes], tmp_path: Path) -> None:
    folder, names, _ = saved
    frozen = tfsmith.freeze(tfsmith.load(folder)).model
    tfsmith.save(frozen, tmp_path / "frozen.pb")
    inputs = [node for node in frozen.graph if node.op == "Placeholder"]
    feeds = {f"{node.name}:0": MASK if "mask" in node.name else IDS for node in inputs}
    node = check(tmp_path / "frozen.pb", feeds)
    assert len(node.inputs) == 2 + len(names)


@pytest.mark.parametrize("batch", [None, 2])
def test_numbers_of_google_s_own_graph(batch: int | None, tmp_path: Path) -> None:
    test = bert_classifier(BertConfig(30, 24, 3, 3, 40), length=10, batch=batch)
    path = write_frozen(test, tmp_path / "bert.pb")
    feeds = {test.inputs[key]: value for key, value in test.example_inputs().items() if key != "label_ids"}
    check(path, feeds)


def test_the_model_of_the_benchmarks(tmp_path: Path) -> None:
    """A SavedModel of TensorFlow 2 whose layers are modules."""
    from benchmarks.tf2_model import save_model

    save_model(tmp_path / "model", quick=True)
    replaced = tfsmith.replace(tfsmith.load(tmp_path / "model"), "bert-encoder")
    assert [len(match.units) for match in replaced.matches] == [4]
    function = replaced.model.graph.library[replaced.matches[0].body or ""]
    node = next(node for node in function if node.op == "Bert")
    assert len(node.inputs) == 66
    assert (node.get("HiddenSize"), node.get("MaxSequenceLength")) == (128, 128)


def test_rows_in_another_order_or_shape_stay(tmp_path: Path) -> None:
    save_functions(tmp_path / "model", rows, exact_gelu)
    model = tfsmith.freeze(tfsmith.load(tmp_path / "model")).model
    (match,) = tfsmith.replace(model, "bert-encoder").matches
    inside = [node for node in model.graph if node.name in match.units[0].nodes.values()]
    order, product, softmax = (
        next(node for node in inside if node.op == op) for op in ("ConcatV2", "MatMul", "Softmax")
    )
    first, second, along = order.inputs
    masked = model.graph[model.graph[softmax.inputs[0]].inputs[0]]  # before 1e-9 is added, which a softmax does not see
    assert masked.op == "AddV2"
    wrong = {
        "the order of axes": order.replace(inputs=(second, first, along)),
        "a mask that is taken off": masked.replace(op="Sub"),
        "a product": product.replace(attrs={"transpose_a": True}),
    }
    for name, node in wrong.items():
        changed = model.replace_graph(model.graph.map_nodes({node.name: node}))
        found = tfsmith.replace(changed, "bert-encoder")
        assert [len(one.units) for one in found.matches] in ([], [1]), name  # the other layer is still one
        assert all(node.name not in one.units[0].nodes.values() for one in found.matches)
