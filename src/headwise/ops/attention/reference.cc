// The reference: the formulas of attention.h read off dense rows, accumulated
// in double. Slow, obvious, and the truth that every implementation is held to.
// Door: implementation.h.
#include <algorithm>
#include <string>
#include <vector>

#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/reference_passes.h"
#include "headwise/ops/attention/reference_row.h"
#include "headwise/tensor/element.h"

namespace headwise {
namespace {

Reason WhyNotProblem(const AttentionProblem& problem) {
  return problem.device.is_cpu() ? "" : "reads host memory only";
}

Reason WhyNot(const AttentionCall& call) {
  return WhyNotProblems(call, WhyNotProblem);
}

// [keys, E] of one key/value head, as double.
std::vector<double> LoadValues(const AttentionProblem& problem,
                               const AttentionArgs& args,
                               const ReferenceHead& head) {
  const Sequence& s = head.sequence();
  const int64_t width = ValueDim(problem);
  std::vector<double> values(s.keys * width);
  for (int64_t j = 0; j < s.keys; ++j) {
    for (int64_t e = 0; e < width; ++e) {
      values[j * width + e] = OperandOf(
          problem, Read(args.v, s.batch, s.key_begin + j, head.kv_head(), e));
    }
  }
  return values;
}

// out and ungated of one row: O = Σ A v, out = g·O + (1 − g)·μ.
void WriteOutput(const AttentionProblem& problem, const AttentionArgs& args,
                 const ReferenceHead& head, int64_t i, const ReferenceRow& row,
                 const std::vector<double>& values) {
  const Sequence& s = head.sequence();
  const int64_t at = s.query_begin + i;
  const int64_t h = head.head();
  const int64_t width = args.out.shape[3];
  std::vector<double> o(width);
  // A row of scores that are all −∞ reads nothing, be it NaN.
  const bool reads = row.lse != -INFINITY;
  for (int64_t j = 0; j < s.keys && reads; ++j) {
    if (!head.SeesKey(row, j)) continue;
    const double p = OperandOf(problem, row.probability[j]);
    for (int64_t e = 0; e < width; ++e) o[e] += p * values[j * width + e];
  }
  const bool counts = i < s.queries;
  const double gate = args.gates ? Read(args.gates, s.batch, at, h) : 1.0;
  for (int64_t e = 0; e < width; ++e) {
    double out = gate * o[e];
    if (args.replacement) {
      out += (1 - gate) * Read(args.replacement, s.batch, at, h, e);
    }
    Write(args.out, counts ? out : 0, s.batch, at, h, e);
    Write(args.ungated, o[e], s.batch, at, h, e);
  }
}

void Forward(Context&, const AttentionProblem& problem,
             const AttentionArgs& args) {
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (const int64_t h : HeadsOf(problem, args)) {
      const ReferenceHead head(problem, args, b, h);
      const Sequence& s = head.sequence();
      const std::vector<double> values = LoadValues(problem, args, head);
      const Observation nothing;
      ReferenceObserver observer(
          args.observation != nullptr ? *args.observation : nothing, head, b);
      for (int64_t i = 0; i < s.query_rows; ++i) {
        const ReferenceRow row = head.Row(i);
        WriteOutput(problem, args, head, i, row, values);
        Write(args.lse, row.lse, s.batch, h, s.query_begin + i);
        if (args.observation != nullptr) observer.AddRow(i, row);
      }
      observer.WriteSums();
    }
  }
}

struct Pass {
  Context& context;

  void operator()(const AttentionForwardCall& c) const {
    Forward(context, c.problem, c.args);
  }
  void operator()(const AttentionBackwardCall& c) const {
    ReferenceBackward(context, c.problem, c.args, c.grads);
  }
  void operator()(const AttentionRowsCall& c) const {
    ReferenceRows(context, c.problem, c.args, c.rows, c.probabilities);
  }
  void operator()(const AttentionTopKCall& c) const {
    ReferenceTopK(context, c.problem, c.args, c.rows, c.keys, c.probabilities);
  }
  void operator()(const AttentionPairsCall& c) const {
    ReferencePairs(context, c.problem, c.args, c.pairs, c.argmax, c.mass,
                   c.is_argmax);
  }
  void operator()(const AttentionBandCall& c) const {
    ReferenceBand(context, c.problem, c.args, c.before, c.after, c.mass,
                  c.first);
  }
  void operator()(const AttentionReceivedCall& c) const {
    ReferenceReceived(context, c.problem, c.args, c.query_weights, c.received);
  }
  void operator()(const AttentionWindowCall& c) const {
    ReferenceWindow(context, c.problem, c.args, c.window, c.maximum, c.mean);
  }
  void operator()(const AttentionGramCall& c) const {
    ReferenceGram(context, c.sources, c.query_weights, c.gram);
  }
};

void Run(Context& context, const AttentionCall& call) {
  std::visit(Pass{context}, call);
}

}  // namespace

const AttentionImplementation kAttentionReference = {"reference", WhyNot, Run};

}  // namespace headwise
