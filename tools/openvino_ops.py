"""Which of TensorFlow's ops OpenVINO's frontend has no rule for: asks the installed OpenVINO, op by op.

    python tools/openvino_ops.py            prints the list in docs/engines.md
    python tools/openvino_ops.py --all      prints every op that it has no rule for

Each op of the packaged database is handed over as a graph of its own: placeholders, one node, nothing else. Where the
frontend has no rule for an op it says so by name; any other complaint is about the made-up node, not about the op.
"""

from __future__ import annotations

import re
import sys

from tfsmith.engines.openvino import Handover
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Attr, Node
from tfsmith.ir.opdef import ArgDef, OpDef, builtin_ops
from tfsmith.ir.types import UNKNOWN, dtype_named

_NO_RULE = re.compile(r"No conversion rule found for operations: ([^\n]*)")
_FLOAT = dtype_named("float32")
# What models are made of, by what makes it: the ops behind tf.nn, tf.math and the others, those of training left out.
# Not here are TF1's loops (Enter, Exit, NextIteration, Switch, Merge) and TensorArrayV3: OpenVINO converts them only as
# parts of something larger, never alone.
USED = {
    "control flow": "Case If StatelessCase StatelessIf StatelessWhile While PartitionedCall"
    " StatefulPartitionedCall Assert Identity IdentityN StopGradient CheckNumerics"
    " PlaceholderWithDefault",
    "arrays": "BatchToSpaceND Bitcast BroadcastTo Concat ConcatV2 ConcatOffset Const DepthToSpace"
    " DynamicPartition DynamicStitch ExpandDims Fill Gather GatherNd GatherV2 InvertPermutation"
    " MatrixBandPart MatrixDiag MatrixDiagV3 MatrixDiagPartV3 MatrixSetDiagV3 MirrorPad OneHot"
    " OnesLike Pack Pad PadV2 ParallelDynamicStitch Range Rank Reshape Reverse ReverseSequence"
    " ReverseV2 Roll ScatterNd LowerBound UpperBound Select SelectV2 Shape ShapeN Size Slice"
    " SpaceToBatchND SpaceToDepth Split SplitV Squeeze StridedSlice TensorScatterAdd"
    " TensorScatterUpdate TensorScatterMax Tile Transpose Unique UniqueV2 UniqueWithCounts"
    " Unpack UnravelIndex Where ZerosLike",
    "math": "Abs Acos Acosh Add AddN AddV2 All Any ArgMax ArgMin Asin Asinh Atan Atan2 Atanh"
    " AccumulateNV2 BatchMatMul BatchMatMulV2 BatchMatMulV3 BesselI0e Bincount DenseBincount"
    " BitwiseAnd BitwiseOr BitwiseXor Bucketize Cast Ceil ClipByValue Cos Cosh Cross Cumprod"
    " Cumsum CumulativeLogsumexp Digamma Div DivNoNan Einsum Equal Erf Erfc Erfinv Exp Expm1"
    " Floor FloorDiv FloorMod Greater GreaterEqual HistogramFixedWidth Igamma Inv IsFinite IsInf"
    " IsNan LeftShift Less LessEqual Lgamma LinSpace Log Log1p LogicalAnd LogicalNot LogicalOr"
    " MatMul Max Maximum Mean Min Minimum Mod Mul MulNoNan Ndtri Neg NextAfter NotEqual"
    " NthElement Pow Prod RealDiv Reciprocal RightShift Rint Round Rsqrt SegmentMax SegmentMean"
    " SegmentSum Sigmoid Sign Sin Sinh Sqrt Square SquaredDifference Sub Sum Tan Tanh"
    " TruncateDiv UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum"
    " Xdivy Xlog1py Xlogy Zeta",
    "neural networks": "AvgPool AvgPool3D BiasAdd BlockLSTM BlockLSTMV2 CTCBeamSearchDecoder CTCGreedyDecoder"
    " Conv2D Conv2DBackpropInput Conv3D Conv3DBackpropInputV2 DepthwiseConv2dNative Dilation2D"
    " Elu FractionalAvgPool FractionalMaxPool FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3"
    " GRUBlockCell L2Loss LRN LSTMBlockCell LeakyRelu LogSoftmax MaxPool MaxPool3D MaxPoolV2"
    " MaxPoolWithArgmax Relu Relu6 Selu Softmax Softplus Softsign TopK TopKV2 ApproxTopK"
    " CudnnRNNV3",
    "quantization": "Dequantize FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars"
    " FakeQuantWithMinMaxVarsPerChannel QuantizeAndDequantizeV2 QuantizeAndDequantizeV3"
    " QuantizeV2 QuantizedConv2D QuantizedMatMul",
    "images": "AdjustContrastv2 AdjustHue AdjustSaturation CombinedNonMaxSuppression CropAndResize"
    " DecodeAndCropJpeg DecodeBmp DecodeGif DecodeImage DecodeJpeg DecodePng DrawBoundingBoxesV2"
    " EncodeJpeg EncodePng ExtractGlimpse ExtractImagePatches HSVToRGB"
    " ImageProjectiveTransformV3 NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3"
    " NonMaxSuppressionV4 NonMaxSuppressionV5 RGBToHSV ResizeArea ResizeBicubic ResizeBilinear"
    " ResizeNearestNeighbor ScaleAndTranslate",
    "linear algebra": "Cholesky Eig LogMatrixDeterminant Lu MatrixDeterminant MatrixInverse MatrixSolve"
    " MatrixTriangularSolve Qr SelfAdjointEigV2 Svd",
    "signals and sound": "AudioSpectrogram Complex ComplexAbs Conj DecodeWav FFT FFT2D IFFT IFFT2D IRFFT IRFFT2D"
    " Imag Mfcc RFFT RFFT2D Real",
    "random numbers": "Multinomial RandomGamma RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt"
    " StatelessRandomNormalV2 StatelessRandomUniformV2 TruncatedNormal",
    "lists and tensor arrays": "TensorArrayGatherV3 TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3"
    " TensorArraySplitV3 TensorArrayWriteV3 EmptyTensorList TensorListConcatV2"
    " TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack"
    " TensorListPushBack TensorListReserve TensorListResize TensorListSetItem TensorListSplit"
    " TensorListStack",
    "strings": "AsString DecodeBase64 DecodeRaw EncodeBase64 Fingerprint ReduceJoin RegexFullMatch"
    " RegexReplace StaticRegexReplace StringFormat StringJoin StringLength StringLower"
    " StringNGrams StringSplit StringSplitV2 StringStrip StringToHashBucketFast"
    " StringToHashBucketStrong StringToNumber StringUpper Substr UnicodeDecodeWithOffsets"
    " UnicodeEncode UnicodeTranscode UnsortedSegmentJoin",
    "examples and tables": "DecodeCSV DecodeProtoV2 HashTableV2 LookupTableFindV2 LookupTableSizeV2 MutableHashTableV2"
    " ParseExample ParseExampleV2 ParseSingleExample ParseTensor SerializeTensor",
    "sparse and ragged": "RaggedCross RaggedGather RaggedRange RaggedTensorToSparse RaggedTensorToTensor SparseAdd"
    " SparseConcat SparseFillEmptyRows SparseReorder SparseReshape SparseSegmentMean"
    " SparseSegmentSqrtN SparseSegmentSum SparseSlice SparseSoftmax SparseTensorDenseMatMul"
    " SparseToDense",
}


