// Assigned heads. Door: head_assignment.h.
#include "headwise/train/head_assignment.h"

#include <cmath>
#include <string>
#include <utility>

#include "headwise/base/fields.h"
#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/embedding/embedding.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

std::string Describe(const HeadAssignment& one) {
  return "head " + std::to_string(one.layer) + "." + std::to_string(one.head);
}

// Whether a query can see a key in the relation at all.
bool MayHold(HeadRelation relation, const AttentionMask& mask) {
  const bool ahead =
      relation == HeadRelation::kNext || relation == HeadRelation::kLast;
  return !ahead || mask.after > 0;
}

const AttentionLayer& LayerOf(const HeadAssignment& one, const Model& model) {
  const auto layers = static_cast<int64_t>(model.stack().blocks.size());
  if (one.layer < 0 || one.layer >= layers) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"heads.assign", "a layer from 0 to " + std::to_string(layers - 1),
         std::to_string(one.layer), "layers count from 0"});
  }
  const AttentionLayer& layer = model.stack().blocks[one.layer].attention();
  const int64_t heads = layer.config().heads;
  if (one.head < 0 || one.head >= heads) {
    throw Error(ErrorCode::kInvalidArgument,
                {"heads.assign",
                 "a head from 0 to " + std::to_string(heads - 1) +
                     " of layer " + std::to_string(one.layer),
                 std::to_string(one.head), "heads count from 0"});
  }
  return layer;
}

// Head `head` of one call, alone: its scores as they were, its keys as values.
struct OneHead {
  AttentionProblem problem;
  AttentionArgs args;
  Temp out, lse;
};

OneHead Isolate(Context& context, const AttentionProblem& problem,
                const AttentionArgs& args, int64_t head) {
  const int64_t group = head / (problem.heads / problem.kv_heads);
  OneHead one;
  one.problem = problem;
  one.problem.heads = one.problem.kv_heads = 1;
  one.problem.value_dim = 0;
  one.args.q = Slice(args.q, 2, head, head + 1);
  one.args.k = Slice(args.k, 2, group, group + 1);
  one.args.v = one.args.k;
  one.args.query_starts = args.query_starts;
  one.args.key_starts = args.key_starts;
  one.args.alibi_slopes = Slice(args.alibi_slopes, 0, head, head + 1);
  one.args.sink_logits = Slice(args.sink_logits, 0, head, head + 1);
  const int64_t rows = args.q.shape[1];
  one.out = Temp(context, problem.type, {1, rows, 1, problem.head_dim});
  one.lse = Temp(context, DType::kF32, {1, 1, rows});
  one.args.out = one.out.view();
  one.args.lse = one.lse.view();
  return one;
}

// [1, T, 1, D] as [T, D].
template <typename View>
View RowsOf(const View& view) {
  return At(At(view, 2, 0), 0, 0);
}

Temp Gathered(Context& context, const ConstTensorView& from,
              const ConstTensorView& rows) {
  Temp to(context, from.type, {rows.shape[0], from.shape[1]});
  GatherRows(context, from, rows, to.view());
  return to;
}

// Zeros but for the rows that are given.
Temp Spread(Context& context, const ConstTensorView& from,
            const ConstTensorView& rows, int64_t total) {
  Temp to(context, from.type, {total, from.shape[1]});
  Fill(context, 0, to.view());
  ScatterRows(context, from, rows, to.view());
  return to;
}

// Σ of all elements, in f32 columns.
double SumOf(Context& context, const ConstTensorView& x) {
  const Temp sums(context, DType::kF32, {x.shape[1]});
  Fill(context, 0, sums.view());
  AddColumnSums(context, x, sums.view());
  double total = 0;
  for (const float sum : ToVector<float>(context, sums.view())) total += sum;
  return total;
}

// Σ bias(head, j − i) of the pairs.
double SumOfBias(Context& context, const AttentionArgs& one,
                 const RelationPairs& pairs) {
  if (!one.alibi_slopes) return 0;
  double distance = 0;
  for (size_t i = 0; i < pairs.queries.size(); ++i) {
    distance += std::abs(pairs.queries[i] - pairs.keys[i]);
  }
  return -distance * ToVector<float>(context, one.alibi_slopes)[0];
}

}  // namespace

AssignedHeads::AssignedHeads(std::vector<HeadAssignment> assignments,
                             const Model& model)
    : assignments_(std::move(assignments)) {
  for (const HeadAssignment& one : assignments_) {
    const auto refuse = [&](ErrorCode code, const std::string& expected,
                            const std::string& found) {
      throw Error(code, {"heads.assign", expected, found, ""});
    };
    if (model.decoder() != nullptr) {
      refuse(ErrorCode::kUnsupported, "a model of one stack",
             "an encoder–decoder");
    }
    const AttentionLayer& layer = LayerOf(one, model);
    const bool biased = layer.BiasName() != nullptr && !layer.weights().alibi;
    if (layer.config().soft_cap > 0 || biased) {
      refuse(ErrorCode::kUnsupported,
             "scores without a soft cap, learned spans or a relative bias",
             Describe(one));
    }
    const AttentionMask& mask = layer.config().mask;
    if (!MayHold(one.relation, mask)) {
      refuse(ErrorCode::kInvalidArgument,
             "a relation to what a causal head sees",
             Describe(one) + ": " +
                 FieldWords(one.relation)[static_cast<size_t>(one.relation)]);
    }
    masks_.push_back(mask);
  }
}

