// cpu.f32: the streaming implementation, vectorised by Highway with run-time
// dispatch. Door: ../implementation.h.
#include <string>

#include "headwise/ops/attention/cpu/backward.h"
#include "headwise/ops/attention/cpu/forward.h"
#include "headwise/ops/attention/cpu/second_pass.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/precision.h"

namespace headwise {
namespace {

Reason WhyNotProblem(const AttentionProblem& problem) {
  if (!problem.device.is_cpu()) return "runs on the CPU only";
  if (problem.type != DType::kF32) {
    return std::string("takes f32 only, not ") + Name(problem.type);
  }
  return WhyNotPrecision(problem.precision, problem.type);
}

Reason WhyNot(const AttentionCall& call) {
  return WhyNotProblems(call, WhyNotProblem);
}

struct Pass {
  Context& context;

  void operator()(const AttentionForwardCall& c) const {
    ForwardF32(context, c.problem, c.args);
  }
  void operator()(const AttentionBackwardCall& c) const {
    BackwardF32(context, c.problem, c.args, c.grads);
  }
  void operator()(const AttentionRowsCall& c) const {
    RowsF32(context, c.problem, c.args, c.rows, c.probabilities);
  }
  void operator()(const AttentionTopKCall& c) const {
    TopKF32(context, c.problem, c.args, c.rows, c.keys, c.probabilities);
  }
  void operator()(const AttentionPairsCall& c) const {
    PairsF32(context, c.problem, c.args, c.pairs, c.argmax, c.mass,
             c.is_argmax);
  }
  void operator()(const AttentionBandCall& c) const {
    BandF32(context, c.problem, c.args, c.before, c.after, c.mass, c.first);
  }
  void operator()(const AttentionReceivedCall& c) const {
    ReceivedF32(context, c.problem, c.args, c.query_weights, c.received);
  }
  void operator()(const AttentionWindowCall& c) const {
    WindowF32(context, c.problem, c.args, c.window, c.maximum, c.mean);
  }
  void operator()(const AttentionGramCall& c) const {
    HeadGramF32(context, c.sources, c.query_weights, c.gram);
  }
};

void Run(Context& context, const AttentionCall& call) {
  std::visit(Pass{context}, call);
}

}  // namespace

const AttentionImplementation kAttentionCpuF32 = {"cpu.f32", WhyNot, Run};

}  // namespace headwise
