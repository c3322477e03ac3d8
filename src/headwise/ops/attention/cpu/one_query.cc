// One query a head. Door: one_query.h.
//
// The weights that a token reads push all else out of the caches, code as well:
// what runs between two products is as fast as it is short. Hence a file of its
// own beside decode.cc, which can do all that this does and takes twice as long
// for some fifty keys. A task is one sequence's key/value head; scores are held
// whole, head by head.
#include "headwise/ops/attention/cpu/one_query.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/ops/attention/cpu/score_rule.h"
#include "headwise/ops/attention/cpu/views.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/attention/cpu/one_query.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.
#include "headwise/ops/attention/cpu/dots-inl.h"
#include "headwise/ops/attention/cpu/exp2-inl.h"
#include "headwise/ops/attention/cpu/score-inl.h"
#include "headwise/ops/matmul/cpu/tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kMostKeys = 512;  // whose scores are on the stack
constexpr int64_t kMostDim = 256;
constexpr int64_t kTogether = 4;  // heads that share each key and value read

// The keys that a task's queries see, with their values.
struct Seen {
  Rows keys, values;
  int64_t count = 0;
};

// Asks for all of it at once: a walk over short rows waits for each.
void Fetch(const Rows& rows, int64_t count, int64_t width) {
  constexpr int64_t kLineFloats = 16;
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < width; c += kLineFloats) {
      __builtin_prefetch(rows.at(r) + c, 0, 2);
    }
  }
}

// row [padded] of scores becomes e = 2^(score − m), row [count, padded) zero.
// Returns 1 / Σ e, or 0 where nothing was seen.
HWY_INLINE float SoftmaxRow(float* row, int64_t count, int64_t padded) {
  const F32 d;
  const VF lowest = hn::Set(d, kMinusInfinity);
  std::fill(row + count, row + padded, kMinusInfinity);
  VF top = lowest;
  constexpr int64_t kStep = kLanes;
  for (int64_t i = 0; i < padded; i += kStep) {
    top = hn::Max(top, hn::LoadU(d, row + i));
  }
  // The maximum passes over NaN: what is left of it may be −∞ beside a NaN,
  // which must reach the sum.
  const VF most = hn::MaxOfLanes(d, top);
  const VF m = hn::IfThenZeroElse(hn::Eq(most, lowest), most);
  VF sum = hn::Zero(d);
  for (int64_t i = 0; i < padded; i += kStep) {
    const VF e = Exp2(hn::Sub(hn::LoadU(d, row + i), m));
    hn::StoreU(e, d, row + i);
    sum = hn::Add(sum, e);
  }
  const float total = hn::GetLane(hn::SumOfLanes(d, sum));
  return total == 0 ? 0 : 1.0f / total;
}

// to [4 vectors] = sums · inverse; 0 where nothing was seen.
HWY_INLINE void PutFour(const Four& sums, float inverse, float* to) {
  const F32 d;
  const auto put = [&](VF sum, size_t at) HWY_ATTR {
    hn::StoreU(inverse != 0 ? hn::Mul(sum, hn::Set(d, inverse)) : hn::Zero(d),
               d, to + at);
  };
  put(sums.v0, 0);
  put(sums.v1, kLanes);
  put(sums.v2, 2 * kLanes);
  put(sums.v3, 3 * kLanes);
}

