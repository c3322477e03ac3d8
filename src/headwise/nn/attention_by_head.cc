// Grouping rows by head, and the forward. Backwards:
// attention_by_head_backward.cc. Door: attention_by_head.h.
#include "headwise/nn/attention_by_head.h"

#include <algorithm>
#include <utility>

#include "headwise/nn/attention_views.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// Shorter sequences gain nothing, and a single new token is attended with its
// own heads alone as it is.
constexpr int64_t kShortest = 16;

// [R, D] as [R, 1, D].
TensorView OneHead(const TensorView& rows) {
  return Reshaped(rows, {rows.shape[0], 1, rows.shape[1]});
}

}  // namespace

std::shared_ptr<const AttentionByHead> AttentionByHead::Of(
    const AttentionLayerConfig& config, const AttentionWeights& weights) {
  const GateConfig& gates = weights.gates.config();
  if (gates.kind != GateKind::kMixture || gates.active >= config.heads ||
      weights.spans.config().ramp > 0 || weights.bias || weights.alibi ||
      weights.latent || !weights.output || weights.sinks ||
      weights.output_gate || config.keys_are_values || config.keys_of >= 0 ||
      config.shares_keys || weights.value_norm ||
      (weights.query_norm && !weights.query_norm.IsAlike(config.head_dim)) ||
      (weights.key_norm && !weights.key_norm.IsAlike(config.head_dim))) {
    return nullptr;
  }
  return std::make_shared<const AttentionByHead>(config, weights);
}

AttentionByHead::AttentionByHead(const AttentionLayerConfig& config,
                                 const AttentionWeights& weights)
    : config_(config), weights_(weights) {
  const int64_t dim = config.head_dim, queries = config.heads * dim;
  const Linear& first = weights_.of_x;
  for (int64_t h = 0; h < config.heads; ++h) {
    queries_.push_back(first.OutputRange(h * dim, (h + 1) * dim));
    outputs_.push_back(
        weights_.output.InputRange(h * value_dim(), (h + 1) * value_dim()));
  }
  kv_ = cross() ? weights_.of_memory : first.OutputRange(queries, first.out());
}

bool AttentionByHead::Takes(const Context& context,
                            const AttentionInput& input) const {
  const SequenceBatch& batch = *input.batch;
  return context.device().is_cpu() && input.x.type == DType::kF32 &&
         input.hooks.empty() && !input.side_by_side &&
         (input.cache == nullptr || input.cache->split == nullptr) &&
         batch.sequences() > 0 &&
         batch.total() >= kShortest * batch.sequences();
}

RowPlaces AttentionByHead::PlacesOf(const AttentionInput& input) const {
  const CacheView* cache = input.cache;
  const SequenceBatch& keys =
      cross() && cache == nullptr ? *input.memory_batch : *input.batch;
  RowPlaces places;
  for (int64_t b = 0; b < input.batch->sequences(); ++b) {
    const int32_t held = cache != nullptr ? cache->lengths[b] : 0;
    const bool fresh = !cross() || cache == nullptr;
    places.first.push_back(
        cross() || cache == nullptr
            ? static_cast<int32_t>(MaskOf(input).query_offset)
            : held);
    places.keys.push_back(held +
                          (fresh ? keys.starts[b + 1] - keys.starts[b] : 0));
  }
  return places;
}

// Keys and values in rows of kv: [1, S, G, D] and [1, S, G, E].
TensorView AttentionByHead::KeysOf(const TensorView& kv) const {
  return HeadsOf(kv, 0, config_.kv_heads, config_.head_dim);
}
TensorView AttentionByHead::ValuesOf(const TensorView& kv) const {
  return HeadsOf(kv, config_.kv_heads * config_.head_dim, config_.kv_heads,
                 value_dim());
}

void AttentionByHead::Turn(Context& context, const AttentionInput& input,
                           ConstTensorView positions, TensorView x,
                           RopeDirection direction) const {
  if (weights_.rope == nullptr) return;
  Rope(context, weights_.rope->Problem(direction),
       {.frequencies = weights_.rope->frequencies(context, *input.batch),
        .positions = positions,
        .x = x});
}

// New keys and values, as the operator reads them.
void AttentionByHead::ProjectKeys(Context& context, const AttentionInput& input,
                                  HeadRowsRun& run) const {
  if (cross() && input.cache != nullptr) return;  // they are there
  const ConstTensorView& from = cross() ? input.memory : input.x;
  run.kv = Temp(context, from.type, {from.shape[0], kv_.out()});
  kv_.Forward(context, from, run.kv.view());
  const TensorView k = KeysOf(run.kv.view());
  if (weights_.key_norm) {
    if (input.saved != nullptr) {
      run.kv_unnormed = CopyOf(context, run.kv.view());
    }
    weights_.key_norm.Forward(context, Tokens(k), &run.key_norm);
  }
  if (!cross()) {
    Turn(context, input, input.batch->PositionsOn(context), Tokens(k),
         RopeDirection::kForward);
  }
  if (input.cache != nullptr) {
    AppendToCache(context, k, ValuesOf(run.kv.view()), *input.cache);
  }
}

