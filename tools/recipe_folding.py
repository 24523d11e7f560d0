"""The recipes that take nodes away without new ops: batch-norm folding, dropout removal."""

from __future__ import annotations

from typing import Any

from tools.recipe_text import ADD, Nodes, Variant, recipe_text

FUSED = ["FusedBatchNormV3", "FusedBatchNormV2", "FusedBatchNorm"]
CONV_ATTRS = ("strides", "padding", "explicit_paddings", "data_format", "dilations")


def fold_batch_norm() -> str:
    """The text of the recipe's file."""
    variants = []
    for op in ("Conv2D", "DepthwiseConv2dNative", "MatMul"):
        for bias in (False, True):
            variants += [_batch_norm(op, bias, fused) for fused in (True, False) if op != "MatMul" or not fused]
    description = (
        "A batch norm with fixed moments after Conv2D, DepthwiseConv2dNative or MatMul goes into the weights: new "
        "constants if they are constants, else nodes that compute them"
    )
    return recipe_text("fold-batch-norm", description, variants)


def _batch_norm(op: str, bias: bool, fused: bool) -> Variant:
    nodes = Nodes()
    attrs: dict[str, Any] = {"T": "float32"}
    attrs |= {"transpose_b": False} if op == "MatMul" else {}
    x = nodes.add("product", op, "x", "kernel", attrs=attrs)
    x = nodes.add("biased", "BiasAdd", x, "bias") if bias else x
    if fused:
        nodes.add("norm", FUSED, x, "gamma", "beta", "mean", "variance", attrs={"is_training": False})
        epsilon = "=attr(norm, epsilon)"
    else:
        padded = nodes.add("padded", ADD, "variance", nodes.const("epsilon"))
        factor = nodes.add("inverse", "Mul", nodes.add("root", "Rsqrt", padded), "gamma")
        shift = nodes.add("shift", "Sub", "beta", nodes.add("moved", "Mul", "mean", factor))
        nodes.add("norm", ADD, nodes.add("scaled", "Mul", x, factor), shift)
        epsilon = "=value(epsilon)"
    return Variant(
        f"{op}{' with bias' if bias else ''}, {'fused' if fused else 'unfused'}",
        nodes,
        _folded(op, bias, epsilon),
        {"norm": "new_biased:0"},
        ["Identity"],
        # Factors must be rows of one number a channel; of others, the unfused form cannot tell which axis they mean.
        require=() if fused else [f"rank({name}) == 1" for name in ("gamma", "beta", "mean", "variance")],
    )


def _folded(op: str, bias: bool, epsilon: str) -> list[dict[str, Any]]:
    targets: list[dict[str, Any]] = []

    def add(name: str, op: str, *inputs: str, **more: Any) -> str:
        rename = "{seed}/folded/" + name.removeprefix("new_")
        targets.append({"name": name, "op": op, "inputs": list(inputs), "fold": True, "rename": rename} | more)
        return name

    add("new_epsilon", "Const", attrs={"dtype": "float32", "value": epsilon}, fold=False)
    factor = add(
        "new_factor", "Mul", add("new_root", "Rsqrt", add("new_padded", "AddV2", "variance", "new_epsilon")), "gamma"
    )
    wide = factor
    if op == "DepthwiseConv2dNative":
        shape = {"dtype": "int32", "value": "=[dim(kernel, 2), dim(kernel, 3)]"}
        add("new_shape", "Const", attrs=shape, fold=False)
        wide = add("new_wide_factor", "Reshape", factor, "new_shape")
    kernel = add("new_kernel", "Mul", "kernel", wide)
    centre = add("new_centre", "Sub", "mean", "bias") if bias else "mean"
    shift = add("new_shift", "Sub", "beta", add("new_moved", "Mul", centre, factor))
    names = ("transpose_a", "transpose_b") if op == "MatMul" else CONV_ATTRS
    attrs = {name: f"=attr(product, {name})" for name in names}
    place = {"fold": False, "rename": "{seed}/folded/product"}
    product = add("new_product", op, "x", kernel, attrs=attrs, **place)
    layout = {} if op == "MatMul" else {"attrs": {"data_format": "=attr(product, data_format)"}}
    add("new_biased", "BiasAdd", product, shift, fold=False, rename="{seed}", **layout)
    return targets


def dropout_removal() -> str:
    """The text of the recipe's file."""
    variants = [_condition(scaled) for scaled in ("Mul", "RealDiv")]  # before the others, which stand inside of them
    for number in ("bare", "scaled"):
        for scaled in ("Mul", "RealDiv"):
            variants += [_dropout(form, scaled, number) for form in ("select", "cast", "floor")]
    description = "Dropout that was left in a graph goes: what it took is passed on, as with a rate of 0"
    return recipe_text("dropout-removal", description, variants)


def _dropout(form: str, scaled: str, number: str) -> Variant:
    """`tf.nn.dropout` through the years.

    select: TensorFlow 2.21; cast: since it takes a rate; floor: when it took keep_prob.
    """
    nodes = Nodes()
    random = ["RandomUniform"]
    found = nodes.add("random", random, "shape")
    if number == "scaled":  # from 0 to 1, in nodes that say so
        low, high = nodes.const("low", 0.0), nodes.const("high", 1.0)
        spread = nodes.add("spread", "Mul", found, nodes.add("range", "Sub", high, low))
        found = nodes.add("numbers", ADD, spread, nodes.const("low_again", 0.0))
    large = nodes.add("large", scaled, "x", "scale", **({"commutative": False} if scaled == "Mul" else {}))
    _masked(nodes, form, found, large)
    return Variant(f"{form}, {scaled}, {number}", nodes, [], {"result": "x"}, ["Identity"])


def _masked(nodes: Nodes, form: str, numbers: str, large: str) -> None:
    if form == "select":
        kept = nodes.add("kept", "GreaterEqual", numbers, "rate")
        nodes.add("result", ["SelectV2", "Select"], kept, large, nodes.const("zero", 0.0))
    elif form == "cast":
        kept = nodes.add("kept", "GreaterEqual", numbers, "rate")
        nodes.add("result", "Mul", large, nodes.add("ones", "Cast", kept, attrs={"SrcT": "bool"}))
    else:
        shifted = nodes.add("shifted", ADD, "keep_prob", numbers)
        nodes.add("result", "Mul", large, nodes.add("ones", "Floor", shifted))


def _condition(scaled: str) -> Variant:
    """`tf.cond(training, dropout, identity)` of TensorFlow 1. Its constants wait for the branch, so they stay out."""
    nodes = Nodes()
    inner = nodes.add("switch", "Switch", "x", "training")
    large = nodes.add("large", scaled, f"{inner}:1", "scale", **({"commutative": False} if scaled == "Mul" else {}))
    kept = nodes.add("kept", "GreaterEqual", nodes.add("random", "RandomUniform", "shape"), "rate")
    dropped = nodes.add("dropped", ["SelectV2", "Select"], kept, large, "zero")
    same = nodes.add("same", "Identity", nodes.add("other_switch", "Switch", "x", "training"))
    nodes.add("result", "Merge", same, dropped)
    return Variant(f"condition, {scaled}", nodes, [], {"result": "x"})
