"""Encoders of public packages, by `tools/make_encoder_corpus.py`: all are found, and fused they compute the same."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.bert_library import answers_of, bert_library
from tools.make_encoder_corpus import count, unpacked

import tfsmith
from tfsmith.passes.bert_node import bert_nodes, served_bert_nodes, served_nodes
from tfsmith.patterns.architecture import find_stacks, raised_bodies
from tfsmith.patterns.encoder import Fused, fuse_encoders

FOLDER = Path(__file__).parents[1] / "data" / "encoders"
NOTES: dict[str, dict[str, Any]] = json.loads((FOLDER / "PROVENANCE.json").read_text())
OTHERS = [name for name in NOTES if "-no-" in name]
FROZEN = [name for name in NOTES if name.endswith(".pb.xz") and name not in OTHERS]
SAVED = [name for name in NOTES if name.endswith(".tar.xz")]
LAYERS, WIDTH, HEADS, INNER, WORDS = 2, 32, 4, 64, 32

EPSILONS = {
    "kerashub-roberta": 1e-5,
    "kerashub-xlm-roberta": 1e-5,
    "bert4keras-albert": 1e-7,
    "kerasbert-bert": 1e-14,
}
ACTIVATIONS = {
    **dict.fromkeys(("bert-base", "bert-one-hot", "bert-open-length", "kerashub-albert", "kerashub-bert"), "gelu tanh"),
    **dict.fromkeys(("kerashub-electra", "models-albert", "models-bert", "models-bert-v2"), "gelu tanh"),
    **dict.fromkeys(("transformers-albert", "kerasbert-bert", "bertfortf2-bert", "bertfortf2-albert"), "gelu tanh"),
    "bert-relu": "relu",
}
REASONS = {
    "toolkit4nlp-no-bert": "no layer of BERT",
    "kerashub-no-deberta": "relative positions",
    "models-no-mobilebert": "another tensor",
    "transformers-no-deberta": "relative positions",
    "transformers-no-decoder": "cross attention",
    "transformers-no-gpt2": "more than queries",
    "transformers-no-mobilebert": "another tensor",
}


def stem(name: str) -> str:
    return name.partition(".")[0].removesuffix("-saved")


def fused(path: Path, name: str) -> Fused:
    return fuse_encoders(tfsmith.load(path), NOTES[name].get("outputs", ()))


def test_every_file_has_its_provenance() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*NOTES, "PROVENANCE.json"}
    for note in NOTES.values():
        assert {"package", "version", "class", "config", "tensorflow", "command"} <= set(note)
    assert {note["package"] for note in NOTES.values()} == {
        *("bert-tensorflow", "tf-models-official", "keras-hub", "transformers"),
        *("bert4keras", "toolkit4nlp", "keras-bert", "bert-for-tf2"),
    }


@pytest.mark.parametrize("name", [*FROZEN, *SAVED])
def test_the_recipes_find_all_of_it(name: str, tmp_path: Path) -> None:
    for what, (found, wanted) in count(unpacked(name, tmp_path), NOTES[name]).items():
        assert found == wanted, what


@pytest.mark.parametrize("name", FROZEN)
def test_every_part_of_an_encoder_is_found(name: str, tmp_path: Path) -> None:
    model = tfsmith.load(unpacked(name, tmp_path))
    ((_, raised, _),) = raised_bodies(model)
    kinds = Counter(kind for kind, _, _ in raised.recognised())
    gelus = 0 if ACTIVATIONS.get(stem(name)) == "relu" else LAYERS
    assert kinds == Counter(norm=2 * LAYERS + 1, gelu=gelus, softmax=LAYERS, attention=LAYERS)
    (stack,) = find_stacks(raised)
    activation, epsilon = ACTIVATIONS.get(stem(name), "gelu erf"), EPSILONS.get(stem(name), 1e-12)
    sizes = f"hidden {WIDTH}, heads {HEADS}, intermediate {INNER}"
    assert str(stack) == f"encoder of {LAYERS} layers, {sizes}, {activation}, epsilon {epsilon:g}"


@pytest.mark.parametrize("name", FROZEN)
def test_every_encoder_becomes_one_node(name: str, tmp_path: Path) -> None:
    done = fused(unpacked(name, tmp_path), name)
    assert [len(encoder.stack.layers) for encoder in done.encoders] == [LAYERS], done.refused
    assert not done.refused
    assert not done.others
    (node,) = (node for node in done.model.graph if node.op == "Bert")
    shared = "albert" in name  # whose weights are passed once
    assert (node.get("NumWeights"), node.get("WeightRepeats", 1)) == ((16, LAYERS) if shared else (16 * LAYERS, 1))
    assert node.get("LayerNormEpsilon") == pytest.approx(EPSILONS.get(stem(name), 1e-12))
    assert not any(node.op in ("Softmax", "Erf", "Tanh") for node in done.model.graph)


@pytest.mark.parametrize("name", ["bert-base.pb.xz", "kerashub-roberta.pb.xz", "models-bert-v2.pb.xz"])
def test_an_encoder_is_found_behind_fused_ops(name: str, tmp_path: Path) -> None:
    """What the small recipes leave behind, and grappler writes, is read like what it was before."""
    model, outputs = tfsmith.load(unpacked(name, tmp_path)), NOTES[name]["outputs"]
    for recipe, number in (
        ("layer-norm", 2 * LAYERS + 1),
        ("gelu-erf", None),
        ("gelu-tanh", None),
        ("attention", LAYERS),
    ):
        done = tfsmith.replace(model, recipe, outputs=outputs)
        assert number is None or len(done.matches) == number
        model = done.model
    ops = Counter(node.op for node in model.graph)
    assert (ops["_MklLayerNorm"], ops["_FusedMatMul"]) == (2 * LAYERS + 1, LAYERS)
    found = fuse_encoders(model, outputs)
    assert [len(encoder.stack.layers) for encoder in found.encoders] == [LAYERS], found.refused


@pytest.mark.parametrize("name", SAVED)
def test_every_encoder_that_is_served_becomes_nodes(name: str, tmp_path: Path) -> None:
    done = fused(unpacked(name, tmp_path), name)
    assert not done.refused
    tensors = [info.name for info in done.model.signatures["serving_default"].outputs.values()]
    nodes = list(served_bert_nodes(done.model, tensors))
    wanted = [16] * LAYERS if name.startswith("models-hub") else [16 * LAYERS]  # it gives what is between layers, too
    assert [node.get("NumWeights") * node.get("WeightRepeats", 1) for _, node in nodes] == wanted
    assert any(node.get("WeightRepeats", 1) > 1 for _, node in nodes) == ("albert" in name)
    assert len(nodes) <= len(list(bert_nodes(done.model)))


def test_a_near_miss_is_one_of_what_is_served(tmp_path: Path) -> None:
    model = tfsmith.load(unpacked("transformers-bert-saved.tar.xz", tmp_path))
    miss = tfsmith.find(model, "gelu-tanh").nearest_miss
    tensors = [info.name for info in model.signatures["serving_default"].outputs.values()]
    assert miss is not None
    assert miss.body in {body for body, _ in served_nodes(model, tensors)}
    assert miss.reason.endswith("/Gelu/mul_2' fits, but its kind is erf, and tanh is wanted")


@pytest.mark.parametrize("name", OTHERS)
def test_other_networks_are_left_alone_with_a_reason(name: str, tmp_path: Path) -> None:
    done = fused(unpacked(name, tmp_path), name)
    assert not done.encoders
    assert not done.refused
    assert any(REASONS[stem(name)] in line for _, line in done.others), done.others


def feeds_for(names: list[str], length: int) -> dict[str, Any]:
    """Five sentences: whole, padded, of padding only, of one word, and whole."""
    random = np.random.default_rng(1)
    mask = np.ones((5, length), np.int32)
    mask[1, length // 2 :] = mask[2] = mask[3, 1:] = 0
    words = random.integers(3, WORDS, mask.shape).astype(np.int32)
    kinds = {"mask": mask, "segment": np.zeros_like(mask), "type": np.zeros_like(mask)}
    return {name: next((kinds[kind] for kind in kinds if kind in name), words) for name in names}


def computed(path: Path, feeds: dict[str, Any], outputs: list[str]) -> Any:
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(path.read_bytes()), name="")
        options = tf.compat.v1.ConfigProto()
        options.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.compat.v1.Session(graph=graph, config=options) as session:
            return session.run(outputs, feeds)


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", FROZEN)
def test_a_fused_encoder_computes_the_same(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    import tensorflow as tf

    tf.load_op_library(str(bert_library(request.config)))
    path = unpacked(name, tmp_path)
    tfsmith.save(fused(path, name).model, tmp_path / "fused.pb")
    note = NOTES[name]
    is_open = not name.startswith(("bert-", "kerasbert", "bertfortf2")) or "open" in name
    for length in (7, 16) if is_open else (12,):
        feeds = feeds_for(note["inputs"], length)
        before, after = (computed(one, feeds, note["outputs"]) for one in (path, tmp_path / "fused.pb"))
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-4)


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["kerashub-bert-saved.tar.xz", "models-hub.tar.xz", "transformers-bert-saved.tar.xz"])
def test_optimize_keeps_what_is_served(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    library = bert_library(request.config)
    path = unpacked(name, tmp_path)
    done = tfsmith.optimize(path, tmp_path / "fast", repeat=0, sequence_length=7, op_libraries=[library])
    assert done, list(done.report())
    feeds = feeds_for(list(tfsmith.load(path).signatures["serving_default"].inputs), 7)
    for before, after in zip(
        answers_of(path, library, feeds), answers_of(tmp_path / "fast", library, feeds), strict=True
    ):
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-4)
