"""The rules that come with tfsmith, by name. What compares spellings lies beside them, as recipes in TOML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from tfsmith.patterns.rule import Form, Graph, NewTensor, Operand, Rule, Units, op, rule

if TYPE_CHECKING:
    from tfsmith.ir.model import Model
    from tfsmith.patterns.replace import Replacement, ReplaceOptions

__all__ = ["RULES"]


def _is_float(x: Operand) -> bool:
    return x.dtype == "float32"


@rule(name="layer-norm", where=(_is_float, "rank(x) >= 2", "rank(x) <= 3", "rank(gamma) == 1", "rank(beta) == 1"))
def layer_norm(x: Form, gamma: Form, beta: Form, epsilon: Form) -> Form:
    """Layer normalization becomes one node _MklLayerNorm
    (float32; in TensorFlow's builds for x86 with oneDNN on).
    """
    return op.LayerNorm(x, gamma, beta, epsilon=epsilon)


@layer_norm.replace
def _(g: Graph, x: Operand, gamma: Operand, beta: Operand, epsilon: float) -> NewTensor:
    return g.add("_MklLayerNorm", [x, gamma, beta], T="float32", epsilon=epsilon, name="{scope}/fused_layer_norm")


_OF_MATRICES = ("rank(x) >= 2", "rank(kernel) == 2")


@rule(name="gelu-tanh", where=(_is_float, *_OF_MATRICES))
def gelu_tanh(x: Form, kernel: Form, bias: Form) -> Form:
    """A product, its bias and GELU by its tanh formula become one node _FusedMatMul
    (float32; TensorFlow for x86 with oneDNN on).
    """
    return op.Gelu(op.Dense(x, kernel, bias), kind="tanh")


@rule(name="gelu-erf", where=(_is_float, *_OF_MATRICES))
def gelu_erf(x: Form, kernel: Form, bias: Form) -> Form:
    """A product, its bias and GELU by the error function become one node _FusedMatMul
    (float32; TensorFlow for x86 with oneDNN on).
    """
    return op.Gelu(op.Dense(x, kernel, bias), kind="erf")


def _fused_product(g: Graph, x: Operand, kernel: Operand, bias: Operand | NewTensor, activation: str) -> NewTensor:
    fused = ["BiasAdd", activation]
    if isinstance(bias, Operand) and bias.rank != 1:  # stored with axes of size one before it
        bias = g.add("Reshape", [bias, g.const([-1])], name="{scope}/fused_bias")
    turned = kernel.transposed
    name = "{scope}/fused_gelu"
    attrs = {"T": "float32", "num_args": 1, "fused_ops": fused, "transpose_b": turned}
    if x.rank == 2:
        return g.add("_FusedMatMul", [x, kernel, bias], attrs, name=name)
    given, made = kernel.shape[1 if turned else 0], kernel.shape[0 if turned else 1]
    rows = g.add("Reshape", [x, g.const([-1, given])], name="{scope}/fused_rows")
    product = g.add("_FusedMatMul", [rows, kernel, bias], attrs, name=name)
    front = g.add("Slice", [g.add("Shape", [x]), g.const([0]), g.const([x.rank - 1])], name="{scope}/fused_front")
    sizes = g.add("ConcatV2", [front, g.const([made]), g.const(0)], N=2, name="{scope}/fused_sizes")
    return g.add("Reshape", [product, sizes], name="{scope}/fused_output")


@gelu_tanh.replace
def _(g: Graph, x: Operand, kernel: Operand, bias: Operand) -> NewTensor:
    return _fused_product(g, x, kernel, bias, "GeluApproximate")


@gelu_erf.replace
def _(g: Graph, x: Operand, kernel: Operand, bias: Operand) -> NewTensor:
    return _fused_product(g, x, kernel, bias, "GeluExact")


def _is_of_floats(query: Operand) -> bool:
    return query.dtype == "float32"


@rule(where=(_is_of_floats,))
def attention(
    query: Form, key: Form, value: Form, mask: Form, scale: Form, masking: Form, fill: Form, layout: Form
) -> Form:
    """Attention becomes two products and a softmax, with heads in front of words; scale and mask go into the first
    product, _MklFusedBatchMatMulV2, where the mask is added (float32; TensorFlow for x86 with oneDNN on).
    """
    masked = op.Optional(mask)
    return op.Attention(query, key, value, masked, scale=scale, masking=masking, fill=fill, layout=layout)


def _order(layout: Sequence[str]) -> list[int]:
    """The axes of what an attention takes or gives, with those of words and values last."""
    places = {"words": 1, "others": 1, "size": 2}
    return sorted(range(len(layout)), key=lambda at: (places.get(layout[at], 0), at))


def _in_order(g: Graph, x: Operand) -> Operand | NewTensor:
    order = _order(x.layout)
    return x if order == sorted(order) else g.add("Transpose", [x, g.const(order)], name="{scope}/fused_order")


@attention.replace
def _(
    g: Graph,
    query: Operand,
    key: Operand,
    value: Operand,
    mask: Operand | None,
    scale: float,
    masking: str,
    fill: float,
    layout: str,
) -> NewTensor:
    queries, keys, values = (_in_order(g, one) for one in (query, key, value))
    factor = g.const(scale, "float32", name="{scope}/fused_scale")
    if query.rank == 4 and mask is not None and mask.rank == 4 and masking == "added":
        scores = g.add(  # the op's kernel does not survive other masks
            "_MklFusedBatchMatMulV2",
            [queries, keys, factor, mask],
            T="float32",
            fused_ops=["Mul", "Add"],
            num_args=2,
            adj_y=True,
            epsilon=0.0001,
            name="{scope}/fused_scores",
        )
    else:
        product = g.add("BatchMatMulV2", [queries, keys], adj_y=True, name="{scope}/fused_scores")
        scores = g.add("Mul", [product, factor], name="{scope}/fused_scaled")
        if mask is not None:
            scores = _masked(g, scores, mask, masking, fill)
    shares = g.add("Softmax", [scores], name="{scope}/fused_softmax")
    if mask is not None and masking.endswith("cleared"):
        shares = _masked(g, shares, mask, masking, 0.0)
    context = g.add("BatchMatMulV2", [shares, values], name="{scope}/fused_context")
    order = _order(layout.split())
    if order == sorted(order):
        return context
    back = [order.index(at) for at in range(len(order))]
    return g.add("Transpose", [context, g.const(back)], name="{scope}/fused_output")


def _masked(g: Graph, scores: NewTensor, mask: Operand, masking: str, fill: float) -> NewTensor:
    """Scores to which a mask is added, or of which it chooses some."""
    if masking in ("added", "subtracted"):
        return g.add("AddV2" if masking == "added" else "Sub", [scores, mask], name="{scope}/fused_masked")
    is_kept, number = masking.startswith("kept"), g.const(fill, "float32", name="{scope}/fused_fill")
    condition = mask if mask.dtype == "bool" else g.add("Cast", [mask], DstT="bool", name="{scope}/fused_condition")
    chosen = [condition, scores, number] if is_kept else [condition, number, scores]
    return g.add("SelectV2", chosen, name="{scope}/fused_masked")


@rule
def encoder_layer(
    x: Form,
    mask: Form,
    query_kernel: Form,
    query_bias: Form,
    key_kernel: Form,
    key_bias: Form,
    value_kernel: Form,
    value_bias: Form,
    attention_output_kernel: Form,
    attention_output_bias: Form,
    attention_norm_gamma: Form,
    attention_norm_beta: Form,
    intermediate_kernel: Form,
    intermediate_bias: Form,
    output_kernel: Form,
    output_bias: Form,
    output_norm_gamma: Form,
    output_norm_beta: Form,
) -> Form:
    """A layer of a BERT encoder."""
    query, key = op.Dense(x, query_kernel, query_bias), op.Dense(x, key_kernel, key_bias)
    context = op.Attention(query, key, op.Dense(x, value_kernel, value_bias), mask)
    attended = op.Dense(context, attention_output_kernel, attention_output_bias)
    y = op.LayerNorm(x + attended, attention_norm_gamma, attention_norm_beta)
    inner = op.Activation(op.Dense(y, intermediate_kernel, intermediate_bias))
    return op.LayerNorm(y + op.Dense(inner, output_kernel, output_bias), output_norm_gamma, output_norm_beta)


@rule(name="bert-encoder")
def bert_encoder(x: Form, mask: Form, layers: Form) -> Form:
    """A BERT encoder of any depth becomes one node Bert (a custom op; it takes 16 weights for each layer)."""
    return op.Repeat(encoder_layer, x, layers, mask=mask)


@bert_encoder.replace
def _(g: Graph, x: Operand, mask: Operand, layers: Units) -> NewTensor:
    weights = [tensor for layer in layers for name, tensor in layer.items() if name != "mask"]
    return g.add("Bert", [x, mask, weights], NumWeights=len(weights), outputs=["encoded"], name="{scope}/fused_bert")


def _fuse(model: Model, options: ReplaceOptions) -> Replacement:
    """Joined heads, masks and layouts as the op wants them take more than a formula says."""
    from tfsmith.patterns.encoder import replace_encoders

    return replace_encoders(model, options)


bert_encoder.search = _fuse

_ALL = (attention, bert_encoder, gelu_erf, gelu_tanh, layer_norm)
RULES: Mapping[str, Rule] = MappingProxyType({one.name: one for one in _ALL})
"""The rules by name."""
