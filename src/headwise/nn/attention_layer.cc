// AttentionLayer: project, normalise and rotate, attend, mix; and all of it
// backwards. Door: attention_layer.h.
#include "headwise/nn/attention_layer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "headwise/backend/cpu/workspace.h"
#include "headwise/error.h"

namespace headwise {
namespace {

// Columns [begin, begin + heads·dim) of a row-major buffer as
// [1, rows, heads, dim].
TensorView HeadsOf(float* data, int64_t rows, int64_t row_stride, int64_t heads,
                   int64_t dim) {
  TensorView view(data, DType::kF32, {1, rows, heads, dim});
  view.stride = {rows * row_stride, row_stride, dim, 1};
  return view;
}

// [1, B·M, heads, dim] as [B, M, heads, dim].
template <typename View>
View PerSequence(View view, int64_t sequences) {
  view.shape[0] = sequences;
  view.shape[1] /= sequences;
  view.stride[0] = view.shape[1] * view.stride[1];
  return view;
}

// [1, tokens, heads, dim] as [tokens, heads, dim].
TensorView Tokens(const TensorView& view) {
  TensorView tokens(view.data, view.type,
                    {view.shape[1], view.shape[2], view.shape[3]});
  tokens.stride = {view.stride[1], view.stride[2], view.stride[3]};
  return tokens;
}

ConstTensorView Vector(std::span<const int32_t> values) {
  return {values.data(), DType::kI32, {static_cast<int64_t>(values.size())}};
}

// What a layer that has lost all its heads gives to its output projection:
// [rows, 0].
ConstTensorView NoHeads(int64_t rows) {
  static constexpr float kNothing = 0;
  return View(&kNothing, {rows, 0});
}

// Copies new rows [1, B·M, G, D] behind the rows the cache holds.
void Append(const TensorView& rows, const TensorView& cache,
            std::span<const int32_t> lengths) {
  const int64_t sequences = static_cast<int64_t>(lengths.size());
  const int64_t fresh = rows.shape[1] / sequences;
  const int64_t heads = rows.shape[2], dim = rows.shape[3];
  for (int64_t b = 0; b < sequences; ++b) {
    if (lengths[b] + fresh > cache.shape[1]) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"attention",
                   "at most " + std::to_string(cache.shape[1]) +
                       " positions in the cache",
                   std::to_string(lengths[b] + fresh), ""});
    }
    for (int64_t i = 0; i < fresh; ++i) {
      const float* from = rows.As<float>() + (b * fresh + i) * rows.stride[1];
      float* to = cache.As<float>() + b * cache.stride[0] +
                  (lengths[b] + i) * cache.stride[1];
      for (int64_t h = 0; h < heads; ++h) {
        std::memcpy(to + h * cache.stride[2], from + h * rows.stride[2],
                    dim * sizeof(float));
      }
    }
  }
}

Scratch Copy(Context& context, const Scratch& from) {
  if (from.data() == nullptr) return {};
  Scratch copy = context.workspace().Take(from.bytes());
  std::memcpy(copy.data(), from.data(), from.bytes());
  return copy;
}

