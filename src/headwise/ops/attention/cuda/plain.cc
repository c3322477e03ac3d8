// cuda.plain: every type, width, stride and score on a GPU, by kernels that are
// plain rather than fast: what f32 is computed with, and what the fast paths
// leave. Door: ../implementation.h.
#include <algorithm>

#include "headwise/ops/attention/cuda/arguments.h"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/plain/launch.h"
#include "headwise/ops/attention/cuda/second_pass.h"
#include "headwise/ops/attention/cuda/views.h"
#include "headwise/ops/attention/cuda/why_not.h"
#include "headwise/ops/attention/implementation.h"

namespace headwise {
namespace {

using namespace attention_cuda;  // NOLINT: the folder's own namespace

Reason WhyNot(const AttentionCall& call) {
  Reason reason = WhyNotProblems(call, WhyNotPlain);
  return reason.empty() ? WhyNotPlainCall(call) : reason;
}

void Forward(Context& context, const AttentionProblem& problem,
             const AttentionArgs& args) {
  const ForwardCall call =
      MakeForward(context, problem, args, kPlainRows, /*gathers_full=*/false);
  ObserveParams p = call.observation.observe;
  p.forward = call.params;
  LaunchPlainForward(p, args.observation != nullptr, StreamOf(context));
  RunSums(context, call.observation);
}

// Scores, the LSE and who is active, in blocks of kPlainRows queries.
struct ScoreCall {
  PlainBackwardParams params;
  DeviceBuffer active_heads, is_active;
};
ScoreCall MakeScores(Context& context, const AttentionProblem& problem,
                     const AttentionArgs& args) {
  ScoreCall call;
  BackwardParams& b = call.params.backward;
  call.active_heads = ScoreInputs(context, problem, args, b.forward);
  call.is_active = ActiveFlags(problem, args, StreamOf(context));
  b.is_active = call.is_active.Raw<uint8_t>();
  b.forward.order.blocks = CeilDiv(b.forward.query_len, kPlainRows);
  return call;
}

void Backward(Context& context, const AttentionProblem& problem,
              const AttentionArgs& args, const AttentionGrads& grads) {
  const cudaStream_t stream = StreamOf(context);
  ScoreCall call = MakeScores(context, problem, args);
  PlainBackwardParams& p = call.params;
  BackwardViews(problem, args, grads, p.backward);
  const size_t rows =
      std::max<int64_t>(1, problem.batch * problem.heads * problem.query_len);
  const DeviceBuffer delta(rows * sizeof(float), stream);
  const DeviceBuffer entropy(rows * sizeof(float), stream);
  p.delta = delta.Raw<float>();
  p.entropy = entropy.Raw<float>();
  DeviceBuffer ends;
  if (grads.drelative_table) {
    ends = DeviceBuffer(2 * rows * sizeof(double), stream);
    p.ends = ends.Raw<double>();
  }
  LaunchPlainRows(p, stream);
  if (grads.dsink_logits) {
    SinkGradientParams of_sinks = SinkGradient(p.backward);
    of_sinks.delta = p.delta;
    of_sinks.entropy = p.entropy;
    of_sinks.row_len = p.backward.forward.query_len;
    LaunchSinkGradient(of_sinks, stream);
  }
  if (grads.dk || grads.dv || grads.received) LaunchPlainKeys(p, stream);
  if (grads.drelative_table) LaunchPlainTable(p, stream);
}

void Received(Context& context, const AttentionReceivedCall& call) {
  ScoreCall scores = MakeScores(context, call.problem, call.args);
  PlainBackwardParams& p = scores.params;
  BackwardViews(call.problem, {}, {}, p.backward);
  p.backward.forward.gates = nullptr;
  p.backward.received = ResultView(call.received);
  p.weights = Strides<const float>(call.query_weights);
  LaunchPlainKeys(p, StreamOf(context));
}

void Run(Context& context, const AttentionCall& call) {
  if (const auto* forward = std::get_if<AttentionForwardCall>(&call)) {
    Forward(context, forward->problem, forward->args);
  } else if (const auto* backward = std::get_if<AttentionBackwardCall>(&call)) {
    Backward(context, backward->problem, backward->args, backward->grads);
  } else if (const auto* received = std::get_if<AttentionReceivedCall>(&call)) {
    Received(context, *received);
  } else {
    RunSecondPass(context, call);
  }
}

}  // namespace

const AttentionImplementation kAttentionCudaPlain = {"cuda.plain", WhyNot, Run};

}  // namespace headwise
