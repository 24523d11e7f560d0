"""Builds the graphs of `tests/data/encoders`: small encoders, each by the public code of its package.

    python tools/make_encoder_corpus.py                            makes an environment for each package, with pip
    python tools/make_encoder_corpus.py transformers               builds only what is of this package
    python tools/make_encoder_corpus.py --python kerashub=PYTHON   takes an environment that is there
    python -m tools.make_encoder_corpus --count                    counts what tfsmith finds in them, and builds nothing

A model has two layers of 32 values, four heads and an inner layer of 64. Its weights follow from a seed and have few
different values, so that the files stay small. Each is written frozen, as a GraphDef, or as the archive of a
SavedModel, both compressed; `PROVENANCE.json` says of each what it was made of, and how.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import tempfile
import types
import venv
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "tests/data/encoders"
LAYERS, WIDTH, HEADS, INNER, WORDS, LENGTH, FACTOR = 2, 32, 4, 64, 32, 24, 16

ENVIRONMENTS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "bert": ("bert-tensorflow", ("tensorflow-cpu==2.19.1", "tf-keras==2.19.0", "six"), ("bert-tensorflow==1.0.4",)),
    "models": (
        "tf-models-official",
        ("tensorflow-cpu==2.19.1", "tf-keras==2.19.0", "tensorflow-hub", "gin-config", "scipy", "six", "pyyaml"),
        ("tensorflow-text==2.19.0", "tf-models-official==2.19.1"),
    ),
    "kerashub": ("keras-hub", ("tensorflow-cpu==2.21.0", "keras==3.15.1", "keras-hub==0.32.0"), ()),
    "transformers": ("transformers", ("tensorflow-cpu==2.19.1", "tf-keras==2.19.0", "transformers==4.49.0"), ()),
    "bert4keras": ("bert4keras", ("tensorflow-cpu==2.19.1", "tf-keras==2.19.0"), ("bert4keras==0.11.5",)),
    "toolkit4nlp": ("toolkit4nlp", ("tensorflow-cpu==2.19.1", "tf-keras==2.19.0"), ("toolkit4nlp==0.5.0",)),
    "kerasbert": (
        "keras-bert",
        ("tensorflow-cpu==2.19.1", "tf-keras==2.19.0"),
        (
            *("keras-bert==0.89.0", "keras-transformer==0.40.0", "keras-multi-head==0.29.0"),
            *("keras-layer-normalization==0.16.0", "keras-pos-embd==0.13.0", "keras-embed-sim==0.10.0"),
            *("keras-position-wise-feed-forward==0.8.0", "keras-self-attention==0.51.0"),
        ),
    ),
    "bertfortf2": (
        "bert-for-tf2",
        ("tensorflow-cpu==2.19.1", "tf-keras==2.19.0"),
        ("bert-for-tf2==0.14.9", "params-flow==0.8.2", "py-params==0.10.2"),
    ),
}
"""By the name of a group: its package, what is installed with all that it needs, and what is installed alone."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(ENVIRONMENTS)}; all by default")
    parser.add_argument("--python", action="append", default=[], metavar="GROUP=PYTHON")
    parser.add_argument("--inside", action="store_true", help="build here, in an environment that has the package")
    parser.add_argument("--count", action="store_true", help="count what is found in the graphs that are there")
    given = parser.parse_args()
    if given.count:
        print_counts()
        return
    if given.inside:
        build(given.groups[0])
        return
    pythons = dict(text.split("=", 1) for text in given.python)
    with tempfile.TemporaryDirectory() as scratch:
        for group in given.groups or ENVIRONMENTS:
            python = pythons.get(group) or make_environment(group, Path(scratch) / group)
            subprocess.run([python, __file__, "--inside", group], check=True)


# counting

Counts = dict[str, tuple[int, int]]
"""How many were found and how many there are, by what."""


def count(path: Path, note: dict[str, Any]) -> Counts:
    """What the recipes find in what a model serves, against what its configuration says."""
    import tfsmith

    model = tfsmith.load(path)
    if model.kind == "saved_model":
        model = tfsmith.freeze(model).model
    config = note["config"]
    gelus = 0 if config.get("hidden_act") == "relu" else LAYERS
    found = {name: len(tfsmith.find(model, name)) for name in ("layer-norm", "gelu-erf", "gelu-tanh", "attention")}
    encoders = tfsmith.find(model, "bert-encoder").matches
    return {
        "encoders": (int(sum(len(one.units) for one in encoders) == LAYERS), 1),  # cut where a layer is an output, too
        "layer norms": (found["layer-norm"], 2 * LAYERS + 1),
        "GELUs": (found["gelu-erf"] + found["gelu-tanh"], gelus),
        "attentions": (found["attention"], LAYERS),
    }


