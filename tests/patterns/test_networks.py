"""What a model is said to be: on models that are built without TensorFlow, and on what must not be taken for one."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import InvalidModelError, NotFoundInModelError
from tfsmith.ir.body import Part
from tfsmith.ir.model import Model
from tfsmith.patterns.text_model import TextModel
from tfsmith.records import replace
from tfsmith.testing.models import BertConfig, bert_classifier, conv_net, linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model

CONFIG = BertConfig.tiny()
BERT = (
    f"BERT encoder of {CONFIG.num_hidden_layers} layers, hidden {CONFIG.hidden_size}, "
    f"heads {CONFIG.num_attention_heads}, intermediate {CONFIG.intermediate_size}, gelu tanh, epsilon 1e-12; "
    f"vocabulary {CONFIG.vocab_size}, {CONFIG.max_position_embeddings} positions, {CONFIG.type_vocab_size} types; "
    "pooler; classifier of 2"
)


def texts(model: Model | Path) -> list[str]:
    return [str(network) for network in tfsmith.show(model).architecture]


@pytest.mark.parametrize("kind", ["ref", "resource"])
def test_a_bert_and_its_heads(kind: Literal["ref", "resource"], tmp_path: Path) -> None:
    model = bert_classifier(CONFIG, variables=kind)
    assert texts(write_saved_model(model, tmp_path / "saved")) == [BERT]
    assert texts(write_frozen(model, tmp_path / "frozen.pb")) == [BERT]
    assert texts(write_checkpoint_files(model, tmp_path)) == [BERT]


CORPUS = Path(__file__).parents[1] / "data/encoders"
FAMILIES = {
    "bert-base": "BERT encoder",
    "models-bert-v2": "BERT encoder",
    "models-albert": "ALBERT encoder",
    "kerashub-bert": "BERT encoder",
    "kerashub-roberta": "encoder",  # its embeddings are those of DistilBERT, too
    "transformers-bert": "BERT encoder",
    "transformers-roberta": "RoBERTa encoder",
    "transformers-albert": "ALBERT encoder",
    "transformers-electra": "encoder",  # words are embedded in another width
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families_of_published_code(name: str) -> None:
    found = texts(tfsmith.load(lzma.decompress((CORPUS / f"{name}.pb.xz").read_bytes())))
    wanted = FAMILIES[name]
    assert [text.partition(" of ")[0] for text in found] == [wanted]
    assert all(
        "hidden 32, heads 4, intermediate 64" in text and "vocabulary 32, 24 positions" in text for text in found
    )


OTHERS = {
    "models-no-mobilebert": "transformer of 2 layers, heads 4 of size 4",
    "kerashub-no-deberta": "transformer of 2 layers",
    "transformers-no-decoder": "decoder of 2 layers, causal, cross attention, heads 4 of size 8",
    "transformers-no-gpt2": "decoder of 2 layers, causal, heads 4 of size 8",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_transformers_by_their_attentions(name: str) -> None:
    assert texts(tfsmith.load(lzma.decompress((CORPUS / f"{name}.pb.xz").read_bytes()))) == [OTHERS[name]]


def test_facts_and_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_saved_model(bert_classifier(CONFIG), tmp_path / "saved")
    (facts,) = tfsmith.show(path, architecture=True).facts["architecture"]
    assert facts["text"] == BERT
    assert (facts["family"], facts["kind"], facts["layers"]) == ("BERT", "encoder", CONFIG.num_hidden_layers)
    assert facts["embeddings"] == {"words": CONFIG.vocab_size, "positions": CONFIG.max_position_embeddings, "types": 2}
    assert facts["pooler"] is True
    assert facts["outputs_of"] == [{"kind": "classifier", "size": 2}]
    assert facts["signatures"] == ["serving_default"]
    assert main(["show", str(path), "--architecture"]) == 0
    assert capsys.readouterr().out == f"architecture\n  serving_default  {BERT}\n"


def test_the_first_word_is_not_any_word(tmp_path: Path) -> None:
    """A classifier of another word than the first has no pooler."""
    model = tfsmith.load(write_frozen(bert_classifier(CONFIG), tmp_path / "frozen.pb"))
    with model.edit() as editor:
        for node in [node for node in model.graph if node.op == "StridedSlice" and "pooler" in node.name]:
            editor.rewire(node.inputs[1], editor.const(np.array([0, 1, 0], np.int32)))
            editor.rewire(node.inputs[2], editor.const(np.array([0, 2, 0], np.int32)))
    (network,) = tfsmith.show(editor.model).architecture
    assert isinstance(network.found, TextModel)
    assert network.found.pooler is None
    assert network.found.heads == ()


def test_a_small_convolutional_net(tmp_path: Path) -> None:
    (text,) = texts(write_saved_model(conv_net(), tmp_path / "saved"))
    assert text.startswith("convolutional net, ")
    assert "encoder" not in text


def test_what_is_not_recognised_gets_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_saved_model(linear_regression(), tmp_path / "saved")
    assert texts(path) == []
    assert main(["show", str(path), "--architecture"]) == 0
    assert "nothing was recognised" in capsys.readouterr().out


def test_a_checkpoint_alone_has_no_architecture(tmp_path: Path) -> None:
    prefix = write_checkpoint_files(linear_regression(), tmp_path)
    prefix.with_name(f"{prefix.name}.meta").unlink()
    with pytest.raises(NotFoundInModelError, match="graph"):
        _ = tfsmith.show(prefix).architecture


def test_a_damaged_graph_is_an_error_and_no_crash(tmp_path: Path) -> None:
    model = tfsmith.load(write_frozen(bert_classifier(CONFIG), tmp_path / "frozen.pb"))
    for op in ("Softmax", "GatherV2", "StridedSlice", "MatMul", "Tanh"):
        node = next(node for node in model.graph if node.op == op)
        graph = model.graph.map_nodes({node.name: node.replace(inputs=node.inputs[:-1])})
        meta = replace(model.meta, graph_part=Part.of(graph))
        with pytest.raises(InvalidModelError, match=f"op {op} takes"):
            _ = tfsmith.show(replace(model, meta_graphs=(meta,))).architecture
