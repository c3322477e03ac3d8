// cuda.sm80: the portable kernels, forward and backward. Door:
// ../implementation.h.
#include <algorithm>
#include <type_traits>

#include "headwise/ops/attention/cuda/arguments.h"
#include "headwise/ops/attention/cuda/forward.h"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/second_pass.h"
#include "headwise/ops/attention/cuda/why_not.h"
#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/implementation.h"

namespace headwise {
namespace {

using namespace attention_cuda;  // NOLINT: the folder's own namespace

constexpr int kBlock = 64;  // queries

Reason WhyNotProblem(const AttentionProblem& problem) {
  Reason reason = WhyNotAny(problem);
  if (!reason.empty()) return reason;
  if (problem.head_dim % 8 != 0 || ValueDim(problem) % 8 != 0) {
    return "needs a head_dim and value_dim divisible by 8";
  }
  const int most = problem.type == DType::kBF16 ? 256 : 128;
  if (std::max(problem.head_dim, ValueDim(problem)) > most) {
    return "takes heads up to 256 (bf16) or 128 (f16)";
  }
  return ChipOf(problem.device)->major >= 8 ? "" : "needs sm_80 or later";
}

Reason WhyNot(const AttentionCall& call) {
  Reason reason = WhyNotProblems(call, WhyNotProblem);
  return reason.empty() ? WhyNotCall(call) : reason;
}

// run.operator()<kDim, kValueDim>() with the columns to which keys and values
// are padded. f16 has one size only: every instance is three kernels.
template <class T, class Run>
void WithColumns(const ForwardParams& p, Run run) {
  if constexpr (std::is_same_v<T, __half>) {
    return run.template operator()<128, 128>();
  } else {
    switch (PaddedDim(Max(p.head_dim, p.value_dim))) {
      case 64:
        return run.template operator()<64, 64>();
      case 128:
        return run.template operator()<128, 128>();
      default:
        // Keys of latent attention are wider than its values.
        return p.head_dim <= 192 && p.value_dim <= 128
                   ? run.template operator()<192, 128>()
                   : run.template operator()<256, 256>();
    }
  }
}

void Forward(Context& context, const AttentionProblem& problem,
             const AttentionArgs& args) {
  RunForward(context, problem, args, kBlock, /*gathers_full=*/false,
             [&](const ForwardCall& call) {
               const ForwardParams& p = call.params;
               const auto run = [&]<class T>(T) {
                 WithColumns<T>(p, [&]<int kDim, int kValueDim>() {
                   LaunchForwardSm80<T, kDim, kValueDim>(p, StreamOf(context));
                 });
               };
               problem.type == DType::kBF16 ? run(__nv_bfloat16())
                                            : run(__half());
             });
}

void Backward(Context& context, const AttentionProblem& problem,
              const AttentionArgs& args, const AttentionGrads& grads) {
  const BackwardCall call =
      MakeBackward(context, problem, args, grads, kBlock, kBlock);
  const BackwardParams& p = call.params;
  const cudaStream_t stream = StreamOf(context);
  const auto run = [&]<class T>(T) {
    WithColumns<T>(p.forward, [&]<int kDim, int kValueDim>() {
      LaunchBackwardSm80<T, kDim, kValueDim>(p, stream);
    });
  };
  LaunchPrepare(p, stream);
  if (p.log_weight != nullptr) LaunchDelta(p, stream);
  problem.type == DType::kBF16 ? run(__nv_bfloat16()) : run(__half());
  if (p.dtable != nullptr) LaunchTableGradient(p, stream);
  if (p.dsink_logits != nullptr) LaunchSinkGradient(SinkGradient(p), stream);
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

const AttentionImplementation kAttentionCudaSm80 = {"cuda.sm80", WhyNot, Run};

}  // namespace headwise
