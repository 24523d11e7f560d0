// Plain loops that compilers turn into vectors (checked with GCC 12: -fopt-info-vec). Sums over a row use several partial
// sums, so their order differs from a scalar loop's, as it does in TensorFlow.
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "clones.h"

namespace tfsmith::bert {
namespace {

template <typename To, typename From>
TFSMITH_INLINE To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// The nearest bfloat16, as the bits of a float.
TFSMITH_INLINE uint32_t Rounded(float value) {
  const uint32_t bits = BitCast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return (value == value ? rounded : bits | 0x400000u) & 0xffff0000u;
}

// e^x to about 1 unit in the last place: x = n ln 2 + r, and a polynomial in r. Below -87 it is 0, above 88 infinity
// or close to it; NaN gives NaN.
TFSMITH_INLINE float Exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, which stands in the low bits
  const float clamped = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  const float shifted = clamped * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts, the first exact times n
  float q = 1.381446674e-03f;
  q = q * r + 8.368780429e-03f;
  q = q * r + 4.166839422e-02f;
  q = q * r + 1.666652011e-01f;
  q = q * r + 4.999999341e-01f;
  const float mantissa = 1.0f + (r + q * r * r);
  const uint32_t exponent = (BitCast<uint32_t>(shifted) - BitCast<uint32_t>(kRound)) << 23;
  const float power = BitCast<float>(BitCast<uint32_t>(mantissa) + exponent);
  return x < -87.0f ? 0.0f : (x == x ? power : x);
}

// x times the share of a normal distribution below x, as the tanh of a polynomial: 0.5 (1 + tanh u) = 1 / (1 + e^-2u).
TFSMITH_INLINE float GeluTanh(float x) {
  const float u = 0.797884561f * (x + 0.044715f * x * x * x);
  return x / (1.0f + Exp(-2.0f * u));
}

// The same by the error function: erfc(y) = t P(t) e^(-y*y) with t = 1 / (1 + 0.4 y), to 3e-8 for y >= 0.
TFSMITH_INLINE float GeluErf(float x) {
  const float y = std::fabs(x) * 0.707106781f;
  const float t = 1.0f / (1.0f + 0.4f * y);
  float p = 7.308824375e-02f;
  p = p * t + -3.888114977e-01f;
  p = p * t + 6.730506294e-01f;
  p = p * t + -3.619640673e-01f;
  p = p * t + 4.014517777e-01f;
  p = p * t + 1.422481894e-01f;
  p = p * t + 2.359466939e-01f;
  p = p * t + 2.249900065e-01f;
  const float half = 0.5f * p * t * Exp(-y * y);
  return x * (x < 0.0f ? half : 1.0f - half);
}

}  // namespace

TFSMITH_CLONES
void Softmax(float* scores, int64_t rows, int64_t columns, float scale, const float* adder, int64_t adder_stride) {
  for (int64_t i = 0; i < rows; ++i) {
    float* row = scores + i * columns;
    const float* add = adder + i * adder_stride;
    float most = -INFINITY;
#pragma omp simd reduction(max : most)
    for (int64_t j = 0; j < columns; ++j) {
      row[j] = row[j] * scale + add[j];
      most = row[j] > most ? row[j] : most;
    }
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < columns; ++j) {
      row[j] = Exp(row[j] - most);
      sum += row[j];
    }
    const float share = 1.0f / sum;
#pragma omp simd
    for (int64_t j = 0; j < columns; ++j) row[j] *= share;
  }
}

TFSMITH_CLONES
void Clear(float* scores, int64_t rows, int64_t columns, float most, const float* adder, int64_t adder_stride) {
  for (int64_t i = 0; i < rows; ++i) {
    float* row = scores + i * columns;
    const float* add = adder + i * adder_stride;
#pragma omp simd
    for (int64_t j = 0; j < columns; ++j) row[j] = add[j] == most ? 0.0f : row[j];
  }
}

TFSMITH_CLONES
void AddBias(const float* product, const float* bias, int64_t count, float* sum) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sum[i] = product[i] + bias[i];
}

