// Few queries a head. Door: decode.h.
//
// A task is one sequence's key/value head, or several where there are few keys.
// Its panels hold the queries of all heads that share it, side by side in
// lanes; for each tile of keys the products are made straight from the caller's
// memory, the softmax and every statistic are the forward's (visit-inl.h), and
// the values are added up to [lane, column] sums. A lane's numbers do not
// depend on what the others hold, and nothing on the number of threads.
#include "headwise/ops/attention/cpu/decode.h"

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/attention/cpu/results.h"
#include "headwise/ops/attention/cpu/score_rule.h"
#include "headwise/ops/attention/cpu/views.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/attention/cpu/decode.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.
#include "headwise/ops/attention/cpu/dots-inl.h"
#include "headwise/ops/attention/cpu/finish-inl.h"
#include "headwise/ops/attention/cpu/panel-inl.h"
#include "headwise/ops/attention/cpu/visit-inl.h"
#include "headwise/ops/matmul/cpu/tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace {

// Products of `lanes` queries q [lanes, dim] with `real` keys from `key` on.
// s: [≥ real, kTileColumns]; other lanes are left as they are.
HWY_NOINLINE void ScoreLanes(const Rows& k, int64_t key, int64_t real,
                             const float* HWY_RESTRICT q, size_t dim,
                             size_t lanes, float* HWY_RESTRICT s) {
  constexpr DotSteps kStep = {kTileColumns, 1};
  int64_t r = 0;
  for (; r + 4 <= real; r += 4) {
    float* to = s + r * static_cast<int64_t>(kTileColumns);
    size_t lane = 0;
    for (; lane + 4 <= lanes; lane += 4) {
      ScoreFourKeys<4>(k, key + r, q + lane * dim, dim, kStep, to + lane);
    }
    for (; lane < lanes; ++lane) {
      ScoreFourKeys<1>(k, key + r, q + lane * dim, dim, kStep, to + lane);
    }
  }
  for (; r < real; ++r) {
    for (size_t lane = 0; lane < lanes; ++lane) {
      s[r * static_cast<int64_t>(kTileColumns) + lane] =
          Dot(q + lane * dim, k.at(key + r), dim);
    }
  }
}

// o [4, columns ≥ width] = α·o + Σ e·v over `keys` rows of v, for four lanes.
// e: [keys, kTileColumns], of which the first four columns.
HWY_INLINE void AddFourLanes(const Rows& v, int64_t key, size_t keys,
                             size_t width, const float* HWY_RESTRICT e,
                             const float* alpha, float* HWY_RESTRICT o,
                             size_t columns) {
  const F32 d;
  size_t c = 0;
  for (; c + kTileColumns <= width; c += kTileColumns) {
    HalfTile t = LoadHalf(o + c, columns);
    const auto factor = [&](int lane) HWY_ATTR {
      const VF x = hn::Set(d, alpha[lane]);
      return Row{x, x, x};
    };
    t = {Scaled(t.r0, factor(0)), Scaled(t.r1, factor(1)),
         Scaled(t.r2, factor(2)), Scaled(t.r3, factor(3))};
    for (size_t r = 0; r < keys; ++r) {
      AddOuter(t, e + r * kTileColumns,
               LoadRow(v.at(key + static_cast<int64_t>(r)) + c));
    }
    StoreHalf(t, o + c, columns);
  }
  for (; c + kLanes <= width; c += kLanes) {
    Four t = {hn::Mul(hn::Set(d, alpha[0]), hn::LoadU(d, o + c)),
              hn::Mul(hn::Set(d, alpha[1]), hn::LoadU(d, o + columns + c)),
              hn::Mul(hn::Set(d, alpha[2]), hn::LoadU(d, o + 2 * columns + c)),
              hn::Mul(hn::Set(d, alpha[3]), hn::LoadU(d, o + 3 * columns + c))};
    for (size_t r = 0; r < keys; ++r) {
      const float* p = e + r * kTileColumns;
      AddFour({hn::Set(d, p[0]), hn::Set(d, p[1]), hn::Set(d, p[2]),
               hn::Set(d, p[3])},
              hn::LoadU(d, v.at(key + static_cast<int64_t>(r)) + c), t);
    }
    hn::StoreU(t.v0, d, o + c);
    hn::StoreU(t.v1, d, o + columns + c);
    hn::StoreU(t.v2, d, o + 2 * columns + c);
    hn::StoreU(t.v3, d, o + 3 * columns + c);
  }
  for (; c < width; ++c) {
    for (size_t lane = 0; lane < 4; ++lane) {
      float sum = alpha[lane] * o[lane * columns + c];
      for (size_t r = 0; r < keys; ++r) {
        sum +=
            e[r * kTileColumns + lane] * v.at(key + static_cast<int64_t>(r))[c];
      }
      o[lane * columns + c] = sum;
    }
  }
}

