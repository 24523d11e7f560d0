// One run of an encoder.
#ifndef TFSMITH_BERT_PASS_H_
#define TFSMITH_BERT_PASS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "encoder.h"
#include "source_rows.h"

namespace tfsmith::bert {

// Each step is one parallel loop, and reads what the steps before it have written.
class Pass {
 public:
  Pass(const Encoder& encoder, const Batch& batch, Workspace& workspace, const Team& team, Ranges* seen);

  void Run(float* encoded);

 private:
  // A dense layer whose result is added to what went around it, and normalized.
  struct Closing {
    const DenseProduct& product;
    const std::vector<float>& bias;
    const std::vector<float>& gamma;
    const std::vector<float>& beta;
  };

  void RunLayer(size_t index, const float* input, float* result);

  // Rows of the hidden size. For kFloat they are `values` themselves.
  SourceRows HiddenRows(const float* values, size_t layer, Point point) const;
  SourceRows InnerRows(size_t layer) const;

  void PutAll(const float* values, int64_t width, SourceRows& rows);
  void MultiplyHeads(const Encoder::Layer& layer, const SourceRows& input);
  void Attend(const Encoder::Layer& layer);
  void AttendHead(const Encoder::Layer& layer, int64_t sentence, int64_t head, Cut queries, int64_t part, Slot& slot);
  void ToFloats(const DenseProduct& product, size_t panel, const SourceRows& source, int64_t row, float* values) const;
  void MultiplyInner(const Encoder::Layer& layer, const SourceRows& input, SourceRows& inner);
  void Multiply(const DenseProduct& product, const SourceRows& source);
  void Normalize(const Closing& closing, const SourceRows& source, const float* residual, float* result,
                 SourceRows* next);
  void See(size_t layer, Point point, const float* values, int64_t width);

  // Calls body(row) for all rows.
  void ForRows(const std::function<void(int64_t row)>& body);
  // Calls body for all panels of a product and blocks of rows.
  void ForPanels(const DenseProduct& product,
                 const std::function<void(size_t panel, int64_t first, int64_t rows, Slot& slot)>& body);

  const void* HeadOf(const Encoder::Layer& layer, int64_t matrix, int64_t head, int64_t row) const;

  const Encoder& encoder_;
  const Config& config_;
  const Batch& batch_;
  Workspace& space_;
  const Team& team_;
  Ranges* seen_;
};

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_PASS_H_
