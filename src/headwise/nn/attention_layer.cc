// AttentionLayer: project, normalise and rotate, attend, mix. Backwards:
// attention_backward.cc. Door: attention_layer.h.
#include "headwise/nn/attention_layer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/nn/attention_by_head.h"
#include "headwise/nn/attention_views.h"
#include "headwise/nn/cache_split.h"
#include "headwise/ops/attention/padding.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/gate/gate.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// args has the gates f and the replacement μ of a hook; own [B, M, H] are the
// layer's gates. Makes one gate and one replacement of them, which `gates`
// owns, and keeps f there for a backward.
void Compose(Context& context, const ConstTensorView& own, GateSaved& gates,
             AttentionArgs& args) {
  const Shape shape = {own.shape[0], own.shape[1], own.shape[2]};
  gates.outer = CopyOf(context, args.gates);
  gates.product = Temp(context, DType::kF32, shape);
  if (args.replacement) {
    gates.replacement = Temp(context, DType::kF32,
                             {shape[0], shape[1], shape[2], args.out.shape[3]});
  }
  ComposeGates(context, {.own = own,
                         .outer = args.gates,
                         .replacement = args.replacement,
                         .product = gates.product.view(),
                         .share = gates.replacement.view()});
  args.gates = gates.product.view();
  if (args.replacement) args.replacement = gates.replacement.view();
}

}  // namespace