// o [width] += Σ e·v over rows [begin, end) of a tile whose first row is
// `key`, for one lane. e: that lane's column.
HWY_INLINE void AddOneLane(const Rows& v, int64_t key, int64_t begin,
                           int64_t end, size_t width,
                           const float* HWY_RESTRICT e, float* HWY_RESTRICT o) {
  const F32 d;
  const auto weight = [&](int64_t r) {
    return e[r * static_cast<int64_t>(kTileColumns)];
  };
  size_t c = 0;
  for (; c + 4 * kLanes <= width; c += 4 * kLanes) {
    const auto load = [&](const float* from) HWY_ATTR {
      return Four{hn::LoadU(d, from), hn::LoadU(d, from + kLanes),
                  hn::LoadU(d, from + 2 * kLanes),
                  hn::LoadU(d, from + 3 * kLanes)};
    };
    Four t = load(o + c);
    for (int64_t r = begin; r < end; ++r) {
      AddFour(load(v.at(key + r) + c), hn::Set(d, weight(r)), t);
    }
    hn::StoreU(t.v0, d, o + c);
    hn::StoreU(t.v1, d, o + c + kLanes);
    hn::StoreU(t.v2, d, o + c + 2 * kLanes);
    hn::StoreU(t.v3, d, o + c + 3 * kLanes);
  }
  for (; c < width; ++c) {
    float sum = o[c];
    for (int64_t r = begin; r < end; ++r) sum += weight(r) * v.at(key + r)[c];
    o[c] = sum;
  }
}

// A lane of a tile that not all lanes see whole: only what it sees is touched,
// since an unseen value may be NaN.
HWY_INLINE void AddSeen(const Rows& v, const Panel& panel, size_t lane,
                        int64_t j, int64_t key, int64_t real, size_t width,
                        const float* e, float* o) {
  const auto within = [&](int64_t x) {
    return std::clamp<int64_t>(x - j, 0, real);
  };
  AddOneLane(v, key, 0, within(panel.lane_sinks[lane]), width, e + lane, o);
  AddOneLane(v, key, within(panel.lane_begin[lane]),
             within(panel.lane_end[lane]), width, e + lane, o);
}

// Lanes [begin, end) of a panel, which read the same keys.
struct LaneRange {
  size_t begin = 0, end = 0;
};

// The lanes' outputs o [kTileColumns, columns] = α·o + e·v, `width` columns of
// them, over the tile's `real` keys.
HWY_NOINLINE void AddLanes(const Rows& v, const Panel& panel, LaneRange lanes,
                           int64_t j, int64_t key, int64_t real, bool partly,
                           size_t width, const float* e, const float* alpha,
                           float* o, size_t columns) {
  size_t lane = lanes.begin;
  for (; !partly && lane + 4 <= lanes.end; lane += 4) {
    AddFourLanes(v, key, real, width, e + lane, alpha + lane,
                 o + lane * columns, columns);
  }
  for (; lane < lanes.end; ++lane) {
    float* sums = o + lane * columns;
    for (size_t c = 0; c < width; ++c) sums[c] *= alpha[lane];
    AddSeen(v, panel, lane, j, key, real, width, e, sums);
  }
}

// The heads of one task and how their queries lie in panels. Several key/value
// heads only where one panel holds them all.
struct DecodeTask {
  int64_t sequence = 0;
  std::span<const int32_t> heads;
  int64_t partial = 0;  // of its first head
  size_t plan = 0;      // which of the plans
};

// Queries of heads [begin, end) of a task.
struct PanelPlan {
  PanelQueries queries;
  size_t begin = 0;
};

