"""Maps of weights: names, shapes and values; what is missing or left over; the way back; `load_bert`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import (
    InvalidModelError,
    NotFoundInModelError,
    TfsmithError,
    UnreadableFileError,
    UsageError,
    WrongFileError,
)
from tfsmith.ir.tensor import ArrayTensor, Tensor, Weights
from tfsmith.testing import reference
from tfsmith.testing.models import BertConfig, bert_classifier
from tfsmith.testing.write import write_checkpoint_files, write_frozen
from tfsmith.weights.maps import builtin_map, builtin_maps, parse_map

CONFIG = BertConfig.tiny()
SIZES: dict[str, Any] = json.loads(CONFIG.to_json())
HIDDEN, VOCABULARY = CONFIG.hidden_size, CONFIG.vocab_size
HEADS = {
    "PRETRAINING": {
        "cls/predictions/transform/dense/kernel": (HIDDEN, HIDDEN),
        "cls/predictions/transform/dense/bias": (HIDDEN,),
        "cls/predictions/transform/LayerNorm/gamma": (HIDDEN,),
        "cls/predictions/transform/LayerNorm/beta": (HIDDEN,),
        "cls/predictions/output_bias": (VOCABULARY,),
        "cls/seq_relationship/output_weights": (2, HIDDEN),
        "cls/seq_relationship/output_bias": (2,),
    },
    "SQUAD": {"cls/squad/output_weights": (2, HIDDEN), "cls/squad/output_bias": (2,)},
    "CLASSIFIER": {"output_weights": (3, HIDDEN), "output_bias": (3,)},
    "ENCODER": {},
}
HUGGING_FACE = {
    "PRETRAINING": "BertForPreTraining",
    "SQUAD": "BertForQuestionAnswering",
    "CLASSIFIER": "BertForSequenceClassification",
    "ENCODER": "BertModel",
}
LAYER = "bert/encoder/layer_1"


def bert(task: str, seed: int = 0) -> Weights:
    """A BERT of strong random weights: with weak ones, wrong maps would hardly change what it computes."""
    random = np.random.default_rng(seed)
    variables = bert_classifier(CONFIG).model.variables
    shapes = {name: tensor.shape.dims or () for name, tensor in variables.items() if not name.startswith("output_")}
    tensors: dict[str, Tensor] = {}
    for name, dims in {**shapes, **HEADS[task]}.items():
        values = random.standard_normal(dims, np.float32) * (1.0 if "embeddings" in name else 0.4)
        tensors[name] = ArrayTensor.of(values + 1 if name.endswith("gamma") else values)
    return Weights(tensors)


def values(weights: Mapping[str, Tensor], name: str) -> Any:
    return weights[name].numpy()


@pytest.mark.parametrize("task", list(HEADS))
def test_bert_is_complete_and_chosen_by_its_head(task: str) -> None:
    weights = bert(task)
    extra: dict[str, Tensor] = {f"{LAYER}/output/dense/bias/adam_m": ArrayTensor.of([0.0])}
    extra |= {"global_step": ArrayTensor.of(7), "something/else": ArrayTensor.of(7)}
    mapped = tfsmith.map_weights(Weights({**weights, **extra}), "bert", config=SIZES)
    assert (mapped.task, mapped.left_over) == (task, ("something/else",))
    assert set(mapped.weights) == set(weights)
    assert set(mapped.dropped) == {"global_step", f"{LAYER}/output/dense/bias/adam_m"}


def _google(name: str) -> tuple[str, bool]:
    """Google's name of one of transformers' weights, and whether it lies transposed: written without the map."""
    name = name if name.startswith(("bert.", "cls.", "classifier.", "qa_outputs.")) else f"bert.{name}"
    for old, new in (("classifier.weight", "output_weights"), ("classifier.bias", "output_bias")):
        if name == old:
            return new, False
    if name.startswith("qa_outputs."):
        return f"cls/squad/output_{'weights' if name.endswith('weight') else 'bias'}", False
    if name.startswith("cls.seq_relationship."):
        return f"cls/seq_relationship/output_{'weights' if name.endswith('weight') else 'bias'}", False
    if name in ("cls.predictions.bias", "cls.predictions.decoder.bias"):
        return "cls/predictions/output_bias", False
    if name == "cls.predictions.decoder.weight":
        return "bert/embeddings/word_embeddings", False
    path = name.replace(".layer.", ".layer_").split(".")
    if path[-2] == "LayerNorm":
        return "/".join([*path[:-1], {"weight": "gamma", "bias": "beta"}[path[-1]]]), False
    if path[-2].endswith("_embeddings"):
        return "/".join(path[:-1]), False
    return "/".join([*path[:-1], {"weight": "kernel", "bias": "bias"}[path[-1]]]), path[-1] == "weight"


@pytest.mark.parametrize("task", list(HEADS))
def test_hugging_face(task: str) -> None:
    weights = bert(task)
    mapped = tfsmith.map_weights(weights, "huggingface-bert", config=SIZES, strict=True)
    assert mapped.task == HUGGING_FACE[task]
    assert mapped.weights.metadata == {"format": "pt"}
    for name, tensor in mapped.weights.items():
        google, transposed = _google(name)
        wanted = values(weights, google)
        np.testing.assert_array_equal(tensor.numpy(), wanted.T if transposed else wanted, name)
    lost = set(weights) - {_google(name)[0] for name in mapped.weights}
    assert lost == ({"bert/pooler/dense/kernel", "bert/pooler/dense/bias"} if task == "SQUAD" else set())


def _probabilities(weights: Mapping[str, Tensor]) -> Any:
    feeds = bert_classifier(CONFIG).example_inputs(batch=4)
    return reference.bert_classifier(CONFIG, weights, feeds)["probabilities"]


def test_the_exported_file_computes_the_same(tmp_path: Path) -> None:
    """Through a file, and by another reading of its names; and a wrong one would be noticed."""
    weights = bert("CLASSIFIER")
    mapped = tfsmith.map_weights(weights, "huggingface-bert", config=SIZES).weights
    tfsmith.save_weights(mapped, tmp_path / "model.safetensors", max_shard_bytes=4000)
    found = tfsmith.load_weights(tmp_path / "model.safetensors.index.json")

    def read(skip: str = "") -> dict[str, Tensor]:
        read: dict[str, Tensor] = {}
        for name, tensor in found.items():
            google, transposed = _google(name)
            array = tensor.numpy()
            read[google] = ArrayTensor.of(array.T if transposed and google != skip else array)
        return read

    wanted = _probabilities(weights)
    assert wanted.std(0).min() > 0.01, "the inputs do not matter, so neither would a wrong map"
    np.testing.assert_allclose(_probabilities(read()), wanted, atol=1e-6)
    for kernel in ("attention/self/query", "attention/self/value", "attention/output/dense"):
        wrong = _probabilities(read(skip=f"{LAYER}/{kernel}/kernel"))
        assert np.abs(wrong - wanted).max() > 1e-3, kernel


def test_transformers_load_it_and_compute_the_same(tmp_path: Path) -> None:
    """The real thing, where it is installed."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; the numpy reference stands in for it")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    for task, name in HUGGING_FACE.items():
        folder = tmp_path / name
        folder.mkdir()
        weights = bert(task)
        tfsmith.save_weights(tfsmith.map_weights(weights, "huggingface-bert").weights, folder / "model.safetensors")
        labels = {str(number): str(number) for number in range(3 if task == "CLASSIFIER" else 2)}
        facts = {**SIZES, "model_type": "bert", "hidden_act": "gelu_new", "id2label": labels}
        (folder / "config.json").write_text(json.dumps(facts))
        model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
        assert not any(info.values()), info
        if task != "CLASSIFIER":
            continue
        feeds = bert_classifier(CONFIG).example_inputs(batch=4)
        keys = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
        with torch.no_grad():
            answer = model.eval()(**{key: torch.tensor(feeds[feed]).long() for key, feed in keys.items()})
        found = torch.softmax(answer.logits, -1).numpy()
        np.testing.assert_allclose(found, _probabilities(weights), atol=1e-5)


