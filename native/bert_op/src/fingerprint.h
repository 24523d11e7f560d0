// A number that tells whether values have changed, without reading all of them.
#ifndef TFSMITH_BERT_FINGERPRINT_H_
#define TFSMITH_BERT_FINGERPRINT_H_

#include <cstdint>
#include <cstring>

namespace tfsmith::bert {

// Of all values of a vector; of some 128 of a matrix, all over it. Training and loading change nearly every value of a
// matrix, so this sees them, for a thousandth of the time that the products take.
inline uint64_t Fingerprint(const float* values, int64_t count) {
  constexpr int64_t kAll = 8192;
  constexpr int64_t kSamples = 128;
  constexpr uint64_t kPrime = 0x9E3779B97F4A7C15ull;
  const int64_t step = count <= kAll ? 1 : count / kSamples;
  uint64_t sums[4] = {1, 2, 3, 4};  // independent, so that the CPU works on them at once
  for (int64_t i = 0; i < count; i += step) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    uint64_t& sum = sums[i / step % 4];
    sum = (sum ^ bits) * kPrime;
    sum ^= sum >> 29;
  }
  uint64_t all = static_cast<uint64_t>(count);
  for (const uint64_t sum : sums) all = (all ^ sum) * kPrime;
  return all;
}

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_FINGERPRINT_H_