// kHeads is 1 or 4. q [kHeads, head_dim] dense, scaled; out [kHeads,
// value_dim], heads `out_stride` apart.
template <int kHeads>
void AttendHeads(const AttentionProblem& problem, const Seen& seen,
                 const float* q, float* out, int64_t out_stride) {
  const F32 d;
  const int64_t count = seen.count;
  constexpr int64_t kStep = kLanes;
  const int64_t padded = (count + kStep - 1) / kStep * kStep;
  const size_t dim = problem.head_dim;
  HWY_ALIGN float s[kHeads * (kMostKeys + kLanes)];
  int64_t r = 0;
  for (; r + 4 <= count; r += 4) {
    ScoreFourKeys<kHeads>(seen.keys, r, q, dim,
                          {1, static_cast<size_t>(padded)}, s + r);
  }
  for (; r < count; ++r) {
    for (int64_t h = 0; h < kHeads; ++h) {
      s[h * padded + r] = Dot(q + h * dim, seen.keys.at(r), dim);
    }
  }
  float inverse[kHeads];
  for (int64_t h = 0; h < kHeads; ++h) {
    inverse[h] = SoftmaxRow(s + h * padded, count, padded);
  }
  const int64_t width = ValueDim(problem);
  for (int64_t c = 0; c < width; c += 4 * kStep) {
    Four w = ZeroFour(), x = w, y = w, z = w;
    for (r = 0; r < count; ++r) {
      const float* v = seen.values.at(r) + c;
      const Four values = {hn::LoadU(d, v), hn::LoadU(d, v + kStep),
                           hn::LoadU(d, v + 2 * kStep),
                           hn::LoadU(d, v + 3 * kStep)};
      AddFour(values, hn::Set(d, s[r]), w);
      if constexpr (kHeads == 4) {
        AddFour(values, hn::Set(d, s[padded + r]), x);
        AddFour(values, hn::Set(d, s[2 * padded + r]), y);
        AddFour(values, hn::Set(d, s[3 * padded + r]), z);
      }
    }
    PutFour(w, inverse[0], out + c);
    if constexpr (kHeads == 4) {
      PutFour(x, inverse[1], out + out_stride + c);
      PutFour(y, inverse[2], out + 2 * out_stride + c);
      PutFour(z, inverse[3], out + 3 * out_stride + c);
    }
  }
}

void RunTask(const AttentionProblem& problem, const AttentionArgs& args,
             int64_t b, int64_t group) {
  const Sequence sequence = SequenceOf(problem, args, b);
  const ScoreRule rule = RuleOf(problem, args, sequence, 0);
  const KeyRange range = rule.Visible(0);
  const Seen seen = {{At(args.k, b, range.begin, group), args.k.stride[1]},
                     {At(args.v, b, range.begin, group), args.v.stride[1]},
                     range.end - range.begin};
  Fetch(seen.keys, seen.count, problem.head_dim);
  Fetch(seen.values, seen.count, ValueDim(problem));
  const int64_t share = problem.heads / problem.kv_heads;
  const int64_t together = share % kTogether == 0 ? kTogether : 1;
  HWY_ALIGN float q[kTogether * kMostDim];
  for (int64_t h = 0; h < share; h += together) {
    const int64_t head = group * share + h;
    for (int64_t x = 0; x < together; ++x) {
      const float* from = At(args.q, b, 0, head + x);
      float* to = q + x * problem.head_dim;
      for (int64_t i = 0; i < problem.head_dim; ++i) {
        to[i] = from[i] * rule.factor;
      }
    }
    float* out = At(args.out, b, 0, head);
    if (together == kTogether) {
      AttendHeads<kTogether>(problem, seen, q, out, args.out.stride[2]);
    } else {
      AttendHeads<1>(problem, seen, q, out, args.out.stride[2]);
    }
  }
}

}  // namespace

bool RunOneQuery(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args) {
  constexpr int64_t kStep = kLanes;
  if (problem.head_dim > kMostDim || ValueDim(problem) % (4 * kStep) != 0) {
    return false;
  }
  for (int64_t b = 0; b < problem.batch; ++b) {
    if (SequenceOf(problem, args, b).keys > kMostKeys) return false;
  }
  context.pool().ParallelFor(problem.batch * problem.kv_heads, [&](int64_t task,
                                                                   int) {
    RunTask(problem, args, task / problem.kv_heads, task % problem.kv_heads);
  });
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {

HWY_EXPORT(RunOneQuery);

bool OneQueryF32(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args) {
  const bool only_output = args.observation == nullptr && !args.lse &&
                           !args.gates && !args.replacement && !args.ungated &&
                           !args.sink_logits && args.active_heads.is_all();
  const bool plain = problem.query_len == 1 && !problem.packed &&
                     !args.query_lengths && problem.soft_cap == 0 &&
                     problem.bias == AttentionBias::kNone &&
                     problem.mask.sinks == 0;
  return only_output && plain &&
         HWY_DYNAMIC_DISPATCH(RunOneQuery)(context, problem, args);
}

}  // namespace headwise
#endif  // HWY_ONCE
