"""`--map huggingface`: what transformers itself makes of its `tf_model.h5`, name by name and byte by byte."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path

import numpy
import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import InvalidModelError, NotFoundInModelError, UsageError
from tfsmith.weights.huggingface import pytorch_name

DATA = Path(__file__).parents[1] / "data/huggingface"
NAMES = sorted(path.name.removesuffix(".h5.xz") for path in DATA.glob("*.h5.xz"))
BUFFERS = re.compile(r"final_logits_bias|\.running_(mean|var)$|\.relative_position_index$")
"""No parameters in PyTorch, so transformers leaves them as they begin; ours are what the file holds."""
COUNTERS = ".num_batches_tracked"
"""How often PyTorch saw a batch, which TensorFlow does not count."""
NORMS = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
"""PyTorch's own new names of normed kernels; transformers takes the old ones, which files on hubs have."""


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    name = request.param
    for ending in (".h5", ".safetensors"):
        (tmp_path / f"tf_model{ending}").write_bytes(lzma.decompress((DATA / f"{name}{ending}.xz").read_bytes()))
    (tmp_path / "config.json").write_bytes((DATA / f"{name}.json").read_bytes())
    return tmp_path


@pytest.mark.parametrize("with_config", [True, False])
@pytest.mark.parametrize("folder", NAMES, indirect=True)
def test_as_transformers_converts_it(folder: Path, with_config: bool) -> None:
    if not with_config:
        (folder / "config.json").unlink()
    assert (
        main(["weights", str(folder / "tf_model.h5"), "--map", "huggingface", "-o", str(folder / "ours.safetensors")])
        == 0
    )
    ours, stored = (tfsmith.load_weights(folder / name) for name in ("ours.safetensors", "tf_model.safetensors"))
    theirs = {_plain(name): tensor for name, tensor in stored.items() if not name.endswith(COUNTERS)}
    assert set(ours) == set(theirs)
    assert ours.metadata["format"] == "pt"
    for name, tensor in theirs.items():
        assert ours[name].shape == tensor.shape, name
        if not BUFFERS.search(name):
            assert ours[name].numpy().tobytes() == tensor.numpy().tobytes(), name


def _plain(name: str) -> str:
    for new, old in NORMS.items():
        name = name.replace(new, old)
    return name


def test_all_ten_architectures_are_there() -> None:
    wanted = {"albert", "bart", "bert", "distilbert", "electra", "gpt2", "roberta", "t5", "vit", "whisper"}
    assert wanted <= set(NAMES)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "bert/encoder/layer_._0/attention/self/query/kernel:0",
            "bert.encoder.layer.0.attention.self.query.weight",
        ),
        ("tf_bert_model/bert/embeddings/LayerNorm/gamma:0", "bert.embeddings.LayerNorm.weight"),
        ("tf_bert_for_masked_lm/mlm___cls/predictions/bias:0", "cls.predictions.bias"),
        ("final_logits_bias:0", "final_logits_bias"),
        ("shared/shared/embeddings:0", "shared.weight"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert pytorch_name(name) == expected


@pytest.mark.parametrize("folder", ["bert"], indirect=True)
def test_a_config_of_another_model_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads((folder / "config.json").read_text())
    for field, says in (("vocab_size", "20 rows"), ("hidden_size", "8 columns"), ("num_hidden_layers", "2 layers")):
        with pytest.raises(InvalidModelError) as caught:
            tfsmith.map_weights(folder / "tf_model.h5", "huggingface", config={**config, field: 6})
        assert says in str(caught.value)
        assert f"the config says {field} is 6" in str(caught.value)
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 99}))
    assert main(["weights", str(folder / "tf_model.h5"), "--map", "huggingface"]) == 2
    assert "vocab_size is 99" in capsys.readouterr().err


def test_names_of_others_are_refused_and_left_overs_are_listed(tmp_path: Path) -> None:
    zeros = numpy.zeros((2, 3), "float32")
    with pytest.raises(NotFoundInModelError, match="not the names that transformers gives"):
        tfsmith.map_weights({"dense/kernel": zeros}, "huggingface")
    weights = {"tf_bert_model/bert/x_._0/kernel": zeros, "optimizer_weights/Adam/m/x": zeros}
    mapped = tfsmith.map_weights(weights, "huggingface")
    assert list(mapped.weights) == ["x.0.weight"]
    assert mapped.left_over == ("optimizer_weights/Adam/m/x",)
    with pytest.raises(NotFoundInModelError, match="1 weights are left over: optimizer_weights/Adam/m/x"):
        tfsmith.map_weights(weights, "huggingface", strict=True)
    twins = {"tf_bert_model/bert/a/kernel": zeros, "tf_bert_model_1/bert/a/kernel": zeros + 1}
    with pytest.raises(InvalidModelError, match="but their values differ"):
        tfsmith.map_weights(twins, "huggingface")
    with pytest.raises(UsageError, match="does not go with the map 'huggingface'"):
        tfsmith.map_weights(weights, "huggingface", reverse=True)


@pytest.mark.parametrize("folder", ["vit", "gpt2"], indirect=True)
def test_a_drafted_map_does_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = folder / "tf_model.h5", folder / "tf_model.safetensors"
    assert main(["weights", str(first), "--draft-map", str(second)]) == 0
    (folder / "map.toml").write_text(capsys.readouterr().out)
    mapped = tfsmith.map_weights(first, folder / "map.toml")
    found = tfsmith.compare_weights(mapped.weights, second)
    assert [
        one.name for one in found if one.verdict != "same"
    ] == []  # rows that PyTorch has without their first axis, too
    back = tfsmith.map_weights(mapped.weights, folder / "map.toml", reverse=True).weights
    stored = tfsmith.load_weights(first)
    assert len(back) == len(mapped.weights)
    assert all(tensor.shape == stored[name].shape for name, tensor in back.items())
    assert all(tensor.numpy().tobytes() == stored[name].numpy().tobytes() for name, tensor in back.items())


def test_a_guess_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = numpy.random.default_rng(1)
    one = {"a/dense/kernel": random.normal(size=(3, 5)), "a/dense/bias": random.normal(size=5)}
    other = {"a.dense.weight": random.normal(size=(5, 3)), "a.dense.bias": one["a/dense/bias"], "b": numpy.zeros(9)}
    tfsmith.save_weights(one, tmp_path / "one.npz")
    tfsmith.save_weights(other, tmp_path / "other.npz")
    assert main(["weights", str(tmp_path / "one.npz"), "--draft-map", str(tmp_path / "other.npz")]) == 0
    told = capsys.readouterr()
    assert '# a guess, by shape and name: the values differ\n[[rules]]\nfrom = "a/dense/kernel"' in told.out
    assert "transpose = true" in told.out
    assert "# without a source: b" in told.out
    assert "1 weights are without a source" in told.err
