// Weights as signed bytes, each column with a scale of its own.
#ifndef TFSMITH_BERT_QUANTIZED_WEIGHTS_H_
#define TFSMITH_BERT_QUANTIZED_WEIGHTS_H_

#include <cstdint>
#include <vector>

namespace tfsmith::bert {

struct QuantizedWeights {
  std::vector<int8_t> bytes;  // [digits, depth, width], the largest digit first
  std::vector<float> scales;  // [width]: a weight is its scale times its digits' value
  std::vector<int32_t> sums;  // [width]: for one digit, the sum of the bytes of a column
};

// `digits` is 1 or 3, of 256 each. `limit` is the largest first digit: 127, or less for CPUs whose pairwise sums of products
// saturate at 16 bits. A column that has a NaN or an infinity gets NaN as its scale.
QuantizedWeights QuantizeWeights(const float* weights, int64_t stride, int64_t depth, int64_t width, int64_t digits,
                                 float limit);

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_QUANTIZED_WEIGHTS_H_
