// AttentionLayer: project, normalise and rotate, attend, mix. Backwards:
// attention_backward.cc. Door: attention_layer.h.
#include "headwise/nn/attention_layer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/nn/attention_by_head.h"
#include "headwise/nn/attention_run.h"
#include "headwise/nn/attention_views.h"
#include "headwise/nn/cache_split.h"
#include "headwise/ops/attention/padding.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/gate/gate.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// For `fresh` rows more of each sequence.
void RequireRoom(const CacheView& cache, int64_t fresh) {
  for (const int32_t held : cache.lengths) {
    if (held + fresh <= cache.k.shape[1]) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {"attention",
                 "at most " + std::to_string(cache.k.shape[1]) +
                     " positions in the cache",
                 std::to_string(held + fresh),
                 "make the cache with a larger capacity"});
  }
}

// Rows that the cache holds, where the context's device reads them; `copy`
// keeps what had to be copied.
ConstTensorView HeldBy(Context& context, const CacheView& cache, Temp& copy) {
  return cache.held ? cache.held
                    : OnDevice(context, ViewOf(cache.lengths), copy);
}

}  // namespace

void AppendToCache(Context& context, const TensorView& k, const TensorView& v,
                   const CacheView& cache) {
  const int64_t sequences = static_cast<int64_t>(cache.lengths.size());
  RequireRoom(cache, k.shape[1] / sequences);
  Temp copy;
  AppendRows(context,
             {PerSequence(k, sequences), Columns(cache.k, 0, k.shape[3])},
             {PerSequence(v, sequences), Columns(cache.v, 0, v.shape[3])},
             HeldBy(context, cache, copy));
}

AttentionLayer::AttentionLayer(AttentionLayerConfig config,
                               AttentionWeights weights, AttentionSite site)
    : config_(config), weights_(std::move(weights)), site_(std::move(site)) {
  // Every layer can drop heads in training.
  if (weights_.gates.config().kind == GateKind::kOpen) {
    weights_.gates = HeadGates({}, {}, config_.heads);
  }
  RequireSense();
  by_head_ = AttentionByHead::Of(config_, weights_);
}

std::vector<const Linear*> AttentionLayer::inputs() const {
  if (cross()) return {&weights_.of_x, &weights_.of_memory};
  if (weights_.latent) return weights_.latent.linears();
  return {&weights_.of_x};
}

std::vector<const Linear*> AttentionLayer::inputs_of_x() const {
  if (!weights_.latent) return inputs();
  const LatentWeights& w = weights_.latent.weights();
  return {&w.query_down, &w.down, &w.shared_keys};
}

void AttentionLayer::ProjectMemory(Context& context, ConstTensorView memory,
                                   Projections& p) const {
  p.cross_memory =
      Temp(context, memory.type, {memory.shape[0], weights_.of_memory.out()});
  const TensorView kv = p.cross_memory.view();
  weights_.of_memory.Forward(context, memory, kv);
  FindKeys(context, kv, 0, p);
}

// Keys and values among projected columns, from `begin` on.
void AttentionLayer::FindKeys(Context& context, const TensorView& rows,
                              int64_t begin, Projections& p) const {
  const int64_t groups = config_.kv_heads, keys = key_columns();
  p.k = HeadsOf(rows, begin, groups, config_.head_dim);
  if (!config_.keys_are_values) {
    p.v = HeadsOf(rows, begin + keys, groups, value_dim());
    return;
  }
  p.values = CopyOf(context, Columns(rows, begin, begin + keys));
  p.v = HeadsOf(p.values.view(), 0, groups, value_dim());
}

// Keys and values as an earlier layer left them, of its cache too.
void AttentionLayer::UseShared(const AttentionInput& input,
                               Projections& p) const {
  if (input.shared != nullptr) p.shared = input.shared->Find(config_.keys_of);
  if (p.shared == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {site_.name,
                 "a run that begins at or before layer " +
                     std::to_string(config_.keys_of) +
                     ", whose keys and values this layer reads",
                 "one that begins behind it", ""});
  }
  p.k = p.shared->k.view();
  p.v = p.shared->v.view();
  p.cached = true;
}

