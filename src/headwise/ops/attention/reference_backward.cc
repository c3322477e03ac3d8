// The reference's backward pass. With dO = g·dout, P = A and z the scores:
//   dP_ij = ⟨dO_i, v_j⟩,  dz_ij = P_ij (dP_ij − Σ_j P_ij dP_ij)
//   and through the entropy, ∂H_i/∂z_ij = −P_ij (ln P_ij + H_i + P_is),
// where P_is = 1 − Σ_j P_ij is what the sink took; its logit gets
//   ds = −Σ_i P_is (Σ_j P_ij dP_ij + ∂L/∂H_i (H_i + P_is − 1)).
// Probabilities are computed anew from q and k, so that the result does not
// inherit the rounding of lse and out. Door: reference_passes.h.
#include <algorithm>
#include <utility>
#include <vector>

#include "headwise/ops/attention/reference_passes.h"
#include "headwise/ops/attention/reference_row.h"
#include "headwise/tensor/element.h"

namespace headwise {
namespace {

using Matrix = std::vector<std::vector<double>>;

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

std::vector<double> ReadVector(const ConstTensorView& view, int64_t batch,
                               int64_t position, int64_t head) {
  std::vector<double> result(view.shape[3]);
  for (size_t d = 0; d < result.size(); ++d) {
    result[d] = Read(view, batch, position, head, d);
  }
  return result;
}

// The same as operands of products.
std::vector<double> Operands(const AttentionProblem& problem,
                             std::vector<double> values) {
  for (double& x : values) x = OperandOf(problem, x);
  return values;
}

void WriteVector(const TensorView& view, const std::vector<double>& values,
                 int64_t batch, int64_t position, int64_t head) {
  for (size_t d = 0; d < values.size(); ++d) {
    Write(view, values[d], batch, position, head, d);
  }
}

// One key/value head of one sequence, and what its query heads add to.
struct Group {
  Sequence s;
  Matrix k, v, dk, dv;  // [keys][D] and [keys][E]
};

Group LoadGroup(const AttentionProblem& problem, const AttentionArgs& args,
                int64_t sequence, int64_t kv_head) {
  Group group;
  group.s = SequenceOf(problem, args, sequence);
  for (int64_t j = 0; j < group.s.keys; ++j) {
    const int64_t at = group.s.key_begin + j;
    group.k.push_back(
        Operands(problem, ReadVector(args.k, group.s.batch, at, kv_head)));
    group.v.push_back(
        Operands(problem, ReadVector(args.v, group.s.batch, at, kv_head)));
  }
  group.dk.assign(group.s.key_rows, std::vector<double>(problem.head_dim));
  group.dv.assign(group.s.key_rows, std::vector<double>(ValueDim(problem)));
  return group;
}

// What one head adds to the gradients of its parameters.
struct ParameterGradients {
  std::vector<double> table;  // [2R + 1] of drelative_table, or empty
  double sink_logit = 0;
};

class Backward {
 public:
  Backward(const AttentionProblem& problem, const AttentionArgs& args,
           const AttentionGrads& grads)
      : problem_(problem), args_(args), grads_(grads) {}

  // Everything that one head of one sequence contributes.
  void AddHead(const ReferenceHead& head, Group& group,
               ParameterGradients& parameters) const {
    std::vector<double> received(group.s.key_rows);
    for (int64_t i = 0; i < group.s.query_rows; ++i) {
      AddRow(head, i, group, parameters, received);
    }
    for (int64_t j = 0; j < group.s.key_rows; ++j) {
      Write(grads_.received, received[j], group.s.batch, head.head(),
            group.s.key_begin + j);
    }
  }

