// The memory of one run of an encoder, kept for the next run.
#ifndef TFSMITH_BERT_WORKSPACE_H_
#define TFSMITH_BERT_WORKSPACE_H_

#include <memory>
#include <vector>

#include "buffer.h"
#include "product.h"

namespace tfsmith::bert {

// What one thread of the team works in.
struct Slot {
  Scratch scratch;
  Buffer panel;          // the product of some rows with a panel of weights
  Buffer scores;         // the attention of some words to all
  Buffer narrow_scores;  // the same as bfloat16
};

struct Workspace {
  Buffer adder;         // of the mask
  Buffer input;         // what a layer takes, float
  Buffer middle;        // what its first half gives, float
  Buffer qkv;           // queries, keys and values, panel after panel, each without gaps
  Buffer context;       // what attention gives, float
  Buffer product;       // of a dense layer before its normalization, panel after panel
  Buffer inner;         // what the intermediate layer gives
  Buffer source;        // rows of the hidden size as bfloat16 or bytes, and their scales
  Buffer scales;
  Buffer inner_source;  // rows of the intermediate size as bytes, and their scales
  Buffer inner_scales;
  std::vector<std::unique_ptr<Slot>> slots;

  void ReserveSlots(int count) {
    while (slots.size() < static_cast<size_t>(count)) slots.push_back(std::make_unique<Slot>());
  }
};

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_WORKSPACE_H_
