// Received attention: column sums, keys outside and queries inside, so that a
// task owns its columns and no sum depends on threads. Door: second_pass.h.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/attention/cpu/second_pass.h"
#include "headwise/ops/attention/cpu/views.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/attention/cpu/second_pass_received.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.
#include "headwise/ops/attention/cpu/score_tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace {

// Keys of a task: a block of queries is packed once for so many.
constexpr size_t kTaskKeys = 192;

// What a worker needs, in floats.
struct Buffers {
  float* q;  // [kBlockQueries / kTileRows, D, kTileRows]
  float* k;  // [kTaskKeys / kTileColumns, D, kTileColumns]
  float* s;  // [kBlockQueries, kTileColumns]
  static size_t Floats(size_t depth) {
    return kBlockQueries * depth + kTaskKeys * depth +
           kBlockQueries * kTileColumns;
  }
  Buffers(float* base, size_t depth)
      : q(base), k(q + kBlockQueries * depth), s(k + kTaskKeys * depth) {}
};

// Rows of a block: what is subtracted, and what a probability counts; 0: the
// row adds nothing, whatever it holds.
struct BlockRows {
  float shift[kBlockQueries];
  float weight[kBlockQueries];
};

// sums[kTileColumns] += Σ_r weight_r · 2^(s_r − shift_r)
HWY_NOINLINE void AddColumns(const float* HWY_RESTRICT s, TileRange rows,
                             const BlockRows& block,
                             double* HWY_RESTRICT sums) {
  const F32 d;
  Row total = ZeroRow();
  for (size_t r = rows.begin; r < rows.end; ++r) {
    if (block.weight[r] == 0) continue;
    const VF shift = hn::Set(d, block.shift[r]);
    const VF weight = hn::Set(d, block.weight[r]);
    const Row x = LoadRow(s + r * kTileColumns);
    total.x = hn::MulAdd(weight, Probability(x.x, shift), total.x);
    total.y = hn::MulAdd(weight, Probability(x.y, shift), total.y);
    total.z = hn::MulAdd(weight, Probability(x.z, shift), total.z);
  }
  HWY_ALIGN float values[kTileColumns];
  StoreRow(total, values);
  for (size_t c = 0; c < kTileColumns; ++c) sums[c] += values[c];
}

// Column sums of keys [begin, end) of one sequence and head into received
// (`stride` apart).
void ReceivedTask(const AttentionProblem& problem, const AttentionArgs& args,
                  const ConstTensorView& query_weights, const ScoreRule& rule,
                  int64_t head, int64_t begin, int64_t end, float* scratch,
                  float* received, int64_t stride) {
  const size_t depth = problem.head_dim;
  const Buffers buffers(scratch, depth);
  const Sequence& sequence = rule.sequence;
  const int64_t kv_head = head / (problem.heads / problem.kv_heads);
  PackAcross({At(args.k, sequence.batch, sequence.key_begin + begin, kv_head),
              args.k.stride[1]},
             end - begin, depth, kTileColumns, 1.0f, buffers.k);
  double sums[kTaskKeys] = {};
  constexpr int64_t kBlock = kBlockQueries, kPanel = kTileColumns;
  const QueryRange all = QueriesSeeing(rule, {0, sequence.queries}, begin, end);
  for (int64_t i = all.begin; i < all.end; i += kBlock) {
    const size_t count = std::min(kBlock, all.end - i);
    const int64_t row = sequence.query_begin + i;
    PackAcross({At(args.q, sequence.batch, row, head), args.q.stride[1]}, count,
               depth, kTileRows, rule.factor, buffers.q);
    BlockRows block = {};
    for (size_t r = 0; r < count; ++r) {
      const int64_t at = row + static_cast<int64_t>(r);
      const float lse = *At(args.lse, sequence.batch, head, at);
      block.shift[r] = RowShift(lse);
      if (!std::isfinite(lse)) continue;
      block.weight[r] =
          query_weights ? *At(query_weights, sequence.batch, at, 0) : 1.0f;
    }
    for (int64_t j = begin; j < end; j += kPanel) {
      const TileRange rows = RowsSeeing(rule, i, count, j);
      if (rows.empty()) continue;
      ScoreTile(rule, i, count, rows, j, buffers.q,
                buffers.k + (j - begin) * depth, depth, buffers.s, nullptr);
      AddColumns(buffers.s, rows, block, sums + (j - begin));
    }
  }
  for (int64_t j = begin; j < end; ++j) {
    received[j * stride] = static_cast<float>(sums[j - begin]);
  }
}

}  // namespace

void Received(Context& context, const AttentionProblem& problem,
              const AttentionArgs& args, const ConstTensorView& query_weights,
              const TensorView& received) {
  const std::vector<int32_t> heads = ActiveHeads(problem, args);
  const int64_t count = static_cast<int64_t>(heads.size());
  constexpr int64_t kKeys = kTaskKeys;
  const int64_t tasks = (problem.key_len + kKeys - 1) / kKeys;
  const size_t floats = Buffers::Floats(problem.head_dim);
  Scratch scratch =
      context.workspace().TakeArray<float>(context.threads() * floats);
  // The first keys, which a causal mask shows to most queries, come first.
  context.pool().ParallelFor(
      tasks * count * problem.batch, [&](int64_t task, int worker) {
        const int64_t begin = task / (count * problem.batch) * kKeys;
        const int64_t head = heads[task % count];
        const Sequence sequence =
            SequenceOf(problem, args, task / count % problem.batch);
        float* to = At(received, sequence.batch, head, sequence.key_begin);
        const int64_t stride = received.stride[2];
        const int64_t end = std::min(sequence.keys, begin + kKeys);
        if (begin < end) {
          ReceivedTask(problem, args, query_weights,
                       RuleOf(problem, args, sequence, head), head, begin, end,
                       scratch.Raw<float>() + worker * floats, to, stride);
        }
        const int64_t last = std::min(sequence.key_rows, begin + kKeys);
        for (int64_t j = std::max(begin, end); j < last; ++j) {
          to[j * stride] = 0;
        }
      });
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {

HWY_EXPORT(Received);

void ReceivedF32(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args, ConstTensorView query_weights,
                 TensorView received) {
  HWY_DYNAMIC_DISPATCH(Received)
  (context, problem, args, query_weights, received);
}

}  // namespace headwise
#endif  // HWY_ONCE
