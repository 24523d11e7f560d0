#include "arguments.h"

#include <algorithm>
#include <cmath>

namespace tfsmith::bert {
namespace {

using absl::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

std::string Text(const Shape& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}

// More layers in a row than this have no weights in common: a mistake, not a model.
constexpr int64_t kMostLayers = 4096;

// "weights 17 (query bias of layer 1)"
std::string Describe(int64_t index) {
  const auto weight = static_cast<Weight>(index % kWeightsPerLayer);
  return "weights " + std::to_string(index) + " (" + NameOf(weight) + " of layer " +
         std::to_string(index / kWeightsPerLayer) + ")";
}

// Whether all are as finite as `most`.
template <typename T>
bool FillAdder(const Tensor& mask, float most, float* adder) {
  const auto values = mask.flat<T>();
  bool finite = true;
  for (int64_t i = 0; i < values.size(); ++i) {
    const float hidden = 1.0f - static_cast<float>(values(i));
    adder[i] = hidden == 0.0f ? 0.0f : hidden * most;
    finite = finite && (std::isfinite(adder[i]) || adder[i] == most);  // which may be infinite
  }
  return finite;
}

}  // namespace

Status SetSizes(int64_t weights, int64_t repeats, int64_t hidden, int64_t heads, int64_t intermediate,
                Config* config) {
  if (weights <= 0 || weights % kWeightsPerLayer != 0) {
    return InvalidArgument("NumWeights is ", weights, ", but a layer has ", int{kWeightsPerLayer}, " weights");
  }
  if (repeats <= 0 || repeats > kMostLayers) {
    return InvalidArgument("WeightRepeats is ", repeats, ", expected 1 to ", kMostLayers);
  }
  if (hidden <= 0 || heads <= 0 || intermediate <= 0) {
    return InvalidArgument("HiddenSize, NumAttentionHeads and IntermediateSize must be positive");
  }
  if (hidden % heads != 0) {
    return InvalidArgument("a HiddenSize of ", hidden, " does not split into ", heads, " NumAttentionHeads");
  }
  config->layers = weights / kWeightsPerLayer * repeats;
  config->repeats = repeats;
  config->hidden = hidden;
  config->heads = heads;
  config->intermediate = intermediate;
  return absl::OkStatus();
}

Status WrongShape(int64_t index, const std::string& given, const std::vector<Shape>& allowed) {
  std::string wanted;
  for (const Shape& shape : allowed) wanted += (wanted.empty() ? "" : " or ") + Text(shape);
  return InvalidArgument(Describe(index), " have shape ", given, ", expected ", wanted);
}

Status CheckWeights(const tensorflow::OpInputList& weights, const Config& config) {
  for (int index = 0; index < weights.size(); ++index) {
    const auto allowed = AllowedShapes(static_cast<Weight>(index % kWeightsPerLayer), config);
    const auto sizes = weights[index].shape().dim_sizes();
    bool fine = false;
    for (const Shape& shape : allowed) fine = fine || std::equal(shape.begin(), shape.end(), sizes.begin(), sizes.end());
    if (!fine) return WrongShape(index, weights[index].shape().DebugString(), allowed);
  }
  return absl::OkStatus();
}

Status ReadBatch(const Tensor& embedded, const Tensor& mask, int64_t hidden, int64_t most_words, Batch* batch) {
  const TensorShape& shape = embedded.shape();
  if (shape.dims() != 2 && shape.dims() != 3) {
    return InvalidArgument("embedded has shape ", shape.DebugString(),
                           ", expected [batch * sequence, hidden] or [batch, sequence, hidden]");
  }
  if (shape.dim_size(shape.dims() - 1) != hidden) {
    return InvalidArgument("embedded has shape ", shape.DebugString(), ", but HiddenSize is ", hidden);
  }
  const TensorShape& mask_shape = mask.shape();
  const int rank = mask_shape.dims();
  const std::string expected = ", expected [batch, sequence], or with dimensions of 1 between the two, or "
                               "[batch, sequence, sequence]";
  if (rank < 2 || rank > 4) {
    return InvalidArgument("input_mask has shape ", mask_shape.DebugString(), expected);
  }
  batch->sentences = mask_shape.dim_size(0);
  batch->words = mask_shape.dim_size(rank - 1);
  batch->adder_rows = rank == 2 ? 1 : mask_shape.dim_size(rank - 2);
  const bool strange = rank == 4 && mask_shape.dim_size(1) != 1;
  if (strange || (batch->adder_rows != 1 && batch->adder_rows != batch->words)) {
    return InvalidArgument("input_mask has shape ", mask_shape.DebugString(), expected);
  }
  const bool agree = shape.dims() == 2 ? shape.dim_size(0) == batch->rows()
                                       : shape.dim_size(0) == batch->sentences && shape.dim_size(1) == batch->words;
  if (!agree) {
    return InvalidArgument("embedded has shape ", shape.DebugString(), ", which input_mask of shape ",
                           mask_shape.DebugString(), " does not fit");
  }
  if (batch->words > most_words) {
    return InvalidArgument("sequences of ", batch->words, " are longer than MaxSequenceLength, ", most_words,
                           ": raise that attribute");
  }
  batch->embedded = embedded.flat<float>().data();
  return absl::OkStatus();
}

Status ReadMask(const Tensor& mask, float most, Buffer* memory, Batch* batch) {
  float* adder = memory->ReserveFor<float>(mask.NumElements());
  bool finite = false;
  switch (mask.dtype()) {
    case tensorflow::DT_INT32:
      finite = FillAdder<int32_t>(mask, most, adder);
      break;
    case tensorflow::DT_INT64:
      finite = FillAdder<int64_t>(mask, most, adder);
      break;
    case tensorflow::DT_FLOAT:
      finite = FillAdder<float>(mask, most, adder);
      break;
    case tensorflow::DT_BOOL:
      finite = FillAdder<bool>(mask, most, adder);
      break;
    default:
      return InvalidArgument("input_mask has type ", tensorflow::DataTypeString(mask.dtype()));
  }
  if (!finite) return InvalidArgument("input_mask has a NaN, an infinity, or a value too large to be a mask");
  batch->adder = adder;
  batch->most = most;
  return absl::OkStatus();
}

}  // namespace tfsmith::bert
