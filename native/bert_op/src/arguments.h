// What the op is given, and whether it fits.
#ifndef TFSMITH_BERT_ARGUMENTS_H_
#define TFSMITH_BERT_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "buffer.h"
#include "config.h"
#include "encoder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "weights.h"

namespace tfsmith::bert {

template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("Bert: ", parts...));
}

// Fills in layers, repeats, hidden, heads and intermediate from attributes.
absl::Status SetSizes(int64_t weights, int64_t repeats, int64_t hidden, int64_t heads, int64_t intermediate,
                      Config* config);

// For a context of shape inference, or of a kernel's construction.
template <typename Context>
absl::Status ReadSizes(Context* context, Config* config) {
  int64_t weights, repeats, hidden, heads, intermediate;
  TF_RETURN_IF_ERROR(context->GetAttr("NumWeights", &weights));
  TF_RETURN_IF_ERROR(context->GetAttr("WeightRepeats", &repeats));
  TF_RETURN_IF_ERROR(context->GetAttr("HiddenSize", &hidden));
  TF_RETURN_IF_ERROR(context->GetAttr("NumAttentionHeads", &heads));
  TF_RETURN_IF_ERROR(context->GetAttr("IntermediateSize", &intermediate));
  return SetSizes(weights, repeats, hidden, heads, intermediate, config);
}

// The error that tensor `index` of the weights has this shape, as text.
absl::Status WrongShape(int64_t index, const std::string& given, const std::vector<Shape>& allowed);

absl::Status CheckWeights(const tensorflow::OpInputList& weights, const Config& config);

// Fills in all but the adder's values. The mask's shape says how many sentences and words there are, also where `embedded`
// has one dimension for both.
absl::Status ReadBatch(const tensorflow::Tensor& embedded, const tensorflow::Tensor& mask, int64_t hidden,
                       int64_t most_words, Batch* batch);

// Fills in the adder's values: nothing where the mask is 1, `most` where it is 0.
absl::Status ReadMask(const tensorflow::Tensor& mask, float most, Buffer* memory, Batch* batch);

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_ARGUMENTS_H_
