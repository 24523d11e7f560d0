// Dense products on AMX. oneDNN uses it too, but for bfloat16 and bytes only, and takes longer for these (figures in
// docs/decisions/0007-bert-op.md).
#include <algorithm>
#include <cstring>
#include <utility>

#include "amx.h"
#include "backends.h"
#include "buffer.h"
#include "kernels.h"
#include "layout.h"
#include "quantized_weights.h"

namespace tfsmith::bert {
namespace {

using amx::kColumns;
using amx::kTile;
using amx::kTileBytes;
using amx::kTileRows;

constexpr int64_t kSourceBytes = 640 * 1024;  // of the source, that are worked on at a time
constexpr int64_t kWeightBytes = 24 * 1024;   // of the weights

class AmxDense final : public DenseProduct {
 public:
  AmxDense(Precision precision, int64_t depth, std::vector<Panel> panels)
      : DenseProduct(std::move(panels)), precision_(precision), depth_(depth), layout_(AmxLayout(precision, depth)) {
    int64_t bytes = 0;
    for (const Panel& panel : this->panels()) {
      offsets_.push_back(bytes);
      bytes += panel_bytes(panel.width);
    }
    memory_.Reserve(bytes);
    quantized_.resize(this->panels().size());
  }

  void Pack(size_t panel, const float* weights, int64_t stride) override {
    const int64_t width = panels()[panel].width;
    char* const target = static_cast<char*>(memory_.data()) + offsets_[panel];
    std::memset(target, 0, panel_bytes(width));
    if (precision_ == Precision::kBfloat16) return PackNarrow(weights, stride, width, target);
    const int64_t digits = layout_.parts;
    quantized_[panel] = QuantizeWeights(weights, stride, depth_, width, digits, 127.0f);
    const int8_t* bytes = quantized_[panel].bytes.data();
    ForWeights(width, [&](int64_t k, int64_t n, int64_t offset) {
      for (int64_t part = 0; part < digits; ++part) {
        target[offset + part * part_bytes()] = static_cast<char>(bytes[(part * depth_ + k) * width + n]);
      }
    });
    quantized_[panel].bytes = {};
  }

  // So many steps are taken at a time that all rows stay in the second-level cache while the panel's weights pass once.
  void Multiply(size_t panel, int64_t rows, const void* source, void* target, Scratch&) const override {
    const int64_t width = panels()[panel].width;
    const int64_t whole = width / kColumns * kColumns;
    const Cut cut = CutSteps(steps(), kSourceBytes / (rows * layout_.parts * kTileBytes));
    const Work work{static_cast<const char*>(source), rows, static_cast<char*>(target), width * 4};
    amx::Begin();
    for (int64_t part = 0; part < cut.parts; ++part) {
      MultiplyColumns(panel, {0, whole}, work, cut.begin(part), cut.size(part));
    }
    if (whole < width) MultiplyRest(panel, {whole, width - whole}, work);
    amx::End();
  }

  const float* scales(size_t panel) const override { return quantized_[panel].scales.data(); }
  const int32_t* sums(size_t panel) const override { return quantized_[panel].sums.data(); }

 private:
  struct Work {
    const char* source;
    int64_t rows;
    char* target;
    int64_t target_bytes;  // from one row to the next
  };

  int64_t tiles() const { return amx::ColumnTiles(precision_); }
  int64_t steps() const { return layout_.width * layout_.bytes / kTileBytes; }
  // Of the weights of a block's columns: a part of a step, a step, all.
  int64_t part_bytes() const { return tiles() * kTile; }
  int64_t step_bytes() const { return layout_.parts * part_bytes(); }
  int64_t block_bytes() const { return steps() * step_bytes(); }
  int64_t panel_bytes(int64_t width) const { return CeilDiv(width, tiles() * kColumns) * block_bytes(); }

  static Cut CutSteps(int64_t steps, int64_t most) {
    return {steps, CeilDiv(steps, std::max<int64_t>(1, most))};
  }

  void PackNarrow(const float* weights, int64_t stride, int64_t width, char* target) const {
    std::vector<bfloat16_bits> row(width);
    int64_t converted = -1;
    ForWeights(width, [&](int64_t k, int64_t n, int64_t offset) {
      if (k != converted) ToBfloat16(weights + k * stride, width, row.data());
      converted = k;
      std::memcpy(target + offset, &row[n], sizeof(row[n]));
    });
  }

