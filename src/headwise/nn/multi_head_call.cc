// Sizes, rows, weights and cache of a MultiHeadAttention as the models' layer
// takes them. Door: multi_head_call.h.
#include "headwise/nn/multi_head_call.h"

#include <fmt/core.h>

#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

constexpr char kWhere[] = "MultiHeadAttention";

// [B, M, n] whose positions lie one behind the other, sequence after sequence.
bool IsOneMatrix(const ConstTensorView& view) {
  return view.shape[0] <= 1 || view.shape[1] <= 1 ||
         view.stride[0] == view.shape[1] * view.stride[1];
}

template <typename View>
View Matrix(const View& view) {
  return Reshaped(view, {view.shape[0] * view.shape[1], view.shape[2]});
}

// Runs with `to` [B, M, n] as zeroed or untouched rows [B·M, n] to write; null
// stays so.
template <typename Function>
void IntoRows(Context& context, const TensorView& to, const Function& run) {
  if (!to || IsOneMatrix(to)) return run(to ? Matrix(to) : to);
  const Temp rows(context, to.type, {to.shape[0], to.shape[1], to.shape[2]});
  Fill(context, 0, rows.view());
  run(Matrix(rows.view()));
  Copy(context, rows.view(), to);
}

void FillEqual(SequenceBatch& batch, int64_t sequences, int64_t length,
               int64_t first) {
  batch.starts_there = batch.positions_there = {};
  batch.starts.resize(static_cast<size_t>(sequences + 1));
  batch.positions.resize(static_cast<size_t>(sequences * length));
  for (int64_t b = 0; b < sequences; ++b) {
    for (int64_t i = 0; i < length; ++i) {
      batch.positions[b * length + i] = static_cast<int32_t>(first + i);
    }
    batch.starts[b + 1] = static_cast<int32_t>((b + 1) * length);
  }
}

// Which of the columns of w_q, and of w_k and w_v, a layer has.
struct HeadRange {
  int64_t begin, end;  // columns
  int64_t count;       // heads
};

Linear::Part PartOf(const char* name, const Tensor& weight, const Tensor& bias,
                    Tensor* weight_gradient, Tensor* bias_gradient,
                    const HeadRange& range) {
  auto read = [&](const Tensor& value, Tensor* gradient) {
    Parameter parameter;
    parameter.name = name;
    parameter.value = Columns(value.view(), range.begin, range.end);
    parameter.varies = true;
    if (gradient != nullptr) parameter.gradient = gradient->view();
    return parameter;
  };
  return {read(weight, weight_gradient), read(bias, bias_gradient)};
}

}  // namespace

void RefuseMultiHead(std::string expected, std::string found,
                     std::string hint) {
  throw Error(ErrorCode::kInvalidArgument, {.where = kWhere,
                                            .expected = std::move(expected),
                                            .found = std::move(found),
                                            .hint = std::move(hint)});
}

void RequireMultiHeadShape(const char* name, const ConstTensorView& view,
                           std::initializer_list<int64_t> shape) {
  const ConstTensorView wanted(nullptr, DType::kF32, shape);
  if (view && view.type == DType::kF32 && SameShape(view, wanted) &&
      view.stride[view.rank - 1] == 1) {
    return;
  }
  RefuseMultiHead(fmt::format("{} as {}", name, ToString(wanted)),
                  view ? ToString(view) : "nothing", "f32, last stride 1");
}

ConstTensorView SequenceRows(Context& context, const ConstTensorView& view,
                             Temp& copy) {
  if (IsOneMatrix(view)) return Matrix(view);
  copy = CopyOf(context, view);
  return Matrix(ConstTensorView(copy.view()));
}

void InputHooks::BeforeAttention(const AttentionSite& /*site*/,
                                 const AttentionProblem& /*problem*/,
                                 AttentionArgs& args) {
  if (given_.query_lengths) args.query_lengths = given_.query_lengths;
  if (given_.key_lengths) args.key_lengths = given_.key_lengths;
  args.gates = given_.gates;
  args.replacement = given_.replacement;
  args.active_heads = given_.active_heads;
  args.observation = given_.observation;
}

void InputHooks::BeforeAttentionBackward(const AttentionSite& /*site*/,
                                         const AttentionProblem& /*problem*/,
                                         const AttentionArgs& /*args*/,
                                         AttentionGrads& grads) {
  if (gradients_ == nullptr) return;
  grads.dgates = gradients_->dgates;
  grads.dentropy = gradients_->dentropy;
}

