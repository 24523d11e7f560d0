// The tensors that a layer of the encoder is made of, as the op takes them.
#ifndef TFSMITH_BERT_WEIGHTS_H_
#define TFSMITH_BERT_WEIGHTS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "config.h"

namespace tfsmith::bert {

enum Weight {
  kQueryKernel,
  kQueryBias,
  kKeyKernel,
  kKeyBias,
  kValueKernel,
  kValueBias,
  kAttentionKernel,
  kAttentionBias,
  kAttentionGamma,
  kAttentionBeta,
  kIntermediateKernel,
  kIntermediateBias,
  kOutputKernel,
  kOutputBias,
  kOutputGamma,
  kOutputBeta,
  kWeightsPerLayer,
};

using Shape = std::vector<int64_t>;

// "query kernel" and so on.
const char* NameOf(Weight weight);

// The shapes that the tensor may have: those of TensorFlow 1's layers, and of Keras's with a dimension for the heads. All
// lie in memory alike.
std::vector<Shape> AllowedShapes(Weight weight, const Config& config);

// The values of one layer's tensors.
using LayerWeights = std::array<const float*, kWeightsPerLayer>;

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_WEIGHTS_H_
