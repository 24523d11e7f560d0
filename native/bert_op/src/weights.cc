#include "weights.h"

namespace tfsmith::bert {

const char* NameOf(Weight weight) {
  static constexpr std::array<const char*, kWeightsPerLayer> kNames = {
      "query kernel",           "query bias",           "key kernel",
      "key bias",               "value kernel",         "value bias",
      "attention output kernel", "attention output bias", "attention output gamma",
      "attention output beta",  "intermediate kernel",  "intermediate bias",
      "output kernel",          "output bias",          "output gamma",
      "output beta"};
  return kNames[weight];
}

std::vector<Shape> AllowedShapes(Weight weight, const Config& config) {
  const int64_t hidden = config.hidden;
  switch (weight) {
    case kQueryKernel:
    case kKeyKernel:
    case kValueKernel:
      return {{hidden, hidden}, {hidden, config.heads, config.head_size()}};
    case kQueryBias:
    case kKeyBias:
    case kValueBias:
      return {{hidden}, {config.heads, config.head_size()}};
    case kAttentionKernel:
      return {{hidden, hidden}, {config.heads, config.head_size(), hidden}};
    case kIntermediateKernel:
      return {{hidden, config.intermediate}};
    case kIntermediateBias:
      return {{config.intermediate}};
    case kOutputKernel:
      return {{config.intermediate, hidden}};
    default:
      return {{hidden}};
  }
}

}  // namespace tfsmith::bert