std::pmr::vector<PanelPlan> PlanPanels(const ForwardCall& call,
                                       const Sequence& sequence, size_t heads) {
  std::pmr::vector<PanelPlan> plans(call.memory());
  if (sequence.queries == 0) return plans;
  constexpr int64_t kColumns = kTileColumns;
  const int64_t count = std::min(sequence.queries, kColumns);
  const bool alike = call.problem.bias == AttentionBias::kNone;
  const size_t together = alike ? kColumns / count : 1;
  for (int64_t first = 0; first < sequence.queries; first += count) {
    const int64_t some = std::min(count, sequence.queries - first);
    for (size_t h = 0; h < heads; h += together) {
      const size_t here = std::min(together, heads - h);
      plans.push_back({{first, some, static_cast<int64_t>(here)}, h});
    }
  }
  return plans;
}

// Sizes and memory of one worker.
struct Work {
  size_t dim, columns;  // columns: values, then features
  Panel* panels;        // [count]
  float* q;             // [count, kTileColumns, dim]
  float* o;             // [count, kTileColumns, columns]
  TileMemory tile;
  float* histogram;  // [kHistogramBuckets, kTileColumns]
  size_t bytes = 0;

  // memory: `bytes` bytes, or null to learn how many.
  Work(const ForwardCall& call, size_t count, char* memory)
      : dim(call.head_dim), columns(call.value_dim + call.features) {
    const auto take = [&](size_t wanted) -> void* {
      char* at = memory == nullptr ? nullptr : memory + bytes;
      bytes += (wanted + 63) / 64 * 64;
      return at;
    };
    const auto floats = [&](size_t n) {
      return static_cast<float*>(take(n * sizeof(float)));
    };
    panels = static_cast<Panel*>(take(count * sizeof(Panel)));
    q = floats(count * kTileColumns * dim);
    o = floats(count * kTileColumns * columns);
    tile.s = floats(kTileKeys * kTileColumns);
    tile.partial = floats(kTileKeys * kTileColumns);
    histogram = floats(kHistogramBuckets * kTileColumns);
  }
};

// A panel's queries, scaled, and its empty state.
void StartPanel(const ForwardCall& call, const ScoreRule& rule,
                const DecodeTask& task, const PanelPlan& plan, Panel& panel,
                float* q) {
  const Sequence& s = rule.sequence;
  ClearPanel(call, rule, plan.queries, panel);
  for (int64_t h = 0; h < plan.queries.heads; ++h) {
    const int32_t head = task.heads[plan.begin + h];
    for (int64_t i = 0; i < plan.queries.count; ++i, q += call.head_dim) {
      const float* from = At(call.args.q, s.batch,
                             s.query_begin + plan.queries.first + i, head);
      for (int64_t c = 0; c < call.head_dim; ++c) q[c] = from[c] * rule.factor;
    }
  }
}

// What the lanes of a key/value head read: rows of their sequence from its
// first key on.
struct Sources {
  LaneRange lanes;
  Rows keys, values, features;
};
Sources SourcesOf(const ForwardCall& call, const Sequence& s, int64_t kv_head,
                  LaneRange lanes) {
  const AttentionArgs& args = call.args;
  Sources from;
  from.lanes = lanes;
  from.keys = {At(args.k, s.batch, s.key_begin, kv_head), args.k.stride[1]};
  from.values = {At(args.v, s.batch, s.key_begin, kv_head), args.v.stride[1]};
  if (call.features > 0) {
    const ConstTensorView& f = call.observation->key_features;
    from.features = {
        f.Raw<float>() + s.batch * f.stride[0] + s.key_begin * f.stride[1],
        f.stride[1]};
  }
  return from;
}

// The key/value heads of a panel, in the order of its lanes: one, but for
// panels that hold a whole task.
struct PanelSources {
  Sources of[kTileColumns];
  size_t count = 0;

  PanelSources(const ForwardCall& call, const DecodeTask& task,
               const PanelPlan& plan) {
    const int64_t share = call.problem.heads / call.problem.kv_heads;
    const Sequence& sequence = call.sequences[task.sequence];
    const auto each = static_cast<size_t>(plan.queries.count);
    const auto heads = static_cast<size_t>(plan.queries.heads);
    for (size_t h = 0; h < heads;) {
      const int64_t kv_head = task.heads[plan.begin + h] / share;
      const size_t begin = h;
      while (h < heads && task.heads[plan.begin + h] / share == kv_head) ++h;
      of[count++] =
          SourcesOf(call, sequence, kv_head, {begin * each, h * each});
    }
  }
  std::span<const Sources> all() const { return {of, count}; }
};

