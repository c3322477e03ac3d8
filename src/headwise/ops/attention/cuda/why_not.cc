// Door: why_not.h.
#include "headwise/ops/attention/cuda/why_not.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <type_traits>

#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/decode.h"
#include "headwise/ops/attention/cuda/params.h"
#include "headwise/ops/attention/cuda/views.h"
#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/precision.h"

namespace headwise::attention_cuda {
namespace {

// Blocks along a grid's second and third axis.
constexpr int64_t kMostBlocks = 65535;

Reason WhyNotRows(const char* name, const ConstTensorView& view) {
  if (!view || IsAligned(view)) return "";
  return std::string("needs rows of ") + name +
         " aligned to 16 bytes: strides that are multiples of 8";
}

Reason WhyNotSizes(const AttentionProblem& problem) {
  // Of heads of 256 a sequence has two blocks.
  return 2 * problem.batch > kMostBlocks || problem.heads > kMostBlocks
             ? "takes fewer than 2^15 sequences and 2^16 heads in this pass"
             : "";
}

Reason WhyNotRows(std::span<const RowRef> rows) {
  return static_cast<int64_t>(rows.size()) > kMostBlocks
             ? "takes fewer than 2^16 rows at a time"
             : "";
}

Reason WhyNotDevice(const AttentionProblem& problem) {
  if (!problem.device.is_cuda()) return "runs on CUDA devices only";
  if (std::max({problem.query_len, problem.key_len,
                std::abs(problem.mask.query_offset)}) >= kFar) {
    return "takes fewer than 2^29 positions";
  }
  const std::optional<CudaChip> chip = ChipOf(problem.device);
  if (!chip) return "finds no CUDA device";
  return chip->major >= 8 ? "" : "needs sm_80 or later";
}

// Whether passes over the rows' results follow.
bool FollowsRows(const AttentionArgs& args) {
  if (args.observation == nullptr) return false;
  const SummedStatistics& s = args.observation->summed;
  return s.sums || s.histogram || s.feature_mass || s.label_mass ||
         args.observation->rows.missing;
}

// Whether a pass's grids hold the call.
Reason WhyNotGrid(const AttentionForwardCall& call) {
  // The pass itself has one axis; decoding and what follows rows have more.
  const bool is_flat = !IsDecoding(call.problem) && !FollowsRows(call.args);
  return is_flat ? "" : WhyNotSizes(call.problem);
}
Reason WhyNotGrid(const AttentionRowsCall& call) {
  const Reason reason = WhyNotRows(call.rows);
  return reason.empty() ? WhyNotSizes(call.problem) : reason;
}
Reason WhyNotGrid(const AttentionTopKCall& call) {
  const Reason reason = WhyNotRows(call.rows);
  return reason.empty() ? WhyNotSizes(call.problem) : reason;
}
Reason WhyNotGrid(const AttentionBandCall&) { return ""; }
Reason WhyNotGrid(const AttentionWindowCall& call) {
  const TensorView& picture = call.maximum ? call.maximum : call.mean;
  return picture.shape[0] > kMostBlocks ? "takes pictures of fewer than 2^16 "
                                          "rows"
                                        : "";
}
Reason WhyNotGrid(const AttentionGramCall& call) {
  const AttentionProblem& first = call.sources[0].problem;
  if (first.query_len > kMostBlocks * kGramQueries) {
    return "takes fewer than 2^22 queries in this pass";
  }
  return WhyNotSizes(first);
}
template <typename Call>
Reason WhyNotGrid(const Call& call) {
  return WhyNotSizes(call.problem);
}

}  // namespace

Reason WhyNotPlain(const AttentionProblem& problem) {
  Reason reason = WhyNotDevice(problem);
  // Whatever is stored, products are of f32.
  return reason.empty() ? WhyNotPrecision(problem.precision, DType::kF32)
                        : reason;
}

Reason WhyNotAny(const AttentionProblem& problem) {
  if (!problem.device.is_cuda()) return "runs on CUDA devices only";
  if (problem.type != DType::kBF16 && problem.type != DType::kF16) {
    return "takes bf16 and f16 only";
  }
  if (Scale(problem) <= 0) return "needs a positive scale";
  Reason reason = WhyNotPrecision(problem.precision, problem.type);
  return reason.empty() ? WhyNotDevice(problem) : reason;
}

Reason WhyNotCall(const AttentionCall& call) {
  return std::visit(
      [](const auto& of) -> Reason {
        Reason reason = WhyNotGrid(of);
        VisitRows(of, [&](const char* name, const ConstTensorView& view) {
          if (reason.empty()) reason = WhyNotRows(name, view);
        });
        return reason;
      },
      call);
}

Reason WhyNotPlainCall(const AttentionCall& call) {
  return std::visit(
      []<typename T>(const T& of) -> Reason {
        if constexpr (std::is_same_v<T, AttentionForwardCall>) {
          return FollowsRows(of.args) ? WhyNotSizes(of.problem) : "";
        } else if constexpr (std::is_same_v<T, AttentionBackwardCall> ||
                             std::is_same_v<T, AttentionReceivedCall>) {
          return "";
        } else {
          return WhyNotGrid(of);
        }
      },
      call);
}

}  // namespace headwise::attention_cuda