void AttentionLayer::FillCache(Context& context, ConstTensorView memory,
                               const CacheView& cache) const {
  if (config_.heads == 0) return;
  Projections p;
  ProjectMemory(context, memory, p);
  if (weights_.key_norm) {
    weights_.key_norm.Forward(context, Tokens(p.k), nullptr);
  }
  if (weights_.value_norm) {
    weights_.value_norm.ForwardHeads(context, Tokens(p.v));
  }
  AppendToCache(context, p.k, p.v, cache);
}

AttentionLayer::Projections AttentionLayer::Project(
    Context& context, const AttentionInput& input) const {
  Projections p;
  const int64_t dim = config_.head_dim;
  p.memory =
      Temp(context, input.x.type, {input.x.shape[0], projected_columns()});
  const TensorView rows = p.memory.view();
  if (weights_.latent) {
    weights_.latent.Forward(
        context, input.x, rows,
        input.saved != nullptr ? &input.saved->latent : nullptr);
  } else {
    weights_.of_x.Forward(context, input.x, rows);
  }
  p.q = HeadsOf(rows, 0, config_.heads, dim);
  if (!has_own_keys()) {
    UseShared(input, p);
  } else if (!cross()) {
    FindKeys(context, rows, config_.heads * dim, p);
  } else if (input.cache == nullptr) {
    ProjectMemory(context, input.memory, p);
  }
  return p;
}

void AttentionLayer::Rotate(Context& context, const AttentionInput& input,
                            Projections& p) const {
  if (weights_.query_norm) {
    AttentionSaved* saved = input.saved;
    if (saved != nullptr) {
      saved->unnormed = CopyOf(context, p.memory.view());
      if (p.cross_memory) {
        saved->memory_unnormed = CopyOf(context, p.cross_memory.view());
      }
    }
    weights_.query_norm.Forward(context, Tokens(p.q),
                                saved ? &saved->query_norm : nullptr);
    if (p.k && has_own_keys()) {
      weights_.key_norm.Forward(context, Tokens(p.k),
                                saved ? &saved->key_norm : nullptr);
    }
  }
  if (weights_.value_norm && p.v && has_own_keys()) {
    NormValues(context, input, p);
  }
  if (weights_.rope == nullptr) return;
  // Keys lie behind the queries of each row: one call turns both.
  const int64_t heads = config_.heads + (has_own_keys() ? config_.kv_heads : 0);
  const TensorView x =
      Tokens(HeadsOf(p.memory.view(), 0, heads, config_.head_dim));
  const CacheView* cache = input.cache;
  if (cache == nullptr || cache->split != nullptr || cross() ||
      !has_own_keys() || weights_.latent) {
    return Turn(context, input, x, RopeDirection::kForward);
  }
  const int64_t sequences = static_cast<int64_t>(cache->lengths.size());
  RequireRoom(*cache, x.shape[0] / sequences);
  Temp copy;
  RopeAndAppend(context, weights_.rope->Problem(RopeDirection::kForward),
                Turned(context, input, x),
                {.keys = Columns(cache->k, 0, config_.head_dim),
                 .values = {PerSequence(p.v, sequences),
                            Columns(cache->v, 0, value_dim())},
                 .held = HeldBy(context, *cache, copy)});
  p.cached = true;
}

RopeArgs AttentionLayer::Turned(Context& context, const AttentionInput& input,
                                TensorView x) const {
  return {.frequencies = weights_.rope->frequencies(context, *input.batch),
          .positions = input.batch->PositionsOn(context),
          .x = x};
}

// x [T, heads, D] by the rotary frequencies.
void AttentionLayer::Turn(Context& context, const AttentionInput& input,
                          TensorView x, RopeDirection direction) const {
  Rope(context, weights_.rope->Problem(direction),
       Turned(context, input, Columns(x, first_turned(), config_.head_dim)));
}

