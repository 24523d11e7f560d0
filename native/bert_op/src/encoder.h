// BERT's encoder: some layers of attention and dense layers, as in Google's modeling.py.
#ifndef TFSMITH_BERT_ENCODER_H_
#define TFSMITH_BERT_ENCODER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "config.h"
#include "layout.h"
#include "product.h"
#include "ranges.h"
#include "team.h"
#include "weights.h"
#include "workspace.h"

namespace tfsmith::bert {

// What an encoder is run on.
struct Batch {
  int64_t sentences = 0;
  int64_t words = 0;
  const float* embedded = nullptr;  // [sentences * words, hidden]
  const float* adder = nullptr;     // [sentences, adder_rows, words]: added to the scores before their softmax
  int64_t adder_rows = 1;           // 1, or `words`
  float most = 0;                   // the adder of what is hidden

  int64_t rows() const { return sentences * words; }
};

// Its weights are packed when it is made, and nothing of the originals is needed after. Several threads may run it.
class Encoder {
 public:
  struct Layer {
    std::unique_ptr<DenseProduct> qkv, attention, intermediate, output;
    std::vector<float> qkv_bias, attention_bias, intermediate_bias, output_bias;
    std::vector<float> attention_gamma, attention_beta, output_gamma, output_beta;
  };
  struct AttentionPlan {
    StridedProduct scores, values;
  };

  // With `ranges`, kInt8 rounds the sources of dense products to these; without, to what each row has.
  Encoder(const Config& config, const std::vector<LayerWeights>& weights, const Ranges* ranges, const Team& team);

  // encoded: [sentences * words, hidden]. With `seen`, for kFloat only, widens these ranges by what the sources had.
  void Run(const Batch& batch, float* encoded, Workspace& workspace, const Team& team, Ranges* seen) const;

  const Config& config() const { return config_; }
  const HeadPanels& heads() const { return heads_; }
  size_t layers() const { return static_cast<size_t>(config_.layers); }
  const Layer& layer(size_t index) const { return layers_[index / static_cast<size_t>(config_.repeats)]; }

  // Null if rows have their own.
  const Range* range(size_t layer, Point point) const { return ranges_.empty() ? nullptr : &ranges_[layer][point]; }

  // The products of attention for so many queries of a sentence, cut out of panels of that width. Made when first asked
  // for, then kept.
  std::shared_ptr<const AttentionPlan> FindPlan(int64_t rows, int64_t words, int64_t width) const;

 private:
  Layer MakeLayer(const LayerWeights& weights, int threads) const;
  void PackLayers(const std::vector<LayerWeights>& weights, const Team& team);

  Config config_;
  HeadPanels heads_;
  Ranges ranges_;
  std::vector<Layer> layers_;  // of which each has `repeats` turns

  mutable std::mutex mutex_;  // guards plans_
  mutable std::map<std::tuple<int64_t, int64_t, int64_t>, std::shared_ptr<const AttentionPlan>> plans_;
};

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_ENCODER_H_
