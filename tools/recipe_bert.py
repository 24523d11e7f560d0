"""The variants of the recipe bert-encoder."""

from __future__ import annotations

from typing import Any

from tools.recipe_parts import (
    ADD,
    BATCH_MATMUL,
    PLAIN,
    PLAIN_BATCH,
    Nodes,
    dense,
    dense_of_rows,
    gelu,
    keras_layer_norm,
    layer_norm,
)
from tools.recipe_text import Variant, recipe_text

WEIGHTS = [
    *("query_kernel", "query_bias", "key_kernel", "key_bias", "value_kernel", "value_bias"),
    *("attention_output_kernel", "attention_output_bias", "attention_norm_gamma", "attention_norm_beta"),
    *("intermediate_kernel", "intermediate_bias", "output_kernel", "output_bias"),
    *("output_norm_gamma", "output_norm_beta"),
]
EPSILON = 1e-12
LENGTH = 128
"""The default of the op's attribute MaxSequenceLength, for models whose length is open."""


def bert_encoder() -> str:
    """The text of the recipe's file."""
    variants: list[Variant] = []
    for form in ("tanh", "erf sqrt"):
        variants += [_tf1(form, mask) for mask in ("filled", "constant", "any")]
    variants += [_tf1(form, "shared") for form in ("tf.nn tanh", "tanh", "tf.nn erfc")]
    variants += [_tf1(form, "shared", axis=1) for form in ("tanh", "erf sqrt")]
    variants += [_einsum(form) for form in ("tf.nn tanh", "tanh", "tf.nn erf", "tf.nn erfc")]
    variants += [_keras(form, fast) for fast in (False, True) for form in ("tf.nn tanh", "tf.nn erfc")]
    variants += [_rows(form, is_open=True) for form in ("tf.nn erf", "tf.nn erfc", "tf.nn tanh")]
    variants += [_rows(form, is_open=False) for form in ("tf.nn erf", "tf.nn erfc", "tf.nn tanh")]
    description = "A BERT encoder of any depth becomes one node Bert (a custom op; it takes 16 weights for each layer)"
    return recipe_text("bert-encoder", description, variants)


def _variant(name: str, nodes: Nodes, form: str, heads: str, length: str, mask: str, comment: str) -> Variant:
    attrs = {
        "HiddenAct": "gelu_tanh" if "tanh" in form else "gelu_erf",
        "HiddenSize": "=dim(query_kernel, 0)",
        "IntermediateSize": "=dim(intermediate_kernel, 1)",
        "MaskT": f"=dtype({mask})",
        "MaxSequenceLength": f"={length}",
        "NonQuantizableDataType": {"type": "float32"},
        "NumAttentionHeads": f"={heads}",
        "NumWeights": f"=count({', '.join(WEIGHTS)})",
        "QuantizableDataType": {"type": "float32"},
    }
    target: dict[str, Any] = {"name": "bert", "op": "Bert", "inputs": ["x", mask, f"each({', '.join(WEIGHTS)})"]}
    target |= {"attrs": attrs, "rename": "{scope}/fused_bert", "output_args": ["encoded"]}
    shared = next(name for name in ("mask", "adder") if any(name in line.get("inputs", ()) for line in nodes.lines))
    repeat = {"carry": {"x": "output_norm"}, "shared": [shared]}
    through = ["Identity", "StopGradient"]
    return Variant(name, nodes, [target], {"output_norm": "bert:0"}, through, repeat, comment=comment)


def _feed_forward(nodes: Nodes, form: str, attended: str, norm: Any, axis: int, op: str | list[str]) -> None:
    """What follows the attention's dense layer, to the end of the layer."""
    residual = nodes.add("attention_residual", ADD, attended, "x")
    normed = norm(nodes, "attention_norm", residual, axis, EPSILON, {})
    plain = PLAIN if op == "MatMul" else PLAIN_BATCH
    inner = gelu(nodes, form, dense(nodes, "intermediate", normed, op, **plain))
    residual = nodes.add("output_residual", ADD, dense(nodes, "output", inner, op, **plain), normed)
    norm(nodes, "output_norm", residual, axis, EPSILON, {})


def _transposed(nodes: Nodes, name: str, x: str, axes: list[int]) -> str:
    return nodes.add(name, "Transpose", x, nodes.const(f"{name}_axes", axes))


