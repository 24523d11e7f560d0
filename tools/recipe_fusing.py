"""The recipes that make one of TensorFlow's own fused ops out of several nodes."""

from __future__ import annotations

from typing import Any

from tools import recipe_parts as parts
from tools.recipe_parts import ADD, BATCH_MATMUL, GELU_ERF, GELU_TANH, Nodes, dense, gelu
from tools.recipe_text import Variant, recipe_text

FLOAT = {"T": "float32"}


def layer_norm() -> str:
    """The text of the recipe's file.

    `_MklLayerNorm` takes two or three dimensions and normalizes the last one.
    """
    variants = []
    for form, build in (("batchnorm", parts.layer_norm), ("keras 3", parts.keras_layer_norm)):
        for axis in (-1, 1, 2):
            nodes = Nodes()
            build(nodes, "norm", "x", axis, None, FLOAT)
            last = ["rank(x) >= 2", "rank(x) <= 3"] if axis < 0 else [f"rank(x) == {axis + 1}"]
            require = [*last, "rank(norm_gamma) == 1", "rank(norm_beta) == 1"]
            attrs = {"epsilon": "=value(norm_epsilon)", "T": "float32"}
            inputs = ["x", "norm_gamma", "norm_beta"]
            target = {"name": "fused", "op": "_MklLayerNorm", "inputs": inputs, "attrs": attrs}
            target["rename"] = "{scope}/fused_layer_norm"
            name = f"{form}, axis {axis}"
            variants.append(
                Variant(name, nodes, [target], {"norm": "fused:0"}, ["Identity", "StopGradient"], require=require)
            )
    description = (
        "Layer normalization becomes one node _MklLayerNorm (float32; in TensorFlow's builds for x86 with oneDNN on)"
    )
    return recipe_text("layer-norm", description, variants)


def gelu_tanh() -> str:
    """The text of the recipe's file."""
    return _gelu("gelu-tanh", GELU_TANH, "GeluApproximate", "GELU by its tanh formula")


def gelu_erf() -> str:
    """The text of the recipe's file."""
    return _gelu("gelu-erf", GELU_ERF, "GeluExact", "GELU by the error function")


def _gelu(name: str, forms: tuple[str, ...], fused: str, what: str) -> str:
    variants = []
    for form in forms:
        nodes = Nodes()
        gelu(nodes, form, dense(nodes, "dense", "x", T="float32"))
        attrs: dict[str, Any] = {"fused_ops": ["BiasAdd", fused], "T": "float32"}
        attrs |= {key: f"=attr(dense_product, {key})" for key in ("transpose_a", "transpose_b")}
        target = {"name": "fused", "op": "_FusedMatMul", "inputs": ["x", "dense_kernel", "dense_bias"], "attrs": attrs}
        target["rename"] = "{scope}/fused_gelu"
        variants.append(Variant(form, nodes, [target], {"gelu": "fused:0"}, ["Identity"]))
    description = (
        f"MatMul, BiasAdd and {what} become one node _FusedMatMul (float32; TensorFlow for x86 with oneDNN on)"
    )
    return recipe_text(name, description, variants)


def attention() -> str:
    """The text of the recipe's file. With a mask of other than four dimensions, the op's kernel does not survive."""
    nodes = Nodes()
    scores = nodes.add("scores", BATCH_MATMUL, "query", "key", attrs={"adj_x": False, **FLOAT})
    scaled = nodes.add("scaled", "Mul", scores, nodes.const("scale"))
    shares = nodes.add("shares", "Softmax", nodes.add("masked", ADD, scaled, "mask"))
    nodes.add("context", BATCH_MATMUL, shares, "value")
    require = ["rank(query) == 4", "rank(mask) == 4", "size(scale) == 1"]
    attrs: dict[str, Any] = {"fused_ops": ["Mul", "Add"], "T": "float32", "num_args": 2}
    attrs |= {"adj_y": "=attr(scores, adj_y)", "epsilon": 0.0001}
    inputs = ["query", "key", "scale", "mask"]
    rename = "{scope}/fused_scores"
    targets: list[dict[str, Any]] = [
        {"name": "fused", "op": "_MklFusedBatchMatMulV2", "inputs": inputs, "attrs": attrs, "rename": rename},
        {"name": "softmax", "op": "Softmax", "inputs": ["fused"], "rename": "{scope}/fused_softmax"},
        {"name": "result", "op": "BatchMatMulV2", "inputs": ["softmax", "value"], "rename": "{scope}/fused_context"},
    ]
    targets[2]["attrs"] = {"adj_x": "=attr(context, adj_x)", "adj_y": "=attr(context, adj_y)"}
    comment = "The op's kernel does not survive other masks, and does not use epsilon."
    replace = {"context": "result:0"}
    variant = Variant("scaled and masked", nodes, targets, replace, ["Identity"], comment=comment, require=require)
    description = (
        "Attention's first product, scale and mask become one node _MklFusedBatchMatMulV2 "
        "(float32; TensorFlow for x86 with oneDNN on)"
    )
    return recipe_text("attention", description, [variant])
