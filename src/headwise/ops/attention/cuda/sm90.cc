// cuda.sm90: the Hopper kernels, forward and, for bf16 without an entropy
// gradient, backward. Door: ../implementation.h.
#include <algorithm>
#include <type_traits>

#include "headwise/ops/attention/cuda/arguments.h"
#include "headwise/ops/attention/cuda/copy_engine.h"
#include "headwise/ops/attention/cuda/forward.h"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/second_pass.h"
#include "headwise/ops/attention/cuda/why_not.h"
#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/implementation.h"

namespace headwise {
namespace {

using namespace attention_cuda;  // NOLINT: the folder's own namespace

// Keys and values are padded alike: what lies past the end of a row the copy
// engine fills with zeros.
int Columns(const AttentionProblem& problem) {
  return PaddedDim(
      static_cast<int>(std::max(problem.head_dim, ValueDim(problem))));
}

Reason WhyNotProblem(const AttentionProblem& problem) {
  Reason reason = WhyNotAny(problem);
  if (!reason.empty()) return reason;
  if (problem.bias != AttentionBias::kNone) return "has no biases";
  if (problem.soft_cap != 0) return "has no soft cap";
  if (problem.query_len == 0 || problem.key_len == 0) {
    return "needs a query and a key";
  }
  if (problem.head_dim % 8 != 0 || ValueDim(problem) % 8 != 0) {
    return "needs a head_dim and value_dim divisible by 8";
  }
  if (Columns(problem) > 128) return "takes heads up to 128";
  return ChipOf(problem.device)->major == 9 ? ""
                                            : "needs a Hopper chip (sm_90)";
}

Reason WhyNot(const AttentionCall& call) {
  Reason reason = WhyNotProblems(call, WhyNotProblem);
  if (!reason.empty()) return reason;
  const auto* backward = std::get_if<AttentionBackwardCall>(&call);
  if (backward != nullptr && backward->problem.type != DType::kBF16) {
    return "has a backward for bf16 only";
  }
  if (backward != nullptr && backward->grads.dentropy) {
    return "has no gradient of entropies";
  }
  reason = WhyNotCall(call);
  return reason.empty() ? WhyNotCopied(call) : reason;
}

template <class T, int kDim>
void Launch(const ForwardCall& call, const TensorMaps& maps, int processors,
            cudaStream_t stream) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if (call.gathered == Statistics::kFull) {
      return LaunchFullSm90<kDim>(call.observation.observe, maps, processors,
                                  stream);
    }
  }
  LaunchForwardSm90<T, kDim>(call.params, maps,
                             call.gathered != Statistics::kNone, processors,
                             stream);
}

void Forward(Context& context, const AttentionProblem& problem,
             const AttentionArgs& args) {
  const int columns = Columns(problem);
  const int block = 64 * ComputeGroups(columns);
  const int processors = ChipOf(problem.device)->processors;
  const auto launch = [&](const ForwardCall& call) {
    const int keys = ForwardKeyTile(call.gathered == Statistics::kFull);
    const TensorMaps maps = {MapOf(args.q, problem.type, block),
                             MapOf(args.k, problem.type, keys),
                             MapOf(args.v, problem.type, keys)};
    const bool narrow = columns == 64;
    if (problem.type == DType::kBF16) {
      const auto run =
          narrow ? Launch<__nv_bfloat16, 64> : Launch<__nv_bfloat16, 128>;
      run(call, maps, processors, StreamOf(context));
    } else {
      const auto run = narrow ? Launch<__half, 64> : Launch<__half, 128>;
      run(call, maps, processors, StreamOf(context));
    }
  };
  // f16 is observed by the portable kernel.
  const bool gathers_full = problem.type == DType::kBF16;
  RunForward(context, problem, args, block, gathers_full, launch);
}

void Backward(Context& context, const AttentionProblem& problem,
              const AttentionArgs& args, const AttentionGrads& grads) {
  const cudaStream_t stream = StreamOf(context);
  const int columns = Columns(problem);
  const int queries = 64 * GradientGroups(columns, false);
  const int keys = 64 * GradientGroups(columns, true);
  const BackwardCall call =
      MakeBackward(context, problem, args, grads, queries, keys);
  const auto map = [&](const ConstTensorView& view, int rows) {
    return MapOf(view, problem.type, rows);
  };
  constexpr int kColumns = kSm90GradientColumns;
  const GradientMaps of_queries = {
      map(args.q, queries), map(call.d_o_view, queries), map(args.k, kColumns),
      map(args.v, kColumns)};
  const GradientMaps of_keys = {map(args.k, keys), map(args.v, keys),
                                map(args.q, kColumns),
                                map(call.d_o_view, kColumns)};
  const int processors = ChipOf(problem.device)->processors;
  const BackwardParams& p = call.params;
  LaunchPrepare(p, stream);
  if (p.dsink_logits != nullptr) LaunchSinkGradient(SinkGradient(p), stream);
  if (columns == 64) {
    LaunchBackwardSm90<__nv_bfloat16, 64>(p, of_queries, of_keys, processors,
                                          stream);
  } else {
    LaunchBackwardSm90<__nv_bfloat16, 128>(p, of_queries, of_keys, processors,
                                           stream);
  }
}

void Run(Context& context, const AttentionCall& call) {
  if (const auto* forward = std::get_if<AttentionForwardCall>(&call)) {
    Forward(context, forward->problem, forward->args);
  } else if (const auto* backward = std::get_if<AttentionBackwardCall>(&call)) {
    Backward(context, backward->problem, backward->args, backward->grads);
  } else {
    RunSecondPass(context, call);
  }
}

}  // namespace

const AttentionImplementation kAttentionCudaSm90 = {"cuda.sm90", WhyNot, Run};

}  // namespace headwise