def unpacked(name: str, folder: Path) -> Path:
    """The file or folder of a model of the corpus."""
    data = lzma.decompress((FOLDER / name).read_bytes())
    if name.endswith(".pb.xz"):
        path = folder / "model.pb"
        path.write_bytes(data)
        return path
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "model"


def print_counts() -> None:
    total: Counts = {}
    for name, note in read_notes().items():
        if "-no-" in name:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            counts = count(unpacked(name, Path(scratch)), note)
        print(f"{name:<36}", ", ".join(f"{one} of {all_} {what}" for what, (one, all_) in counts.items()))
        for what, (one, all_) in counts.items():
            before = total.get(what, (0, 0))
            total[what] = (before[0] + one, before[1] + all_)
    for what, (one, all_) in total.items():
        print(f"{what}: {one} of {all_}, {100 * one / all_:.1f} %")


def make_environment(group: str, folder: Path) -> str:
    """A Python that has the packages of a group."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin/python")
    _, whole, alone = ENVIRONMENTS[group]
    pip = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *whole, "setuptools<81", "wheel"], check=True)
    if alone:  # some are sources whose setup needs an old setuptools
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", *alone], check=True)
    return python


def build(group: str) -> None:
    """Builds all that is of a group, and notes down how."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    if group != "kerashub":
        os.environ["TF_USE_LEGACY_KERAS"] = os.environ["TF_KERAS"] = "1"
    FOLDER.mkdir(parents=True, exist_ok=True)
    notes = read_notes()
    package = ENVIRONMENTS[group][0]
    notes = {name: note for name, note in notes.items() if note["package"] != package}
    for name, note in GROUPS[group]():
        versions = {
            "package": package,
            "version": metadata.version(package),
            "tensorflow": metadata.version("tensorflow-cpu"),
            "command": f"python tools/make_encoder_corpus.py {group}",
        }
        notes[name] = {**versions, **note}
        print(f"{name}: {(FOLDER / name).stat().st_size} bytes")
    write_notes(notes)


def read_notes() -> dict[str, dict[str, Any]]:
    path = FOLDER / "PROVENANCE.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def write_notes(notes: dict[str, dict[str, Any]]) -> None:
    text = json.dumps(dict(sorted(notes.items())), indent=1)
    (FOLDER / "PROVENANCE.json").write_text(text + "\n")


# weights and files


def weight(name: str, old: Any) -> Any:
    """Weights for a variable, of few different values: near one where it was one, else near zero."""
    import numpy as np

    random = np.random.default_rng(zlib.crc32(name.encode()))
    steps = random.integers(-3, 4, old.shape).astype(np.float32)
    if old.ndim == 1:
        return (1 if old.size and (old == 1).all() else 0) + steps / 32
    depth = int(np.prod(old.shape[:-1])) if old.shape[-1] == WIDTH and old.ndim == 3 else old.shape[0]
    return steps * np.float32(2.0 ** round(np.log2(0.5 / np.sqrt(depth))))


def seed(variables: Any) -> None:
    """Gives all variables of a model their weights."""
    import numpy as np

    for number, variable in enumerate(variables):
        old = np.asarray(variable)
        if old.dtype.kind == "f":
            variable.assign(weight(f"{number} {old.shape}", old))


def put(name: str, data: bytes) -> str:
    path = FOLDER / f"{name}.xz"
    path.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
    return path.name