// args has the gates f and the replacement μ of a hook; own [B, M, H] are the
// layer's gates g. f·(g·O) + (1 − f)·μ is one gate f·g with the replacement
// (1 − f)/(1 − f·g)·μ. Keeps f in `gates`, which owns what args points to.
void ComposeGates(Context& context, const ConstTensorView& own,
                  GateSaved& gates, AttentionArgs& args) {
  const int64_t rows = own.shape[0] * own.shape[1], heads = own.shape[2];
  const int64_t dim = args.out.shape[3];
  const ConstTensorView hook = args.gates, mu = args.replacement;
  gates.outer = context.workspace().TakeArray<float>(rows * heads);
  gates.product = context.workspace().TakeArray<float>(rows * heads);
  if (mu) {
    gates.replacement =
        context.workspace().TakeArray<float>(rows * heads * dim);
  }
  for (int64_t i = 0; i < rows * heads; ++i) {
    const int64_t h = i % heads, row = i / heads;
    const int64_t b = row / own.shape[1], t = row % own.shape[1];
    const float f = hook.As<float>()[b * hook.stride[0] + t * hook.stride[1] +
                                     h * hook.stride[2]];
    const float product = f * own.As<float>()[i];
    gates.outer.As<float>()[i] = f;
    gates.product.As<float>()[i] = product;
    if (!mu) continue;
    const float share = product == 1 ? 0 : (1 - f) / (1 - product);
    const float* from =
        mu.As<float>() + b * mu.stride[0] + t * mu.stride[1] + h * mu.stride[2];
    float* to = gates.replacement.As<float>() + i * dim;
    for (int64_t e = 0; e < dim; ++e) to[e] = share * from[e];
  }
  args.gates =
      View(gates.product.As<float>(), {own.shape[0], own.shape[1], heads});
  if (!mu) return;
  args.replacement = View(gates.replacement.As<float>(),
                          {own.shape[0], own.shape[1], heads, dim});
}

}  // namespace

int64_t SequenceBatch::longest() const {
  int32_t most = 0;
  for (size_t b = 1; b < starts.size(); ++b) {
    most = std::max(most, starts[b] - starts[b - 1]);
  }
  return most;
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
  Scratch memory;
  Scratch cross_memory;
  TensorView q;  // [1, T, H, D]
  TensorView k;  // [1, S, G, D]; null where a cross cache already holds them
  TensorView v;  // [1, S, G, E]
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
  const int64_t projected =
      cross() ? weights_.q.out() + weights_.kv.out() : weights_.qkv.out();
  if (projected != q + k + v) {
    throw Error(ErrorCode::kInvalidArgument,
                {site_.name,
                 std::to_string(q + k + v) + " projected columns for " +
                     std::to_string(config_.heads) + " heads and " +
                     std::to_string(config_.kv_heads) + " kv heads of " +
                     std::to_string(config_.head_dim),
                 std::to_string(projected), "config and weights disagree"});
  }
  if (weights_.output.in() != config_.heads * value_dim()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {site_.name,
         std::to_string(config_.heads * value_dim()) +
             " inputs of the output projection",
         std::to_string(weights_.output.in()), "config and weights disagree"});
  }
}

void AttentionLayer::ProjectMemory(Context& context, ConstTensorView memory,
                                   Projections& p) const {
  const int64_t sources = memory.shape[0], groups = config_.kv_heads;
  const int64_t keys = groups * config_.head_dim;
  const int64_t width = keys + groups * value_dim();
  p.cross_memory = context.workspace().TakeArray<float>(sources * width);
  float* kv = p.cross_memory.As<float>();
  weights_.kv.Forward(context, memory, View(kv, {sources, width}));
  p.k = HeadsOf(kv, sources, width, groups, config_.head_dim);
  p.v = HeadsOf(kv + keys, sources, width, groups, value_dim());
}

void AttentionLayer::FillCache(Context& context, ConstTensorView memory,
                               const CacheView& cache) const {
  if (config_.heads == 0) return;
  Projections p;
  ProjectMemory(context, memory, p);
  if (weights_.key_norm) weights_.key_norm.ForwardHeads(context, Tokens(p.k));
  Append(p.k, cache.k, cache.lengths);
  Append(p.v, cache.v, cache.lengths);
}