  // Calls body(k, n, offset) for each weight, with the place of its first part. The weights lie in the order in which they
  // are used. A tile has in each row the 4 bytes of weights that are multiplied with neighbouring values, for 16 columns.
  template <typename Body>
  void ForWeights(int64_t width, const Body& body) const {
    const int64_t together = 4 / layout_.bytes;
    const int64_t deep = kTileRows * together;
    for (int64_t k = 0; k < depth_; ++k) {
      const int64_t step = k / deep * step_bytes() + k % deep / together * kTileBytes + k % together * layout_.bytes;
      for (int64_t n = 0; n < width; ++n) body(k, n, step + ColumnOffset(n) + n % kColumns * 4);
    }
  }

  int64_t ColumnOffset(int64_t column) const {
    const int64_t tile = column / kColumns;
    return tile / tiles() * block_bytes() + tile % tiles() * kTile;
  }

  // `columns` are whole tiles of the panel, unless the target has room for more. So many steps are taken at a time that the
  // weights of a block's columns stay in the first-level cache while all rows pass.
  void MultiplyColumns(size_t panel, Panel columns, const Work& work, int64_t first_step, int64_t steps) const {
    const char* const weights = static_cast<const char*>(memory_.data()) + offsets_[panel];
    const Cut cut = CutSteps(steps, kWeightBytes / step_bytes());
    for (int64_t column = 0; column < columns.width; column += tiles() * kColumns) {
      const char* const first = weights + ColumnOffset(columns.begin + column);
      const int64_t wanted = std::min(tiles(), CeilDiv(columns.width - column, kColumns));
      for (int64_t part = 0; part < cut.parts; ++part) {
        const int64_t step = first_step + cut.begin(part);
        MultiplyRows(work, first + step * step_bytes(), wanted, column * 4, step, cut.size(part));
      }
    }
  }

  void MultiplyRows(const Work& work, const char* weights, int64_t columns, int64_t column_offset, int64_t step,
                    int64_t steps) const {
    const int64_t source_step = layout_.parts * kTile;
    const int64_t group_bytes = this->steps() * source_step;  // of 16 rows
    const int64_t blocks = CeilDiv(work.rows, 2 * kTileRows);
    const int64_t soon_bytes = CeilDiv(step_bytes(), blocks);  // each block brings its share of the weights after these
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t row = block * 2 * kTileRows;
      const int64_t upper = std::min(kTileRows, work.rows - row);
      const int64_t lower = std::clamp<int64_t>(work.rows - row - kTileRows, 0, kTileRows);
      const char* const source = work.source + row / kTileRows * group_bytes + step * source_step;
      const char* const soon = weights + steps * step_bytes() + block * steps * soon_bytes;
      char* const target = work.target + row * work.target_bytes + column_offset;
      amx::Multiply(precision_, {{source, source + group_bytes}, {upper, lower}, weights, columns, steps, soon, soon_bytes,
                                 target, work.target_bytes, step > 0});
    }
  }

  // Less than a tile of columns: by way of a copy.
  void MultiplyRest(size_t panel, Panel columns, const Work& work) const {
    std::vector<char> copy(work.rows * kTileBytes);
    MultiplyColumns(panel, columns, {work.source, work.rows, copy.data(), kTileBytes}, 0, steps());
    for (int64_t row = 0; row < work.rows; ++row) {
      char* const target = work.target + row * work.target_bytes + columns.begin * 4;
      std::memcpy(target, copy.data() + row * kTileBytes, columns.width * 4);
    }
  }

  Precision precision_;
  int64_t depth_;
  RowLayout layout_;
  std::vector<int64_t> offsets_;  // of the panels in memory_
  Buffer memory_;
  std::vector<QuantizedWeights> quantized_;  // without bytes
};

}  // namespace

bool HasAmx() { return amx::IsThere(); }

RowLayout AmxLayout(Precision precision, int64_t depth) {
  const int64_t bytes = amx::Bytes(precision);
  const int64_t piece = kTileBytes / bytes;
  return {CeilDiv(depth, piece) * piece, amx::Parts(precision), bytes, true};
}

std::unique_ptr<DenseProduct> MakeAmxDense(Precision precision, int64_t depth, std::vector<Panel> panels) {
  return std::make_unique<AmxDense>(precision, depth, std::move(panels));
}

}  // namespace tfsmith::bert
