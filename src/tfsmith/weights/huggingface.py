"""The weights of a transformers model that TensorFlow saved (`tf_model.h5`), under the names that PyTorch has.

transformers names the variables of its TensorFlow models so that the names of the PyTorch model can be read off them:

- the first level is the model (`tf_bert_model`), or a copy of the second (`shared/shared/embeddings`); it goes
- `layer_._0` is two levels, `layer` and `0`; of `mlm___cls` the part behind the underscores counts
- `kernel` is a `weight` that lies the other way round: reversed, or for images [height, width, in, out] turned into
  [out, in, height, width]; `weight`, as GPT-2's projections have it, stays as it is
- `gamma`, `beta`, `embeddings`, `moving_mean`, `moving_variance` have other names; anything else keeps its own
- a bias that is a row, a scale that is a list of one, and the scales of some layers have other shapes
- a model without a head (`tf_bert_model`) has no level for itself in PyTorch (`bert.`)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tfsmith.errors import InvalidModelError, NotFoundInModelError
from tfsmith.ir.model import training_names
from tfsmith.ir.tensor import Tensor, Weights
from tfsmith.ir.tensor_views import ReshapedTensor, TransposedTensor
from tfsmith.ir.types import Shape
from tfsmith.records import replace
from tfsmith.weights.compare import same_values
from tfsmith.weights.mapping import Mapped

__all__ = ["check_config", "map_huggingface", "pytorch_name"]

_MODEL = re.compile(r"tf_?[a-z0-9]\w*")
_BASE = re.compile(r"tf_?(?!.*(?:_for_|head|double))\w*_model(_\d+)?")
_BASES = frozenset(
    {"albert", "bert", "convbert", "deberta", "distilbert", "electra", "esm", "funnel", "layoutlm", "longformer",
     "model", "mobilebert", "mpnet", "rembert", "roberta", "roformer", "transformer", "vit", "deit", "swin"}
)  # fmt: skip
_LAST = MappingProxyType(
    {
        "kernel": "weight",
        "gamma": "weight",
        "embeddings": "weight",
        "beta": "bias",
        "moving_mean": "running_mean",
        "moving_variance": "running_var",
        "depthwise_kernel": "depthwise.weight",
        "pointwise_kernel": "pointwise.weight",
    }
)
_KERNELS = frozenset({"kernel", "depthwise_kernel", "pointwise_kernel"})
_OTHERS = MappingProxyType({"pos_proj": "pos_key_proj", "pos_q_proj": "pos_query_proj"})
"""What DeBERTa's second version calls otherwise in PyTorch, and the first does not."""
_PROJECTIONS = frozenset({"emb_projs", "out_projs"})
"""Transformer-XL's projections lie the other way round whatever they are called."""
_REMEDY = "pass the tf_model.h5 of a transformers model, or a map of your own; {draft_map} drafts one from two files"


def pytorch_name(name: str) -> str:
    """The name that a weight of a TensorFlow model of transformers has in PyTorch, the model's own level included."""
    words = re.sub(r"(^|/)[^/]*___", r"\1", name.removesuffix(":0")).replace("_._", "/").split("/")
    words = [word for word in words if word]
    if words[0].startswith("tf_deberta_v2"):
        words = [_OTHERS.get(word, word) for word in words]
    if len(words) > 1 and _has_level_zero(words):
        words = words[1:]
    return ".".join([*words[:-1], _LAST.get(words[-1], words[-1])])


def _has_level_zero(words: Sequence[str]) -> bool:
    """Whether the first level is the model as such."""
    first, second = words[0], words[1]
    return first == second or _MODEL.fullmatch(first) is not None or (second in _BASES and first not in _BASES)


def map_huggingface(weights: Weights, config: Mapping[str, Any] | None = None) -> Mapped:
    """Renames and turns the weights of a `tf_model.h5`. Reads values only of weights that are there twice.

    Args:
        weights: The weights, under the names that TensorFlow gave them.
        config: The model's config: sizes are checked against it, and it says whether the model has a head.

    Raises:
        NotFoundInModelError: These are not the names of transformers.
        InvalidModelError: Two weights have one name and other values, or a size is not what the config says.
    """
    training = training_names(weights)
    stored = {key: name for key, name in _stored_names(weights).items() if key not in training}
    if not any(_is_of_transformers(name) for name in stored.values()):
        what = "these are not the names that transformers gives to weights of TensorFlow"
        raise NotFoundInModelError(what, path=weights.path, remedy=_REMEDY)
    left = [key for key, name in stored.items() if name.endswith("/depthwise_kernel") and weights[key].shape.rank != 3]
    targets = {key: pytorch_name(name) for key, name in stored.items() if key not in left}
    prefix = _base_prefix(stored.values(), targets.values(), config)
    made: dict[str, Tensor] = {}
    firsts: dict[str, str] = {}
    for key, target in targets.items():
        plain = target.removeprefix(prefix)
        tensor = _turned(stored[key], weights[key], weights)
        if plain not in made:
            made[plain], firsts[plain] = tensor, key
        elif not same_values(made[plain], tensor):
            what = f"{firsts[plain]!r} and {key!r} both become {plain!r}, but their values differ"
            raise InvalidModelError(what, path=weights.path, remedy=_REMEDY)
    tied = [name for name in made if name.endswith(".decoder.bias") and f"{name[:-13]}.bias" in made]
    left += [firsts[name] for name in tied]  # in PyTorch the two are one
    made = {name: tensor for name, tensor in made.items() if name not in tied}
    if config is not None:
        check_config(made, config)
    metadata = {**weights.metadata, "format": "pt"}
    done = replace(weights, tensors=made, metadata=metadata, names={}, keras=None)
    return Mapped(done, "", (*left, *sorted(training)), ())