MultiHeadAttention::Call::Call(Context& context,
                               const MultiHeadAttention& module,
                               const MultiHeadAttentionInput& input,
                               int64_t head)
    : module_(module), given_(input), head_(head) {
  const MultiHeadAttentionConfig& config = module.config();
  if (head != kAllHeads) {
    given_.gates = Slice(input.gates, 2, head, head + 1);
    given_.replacement = Slice(input.replacement, 2, head, head + 1);
    given_.active_heads = {};
    given_.observation = nullptr;
  }
  if (!input.x || input.x.rank != 3) {
    RefuseMultiHead("x as f32 [batch, position, d_model]",
                    input.x ? ToString(input.x) : "nothing");
  }
  batch_ = input.x.shape[0];
  keys_ = queries_ = input.x.shape[1];
  RequireMultiHeadShape("x", input.x, {batch_, queries_, config.d_model});
  if (input.source) keys_ = input.source.shape[1];
  if (input.cache != nullptr) {
    UseCache();
  } else {
    CheckSource();
  }
  if (empty()) return;
  const bool grows = input.cache != nullptr && !cross();
  lists_ = module.spare_->Take();
  FillEqual(lists_->queries, batch_, queries_, grows ? keys_ - queries_ : 0);
  input_.x = SequenceRows(context, input.x, x_);
  input_.batch = &lists_->queries;
  input_.side_by_side = true;
  if (!input.source) return;
  FillEqual(lists_->keys, batch_, keys_, 0);
  input_.memory = SequenceRows(context, input.source, source_);
  input_.memory_batch = &lists_->keys;
}

MultiHeadAttention::Call::~Call() {
  if (lists_) module_.spare_->Return(std::move(lists_));
}

bool MultiHeadAttention::Call::cross() const {
  return given_.source || (given_.cache != nullptr && given_.cache->of_source_);
}

void MultiHeadAttention::Call::CheckSource() const {
  const MultiHeadAttentionConfig& config = module_.config();
  if (given_.source) {
    RequireMultiHeadShape("source", given_.source,
                          {batch_, keys_, config.source_dim});
    if (config.rotary_base == 0) return;
    RefuseMultiHead("no source with rotary positions", ToString(given_.source),
                    "they turn the queries and keys of one sequence");
  } else if (config.source_dim != config.d_model) {
    RefuseMultiHead(
        fmt::format("a source of width {}", config.source_dim), "none",
        "source_dim differs from d_model, so x cannot attend to itself");
  }
}

void MultiHeadAttention::Call::UseCache() {
  const MultiHeadAttentionConfig& config = module_.config();
  MultiHeadAttentionCache& cache = *given_.cache;
  cache_caller_.emplace(*cache.thread_, kCacheRule);
  if (given_.source || given_.query_lengths || given_.key_lengths) {
    RefuseMultiHead("a cache or a source or lengths", "several of them",
                    "Remember puts a source into a cache");
  }
  if (!cache.of_source_) CheckSource();
  RequireMultiHeadShape(
      "cache", cache.k_.view(),
      {batch_, cache.capacity(), config.kv_heads, config.head_dim});
  keys_ = cache.length() + (cache.of_source_ ? 0 : queries_);
  if (keys_ > cache.capacity()) {
    RefuseMultiHead(
        fmt::format("at most {} positions in the cache", cache.capacity()),
        fmt::format("{} + {}", cache.length(), queries_));
  }
  cache_.k = Slice(cache.k_.view(), 1, 0, keys_);
  cache_.v = Slice(cache.v_.view(), 1, 0, keys_);
  cache_.lengths = cache.lengths_;
  if (head_ != kAllHeads) {
    const int64_t group = head_ / (config.heads / config.kv_heads);
    cache_.k = Slice(cache_.k, 2, group, group + 1);
    cache_.v = Slice(cache_.v, 2, group, group + 1);
  }
  input_.cache = &cache_;
}