def put_frozen(name: str, function: Any) -> tuple[str, dict[str, Any]]:
    """Writes a concrete function, frozen."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(function)
    data = frozen.graph.as_graph_def().SerializeToString(deterministic=True)
    ends = {"inputs": [tensor.name for tensor in frozen.inputs], "outputs": [tensor.name for tensor in frozen.outputs]}
    return put(f"{name}.pb", data), ends


def put_saved(name: str, save: Callable[[str], object]) -> tuple[str, dict[str, Any]]:
    """Writes a SavedModel, as an archive."""
    with tempfile.TemporaryDirectory() as scratch:
        save(f"{scratch}/model")
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path in sorted(Path(scratch).rglob("*")):
                if path.is_file() and path.name not in ("fingerprint.pb", "keras_metadata.pb"):
                    entry = tarfile.TarInfo(str(path.relative_to(scratch)))
                    entry.size = path.stat().st_size
                    archive.addfile(entry, io.BytesIO(path.read_bytes()))
    return put(f"{name}.tar", buffer.getvalue()), {}


Notes = Iterator[tuple[str, dict[str, Any]]]


def noted(placed: tuple[str, dict[str, Any]], what: str, config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return placed[0], {"class": what, "config": config, **placed[1]}


# bert-tensorflow


def bert() -> Notes:
    """Google's own code. TensorFlow 2 has no `contrib`, of which it needs the layer norm: by the same two functions."""
    import tensorflow as tf

    v1 = tf.compat.v1

    def layer_norm(inputs: Any, begin_norm_axis: int, begin_params_axis: int, scope: str | None) -> Any:
        with v1.variable_scope(scope, "LayerNorm"):
            size = inputs.shape[begin_params_axis:]
            beta = v1.get_variable("beta", size, initializer=v1.zeros_initializer())
            gamma = v1.get_variable("gamma", size, initializer=v1.ones_initializer())
            axes = [begin_norm_axis % inputs.shape.rank]
            mean, variance = v1.nn.moments(inputs, axes, keep_dims=True)
            return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)

    contrib = types.ModuleType("tensorflow.contrib")
    contrib.__dict__["layers"] = types.SimpleNamespace(layer_norm=layer_norm)
    sys.modules["tensorflow.contrib"] = contrib
    from bert import modeling

    v1.disable_eager_execution()
    cases: dict[str, tuple[int | None, bool, dict[str, Any]]] = {
        "bert-base": (12, False, {}),
        "bert-open-length": (None, False, {}),
        "bert-one-hot": (12, True, {}),
        "bert-relu": (12, False, {"hidden_act": "relu"}),
    }
    for name, (length, one_hot, more) in cases.items():
        config = {
            "vocab_size": WORDS,
            "hidden_size": WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "intermediate_size": INNER,
            "max_position_embeddings": LENGTH,
            "type_vocab_size": 2,
            **more,
        }
        with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
            given = [
                v1.placeholder(tf.int32, [None, length], key) for key in ("input_ids", "input_mask", "segment_ids")
            ]
            model = modeling.BertModel(modeling.BertConfig(**config), False, *given, use_one_hot_embeddings=one_hot)
            output = tf.identity(model.get_sequence_output(), "sequence")
            session.run(v1.global_variables_initializer())
            for variable in v1.global_variables():
                variable.load(weight(variable.name, session.run(variable)), session)
            frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["sequence"])
            data = frozen.SerializeToString(deterministic=True)
        ends = {"inputs": [tensor.name for tensor in given], "outputs": [output.name]}
        yield noted((put(f"{name}.pb", data), ends), "bert.modeling.BertModel", config)


# tf-models-official


def models() -> Notes:
    import tensorflow as tf
    from official.nlp.configs import bert as bert_configs
    from official.nlp.modeling import networks
    from official.nlp.tools import export_tfhub_lib

    del bert_configs  # it registers what the next module needs
    names = ("input_word_ids", "input_mask", "input_type_ids")
    spec = {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}
    base = {
        "vocab_size": WORDS,
        "hidden_size": WIDTH,
        "num_layers": LAYERS,
        "num_attention_heads": HEADS,
        "max_sequence_length": LENGTH,
        "type_vocab_size": 2,
    }
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "models-bert": ("BertEncoder", {**base, "intermediate_size": INNER, "dict_outputs": True}),
        "models-bert-v2": ("BertEncoderV2", {**base, "inner_dim": INNER}),
        "models-albert": (
            "AlbertEncoder",
            {**base, "intermediate_size": INNER, "embedding_width": FACTOR, "dict_outputs": True},
        ),
        "models-no-mobilebert": (
            "MobileBERTEncoder",
            {
                "word_vocab_size": WORDS,
                "word_embed_size": FACTOR,
                "max_sequence_length": LENGTH,
                "num_blocks": LAYERS,
                "hidden_size": WIDTH,
                "num_attention_heads": HEADS,
                "intermediate_size": INNER,
                "intra_bottleneck_size": FACTOR,
            },
        ),
    }
    for name, (kind, config) in cases.items():
        model = getattr(networks, kind)(**config)
        call = tf.function(lambda given, model=model: {"sequence": model(given)["sequence_output"]})
        function = call.get_concrete_function(spec)
        seed(model.variables)
        yield noted(put_frozen(name, function), f"official.nlp.modeling.networks.{kind}", config)
    from official.legacy.bert import configs

    hub = {
        "vocab_size": WORDS,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": LENGTH,
        "type_vocab_size": 2,
    }
    core, _ = export_tfhub_lib._create_model(bert_config=configs.BertConfig(**hub), with_mlm=False)
    seed(core.variables)
    saved = put_saved("models-hub", lambda path: core.save(path, include_optimizer=False, save_format="tf"))
    yield noted(saved, "official.nlp.tools.export_tfhub_lib", hub)