def _stored_names(weights: Weights) -> dict[str, str]:
    """The names as the file has them, by key; a key has the layer in front where a weight is there twice."""
    twice = {}
    for layer in weights.keras.layers if weights.keras is not None else ():
        for key in layer.all_weights():
            plain = key.removeprefix(f"{layer.name}/")
            if plain != key and plain in weights:
                twice[key] = plain
    return {key: twice.get(key, key) for key in weights}


def _is_of_transformers(name: str) -> bool:
    words = name.split("/")
    return "_._" in name or (len(words) > 2 and _MODEL.fullmatch(words[0]) is not None)


def _base_prefix(names: Iterable[str], targets: Iterable[str], config: Mapping[str, Any] | None) -> str:
    """The level that a model without a head does not have in PyTorch, with its dot; "" for others."""
    models = {words[0] for name in names if len(words := name.split("/")) > 1 and _MODEL.fullmatch(words[0])}
    classes = config.get("architectures") if config is not None else None
    if isinstance(classes, list) and len(classes) == 1 and isinstance(classes[0], str):
        is_base = re.fullmatch(r"(TF)?\w*(?<!Head)(?<!Heads)Model", classes[0]) is not None
        is_base = is_base and any(_BASE.fullmatch(model) for model in models)
    else:
        is_base = bool(models) and all(_BASE.fullmatch(model) for model in models)
    firsts = {target.partition(".")[0] for target in targets}
    return f"{next(iter(firsts))}." if is_base and len(firsts) == 1 else ""


def _turned(name: str, tensor: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
    """The tensor as PyTorch has it."""
    last = name.rpartition("/")[2]
    rank = tensor.shape.rank or 0
    if last == "depthwise_kernel" and rank == 3:
        return TransposedTensor(tensor, (1, 2, 0))
    if last in _KERNELS or _PROJECTIONS & set(name.replace("_._", "/").split("/")):
        axes = (3, 2, 0, 1) if last == "kernel" and rank == 4 else tuple(reversed(range(rank)))
        return tensor if rank < 2 else TransposedTensor(tensor, axes)
    sizes = _sizes(name, tensor.shape.dims or (), weights)
    return tensor if sizes == tensor.shape.dims else ReshapedTensor(tensor, Shape(sizes))


def _sizes(name: str, dims: tuple[int, ...], weights: Mapping[str, Tensor]) -> tuple[int, ...]:
    """The sizes that a weight has in PyTorch which lies alike."""
    scope, _, last = name.rpartition("/")
    if last == "bias" and len(dims) == 2 and dims[0] == 1:
        return dims[1:]  # GPT-2's projections and CTRL's head keep it as a row
    if last == "bias" and len(dims) == 1 and f"{scope}/depthwise_kernel" in weights:
        return (*dims, 1)  # ConvBERT's separable convolutions
    if last == "logit_scale" and dims == (1,):
        return ()  # CLIP and its like
    if last == "weight_g" and dims[1:] == (1, 1):
        return (1, 1, dims[0])  # the norms of the kernels of wav2vec 2.0 and HuBERT
    if last.startswith("layer_scale") and len(dims) == 1 and "/swiftformer/" in name:
        return (*dims, 1, 1)
    return dims


_LAYERS = re.compile(r"(?:^|\.)(encoder|decoder)?\.?(?:layer|layers|block|h|albert_layer_groups)\.(\d+)\.")
_WORDS = re.compile(r"(?:^|\.)(word_embeddings|wte|shared|model\.decoder\.embed_tokens)\.weight$")
_PARTS = re.compile(r"(?:^|\.)(vision|text)_model\.")
_WIDTHS = ("input_embedding_size", "word_embed_proj_dim", "embedding_size", "hidden_size", "d_model", "n_embd", "dim")
_DEPTHS = MappingProxyType(
    {
        "encoder": ("encoder_layers", "num_hidden_layers", "num_layers"),
        "decoder": ("decoder_layers", "num_decoder_layers", "num_layers"),
        "": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    }
)


def check_config(weights: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Checks the sizes that configs of transformers tell: words, width, numbers of layers. No I/O.

    Raises:
        InvalidModelError: One of them is another; names the weight and the field.
    """
    counts: dict[tuple[str, str], int] = {}
    for name, tensor in weights.items():
        dims = tensor.shape.dims or ()
        part = _part(name, config)
        sizes = config[part] if part else config
        if _WORDS.search(name) and len(dims) == 2:
            _check(name, dims[0], sizes, ("vocab_size",), "rows")
            _check(name, dims[1], sizes, _WIDTHS, "columns")
        found = None if "albert_layer_groups" in name else _LAYERS.search(name)
        if found:
            place = (part, found[1] or "")
            counts[place] = max(counts.get(place, 0), int(found[2]) + 1)
    for (part, side), count in counts.items():
        sizes = config[part] if part else config
        if isinstance(sizes.get("depths"), list):  # layers are counted anew in each stage
            continue
        _check(f"{side or 'model'} with {count} layers", count, sizes, _DEPTHS[side], "layers")


def _part(name: str, config: Mapping[str, Any]) -> str:
    """The field of the config that speaks of this weight, in models of two parts, such as CLIP; "" for others."""
    found = _PARTS.search(name)
    field = f"{found[1]}_config" if found else ""
    return field if isinstance(config.get(field), dict) else ""


def _check(name: str, size: int, config: Mapping[str, Any], fields: Sequence[str], what: str) -> None:
    known = [field for field in fields if type(config.get(field)) is int]
    if not known or size == config[known[0]]:
        return
    said = f"it has {size} {what}, but the config says {known[0]} is {config[known[0]]}"
    raise InvalidModelError(said, where=f"{name!r}", remedy="pass the config that belongs to these weights")