 private:
  void AddRow(const ReferenceHead& head, int64_t i, Group& group,
              ParameterGradients& parameters,
              std::vector<double>& received) const {
    const int64_t b = group.s.batch;
    const int64_t at = group.s.query_begin + i;
    const int64_t h = head.head();
    std::vector<double> dq(problem_.head_dim);
    double dgate = 0;
    if (i < group.s.queries) {
      const ReferenceRow row = head.Row(i);
      const std::vector<double> q =
          Operands(problem_, ReadVector(args_.q, b, at, h));
      const std::vector<double> dout = ReadVector(grads_.dout, b, at, h);
      const double gate = args_.gates ? Read(args_.gates, b, at, h) : 1.0;
      std::vector<double> d_o(dout.size());
      AddScaled(d_o, gate, dout);
      d_o = Operands(problem_, std::move(d_o));
      const std::vector<double> dz =
          ScoreGradients(head, row, at, group, d_o, parameters.sink_logit);
      for (int64_t j = 0; j < group.s.keys; ++j) {
        if (!head.SeesKey(row, j)) continue;
        const double ds =
            OperandOf(problem_, dz[j] * row.score_slope[j]) * head.scale();
        AddScaled(dq, ds, group.k[j]);
        AddScaled(group.dk[j], ds, q);
        AddScaled(group.dv[j], OperandOf(problem_, row.probability[j]), d_o);
        if (!parameters.table.empty()) {
          parameters.table[TableIndex(j - row.position)] += dz[j];
        }
        if (row.finite()) received[j] += row.probability[j];
        dgate += row.probability[j] * Dot(dout, group.v[j]);
      }
      if (args_.replacement) {
        dgate -= Dot(dout, ReadVector(args_.replacement, b, at, h));
      }
    }
    WriteVector(grads_.dq, dq, b, at, h);
    Write(grads_.dgates, dgate, b, at, h);
  }

  // dz of one row; its part of the sink logit's gradient is added to `sink`.
  std::vector<double> ScoreGradients(const ReferenceHead& head,
                                     const ReferenceRow& row, int64_t at,
                                     const Group& group,
                                     const std::vector<double>& d_o,
                                     double& sink) const {
    std::vector<double> dp(group.s.keys);
    double mean = 0;
    for (int64_t j = 0; j < group.s.keys; ++j) {
      if (!head.SeesKey(row, j)) continue;
      dp[j] = Dot(d_o, group.v[j]);
      mean += row.probability[j] * dp[j];
    }
    const double entropy = Entropy(row);
    const double dentropy =
        grads_.dentropy ? Read(grads_.dentropy, group.s.batch, head.head(), at)
                        : 0.0;
    std::vector<double> dz(group.s.keys);
    for (int64_t j = 0; j < group.s.keys; ++j) {
      const double p = row.probability[j];
      if (p == 0) continue;
      const double log_p = row.score[j] - row.lse;
      dz[j] =
          p * (dp[j] - mean) - dentropy * p * (log_p + entropy + row.missing);
    }
    if (row.missing != 0) {
      sink -= row.missing * (mean + dentropy * (entropy + row.missing - 1));
    }
    return dz;
  }

  int64_t TableIndex(int64_t distance) const {
    const int64_t reach = problem_.relative_reach;
    return std::clamp(distance, -reach, reach) + reach;
  }

  const AttentionProblem& problem_;
  const AttentionArgs& args_;
  const AttentionGrads& grads_;
};

}  // namespace

void ReferenceBackward(Context&, const AttentionProblem& problem,
                       const AttentionArgs& args, const AttentionGrads& grads) {
  const Backward backward(problem, args, grads);
  const int64_t group_size = problem.heads / problem.kv_heads;
  const std::vector<int64_t> heads = HeadsOf(problem, args);
  std::vector<ParameterGradients> parameters(problem.heads);
  for (const int64_t h : heads) {
    if (!grads.drelative_table) break;
    parameters[h].table.resize(2 * problem.relative_reach + 1);
  }
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (int64_t g = 0; g < problem.kv_heads; ++g) {
      Group group = LoadGroup(problem, args, b, g);
      for (const int64_t h : heads) {
        if (h / group_size != g) continue;
        backward.AddHead(ReferenceHead(problem, args, b, h), group,
                         parameters[h]);
      }
      for (int64_t j = 0; j < group.s.key_rows; ++j) {
        const int64_t at = group.s.key_begin + j;
        WriteVector(grads.dk, group.dk[j], group.s.batch, at, g);
        WriteVector(grads.dv, group.dv[j], group.s.batch, at, g);
      }
    }
  }
  for (const int64_t h : heads) {
    const std::vector<double>& table = parameters[h].table;
    for (size_t r = 0; r < table.size(); ++r) {
      Write(grads.drelative_table, Read(grads.drelative_table, h, r) + table[r],
            h, r);
    }
    if (!grads.dsink_logits) continue;
    Write(grads.dsink_logits,
          Read(grads.dsink_logits, h) + parameters[h].sink_logit, h);
  }
}

}  // namespace headwise