void AttentionLayer::NormValues(Context& context, const AttentionInput& input,
                                const Projections& p) const {
  const TensorView values = Tokens(p.v);
  AttentionSaved* saved = input.saved;
  if (saved != nullptr) {
    saved->unnormed_values = Temp(
        context, values.type, {values.shape[0], values.shape[1] * value_dim()});
    Copy(context, values,
         Tokens(HeadsOf(saved->unnormed_values.view(), 0, config_.kv_heads,
                        value_dim())));
  }
  weights_.value_norm.ForwardHeads(context, values,
                                   saved ? &saved->value_norm : nullptr);
}

AttentionProblem AttentionLayer::ProblemOf(const Context& context,
                                           DType type) const {
  AttentionProblem problem;
  problem.heads = config_.heads;
  problem.kv_heads = config_.kv_heads;
  problem.head_dim = config_.head_dim;
  problem.value_dim = value_dim();
  problem.type = type;
  problem.device = context.device();
  problem.mask = config_.mask;
  problem.scale = config_.scale;
  problem.soft_cap = config_.soft_cap;
  if (weights_.alibi) problem.bias = AttentionBias::kAlibi;
  return problem;
}

AttentionProblem AttentionLayer::ProblemOf(const Context& context,
                                           const AttentionInput& input) const {
  AttentionProblem problem = ProblemOf(context, input.x.type);
  problem.batch = input.batch->sequences();
  problem.query_len = input.batch->longest();
  if (input.mask != nullptr) problem.mask = *input.mask;
  return problem;
}

HeadWidths AttentionLayer::WidthsOf(const Context& context, AttentionPass pass,
                                    const AttentionProblem& problem) const {
  return config_.head_multiple > 0 ? RoundedUp(problem, config_.head_multiple)
                                   : BestWidths(context, pass, problem);
}

HeadWidths AttentionLayer::CacheWidths(const Context& context,
                                       DType type) const {
  AttentionProblem problem = ProblemOf(context, type);
  problem.query_len = problem.key_len = 1;
  return WidthsOf(context, AttentionPass::kForward, problem);
}

// New keys and values join the cache, which is attended to.
void AttentionLayer::UseCache(Context& context, const AttentionInput& input,
                              const Projections& p, TensorView heads,
                              Call& call) const {
  const CacheView& cache = *input.cache;
  const int64_t sequences = call.problem.batch;
  if (p.k && !p.cached) AppendToCache(context, p.k, p.v, cache);
  const int64_t fresh = p.k ? p.k.shape[1] / sequences : 0;
  const ConstTensorView& there = p.k ? cache.filled : cache.held;
  if (there) {
    call.args.key_lengths = there;
  } else {
    for (const int32_t held : cache.lengths) {
      call.key_lengths.push_back(held + static_cast<int32_t>(fresh));
    }
    call.args.key_lengths = call.Numbers(context, call.key_lengths);
  }
  call.problem.key_len = cache.k.shape[1];
  call.args.q = PerSequence(p.q, sequences);
  call.args.k = Columns(cache.k, 0, config_.head_dim);
  call.args.v = Columns(cache.v, 0, value_dim());
  call.cached_k = cache.k;
  call.cached_v = cache.v;
  call.args.out = PerSequence(heads, sequences);
  if (!cross()) {
    call.args.query_offsets =
        cache.held ? cache.held : call.Numbers(context, cache.lengths);
  }
}

// Whole sequences: end to end, or side by side where they are equally long.
void AttentionLayer::UseSequences(Context& context, const AttentionInput& input,
                                  const Projections& p, TensorView heads,
                                  Call& call) const {
  const SequenceBatch& keys = cross() ? *input.memory_batch : *input.batch;
  call.problem.key_len = keys.longest();
  if (input.side_by_side) {
    const int64_t sequences = call.problem.batch;
    call.args.q = PerSequence(p.q, sequences);
    call.args.k = PerSequence(p.k, sequences);
    call.args.v = PerSequence(p.v, sequences);
    call.args.out = PerSequence(heads, sequences);
    return;
  }
  call.problem.packed = true;
  call.args.q = p.q;
  call.args.k = p.k;
  call.args.v = p.v;
  call.args.out = heads;
  call.args.query_starts = input.batch->StartsOn(context);
  call.args.key_starts = keys.StartsOn(context);
}

