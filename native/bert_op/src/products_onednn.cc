// Products by oneDNN. Its packages on PyPI run their own OpenMP threads and cannot use TensorFlow's, so every primitive here
// is made for one thread; see docs/decisions/0007-bert-op.md.
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "backends.h"
#include "buffer.h"
#include "dnnl.hpp"
#include "quantized_weights.h"

extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int);
}

namespace tfsmith::bert {
namespace {

using Desc = dnnl::memory::desc;
using Type = dnnl::memory::data_type;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

// The rows that the layout of packed weights is chosen for.
constexpr int64_t kTypicalRows = 128;
// How many sizes of a product are kept; beyond, all are forgotten and made anew.
constexpr size_t kKeptSizes = 64;

// oneDNN asks OpenMP how many threads there are, both when a primitive is made and when it runs. The answer belongs to
// the calling thread, so it is put back for whoever uses OpenMP on this thread next.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

const dnnl::engine& Engine() {
  static const dnnl::engine* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

Type SourceType(Precision precision) {
  if (precision == Precision::kInt8) return Type::u8;
  return precision == Precision::kBfloat16 ? Type::bf16 : Type::f32;
}

Type WeightType(Precision precision) { return precision == Precision::kInt8 ? Type::s8 : SourceType(precision); }

Type TargetType(Precision precision) { return precision == Precision::kInt8 ? Type::s32 : Type::f32; }

// oneDNN takes pointers to what it only reads as void*.
dnnl::memory Wrap(const Desc& desc, const void* data) { return {desc, Engine(), const_cast<void*>(data)}; }

// Without VNNI, products of bytes are added in pairs to 16 bits, which 127 * 255 * 2 exceeds.
float WeightLimit() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512vnni") ? 127.0f : 63.0f;
#else
  return 127.0f;
#endif
}

struct Plan {
  dnnl::matmul::primitive_desc desc;
  dnnl::matmul primitive;

  Plan(const Desc& source, const Desc& weights, const Desc& target) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // so that threads can share a primitive
    desc = dnnl::matmul::primitive_desc(Engine(), source, weights, target, attributes);
    primitive = dnnl::matmul(desc);
  }
};

}  // namespace

struct Scratch::State {
  dnnl::stream stream{Engine()};
  Buffer pad;

  void Execute(const Plan& plan, const void* source, const void* weights, void* target) {
    const OneThread guard;
    const Desc needed = plan.desc.scratchpad_desc();
    const std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, Wrap(plan.desc.src_desc(), source)},
        {DNNL_ARG_WEIGHTS, Wrap(plan.desc.weights_desc(), weights)},
        {DNNL_ARG_DST, Wrap(plan.desc.dst_desc(), target)},
        {DNNL_ARG_SCRATCHPAD, Wrap(needed, pad.Reserve(needed.get_size()))},
    };
    plan.primitive.execute(stream, arguments);
    stream.wait();
  }
};

Scratch::Scratch() : state_(new State) {}
Scratch::~Scratch() = default;

namespace {

class OnednnDense final : public DenseProduct {
 public:
  OnednnDense(Precision precision, int64_t depth, std::vector<Panel> panels)
      : DenseProduct(std::move(panels)), precision_(precision), depth_(depth), packed_(this->panels().size()) {
    const OneThread guard;
    std::map<int64_t, Desc> layouts;  // by width; most panels have the same
    for (size_t panel = 0; panel < packed_.size(); ++panel) {
      const int64_t width = this->panels()[panel].width;
      if (layouts.count(width) == 0) {
        const Desc any({depth, width}, WeightType(precision), Tag::any);
        layouts.emplace(width, Plan(Source(kTypicalRows), any, Target(kTypicalRows, width)).desc.weights_desc());
      }
      packed_[panel].desc = layouts.at(width);
    }
  }

