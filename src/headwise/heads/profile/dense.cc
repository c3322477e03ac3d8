// Given matrices as attention. Door: dense.h.
#include "headwise/heads/profile/dense.h"

#include <cmath>
#include <memory>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// e^−100 is 0 in f32, and stays finite times 0 in a product.
constexpr float kLogZero = -100;

// All that a call reads and writes.
struct Memory {
  Tensor q, k, v, out, lse;
  std::vector<int32_t> query_starts, key_starts;
  Temp copies[5];  // where they do not lie on the device
};

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
  const auto memory = std::make_shared<Memory>();
  Tensor& q = memory->q = Tensor(DType::kF32, {1, queries, heads, keys});
  Tensor& k = memory->k = Tensor(DType::kF32, {1, keys, 1, keys});
  memory->v = Tensor(DType::kF32, {1, keys, 1, 1});
  memory->out = Tensor(context, DType::kF32, {1, queries, heads, 1});
  memory->lse = Tensor(context, DType::kF32, {1, heads, queries});
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
  memory->query_starts = {0, static_cast<int32_t>(queries)};
  memory->key_starts = {0, static_cast<int32_t>(keys)};
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
  const auto here = [&](const ConstTensorView& view, int copy) {
    return OnDevice(context, view, memory->copies[copy]);
  };
  args.q = here(q.view(), 0);
  args.k = here(k.view(), 1);
  args.v = here(memory->v.view(), 2);
  args.out = memory->out.view();
  args.lse = memory->lse.view();
  args.query_starts = here(ViewOf(memory->query_starts), 3);
  args.key_starts = here(ViewOf(memory->key_starts), 4);
  observer.BeforeAttention(site, problem, args);
  AttentionForward(context, problem, args);
  args.observation = nullptr;
  observer.AfterAttention(site, problem, args);
  observer.KeepCall(memory);
  context.Synchronize();  // what was copied is read until then
}

}  // namespace headwise
