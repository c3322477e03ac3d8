// The CUDA attention operators behind a C interface, for tools/bench_gpu.
#include <cuda_runtime.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "headwise/attention.h"
#include "headwise/backend/cuda/backend.h"
#include "headwise/error.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/implementation.h"

namespace {

using namespace headwise;  // NOLINT: one small file

// Mirrored by bench/gpu/calls.py.
struct BridgeView {
  void* data;
  int32_t type;  // DType
  int32_t rank;
  int64_t shape[4];
  int64_t stride[4];
};
enum ViewName {
  kQ,
  kK,
  kV,
  kOut,
  kQueryLengths,
  kKeyLengths,
  kQueryStarts,
  kKeyStarts,
  kQueryOffsets,
  kGates,
  kReplacement,
  kLse,
  kUngated,
  kEntropy,
  kMax,
  kArgmax,
  kDistance,
  kDout,
  kDq,
  kDk,
  kDv,
  kDgates,
  kReceived,
  kAlibiSlopes,
  kRelativeTable,
  kVarentropy,
  kSumSquares,
  kKeptMax,
  kKeptArgmax,
  kHistogram,
  kFeatureMass,
  kLabelMass,
  kKeyFeatures,
  kQueryLabels,
  kKeyLabels,
  kExcludedKeys,
  kQueryWeights,
  kSums,
  kSummedHistogram,
  kSummedFeatures,
  kSummedLabels,
  kDentropy,
  kDrelativeTable,
  kSinkLogits,
  kDsinkLogits,
  kMissing,
  kViewCount
};
struct BridgeCall {
  int64_t batch, heads, kv_heads, query_len, key_len, head_dim, value_dim;
  int64_t relative_reach;
  int32_t type;  // DType
  int32_t packed;
  int32_t full;  // statistics: all, not only the core
  float soft_cap;
  int64_t before, after, query_offset, sinks;
  const int32_t* active_heads;  // on the host
  int64_t active_count;
  BridgeView views[kViewCount];
};

TensorView ViewOf(const BridgeView& from) {
  TensorView view;
  view.data = from.data;
  view.type = static_cast<DType>(from.type);
  view.device = Device::Cuda();
  view.rank = from.rank;
  for (int i = 0; i < from.rank; ++i) {
    view.shape[i] = from.shape[i];
    view.stride[i] = from.stride[i];
  }
  return view;
}

TensorView ViewOf(const BridgeCall& call, ViewName name) {
  return ViewOf(call.views[name]);
}

std::vector<RowRef> RefsOf(const int64_t* rows, int64_t count) {
  std::vector<RowRef> refs;
  for (int64_t i = 0; i < count; ++i) {
    refs.push_back({rows[2 * i], rows[2 * i + 1]});
  }
  return refs;
}

AttentionProblem ProblemOf(const BridgeCall& call) {
  AttentionProblem p;
  p.batch = call.batch;
  p.heads = call.heads;
  p.kv_heads = call.kv_heads;
  p.query_len = call.query_len;
  p.key_len = call.key_len;
  p.head_dim = call.head_dim;
  p.value_dim = call.value_dim;
  p.soft_cap = call.soft_cap;
  if (call.views[kAlibiSlopes].data != nullptr) {
    p.bias = AttentionBias::kAlibi;
  }
  if (call.views[kRelativeTable].data != nullptr) {
    p.bias = AttentionBias::kRelative;
    p.relative_reach = call.relative_reach;
  }
  p.type = static_cast<DType>(call.type);
  p.device = Device::Cuda();
  p.packed = call.packed != 0;
  p.mask = {call.before, call.after, call.query_offset, call.sinks};
  return p;
}

void FillObservation(const BridgeCall& call, Observation& o) {
  o.statistics = call.full != 0 ? Statistics::kFull : Statistics::kCore;
  o.rows.entropy = ViewOf(call, kEntropy);
  o.rows.max_probability = ViewOf(call, kMax);
  o.rows.argmax = ViewOf(call, kArgmax);
  o.rows.distance = ViewOf(call, kDistance);
  o.rows.missing = ViewOf(call, kMissing);
  o.rows.varentropy = ViewOf(call, kVarentropy);
  o.rows.sum_squares = ViewOf(call, kSumSquares);
  o.rows.kept_max = ViewOf(call, kKeptMax);
  o.rows.kept_argmax = ViewOf(call, kKeptArgmax);
  o.rows.histogram = ViewOf(call, kHistogram);
  o.rows.feature_mass = ViewOf(call, kFeatureMass);
  o.rows.label_mass = ViewOf(call, kLabelMass);
  o.key_features = ViewOf(call, kKeyFeatures);
  o.query_labels = ViewOf(call, kQueryLabels);
  o.key_labels = ViewOf(call, kKeyLabels);
  o.excluded_keys = ViewOf(call, kExcludedKeys);
  o.query_weights = ViewOf(call, kQueryWeights);
  o.summed.sums = ViewOf(call, kSums);
  o.summed.histogram = ViewOf(call, kSummedHistogram);
  o.summed.feature_mass = ViewOf(call, kSummedFeatures);
  o.summed.label_mass = ViewOf(call, kSummedLabels);
}

AttentionArgs ArgsOf(const BridgeCall& call, Observation& observation) {
  AttentionArgs a;
  a.q = ViewOf(call, kQ);
  a.k = ViewOf(call, kK);
  a.v = ViewOf(call, kV);
  a.out = ViewOf(call, kOut);
  a.query_lengths = ViewOf(call, kQueryLengths);
  a.key_lengths = ViewOf(call, kKeyLengths);
  a.query_starts = ViewOf(call, kQueryStarts);
  a.key_starts = ViewOf(call, kKeyStarts);
  a.query_offsets = ViewOf(call, kQueryOffsets);
  a.sink_logits = ViewOf(call, kSinkLogits);
  a.alibi_slopes = ViewOf(call, kAlibiSlopes);
  a.relative_table = ViewOf(call, kRelativeTable);
  a.gates = ViewOf(call, kGates);
  a.replacement = ViewOf(call, kReplacement);
  a.lse = ViewOf(call, kLse);
  a.ungated = ViewOf(call, kUngated);
  if (call.active_count > 0) {
    a.active_heads = std::span<const int32_t>(
        call.active_heads, static_cast<size_t>(call.active_count));
  }
  FillObservation(call, observation);
  a.observation = &observation;
  return a;
}

AttentionGrads GradsOf(const BridgeCall& call) {
  AttentionGrads grads;
  grads.dout = ViewOf(call, kDout);
  grads.dq = ViewOf(call, kDq);
  grads.dk = ViewOf(call, kDk);
  grads.dv = ViewOf(call, kDv);
  grads.dgates = ViewOf(call, kDgates);
  grads.received = ViewOf(call, kReceived);
  grads.dentropy = ViewOf(call, kDentropy);
  grads.drelative_table = ViewOf(call, kDrelativeTable);
  grads.dsink_logits = ViewOf(call, kDsinkLogits);
  return grads;
}

// Never destroyed: PyTorch works in its queue to the end.
Context& TheContext() {
  static Context& context = *new Context(
      {.threads = 1, .implementations = "", .device = Device::Cuda()});
  return context;
}

const AttentionImplementation& Find(const char* name) {
  return std::strcmp(name, "cuda.sm90") == 0 ? kAttentionCudaSm90
                                             : kAttentionCudaSm80;
}

// The named implementation and no other.
void Run(const char* name, const AttentionCall& call) {
  const AttentionImplementation& entry = Find(name);
  const std::string reason = entry.why_not(call);
  if (!reason.empty()) {
    throw Error(ErrorCode::kUnsupported,
                {entry.name, "a call that it takes", reason, ""});
  }
  entry.run(TheContext(), call);
}

// Runs `run`; null, or what went wrong, valid until the next call.
template <class Run>
const char* Caught(Run run) {
  static std::string text;
  try {
    run();
    return nullptr;
  } catch (const std::exception& error) {
    text = error.what();
    return text.c_str();
  }
}

}  // namespace