  void Pack(size_t panel, const float* weights, int64_t stride) override {
    const OneThread guard;
    Packed& packed = packed_[panel];
    const int64_t width = panels()[panel].width;
    const void* data = weights;
    Desc given({depth_, width}, Type::f32, Dims{stride, 1});
    if (precision_ == Precision::kInt8) {
      packed.quantized = QuantizeWeights(weights, stride, depth_, width, 1, WeightLimit());
      data = packed.quantized.bytes.data();
      given = Desc({depth_, width}, Type::s8, Tag::ab);
    }
    dnnl::memory target = Wrap(packed.desc, packed.memory.Reserve(packed.desc.get_size()));
    dnnl::memory source = Wrap(given, data);
    dnnl::stream stream(Engine());
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
    packed.quantized.bytes = {};
  }

  void Multiply(size_t panel, int64_t rows, const void* source, void* target, Scratch& scratch) const override {
    const auto plan = FindPlan(panel, rows);
    scratch.state().Execute(*plan, source, packed_[panel].memory.data(), target);
  }

  const float* scales(size_t panel) const override { return packed_[panel].quantized.scales.data(); }
  const int32_t* sums(size_t panel) const override { return packed_[panel].quantized.sums.data(); }

 private:
  struct Packed {
    Desc desc;
    Buffer memory;
    QuantizedWeights quantized;  // without its bytes
  };

  Desc Source(int64_t rows) const { return {{rows, depth_}, SourceType(precision_), Tag::ab}; }
  Desc Target(int64_t rows, int64_t width) const { return {{rows, width}, TargetType(precision_), Tag::ab}; }

  std::shared_ptr<const Plan> FindPlan(size_t panel, int64_t rows) const {
    const int64_t width = panels()[panel].width;
    const auto key = std::make_pair(width, rows);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto found = plans_.find(key);
      if (found != plans_.end()) return found->second;
    }
    const OneThread guard;
    auto plan = std::make_shared<const Plan>(Source(rows), packed_[panel].desc, Target(rows, width));
    std::lock_guard<std::mutex> lock(mutex_);
    if (plans_.size() >= kKeptSizes) plans_.clear();
    plans_.emplace(key, plan);
    return plan;
  }

  Precision precision_;
  int64_t depth_;
  std::vector<Packed> packed_;
  mutable std::mutex mutex_;  // guards plans_
  mutable std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const Plan>> plans_;  // by width and rows
};

}  // namespace

bool LibrarySupports(Precision precision) {
  if (precision == Precision::kFloat) return true;
  if (precision == Precision::kSplit) return false;
  try {
    const OneThread guard;
    const Desc source({kTypicalRows, 64}, SourceType(precision), Tag::ab);
    const Desc weights({64, 64}, WeightType(precision), Tag::any);
    Plan(source, weights, Desc({kTypicalRows, 64}, TargetType(precision), Tag::ab));
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

std::unique_ptr<DenseProduct> MakeLibraryDense(Precision precision, int64_t depth, std::vector<Panel> panels) {
  return std::make_unique<OnednnDense>(precision, depth, std::move(panels));
}

bool SupportsStrided(Precision precision) {
  return precision == Precision::kFloat || (precision == Precision::kBfloat16 && LibrarySupports(precision));
}

struct StridedProduct::State {
  Plan plan;
};

StridedProduct::StridedProduct(Precision precision, const StridedShape& shape) {
  const OneThread guard;
  const Type type = SourceType(precision);
  const Dims strides = shape.transposed ? Dims{1, shape.factor_stride} : Dims{shape.factor_stride, 1};
  const Desc source({shape.rows, shape.depth}, type, Dims{shape.source_stride, 1});
  const Desc factor({shape.depth, shape.columns}, type, strides);
  const Desc target({shape.rows, shape.columns}, Type::f32, Dims{shape.target_stride, 1});
  state_.reset(new State{Plan(source, factor, target)});
}

StridedProduct::~StridedProduct() = default;
StridedProduct::StridedProduct(StridedProduct&&) noexcept = default;

void StridedProduct::Multiply(const void* source, const void* factor, float* target, Scratch& scratch) const {
  scratch.state().Execute(state_->plan, source, factor, target);
}

}  // namespace tfsmith::bert