// One panel takes one tile.
template <WalkLevel kLevel>
void VisitTile(const ForwardCall& call, const ScoreRule& rule,
               std::span<const Sources> sources, const KeyTile& tile,
               bool wants_histogram, Panel& panel, const float* q, float* o,
               const Work& work) {
  const size_t keys = panel.KeysOfTile(tile.j);
  if (keys == 0) return;
  const int64_t real = std::min<int64_t>(keys, rule.sequence.keys - tile.j);
  float* s = work.tile.s;
  // Unused lanes and keys past the end only have to be numbers.
  std::fill_n(s, keys * kTileColumns, 0.0f);
  for (const Sources& from : sources) {
    const auto [begin, end] = from.lanes;
    ScoreLanes(from.keys, tile.j, real, q + begin * work.dim, work.dim,
               end - begin, s + begin);
  }
  const bool masked = !panel.AllSeeAll(tile.j, keys);
  HWY_ALIGN float alpha[kTileColumns];
  StoreRow(SoftmaxTile<kLevel>(call, rule, tile, wants_histogram, keys, masked,
                               panel, work.tile),
           alpha);
  const bool partly = !panel.AllSeeAll(tile.j, real);
  for (const Sources& from : sources) {
    AddLanes(from.values, panel, from.lanes, tile.j, tile.j, real, partly,
             call.value_dim, s, alpha, o, work.columns);
    if (call.features == 0) continue;
    AddLanes(from.features, panel, from.lanes, tile.j, tile.j, real, partly,
             call.features, s, alpha, o + call.value_dim, work.columns);
  }
}

template <WalkLevel kLevel>
void RunTask(const ForwardCall& call, const DecodeTask& task,
             std::span<const PanelPlan> plans, std::span<double> partials,
             const Work& work) {
  const Sequence& sequence = call.sequences[task.sequence];
  const size_t partial_size = partials.size() / task.heads.size();
  // On the stack but for large groups: small calls are made of such tasks.
  alignas(std::max_align_t) std::byte memory[2048];
  std::pmr::monotonic_buffer_resource there(memory, sizeof(memory));
  std::pmr::vector<ResultWriter> results(&there);
  std::pmr::vector<ScoreRule> rules(&there);
  results.reserve(task.heads.size());
  rules.reserve(task.heads.size());
  for (size_t h = 0; h < task.heads.size(); ++h) {
    results.emplace_back(call, sequence, task.heads[h],
                         partials.subspan(h * partial_size, partial_size));
    rules.push_back(
        NarrowRuleOf(call.problem, call.args, sequence, task.heads[h]));
  }
  const size_t q_floats = kTileColumns * work.dim;
  const size_t o_floats = kTileColumns * work.columns;
  for (size_t p = 0; p < plans.size(); ++p) {
    StartPanel(call, rules[plans[p].begin], task, plans[p], work.panels[p],
               work.q + p * q_floats);
  }
  std::fill_n(work.o, plans.size() * o_floats, 0.0f);
  HWY_ALIGN uint8_t skip[kTileKeys];
  ForTilesSeen({work.panels, plans.size()}, sequence.keys, [&](int64_t t) {
    const KeyTile tile(call, sequence, t, skip);
    for (size_t p = 0; p < plans.size(); ++p) {
      const PanelSources from(call, task, plans[p]);
      VisitTile<kLevel>(call, rules[plans[p].begin], from.all(), tile,
                        results[0].wants_histogram(), work.panels[p],
                        work.q + p * q_floats, work.o + p * o_floats, work);
    }
  });
  for (size_t p = 0; p < plans.size(); ++p) {
    const PanelQueries& queries = plans[p].queries;
    const LaneOutputs outputs = {work.o + p * o_floats, work.columns,
                                 static_cast<size_t>(call.value_dim)};
    for (int64_t h = 0; h < queries.heads; ++h) {
      FinishLanes(call, results[plans[p].begin + h], work.panels[p],
                  h * queries.count, (h + 1) * queries.count, outputs,
                  work.histogram);
    }
  }
  for (ResultWriter& writer : results) writer.ClearPadding();
}

void RunTask(const ForwardCall& call, const DecodeTask& task,
             std::span<const PanelPlan> plans, std::span<double> partials,
             const Work& work) {
  switch (call.walk) {
    case WalkLevel::kNone:
      return RunTask<WalkLevel::kNone>(call, task, plans, partials, work);
    case WalkLevel::kCore:
      return RunTask<WalkLevel::kCore>(call, task, plans, partials, work);
    case WalkLevel::kKept:
    case WalkLevel::kFull:
      return RunTask<WalkLevel::kFull>(call, task, plans, partials, work);
  }
}