AssignmentHooks::AssignmentHooks(Context& context, const AssignedHeads& heads,
                                 std::span<const RelationPairs> pairs,
                                 std::span<const double> factors)
    : context_(context), heads_(heads), pairs_(pairs), factors_(factors) {}

void AssignmentHooks::AfterAttentionBackward(const AttentionSite& site,
                                             const AttentionProblem& problem,
                                             const AttentionArgs& args,
                                             const AttentionGrads& grads) {
  for (size_t i = 0; i < heads_.size(); ++i) {
    if (heads_[i].layer != site.layer || pairs_[i].queries.empty()) continue;
    loss_ += factors_[i] * AddAssignmentGradient(context_, problem, args, grads,
                                                 heads_[i].head, pairs_[i],
                                                 factors_[i]);
  }
}

double AddAssignmentGradient(Context& context, const AttentionProblem& problem,
                             const AttentionArgs& args,
                             const AttentionGrads& grads, int64_t head,
                             const RelationPairs& pairs, double factor) {
  if (grads.dsink_logits) {
    throw Error(ErrorCode::kUnsupported,
                {"heads.assign", "heads whose sink logits are not trained",
                 "trained ones", "freeze the sink logits, or assign no heads"});
  }
  const OneHead one = Isolate(context, problem, args, head);
  AttentionForward(context, one.problem, one.args);
  Temp query_numbers, key_numbers;
  const ConstTensorView queries =
      OnDevice(context, ViewOf(pairs.queries), query_numbers);
  const ConstTensorView keys =
      OnDevice(context, ViewOf(pairs.keys), key_numbers);
  const int64_t rows = args.q.shape[1], dim = problem.head_dim;
  const Temp q = Gathered(context, RowsOf(one.args.q), queries);
  const Temp k = Gathered(context, RowsOf(one.args.k), keys);
  const double scale = problem.scale > 0
                           ? static_cast<double>(problem.scale)
                           : 1 / std::sqrt(static_cast<double>(dim));
  const auto step = static_cast<float>(factor * scale);

  // By the queries: Σ_j A[i, j] k_j − k of the relation.
  const Temp dq = Gathered(context, RowsOf(one.out.view()), queries);
  AddScaled(context, dq.view(), -1, k.view(), dq.view());
  const Temp all_dq = Spread(context, dq.view(), queries, rows);
  const TensorView to_q = RowsOf(Slice(grads.dq, 2, head, head + 1));
  AddScaled(context, to_q, step, all_dq.view(), to_q);

  // By the keys: Σ_i A[i, j] q_i − Σ of the queries that have it.
  const Temp dout = Spread(context, q.view(), queries, rows);
  const Temp all_dk(context, problem.type, {rows, dim});
  const Shape shape = {1, rows, 1, dim};
  AttentionGrads values;
  values.dout = Reshaped(dout.view(), shape);
  values.dv = Reshaped(all_dk.view(), shape);
  AttentionBackward(context, one.problem, one.args, values);
  const Temp sums(context, DType::kF32, {rows, dim});
  Fill(context, 0, sums.view());
  EmbeddingBackward(context, keys, {q.view(), sums.view()});
  const Temp rounded(context, problem.type, {rows, dim});
  Copy(context, sums.view(), rounded.view());
  AddScaled(context, all_dk.view(), -1, rounded.view(), all_dk.view());
  const int64_t group = head / (problem.heads / problem.kv_heads);
  const TensorView to_k = RowsOf(Slice(grads.dk, 2, group, group + 1));
  AddScaled(context, to_k, step, all_dk.view(), to_k);

  // −ln A = LSE − z, whose products are of f32 whatever the model computes in.
  const auto count = static_cast<int64_t>(pairs.queries.size());
  const Temp products(context, DType::kF32, {count, dim});
  const Temp factors(context, DType::kF32, {count, dim});
  Copy(context, q.view(), products.view());
  Copy(context, k.view(), factors.view());
  Multiply(context, products.view(), factors.view(), products.view());
  const Temp lse(context, DType::kF32, {count, 1});
  GatherRows(context, Reshaped(one.lse.view(), {rows, 1}), queries, lse.view());
  return SumOf(context, lse.view()) - scale * SumOf(context, products.view()) -
         SumOfBias(context, one.args, pairs);
}

}  // namespace headwise