AttentionLayer::Projections AttentionLayer::Project(
    Context& context, const AttentionInput& input) const {
  Projections p;
  const int64_t rows = input.x.shape[0];
  const int64_t heads = config_.heads, groups = config_.kv_heads;
  const int64_t dim = config_.head_dim;
  const int64_t keys = groups * dim;
  const Linear& first = cross() ? weights_.q : weights_.qkv;
  const int64_t width = first.out();
  p.memory = context.workspace().TakeArray<float>(rows * width);
  float* data = p.memory.As<float>();
  first.Forward(context, input.x, View(data, {rows, width}));
  p.q = HeadsOf(data, rows, width, heads, dim);
  if (!cross()) {
    p.k = HeadsOf(data + heads * dim, rows, width, groups, dim);
    p.v = HeadsOf(data + heads * dim + keys, rows, width, groups, value_dim());
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
      saved->unnormed = Copy(context, p.memory);
      saved->memory_unnormed = Copy(context, p.cross_memory);
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
  TensorView both = Tokens(p.q);
  both.shape[1] += config_.kv_heads;
  Turn(context, input, both, RopeDirection::kForward);
}

// x [T, heads, D] by the rotary frequencies.
void AttentionLayer::Turn(Context& context, const AttentionInput& input,
                          TensorView x, RopeDirection direction) const {
  const std::vector<float>& frequencies = *weights_.rope;
  const int64_t count = static_cast<int64_t>(frequencies.size());
  Rope(context, {direction},
       {.frequencies = View(frequencies.data(), {count}),
        .positions = View(input.batch->positions),
        .x = x});
}

void AttentionLayer::Attend(Context& context, const AttentionInput& input,
                            Projections& p, TensorView heads) const {
  const SequenceBatch& queries = *input.batch;
  AttentionProblem problem;
  problem.batch = queries.sequences();
  problem.heads = config_.heads;
  problem.kv_heads = config_.kv_heads;
  problem.query_len = queries.longest();
  problem.head_dim = config_.head_dim;
  problem.value_dim = value_dim();
  problem.mask = config_.mask;
  problem.scale = config_.scale;
  problem.soft_cap = config_.soft_cap;
  AttentionArgs args;
  std::vector<int32_t> key_lengths;
  int64_t rows = queries.total();
  if (input.cache != nullptr) {
    const CacheView& cache = *input.cache;
    if (p.k) {
      Append(p.k, cache.k, cache.lengths);
      Append(p.v, cache.v, cache.lengths);
    }
    const int64_t fresh = p.k ? p.k.shape[1] / problem.batch : 0;
    for (const int32_t held : cache.lengths) {
      key_lengths.push_back(held + static_cast<int32_t>(fresh));
    }
    problem.key_len = cache.k.shape[1];
    args.q = PerSequence(p.q, problem.batch);
    args.k = cache.k;
    args.v = cache.v;
    args.out = PerSequence(heads, problem.batch);
    args.key_lengths = Vector(key_lengths);
    if (!cross()) args.query_offsets = Vector(cache.lengths);
    rows = problem.query_len;
  } else {
    const SequenceBatch& keys = cross() ? *input.memory_batch : queries;
    problem.packed = true;
    problem.key_len = keys.longest();
    args.q = p.q;
    args.k = p.k;
    args.v = p.v;
    args.out = heads;
    args.query_starts = Vector(queries.starts);
    args.key_starts = Vector(keys.starts);
  }
  RunHooks* hooks = input.hooks;
  Scratch lse;
  if (hooks != nullptr || input.saved != nullptr) {
    const int64_t outer = problem.packed ? 1 : problem.batch;
    lse = context.workspace().TakeArray<float>(outer * config_.heads * rows);
    args.lse = View(lse.As<float>(), {outer, config_.heads, rows});
  }
  GateSaved gates;
  SpanSaved spans;
  weights_.spans.Forward(input.gate_draw, problem, args, spans);
  Choose(context, input, problem, gates, args);
  if (input.saved != nullptr && args.gates && !args.ungated) {
    Scratch& ungated = input.saved->ungated;
    const int64_t width = config_.heads * value_dim();
    ungated = context.workspace().TakeArray<float>(rows * width);
    std::fill_n(ungated.As<float>(), rows * width, 0.0f);
    args.ungated =
        HeadsOf(ungated.As<float>(), rows, width, config_.heads, value_dim());
  }
  AttentionForward(context, problem, args);
  if (hooks != nullptr) hooks->AfterAttention(site_, problem, args);
  if (input.saved == nullptr) return;
  input.saved->problem = problem;
  input.saved->args = args;
  input.saved->args.observation = nullptr;
  input.saved->lse = std::move(lse);
  input.saved->gates = std::move(gates);
  input.saved->spans = std::move(spans);
}

// The layer's own gates, and on top of them what a hook asks for.
void AttentionLayer::Choose(Context& context, const AttentionInput& input,
                            const AttentionProblem& problem, GateSaved& gates,
                            AttentionArgs& args) const {
  weights_.gates.Forward(context, input.x, *input.batch, input.gate_draw,
                         gates);
  ConstTensorView own;
  if (gates.gates.data() != nullptr) {
    own = View(gates.gates.As<float>(),
               {args.q.shape[0], args.q.shape[1], problem.heads});
    args.gates = own;
    args.active_heads = gates.active;
  }
  if (input.hooks == nullptr) return;
  input.hooks->BeforeAttention(site_, problem, args);
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
  ComposeGates(context, own, gates, args);
}

void AttentionLayer::Forward(Context& context, const AttentionInput& input,
                             TensorView y, Store store) const {
  if (config_.heads == 0) {  // all of them pruned: what is left is the bias
    return weights_.output.Forward(context, NoHeads(input.x.shape[0]), y,
                                   store);
  }
  Projections p = Project(context, input);
  const int64_t rows = input.x.shape[0];
  weights_.output.Expect(context, rows);
  Rotate(context, input, p);
  const int64_t width = config_.heads * value_dim();
  Scratch memory = context.workspace().TakeArray<float>(rows * width);
  // Heads that no call writes (inactive ones) count as zero.
  std::fill_n(memory.As<float>(), rows * width, 0.0f);
  const TensorView heads =
      HeadsOf(memory.As<float>(), rows, width, config_.heads, value_dim());
  Attend(context, input, p, heads);
  auto take = [&](const char* suffix, const TensorView& view) {
    if (input.hooks == nullptr || !view) return;
    const std::string name = site_.name + suffix;
    if (input.hooks->Wants(name)) input.hooks->Take(name, Tokens(view));
  };
  take(".query", p.q);
  take(".key", p.k);
  take(".value", p.v);
  take(".head_output", heads);
  weights_.output.Forward(context, View(memory.As<float>(), {rows, width}), y,
                          store);
  if (input.saved == nullptr) return;
  input.saved->projected = std::move(p.memory);
  input.saved->memory_projected = std::move(p.cross_memory);
  input.saved->heads = std::move(memory);
}

// Undoes what Rotate did: gradients of q and k become those of the projection.
void AttentionLayer::ReturnToProjections(Context& context,
                                         const AttentionInput& input,
                                         const AttentionSaved& saved,
                                         TensorView dq, TensorView dk) const {
  if (weights_.rope != nullptr) {
    for (const TensorView& gradient : {dq, dk}) {
      Turn(context, input, Tokens(gradient), RopeDirection::kBackward);
    }
  }
  if (!weights_.query_norm) return;
  TensorView q = dq, k = dk;
  q.data = saved.unnormed.As<float>();
  k.data = cross()
               ? saved.memory_unnormed.As<float>()
               : saved.unnormed.As<float>() + config_.heads * config_.head_dim;
  weights_.query_norm.BackwardHeads(context, Tokens(q), saved.query_norm,
                                    Tokens(dq));
  weights_.key_norm.BackwardHeads(context, Tokens(k), saved.key_norm,
                                  Tokens(dk));
}

// The operator's backward. Returns ∂L/∂g [T, H] by the layer's own gates, where
// there are any; what a hook asked for is by gates on top of those.
Scratch AttentionLayer::AttendBackward(Context& context,
                                       const AttentionInput& input,
                                       const AttentionSaved& saved,
                                       AttentionGrads& grads) const {
  RunHooks* hooks = input.hooks;
  if (hooks != nullptr) {
    hooks->BeforeAttentionBackward(site_, saved.problem, saved.args, grads);
  }
  const int64_t rows = input.x.shape[0], heads = config_.heads;
  const float* own = saved.gates.gates.As<float>();
  const TensorView asked = grads.dgates;
  Scratch dgates;
  if (own != nullptr && (asked || weights_.gates.trainable())) {
    dgates = context.workspace().TakeArray<float>(rows * heads);
    std::fill_n(dgates.As<float>(), rows * heads, 0.0f);
    grads.dgates = View(dgates.As<float>(), {1, rows, heads});
  }
  std::vector<float> dtable;
  if (weights_.spans.trainable()) {
    const ConstTensorView& table = saved.args.relative_table;
    dtable.assign(saved.spans.table.size(), 0);
    grads.drelative_table =
        View(dtable.data(), {table.shape[0], table.shape[1]});
  }
  AttentionBackward(context, saved.problem, saved.args, grads);
  grads.dgates = asked;
  if (weights_.spans.trainable()) {
    weights_.spans.Backward(saved.problem, input.gate_draw, dtable.data());
  }
  const float* outer = saved.gates.outer.As<float>();
  for (int64_t i = 0; own != nullptr && i < rows * heads; ++i) {
    if (asked) {
      asked.As<float>()[i / heads * asked.stride[1] +
                        i % heads * asked.stride[2]] =
          own[i] * dgates.As<float>()[i];
    }
    if (outer != nullptr && dgates.data() != nullptr) {
      dgates.As<float>()[i] *= outer[i];
    }
  }
  if (hooks != nullptr) {
    hooks->AfterAttentionBackward(site_, saved.problem, saved.args, grads);
  }
  return dgates;
}

void AttentionLayer::Backward(Context& context, const AttentionInput& input,
                              const AttentionSaved& saved, ConstTensorView dy,
                              TensorView dx, TensorView dmemory) const {
  const int64_t rows = input.x.shape[0];
  const int64_t heads = config_.heads, groups = config_.kv_heads;
  const int64_t dim = config_.head_dim, keys = groups * dim;
  const int64_t width = heads * value_dim();
  if (heads == 0) {  // as in Forward
    std::fill_n(dx.As<float>(), rows * dx.shape[1], 0.0f);
    return weights_.output.BackwardWeights(context, NoHeads(rows), dy);
  }
  const Scratch dheads_memory =
      context.workspace().TakeArray<float>(rows * width);
  const TensorView dheads = View(dheads_memory.As<float>(), {rows, width});
  weights_.output.Backward(
      context, View(saved.heads.As<float>(), {rows, width}), dy, dheads);

  // The gradient of each projection lies as the projection did.
  const Linear& first = cross() ? weights_.q : weights_.qkv;
  const int64_t sources = cross() ? input.memory.shape[0] : rows;
  const int64_t source_width = cross() ? weights_.kv.out() : first.out();
  const Scratch first_memory =
      context.workspace().TakeArray<float>(rows * first.out());
  Scratch source_memory;
  if (cross()) {
    source_memory =
        context.workspace().TakeArray<float>(sources * source_width);
  }
  // Heads that the call left out write no gradient.
  if (!saved.args.active_heads.empty()) {
    std::fill_n(first_memory.As<float>(), rows * first.out(), 0.0f);
  }
  float* dfirst = first_memory.As<float>();
  float* dkeys = cross() ? source_memory.As<float>() : dfirst + heads * dim;
  AttentionGrads grads;
  grads.dout =
      HeadsOf(dheads_memory.As<float>(), rows, width, heads, value_dim());
  grads.dq = HeadsOf(dfirst, rows, first.out(), heads, dim);
  grads.dk = HeadsOf(dkeys, sources, source_width, groups, dim);
  grads.dv = HeadsOf(dkeys + keys, sources, source_width, groups, value_dim());
  const Scratch dgates = AttendBackward(context, input, saved, grads);
  ReturnToProjections(context, input, saved, grads.dq, grads.dk);
  first.Backward(context, input.x, View(dfirst, {rows, first.out()}), dx);
  if (weights_.gates.trainable()) {
    weights_.gates.Backward(context, input.x, *input.batch, input.gate_draw,
                            saved.gates, dgates.As<float>(), dx);
  }
  if (cross()) {
    weights_.kv.Backward(context, input.memory,
                         View(dkeys, {sources, source_width}), dmemory,
                         Store::kAccumulate);
  }
}

}  // namespace headwise