# KerasHub


def kerashub() -> Notes:
    import keras_hub
    import tensorflow as tf

    base = {
        "vocabulary_size": WORDS,
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "hidden_dim": WIDTH,
        "intermediate_dim": INNER,
        "max_sequence_length": LENGTH,
    }
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "kerashub-bert": ("BertBackbone", base),
        "kerashub-roberta": ("RobertaBackbone", base),
        "kerashub-distilbert": ("DistilBertBackbone", base),
        "kerashub-electra": (
            "ElectraBackbone",
            {
                **{key: base[key] for key in base if key != "vocabulary_size"},
                "vocab_size": WORDS,
                "embedding_dim": FACTOR,
            },
        ),
        "kerashub-xlm-roberta": ("XLMRobertaBackbone", base),
        "kerashub-albert": ("AlbertBackbone", {**base, "embedding_dim": FACTOR}),
        "kerashub-no-deberta": ("DebertaV3Backbone", {**base, "bucket_size": 8}),
    }
    for name, (kind, config) in cases.items():
        model = getattr(keras_hub.models, kind)(**config)
        seed(model.variables)

        def sequence(given: Any, model: Any = model) -> dict[str, Any]:
            found = model(given, training=False)
            return {"sequence": found["sequence_output"] if isinstance(found, dict) else found}

        spec = {key: tf.TensorSpec([None, None], tf.int32, key) for key in sorted(model.input)}
        function = tf.function(sequence, input_signature=[spec]).get_concrete_function()
        yield noted(put_frozen(name, function), f"keras_hub.models.{kind}", config)
        if kind == "BertBackbone":
            saved = put_saved(f"{name}-saved", partial(model.export, verbose=False))
            yield noted(saved, f"keras_hub.models.{kind}", config)


# transformers


