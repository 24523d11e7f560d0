// Products without a library: for CPUs that oneDNN has no package for, and to check it against. Plain loops, which compilers
// turn into vectors.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backends.h"
#include "buffer.h"
#include "clones.h"
#include "layout.h"
#include "quantized_weights.h"

namespace tfsmith::bert {

struct Scratch::State {};

Scratch::Scratch() : state_(new State) {}
Scratch::~Scratch() = default;

namespace {

constexpr int64_t kColumns = 16;  // that are summed at a time
constexpr int64_t kRows = 4;

// target[r][n] = sum over k of source[r][k] * weights[k][n], for up to kRows rows and `width` of kColumns columns. The weights
// of a depth follow each other.
template <typename Source, typename Weight, typename Sum>
TFSMITH_INLINE void MultiplyBlock(const Source* source, int64_t source_stride, const Weight* weights, int64_t depth,
                                  int64_t rows, int64_t width, Sum* target, int64_t target_stride) {
  Sum sums[kRows][kColumns] = {};
  const Source* lines[kRows];
  for (int64_t r = 0; r < kRows; ++r) lines[r] = source + std::min(r, rows - 1) * source_stride;
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t r = 0; r < kRows; ++r) {
      const Sum factor = lines[r][k];
#pragma omp simd
      for (int64_t n = 0; n < kColumns; ++n) sums[r][n] += factor * static_cast<Sum>(weights[k * kColumns + n]);
    }
  }
  for (int64_t r = 0; r < rows; ++r) std::copy(sums[r], sums[r] + width, target + r * target_stride);
}

TFSMITH_CLONES
void MultiplyFloats(const float* source, int64_t source_stride, const float* weights, int64_t depth, int64_t rows,
                    int64_t width, float* target, int64_t target_stride) {
  MultiplyBlock(source, source_stride, weights, depth, rows, width, target, target_stride);
}

TFSMITH_CLONES
void MultiplyBytes(const uint8_t* source, int64_t source_stride, const int8_t* weights, int64_t depth, int64_t rows,
                   int64_t width, int32_t* target, int64_t target_stride) {
  MultiplyBlock(source, source_stride, weights, depth, rows, width, target, target_stride);
}

// The columns from `column` on of a matrix, 16 at most, in the order of MultiplyBlock; zeros where there are fewer.
template <typename T>
void PackBlock(const T* matrix, int64_t row_stride, int64_t column_stride, int64_t depth, int64_t column, int64_t width,
               T* target) {
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t n = 0; n < kColumns; ++n) {
      target[k * kColumns + n] = n < width ? matrix[k * row_stride + (column + n) * column_stride] : T{};
    }
  }
}

class PortableDense final : public DenseProduct {
 public:
  PortableDense(Precision precision, int64_t depth, std::vector<Panel> panels)
      : DenseProduct(std::move(panels)), precision_(precision), depth_(depth), packed_(this->panels().size()) {}

  void Pack(size_t panel, const float* weights, int64_t stride) override {
    const int64_t width = panels()[panel].width;
    const size_t numbers = CeilDiv(width, kColumns) * kColumns * depth_;
    Packed& packed = packed_[panel];
    if (precision_ == Precision::kFloat) {
      auto* target = packed.memory.ReserveFor<float>(numbers);
      PackAll(weights, stride, width, target);
      return;
    }
    packed.quantized = QuantizeWeights(weights, stride, depth_, width, 1, 127.0f);
    PackAll(packed.quantized.bytes.data(), width, width, packed.memory.ReserveFor<int8_t>(numbers));
    packed.quantized.bytes = {};
  }

  void Multiply(size_t panel, int64_t rows, const void* source, void* target, Scratch&) const override {
    const int64_t width = panels()[panel].width;
    const void* weights = packed_[panel].memory.data();
    for (int64_t column = 0; column < width; column += kColumns) {
      const int64_t some = std::min(kColumns, width - column);
      for (int64_t row = 0; row < rows; row += kRows) {
        const int64_t lines = std::min(kRows, rows - row);
        if (precision_ == Precision::kFloat) {
          MultiplyFloats(static_cast<const float*>(source) + row * depth_, depth_,
                         static_cast<const float*>(weights) + column * depth_, depth_, lines, some,
                         static_cast<float*>(target) + row * width + column, width);
        } else {
          MultiplyBytes(static_cast<const uint8_t*>(source) + row * depth_, depth_,
                        static_cast<const int8_t*>(weights) + column * depth_, depth_, lines, some,
                        static_cast<int32_t*>(target) + row * width + column, width);
        }
      }
    }
  }

  const float* scales(size_t panel) const override { return packed_[panel].quantized.scales.data(); }
  const int32_t* sums(size_t panel) const override { return packed_[panel].quantized.sums.data(); }

 private:
  struct Packed {
    Buffer memory;
    QuantizedWeights quantized;  // without its bytes
  };

  template <typename T>
  void PackAll(const T* weights, int64_t stride, int64_t width, T* target) const {
    for (int64_t column = 0; column < width; column += kColumns) {
      const int64_t some = std::min(kColumns, width - column);
      PackBlock(weights, stride, 1, depth_, column, some, target + column * depth_);
    }
  }

  Precision precision_;
  int64_t depth_;
  std::vector<Packed> packed_;
};

}  // namespace

bool LibrarySupports(Precision precision) { return precision == Precision::kFloat || precision == Precision::kInt8; }

std::unique_ptr<DenseProduct> MakeLibraryDense(Precision precision, int64_t depth, std::vector<Panel> panels) {
  return std::make_unique<PortableDense>(precision, depth, std::move(panels));
}

bool SupportsStrided(Precision precision) { return precision == Precision::kFloat; }

struct StridedProduct::State {
  StridedShape shape;
};

StridedProduct::StridedProduct(Precision, const StridedShape& shape) : state_(new State{shape}) {}
StridedProduct::~StridedProduct() = default;
StridedProduct::StridedProduct(StridedProduct&&) noexcept = default;

void StridedProduct::Multiply(const void* source, const void* factor, float* target, Scratch&) const {
  const StridedShape& shape = state_->shape;
  const int64_t row_stride = shape.transposed ? 1 : shape.factor_stride;
  const int64_t column_stride = shape.transposed ? shape.factor_stride : 1;
  std::vector<float> packed(shape.depth * kColumns);
  for (int64_t column = 0; column < shape.columns; column += kColumns) {
    const int64_t some = std::min(kColumns, shape.columns - column);
    PackBlock(static_cast<const float*>(factor), row_stride, column_stride, shape.depth, column, some, packed.data());
    for (int64_t row = 0; row < shape.rows; row += kRows) {
      MultiplyFloats(static_cast<const float*>(source) + row * shape.source_stride, shape.source_stride, packed.data(),
                     shape.depth, std::min(kRows, shape.rows - row), some, target + row * shape.target_stride + column,
                     shape.target_stride);
    }
  }
}

}  // namespace tfsmith::bert