TFSMITH_CLONES
void AddThree(const float* product, const float* bias, const float* residual, int64_t count, float* sum) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sum[i] = product[i] + bias[i] + residual[i];
}

TFSMITH_CLONES
void Normalize(float* row, const float* gamma, const float* beta, int64_t count, float epsilon) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += row[i];
  const float mean = sum / static_cast<float>(count);
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < count; ++i) squares += (row[i] - mean) * (row[i] - mean);
  const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(count) + epsilon);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) row[i] = (row[i] - mean) * (inverse * gamma[i]) + beta[i];
}

TFSMITH_CLONES
void Activate(Activation activation, const float* product, const float* bias, int64_t count, float* result) {
  if (activation == Activation::kRelu) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float sum = product[i] + bias[i];
      result[i] = sum < 0.0f ? 0.0f : sum;  // NaN stays NaN
    }
    return;
  }
  if (activation == Activation::kGeluTanh) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) result[i] = GeluTanh(product[i] + bias[i]);
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) result[i] = GeluErf(product[i] + bias[i]);
}

TFSMITH_CLONES
void ToBfloat16(const float* values, int64_t count, bfloat16_bits* result) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) result[i] = static_cast<bfloat16_bits>(Rounded(values[i]) >> 16);
}

TFSMITH_CLONES
Range Bounds(const float* values, int64_t count) {
  float low = 0;
  float high = 0;
  float nothing = 0;  // unless a value is NaN or infinite
#pragma omp simd reduction(min : low) reduction(max : high) reduction(+ : nothing)
  for (int64_t i = 0; i < count; ++i) {
    low = values[i] < low ? values[i] : low;
    high = values[i] > high ? values[i] : high;
    nothing += values[i] * 0.0f;
  }
  return {low + nothing, high + nothing};
}

RowScale ScaleOf(Range range) {
  const float scale = range.high / 255.0f - range.low / 255.0f;
  if (scale != scale) return {scale, 0};
  if (scale < 1e-30f) return {1.0f, 0};  // all values are zero, or as good as
  return {scale, static_cast<int32_t>(std::lrint(-range.low / scale))};
}

RowScale DigitScaleOf(Range range) {
  const float largest = range.high > -range.low ? range.high : -range.low;
  return {largest < 1e-25f ? 1.0f : largest / kMostDigits, 0};
}

TFSMITH_CLONES
void Quantize(const float* values, int64_t count, RowScale scale, uint8_t* result) {
  const float inverse = 1.0f / scale.scale;
  const float zero = static_cast<float>(scale.zero) + 0.5f;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float shifted = values[i] * inverse + zero;  // its whole part is the rounded value
    const float below = shifted < 255.0f ? shifted : 255.0f;
    const float within = below > 0.0f ? below : 0.0f;
    result[i] = static_cast<uint8_t>(static_cast<int32_t>(within));
  }
}

TFSMITH_CLONES
void ToDigits(const float* values, int64_t count, float inverse, int64_t stride, int8_t* result) {
  int8_t* middle = result + stride;
  int8_t* small = middle + stride;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float scaled = values[i] * inverse;
    const float below = scaled < kMostDigits ? scaled : kMostDigits;
    const float within = below > -kMostDigits ? below : -kMostDigits;
    const int32_t value = static_cast<int32_t>(within + (within < 0.0f ? -0.5f : 0.5f));
    const int32_t rest = (value + 128) >> 8;  // what is left when a digit of -128 to 127 is taken away
    result[i] = static_cast<int8_t>((rest + 128) >> 8);
    middle[i] = static_cast<int8_t>(rest);
    small[i] = static_cast<int8_t>(value);
  }
}

TFSMITH_CLONES
void Rescale(float* values, float scale, const float* weight_scales, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) values[i] *= scale * weight_scales[i];
}

TFSMITH_CLONES
void Dequantize(const int32_t* sums, RowScale row, const float* weight_scales, const int32_t* weight_sums, int64_t count,
                float* values) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const int32_t sum = sums[i] - row.zero * weight_sums[i];
    values[i] = static_cast<float>(sum) * (row.scale * weight_scales[i]);
  }
}

}  // namespace tfsmith::bert
