// AttentionLayer: project, normalise and rotate, attend, mix; and all of it
// backwards. Door: attention_layer.h.
#include "headwise/nn/attention_layer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "headwise/backend/cpu/workspace.h"
#include "headwise/error.h"
#include "headwise/ops/rope/rope.h"

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
  const int32_t* positions = input.batch->positions.data();
  // Keys lie behind the queries of each row: one call turns both.
  TensorView both = Tokens(p.q);
  both.shape[1] += config_.kv_heads;
  Rope(context, *weights_.rope, positions, both, RopeDirection::kForward);
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
  if (hooks != nullptr) hooks->BeforeAttention(site_, problem, args);
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
}

void AttentionLayer::Forward(Context& context, const AttentionInput& input,
                             TensorView y, Store store) const {
  if (config_.heads == 0) {  // all of them pruned: what is left is the bias
    const int64_t tokens = input.x.shape[0];
    static constexpr float kNothing = 0;
    return weights_.output.Forward(context, View(&kNothing, {tokens, 0}), y,
                                   store);
  }
  Projections p = Project(context, input);
  Rotate(context, input, p);
  const int64_t rows = input.x.shape[0];
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
    const int32_t* positions = input.batch->positions.data();
    for (const TensorView& gradient : {dq, dk}) {
      Rope(context, *weights_.rope, positions, Tokens(gradient),
           RopeDirection::kBackward);
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

void AttentionLayer::Backward(Context& context, const AttentionInput& input,
                              const AttentionSaved& saved, ConstTensorView dy,
                              TensorView dx, TensorView dmemory) const {
  const int64_t rows = input.x.shape[0];
  const int64_t heads = config_.heads, groups = config_.kv_heads;
  const int64_t dim = config_.head_dim, keys = groups * dim;
  const int64_t width = heads * value_dim();
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
  RunHooks* hooks = input.hooks;
  if (hooks != nullptr) {
    hooks->BeforeAttentionBackward(site_, saved.problem, saved.args, grads);
  }
  AttentionBackward(context, saved.problem, saved.args, grads);
  if (hooks != nullptr) {
    hooks->AfterAttentionBackward(site_, saved.problem, saved.args, grads);
  }
  ReturnToProjections(context, input, saved, grads.dq, grads.dk);
  first.Backward(context, input.x, View(dfirst, {rows, first.out()}), dx);
  if (cross()) {
    weights_.kv.Backward(context, input.memory,
                         View(dkeys, {sources, source_width}), dmemory,
                         Store::kAccumulate);
  }
}

}  // namespace headwise