AttentionLayer MultiHeadAttention::Call::LayerOf(
    const MultiHeadAttention& module, const Use& use) {
  const MultiHeadAttentionConfig& config = module.config();
  const MultiHeadAttentionParameters& p = module.parameters();
  MultiHeadAttentionParameters* dp = use.gradients;
  const int64_t dim = config.head_dim;
  HeadRange own{0, config.heads * dim, config.heads};
  HeadRange group{0, config.kv_heads * dim, config.kv_heads};
  const bool one = use.head != kAllHeads;
  if (one) {
    const int64_t g = use.head / (config.heads / config.kv_heads);
    own = {use.head * dim, (use.head + 1) * dim, 1};
    group = {g * dim, (g + 1) * dim, 1};
  }
  auto part = [&](const char* name, Tensor MultiHeadAttentionParameters::*w,
                  Tensor MultiHeadAttentionParameters::*b,
                  const HeadRange& range) {
    return PartOf(name, p.*w, p.*b, dp ? &(dp->*w) : nullptr,
                  dp ? &(dp->*b) : nullptr, range);
  };
  using P = MultiHeadAttentionParameters;
  const Linear::Part q = part("w_q", &P::w_q, &P::b_q, own);
  const Linear::Part k = part("w_k", &P::w_k, &P::b_k, group);
  const Linear::Part v = part("w_v", &P::w_v, &P::b_v, group);
  AttentionWeights weights;
  if (use.cross) {
    weights.of_x = Linear({q}, WeightLayout::kInOut);
    weights.of_memory = Linear({k, v}, WeightLayout::kInOut);
  } else {
    weights.of_x = Linear({q, k, v}, WeightLayout::kInOut);
    weights.rope = module.rope_;
  }
  if (config.output_projection && use.mix == Mix::kYes) {
    Linear::Part o = part("w_o", &P::w_o, &P::b_o, {0, config.d_model, 0});
    if (one) {  // the bias is no head's
      o.weight.value = Rows(o.weight.value, own.begin, own.end);
      o.bias = {};
    }
    weights.output = Linear({std::move(o)}, WeightLayout::kInOut);
  }
  AttentionLayerConfig layer;
  layer.heads = own.count;
  layer.kv_heads = group.count;
  layer.head_dim = dim;
  return {layer, std::move(weights), {.name = kWhere}};
}

void MultiHeadAttention::Call::Forward(Context& context, RunHooks& hooks,
                                       Mix mix, TensorView out,
                                       AttentionSaved* saved) {
  input_.mask = &given_.mask;
  input_.hooks = &hooks;
  input_.saved = saved;
  const auto run = [&](const AttentionLayer& layer) {
    IntoRows(context, out, [&](const TensorView& rows) {
      layer.Forward(context, input_, rows, Store::kOverwrite);
    });
  };
  if (!cross() && mix == Mix::kYes && head_ == kAllHeads && IsBound()) {
    return run(*module_.layer_);
  }
  run(LayerOf(module_, {.cross = cross(), .mix = mix, .head = head_}));
}

bool MultiHeadAttention::Call::IsBound() const {
  if (module_.layer_ == nullptr) return false;
  const MultiHeadAttentionParameters& p = module_.parameters();
  const auto same = [](const ConstTensorView& bound, const Tensor& weight) {
    const ConstTensorView now = weight.view();
    if (!now) return !bound;
    return bound.data == now.data && bound.rank == now.rank &&
           bound.shape == now.shape;
  };
  const auto all = [&](const Linear& linear, size_t at, const Tensor& weight,
                       const Tensor& bias) {
    const Linear::Part& part = linear.parts()[at];
    return same(part.weight.value, weight) && same(part.bias.value, bias);
  };
  const AttentionWeights& bound = module_.layer_->weights();
  return all(bound.of_x, 0, p.w_q, p.b_q) && all(bound.of_x, 1, p.w_k, p.b_k) &&
         all(bound.of_x, 2, p.w_v, p.b_v) &&
         (!bound.output || all(bound.output, 0, p.w_o, p.b_o));
}

void MultiHeadAttention::Call::Backward(
    Context& context, const AttentionSaved& saved, ConstTensorView dout,
    const MultiHeadAttentionGradients& gradients) {
  const AttentionLayer layer =
      LayerOf(module_, {.cross = cross(), .gradients = gradients.parameters});
  InputHooks hooks(given_, &gradients);
  input_.mask = &given_.mask;
  input_.hooks = &hooks;
  Temp copy;
  const ConstTensorView dy = SequenceRows(context, dout, copy);
  if (gradients.dsource) Fill(context, 0, gradients.dsource);
  IntoRows(context, gradients.dx, [&](const TensorView& dx) {
    IntoRows(context, gradients.dsource, [&](const TensorView& dsource) {
      layer.Backward(context, input_, saved, dy, dx, dsource);
    });
  });
}

}  // namespace headwise