@pytest.mark.parametrize("task", list(HEADS))
def test_hugging_face_and_back(task: str) -> None:
    weights = bert(task)
    there = tfsmith.map_weights(weights, "huggingface-bert").weights
    back = tfsmith.map_weights(there, "huggingface-bert", config=SIZES, reverse=True, strict=True)
    assert back.task == HUGGING_FACE[task]
    wanted = {name: tensor for name, tensor in weights.items() if task != "SQUAD" or "pooler" not in name}
    assert {one.verdict for one in tfsmith.compare_weights(wanted, back.weights)} == {"same"}


def test_graphcore_joins_query_key_and_value() -> None:
    weights = bert("PRETRAINING")
    mapped = tfsmith.map_weights(weights, "graphcore-bert", config=SIZES, strict=True)
    assert mapped.task == "PRETRAINING"
    parts = [values(weights, f"{LAYER}/attention/self/{name}/kernel") for name in ("query", "key", "value")]
    np.testing.assert_array_equal(values(mapped.weights, "Layer1/Attention/QKV"), np.concatenate(parts, 1))
    biases = [values(weights, f"{LAYER}/attention/self/{name}/bias") for name in ("query", "key", "value")]
    np.testing.assert_array_equal(values(mapped.weights, "Layer1/Attention/QKV_Bias"), np.concatenate(biases))
    wanted = values(weights, "cls/seq_relationship/output_weights").T
    np.testing.assert_array_equal(values(mapped.weights, "NSP/NspW"), wanted)
    squad = tfsmith.map_weights(bert("SQUAD"), "graphcore-bert", config=SIZES, strict=True)
    assert squad.task == "SQUAD"
    assert squad.weights["Squad/SquadW"].shape.dims == (HIDDEN, 2)
    assert not [name for name in squad.weights if name.startswith(("NSP", "CLS"))]


