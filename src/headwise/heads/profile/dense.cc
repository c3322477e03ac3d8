// Given matrices as attention. Door: dense.h.
#include "headwise/heads/profile/dense.h"

#include <cmath>

#include "headwise/error.h"

namespace headwise {
namespace {

// e^−100 is 0 in f32, and stays finite times 0 in a product.
constexpr float kLogZero = -100;

}  // namespace

void ObserveDense(Context& context, RunHooks& observer,
                  const AttentionSite& site, const DenseAttention& attention) {
  const int64_t heads = attention.heads;
  const int64_t queries = attention.queries, keys = attention.keys;
  if (static_cast<int64_t>(attention.probabilities.size()) !=
      heads * queries * keys) {
    throw Error(ErrorCode::kInvalidArgument,
                {"dense attention",
                 std::to_string(heads * queries * keys) + " probabilities",
                 std::to_string(attention.probabilities.size()), ""});
  }
  // Scores are log A: queries ln A[i, ·] times keys that are unit vectors.
  Tensor q(DType::kF32, {1, queries, heads, keys});
  Tensor k(DType::kF32, {1, keys, 1, keys});
  Tensor v(DType::kF32, {1, keys, 1, 1});
  Tensor out(DType::kF32, {1, queries, heads, 1});
  Tensor lse(DType::kF32, {1, heads, queries});
  const float* p = attention.probabilities.data();
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < queries; ++i) {
      float* to = q.As<float>() + (i * heads + h) * keys;
      for (int64_t j = 0; j < keys; ++j) {
        const float value = *p++;
        to[j] = value > 0 ? std::log(value) : kLogZero;
      }
    }
  }
  for (int64_t j = 0; j < keys; ++j) k.As<float>()[j * keys + j] = 1;
  const int32_t query_starts[] = {0, static_cast<int32_t>(queries)};
  const int32_t key_starts[] = {0, static_cast<int32_t>(keys)};
  AttentionProblem problem;
  problem.heads = heads;
  problem.kv_heads = 1;
  problem.query_len = queries;
  problem.key_len = keys;
  problem.head_dim = keys;
  problem.value_dim = 1;
  problem.scale = 1;
  problem.packed = true;
  if (attention.causal) problem.mask = AttentionMask::Causal();
  AttentionArgs args;
  args.q = std::as_const(q).view();
  args.k = std::as_const(k).view();
  args.v = std::as_const(v).view();
  args.out = out.view();
  args.lse = lse.view();
  args.query_starts = {query_starts, DType::kI32, {2}};
  args.key_starts = {key_starts, DType::kI32, {2}};
  observer.BeforeAttention(site, problem, args);
  AttentionForward(context, problem, args);
  observer.AfterAttention(site, problem, args);
}

}  // namespace headwise
