// The sizes of an encoder, and how it computes.
#ifndef TFSMITH_BERT_CONFIG_H_
#define TFSMITH_BERT_CONFIG_H_

#include <cstdint>

namespace tfsmith::bert {

// The numbers that a matrix product takes. kSplit rounds to 24 bits, of the largest value in a row or column, so it is as
// exact as float; it multiplies three bytes of each, which some CPUs do six times in less time than they multiply a float.
enum class Precision { kFloat, kSplit, kBfloat16, kInt8 };

enum class Activation { kGeluTanh, kGeluErf, kRelu };

struct Config {
  int64_t layers = 0;
  int64_t repeats = 1;  // how many layers in a row have the same weights
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t intermediate = 0;
  Activation activation = Activation::kGeluTanh;
  Precision dense = Precision::kFloat;      // the products with weights
  Precision attention = Precision::kFloat;  // the two products of attention: kFloat or kBfloat16
  float epsilon = 1e-12f;                   // of the layer normalizations
  bool clear = false;                       // whether what the mask hides has no share, even where it hides all

  int64_t head_size() const { return hidden / heads; }
};

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_CONFIG_H_