@pytest.mark.parametrize("rows", [VOCABULARY - 7, VOCABULARY, VOCABULARY + 5])
def test_graphcore_pads_or_crops_the_vocabulary(rows: int) -> None:
    weights = bert("SQUAD")
    mapped = tfsmith.map_weights(weights, "graphcore-bert", config={**SIZES, "vocab_size": rows})
    found, whole = (
        values(mapped.weights, "Embedding/Embedding_Dict"),
        values(weights, "bert/embeddings/word_embeddings"),
    )
    assert found.shape == (rows, HIDDEN)
    np.testing.assert_array_equal(found[:VOCABULARY], whole[:rows])
    assert not found[VOCABULARY:].any()


def test_graphcore_and_back() -> None:
    weights = bert("SQUAD")
    there = tfsmith.map_weights(weights, "graphcore-bert", config=SIZES).weights
    back = tfsmith.map_weights(there, "graphcore-bert", config=SIZES, reverse=True, strict=True).weights
    for name in back:
        np.testing.assert_array_equal(values(back, name), values(weights, name))
    assert set(weights) - set(back) == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}


@pytest.mark.parametrize(
    ("field", "size", "words"),
    [
        ("vocab_size", 31, r"word_embeddings'.*\[30, 16\], but the config says \[31, 16\]: vocab_size is 31"),
        ("hidden_size", 18, r"word_embeddings'.*\[30, 16\], but the config says \[30, 18\]: hidden_size is 18"),
        ("intermediate_size", 64, r"\[16, 32\], but the config says \[16, 64\]: intermediate_size is 64"),
        ("type_vocab_size", 3, r"token_type_embeddings'.*type_vocab_size is 3"),
        ("max_position_embeddings", 512, r"\[20, 16\].*\[512, 16\]: max_position_embeddings is 512"),
        ("num_hidden_layers", 1, "it is of layer 1, but the config says num_hidden_layers is 1"),
    ],
)
def test_a_wrong_config_is_named(field: str, size: int, words: str) -> None:
    with pytest.raises(InvalidModelError, match=words):
        tfsmith.map_weights(bert("CLASSIFIER"), "bert", config={**SIZES, field: size})
    if field != "vocab_size":
        with pytest.raises(InvalidModelError, match=words):
            tfsmith.map_weights(bert("SQUAD"), "graphcore-bert", config={**SIZES, field: size})