def _tf1(form: str, mask: str, axis: int | None = None) -> Variant:
    """Matrices of two dimensions, as in Google's own code. The last axis is -1 or 1, as who wrote it liked."""
    nodes = Nodes()
    heads = {}
    for name in ("query", "key", "value"):
        split = nodes.add(f"{name}_split", "Reshape", dense(nodes, name, "x", "MatMul", **PLAIN), f"{name}_shape")
        heads[name] = _transposed(nodes, f"{name}_heads", split, [0, 2, 1, 3])
    scores = nodes.add("scores", BATCH_MATMUL, heads["query"], heads["key"], attrs={"adj_x": False, "adj_y": True})
    scaled = nodes.add("scaled", "Mul", scores, nodes.const("scale"))
    adder = "adder"
    if mask != "shared":
        wide = nodes.add("wide_mask", "ExpandDims", "mask", nodes.const("wide_mask_axis", 1))
        adder = _adder(nodes, "", wide)
    shares = nodes.add("shares", "Softmax", nodes.add("masked", ADD, scaled, adder))
    context = nodes.add("context", BATCH_MATMUL, shares, heads["value"], attrs=PLAIN_BATCH)
    flat = nodes.add("flat_context", "Reshape", _transposed(nodes, "joined", context, [0, 2, 1, 3]), "context_shape")
    attended = dense(nodes, "attention_output", flat, "MatMul", **PLAIN)
    usual = -1 if mask == "shared" else 1
    _feed_forward(nodes, form, attended, layer_norm, usual if axis is None else axis, "MatMul")

    before = Nodes()
    if mask == "shared":
        link = {"adder": _adder(before, "mask_", before.add("mask_floats", "Cast", "input_mask"))}
    elif mask != "any":
        ones = before.const("mask_one", 1.0)
        ones = before.add("mask_ones", "Fill", "mask_shape", ones) if mask == "filled" else ones
        link = {"mask": before.add("mask_rows", "Mul", ones, before.add("mask_floats", "Cast", "input_mask"))}
    comment = {
        "filled": "Google's code, batch size open: each layer makes an adder of a mask that is copied to all rows.",
        "constant": "The same with a fixed batch size.",
        "any": "The same with any other mask of [batch, rows, columns].",
        "shared": "The mask becomes an adder once, for all layers.",
    }[mask]
    heads_text, length = "dim(query_split, 2)", f"dim(query_split, 1, {LENGTH})"
    taken = "mask" if mask == "any" else "input_mask"
    name = f"matrices, gelu {form}, mask {mask}" + ("" if axis is None else f", axis {axis}")
    variant = _variant(name, nodes, form, heads_text, length, taken, comment)
    if mask != "any":
        variant.before, variant.links = before, link
    return variant


def _rows(form: str, *, is_open: bool) -> Variant:
    """transformers' TFBertModel: Keras 2's Dense on [batch, length, width], and a softmax of scores + 1e-9."""
    nodes = Nodes()

    def project(name: str, x: str) -> str:
        return dense_of_rows(nodes, name, x, is_open=is_open)

    heads = {}
    for name in ("query", "key", "value"):
        split = nodes.add(f"{name}_split", "Reshape", project(name, "x"), f"{name}_shape")
        heads[name] = _transposed(nodes, f"{name}_heads", split, [0, 2, 1, 3])
    scores = nodes.add("scores", BATCH_MATMUL, heads["query"], heads["key"], attrs={"adj_x": False, "adj_y": True})
    masked = nodes.add("masked", ADD, nodes.add("scaled", "RealDiv", scores, nodes.const("scale")), "adder")
    shares = nodes.add("shares", "Softmax", nodes.add("stable", ADD, masked, nodes.const("tiny", 1e-9)))
    context = nodes.add("context", BATCH_MATMUL, shares, heads["value"], attrs=PLAIN_BATCH)
    flat = nodes.add("flat_context", "Reshape", _transposed(nodes, "joined", context, [0, 2, 1, 3]), "context_shape")
    residual = nodes.add("attention_residual", ADD, project("attention_output", flat), "x")
    normed = layer_norm(nodes, "attention_norm", residual, 2, EPSILON, {})
    inner = gelu(nodes, form, project("intermediate", normed))
    residual = nodes.add("output_residual", ADD, project("output", inner), normed)
    layer_norm(nodes, "output_norm", residual, 2, EPSILON, {})
    size = "open" if is_open else "fixed"
    comment = f"transformers' TFBertModel, traced with {size} sizes."
    name, length = f"rows, sizes {size}, gelu {form}", f"dim(x, 1, {LENGTH})"
    variant = _variant(name, nodes, form, "dim(query_split, 2)", length, "input_mask", comment)
    variant.before = Nodes()
    mask = variant.before.add("mask_floats", "Cast", "input_mask")
    variant.links = {"adder": _adder(variant.before, "mask_", mask)}
    return variant


def _adder(nodes: Nodes, prefix: str, mask: str) -> str:
    """(1 - mask) * -10000."""
    hidden = nodes.add(f"{prefix}hidden", "Sub", nodes.const(f"{prefix}one", 1.0), mask)
    return nodes.add(f"{prefix}adder_of_layer", "Mul", hidden, nodes.const(f"{prefix}large", -10000.0))