def main() -> None:
    import openvino
    from openvino.frontend import FrontEndManager

    known = builtin_ops()
    frontend = FrontEndManager().load_by_framework("tf")
    version = str(openvino.__version__).partition("-")[0]
    if "--all" in sys.argv:
        lacking = [name for name in sorted(known) if _is_lacking(frontend, known[name])]
        print(
            f"OpenVINO {version} has no rule for {len(lacking)} of the {len(known)} ops of TensorFlow {known.version}:"
        )
        print("\n".join(lacking))
        return
    wrong = [name for names in USED.values() for name in names.split() if name not in known]
    assert not wrong, wrong
    count = sum(len(names.split()) for names in USED.values())
    found = {
        group: [name for name in names.split() if _is_lacking(frontend, known[name])] for group, names in USED.items()
    }
    total = sum(map(len, found.values()))
    print(f"Of {count} ops (TensorFlow {known.version}), OpenVINO {version} has no rule for {total}.\n")
    print("| | OpenVINO has no rule for |\n|---|---|")
    for group, names in found.items():
        print(f"| {group} ({len(names)} of {len(USED[group].split())}) | {', '.join(names) or 'none'} |")


def _is_lacking(frontend: object, op: OpDef) -> bool:
    if op.name in ("Placeholder", "NoOp") or not op.outputs:
        return False
    attrs = {attr.name: attr.default for attr in op.attrs if attr.default is not None}
    attrs |= {attr.name: _made(attr.kind) for attr in op.attrs if attr.default is None}
    count = sum(_count(arg, attrs) for arg in op.inputs)
    inputs = [Node(f"x{number}", "Placeholder", (), {"dtype": _FLOAT, "shape": UNKNOWN}) for number in range(count)]
    node = Node("probe", op.name, tuple(found.name for found in inputs), attrs)
    handover = Handover(Graph((*inputs, node)), ["probe:0"])
    try:
        frontend.convert(frontend.load(handover.iterator()))  # type: ignore[attr-defined]
    except Exception as error:
        told = {name.strip() for found in _NO_RULE.findall(str(error)) for name in found.split(",")}
        return op.name in told
    return False


def _made(kind: str) -> Attr:
    values: dict[str, object] = {"type": _FLOAT, "int": 1, "float": 1.0, "bool": False, "string": b"", "shape": UNKNOWN}
    if kind.startswith("list("):
        inner = _made(kind[5:-1])
        return Attr.of_kind(kind, (inner.value,)) if inner.value is not None else Attr("list", ())
    return Attr.of_kind(kind, values.get(kind)) if values.get(kind) is not None else Attr("none", None)


def _count(arg: ArgDef, attrs: dict[str, Attr]) -> int:
    try:
        return min(arg.count(attrs), 4)
    except Exception:
        return 1


if __name__ == "__main__":
    main()