def test_missing_weights_are_named() -> None:
    config = {**SIZES, "num_hidden_layers": 3}
    with pytest.raises(NotFoundInModelError, match=r"16 weights .* missing: bert/encoder/layer_2/attention/self/query"):
        tfsmith.map_weights(bert("CLASSIFIER"), "bert", config=config)
    weights = dict(bert("CLASSIFIER"))
    del weights[f"{LAYER}/attention/self/key/bias"]
    for name in ("bert", "huggingface-bert"):
        with pytest.raises(NotFoundInModelError, match=f"1 weights .* missing: {LAYER}/attention/self/key/bias"):
            tfsmith.map_weights(weights, name)
    with pytest.raises(
        NotFoundInModelError, match=r"task BertForPreTraining .* cls/predictions/transform/dense/kernel"
    ):
        tfsmith.map_weights(bert("CLASSIFIER"), "huggingface-bert", task="BertForPreTraining")
    with pytest.raises(UsageError, match="no task 'Bert'; its tasks are: BertForQuestionAnswering"):
        tfsmith.map_weights(bert("CLASSIFIER"), "huggingface-bert", task="Bert")


def test_strict_names_what_is_left_over() -> None:
    weights = {**bert("CLASSIFIER"), "something/else": ArrayTensor.of(7)}
    with pytest.raises(NotFoundInModelError, match="1 weights are left over: something/else"):
        tfsmith.map_weights(weights, "huggingface-bert", strict=True)


@pytest.mark.parametrize("name", builtin_maps())
def test_maps_that_come_along_are_sound(name: str) -> None:
    found = builtin_map(name)
    assert found.name == name
    assert found.description
    for task in [one.name for one in found.tasks] or [""]:
        rules = [rule for rule in found.rules if not rule.tasks or task in rule.tasks]
        targets = [target for rule in rules for target in rule.targets]
        assert len(set(targets)) == len(targets), task


OWN = """
name = "mine"
drop_training = true
[layers]
n = "layers"
[[rules]]
from = "l{n}/w"
to = ["{n}.a", "{n}.b"]
axis = 1
transpose = true
[[rules]]
from = "l{n}/b"
to = "{n}.bias"
cast = "float16"
optional = true
[[rules]]
from = "rest/{name:path}"
to = "other.{name}"
optional = true
"""


def test_a_rule_reshapes_both_ways_what_has_that_shape() -> None:
    text = 'name = "rows"\n[[rules]]\nfrom = "b"\nto = "bias"\nreshape = [[1, 4], [4]]\n'
    row = np.arange(4, dtype=np.float32).reshape(1, 4)
    rows = parse_map(text, "rows.toml")
    made = tfsmith.map_weights({"b": row}, rows).weights
    np.testing.assert_array_equal(made["bias"].numpy(), row[0])
    np.testing.assert_array_equal(tfsmith.map_weights(made, rows, reverse=True).weights["b"].numpy(), row)
    with pytest.raises(TfsmithError, match=r"its shape is \[1, 2\], but the map reshapes \[1, 4\]"):
        tfsmith.map_weights({"b": row[:, :2]}, rows)
    for wrong in ("[[1, 4], [5]]", "[[1, 4]]", "[4]", '[[1, "4"], [4]]', "[[true], [1]]"):
        with pytest.raises(UsageError, match="no pair of shapes"):
            parse_map(text.replace("[[1, 4], [4]]", wrong), "rows.toml")


