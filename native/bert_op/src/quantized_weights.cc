#include "quantized_weights.h"

#include <algorithm>
#include <cmath>

#include "kernels.h"

namespace tfsmith::bert {
namespace {

// The scale of each column, so that its largest weight becomes `most`.
std::vector<float> FindScales(const float* weights, int64_t stride, int64_t depth, int64_t width, float most) {
  std::vector<float> scales(width, 0.0f);
  std::vector<float> nothing(width, 0.0f);  // unless a weight is NaN or infinite
  for (int64_t k = 0; k < depth; ++k) {
    const float* row = weights + k * stride;
    for (int64_t n = 0; n < width; ++n) {
      scales[n] = std::fabs(row[n]) > scales[n] ? std::fabs(row[n]) : scales[n];
      nothing[n] += row[n] * 0.0f;
    }
  }
  for (int64_t n = 0; n < width; ++n) scales[n] = (scales[n] > 1e-25f ? scales[n] / most : 1.0f) + nothing[n];
  return scales;
}

}  // namespace

QuantizedWeights QuantizeWeights(const float* weights, int64_t stride, int64_t depth, int64_t width, int64_t digits,
                                 float limit) {
  QuantizedWeights result;
  result.bytes.resize(digits * depth * width);
  result.sums.assign(width, 0);
  const float most = digits == 1 ? limit : kMostDigits;
  result.scales = FindScales(weights, stride, depth, width, most);
  std::vector<float> row(width);
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t n = 0; n < width; ++n) row[n] = weights[k * stride + n] / result.scales[n];
    int8_t* const first = result.bytes.data() + k * width;
    if (digits == 3) {
      ToDigits(row.data(), width, 1.0f, depth * width, first);
      continue;
    }
    for (int64_t n = 0; n < width; ++n) {
      const float within = row[n] > -limit ? std::min(row[n], limit) : -limit;  // NaN becomes -limit
      first[n] = static_cast<int8_t>(std::lrint(within));
      result.sums[n] += first[n];
    }
  }
  return result;
}

}  // namespace tfsmith::bert
