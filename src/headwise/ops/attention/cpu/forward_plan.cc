// Cutting a forward call into work. Door: forward_plan.h.
#include "headwise/ops/attention/cpu/forward_plan.h"

#include <algorithm>
#include <tuple>

#include "headwise/ops/attention/cpu/score_rule.h"
#include "headwise/ops/attention/cpu/views.h"

namespace headwise {
namespace {

// Packed keys and values held at one time, unless one head alone needs more.
constexpr int64_t kGroupBytes = 64 << 20;
// Whole panels at every vector width. Long blocks read keys and values less
// often, short ones leave more tasks to share where there are few queries.
constexpr int64_t kLongBlock = 192;
constexpr int64_t kShortBlock = 96;
constexpr int64_t kManyQueries = 1024;

void AddBlocks(const ForwardCall& call, int64_t packed, int64_t head,
               ForwardGroup& group, int64_t& partials) {
  const int64_t index = group.heads[packed].sequence;
  const Sequence& sequence = call.sequences[index];
  const ScoreRule rule = NarrowRuleOf(call.problem, call.args, sequence, head);
  const int64_t step =
      sequence.queries > kManyQueries ? kLongBlock : kShortBlock;
  group.sums.push_back({index, head, partials, partials});
  // A head without queries still has rows to clear.
  for (int64_t begin = 0; begin == 0 || begin < sequence.queries;
       begin += step) {
    BlockTask task;
    task.packed = packed;
    task.head = head;
    task.begin = begin;
    task.count = std::min(step, sequence.queries - begin);
    task.last = begin + step >= sequence.queries;
    task.partial = partials++;
    if (task.count > 0) {
      const KeyRange range = rule.Visible(begin + task.count / 2);
      task.work = static_cast<double>(task.count) *
                  static_cast<double>(range.sinks + range.end - range.begin);
    }
    group.tasks.push_back(task);
  }
  group.sums.back().end = partials;
}

WalkLevel WalkOf(const Observation& o) {
  if (o.statistics == Statistics::kNone) return WalkLevel::kNone;
  if (o.statistics == Statistics::kCore) return WalkLevel::kCore;
  const bool moments = o.rows.varentropy || o.rows.sum_squares || o.summed.sums;
  return moments ? WalkLevel::kFull : WalkLevel::kKept;
}

}  // namespace

ForwardCall::ForwardCall(const AttentionProblem& call_problem,
                         const AttentionArgs& call_args,
                         std::pmr::memory_resource* memory)
    : problem(call_problem),
      args(call_args),
      observation(args.observation),
      head_dim(problem.head_dim),
      value_dim(ValueDim(problem)),
      sequences(memory) {
  if (observation != nullptr) {
    statistics = observation->statistics;
    const Observation& o = *observation;
    walk = WalkOf(o);
    if (o.rows.feature_mass || o.summed.feature_mass) {
      features = o.key_features.shape[2];
    }
    if (o.rows.label_mass || o.summed.label_mass) {
      labels = o.key_labels.shape[0];
    }
  }
  sequences.reserve(static_cast<size_t>(problem.batch));
  for (int64_t b = 0; b < problem.batch; ++b) {
    sequences.push_back(SequenceOf(problem, args, b));
  }
}

std::pmr::vector<ForwardGroup> PlanForward(const ForwardCall& call,
                                           int64_t tile_bytes) {
  const int64_t share = call.problem.heads / call.problem.kv_heads;
  const std::pmr::vector<int32_t> active =
      ActiveHeads(call.problem, call.args, call.memory());
  std::pmr::vector<ForwardGroup> groups(call.memory());
  int64_t partials = 0;
  for (size_t b = 0; b < call.sequences.size(); ++b) {
    const int64_t tiles = (call.sequences[b].keys + kTileKeys - 1) / kTileKeys;
    for (size_t a = 0; a < active.size();) {
      const int64_t kv_head = active[a] / share;
      if (groups.empty() ||
          (groups.back().tiles + tiles) * tile_bytes > kGroupBytes) {
        ForwardGroup& added = groups.emplace_back(call.memory());
        added.heads.reserve(active.size());
        added.sums.reserve(active.size());
        added.tasks.reserve(active.size());
        partials = 0;
      }
      ForwardGroup& group = groups.back();
      const int64_t packed = static_cast<int64_t>(group.heads.size());
      group.heads.push_back(
          {static_cast<int64_t>(b), kv_head, group.tiles, tiles});
      group.tiles += tiles;
      for (; a < active.size() && active[a] / share == kv_head; ++a) {
        AddBlocks(call, packed, active[a], group, partials);
      }
    }
  }
  // In one order, without the memory that a stable sort would ask for.
  const auto longer = [](const BlockTask& x, const BlockTask& y) {
    if (x.work != y.work) return x.work > y.work;
    return std::tie(x.packed, x.head, x.begin) <
           std::tie(y.packed, y.head, y.begin);
  };
  for (ForwardGroup& group : groups) std::ranges::sort(group.tasks, longer);
  return groups;
}

}  // namespace headwise
