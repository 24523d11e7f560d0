"""The test models against the real TensorFlow: the same graphs, loadable every way, the same numbers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfsmith.formats.graph.metagraph import plan_meta_graph
from tfsmith.ir.opdef import builtin_ops
from tfsmith.testing.models import BertConfig, TestModel, bert_classifier, conv_net, linear_regression
from tfsmith.testing.variables import Kind
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model

pytestmark = pytest.mark.tensorflow

KINDS: tuple[Kind, ...] = ("ref", "resource")
WIDE = BertConfig(30, 1024, 1, 2, 1200, max_position_embeddings=400)
"""Large enough that TensorFlow makes a Fill where a small shape gets a Const."""


@pytest.fixture(scope="module")
def tf() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow

    return tensorflow


@dataclass(frozen=True)
class Case:
    """One of our models, and the function of `tf1_models` that makes the same with TensorFlow."""

    make: Callable[[Kind], TestModel]
    function: str
    arguments: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()


CASES = {
    "linear_regression": Case(lambda kind: linear_regression(variables=kind), "linear_regression"),
    "conv_net": Case(lambda kind: conv_net(variables=kind), "conv_net", (None, 8, 3, (4, 6), 5)),
    "conv_net of 4": Case(lambda kind: conv_net(variables=kind, batch=4), "conv_net", (4, 8, 3, (4, 6), 5)),
    "bert": Case(lambda kind: bert_classifier(variables=kind), "bert_classifier", (BertConfig.tiny(), None, 20, 2)),
    "bert of 3": Case(
        lambda kind: bert_classifier(variables=kind, batch=3, length=7, labels=4, global_step=9),
        "bert_classifier",
        (BertConfig.tiny(), 3, 7, 4),
        (("global_step", True),),
    ),
    "wide bert": Case(
        lambda kind: bert_classifier(WIDE, variables=kind, batch=4, length=300, labels=3),
        "bert_classifier",
        (WIDE, 4, 300, 3),
    ),
}
SMALL = [name for name in CASES if name != "wide bert"]


def build(tf: Any, case: Case, kind: Kind) -> None:
    """Builds the case with TensorFlow, in the default graph."""
    from tests.support import tf1_models

    with tf.compat.v1.variable_scope("", use_resource=kind == "resource"):
        getattr(tf1_models, case.function)(*case.arguments, **dict(case.options))


def comparable(tf: Any, graph: Any) -> Any:
    """A GraphDef without what is not TensorFlow 1's, or is of another release than the op database."""
    for node in graph.node:
        node.ClearField("experimental_type")
        if tf.__version__ != builtin_ops().version:
            node.ClearField("attr")
    if tf.__version__ != builtin_ops().version:
        graph.ClearField("versions")
    return graph


def meta_graph_of(tf: Any, model: Any) -> Any:
    return tf.compat.v1.MetaGraphDef.FromString(plan_meta_graph(model.meta).tobytes())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_the_meta_graph_is_the_one_that_tensorflow_makes(tf: Any, name: str, kind: Kind) -> None:
    case = CASES[name]
    with tf.Graph().as_default():
        build(tf, case, kind)
        wanted = tf.compat.v1.train.Saver().export_meta_graph()
    found = meta_graph_of(tf, case.make(kind).model)
    ours, theirs = comparable(tf, found.graph_def), comparable(tf, wanted.graph_def)
    assert [node.name for node in ours.node] == [node.name for node in theirs.node]
    for our_node, their_node in zip(ours.node, theirs.node, strict=True):
        assert our_node == their_node
    assert ours == theirs
    assert found.saver_def == wanted.saver_def
    assert found.collection_def == wanted.collection_def
    ops = [op.name for op in found.meta_info_def.stripped_op_list.op]
    assert ops == [op.name for op in wanted.meta_info_def.stripped_op_list.op]


@pytest.mark.parametrize("kind", KINDS)
def test_the_inference_part_of_bert_has_the_names_of_tensorflow(tf: Any, kind: Kind) -> None:
    """Whatever the release: the nodes that `loss/output` needs, with their ops and inputs."""
    config = BertConfig(30, 24, 3, 4, 40, max_position_embeddings=16)
    with tf.Graph().as_default() as graph:
        build(tf, Case(lambda _: linear_regression(), "bert_classifier", (config, None, 9, 3)), kind)
        wanted = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), ["loss/output"])
    ours = bert_classifier(config, length=9, labels=3, variables=kind).model.graph
    needed = ours.ancestors(["loss/output"])
    found = {(node.name, node.op, node.inputs) for node in ours.nodes if node.name in needed}
    assert found == {(node.name, node.op, tuple(node.input)) for node in wanted.node}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SMALL)
