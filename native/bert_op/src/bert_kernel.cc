// The kernel of the op `Bert`, and when it packs weights anew.
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "encoder.h"
#include "fingerprint.h"
#include "ranges.h"
#include "team.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/threadpool.h"
#include "workspace.h"

namespace tfsmith::bert {
namespace {

using absl::Status;
using tensorflow::DataType;
using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Sums of that many products of bytes fit into 32 bits.
constexpr int64_t kMostQuantized = 65536;

// An encoder, and the weights that it was made of. These are held: as long as they are, no other tensor can get their
// address, and TensorFlow gives a resource variable new memory when it changes. Only a variable of TensorFlow 1 changes in
// its place; the fingerprints are there for that.
struct Cached {
  std::vector<Tensor> weights;
  std::vector<uint64_t> fingerprints;
  int threads = 0;
  std::unique_ptr<const Encoder> encoder;

  bool Fits(const OpInputList& given, int width) const {
    if (threads != width) return false;
    for (int i = 0; i < given.size(); ++i) {
      if (given[i].data() != weights[i].data()) return false;
    }
    for (int i = 0; i < given.size(); ++i) {
      if (Fingerprint(given[i].flat<float>().data(), given[i].NumElements()) != fingerprints[i]) return false;
    }
    return true;
  }
};

class BertOp : public OpKernel {
 public:
  explicit BertOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, ReadSizes(context, &config_));
    OP_REQUIRES_OK(context, ReadOptions(context));
  }

  void Compute(OpKernelContext* context) override {
    // Nothing may be thrown into TensorFlow. oneDNN's errors are std::exceptions.
    try {
      OP_REQUIRES_OK(context, Encode(context));
    } catch (const std::bad_alloc&) {
      context->SetStatus(absl::ResourceExhaustedError("Bert: not enough memory"));
    } catch (const std::exception& error) {
      context->SetStatus(absl::InternalError(absl::StrCat("Bert: ", error.what())));
    }
  }

 private:
  Status ReadOptions(OpKernelConstruction* context) {
    DataType quantizable;
    DataType other;
    std::string activation;
    TF_RETURN_IF_ERROR(context->GetAttr("QuantizableDataType", &quantizable));
    TF_RETURN_IF_ERROR(context->GetAttr("NonQuantizableDataType", &other));
    TF_RETURN_IF_ERROR(context->GetAttr("HiddenAct", &activation));
    TF_RETURN_IF_ERROR(context->GetAttr("MaxSequenceLength", &most_words_));
    TF_RETURN_IF_ERROR(context->GetAttr("CalibrateQuantFactors", &calibrate_));
    TF_RETURN_IF_ERROR(context->GetAttr("QuantizationFactorsPath", &ranges_path_));
    TF_RETURN_IF_ERROR(context->GetAttr("QuantizationFactors", &ranges_));
    TF_RETURN_IF_ERROR(context->GetAttr("LayerNormEpsilon", &config_.epsilon));
    TF_RETURN_IF_ERROR(context->GetAttr("MaskAdder", &mask_adder_));
    TF_RETURN_IF_ERROR(context->GetAttr("ClearMasked", &config_.clear));
    const bool bytes = quantizable == tensorflow::DT_QINT8;
    const bool narrow = other == tensorflow::DT_BFLOAT16;
    if (most_words_ <= 0) return InvalidArgument("MaxSequenceLength must be positive");
    if (!(config_.epsilon >= 0)) return InvalidArgument("LayerNormEpsilon must not be negative");
    if (calibrate_ && (bytes || narrow)) {
      return InvalidArgument("CalibrateQuantFactors needs float for QuantizableDataType and NonQuantizableDataType");
    }
    if (calibrate_ && ranges_path_.empty()) {
      return InvalidArgument("CalibrateQuantFactors needs a QuantizationFactorsPath to write to");
    }
    if (bytes && std::max(config_.hidden, config_.intermediate) > kMostQuantized) {
      return InvalidArgument("qint8 takes a HiddenSize and IntermediateSize of at most ", kMostQuantized);
    }
    config_.activation = activation == "gelu_erf" ? Activation::kGeluErf
                         : activation == "relu"   ? Activation::kRelu
                                                  : Activation::kGeluTanh;
    // A CPU that lacks these numbers gets a result that is at least as exact, in floats.
    if (narrow && SupportsStrided(Precision::kBfloat16)) config_.attention = Precision::kBfloat16;
    config_.dense = Choose(bytes, narrow);
    seen_.resize(config_.layers);
    return absl::OkStatus();
  }

  Precision Choose(bool bytes, bool narrow) const {
    if (bytes && Supports(Precision::kInt8)) return Precision::kInt8;
    if (narrow && Supports(Precision::kBfloat16)) return Precision::kBfloat16;
    const bool split = !calibrate_ && Supports(Precision::kSplit);  // calibration looks at the floats
    return split ? Precision::kSplit : Precision::kFloat;
  }

  Status Encode(OpKernelContext* context) {
    OpInputList weights;
    TF_RETURN_IF_ERROR(context->input_list("weights", &weights));
    TF_RETURN_IF_ERROR(CheckWeights(weights, config_));
    Batch batch;
    const Tensor& embedded = context->input(0);
    const Tensor& mask = context->input(1);
    TF_RETURN_IF_ERROR(ReadBatch(embedded, mask, config_.hidden, most_words_, &batch));
    Tensor* encoded = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(0, embedded.shape(), &encoded));
    if (batch.rows() == 0) return absl::OkStatus();