def test_a_map_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = np.arange(12, dtype=np.float32).reshape(2, 6)
    weights = {"l0/w": one, "l10/w": -one, "l0/b": np.float32([1, 2]), "rest/x/y": one, "l0/w/Adam": one}  # type: ignore[arg-type]
    tfsmith.save_weights({name: ArrayTensor.of(array) for name, array in weights.items()}, tmp_path / "w.npz")
    (tmp_path / "mine.toml").write_text(OWN)
    arguments = ["weights", str(tmp_path / "w.npz"), "--map", str(tmp_path / "mine.toml"), "--strict"]
    assert main([*arguments, "-o", str(tmp_path / "out.safetensors")]) == 0
    found = tfsmith.load_weights(tmp_path / "out.safetensors")
    assert sorted(found) == ["0.a", "0.b", "0.bias", "10.a", "10.b", "other.x/y"]
    np.testing.assert_array_equal(values(found, "0.b"), one[:, 3:].T)
    assert found["0.bias"].dtype.name == "float16"
    back = ["weights", str(tmp_path / "out.safetensors"), "--map", str(tmp_path / "mine.toml"), "--reverse"]
    assert main([*back, "-o", str(tmp_path / "back.npz")]) == 0
    np.testing.assert_array_equal(values(tfsmith.load_weights(tmp_path / "back.npz"), "l0/w"), one)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", "no sound TOML"),
        ("[[rules]]\nfrom = 'a'\nto = 'b'\ntranspsoe = true", "'transpsoe', which means nothing here .*'transpose'"),
        ("[[rules]]\nfrom = 'a'", "needs one name on one side"),
        ("[[rules]]\nfrom = ['a', 'b']\nto = ['c', 'd']", "needs one name on one side"),
        ("[[rules]]\nfrom = 1\nto = 'b'", "not a name or a list"),
        ("[[rules]]\nfrom = 'a'\nto = 'b'\naxis = -1", "axis -1"),
        ("[[rules]]\nfrom = 'a'\nto = 'b'\ntasks = ['X']", "no task 'X'"),
        ("[[rules]]\nfrom = 'a'\nto = 'b'\nshape = 3", "not a list"),
        ("rules = 3", "not a list of tables"),
        ("[[tasks]]\nwhen = 'x'", "a task has no name"),
        ("[layers]\nn = 3", "not text by key"),
        ("drop_training = 3", "not true or false"),
    ],
)
def test_maps_that_make_no_sense(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_map(text, "mine")


@pytest.mark.parametrize(
    ("rule", "error", "words"),
    [
        ("from = 'a{n:thing}'\nto = 'b'", UsageError, "no known kind"),
        ("from = 'w{n}'\nto = 'b{m}'", UsageError, "not on the other side"),
        ("from = 'w{n}'\nto = 'b'", UsageError, "two rules make 'b'"),
        ("from = 'w0'\nto = ['a', 'b', 'c', 'd']\naxis = 1", InvalidModelError, "no 4 equal parts along axis 1"),
        ("from = ['w0', 'v']\nto = 'x'", InvalidModelError, "cannot be joined"),
        ("from = ['v', 'v']\nto = 'x'\naxis = 3", InvalidModelError, "axis 3"),
        ("from = 'w0'\nto = 'x'\nrows = 'nothing'", UsageError, "the config has no 'nothing'"),
        ("from = 'w0'\nto = 'x'\nshape = ['?', '!']", UsageError, "'!' is no size"),
        ("from = 'w0'\nto = 'x'\nshape = ['?', '2*size']", InvalidModelError, r"\[2, 3\].*\[\?, 8\]: size is 4"),
        ("from = 'w0'\nto = 'x'\nshape = ['?']", InvalidModelError, r"its shape is \[2, 3\]"),
    ],
)
def test_rules_that_do_not_fit(rule: str, error: type[Exception], words: str) -> None:
    array = np.zeros((2, 3), np.float32)
    weights = {"w0": ArrayTensor.of(array), "w1": ArrayTensor.of(array), "v": ArrayTensor.of(array[0])}
    with pytest.raises(error, match=words):
        tfsmith.map_weights(weights, parse_map(f"[[rules]]\n{rule}", "mine"), config={"size": 4})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A classifier as a user has it."""
    model = bert_classifier(CONFIG, global_step=3)
    write_checkpoint_files(model, tmp_path / "training")
    write_frozen(model, tmp_path / "frozen.pb")
    (tmp_path / "training" / "bert_config.json").write_text(CONFIG.to_json())
    return tmp_path


def test_load_bert(folder: Path) -> None:
    config = folder / "training" / "bert_config.json"
    found = tfsmith.load_bert(folder / "training")  # the config lies beside it
    assert len(found) == 41
    frozen = tfsmith.load_bert(folder / "frozen.pb", config=config, task="CLASSIFIER")
    assert {one.verdict for one in tfsmith.compare_weights(found, frozen)} == {"same"}
    with pytest.raises(NotFoundInModelError, match=r"cls/squad/output_weights, cls/squad/output_bias"):
        tfsmith.load_bert(folder / "frozen.pb", config, "SQUAD")
    names = set(tfsmith.load_bert(folder / "training", map="huggingface-bert"))
    assert "bert.encoder.layer.1.attention.self.query.weight" in names
    with pytest.raises(UnreadableFileError, match=r"bert_config\.json"):
        tfsmith.load_bert(folder / "frozen.pb")


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (b"{", UsageError, "no sound JSON"),
        (b"[]", UsageError, "no JSON object"),
        (b"\xff\xfe", WrongFileError, "no text"),
        (b"{}", UsageError, "the config has no "),
        (b'{"hidden_size": 16, "num_attention_heads": 3}', UsageError, "does not split into num_attention_heads 3"),
        (b'{"vocab_size": "30"}', UsageError, "vocab_size is '30', which is no size"),
        (b'{"vocab_size": 30, "hidden_size": -1}', UsageError, "hidden_size is -1"),
    ],
)
def test_configs_that_make_no_sense(folder: Path, text: bytes, error: type[Exception], words: str) -> None:
    (folder / "bad.json").write_bytes(text)
    with pytest.raises(error, match=words):
        tfsmith.load_bert(folder / "training", folder / "bad.json")


def run(capsys: pytest.CaptureFixture[str], code: int, *arguments: str | Path) -> str:
    assert main(["weights", *map(str, arguments)]) == code
    return capsys.readouterr().err


def test_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training, output = folder / "training", folder / "out.safetensors"
    config = training / "bert_config.json"
    assert "--config goes with --map" in run(capsys, 2, training, "--config", config)
    assert "there is no map 'brt'; there are bert" in run(capsys, 2, training, "--map", "brt")
    broken = {**bert("CLASSIFIER"), "x": ArrayTensor.of(1.0)}
    tfsmith.save_weights(broken, folder / "x.npz")
    assert run(capsys, 0, folder / "x.npz", "--map", "bert") == "warning: 1 weights are left over: x\n"
    wrong = folder / "wrong.json"
    wrong.write_text(json.dumps({**SIZES, "vocab_size": 99}))
    told = run(capsys, 2, training, "--map", "huggingface-bert", "--config", wrong, "-o", output)
    assert "vocab_size is 99" in told
    assert not output.exists()


def _spoil(values: Any) -> Any:
    spoiled = values.copy()
    spoiled.reshape(-1)[:2] = [np.nan, np.inf]
    return spoiled


def test_nans_are_named_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil: Callable[[Any], Any] = _spoil
    weights = dict(bert("CLASSIFIER"))
    weights["output_weights"] = ArrayTensor.of(spoil(weights["output_weights"].numpy()))
    tfsmith.save_weights(weights, tmp_path / "w.npz")
    told = run(capsys, 2, tmp_path / "w.npz", "--map", "bert", "--finite", "-o", tmp_path / "out.safetensors")
    assert "not finite: 'output_weights' (1 NaN, 1 infinite)" in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w.npz"]
