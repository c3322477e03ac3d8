// Attention over a cache that heads keep different parts of. Door:
// cache_split.h.
#include "headwise/nn/cache_split.h"

#include <algorithm>
#include <vector>

#include "headwise/ops/attention/padding.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

// One part's call of the operator, and the memory that it points to.
struct PartCall {
  AttentionProblem problem;
  AttentionArgs args;
  std::vector<int32_t> active;
  TensorView k, v;  // new rows, [B, M, groups, ·]
  int64_t head_multiple = 0;
};

// The part's heads of a call for all heads; false: none of them is active.
bool Narrow(const AttentionProblem& problem, const AttentionArgs& args,
            const SplitKeys& fresh, const CachePart& part, PartCall& call) {
  const int64_t size = problem.heads / problem.kv_heads;
  const int64_t first = part.first_group * size;
  const int64_t last = first + part.groups * size;
  call.problem = problem;
  call.problem.heads = last - first;
  call.problem.kv_heads = part.groups;
  call.args.q = Slice(args.q, 2, first, last);
  call.args.out = Slice(args.out, 2, first, last);
  call.args.gates = Slice(args.gates, 2, first, last);
  call.args.replacement = Slice(args.replacement, 2, first, last);
  call.args.sink_logits = Slice(args.sink_logits, 0, first, last);
  call.head_multiple = fresh.head_multiple;
  const int64_t end = part.first_group + part.groups;
  call.k = Slice(fresh.k, 2, part.first_group, end);
  call.v = Slice(fresh.v, 2, part.first_group, end);
  if (args.active_heads.is_all()) return true;
  for (const int32_t head : args.active_heads.heads()) {
    if (head >= first && head < last) {
      call.active.push_back(head - static_cast<int32_t>(first));
    }
  }
  call.args.active_heads = call.active;
  return !call.active.empty();
}

// Queries stand behind the `held` rows of k and v, which the new ones joined.
void Attend(Context& context, ConstTensorView k, ConstTensorView v,
            std::span<const int32_t> held, PartCall& call) {
  std::vector<int32_t> lengths(held.begin(), held.end());
  for (int32_t& length : lengths) {
    length += static_cast<int32_t>(call.k.shape[1]);
  }
  Temp lengths_there, held_there;
  call.problem.key_len = k.shape[1];
  call.args.k = Columns(k, 0, call.k.shape[3]);
  call.args.v = Columns(v, 0, call.v.shape[3]);
  call.args.key_lengths = OnDevice(context, ViewOf(lengths), lengths_there);
  call.args.query_offsets = OnDevice(context, ViewOf(held), held_there);
  const HeadWidths widths =
      call.head_multiple > 0
          ? RoundedUp(call.problem, call.head_multiple)
          : BestWidths(context, AttentionPass::kForward, call.problem);
  AttentionForwardPadded(context, call.problem, call.args, {widths, k, v});
}

void Append(Context& context, std::span<const int32_t> held,
            const PartCall& call, const CachePart& part) {
  Temp copy;
  const ConstTensorView there = OnDevice(context, ViewOf(held), copy);
  AppendRows(context, call.k, there, Columns(part.k, 0, call.k.shape[3]));
  AppendRows(context, call.v, there, Columns(part.v, 0, call.v.shape[3]));
}

// The rows a part holds with the new ones behind them.
Temp Joined(Context& context, int64_t held, const TensorView& part,
            const TensorView& fresh) {
  const int64_t rows = held + fresh.shape[1];
  Temp joined(context, part.type,
              {part.shape[0], rows, part.shape[2], part.shape[3]});
  Copy(context, Slice(part, 1, 0, held), Slice(joined.view(), 1, 0, held));
  const TensorView behind = Slice(joined.view(), 1, held, rows);
  if (part.shape[3] > fresh.shape[3]) Fill(context, 0, behind);
  Copy(context, fresh, Columns(behind, 0, fresh.shape[3]));
  return joined;
}

// The rows that are kept of joined ones: their beginning and their end.
void Keep(Context& context, const CacheSplit& split, const TensorView& joined,
          const TensorView& part) {
  const int64_t rows = joined.shape[1], sinks = split.sinks;
  const int64_t end = sinks + split.window - 1;
  Copy(context, Slice(joined, 1, 0, sinks), Slice(part, 1, 0, sinks));
  if (end == sinks) return;
  Copy(context, Slice(joined, 1, rows - (end - sinks), rows),
       Slice(part, 1, sinks, end));
}

// The rows between sinks and window are gone, and those behind them have moved
// up as far as the queries have, so that the mask's distances are what they
// were. In a layer that has a window of its own, sinks are not seen beyond it.
void AttendWindow(Context& context, const SplitKeys& fresh,
                  const CachePart& part, bool active, PartCall& call) {
  const CacheSplit& split = *fresh.split;
  AttentionMask& mask = call.problem.mask;
  if (mask.before == kUnlimited) mask.sinks = split.sinks;
  mask.before = std::min(mask.before, split.window - 1);
  const std::vector<int32_t> held(fresh.held.size(),
                                  static_cast<int32_t>(split.held));
  if (split.held + call.k.shape[1] <= part.k.shape[1]) {
    Append(context, held, call, part);
    if (active) Attend(context, part.k, part.v, held, call);
    return;
  }
  const Temp k = Joined(context, split.held, part.k, call.k);
  const Temp v = Joined(context, split.held, part.v, call.v);
  if (active) Attend(context, k.view(), v.view(), held, call);
  Keep(context, split, k.view(), part.k);
  Keep(context, split, v.view(), part.v);
}

}  // namespace

void AttendSplit(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args, const SplitKeys& fresh) {
  for (const CachePart& part : fresh.split->parts) {
    PartCall call;
    const bool active = Narrow(problem, args, fresh, part, call);
    if (!part.whole) {
      AttendWindow(context, fresh, part, active, call);
      continue;
    }
    Append(context, fresh.held, call, part);
    if (active) Attend(context, part.k, part.v, fresh.held, call);
  }
}

}  // namespace headwise