void AttentionLayer::Attend(Context& context, const AttentionInput& input,
                            const Projections& p, TensorView heads,
                            Call& call) const {
  if (input.cache != nullptr && input.cache->split != nullptr) {
    return AttendSplit(context, input, p, heads, call);
  }
  call.problem = ProblemOf(context, input);
  input.cache != nullptr ? UseCache(context, input, p, heads, call)
                         : UseSequences(context, input, p, heads, call);
  AttentionProblem& problem = call.problem;
  AttentionArgs& args = call.args;
  AttentionSaved* saved = input.saved;
  if (!input.hooks.empty() || saved != nullptr) {
    call.lse = Temp(context, DType::kF32,
                    {args.q.shape[0], config_.heads, args.q.shape[1]});
    args.lse = call.lse.view();
  }
  args.sink_logits = weights_.sinks.view(context);
  args.alibi_slopes = weights_.alibi.view(context);
  weights_.spans.Forward(context, input.gate_draw, problem, args, call.spans);
  if (weights_.bias != nullptr) {
    weights_.bias->Forward(context, problem, args, call.numbers.emplace_back());
  }
  Choose(context, input, call);
  HoldReplacement(input, call);
  // Heads that no call writes (inactive ones) count as zero.
  const bool all = args.active_heads.is_all();
  if (!all) Fill(context, 0, heads);
  if (saved != nullptr && args.gates && !args.ungated) {
    const int64_t width = config_.heads * value_dim();
    saved->ungated = Temp(context, problem.type, {input.x.shape[0], width});
    if (!all) Fill(context, 0, saved->ungated.view());
    args.ungated = AsRun(
        problem, HeadsOf(saved->ungated.view(), 0, config_.heads, value_dim()));
  }
  AttentionForwardPadded(
      context, problem, args,
      {.widths = WidthsOf(context, AttentionPass::kForward, problem),
       .k = call.cached_k,
       .v = call.cached_v});
}

// Hooks see as the output what W_O reads.
void AttentionLayer::Show(const AttentionInput& input, const Call& call,
                          const TensorView& heads) const {
  const bool split = input.cache != nullptr && input.cache->split != nullptr;
  if (input.hooks.empty() || split) return;
  AttentionArgs args = call.args;
  args.observation = nullptr;
  if (gates_channels()) args.out = AsRun(call.problem, heads);
  input.hooks.AfterAttention(site_, call.problem, args);
}

// Queries, keys and values, before they are attended with. Those that a cache
// holds already are not changed any more.
void AttentionLayer::Offer(const AttentionInput& input,
                           const Projections& p) const {
  if (!input.hooks.WantsSome()) return;
  input.hooks.Change(site_.name + ".query", Tokens(p.q));
  if (!p.k) return;
  const TensorView k = Tokens(p.k), v = Tokens(p.v);
  const std::string key = site_.name + ".key", value = site_.name + ".value";
  if (input.cache != nullptr) {
    input.hooks.Take(key, k);
    input.hooks.Take(value, v);
  } else {
    input.hooks.Change(key, k);
    input.hooks.Change(value, v);
  }
}

// Keeps the part of the operator's call that its backward reads.
void AttentionLayer::Keep(Call& call, AttentionSaved& saved) {
  saved.problem = call.problem;
  saved.args = call.args;
  saved.args.observation = nullptr;
  saved.lse = std::move(call.lse);
  saved.gates = std::move(call.gates);
  saved.spans = std::move(call.spans);
  saved.output_gate = std::move(call.output_gate);
  saved.numbers = std::move(call.numbers);
}

