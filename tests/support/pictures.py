"""The pictures of the docs. `python -m tests.support.pictures` draws them anew; a test compares them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import tfsmith
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Recipe
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier

LAYERS = 12
_KERNELS = ("attention/self/query", "attention/self/key", "attention/self/value", "attention/output/dense")
_DENSE = [f"{name}/{part}/read" for name in _KERNELS for part in ("kernel", "bias")]
_LAYER = (
    *_DENSE,
    "attention/output/LayerNorm/gamma/read",
    "attention/output/LayerNorm/beta/read",
    "intermediate/dense/kernel/read",
    "intermediate/dense/bias/read",
    "output/dense/kernel/read",
    "output/dense/bias/read",
    "output/LayerNorm/gamma/read",
    "output/LayerNorm/beta/read",
)
BERT_WEIGHTS = [f"bert/encoder/layer_{layer}/{name}" for layer in range(LAYERS) for name in _LAYER]
"""The weights of the encoder, in the order in which the Bert op takes them."""


@cache
def small_bert() -> Model:
    """As deep as BERT-base, but narrow."""
    return bert_classifier(BertConfig(100, 48, LAYERS, 4, 96), length=16).model


@cache
def bert_recipe() -> Recipe:
    """The document's own example: the encoder, extracted from a model, and one node of 194 inputs."""
    scope = "bert/encoder"
    pattern = tfsmith.extract(
        small_bert(),
        [f"{scope}/layer_11/output/LayerNorm/batchnorm/add_1"],
        [f"{scope}/{name}" for name in ("Reshape_1", "Reshape", "strided_slice", "strided_slice_2")],
        ["Identity", "Const"],
    )
    attrs = {"HiddenSize": 48, "NumAttentionHeads": 4, "NumWeights": len(BERT_WEIGHTS), "HiddenAct": b"gelu_tanh"}
    target = Node("bert/fused", "Bert", (f"{scope}/Reshape_1", f"{scope}/Reshape", *BERT_WEIGHTS), attrs)
    return tfsmith.make_recipe(pattern, target)


if __name__ == "__main__":
    folder = Path(__file__).parents[2] / "docs" / "images"
    tfsmith.draw_recipe(bert_recipe(), folder / "bert-recipe.svg", model=small_bert())
