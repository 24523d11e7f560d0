// What happens to rows between the matrix products. Each runs on one thread, and on the widest vectors that the CPU has.
#ifndef TFSMITH_BERT_KERNELS_H_
#define TFSMITH_BERT_KERNELS_H_

#include <cstdint>

#include "config.h"

namespace tfsmith::bert {

using bfloat16_bits = uint16_t;

// The bounds of some values; at first those of no value.
struct Range {
  float low = 0;
  float high = 0;
};

// A row of bytes stands for (byte - zero) * scale; a row of digits for scale times their value.
struct RowScale {
  float scale = 1;
  int32_t zero = 0;
};

// The largest value that three digits have, with a first digit of 127 at most.
constexpr float kMostDigits = 127.0f * 65536 + 127 * 256 + 127;

// Softmax of each row of scale * scores + adder, in place. The adders of row i start at adder + i * adder_stride.
void Softmax(float* scores, int64_t rows, int64_t columns, float scale, const float* adder, int64_t adder_stride);

// 0 for each score whose adder is `most`: what is hidden has no share.
void Clear(float* scores, int64_t rows, int64_t columns, float most, const float* adder, int64_t adder_stride);

// sum = product + bias; sum may be product.
void AddBias(const float* product, const float* bias, int64_t count, float* sum);

// sum = product + bias + residual.
void AddThree(const float* product, const float* bias, const float* residual, int64_t count, float* sum);

// Layer normalization of one row, in place.
void Normalize(float* row, const float* gamma, const float* beta, int64_t count, float epsilon);

// result = activation(product + bias); result may be product.
void Activate(Activation activation, const float* product, const float* bias, int64_t count, float* result);

// Rounds to nearest, ties to even; NaN stays NaN.
void ToBfloat16(const float* values, int64_t count, bfloat16_bits* result);

// The bounds of the values and 0; both NaN if one of them is NaN or infinite.
Range Bounds(const float* values, int64_t count);

// What maps these bounds, which include 0, to 0..255. Its scale is NaN if they are.
RowScale ScaleOf(Range range);

// What maps the larger of these bounds to kMostDigits.
RowScale DigitScaleOf(Range range);

// Values beyond the scale's bounds become one of the bounds. What NaN becomes does not matter; the row's scale is NaN.
void Quantize(const float* values, int64_t count, RowScale scale, uint8_t* result);

// Each value * inverse, rounded, as three signed digits of 256; the largest digit first, each `stride` after the one before.
void ToDigits(const float* values, int64_t count, float inverse, int64_t stride, int8_t* result);

// values[n] *= scale * weight_scales[n], in place.
void Rescale(float* values, float scale, const float* weight_scales, int64_t count);

// values[n] = (sums[n] - row.zero * weight_sums[n]) * row.scale * weight_scales[n]; values may lie where sums do.
void Dequantize(const int32_t* sums, RowScale row, const float* weight_scales, const int32_t* weight_sums, int64_t count,
                float* values);

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_KERNELS_H_