namespace {

// For `fresh` rows more of each sequence.
void RequireRoom(const CacheView& cache, int64_t fresh) {
  for (const int32_t held : cache.lengths) {
    if (held + fresh <= cache.k.shape[1]) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {"attention",
                 "at most " + std::to_string(cache.k.shape[1]) +
                     " positions in the cache",
                 std::to_string(held + fresh), ""});
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

ConstTensorView NumbersOnDevice::view(
    Context& context, const std::vector<int32_t>& values) const {
  if (context.device().is_cpu()) return ViewOf(values);
  if (from_ != values.data() || device_ != context.device()) {
    copy_ = std::make_shared<const Tensor>(ToDevice(context, ViewOf(values)));
    view_ = copy_->view();
    from_ = values.data();
    device_ = context.device();
  }
  return view_;
}

void NumbersOnDevice::Set(const std::vector<int32_t>& values,
                          const ConstTensorView& there) {
  from_ = values.data();
  device_ = there.device;
  view_ = there;
}

int64_t SequenceBatch::longest() const {
  int32_t most = 0;
  for (size_t b = 1; b < starts.size(); ++b) {
    most = std::max(most, starts[b] - starts[b - 1]);
  }
  return most;
}

int64_t SequenceBatch::CallLength() const {
  if (call_length > 0 || positions.empty()) return call_length;
  return int64_t{*std::ranges::max_element(positions)} + 1;
}

SequenceBatch MakeBatch(std::span<const int64_t> lengths) {
  SequenceBatch batch;
  batch.starts.push_back(0);
  for (const int64_t length : lengths) {
    for (int64_t i = 0; i < length; ++i) {
      batch.positions.push_back(static_cast<int32_t>(i));
    }
    batch.starts.push_back(static_cast<int32_t>(batch.positions.size()));
  }
  return batch;
}

// Buffers and views of one call.
struct AttentionLayer::Projections {
  Temp memory;
  Temp cross_memory;
  TensorView q;  // [1, T, H, D]
  TensorView k;  // [1, S, G, D]; null where a cross cache already holds them
  TensorView v;  // [1, S, G, E]
  bool cached = false;  // k and v have joined the cache
};

// One call of the operator, and the memory that it points to.
struct AttentionLayer::Call {
  AttentionProblem problem;
  AttentionArgs args;
  std::vector<int32_t> key_lengths;
  std::vector<Temp> numbers;
  GateSaved gates;
  SpanSaved spans;
  Temp lse;
  ConstTensorView cached_k, cached_v;  // of the cache, as wide as it is

  ConstTensorView Here(Context& context, const ConstTensorView& values) {
    Temp copy;
    const ConstTensorView view = OnDevice(context, values, copy);
    if (copy) numbers.push_back(std::move(copy));
    return view;
  }
  ConstTensorView Numbers(Context& context, std::span<const int32_t> values) {
    return Here(context, ViewOf(values));
  }
};

AttentionLayer::AttentionLayer(AttentionLayerConfig config,
                               AttentionWeights weights, AttentionSite site)
    : config_(config), weights_(std::move(weights)), site_(std::move(site)) {
  // Every layer can drop heads in training.
  if (weights_.gates.config().kind == GateKind::kOpen) {
    weights_.gates = HeadGates({}, {}, config_.heads);
  }
  const int64_t q = config_.heads * config_.head_dim;
  const int64_t k = config_.kv_heads * config_.head_dim;
  const int64_t v = config_.kv_heads * value_dim();
  const int64_t projected = weights_.of_x.out() + weights_.of_memory.out();
  if (projected != q + k + v) {
    throw Error(ErrorCode::kInvalidArgument,
                {site_.name,
                 std::to_string(q + k + v) + " projected columns for " +
                     std::to_string(config_.heads) + " heads and " +
                     std::to_string(config_.kv_heads) + " kv heads of " +
                     std::to_string(config_.head_dim),
                 std::to_string(projected), "config and weights disagree"});
  }
  if (weights_.output && weights_.output.in() != config_.heads * value_dim()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {site_.name,
         std::to_string(config_.heads * value_dim()) +
             " inputs of the output projection",
         std::to_string(weights_.output.in()), "config and weights disagree"});
  }
  by_head_ = AttentionByHead::Of(config_, weights_);
}

std::vector<const Linear*> AttentionLayer::inputs() const {
  if (cross()) return {&weights_.of_x, &weights_.of_memory};
  return {&weights_.of_x};
}

void AttentionLayer::ProjectMemory(Context& context, ConstTensorView memory,
                                   Projections& p) const {
  const int64_t groups = config_.kv_heads, keys = groups * config_.head_dim;
  p.cross_memory = Temp(context, memory.type,
                        {memory.shape[0], keys + groups * value_dim()});
  const TensorView kv = p.cross_memory.view();
  weights_.of_memory.Forward(context, memory, kv);
  p.k = HeadsOf(kv, 0, groups, config_.head_dim);
  p.v = HeadsOf(kv, keys, groups, value_dim());
}

void AttentionLayer::FillCache(Context& context, ConstTensorView memory,
                               const CacheView& cache) const {
  if (config_.heads == 0) return;
  Projections p;
  ProjectMemory(context, memory, p);
  if (weights_.key_norm) weights_.key_norm.ForwardHeads(context, Tokens(p.k));
  AppendToCache(context, p.k, p.v, cache);
}

AttentionLayer::Projections AttentionLayer::Project(
    Context& context, const AttentionInput& input) const {
  Projections p;
  const int64_t groups = config_.kv_heads, dim = config_.head_dim;
  const int64_t queries = config_.heads * dim, keys = groups * dim;
  const Linear& first = weights_.of_x;
  p.memory = Temp(context, input.x.type, {input.x.shape[0], first.out()});
  const TensorView rows = p.memory.view();
  first.Forward(context, input.x, rows);
  p.q = HeadsOf(rows, 0, config_.heads, dim);
  if (!cross()) {
    p.k = HeadsOf(rows, queries, groups, dim);
    p.v = HeadsOf(rows, queries + keys, groups, value_dim());
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
    weights_.query_norm.ForwardHeads(context, Tokens(p.q),
                                     saved ? &saved->query_norm : nullptr);
    if (p.k) {
      weights_.key_norm.ForwardHeads(context, Tokens(p.k),
                                     saved ? &saved->key_norm : nullptr);
    }
  }
  if (weights_.rope == nullptr) return;
  // Keys lie behind the queries of each row: one call turns both.
  const int64_t heads = config_.heads + config_.kv_heads;
  const TensorView x =
      Tokens(HeadsOf(p.memory.view(), 0, heads, config_.head_dim));
  const CacheView* cache = input.cache;
  if (cache == nullptr || cache->split != nullptr || cross()) {
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
  Rope(context, weights_.rope->Problem(direction), Turned(context, input, x));
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
  RunHooks* hooks = input.hooks;
  AttentionSaved* saved = input.saved;
  if (hooks != nullptr || saved != nullptr) {
    call.lse = Temp(context, DType::kF32,
                    {args.q.shape[0], config_.heads, args.q.shape[1]});
    args.lse = call.lse.view();
  }
  weights_.spans.Forward(context, input.gate_draw, problem, args, call.spans);
  Choose(context, input, call);
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
  if (hooks != nullptr) hooks->AfterAttention(site_, problem, args);
  if (saved == nullptr) return;
  saved->problem = problem;
  saved->args = args;
  saved->args.observation = nullptr;
  saved->lse = std::move(call.lse);
  saved->gates = std::move(call.gates);
  saved->spans = std::move(call.spans);
  saved->numbers = std::move(call.numbers);
}

// Heads whose caches keep different parts of the past, part by part.
void AttentionLayer::AttendSplit(Context& context, const AttentionInput& input,
                                 const Projections& p, TensorView heads,
                                 Call& call) const {
  if (weights_.spans.config().ramp > 0) {
    throw Error(ErrorCode::kUnsupported,
                {site_.name, "heads without learned spans for a cache by role",
                 "learned spans", ""});
  }
  call.problem = ProblemOf(context, input);
  const int64_t sequences = call.problem.batch;
  call.args.q = PerSequence(p.q, sequences);
  call.args.out = PerSequence(heads, sequences);
  Choose(context, input, call);
  if (call.args.observation != nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {site_.name, "nothing observed where caches differ by role",
                 "an observation", ""});
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

// The layer's own gates, and on top of them what a hook asks for.
void AttentionLayer::Choose(Context& context, const AttentionInput& input,
                            Call& call) const {
  const AttentionProblem& problem = call.problem;
  AttentionArgs& args = call.args;
  GateSaved& gates = call.gates;
  weights_.gates.Forward(context, input.x, *input.batch, input.gate_draw,
                         gates);
  ConstTensorView own;
  if (gates.gates) {
    own = Reshaped(gates.gates.view(),
                   {args.q.shape[0], args.q.shape[1], problem.heads});
    args.gates = own;
    args.active_heads = gates.active;
  }
  if (input.hooks == nullptr) return;
  input.hooks->BeforeAttention(site_, problem, args);
  args.gates = call.Here(context, args.gates);
  args.replacement = call.Here(context, args.replacement);
  if (!own) return;
  // A closed head, too, has a distribution that someone wants to see, now or
  // in a second pass.
  args.active_heads = {};
  if (args.gates.data == own.data) return;
  if (args.replacement && input.saved != nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {site_.name, "no replacement of heads that have learned gates",
                 "one, with gradients wanted", ""});
  }
  Compose(context, own, gates, args);
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
  Attend(context, input, p, heads, call);
  auto take = [&](const char* suffix, const TensorView& view) {
    if (input.hooks == nullptr || !input.hooks->WantsSome() || !view) return;
    const std::string name = site_.name + suffix;
    if (input.hooks->Wants(name)) input.hooks->Take(name, Tokens(view));
  };
  take(".query", p.q);
  take(".key", p.k);
  take(".value", p.v);
  take(".head_output", heads);
  Mix(context, memory.view(), y, store);
  if (input.saved != nullptr) {
    input.saved->projected = std::move(p.memory);
    input.saved->memory_projected = std::move(p.cross_memory);
    input.saved->heads = std::move(memory);
  } else if (input.hooks != nullptr && input.hooks->KeepsCalls()) {
    input.hooks->KeepCall(std::make_shared<std::pair<Projections, Call>>(
        std::move(p), std::move(call)));
  }
}

}  // namespace headwise
