"""Recipes on the BERT of the document at its own size, uncased_L-12_H-768_A-12: TensorFlow answers as before."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.recipe_models import encode

import tfsmith
from tfsmith.testing.models import BertConfig, TestModel, bert_classifier
from tfsmith.testing.write import write_frozen, write_saved_model
from tfsmith.verbs._files import place_model

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

RUNNABLE = ("layer-norm", "gelu-tanh", "attention")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that is gone after the test: pytest would keep gigabytes."""
    with tempfile.TemporaryDirectory(dir=tmp_path) as found:
        yield Path(found)


def session(tf: Any, graph: Any) -> Any:
    config = tf.compat.v1.ConfigProto()  # TensorFlow's own optimizer fuses, too, with an epsilon of its own
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.compat.v1.Session(graph=graph, config=config)


def feeds(test: TestModel, graph: tfsmith.Graph) -> dict[str, Any]:
    values = test.example_inputs(batch=1)
    return {tensor: values[key] for key, tensor in test.inputs.items() if tensor.removesuffix(":0") in graph}


def run(path: Path, given: Mapping[str, Any], fetches: list[str]) -> list[Any]:
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default(), session(tf, graph) as running:
        if path.is_dir():
            tf.compat.v1.saved_model.load(running, ["serve"], str(path))
        else:
            tf.import_graph_def(tf.compat.v1.GraphDef.FromString(path.read_bytes()), name="")
        return list(running.run(fetches, given))


@pytest.mark.parametrize(("variables", "frozen"), [("ref", True), ("resource", False)], ids=["frozen", "saved_model"])
def test_answers(variables: Any, frozen: bool, folder: Path) -> None:
    test = bert_classifier(BertConfig.base(), variables=variables)
    old, new = (folder / (f"{name}.pb" if frozen else name) for name in ("old", "new"))
    (write_frozen if frozen else write_saved_model)(test, old)
    before = model = tfsmith.load(old)
    for recipe in RUNNABLE:
        done = tfsmith.replace(model, recipe)
        assert done.matches, (recipe, done.reason, done.nearest_miss)
        model = done.model
    counts = model.graph.op_counts()
    assert (counts["_MklLayerNorm"], counts["_FusedMatMul"], counts["_MklFusedBatchMatMulV2"]) == (25, 12, 12)
    place_model(model, new, before=before, link=True)
    given, output = feeds(test, model.graph), f"{test.output_nodes[0]}:0"
    bert = tfsmith.replace(before, "bert-encoder")
    (match,) = bert.matches
    node = next(node for node in bert.model.graph if node.op == "Bert")
    taken = [text if ":" in text else f"{text}:0" for text in node.inputs]
    answer, encoded, *values = run(old, given, [output, f"{match.units[-1].nodes['output_norm']}:0", *taken])
    (again,) = run(new, given, [output])
    np.testing.assert_allclose(again, answer, rtol=1e-4, atol=1e-6)
    # What the node Bert takes is all that it needs to give what the nodes that it replaces give.
    found = encode(values[0], values[1], values[2:], node.get("NumAttentionHeads"), node.get("HiddenAct").decode())
    np.testing.assert_allclose(found.reshape(encoded.shape), encoded, rtol=1e-3, atol=1e-4)