def test_tensorflow_restores_and_runs_checkpoints(tf: Any, name: str, kind: Kind, tmp_path: Path) -> None:
    v1 = tf.compat.v1
    model = CASES[name].make(kind)
    prefix = write_checkpoint_files(model, tmp_path / "train", step=1603)
    assert tf.train.latest_checkpoint(str(prefix.parent)) == str(prefix)
    feeds = model.example_inputs(5, 3)
    if name == "linear_regression":
        feeds["y_sample"] = feeds["x"] * 1.5
    with tf.Graph().as_default(), v1.Session() as session:
        saver = v1.train.import_meta_graph(f"{prefix}.meta")
        saver.restore(session, str(prefix))
        wanted = model.reference(feeds)
        found = session.run(
            {key: model.tensors[key] for key in wanted}, {model.tensors[key]: value for key, value in feeds.items()}
        )
        saver.save(session, str(tmp_path / "again"), write_meta_graph=False)
    compare(found, wanted)
    for ending in (".index", ".data-00000-of-00001"):
        assert Path(f"{prefix}{ending}").read_bytes() == (tmp_path / f"again{ending}").read_bytes()


def compare(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key, value in wanted.items():
        tolerance = 1e-12 if value.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(np.asarray(found[key]), value, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SMALL)
def test_tensorflow_loads_saved_models_both_ways(tf: Any, name: str, kind: Kind, tmp_path: Path) -> None:
    v1 = tf.compat.v1
    model = CASES[name].make(kind)
    folder = str(write_saved_model(model, tmp_path / "saved"))
    feeds = model.example_inputs(6, 3)
    wanted = {key: value for key, value in model.reference(feeds).items() if key in model.outputs}
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.loader.load(session, ["serve"], folder)
        signature = meta.signature_def["serving_default"]
        inputs = {signature.inputs[key].name: value for key, value in feeds.items()}
        compare(session.run({key: signature.outputs[key].name for key in wanted}, inputs), wanted)
    loaded = tf.saved_model.load(folder)
    compare(loaded.signatures["serving_default"](**{key: tf.constant(value) for key, value in feeds.items()}), wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["linear_regression", "bert"])
def test_saved_models_are_those_of_the_builder(tf: Any, name: str, kind: Kind, tmp_path: Path) -> None:
    v1 = tf.compat.v1
    case = CASES[name]
    model = case.make(kind)
    with tf.Graph().as_default() as graph, v1.Session() as session:
        build(tf, case, kind)
        session.run([variable.initializer for variable in v1.get_collection("variables")])
        ends = [
            {key: v1.saved_model.build_tensor_info(graph.get_tensor_by_name(tensor)) for key, tensor in part.items()}
            for part in (model.inputs, model.outputs)
        ]
        signature = v1.saved_model.build_signature_def(*ends, "tensorflow/serving/predict")
        builder = v1.saved_model.Builder(str(tmp_path / "theirs"))
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()
    wanted = saved_meta_graph(tmp_path / "theirs")
    found = saved_meta_graph(write_saved_model(model, tmp_path / "ours"))
    assert comparable(tf, found.graph_def) == comparable(tf, wanted.graph_def)
    assert found.saver_def == wanted.saver_def
    assert found.collection_def == wanted.collection_def
    assert found.signature_def == wanted.signature_def
    assert found.meta_info_def.tags == wanted.meta_info_def.tags


def saved_meta_graph(folder: Path) -> Any:
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    assert saved.saved_model_schema_version == 1
    (meta,) = saved.meta_graphs
    return meta


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SMALL)
def test_tensorflow_runs_frozen_graphs(tf: Any, name: str, kind: Kind, tmp_path: Path) -> None:
    model = CASES[name].make(kind)
    graph = tf.compat.v1.GraphDef.FromString(write_frozen(model, tmp_path / "frozen.pb").read_bytes())
    feeds = {key: value for key, value in model.example_inputs(7, 2).items() if key != "label_ids"}
    # Where weights are constants, oneDNN fuses the gelu and rounds it to four digits: off, for the graph's own numbers.
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.remapping = 2
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        tf.import_graph_def(graph, name="")
        found = session.run(model.outputs, {model.tensors[key]: value for key, value in feeds.items()})
    compare(found, model.reference(feeds))


@pytest.mark.parametrize("kind", KINDS)
def test_graph_pbtxt_is_what_tensorflow_writes(tf: Any, kind: Kind, tmp_path: Path) -> None:
    from google.protobuf import text_format

    model = bert_classifier(variables=kind)
    write_checkpoint_files(model, tmp_path)
    text = (tmp_path / "graph.pbtxt").read_text()
    graph = text_format.Parse(text, tf.compat.v1.GraphDef())
    assert graph == meta_graph_of(tf, model.model).graph_def
    assert text == text_format.MessageToString(graph)
