// Matrix products, each on one thread: the caller cuts the work and brings the threads.
#ifndef TFSMITH_BERT_PRODUCT_H_
#define TFSMITH_BERT_PRODUCT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "config.h"

namespace tfsmith::bert {

// What a thread needs while it multiplies. One per slot of a team; never used by two threads at once.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Whether there are dense and strided products of such numbers. Always true for kFloat.
bool Supports(Precision precision);
bool SupportsStrided(Precision precision);

// Some neighbouring columns of a matrix.
struct Panel {
  int64_t begin = 0;
  int64_t width = 0;
};

// How a source lies in memory: `parts` numbers of `bytes` bytes for each value. Without tiles, rows follow each other. With
// tiles, 16 rows are cut into pieces of 64 bytes: first the first piece of the first part of these rows, then of the
// second part, then the second piece of each; `width` is rounded up, and the numbers after the last value are zero.
struct RowLayout {
  static constexpr int64_t kRows = 16;
  static constexpr int64_t kPiece = 64;

  int64_t width = 0;
  int64_t parts = 1;
  int64_t bytes = 4;
  bool tiled = false;

  int64_t row_bytes() const { return width * parts * bytes; }  // on average
  size_t total(int64_t rows) const { return (rows + kRows - 1) / kRows * kRows * row_bytes(); }
};

// The weights of a dense layer, packed once.
class DenseProduct {
 public:
  virtual ~DenseProduct() = default;

  // Packs one panel. `weights` is where its first column starts; rows are `stride` floats apart. Panels may be packed in
  // parallel.
  virtual void Pack(size_t panel, const float* weights, int64_t stride) = 0;

  // target = source * weights of the panel. The source has the layout that LayoutOf says, and starts at a multiple of 16
  // rows in it. The target has no gaps, and is float, or int32 for kInt8.
  virtual void Multiply(size_t panel, int64_t rows, const void* source, void* target, Scratch& scratch) const = 0;

  // For kInt8: what each column of the panel was divided by, and the sum of what it then was.
  virtual const float* scales(size_t panel) const = 0;
  virtual const int32_t* sums(size_t panel) const = 0;

  const std::vector<Panel>& panels() const { return panels_; }

 protected:
  explicit DenseProduct(std::vector<Panel> panels) : panels_(std::move(panels)) {}

 private:
  std::vector<Panel> panels_;
};

// How `depth` values are laid out for a product of such numbers on this CPU.
RowLayout LayoutOf(Precision precision, int64_t depth);

// The best implementation for this CPU. The panels tell which columns are multiplied at a time.
std::unique_ptr<DenseProduct> MakeDense(Precision precision, int64_t depth, std::vector<Panel> panels);

// The products of attention: both factors are cut out of larger matrices.
struct StridedShape {
  int64_t rows, depth, columns;
  int64_t source_stride, factor_stride, target_stride;
  bool transposed;  // the factor is given as [columns, depth]
};

class StridedProduct {
 public:
  // kFloat or kBfloat16 for source and factor; the target is float.
  StridedProduct(Precision precision, const StridedShape& shape);
  ~StridedProduct();
  StridedProduct(StridedProduct&&) noexcept;

  void Multiply(const void* source, const void* factor, float* target, Scratch& scratch) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_PRODUCT_H_
