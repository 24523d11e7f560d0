// The op `Bert` for TensorFlow: what it takes and gives. The interface is the one that public recipes for `Bert` nodes are
// written for; attributes beyond it have defaults.
#include "arguments.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tfsmith::bert {
namespace {

using absl::Status;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

bool MayBe(InferenceContext* context, ShapeHandle given, const Shape& wanted) {
  if (!context->RankKnown(given)) return true;
  if (context->Rank(given) != static_cast<int>(wanted.size())) return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const DimensionHandle size = context->Dim(given, static_cast<int>(i));
    if (context->ValueKnown(size) && context->Value(size) != wanted[i]) return false;
  }
  return true;
}

Status InferShape(InferenceContext* context) {
  Config config;
  TF_RETURN_IF_ERROR(ReadSizes(context, &config));
  ShapeHandle embedded;
  TF_RETURN_IF_ERROR(context->WithRankAtLeast(context->input(0), 2, &embedded));
  TF_RETURN_IF_ERROR(context->WithRankAtMost(embedded, 3, &embedded));
  ShapeHandle mask;
  TF_RETURN_IF_ERROR(context->WithRankAtLeast(context->input(1), 2, &mask));
  TF_RETURN_IF_ERROR(context->WithRankAtMost(mask, 4, &mask));
  for (int64_t index = 0; index < config.layers / config.repeats * kWeightsPerLayer; ++index) {
    const ShapeHandle given = context->input(static_cast<int>(2 + index));
    const auto allowed = AllowedShapes(static_cast<Weight>(index % kWeightsPerLayer), config);
    bool fine = false;
    for (const Shape& shape : allowed) fine = fine || MayBe(context, given, shape);
    if (!fine) return WrongShape(index, context->DebugString(given), allowed);
  }
  if (!context->RankKnown(embedded)) {
    context->set_output(0, context->UnknownShape());
    return absl::OkStatus();
  }
  const int rank = context->Rank(embedded);
  DimensionHandle hidden;
  TF_RETURN_IF_ERROR(context->WithValue(context->Dim(embedded, rank - 1), config.hidden, &hidden));
  if (rank == 3 && context->RankKnown(mask)) {
    DimensionHandle sentences;
    DimensionHandle words;
    TF_RETURN_IF_ERROR(context->Merge(context->Dim(embedded, 0), context->Dim(mask, 0), &sentences));
    TF_RETURN_IF_ERROR(context->Merge(context->Dim(embedded, 1), context->Dim(mask, -1), &words));
    context->set_output(0, context->MakeShape({sentences, words, hidden}));
    return absl::OkStatus();
  }
  TF_RETURN_IF_ERROR(context->ReplaceDim(embedded, rank - 1, hidden, &embedded));
  context->set_output(0, embedded);
  return absl::OkStatus();
}

REGISTER_OP("Bert")
    .Input("embedded: float")
    .Input("input_mask: MaskT")
    .Input("weights: NumWeights * float")
    .Output("encoded: float")
    .Attr("MaskT: {int32, int64, float, bool}")
    .Attr("QuantizableDataType: {float, qint8} = DT_FLOAT")
    .Attr("NonQuantizableDataType: {float, bfloat16} = DT_FLOAT")
    .Attr("NumWeights: int >= 16")
    .Attr("HiddenSize: int = 768")
    .Attr("NumAttentionHeads: int = 12")
    .Attr("IntermediateSize: int = 3072")
    .Attr("MaxSequenceLength: int = 128")
    .Attr("HiddenAct: {'gelu_tanh', 'gelu_erf', 'relu'} = 'gelu_tanh'")
    .Attr("CalibrateQuantFactors: bool = false")
    .Attr("QuantizationFactorsPath: string = ''")
    .Attr("QuantizationFactors: list(float) = []")
    .Attr("LayerNormEpsilon: float = 1e-12")
    .Attr("MaskAdder: float = -10000.0")
    .Attr("ClearMasked: bool = false")
    .Attr("WeightRepeats: int = 1")
    .SetShapeFn(InferShape)
    .Doc(R"doc(
Encodes sentences as BERT does: all layers of its encoder at once.

embedded: What the embedding layer gives, [batch, sequence, hidden] or [batch * sequence, hidden].
input_mask: 1 for words, 0 for padding: [batch, sequence], with dimensions of 1 between the two if there are any, or
  [batch, sequence, sequence] for a mask of each word's own.
weights: For each layer: kernel and bias of query, key, value and attention output; gamma and beta; kernel and bias of
  the intermediate and of the output layer; gamma and beta.
encoded: What the last layer gives, in the shape of `embedded`.
QuantizableDataType: qint8 rounds weights, and what they are multiplied with, to 8 bits.
NonQuantizableDataType: bfloat16 rounds to 16 bits whatever is multiplied and not quantized.
NumWeights: 16 for each layer, or for each WeightRepeats layers.
MaxSequenceLength: Longer sequences are refused.
CalibrateQuantFactors: Writes the ranges of what is quantized, over all runs, to QuantizationFactorsPath.
QuantizationFactorsPath: For qint8, the file with these ranges.
QuantizationFactors: For qint8, the ranges themselves, as the file has them, instead of a file. Without both, each row is
  rounded to its own range.
MaskAdder: Added to the scores of what the mask hides; with -inf, a word that sees nothing becomes NaN.
ClearMasked: What the mask hides has no share at all: a word that sees nothing attends to nothing.
WeightRepeats: So many layers in a row have the same weights, as all of ALBERT's have: these are passed, and packed, once.
)doc");

}  // namespace
}  // namespace tfsmith::bert
