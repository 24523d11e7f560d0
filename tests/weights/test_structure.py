"""Weights by what they do: a BERT whose names say nothing gets the names that its own names would have given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import InvalidModelError, NotFoundInModelError
from tfsmith.ir.model import Model
from tfsmith.testing.models import BertConfig, bert_classifier, conv_net
from tfsmith.testing.write import write_checkpoint_files, write_frozen

CONFIG = BertConfig.tiny()
SIZES: dict[str, Any] = json.loads(CONFIG.to_json())


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A frozen BERT as Google's code names it."""
    return tfsmith.load(write_frozen(bert_classifier(CONFIG), tmp_path_factory.mktemp("bert") / "bert.pb"))


@pytest.fixture(scope="module")
def nameless(named: Model) -> Model:
    """The same with numbers for names."""
    with named.edit() as editor:
        for number, name in enumerate(list(named.graph.by_name)):
            editor.rename(name, f"n{number}")
    return editor.model


def same(one: Any, other: Any) -> bool:
    return sorted(one) == sorted(other) and all(np.array_equal(one[key].numpy(), other[key].numpy()) for key in one)


@pytest.mark.parametrize("target", ["bert", "huggingface-bert"])
def test_names_do_not_matter(named: Model, nameless: Model, target: str) -> None:
    wanted = tfsmith.map_weights(named, target, config=SIZES)
    assert wanted.notes == ()  # by name
    found = tfsmith.map_weights(nameless, target, config=SIZES)
    assert same(wanted.weights, found.weights)
    assert (found.task, found.left_over) == (wanted.task, ())
    (note,) = found.notes
    assert note.startswith("the weights were named by what they do (BERT encoder of 2 layers")
    assert '"hidden_act": "gelu_new", "layer_norm_eps": 1e-12' in note


def test_load_bert_needs_no_names(named: Model, nameless: Model) -> None:
    assert same(tfsmith.load_bert(named, SIZES), tfsmith.load_bert(nameless, SIZES))


def test_the_config_is_checked(nameless: Model) -> None:
    with pytest.raises(InvalidModelError, match=r"bert/embeddings/word_embeddings.*vocab_size is 7"):
        tfsmith.map_weights(nameless, "huggingface-bert", config={**SIZES, "vocab_size": 7})


def test_what_has_no_part_in_it_is_left_over(
    nameless: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with nameless.edit() as editor:
        read = editor.add("Identity", [editor.const(np.ones((4, 3), np.float32), name="other")], name="other/read")
        editor.add("Identity", [read], name="unused")
    path = tmp_path / "more.pb"
    tfsmith.save(editor.model, path)
    assert main(["weights", str(path), "--map", "huggingface-bert", "-o", str(tmp_path / "m.safetensors")]) == 0
    assert "1 weights are left over: other" in capsys.readouterr().err
    assert main(["weights", str(path), "--map", "huggingface-bert", "--strict"]) == 2
    assert "1 weights are left over: other" in capsys.readouterr().err
    assert "other" not in tfsmith.load_weights(tmp_path / "m.safetensors")


def test_other_networks_are_no_bert(tmp_path: Path) -> None:
    path = write_frozen(conv_net(), tmp_path / "net.pb")
    with pytest.raises(NotFoundInModelError, match="by structure this is no BERT: no encoder is recognised"):
        tfsmith.map_weights(path, "huggingface-bert")


def test_weights_without_a_graph_have_names_only(tmp_path: Path) -> None:
    prefix = write_checkpoint_files(conv_net(), tmp_path)
    values = tfsmith.load_weights(prefix)
    tfsmith.save_weights(values, tmp_path / "w.npz")
    with pytest.raises(NotFoundInModelError, match="without a graph nothing says what each of them does"):
        tfsmith.map_weights(tmp_path / "w.npz", "huggingface-bert")


def test_another_scale_is_no_bert(nameless: Model) -> None:
    with nameless.edit() as editor:
        for node in list(nameless.graph):
            value = node.constant
            if value is not None and not value.shape.dims and value.dtype.name == "float32":
                number = float(value.numpy())
                if number == pytest.approx((CONFIG.hidden_size // CONFIG.num_attention_heads) ** -0.5):
                    editor.rewire(node.name, editor.const(np.float32(number * 2)))
    with pytest.raises(NotFoundInModelError, match=r"its scores are multiplied by .*, not by 1/sqrt\(head size\)"):
        tfsmith.map_weights(editor.model, "huggingface-bert")
