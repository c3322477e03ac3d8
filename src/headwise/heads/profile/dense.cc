// Given matrices as attention. Door: dense.h.
#include "headwise/heads/profile/dense.h"

#include <cmath>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

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
  Tensor out(context, DType::kF32, {1, queries, heads, 1});
  Tensor lse(context, DType::kF32, {1, heads, queries});
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
  problem.device = context.device();
  Temp copies[5];
  args.q = OnDevice(context, q.view(), copies[0]);
  args.k = OnDevice(context, k.view(), copies[1]);
  args.v = OnDevice(context, v.view(), copies[2]);
  args.out = out.view();
  args.lse = lse.view();
  args.query_starts = OnDevice(context, ViewOf(query_starts), copies[3]);
  args.key_starts = OnDevice(context, ViewOf(key_starts), copies[4]);
  observer.BeforeAttention(site, problem, args);
  AttentionForward(context, problem, args);
  observer.AfterAttention(site, problem, args);
  context.Synchronize();  // what was copied is read until then
}

}  // namespace headwise