extern "C" {

// The queue in which all calls run: whoever reads their results or times them
// works in it too.
__attribute__((visibility("default"))) void* BridgeStream() {
  return StreamOf(TheContext());
}

// Empty, or why the implementation does not take the forward or backward.
__attribute__((visibility("default"))) const char* BridgeWhyNot(
    const char* name, const BridgeCall* call, int32_t backward) {
  static std::string reason;
  Observation observation;
  const AttentionProblem problem = ProblemOf(*call);
  const AttentionArgs args = ArgsOf(*call, observation);
  const AttentionGrads grads = GradsOf(*call);
  reason = backward != 0
               ? Find(name).why_not(AttentionBackwardCall{problem, args, grads})
               : Find(name).why_not(AttentionForwardCall{problem, args});
  return reason.c_str();
}

__attribute__((visibility("default"))) const char* BridgeForward(
    const char* name, const BridgeCall* call) {
  return Caught([&] {
    Observation observation;
    const AttentionProblem problem = ProblemOf(*call);
    const AttentionArgs args = ArgsOf(*call, observation);
    Run(name, AttentionForwardCall{problem, args});
  });
}

__attribute__((visibility("default"))) const char* BridgeBackward(
    const char* name, const BridgeCall* call) {
  return Caught([&] {
    Observation observation;
    const AttentionProblem problem = ProblemOf(*call);
    const AttentionArgs args = ArgsOf(*call, observation);
    const AttentionGrads grads = GradsOf(*call);
    Run(name, AttentionBackwardCall{problem, args, grads});
  });
}

// Second passes; rows: pairs of (sequence, query).
__attribute__((visibility("default"))) const char* BridgeRows(
    const char* name, const BridgeCall* call, const int64_t* rows,
    int64_t count, const BridgeView* probabilities) {
  return Caught([&] {
    Observation observation;
    const AttentionProblem problem = ProblemOf(*call);
    const AttentionArgs args = ArgsOf(*call, observation);
    const std::vector<RowRef> refs = RefsOf(rows, count);
    Run(name, AttentionRowsCall{problem, args, refs, ViewOf(*probabilities)});
  });
}

__attribute__((visibility("default"))) const char* BridgeTopK(
    const char* name, const BridgeCall* call, const int64_t* rows,
    int64_t count, const BridgeView* keys, const BridgeView* probabilities) {
  return Caught([&] {
    Observation observation;
    const AttentionProblem problem = ProblemOf(*call);
    const AttentionArgs args = ArgsOf(*call, observation);
    const std::vector<RowRef> refs = RefsOf(rows, count);
    Run(name, AttentionTopKCall{problem, args, refs, ViewOf(*keys),
                                ViewOf(*probabilities)});
  });
}

// One pair a row.
__attribute__((visibility("default"))) const char* BridgePairs(
    const char* name, const BridgeCall* call, const int64_t* rows,
    int64_t count, const int32_t* keys, const BridgeView* mass,
    const BridgeView* is_argmax) {
  return Caught([&] {
    Observation observation;
    const AttentionProblem problem = ProblemOf(*call);
    const AttentionArgs args = ArgsOf(*call, observation);
    std::vector<int64_t> offsets(count + 1);
    std::iota(offsets.begin(), offsets.end(), 0);
    const std::vector<RowRef> refs = RefsOf(rows, count);
    Run(name,
        AttentionPairsCall{problem,
                           args,
                           {refs, offsets, {keys, static_cast<size_t>(count)}},
                           observation.rows.argmax,
                           ViewOf(*mass),
                           ViewOf(*is_argmax)});
  });
}

__attribute__((visibility("default"))) const char* BridgeReceived(
    const char* name, const BridgeCall* call) {
  return Caught([&] {
    Observation observation;
    const AttentionProblem problem = ProblemOf(*call);
    const AttentionArgs args = ArgsOf(*call, observation);
    Run(name, AttentionReceivedCall{problem, args, observation.query_weights,
                                    ViewOf(*call, kReceived)});
  });
}

// window: sequence, head, first and end query, first and end key.
__attribute__((visibility("default"))) const char* BridgeWindow(
    const char* name, const BridgeCall* call, const int64_t* window,
    const BridgeView* maximum, const BridgeView* mean) {
  return Caught([&] {
    Observation observation;
    const AttentionProblem problem = ProblemOf(*call);
    const AttentionArgs args = ArgsOf(*call, observation);
    Run(name, AttentionWindowCall{problem,
                                  args,
                                  {window[0], window[1], window[2], window[3],
                                   window[4], window[5]},
                                  ViewOf(*maximum),
                                  ViewOf(*mean)});
  });
}

// Two sources: the call's heads twice.
__attribute__((visibility("default"))) const char* BridgeGram(
    const char* name, const BridgeCall* call, const BridgeView* gram) {
  return Caught([&] {
    Observation observation;
    const HeadSource source = {ProblemOf(*call), ArgsOf(*call, observation)};
    const std::vector<HeadSource> sources = {source, source};
    Run(name,
        AttentionGramCall{sources, observation.query_weights, ViewOf(*gram)});
  });
}

// The most device memory that the operators have held at once since the last
// time this was asked, in bytes; −1 where it cannot be told.
__attribute__((visibility("default"))) int64_t BridgePeakBytes() {
  cudaMemPool_t pool = nullptr;
  uint64_t bytes = 0, zero = 0;
  if (cudaDeviceSynchronize() != cudaSuccess ||
      cudaDeviceGetDefaultMemPool(&pool, 0) != cudaSuccess ||
      cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &bytes) !=
          cudaSuccess ||
      cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero) !=
          cudaSuccess) {
    return -1;
  }
  return static_cast<int64_t>(bytes);
}

}  // extern "C"
