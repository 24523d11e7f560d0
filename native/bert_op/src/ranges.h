// What values the sources of the dense products have: recorded from runs in float32, later used to quantize.
#ifndef TFSMITH_BERT_RANGES_H_
#define TFSMITH_BERT_RANGES_H_

#include <array>
#include <string>
#include <vector>

#include "kernels.h"

namespace tfsmith::bert {

// The four places of a layer, in the order of the file.
enum Point { kQueryKeyValue, kAttentionOutput, kIntermediate, kOutput, kPoints };

using LayerRanges = std::array<Range, kPoints>;
using Ranges = std::vector<LayerRanges>;

// Widens each of `ranges` by the one of `seen`.
void Merge(const Ranges& seen, Ranges& ranges);

// The ranges of 8 numbers a layer: low and high of the four places. Throws std::runtime_error, whose text begins with
// `where`, if they are none of so many layers.
Ranges MakeRanges(const std::vector<float>& numbers, size_t layers, const std::string& where);

// A file has these numbers as text, a line a layer. Each function throws std::runtime_error, whose text names the file, if
// that cannot be read or written, or is no such file of so many layers.
Ranges ReadRanges(const std::string& path, size_t layers);
void WriteRanges(const std::string& path, const Ranges& ranges);

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_RANGES_H_
