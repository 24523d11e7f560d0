// How matrices are cut into tasks.
#ifndef TFSMITH_BERT_LAYOUT_H_
#define TFSMITH_BERT_LAYOUT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "config.h"
#include "product.h"

namespace tfsmith::bert {

// Some of `count` things, cut into `parts` that differ by one at most.
struct Cut {
  int64_t count = 0;
  int64_t parts = 1;

  int64_t begin(int64_t part) const { return count * part / parts; }
  int64_t size(int64_t part) const { return begin(part + 1) - begin(part); }
};

inline int64_t CeilDiv(int64_t value, int64_t by) { return (value + by - 1) / by; }

// The columns of a panel: many, so that a row of the source is read seldom, but not so many that the panel leaves the
// CPU's second-level cache or threads go without.
inline int64_t PanelWidth(int64_t columns, int threads) {
  constexpr int64_t kStep = 64;  // what oneDNN's kernels take at a time
  constexpr int64_t kMost = 384;
  const int64_t share = CeilDiv(CeilDiv(columns, 2 * static_cast<int64_t>(threads)), kStep) * kStep;
  return std::clamp<int64_t>(share, kStep, kMost);
}

inline std::vector<Panel> CutColumns(int64_t columns, int threads) {
  const int64_t width = PanelWidth(columns, threads);
  std::vector<Panel> panels;
  for (int64_t begin = 0; begin < columns; begin += width) panels.push_back({begin, std::min(width, columns - begin)});
  return panels;
}

// Queries, keys and values stand side by side in one matrix; a panel has whole heads of one of the three.
class HeadPanels {
 public:
  HeadPanels(const Config& config, int threads) : config_(config) {
    const int64_t most = std::max<int64_t>(1, PanelWidth(3 * config.hidden, threads) / config.head_size());
    groups_ = CeilDiv(config.heads, most);
    heads_ = CeilDiv(config.heads, groups_);
    groups_ = CeilDiv(config.heads, heads_);
  }

  std::vector<Panel> panels() const {
    std::vector<Panel> panels;
    for (int64_t matrix = 0; matrix < 3; ++matrix) {
      for (int64_t group = 0; group < groups_; ++group) {
        const int64_t first = group * heads_;
        const int64_t count = std::min(heads_, config_.heads - first);
        panels.push_back({matrix * config_.hidden + first * config_.head_size(), count * config_.head_size()});
      }
    }
    return panels;
  }

  // The panel that has a head's queries (matrix 0), keys (1) or values (2), and the head's first column in it.
  int64_t PanelOf(int64_t matrix, int64_t head) const { return matrix * groups_ + head / heads_; }
  int64_t ColumnOf(int64_t head) const { return head % heads_ * config_.head_size(); }

 private:
  Config config_;
  int64_t groups_ = 1;
  int64_t heads_ = 1;
};

// How many rows are multiplied at a time, a multiple of 32: enough to use a weight often once it is in a register or a cache,
// and fewer only if there are threads without work otherwise.
inline int64_t RowsAtOnce(int64_t rows, int64_t panels, int threads) {
  int64_t block = 128;
  while (block > 32 && CeilDiv(rows, block) * panels < threads) block /= 2;
  return block;
}

// The words whose attention is computed at a time, so that the scores stay in the second-level cache.
inline Cut CutQueries(int64_t words) {
  const int64_t block = std::max<int64_t>(32, 65536 / std::max<int64_t>(1, words));
  return {words, std::max<int64_t>(1, CeilDiv(words, block))};
}

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_LAYOUT_H_
