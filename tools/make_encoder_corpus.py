"""Builds the graphs of `tests/data/encoders`: small encoders, each by the public code of its package.

    python tools/make_encoder_corpus.py                            makes an environment for each package, with pip
    python tools/make_encoder_corpus.py transformers               builds only what is of this package
    python tools/make_encoder_corpus.py --python kerashub=PYTHON   takes an environment that is there

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
from importlib import metadata
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
}
"""By the name of a group: its package, what is installed with all that it needs, and what is installed alone."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(ENVIRONMENTS)}; all by default")
    parser.add_argument("--python", action="append", default=[], metavar="GROUP=PYTHON")
    parser.add_argument("--inside", action="store_true", help="build here, in an environment that has the package")
    given = parser.parse_args()
    if given.inside:
        build(given.groups[0])
        return
    pythons = dict(text.split("=", 1) for text in given.python)
    with tempfile.TemporaryDirectory() as scratch:
        for group in given.groups or ENVIRONMENTS:
            python = pythons.get(group) or make_environment(group, Path(scratch) / group)
            subprocess.run([python, __file__, "--inside", group], check=True)


def make_environment(group: str, folder: Path) -> str:
    """A Python that has the packages of a group."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin/python")
    _, whole, alone = ENVIRONMENTS[group]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *whole], check=True)
    if alone:
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", *alone], check=True)
    return python


def build(group: str) -> None:
    """Builds all that is of a group, and notes down how."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    if group != "kerashub":
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
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


GROUPS: dict[str, Callable[[], Notes]] = {
    "bert": bert,
    "models": models,
    "kerashub": kerashub,
    "transformers": transformers,
}

if __name__ == "__main__":
    main()