def _einsum(form: str) -> Variant:
    """The TransformerEncoderBlock of tf-models-official with Keras 2: Einsum, kernels of [width, heads, size]."""
    nodes = Nodes()

    def project(name: str, x: str, equation: str) -> str:
        product = nodes.add(f"{name}_product", "Einsum", x, f"{name}_kernel", attrs={"equation": equation})
        return nodes.add(name, ADD, product, f"{name}_bias")

    query, key, value = (project(name, "x", "abc,cde->abde") for name in ("query", "key", "value"))
    scaled = nodes.add("scaled", "Mul", query, nodes.const("scale"))
    scores = nodes.add("scores", "Einsum", key, scaled, attrs={"equation": "aecd,abcd->acbe"})
    wide = nodes.add("wide_mask", "ExpandDims", "mask", nodes.const("wide_mask_axis"))
    hidden = nodes.add("hidden", "Sub", nodes.const("one", 1.0), wide)
    adder = nodes.add("adder_of_layer", "Mul", hidden, nodes.const("large"))
    shares = nodes.add("shares", "Softmax", nodes.add("masked", ADD, scores, adder))
    context = nodes.add("context", "Einsum", shares, value, attrs={"equation": "acbe,aecd->abcd"})
    residual = nodes.add("attention_residual", ADD, project("attention_output", context, "abcd,cde->abe"), "x")
    normed = layer_norm(nodes, "attention_norm", residual, 2, EPSILON, {})
    inner = gelu(nodes, form, project("intermediate", normed, "abc,cd->abd"))
    residual = nodes.add("output_residual", ADD, project("output", inner, "abc,cd->abd"), normed)
    layer_norm(nodes, "output_norm", residual, 2, EPSILON, {})
    comment = "tf-models-official's TransformerEncoderBlock: Keras 2's MultiHeadAttention and EinsumDense."
    length = f"dim(x, 1, {LENGTH})"
    return _variant(f"einsum, gelu {form}", nodes, form, "dim(query_kernel, 1)", length, "mask", comment)


def _keras(form: str, fast: bool) -> Variant:
    """Keras 3's MultiHeadAttention, EinsumDense and LayerNormalization; `fast` is its way without dropout."""
    nodes = Nodes()
    heads = []
    for name in ("query", "key", "value"):
        kernel = nodes.add(f"{name}_matrix", "Reshape", f"{name}_kernel", f"{name}_matrix_shape")
        product = nodes.add(f"{name}_product", BATCH_MATMUL, "x", kernel, attrs=PLAIN_BATCH)
        split = nodes.add(f"{name}_split", "Reshape", product, f"{name}_shape")
        heads.append(nodes.add(name, ADD, split, f"{name}_bias"))
    mask = nodes.add("mask_bools", "Cast", "mask", attrs={"DstT": "bool"})
    mask = nodes.add("wide_mask", "ExpandDims", mask, nodes.const("wide_mask_axis", 1))
    context = _keras_fast(nodes, heads, mask) if fast else _keras_slow(nodes, heads, mask)
    flat = nodes.add("flat_context", "Reshape", context, "context_shape")
    kernel = nodes.add("attention_output_matrix", "Reshape", "attention_output_kernel", "attention_output_matrix_shape")
    product = nodes.add("attention_output_product", BATCH_MATMUL, flat, kernel, attrs=PLAIN_BATCH)
    attended = nodes.add("attention_output", "BiasAdd", product, "attention_output_bias")
    _feed_forward(nodes, form, attended, keras_layer_norm, -1, BATCH_MATMUL)
    way = "without dropout" if fast else "with dropout"
    comment = f"Keras 3's MultiHeadAttention as it is built {way}."
    length = f"dim(query_split, 1, {LENGTH})"
    return _variant(f"keras 3 {way}, gelu {form}", nodes, form, "dim(query_kernel, 1)", length, "mask", comment)


def _keras_slow(nodes: Nodes, heads: list[str], mask: str) -> str:
    query, key, value = heads
    scaled = nodes.add("scaled", "Mul", query, nodes.const("scale"))
    left = _transposed(nodes, "key_heads", key, [0, 2, 1, 3])
    right = _transposed(nodes, "query_heads", scaled, [0, 2, 3, 1])
    scores = nodes.add("scores", BATCH_MATMUL, left, right, attrs=PLAIN_BATCH)
    scores = _transposed(nodes, "turned_scores", scores, [0, 1, 3, 2])
    masked = nodes.add("masked", "SelectV2", mask, scores, nodes.const("large"))
    shares = nodes.add("shares", "Softmax", masked)
    shares = nodes.add("masked_shares", "SelectV2", mask, shares, nodes.const("zero", 0.0))
    right = _transposed(nodes, "value_heads", value, [0, 2, 1, 3])
    context = nodes.add("context", BATCH_MATMUL, shares, right, attrs=PLAIN_BATCH)
    return _transposed(nodes, "joined", context, [0, 2, 1, 3])


def _keras_fast(nodes: Nodes, heads: list[str], mask: str) -> str:
    query, key, value = heads
    scores = nodes.add("scores", "Einsum", query, key, attrs={"equation": "BTNH,BSNH->BNTS"})
    scaled = nodes.add("scaled", "Mul", scores, nodes.const("scale"))
    sizes = nodes.add("sizes", "Shape", scaled)
    ones = nodes.add("ones", "Fill", sizes, nodes.const("true", True))
    both = nodes.add("both_masks", "LogicalAnd", ones, mask)
    masked = nodes.add("masked", "SelectV2", both, scaled, nodes.const("large"))
    shares = nodes.add("shares", "Softmax", masked)
    return nodes.add("context", "Einsum", shares, value, attrs={"equation": "BNTS,BSNH->BTNH"})