// Keys of each head one behind the other; those of a group for each of its
// heads.
void AttentionByHead::LayKeys(Context& context, const AttentionInput& input,
                              HeadRowsRun& run) const {
  const int64_t keys = run.rows.key_starts.back();
  run.k = Temp(context, DType::kF32, {keys, config_.head_dim});
  run.v = Temp(context, DType::kF32, {keys, value_dim()});
  if (input.cache != nullptr) return LayCache(context, input, run);
  SpreadHeads(context, KeysOf(run.kv.view()), config_.heads, run.k.view());
  SpreadHeads(context, ValuesOf(run.kv.view()), config_.heads, run.v.view());
}

void AttentionByHead::LayCache(Context& context, const AttentionInput& input,
                               HeadRowsRun& run) const {
  const CacheView& cache = *input.cache;
  const int64_t sequences = input.batch->sequences();
  const int64_t members = config_.heads / config_.kv_heads;
  for (int64_t i = 0; i < config_.heads * sequences; ++i) {
    const int64_t group = i / sequences / members, b = i % sequences;
    const int64_t begin = run.rows.key_starts[i];
    const int64_t end = run.rows.key_starts[i + 1];
    const auto copy = [&](const TensorView& from, const TensorView& to) {
      Copy(context, Rows(At(At(from, 0, b), 1, group), 0, end - begin),
           Rows(to, begin, end));
    };
    copy(Columns(cache.k, 0, config_.head_dim), run.k.view());
    copy(Columns(cache.v, 0, value_dim()), run.v.view());
  }
}

void AttentionByHead::ProjectQueries(Context& context,
                                     const AttentionInput& input,
                                     HeadRowsRun& run) const {
  const HeadRows& rows = run.rows;
  run.q = Temp(context, DType::kF32, {rows.count(), config_.head_dim});
  for (int64_t h = 0; h < config_.heads; ++h) {
    if (rows.OfHead(h) == 0) continue;
    Temp copy;
    queries_[h].Forward(context, Chosen(context, rows, h, input.x, copy),
                        RowsOf(rows, h, run.q.view()));
  }
  const TensorView q = OneHead(run.q.view());
  if (weights_.query_norm) {
    if (input.saved != nullptr) run.q_unnormed = CopyOf(context, run.q.view());
    weights_.query_norm.Forward(context, q, &run.query_norm);
  }
  Turn(context, input, ViewOf(rows.positions), q, RopeDirection::kForward);
}

void AttentionByHead::Attend(Context& context, const AttentionInput& input,
                             HeadRowsRun& run) const {
  const HeadRows& rows = run.rows;
  const int64_t count = rows.count(), dim = config_.head_dim;
  const int64_t keys = rows.key_starts.back();
  AttentionProblem& problem = run.problem;
  problem.batch = std::ssize(rows.query_starts) - 1;
  problem.query_len = LongestOf(rows.query_starts);
  problem.key_len = LongestOf(rows.key_starts);
  problem.head_dim = dim;
  problem.value_dim = value_dim();
  problem.mask = MaskOf(input);
  problem.scale = config_.scale;
  problem.soft_cap = config_.soft_cap;
  problem.packed = true;
  run.row_gates = Temp(context, DType::kF32, {count, 1});
  GatherRows(
      context,
      Reshaped(run.gates.gates.view(), {input.x.shape[0] * config_.heads, 1}),
      ViewOf(rows.slots), run.row_gates.view());
  run.out = Temp(context, DType::kF32, {count, value_dim()});
  AttentionArgs& args = run.args;
  args.q = Reshaped(run.q.view(), {1, count, 1, dim});
  args.k = Reshaped(run.k.view(), {1, keys, 1, dim});
  args.v = Reshaped(run.v.view(), {1, keys, 1, value_dim()});
  args.out = Reshaped(run.out.view(), {1, count, 1, value_dim()});
  args.gates = Reshaped(run.row_gates.view(), {1, count, 1});
  args.query_starts = ViewOf(rows.query_starts);
  args.key_starts = ViewOf(rows.key_starts);
  args.query_offsets = ViewOf(rows.places);
  if (input.saved != nullptr) {
    run.lse = Temp(context, DType::kF32, {1, 1, count});
    run.ungated = Temp(context, DType::kF32, {1, count, 1, value_dim()});
    args.lse = run.lse.view();
    args.ungated = run.ungated.view();
  }
  AttentionForward(context, problem, args);
}

void AttentionByHead::Mix(Context& context, const HeadRowsRun& run,
                          TensorView y, Store store) const {
  weights_.output.ForwardBias(context, y, store);
  for (int64_t h = 0; h < config_.heads; ++h) {
    AddToChosen(context, run.rows, h, y, [&](const TensorView& part) {
      outputs_[h].Forward(context, RowsOf(run.rows, h, run.out.view()), part,
                          Store::kAccumulate);
    });
  }
}

void AttentionByHead::Forward(Context& context, const AttentionInput& input,
                              TensorView y, Store store) const {
  const auto run = std::make_shared<HeadRowsRun>();
  weights_.gates.Forward(context, input.x, *input.batch, input.gate_draw,
                         run->gates);
  run->rows = GroupByHead(ToVector<float>(context, run->gates.gates.view()),
                          PlacesOf(input), *input.batch);
  ProjectKeys(context, input, *run);
  if (run->rows.count() > 0) {
    LayKeys(context, input, *run);
    ProjectQueries(context, input, *run);
    Attend(context, input, *run);
  }
  Mix(context, *run, y, store);
  if (input.saved != nullptr) input.saved->by_head = run;
}

}  // namespace headwise