// Heads whose caches keep different parts of the past, part by part.
void AttentionLayer::AttendSplit(Context& context, const AttentionInput& input,
                                 const Projections& p, TensorView heads,
                                 Call& call) const {
  if (const char* bias = BiasName()) {
    throw Error(ErrorCode::kUnsupported,
                {site_.name, "scores of keys alone for a cache by role", bias,
                 "run without a cache policy"});
  }
  if (!has_own_keys() || config_.shares_keys) {
    throw Error(ErrorCode::kUnsupported,
                {site_.name, "a layer's own keys for a cache by role",
                 Special(), "run without a cache policy"});
  }
  call.problem = ProblemOf(context, input);
  const int64_t sequences = call.problem.batch;
  call.args.q = PerSequence(p.q, sequences);
  call.args.out = PerSequence(heads, sequences);
  call.args.sink_logits = weights_.sinks.view(context);
  Choose(context, input, call);
  HoldReplacement(input, call);
  if (call.args.observation != nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {site_.name, "nothing observed where caches differ by role",
                 "an observation", "run without a cache policy"});
  }
  // Heads that no call writes count as zero.
  if (!call.args.active_heads.is_all()) Fill(context, 0, heads);
  headwise::AttendSplit(context, call.problem, call.args,
                        {.k = PerSequence(p.k, sequences),
                         .v = PerSequence(p.v, sequences),
                         .held = input.cache->lengths,
                         .split = input.cache->split,
                         .head_multiple = config_.head_multiple});
}

// heads [T, H·E] into y.
void AttentionLayer::Mix(Context& context, ConstTensorView heads, TensorView y,
                         Store store) const {
  if (weights_.output) {
    weights_.output.Forward(context, heads, y, store);
  } else if (store == Store::kOverwrite) {
    Copy(context, heads, y);
  } else {
    AddTo(context, heads, y);
  }
}

void AttentionLayer::Forward(Context& context, const AttentionInput& input,
                             TensorView y, Store store) const {
  if (config_.heads == 0) {  // all of them pruned: what is left is the bias
    return weights_.output.Forward(context, NoHeads(context, input.x.shape[0]),
                                   y, store);
  }
  if (by_head_ != nullptr && by_head_->Takes(context, input)) {
    return by_head_->Forward(context, input, y, store);
  }
  Projections p = Project(context, input);
  const int64_t rows = input.x.shape[0];
  weights_.output.Expect(context, rows);
  Rotate(context, input, p);
  Temp memory(context, input.x.type, {rows, config_.heads * value_dim()});
  const TensorView heads =
      HeadsOf(memory.view(), 0, config_.heads, value_dim());
  Call call;
  if (config_.shares_keys && input.shared != nullptr) {
    p.shared = input.shared->Put(context, site_.layer, p.k, p.v);
  }
  Offer(input, p);
  Attend(context, input, p, heads, call);
  Temp ungated;  // of channels
  if (gates_channels()) {
    ungated = std::exchange(memory,
                            GateChannels(context, input, memory.view(), call));
  }
  const TensorView read = HeadsOf(memory.view(), 0, config_.heads, value_dim());
  Show(input, call, read);
  if (input.hooks.WantsSome()) {
    input.hooks.Change(site_.name + ".head_output", Tokens(read));
  }
  Mix(context, memory.view(), y, store);
  if (input.saved != nullptr) {
    input.saved->projected = std::move(p.memory);
    input.saved->memory_projected = std::move(p.cross_memory);
    input.saved->values = std::move(p.values);
    input.saved->heads = std::move(memory);
    input.saved->shared = std::move(p.shared);
    Keep(call, *input.saved);
    input.saved->output_gate.heads = std::move(ungated);
  } else if (input.hooks.KeepsCalls()) {
    input.hooks.KeepCall(std::make_shared<std::pair<Projections, Call>>(
        std::move(p), std::move(call)));
  }
}

}  // namespace headwise
