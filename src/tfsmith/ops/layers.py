"""Families of ops that networks are made of: products, convolutions, activations, what moves elements."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tfsmith.ops.families import BATCH_NORMS, PASSES_ON

__all__ = [
    "ACTIVATIONS",
    "ADDS",
    "BESIDE_CONVOLUTIONS",
    "BIASES",
    "BOUNDS",
    "CELLS",
    "COMPARISONS",
    "CONVOLUTIONS",
    "COUNTS",
    "CUDNN_LAYERS",
    "FILLS",
    "GATES",
    "GATHERS",
    "MOVES",
    "OF_WEIGHTS",
    "POOLS",
    "PRODUCTS",
    "REVERSES",
    "SHARES",
    "SLICES",
    "SPLITS",
    "TO_GATES",
]


def _ops(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Elements that stay as they are

MOVES = PASSES_ON | _ops("Reshape ExpandDims Squeeze Tile BroadcastTo Cast EnsureShape CheckNumerics")
"""They give the same elements in another shape, or repeat them."""
SLICES = _ops("StridedSlice Slice")
SPLITS = _ops("Split SplitV Unpack")
GATHERS = _ops("Gather GatherV2 ResourceGather")
"""They look up rows of input 0 by input 1."""
REVERSES = _ops("Reverse ReverseV2 ReverseSequence")
FILLS = _ops("Fill ZerosLike OnesLike")
COUNTS = _ops("Range Cumsum")
"""They number elements."""

# Arithmetic

ADDS = _ops("Add AddV2")
BIASES = ADDS | {"BiasAdd", "BiasAddV1"}
COMPARISONS = _ops("Equal NotEqual Greater GreaterEqual Less LessEqual")
BOUNDS = _ops("ClipByValue Minimum Maximum")
PRODUCTS = _ops("MatMul _FusedMatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum")
SHARES = _ops("Softmax LogSoftmax Sigmoid")
"""What a classifier ends in."""
ACTIVATIONS = _ops("Relu Relu6 LeakyRelu Elu Selu Softplus Tanh Sigmoid")
OF_WEIGHTS = _ops(
    "Cast ExpandDims Squeeze Reshape Transpose Mul Dequantize QuantizeAndDequantizeV2 FakeQuantWithMinMaxArgs "
    "FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel"
)
"""What may be done to a weight before it is used: moved, quantized, scaled (as a batch norm is folded into it)."""

# Convolutions

CONVOLUTIONS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "Conv2D": ("plain", 2),
        "_FusedConv2D": ("plain", 2),
        "Conv3D": ("plain", 3),
        "DepthwiseConv2dNative": ("depthwise", 2),
        "_FusedDepthwiseConv2dNative": ("depthwise", 2),
        "Conv2DBackpropInput": ("transposed", 2),
        "Conv3DBackpropInputV2": ("transposed", 3),
    }
)
"""What kind of convolution an op is, and how many axes its kernel, input 1, is wide in."""
POOLS: Mapping[str, str] = MappingProxyType({"Mean": "average", "Max": "max", "AvgPool": "average", "MaxPool": "max"})
BESIDE_CONVOLUTIONS = (
    PASSES_ON
    | BATCH_NORMS
    | BIASES
    | BOUNDS
    | ACTIVATIONS
    | _ops("IdentityN Sub Mul Pad PadV2 MirrorPad SpaceToBatchND BatchToSpaceND Reshape Squeeze ExpandDims")
    | set(POOLS)
)
"""What lies between the convolutions of one block."""

# Recurrent layers

GATES = _ops("Sigmoid ClipByValue Minimum Relu6")
"""A sigmoid, or the straight lines that stand for one."""
TO_GATES = PASSES_ON | SPLITS | SLICES | BIASES | BOUNDS | _ops("ConcatV2 Reshape Sub Mul Relu6")
"""What lies between a product and a gate."""
CELLS: Mapping[str, tuple[str, int, int]] = MappingProxyType(
    {
        "LSTMBlockCell": ("LSTM", 3, 4),
        "BlockLSTM": ("LSTM", 4, 4),
        "BlockLSTMV2": ("LSTM", 4, 4),
        "GRUBlockCell": ("GRU", 2, 2),
    }
)
"""Ops that are a cell or a loop of it: what they are, which input is the kernel, and how many columns a unit has."""
CUDNN_LAYERS = _ops("CudnnRNN CudnnRNNV2 CudnnRNNV3")
