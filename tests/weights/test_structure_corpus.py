"""Weights by what they do, of BERTs that packages built: under Google's names they compute what the graph computes."""

from __future__ import annotations

import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.errors import NotFoundInModelError
from tfsmith.testing import reference
from tfsmith.testing.models import BertConfig
from tfsmith.verbs.weights import weights
from tfsmith.weights.source import weights_of
from tfsmith.weights.structure import name_by_structure

CORPUS = Path(__file__).parents[1] / "data/encoders"
FACTS: dict[str, Any] = json.loads((CORPUS / "PROVENANCE.json").read_text())
CONFIG = BertConfig(32, 32, 2, 4, 64, max_position_embeddings=24)


def opened(name: str, folder: Path) -> tfsmith.Model:
    """A model of the corpus."""
    if name.endswith(".tar.xz"):
        with tarfile.open(CORPUS / name) as archive:
            archive.extractall(folder, filter="data")
        return tfsmith.load(folder / "model")
    return tfsmith.load(lzma.decompress((CORPUS / name).read_bytes()))


BERTS = [
    "bert-base.pb.xz",
    "bert-one-hot.pb.xz",
    "bert-open-length.pb.xz",
    "models-bert.pb.xz",
    "models-bert-v2.pb.xz",
    "kerashub-bert.pb.xz",
    "transformers-bert.pb.xz",
]
"""Of Google's code, tf-models-official, KerasHub and transformers."""


@pytest.mark.parametrize("name", BERTS)
def test_they_compute_the_same(name: str, tmp_path: Path) -> None:
    model = opened(name, tmp_path)
    found = name_by_structure(model, weights_of(model, constants=True))
    assert found.model.family == "BERT"
    random = np.random.default_rng(3)
    fed = {
        "input_ids": random.integers(0, CONFIG.vocab_size, (2, 12)).astype(np.int32),
        "input_mask": np.array([[1] * 12, [1] * 5 + [0] * 7], np.int32),
        "segment_ids": random.integers(0, 2, (2, 12)).astype(np.int32),
    }
    order = _order(FACTS[name]["inputs"])
    if "segment_ids" not in order:
        fed["segment_ids"] = np.zeros_like(fed["segment_ids"])
    given = dict(zip(FACTS[name]["inputs"], (fed[key] for key in order), strict=True))
    (output,) = FACTS[name]["outputs"][:1]
    answers = tfsmith.run(model, given, outputs=[output], engine="reference")
    wanted = next(iter(answers.values()))
    sequence = reference._encode(CONFIG, found.weights, fed)
    counts = fed["input_mask"][:, :, None].astype(bool)  # what a hidden word becomes is nobody's business
    tolerance = 2e-3 if "erf" in str(found.model) else 1e-4  # the reference's GELU is by tanh
    np.testing.assert_allclose(
        np.where(counts, sequence, 0), np.where(counts, wanted, 0), atol=tolerance, rtol=tolerance
    )


def _order(names: list[str]) -> list[str]:
    """Which of our inputs each of a model's is."""
    kinds = {"mask": "input_mask", "type": "segment_ids", "segment": "segment_ids"}
    return [next((key for word, key in kinds.items() if word in name), "input_ids") for name in names]


@pytest.mark.parametrize(
    ("name", "task", "left_over"),
    [
        ("models-hub.tar.xz", "BertModel", 0),
        ("kerashub-bert-saved.tar.xz", "BertModel", 46),
        ("transformers-bert-saved.tar.xz", "BertModelWithoutPooler", 2),
    ],
)
def test_saved_models_for_transformers(name: str, task: str, left_over: int, tmp_path: Path) -> None:
    mapped = tfsmith.map_weights(opened(name, tmp_path), "huggingface-bert", config=json.loads(CONFIG.to_json()))
    assert (mapped.task, len(mapped.left_over)) == (task, left_over)
    assert len(mapped.weights) == 5 + 16 * 2 + (2 if task == "BertModel" else 0)
    assert mapped.weights["encoder.layer.1.intermediate.dense.weight"].shape.dims == (64, 32)


def test_what_is_left_over_is_named_by_its_variable(tmp_path: Path) -> None:
    report = weights(opened("transformers-bert-saved.tar.xz", tmp_path), map="huggingface-bert")
    assert "2 weights are left over: " in report.notes[-1]
    assert "bert/pooler/dense/kernel" in report.notes[-1]
    assert ".ATTRIBUTES" not in report.notes[-1]


OTHERS = {
    "transformers-roberta.pb.xz": "it is RoBERTa",
    "models-albert.pb.xz": "it is ALBERT",
    "kerashub-roberta.pb.xz": "its embeddings are not words, positions and types",
    "kerashub-distilbert.pb.xz": "its embeddings are not words, positions and types",
    "transformers-no-mobilebert.pb.xz": "no encoder is recognised",
    "transformers-no-gpt2.pb.xz": "no encoder is recognised",
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundInModelError, match=f"by structure this is no BERT: {OTHERS[name]}"):
        tfsmith.map_weights(opened(name, tmp_path), "huggingface-bert")
