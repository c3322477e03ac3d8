// Mass next to the diagonal. Door: second_pass.h.
//
// Four queries at a time read the keys of all their bands once, where they
// lie; a row's scores then come out side by side.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/attention/cpu/second_pass.h"
#include "headwise/ops/attention/cpu/views.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/attention/cpu/second_pass_band.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.
#include "headwise/ops/attention/cpu/dots-inl.h"
#include "headwise/ops/attention/cpu/score-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kQueries = 4;  // that share their keys

// One head of one sequence.
struct BandHead {
  const AttentionArgs& args;
  ScoreRule rule;
  Rows keys;
  int64_t head = 0;
  int64_t dim = 0;
  int64_t before = 0, width = 0;  // width: before + after + 1

  // Scores of one query of a group: all its keys, and room for a last step.
  int64_t row_floats() const {
    return width + kQueries - 1 + static_cast<int64_t>(kTileColumns);
  }
};

// Products of queries q [kQueries, dim] with keys [begin, end).
// s: [kQueries, row_floats].
HWY_INLINE void BandProducts(const BandHead& band, const float* q,
                             int64_t begin, int64_t end, float* s) {
  const DotSteps step = {1, static_cast<size_t>(band.row_floats())};
  int64_t j = begin;
  for (; j + 4 <= end; j += 4) {
    ScoreFourKeys<kQueries>(band.keys, j, q, band.dim, step, s + (j - begin));
  }
  for (; j < end; ++j) {
    for (int64_t i = 0; i < kQueries; ++i) {
      s[i * band.row_floats() + (j - begin)] =
          Dot(q + i * band.dim, band.keys.at(j), band.dim);
    }
  }
}

// Products of query i with keys [low, high) become probabilities, in place.
// p: [high − low], with kTileColumns floats of room behind.
HWY_INLINE void BandProbabilities(const BandHead& band, int64_t i, int64_t low,
                                  int64_t high, float lse,
                                  float* HWY_RESTRICT p) {
  const F32 d;
  const KeyRange range = band.rule.Visible(i);
  const bool sees_all =
      (range.begin <= low && high <= range.end) || high <= range.sinks;
  const size_t count = high - low;
  if (!sees_all || !band.rule.plain()) {
    for (size_t c = 0; c < count; c += kTileColumns) {
      ScoreRow(band.rule, i, low + static_cast<int64_t>(c), p + c, nullptr);
    }
  }
  const VF shift = hn::Set(d, RowShift(lse));
  for (size_t c = 0; c < count; c += kLanes) {
    hn::StoreU(Probability(hn::LoadU(d, p + c), shift), d, p + c);
  }
}

// Queries [i, i + count), 1 ≤ count ≤ kQueries. memory: q [kQueries, dim] and
// s [kQueries, row_floats].
void BandOfGroup(const BandHead& band, int64_t i, int64_t count, float* memory,
                 const TensorView& mass, const TensorView& first_key) {
  const Sequence& sequence = band.rule.sequence;
  const int64_t batch = sequence.batch, row = sequence.query_begin + i;
  float* s = memory + kQueries * band.dim;
  for (int64_t n = 0; n < kQueries; ++n) {
    float* q = memory + n * band.dim;
    const float* from =
        At(band.args.q, batch, row + std::min(n, count - 1), band.head);
    for (int64_t c = 0; c < band.dim; ++c) q[c] = from[c] * band.rule.factor;
  }
  // Keys of the first query's band, and of all of them.
  const int64_t first = i + sequence.offset - band.before;
  const int64_t begin = std::max<int64_t>(0, first);
  const int64_t end = std::min(sequence.keys, first + band.width + count - 1);
  if (begin < end) BandProducts(band, memory, begin, end, s);
  for (int64_t n = 0; n < count; ++n) {
    float* to = At(mass, batch, band.head, row + n);
    const int64_t low = std::max<int64_t>(0, first + n);
    const int64_t high = std::min(sequence.keys, first + n + band.width);
    if (low >= high) {
      std::fill_n(to, band.width, 0.0f);
      continue;
    }
    float* p = s + n * band.row_floats() + (low - begin);
    BandProbabilities(band, i + n, low, high,
                      *At(band.args.lse, batch, band.head, row + n), p);
    std::fill(to, to + (low - first - n), 0.0f);
    for (int64_t j = low; j < high; ++j) to[j - first - n] = p[j - low];
    std::fill(to + (high - first - n), to + band.width, 0.0f);
  }
  if (!first_key) return;
  for (int64_t n = 0; n < count; ++n) {
    float* to = At(first_key, batch, band.head, row + n);
    *to = 0;
    if (sequence.keys == 0) continue;
    *s = Dot(memory + n * band.dim, band.keys.at(0), band.dim);
    BandProbabilities(band, i + n, 0, 1,
                      *At(band.args.lse, batch, band.head, row + n), s);
    *to = *s;
  }
}

}  // namespace

void RunBand(Context& context, const AttentionProblem& problem,
             const AttentionArgs& args, int64_t before, int64_t after,
             const TensorView& mass, const TensorView& first) {
  const std::vector<int32_t> heads = ActiveHeads(problem, args);
  // Queries of a task: a band is little work each.
  constexpr int64_t kTaskQueries = 64;
  const int64_t blocks = (problem.query_len + kTaskQueries - 1) / kTaskQueries;
  const int64_t share = problem.heads / problem.kv_heads;
  const int64_t width = before + after + 1;
  const int64_t floats = kQueries * (problem.head_dim + width + kQueries - 1 +
                                     static_cast<int64_t>(kTileColumns));
  Scratch scratch =
      context.workspace().TakeArray<float>(context.threads() * floats);
  const int64_t tasks =
      static_cast<int64_t>(heads.size()) * problem.batch * blocks;
  context.pool().ParallelFor(tasks, [&](int64_t task, int worker) {
    const int32_t head = heads[task / (problem.batch * blocks)];
    const Sequence sequence =
        SequenceOf(problem, args, task / blocks % problem.batch);
    const int64_t begin = task % blocks * kTaskQueries;
    const int64_t end = std::min(begin + kTaskQueries, sequence.query_rows);
    const BandHead band = {
        args,
        RuleOf(problem, args, sequence, head),
        {At(args.k, sequence.batch, sequence.key_begin, head / share),
         args.k.stride[1]},
        head,
        problem.head_dim,
        before,
        width};
    const int64_t real = std::min(end, sequence.queries);
    for (int64_t i = begin; i < real; i += kQueries) {
      BandOfGroup(band, i, std::min(kQueries, real - i),
                  scratch.Raw<float>() + worker * floats, mass, first);
    }
    for (int64_t i = std::max(begin, real); i < end; ++i) {
      std::fill_n(At(mass, sequence.batch, head, sequence.query_begin + i),
                  width, 0.0f);
      if (first) {
        *At(first, sequence.batch, head, sequence.query_begin + i) = 0;
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {

HWY_EXPORT(RunBand);

void BandF32(Context& context, const AttentionProblem& problem,
             const AttentionArgs& args, int64_t before, int64_t after,
             TensorView mass, TensorView first) {
  HWY_DYNAMIC_DISPATCH(RunBand)
  (context, problem, args, before, after, mass, first);
}

}  // namespace headwise
#endif  // HWY_ONCE
