"""F2: what is known of TensorFlow's ops, declared once: families here, then traits, shape functions, values in numpy.

A family is ops that play one part in a graph. Everybody asks these sets; nobody else keeps a list of op names.
Importing this costs a fraction of a millisecond and needs nothing but `records`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tfsmith.records import record

__all__ = [
    "ACTIVATIONS",
    "ADDS",
    "ALLOCATIONS",
    "ARITHMETIC",
    "BATCH_NORMS",
    "BESIDE_CONVOLUTIONS",
    "BIASES",
    "BOUNDS",
    "CALLS",
    "CELLS",
    "COMPARISONS",
    "CONTROL_FLOW",
    "CONVOLUTIONS",
    "COUNTS",
    "CUDNN_LAYERS",
    "Call",
    "DIRECT_CALLS",
    "ENTERS",
    "EXITS",
    "FILES_OF_TABLES",
    "FILLS",
    "GATES",
    "GATHERS",
    "GIVEN",
    "HANDLE_ENDS",
    "HANDLE_FACTS",
    "HANDLE_READS",
    "HANDLE_WRITES",
    "HANDS_ON",
    "ID_INPUTS",
    "INITIAL_WRITES",
    "INPUTS",
    "LEAST_RANK",
    "LIKELY_OUTPUTS",
    "LOOPS",
    "MERGES",
    "MOVES",
    "NAMED_BY_ATTR",
    "NEVER_OUTPUTS",
    "NEXT_ITERATIONS",
    "OF_WEIGHTS",
    "ORDERING",
    "PASSES_ON",
    "PIPELINES",
    "PLACEHOLDERS",
    "POOLS",
    "PRODUCTS",
    "PROTO_CODECS",
    "REDUCTIONS",
    "REF_WRITES",
    "RESTORES",
    "REVERSES",
    "SAVER_OPS",
    "SAVES",
    "SHAPES",
    "SHAPE_INPUTS",
    "SHAPE_MATH",
    "SHAPE_QUERIES",
    "SHARES",
    "SIZE_JOINS",
    "SLICES",
    "SOME_OF_INPUT",
    "SPLITS",
    "SWITCHES",
    "TABLES",
    "TABLE_FILLS",
    "TO_GATES",
    "UNROUNDED",
    "VARIABLES",
    "WHOLE_REFUSALS",
    "WITHOUT_OUTPUTS",
]


def _ops(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Inputs

PLACEHOLDERS = _ops("Placeholder PlaceholderV2 PlaceholderWithDefault")
PIPELINES = _ops(
    "QueueDequeue QueueDequeueV2 QueueDequeueMany QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2 "
    "ReaderRead ReaderReadV2 IteratorGetNext"
)
"""They take the next example of a training pipeline."""
INPUTS = PLACEHOLDERS | {"IteratorGetNext", "_Arg"}
"""Where a graph or function is fed from outside."""

# Variables

VARIABLES = _ops("Variable VariableV2 VarHandleOp AutoReloadVariable")
"""Each node is one variable, whose value is in the checkpoint."""
HANDLE_READS = _ops("ReadVariableOp ResourceGather ResourceGatherNd")
"""They read a variable through its handle."""
HANDLE_WRITES = _ops("AssignVariableOp AssignAddVariableOp AssignSubVariableOp")
"""They write a variable through its handle."""
HANDLE_FACTS = _ops("VariableShape VarIsInitializedOp")
"""They ask about a variable through its handle, and not for its value."""
HANDLE_ENDS = _ops("DestroyResourceOp DisableCopyOnRead")
"""They take a handle and give nothing."""
REF_WRITES = _ops("Assign AssignAdd AssignSub")
"""They write a variable of TensorFlow 1 through its reference."""
INITIAL_WRITES = _ops("Assign AssignVariableOp")
"""They give a variable its first value, or the one that was restored."""

# What passes a tensor on

PASSES_ON = _ops("Identity StopGradient Snapshot GuaranteeConst PreventGradient")
"""Their output is their input, whatever it holds."""
SWITCHES = _ops("Switch RefSwitch _SwitchN SwitchN")
MERGES = _ops("Merge RefMerge")
ENTERS = _ops("Enter RefEnter")
EXITS = _ops("Exit RefExit")
NEXT_ITERATIONS = _ops("NextIteration RefNextIteration")
CONTROL_FLOW = SWITCHES | MERGES | ENTERS | EXITS | NEXT_ITERATIONS | {"LoopCond", "RefLoopCond"}
"""Loops and conditions of TensorFlow 1."""
HANDS_ON: Mapping[str, str] = MappingProxyType(
    {name: name for name in _ops("Enter Exit Identity NextIteration Switch _SwitchN Merge")}
    | {f"Ref{name}": name for name in _ops("Enter Exit Identity NextIteration Switch Merge Select")}
)
"""They pass a variable on, as a handle or a reference; with the op that does the same to a plain tensor."""
SOME_OF_INPUT = PASSES_ON | _ops(
    "IdentityN Reshape ExpandDims Squeeze Cast StridedSlice Slice Transpose Tile "
    "Pack ConcatV2 Unpack Split GatherV2 CheckNumerics"
)
"""Their outputs hold values of their first input, and no others but those of inputs beside it."""

UNROUNDED = (
    PASSES_ON
    | (SOME_OF_INPUT - {"Cast"})
    | _ops(
        "Concat SplitV Gather GatherNd Reverse ReverseV2 ReverseSequence BroadcastTo Pad PadV2 MirrorPad Select "
        "SelectV2 SpaceToDepth DepthToSpace SpaceToBatchND BatchToSpaceND SpaceToBatch BatchToSpace Maximum Minimum "
        "Max Min MaxPool MaxPoolV2 MaxPoolWithArgmax MaxPool3D Relu ClipByValue TopK TopKV2 Unique UniqueV2 "
        "UniqueWithCounts UniqueWithCountsV2 Where OneHot Fill ZerosLike OnesLike TensorScatterUpdate "
        "TensorScatterMax TensorScatterMin MatrixBandPart MatrixDiag MatrixDiagV2 MatrixDiagV3 MatrixDiagPart "
        "MatrixDiagPartV2 MatrixDiagPartV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 Diag DiagPart Roll "
        "DynamicStitch DynamicPartition ListDiff ResizeNearestNeighbor ExtractImagePatches EnsureShape Shape ShapeN "
        "Size Rank "
    )
)
"""Their outputs hold numbers of their inputs, constants or places; none is computed, so that none is rounded."""

# Calls


@record
class Call:
    """How an op calls functions.

    Attributes:
        first: The number of the input that is the functions' first argument.
        types: The attribute with the types of the arguments.
        functions: The attributes that name functions.
    """

    first: int
    types: str
    functions: tuple[str, ...]


_IF, _CASE = Call(1, "Tin", ("then_branch", "else_branch")), Call(1, "Tin", ("branches",))
_WHILE, _DIRECT = Call(0, "T", ("body", "cond")), Call(0, "Tin", ("f",))
CALLS: Mapping[str, Call] = MappingProxyType(
    {
        "If": _IF,
        "StatelessIf": _IF,
        "Case": _CASE,
        "StatelessCase": _CASE,
        "While": _WHILE,
        "StatelessWhile": _WHILE,
        "PartitionedCall": _DIRECT,
        "StatefulPartitionedCall": _DIRECT,
    }
)
"""The ops of TensorFlow 2 that call functions of the library."""
DIRECT_CALLS = frozenset(op for op, call in CALLS.items() if call is _DIRECT)
LOOPS = frozenset(op for op, call in CALLS.items() if call is _WHILE)

# Tables

TABLES = _ops(
    "HashTable HashTableV2 MutableHashTable MutableHashTableV2 MutableHashTableOfTensors MutableHashTableOfTensorsV2 "
    "MutableDenseHashTable MutableDenseHashTableV2 AnonymousHashTable AnonymousMutableHashTable "
    "AnonymousMutableHashTableOfTensors AnonymousMutableDenseHashTable"
)
FILES_OF_TABLES: Mapping[str, int] = MappingProxyType(
    {"InitializeTableFromTextFile": 1, "InitializeTableFromTextFileV2": 1}
)
"""They fill a table from a file; with the number of the input that names it."""
TABLE_FILLS = frozenset(FILES_OF_TABLES) | _ops(
    "InitializeTable InitializeTableV2 LookupTableImport LookupTableImportV2"
)

# Savers

SAVES = _ops("Save SaveSlices SaveV2")
RESTORES = _ops("Restore RestoreSlice RestoreV2")
SAVER_OPS = (
    SAVES
    | RESTORES
    | DIRECT_CALLS
    | INITIAL_WRITES
    | PLACEHOLDERS
    | _ops("NoOp Identity Const Pack MergeV2Checkpoints ShardedFilename StringJoin Reshape")
)
"""What savers consist of. All of these ops but the saves and restores occur elsewhere, too."""

# Shapes

SHAPES = _ops("Shape ShapeN Size Rank")
"""They take no more of a tensor than its shape."""
SHAPE_QUERIES = SHAPES | _ops("VariableShape BroadcastArgs BroadcastGradientArgs")
"""They look at the shape of a tensor, never at its values."""
SHAPE_MATH = _ops(
    "StridedSlice Slice Pack Unpack ConcatV2 Cast Identity Gather GatherV2 Prod Squeeze ExpandDims "
    "Mul Add AddV2 Sub FloorDiv Maximum Reshape Range"
)
"""What is often done with a shape, and leads nowhere if all that it takes is shapes and constants."""
SHAPE_INPUTS: Mapping[str, int] = MappingProxyType(
    {"Reshape": 1, "Fill": 0, "BroadcastTo": 1, "Tile": 1, "RandomUniform": 0, "Slice": 2}
)
"""They take sizes as a tensor; with the number of that input."""
ALLOCATIONS: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(
        _ops(
            "Fill Empty RandomUniform RandomUniformInt RandomStandardNormal TruncatedNormal StatelessRandomUniform "
            "StatelessRandomNormal StatelessTruncatedNormal StatelessRandomUniformV2 StatelessRandomNormalV2 "
            "StatelessTruncatedNormalV2 TensorArray TensorArrayV2 TensorArrayV3"
        ),
        0,
    )
    | dict.fromkeys(_ops("BroadcastTo Tile TensorListReserve OneHot Bincount Range SparseToDense"), 1)
    | dict.fromkeys(_ops("ScatterNd LinSpace"), 2)
)
"""They make a tensor whose size a value says; with the number of that input."""
ID_INPUTS: Mapping[str, int] = MappingProxyType({"Gather": 1, "GatherV2": 1, "ResourceGather": 1, "GatherNd": 1})
"""They take rows by their ids; with the number of the input that has the ids."""

WHOLE_REFUSALS = _ops(
    "Range FloorDiv Div TruncateDiv FloorMod Mod TruncateMod Pow InvertPermutation UnravelIndex BroadcastArgs ListDiff"
)
"""They refuse some whole numbers, such as a divisor of 0."""

# Others

SIZE_JOINS = PASSES_ON | _ops("Pack ConcatV2 Cast ExpandDims")
"""They put a tensor of sizes together from others."""
PROTO_CODECS = _ops("DecodeProtoV2 EncodeProto")
"""An attribute of theirs may name a file that says what messages look like."""
NAMED_BY_ATTR = _ops("FixedUnigramCandidateSampler")
"""They read a file only if an attribute names one."""
BATCH_NORMS = _ops("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx")
GIVEN = _ops("Const Placeholder NoOp")
"""They compute nothing."""
LEAST_RANK: Mapping[str, int] = MappingProxyType({"Where": 1})
"""They refuse a first input of fewer dimensions, but only when they run."""
ORDERING = _ops("NoOp ControlTrigger")
"""They only order others."""
WITHOUT_OUTPUTS = ORDERING | {"Assert"}
"""They only order or check."""
ARITHMETIC = _ops("Add AddV2 Cast Mul Neg RealDiv Rsqrt Sqrt Square Sub")
"""Element by element, cheap enough to be computed anew each time that a folded constant is read."""
REDUCTIONS = _ops("Mean Sum AddN")
"""What a loss ends in."""
LIKELY_OUTPUTS = _ops("Softmax Sigmoid ArgMax TopKV2 LogSoftmax Identity IdentityN BiasAdd")
"""What a model often ends in."""
NEVER_OUTPUTS = (
    SAVES
    | RESTORES
    | REF_WRITES
    | SHAPE_QUERIES
    | HANDLE_FACTS
    | VARIABLES
    | INPUTS
    | WITHOUT_OUTPUTS
    | _ops(
        "Const Print MergeV2Checkpoints StridedSlice IsVariableInitialized ShardedFilename "
        "StopGradient GuaranteeConst StringJoin ReadVariableOp"
    )
)
"""Ends of a graph that are no answer of a model."""

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
