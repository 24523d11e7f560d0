#include "encoder.h"

#include "pass.h"

namespace tfsmith::bert {
namespace {

// How many sizes of attention are kept; beyond, all are forgotten and made anew.
constexpr size_t kKeptPlans = 64;

}  // namespace

Encoder::Encoder(const Config& config, const std::vector<LayerWeights>& weights, const Ranges* ranges, const Team& team)
    : config_(config), heads_(config, team.width()) {
  if (ranges != nullptr) ranges_ = *ranges;
  layers_.reserve(weights.size());
  for (const LayerWeights& layer : weights) layers_.push_back(MakeLayer(layer, team.width()));
  PackLayers(weights, team);
}

Encoder::Layer Encoder::MakeLayer(const LayerWeights& weights, int threads) const {
  const int64_t hidden = config_.hidden;
  const int64_t inner = config_.intermediate;
  Layer layer;
  layer.qkv = MakeDense(config_.dense, hidden, heads_.panels());
  layer.attention = MakeDense(config_.dense, hidden, CutColumns(hidden, threads));
  layer.intermediate = MakeDense(config_.dense, hidden, CutColumns(inner, threads));
  layer.output = MakeDense(config_.dense, inner, CutColumns(hidden, threads));
  const auto copy = [&weights](Weight weight, int64_t count, std::vector<float>& values) {
    values.insert(values.end(), weights[weight], weights[weight] + count);
  };
  for (const Weight weight : {kQueryBias, kKeyBias, kValueBias}) copy(weight, hidden, layer.qkv_bias);
  copy(kAttentionBias, hidden, layer.attention_bias);
  copy(kAttentionGamma, hidden, layer.attention_gamma);
  copy(kAttentionBeta, hidden, layer.attention_beta);
  copy(kIntermediateBias, inner, layer.intermediate_bias);
  copy(kOutputBias, hidden, layer.output_bias);
  copy(kOutputGamma, hidden, layer.output_gamma);
  copy(kOutputBeta, hidden, layer.output_beta);
  return layer;
}

void Encoder::PackLayers(const std::vector<LayerWeights>& weights, const Team& team) {
  struct Task {
    DenseProduct* product;
    size_t panel;
    const float* first;
    int64_t stride;
  };
  std::vector<Task> tasks;
  const auto add = [&tasks](DenseProduct& product, const float* matrix, int64_t stride) {
    for (size_t panel = 0; panel < product.panels().size(); ++panel) {
      tasks.push_back({&product, panel, matrix + product.panels()[panel].begin, stride});
    }
  };
  const int64_t hidden = config_.hidden;
  for (size_t index = 0; index < layers_.size(); ++index) {
    Layer& layer = layers_[index];
    const LayerWeights& given = weights[index];
    const float* const matrices[] = {given[kQueryKernel], given[kKeyKernel], given[kValueKernel]};
    for (size_t panel = 0; panel < layer.qkv->panels().size(); ++panel) {
      const int64_t begin = layer.qkv->panels()[panel].begin;
      tasks.push_back({layer.qkv.get(), panel, matrices[begin / hidden] + begin % hidden, hidden});
    }
    add(*layer.attention, given[kAttentionKernel], hidden);
    add(*layer.intermediate, given[kIntermediateKernel], config_.intermediate);
    add(*layer.output, given[kOutputKernel], hidden);
  }
  team.Run(static_cast<int64_t>(tasks.size()), [&tasks](int64_t index, int) {
    const Task& task = tasks[index];
    task.product->Pack(task.panel, task.first, task.stride);
  });
}

std::shared_ptr<const Encoder::AttentionPlan> Encoder::FindPlan(int64_t rows, int64_t words, int64_t width) const {
  const auto key = std::make_tuple(rows, words, width);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  const int64_t size = config_.head_size();
  const StridedShape scores{rows, size, words, width, width, words, true};
  const StridedShape values{rows, words, size, words, width, config_.hidden, false};
  auto plan = std::make_shared<const AttentionPlan>(AttentionPlan{
      StridedProduct(config_.attention, scores), StridedProduct(config_.attention, values)});
  if (plans_.size() >= kKeptPlans) plans_.clear();
  plans_.emplace(key, plan);
  return plan;
}

void Encoder::Run(const Batch& batch, float* encoded, Workspace& workspace, const Team& team, Ranges* seen) const {
  Pass(*this, batch, workspace, team, seen).Run(encoded);
}

}  // namespace tfsmith::bert