def transformers() -> Notes:
    import tensorflow as tf
    import transformers as library

    base = {
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "vocab_size": WORDS,
        "max_position_embeddings": LENGTH,
    }
    distil = {
        "dim": WIDTH,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "hidden_dim": INNER,
        "vocab_size": WORDS,
        "max_position_embeddings": LENGTH,
    }
    small = {**base, "embedding_size": FACTOR}
    cases: dict[str, tuple[str, str, dict[str, Any]]] = {
        "transformers-bert": ("TFBertModel", "BertConfig", base),
        "transformers-roberta": ("TFRobertaModel", "RobertaConfig", base),
        "transformers-xlm-roberta": ("TFXLMRobertaModel", "XLMRobertaConfig", base),
        "transformers-distilbert": ("TFDistilBertModel", "DistilBertConfig", distil),
        "transformers-electra": ("TFElectraModel", "ElectraConfig", small),
        "transformers-albert": ("TFAlbertModel", "AlbertConfig", small),
        "transformers-no-mobilebert": (
            "TFMobileBertModel",
            "MobileBertConfig",
            {**small, "intra_bottleneck_size": FACTOR, "num_feedforward_networks": 2},
        ),
        "transformers-no-deberta": (
            "TFDebertaV2Model",
            "DebertaV2Config",
            {**base, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        ),
        "transformers-no-gpt2": (
            "TFGPT2Model",
            "GPT2Config",
            {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "vocab_size": WORDS, "n_positions": LENGTH},
        ),
        "transformers-no-decoder": (
            "TFBertLMHeadModel",
            "BertConfig",
            {**base, "is_decoder": True, "add_cross_attention": True},
        ),
    }
    names = ("input_ids", "attention_mask")
    spec = [tf.TensorSpec([None, None], tf.int32, name) for name in names]
    for name, (kind, settings, config) in cases.items():
        model = getattr(library, kind)(getattr(library, settings)(**config))
        crossed = bool(config.get("add_cross_attention"))

        def sequence(words: Any, mask: Any, more: Any = None, model: Any = model) -> dict[str, Any]:
            extra = {} if more is None else {"encoder_hidden_states": more}
            return {"sequence": model(input_ids=words, attention_mask=mask, **extra)[0]}

        given = [*spec, tf.TensorSpec([None, None, WIDTH], tf.float32, "encoded")] if crossed else spec
        function = tf.function(sequence, input_signature=given).get_concrete_function()
        seed(model.variables)
        yield noted(put_frozen(name, function), f"transformers.{kind}", config)
        if "-no-" not in name:
            signature = tf.function(
                lambda input_ids, attention_mask, model=model: {
                    "sequence": model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
                },
                input_signature=spec,
            )
            saved = put_saved(f"{name}-saved", partial(tf.saved_model.save, model, signatures=signature))
            yield noted(saved, f"transformers.{kind}", config)


# packages of Keras


def put_keras(name: str, model: Any, names: tuple[str, ...], what: str, config: dict[str, Any]) -> Any:
    """Writes a model of Keras, frozen."""
    import tensorflow as tf

    spec = [tf.TensorSpec([None, *one.shape[1:]], one.dtype, key) for one, key in zip(model.inputs, names, strict=True)]
    call = tf.function(lambda *given: {"sequence": model(list(given), training=False)}, input_signature=spec)
    function = call.get_concrete_function()
    seed(model.variables)
    return noted(put_frozen(name, function), what, config)


def of_google(**more: Any) -> dict[str, Any]:
    """The settings of Google's BERT, as others take them."""
    return {
        "vocab_size": WORDS,
        "hidden_size": WIDTH,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "intermediate_size": INNER,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": LENGTH,
        "type_vocab_size": 2,
        **more,
    }


def built_by(package: str, kinds: dict[str, dict[str, Any]], prefix: str = "") -> Notes:
    """The models of bert4keras, and of toolkit4nlp, which took its interface."""
    build_model = import_module(f"{package}.models").build_transformer_model
    with tempfile.TemporaryDirectory() as scratch:
        for kind, config in kinds.items():
            path = Path(scratch) / "config.json"
            path.write_text(json.dumps(config))
            model = build_model(str(path), None, model=kind)
            what = f"{package}.models.build_transformer_model, {kind}"
            yield put_keras(f"{package}-{prefix}{kind}", model, ("words", "segment"), what, config)


def bert4keras() -> Notes:
    kinds = {"bert": of_google(), "albert": of_google(embedding_size=FACTOR)}
    return built_by("bert4keras", kinds)


def toolkit4nlp() -> Notes:
    """Its attention also clears what padding itself attends to, other than BERT's."""
    return built_by("toolkit4nlp", {"bert": of_google(embedding_size=WIDTH)}, "no-")


def kerasbert() -> Notes:
    import tf_keras

    keras_bert = import_module("keras_bert")

    config = {
        "token_num": WORDS,
        "pos_num": LENGTH,
        "seq_len": 12,
        "embed_dim": WIDTH,
        "transformer_num": LAYERS,
        "head_num": HEADS,
        "feed_forward_dim": INNER,
    }
    inputs, output = keras_bert.get_model(**config, training=False)[:2]
    model = tf_keras.Model(inputs, output)
    yield put_keras("kerasbert-bert", model, ("words", "segment"), "keras_bert.get_model", config)


def bertfortf2() -> Notes:
    """It takes Keras from inside of TensorFlow, where that is no more the one that models are made of."""
    import tensorflow
    import tf_keras

    del tensorflow  # which brings the next
    sys.modules["tensorflow.python"].__dict__["keras"] = sys.modules["tensorflow.python.keras"] = tf_keras
    import bert

    base = {
        "vocab_size": WORDS,
        "use_token_type": True,
        "use_position_embeddings": True,
        "token_type_vocab_size": 2,
        "num_layers": LAYERS,
        "hidden_size": WIDTH,
        "hidden_dropout": 0.1,
        "intermediate_size": INNER,
        "intermediate_activation": "gelu",
        "num_heads": HEADS,
        "max_position_embeddings": LENGTH,
    }
    cases = {"bertfortf2-bert": base, "bertfortf2-albert": {**base, "shared_layer": True, "embedding_size": FACTOR}}
    for name, config in cases.items():
        layer = bert.BertModelLayer.from_params(bert.BertModelLayer.Params(**config), name="bert")
        words, types, mask = (tf_keras.Input((12,), dtype="int32") for _ in range(3))
        model = tf_keras.Model([words, types, mask], layer([words, types], mask=mask))
        yield put_keras(name, model, ("words", "segment", "mask"), "bert.BertModelLayer", config)


GROUPS: dict[str, Callable[[], Notes]] = {
    "bert": bert,
    "models": models,
    "kerashub": kerashub,
    "transformers": transformers,
    "bert4keras": bert4keras,
    "toolkit4nlp": toolkit4nlp,
    "kerasbert": kerasbert,
    "bertfortf2": bertfortf2,
}

if __name__ == "__main__":
    main()