// Multiplications of so many heads of the longest sequences.
int64_t ProductsOf(const ForwardCall& call, int64_t heads) {
  const AttentionProblem& p = call.problem;
  if (p.key_len >= ThreadPool::kAlone) return ThreadPool::kAlone;
  return heads * p.query_len * p.key_len * (call.head_dim + call.value_dim);
}

// The same, and what a task costs however small it is.
int64_t CostOf(const ForwardCall& call, size_t tasks, int64_t heads) {
  return static_cast<int64_t>(tasks) * 4096 + ProductsOf(call, heads);
}

// How many of the active heads from `a` on are one task: those that share a
// key/value head, and in small calls, which one thread runs, as many more as
// fit into its panel, whose softmax costs the same however many lanes are in
// use. A bias differs between heads, which then have panels of their own.
size_t HeadsOfTask(const ForwardCall& call, const Sequence& sequence,
                   std::span<const int32_t> active, size_t a) {
  const int64_t share = call.problem.heads / call.problem.kv_heads;
  const auto end_of_group = [&](size_t h) {
    const int64_t kv_head = active[h] / share;
    while (h < active.size() && active[h] / share == kv_head) ++h;
    return h;
  };
  size_t end = end_of_group(a);
  if (sequence.queries == 0 || call.problem.bias != AttentionBias::kNone ||
      ProductsOf(call, std::ssize(active)) >= ThreadPool::kAlone) {
    return end - a;
  }
  const size_t room = kTileColumns / static_cast<size_t>(sequence.queries);
  while (end < active.size() && end_of_group(end) - a <= room) {
    end = end_of_group(end);
  }
  return end - a;
}

}  // namespace

void RunDecode(Context& context, const ForwardCall& call) {
  const std::pmr::vector<int32_t> active =
      ActiveHeads(call.problem, call.args, call.memory());
  std::pmr::vector<DecodeTask> tasks(call.memory());
  tasks.reserve(call.sequences.size() * active.size());
  // Tasks of one sequence with as many heads share a plan.
  std::pmr::vector<std::pmr::vector<PanelPlan>> plans(call.memory());
  size_t panels = 0;
  int64_t heads = 0;
  for (size_t b = 0; b < call.sequences.size(); ++b) {
    for (size_t a = 0; a < active.size();) {
      const size_t end = a + HeadsOfTask(call, call.sequences[b], active, a);
      const bool alike = a > 0 && tasks.back().heads.size() == end - a;
      if (!alike) {
        plans.push_back(PlanPanels(call, call.sequences[b], end - a));
        panels = std::max(panels, plans.back().size());
      }
      tasks.push_back({static_cast<int64_t>(b),
                       std::span(active).subspan(a, end - a), heads,
                       plans.size() - 1});
      heads += static_cast<int64_t>(end - a);
      a = end;
    }
  }
  const size_t work_bytes = Work(call, panels, nullptr).bytes;
  Workspace& workspace = context.workspace();
  Scratch work_memory = workspace.Take(context.threads() * work_bytes);
  const size_t partial_size = WantsSums(call) ? PartialSize(call) : 0;
  Scratch partial_memory = workspace.TakeArray<double>(heads * partial_size);
  double* sums = partial_memory.Raw<double>();
  context.pool().ParallelFor(
      tasks.size(),
      [&](int64_t index, int worker) {
        const DecodeTask& task = tasks[index];
        const Work work(call, panels,
                        work_memory.Raw<char>() + worker * work_bytes);
        RunTask(call, task, plans[task.plan],
                {sums + task.partial * partial_size,
                 task.heads.size() * partial_size},
                work);
      },
      CostOf(call, tasks.size(), heads));
  for (const DecodeTask& task : tasks) {
    if (partial_size == 0) break;
    for (size_t h = 0; h < task.heads.size(); ++h) {
      const int64_t at = task.partial + static_cast<int64_t>(h);
      WriteSums(call, {task.sequence, task.heads[h], at, at + 1},
                {sums + at * partial_size, partial_size});
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {

HWY_EXPORT(RunDecode);

void DecodeF32(Context& context, const ForwardCall& call) {
  HWY_DYNAMIC_DISPATCH(RunDecode)(context, call);
}

}  // namespace headwise
#endif  // HWY_ONCE
