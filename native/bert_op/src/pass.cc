#include "pass.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "kernels.h"

namespace tfsmith::bert {
namespace {

constexpr int64_t kRowsPerTask = 16;

template <typename T>
T* As(Buffer& buffer) {
  return static_cast<T*>(buffer.data());
}

}  // namespace

Pass::Pass(const Encoder& encoder, const Batch& batch, Workspace& workspace, const Team& team, Ranges* seen)
    : encoder_(encoder), config_(encoder.config()), batch_(batch), space_(workspace), team_(team), seen_(seen) {
  const size_t rows = batch.rows();
  const size_t hidden = config_.hidden;
  const size_t inner = config_.intermediate;
  space_.ReserveSlots(team.width());
  space_.input.ReserveFor<float>(rows * hidden);
  space_.middle.ReserveFor<float>(rows * hidden);
  space_.qkv.ReserveFor<float>(rows * hidden * 3);
  space_.context.ReserveFor<float>(rows * hidden);
  space_.product.ReserveFor<float>(rows * hidden);
  const bool bytes = config_.dense == Precision::kInt8 || config_.dense == Precision::kSplit;
  if (bytes || config_.dense == Precision::kFloat) space_.inner.ReserveFor<float>(rows * inner);
  if (config_.dense == Precision::kFloat) return;
  space_.source.Reserve(LayoutOf(config_.dense, config_.hidden).total(rows));
  space_.inner_source.Reserve(LayoutOf(config_.dense, config_.intermediate).total(rows));
  if (!bytes) return;
  space_.scales.ReserveFor<RowScale>(rows);
  space_.inner_scales.ReserveFor<RowScale>(rows);
}

void Pass::Run(float* encoded) {
  const size_t layers = encoder_.layers();
  SourceRows first = HiddenRows(batch_.embedded, 0, kQueryKeyValue);
  PutAll(batch_.embedded, config_.hidden, first);
  const float* input = batch_.embedded;
  for (size_t index = 0; index < layers; ++index) {
    float* const result = index + 1 == layers ? encoded : As<float>(space_.input);
    RunLayer(index, input, result);
    input = result;
  }
}

void Pass::RunLayer(size_t index, const float* input, float* result) {
  const Encoder::Layer& layer = encoder_.layer(index);
  float* const context = As<float>(space_.context);
  float* const middle = As<float>(space_.middle);

  See(index, kQueryKeyValue, input, config_.hidden);
  MultiplyHeads(layer, HiddenRows(input, index, kQueryKeyValue));
  Attend(layer);
  See(index, kAttentionOutput, context, config_.hidden);

  SourceRows attended = HiddenRows(context, index, kAttentionOutput);
  PutAll(context, config_.hidden, attended);
  Multiply(*layer.attention, attended);
  SourceRows half = HiddenRows(middle, index, kIntermediate);
  const Closing first{*layer.attention, layer.attention_bias, layer.attention_gamma, layer.attention_beta};
  Normalize(first, attended, input, middle, &half);
  See(index, kIntermediate, middle, config_.hidden);

  SourceRows inner = InnerRows(index);
  MultiplyInner(layer, half, inner);
  See(index, kOutput, As<float>(space_.inner), config_.intermediate);
  if (!inner.takes_parts()) PutAll(As<float>(space_.inner), config_.intermediate, inner);
  Multiply(*layer.output, inner);
  const bool last = index + 1 == encoder_.layers();
  SourceRows next = HiddenRows(result, last ? index : index + 1, kQueryKeyValue);
  const Closing second{*layer.output, layer.output_bias, layer.output_gamma, layer.output_beta};
  Normalize(second, inner, middle, result, last ? nullptr : &next);
}

SourceRows Pass::HiddenRows(const float* values, size_t layer, Point point) const {
  const int64_t width = config_.hidden;
  if (config_.dense == Precision::kFloat) {
    return SourceRows(Precision::kFloat, width, const_cast<float*>(values), nullptr, nullptr);  // read only
  }
  return SourceRows(config_.dense, width, space_.source.data(), As<RowScale>(space_.scales),
                    encoder_.range(layer, point));
}

SourceRows Pass::InnerRows(size_t layer) const {
  const int64_t width = config_.intermediate;
  Buffer& memory = config_.dense == Precision::kFloat ? space_.inner : space_.inner_source;
  return SourceRows(config_.dense, width, memory.data(), As<RowScale>(space_.inner_scales),
                    encoder_.range(layer, kOutput));
}

void Pass::PutAll(const float* values, int64_t width, SourceRows& rows) {
  if (config_.dense == Precision::kFloat) return;
  ForRows([&](int64_t row) { rows.Put(row, values + row * width); });
}

void Pass::MultiplyHeads(const Encoder::Layer& layer, const SourceRows& input) {
  const DenseProduct& product = *layer.qkv;
  const bool narrow = config_.attention == Precision::kBfloat16;
  const size_t bytes = narrow ? sizeof(bfloat16_bits) : sizeof(float);
  ForPanels(product, [&](size_t panel, int64_t first, int64_t rows, Slot& slot) {
    const Panel& columns = product.panels()[panel];
    const float* bias = layer.qkv_bias.data() + columns.begin;
    auto* values = slot.panel.ReserveFor<float>(rows * columns.width);
    product.Multiply(panel, rows, input.row(first), values, slot.scratch);
    char* target = As<char>(space_.qkv) + (batch_.rows() * columns.begin + first * columns.width) * bytes;
    for (int64_t row = first; row < first + rows; ++row, values += columns.width, target += columns.width * bytes) {
      float* const sum = narrow ? values : reinterpret_cast<float*>(target);
      ToFloats(product, panel, input, row, values);
      AddBias(values, bias, columns.width, sum);
      if (narrow) ToBfloat16(sum, columns.width, reinterpret_cast<bfloat16_bits*>(target));
    }
  });
}

// What bytes and digits give is not in the values' scale yet; it is put right in its place.
void Pass::ToFloats(const DenseProduct& product, size_t panel, const SourceRows& source, int64_t row,
                    float* values) const {
  const int64_t width = product.panels()[panel].width;
  if (config_.dense == Precision::kSplit) {
    Rescale(values, source.scale(row).scale * 65536.0f, product.scales(panel), width);
  } else if (config_.dense == Precision::kInt8) {
    const auto* sums = reinterpret_cast<int32_t*>(values);
    Dequantize(sums, source.scale(row), product.scales(panel), product.sums(panel), width, values);
  }
}

void Pass::Attend(const Encoder::Layer& layer) {
  const Cut queries = CutQueries(batch_.words);
  team_.Run(batch_.sentences * config_.heads * queries.parts, [&](int64_t task, int slot) {
    const int64_t head = task / queries.parts % config_.heads;
    const int64_t sentence = task / queries.parts / config_.heads;
    AttendHead(layer, sentence, head, queries, task % queries.parts, *space_.slots[slot]);
  });
}

const void* Pass::HeadOf(const Encoder::Layer& layer, int64_t matrix, int64_t head, int64_t row) const {
  const HeadPanels& heads = encoder_.heads();
  const Panel& columns = layer.qkv->panels()[heads.PanelOf(matrix, head)];
  const int64_t offset = batch_.rows() * columns.begin + row * columns.width + heads.ColumnOf(head);
  const size_t bytes = config_.attention == Precision::kBfloat16 ? sizeof(bfloat16_bits) : sizeof(float);
  return As<char>(space_.qkv) + offset * bytes;
}

void Pass::AttendHead(const Encoder::Layer& layer, int64_t sentence, int64_t head, Cut queries, int64_t part,
                      Slot& slot) {
  const int64_t words = batch_.words;
  const int64_t start = sentence * words;
  const int64_t first = queries.begin(part);
  const int64_t rows = queries.size(part);
  const auto plan = encoder_.FindPlan(rows, words, layer.qkv->panels()[encoder_.heads().PanelOf(0, head)].width);
  auto* scores = slot.scores.ReserveFor<float>(rows * words);
  plan->scores.Multiply(HeadOf(layer, 0, head, start + first), HeadOf(layer, 1, head, start), scores, slot.scratch);

  const int64_t adder_stride = batch_.adder_rows == 1 ? 0 : words;
  const float* adder = batch_.adder + sentence * batch_.adder_rows * words + first * adder_stride;
  const float scale = 1.0f / std::sqrt(static_cast<float>(config_.head_size()));
  Softmax(scores, rows, words, scale, adder, adder_stride);
  if (config_.clear) Clear(scores, rows, words, batch_.most, adder, adder_stride);

  const void* shares = scores;
  if (config_.attention == Precision::kBfloat16) {
    auto* narrow = slot.narrow_scores.ReserveFor<bfloat16_bits>(rows * words);
    ToBfloat16(scores, rows * words, narrow);
    shares = narrow;
  }
  const int64_t offset = (start + first) * config_.hidden + head * config_.head_size();
  plan->values.Multiply(shares, HeadOf(layer, 2, head, start), As<float>(space_.context) + offset, slot.scratch);
}

void Pass::MultiplyInner(const Encoder::Layer& layer, const SourceRows& input, SourceRows& inner) {
  const DenseProduct& product = *layer.intermediate;
  // Where the floats are needed as such, or all of a row for its scale, they go into `inner` first.
  const bool whole = config_.dense == Precision::kFloat || !inner.takes_parts();
  ForPanels(product, [&](size_t panel, int64_t first, int64_t rows, Slot& slot) {
    const Panel& columns = product.panels()[panel];
    const float* bias = layer.intermediate_bias.data() + columns.begin;
    auto* values = slot.panel.ReserveFor<float>(rows * columns.width);
    product.Multiply(panel, rows, input.row(first), values, slot.scratch);
    for (int64_t row = first; row < first + rows; ++row, values += columns.width) {
      float* const target = whole ? As<float>(space_.inner) + row * config_.intermediate + columns.begin : values;
      ToFloats(product, panel, input, row, values);
      Activate(config_.activation, values, bias, columns.width, target);
      if (!whole) inner.PutPart(row, columns.begin, values, columns.width);
    }
  });
}

// Into `product`, without bias, and not yet in the values' scale.
void Pass::Multiply(const DenseProduct& product, const SourceRows& source) {
  ForPanels(product, [&](size_t panel, int64_t first, int64_t rows, Slot& slot) {
    const Panel& columns = product.panels()[panel];
    float* const target = As<float>(space_.product) + batch_.rows() * columns.begin + first * columns.width;
    product.Multiply(panel, rows, source.row(first), target, slot.scratch);
  });
}

// result = normalized(product + bias + residual); also put into `next`, if there is one.
void Pass::Normalize(const Closing& closing, const SourceRows& source, const float* residual, float* result,
                     SourceRows* next) {
  const DenseProduct& product = closing.product;
  ForRows([&](int64_t row) {
    float* const values = result + row * config_.hidden;
    for (size_t panel = 0; panel < product.panels().size(); ++panel) {
      const Panel& columns = product.panels()[panel];
      float* part = As<float>(space_.product) + batch_.rows() * columns.begin + row * columns.width;
      ToFloats(product, panel, source, row, part);
      AddThree(part, closing.bias.data() + columns.begin, residual + row * config_.hidden + columns.begin,
               columns.width, values + columns.begin);
    }
    bert::Normalize(values, closing.gamma.data(), closing.beta.data(), config_.hidden, config_.epsilon);
    if (next != nullptr) next->Put(row, values);
  });
}

void Pass::See(size_t layer, Point point, const float* values, int64_t width) {
  if (seen_ == nullptr) return;
  Range& seen = (*seen_)[layer][point];
  std::mutex mutex;
  ForRows([&](int64_t row) {
    const Range bounds = Bounds(values + row * width, width);
    std::lock_guard<std::mutex> lock(mutex);
    seen.low = std::min(seen.low, bounds.low);
    seen.high = std::max(seen.high, bounds.high);
  });
}

void Pass::ForRows(const std::function<void(int64_t)>& body) {
  const Cut cut{batch_.rows(), CeilDiv(batch_.rows(), kRowsPerTask)};
  team_.Run(cut.parts, [&](int64_t part, int) {
    for (int64_t row = cut.begin(part); row < cut.begin(part + 1); ++row) body(row);
  });
}

// Neighbouring tasks have the same panel, which a thread then finds in its cache.
void Pass::ForPanels(const DenseProduct& product,
                     const std::function<void(size_t, int64_t, int64_t, Slot&)>& body) {
  const auto panels = static_cast<int64_t>(product.panels().size());
  const int64_t block = RowsAtOnce(batch_.rows(), panels, team_.width());
  const int64_t blocks = CeilDiv(batch_.rows(), block);
  team_.Run(panels * blocks, [&](int64_t task, int slot) {
    const int64_t first = task % blocks * block;
    body(static_cast<size_t>(task / blocks), first, std::min(block, batch_.rows() - first), *space_.slots[slot]);
  });
}

}  // namespace tfsmith::bert
