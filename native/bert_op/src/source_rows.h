// A matrix in the numbers that the dense products take.
#ifndef TFSMITH_BERT_SOURCE_ROWS_H_
#define TFSMITH_BERT_SOURCE_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "config.h"
#include "kernels.h"
#include "product.h"

namespace tfsmith::bert {

// A view: the memory is somebody else's. Rows may be put by several threads, each its own.
class SourceRows {
 public:
  // `data` has rows of the layout that LayoutOf says for `width` values, and `scales` one for each row (kInt8 and kSplit
  // only). With `fixed`, the bytes of kInt8 stand for values of this range; without, for those of their row.
  SourceRows(Precision precision, int64_t width, void* data, RowScale* scales, const Range* fixed)
      : precision_(precision),
        width_(width),
        layout_(LayoutOf(precision, width)),
        data_(static_cast<char*>(data)),
        scales_(scales),
        fixed_(fixed) {}

  // Where a product of the rows from this one on starts; it must be a multiple of 16 if there are tiles.
  const void* row(int64_t row) const { return data_ + row * layout_.row_bytes(); }
  RowScale scale(int64_t row) const { return scales_[row]; }

  // Whether a part of a row can be put before the rest of it is known.
  bool takes_parts() const { return precision_ != Precision::kSplit && (precision_ != Precision::kInt8 || fixed_); }

  void Put(int64_t row, const float* values) { PutPart(row, 0, values, width_); }

  void PutPart(int64_t row, int64_t column, const float* values, int64_t count) {
    if (precision_ == Precision::kFloat) {
      void* const target = data_ + (row * width_ + column) * sizeof(float);
      if (target != values) std::memcpy(target, values, count * sizeof(float));
    } else if (precision_ == Precision::kInt8) {
      PutBytes(row, column, values, count);
    } else if (precision_ == Precision::kSplit) {
      PutDigits(row, values);
    } else {
      PutNarrow(row, column, values, count);
    }
    if (column + count == width_ && layout_.width > width_) {
      static constexpr char kZeros[RowLayout::kPiece] = {};
      for (int64_t part = 0; part < layout_.parts; ++part) Copy(row, part, width_, kZeros, layout_.width - width_);
    }
  }

 private:
  static constexpr int64_t kAtOnce = 512;  // values that are converted before they are copied

  void PutBytes(int64_t row, int64_t column, const float* values, int64_t count) {
    const RowScale scale = ScaleOf(fixed_ != nullptr ? *fixed_ : Bounds(values, count));
    if (column == 0) scales_[row] = scale;
    uint8_t bytes[kAtOnce];
    for (int64_t i = 0; i < count; i += kAtOnce) {
      const int64_t some = std::min(kAtOnce, count - i);
      Quantize(values + i, some, scale, bytes);
      Copy(row, 0, column + i, reinterpret_cast<const char*>(bytes), some);
    }
  }

  void PutDigits(int64_t row, const float* values) {
    const RowScale scale = DigitScaleOf(Bounds(values, width_));
    scales_[row] = scale;
    int8_t digits[3 * kAtOnce];
    for (int64_t i = 0; i < width_; i += kAtOnce) {
      const int64_t some = std::min(kAtOnce, width_ - i);
      ToDigits(values + i, some, 1.0f / scale.scale, kAtOnce, digits);
      for (int64_t part = 0; part < 3; ++part) {
        Copy(row, part, i, reinterpret_cast<const char*>(digits + part * kAtOnce), some);
      }
    }
  }

  void PutNarrow(int64_t row, int64_t column, const float* values, int64_t count) {
    bfloat16_bits numbers[kAtOnce];
    for (int64_t i = 0; i < count; i += kAtOnce) {
      const int64_t some = std::min(kAtOnce, count - i);
      ToBfloat16(values + i, some, numbers);
      Copy(row, 0, column + i, reinterpret_cast<const char*>(numbers), some);
    }
  }

  // Writes some neighbouring numbers of one part of a row.
  void Copy(int64_t row, int64_t part, int64_t column, const char* numbers, int64_t count) {
    if (!layout_.tiled) {
      const int64_t offset = row * layout_.row_bytes() + (part * layout_.width + column) * layout_.bytes;
      std::memcpy(data_ + offset, numbers, count * layout_.bytes);
      return;
    }
    constexpr int64_t kRows = RowLayout::kRows;
    constexpr int64_t kPiece = RowLayout::kPiece;
    char* const group = data_ + row / kRows * kRows * layout_.row_bytes() + part * kRows * kPiece + row % kRows * kPiece;
    int64_t begin = column * layout_.bytes;
    const int64_t end = begin + count * layout_.bytes;
    while (begin < end) {
      const int64_t within = begin % kPiece;
      const int64_t some = std::min(kPiece - within, end - begin);
      char* const target = group + begin / kPiece * layout_.parts * kRows * kPiece + within;
      if (some == kPiece) {
        std::memcpy(target, numbers, kPiece);  // a size that the compiler knows
      } else {
        std::memcpy(target, numbers, some);
      }
      numbers += some;
      begin += some;
    }
  }

  Precision precision_;
  int64_t width_;
  RowLayout layout_;
  char* data_;
  RowScale* scales_;
  const Range* fixed_;
};

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_SOURCE_ROWS_H_