    std::unique_ptr<Workspace> workspace = TakeWorkspace();
    TF_RETURN_IF_ERROR(ReadMask(mask, mask_adder_, &workspace->adder, &batch));
    const auto* threads = context->device()->tensorflow_cpu_worker_threads();
    const Team team(threads->num_threads,
                    [threads](std::function<void()> work) { threads->workers->Schedule(std::move(work)); });
    std::shared_ptr<const Cached> cached;
    TF_RETURN_IF_ERROR(FindEncoder(weights, team, &cached));
    float* result = encoded->flat<float>().data();
    if (calibrate_) {
      TF_RETURN_IF_ERROR(Calibrate(*cached->encoder, batch, result, *workspace, team));
    } else {
      cached->encoder->Run(batch, result, *workspace, team, nullptr);
    }
    ReturnWorkspace(std::move(workspace));
    return absl::OkStatus();
  }

  // The encoder of these weights; packs them if they are not those of the last run.
  Status FindEncoder(const OpInputList& weights, const Team& team, std::shared_ptr<const Cached>* found) {
    {
      std::lock_guard<std::mutex> lock(cache_mutex_);
      *found = cached_;
    }
    if (*found != nullptr && (*found)->Fits(weights, team.width())) return absl::OkStatus();
    found->reset();  // so that the old copy goes before the new one comes
    std::lock_guard<std::mutex> packing(packing_mutex_);
    {
      std::lock_guard<std::mutex> lock(cache_mutex_);
      *found = cached_;
    }
    // Another run may have packed them meanwhile.
    if (*found != nullptr && (*found)->Fits(weights, team.width())) return absl::OkStatus();
    found->reset();
    Store(nullptr);
    TF_RETURN_IF_ERROR(MakeEncoder(weights, team, found));
    Store(*found);
    return absl::OkStatus();
  }

  void Store(std::shared_ptr<const Cached> cached) {
    std::lock_guard<std::mutex> lock(cache_mutex_);
    cached_.swap(cached);
  }

  Status MakeEncoder(const OpInputList& weights, const Team& team, std::shared_ptr<const Cached>* made) const {
    auto cached = std::make_shared<Cached>();
    std::vector<LayerWeights> layers(config_.layers / config_.repeats);
    for (int index = 0; index < weights.size(); ++index) {
      const float* values = weights[index].flat<float>().data();
      layers[index / kWeightsPerLayer][index % kWeightsPerLayer] = values;
      cached->weights.push_back(weights[index]);
      cached->fingerprints.push_back(Fingerprint(values, weights[index].NumElements()));
    }
    Ranges ranges;
    const bool fixed = config_.dense == Precision::kInt8 && !(ranges_.empty() && ranges_path_.empty());
    if (fixed) {
      try {
        ranges = ranges_.empty() ? ReadRanges(ranges_path_, config_.layers)
                                 : MakeRanges(ranges_, config_.layers, "QuantizationFactors");
      } catch (const std::runtime_error& error) {
        return InvalidArgument(error.what());
      }
    }
    cached->threads = team.width();
    cached->encoder = std::make_unique<const Encoder>(config_, layers, fixed ? &ranges : nullptr, team);
    *made = std::move(cached);
    return absl::OkStatus();
  }

  // Runs, and writes the ranges of all runs so far.
  Status Calibrate(const Encoder& encoder, const Batch& batch, float* result, Workspace& workspace, const Team& team) {
    Ranges seen(config_.layers);
    encoder.Run(batch, result, workspace, team, &seen);
    std::lock_guard<std::mutex> lock(seen_mutex_);
    Merge(seen, seen_);
    try {
      WriteRanges(ranges_path_, seen_);
    } catch (const std::runtime_error& error) {
      return InvalidArgument(error.what());
    }
    return absl::OkStatus();
  }

  std::unique_ptr<Workspace> TakeWorkspace() {
    std::lock_guard<std::mutex> lock(workspace_mutex_);
    if (workspaces_.empty()) return std::make_unique<Workspace>();
    std::unique_ptr<Workspace> workspace = std::move(workspaces_.back());
    workspaces_.pop_back();
    return workspace;
  }

  void ReturnWorkspace(std::unique_ptr<Workspace> workspace) {
    std::lock_guard<std::mutex> lock(workspace_mutex_);
    workspaces_.push_back(std::move(workspace));
  }

  Config config_;
  int64_t most_words_ = 0;
  bool calibrate_ = false;
  std::string ranges_path_;
  std::vector<float> ranges_;
  float mask_adder_ = 0;

  std::mutex packing_mutex_;  // so that two runs do not both pack
  std::mutex cache_mutex_;
  std::shared_ptr<const Cached> cached_;
  std::mutex seen_mutex_;
  Ranges seen_;
  std::mutex workspace_mutex_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;
};

REGISTER_KERNEL_BUILDER(Name("Bert").Device(tensorflow::DEVICE_CPU), BertOp);

}  // namespace
}  // namespace tfsmith::bert
