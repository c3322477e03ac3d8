// Block: residual steps around attention and feed-forward, forward and
// backward. Door: block.h.
#include "headwise/nn/block.h"

#include <algorithm>
#include <utility>

#include "headwise/nn/finite.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/temp.h"

namespace headwise {
// What distinguishes the two or three residual steps of a block.
struct Block::Step {
  BlockHalf half;
  const char* name;  // of the activation that it adds
  const Norm* norm;
  RunHooks* hooks;
  DropoutMask dropout;
  ResidualSaved* saved;  // null: nothing is kept
};

Block::Block(BlockParts parts) : parts_(std::move(parts)) {
  const Linear& output = parts_.attention.weights().output;
  trained_ = output && !output.parts()[0].weight.fixed();
}

Block::Step Block::AttentionStep(const BlockInput& input) const {
  return {BlockHalf::kAttention,
          ".attention.output",
          &parts_.attention_norm,
          input.hooks,
          input.dropout,
          input.saved != nullptr ? &input.saved->attention_step : nullptr};
}

Block::Step Block::CrossStep(const BlockInput& input) const {
  DropoutMask dropout = input.dropout;
  dropout.stream += 1;
  return {BlockHalf::kCross,
          ".cross.output",
          &parts_.cross_norm,
          input.hooks,
          dropout,
          input.saved != nullptr ? &input.saved->cross_step : nullptr};
}

Block::Step Block::MlpStep(const BlockInput& input) const {
  DropoutMask dropout = input.dropout;
  dropout.stream += 2;
  return {BlockHalf::kMlp,
          ".mlp.output",
          &parts_.mlp_norm,
          input.hooks,
          dropout,
          input.saved != nullptr ? &input.saved->mlp_step : nullptr};
}

AttentionInput Block::Attention(const BlockInput& input) const {
  AttentionInput attention;
  attention.batch = input.batch;
  attention.cache = input.cache;
  attention.hooks = input.hooks;
  attention.gate_draw = {input.gate_training, input.dropout.stream};
  if (input.saved != nullptr) attention.saved = &input.saved->attention;
  return attention;
}

AttentionInput Block::Cross(const BlockInput& input) const {
  AttentionInput cross;
  cross.batch = input.batch;
  cross.memory = input.memory;
  cross.memory_batch = input.memory_batch;
  cross.cache = input.cross_cache;
  cross.hooks = input.hooks;
  cross.gate_draw = {input.gate_training, input.dropout.stream + 1};
  if (input.saved != nullptr) cross.saved = &input.saved->cross;
  return cross;
}

std::vector<const Parameter*> Block::WeightsOf(BlockHalf half) const {
  std::vector<const Linear*> linears;
  std::vector<const Norm*> norms;
  const auto add = [&](const AttentionLayer& attention, const Norm& norm) {
    const AttentionWeights& w = attention.weights();
    linears = {&w.qkv, &w.q, &w.kv, &w.output};
    norms = {&norm, &w.query_norm, &w.key_norm};
  };
  switch (half) {
    case BlockHalf::kAttention:
      add(parts_.attention, parts_.attention_norm);
      break;
    case BlockHalf::kCross:
      if (parts_.has_cross) add(parts_.cross, parts_.cross_norm);
      break;
    case BlockHalf::kMlp:
      linears = {&parts_.mlp.in(), &parts_.mlp.down()};
      norms = {&parts_.mlp_norm};
      break;
  }
  std::vector<const Parameter*> weights;
  const auto take = [&](const Parameter& parameter) {
    if (parameter) weights.push_back(&parameter);
  };
  for (const Norm* norm : norms) {
    take(norm->weight_parameter());
    take(norm->bias_parameter());
  }
  for (const Linear* linear : linears) {
    for (const Linear::Part& part : linear->parts()) {
      take(part.weight);
      take(part.bias);
    }
  }
  return weights;
}

bool Block::Learns(BlockHalf half) const {
  const auto chosen = [](const AttentionLayer& attention) {
    const AttentionWeights& w = attention.weights();
    return w.gates.trainable() || w.spans.trainable();
  };
  if (half == BlockHalf::kAttention && chosen(parts_.attention)) return true;
  if (half == BlockHalf::kCross && chosen(parts_.cross)) return true;
  const auto weights = WeightsOf(half);
  return std::any_of(
      weights.begin(), weights.end(),
      [](const Parameter* weight) { return weight->trainable(); });
}

bool Block::Learns() const {
  return Learns(BlockHalf::kAttention) || Learns(BlockHalf::kCross) ||
         Learns(BlockHalf::kMlp);
}

void Block::RequireFinite(Context& context, const Step& step,
                          TensorView x) const {
  if (trained_ || !ChecksEachStep(context)) return;
  if (AllWithin(context, x, kMostFinite)) return;
  ThrowNotFinite(context, {parts_.name + step.name, WeightsOf(step.half)}, x);
}

// One residual step. inner(in, y, store) writes f(in) to y or adds it.
template <typename Inner>
void Block::Residual(Context& context, const Step& step, TensorView x,
                     const Inner& inner) const {
  const int64_t rows = x.shape[0], width = x.shape[1];
  const bool pre = parts_.place == NormPlace::kPre;
  // Names are made only where somebody listens: one token takes a millisecond.
  const std::string activation =
      step.hooks != nullptr ? parts_.name + step.name : std::string();
  const bool wanted = step.hooks != nullptr && step.hooks->Wants(activation);
  ResidualSaved* saved = step.saved;
  NormSaved* norm_saved = saved != nullptr ? &saved->norm : nullptr;
  Temp input_memory(context, x.type, {rows, width});
  const TensorView input = input_memory.view();
  if (pre) {
    if (saved != nullptr) saved->stream = Temp(context, x.type, {rows, width});
    step.norm->Forward(context, x, input, norm_saved,
                       saved != nullptr ? saved->stream.view() : TensorView());
  } else {
    Copy(context, x, input);
  }
  if (wanted || step.dropout.rate > 0) {
    const Temp memory(context, x.type, {rows, width});
    const TensorView added = memory.view();
    inner(input, added, Store::kOverwrite);
    if (wanted) step.hooks->Take(activation, added);
    if (step.dropout.rate > 0) Dropout(context, step.dropout, {added, added});
    AddTo(context, added, x);
  } else {
    inner(input, x, Store::kAccumulate);
  }
  RequireFinite(context, step, x);
  if (!pre) {
    if (saved != nullptr) saved->stream = CopyOf(context, x);
    step.norm->Forward(context, x, x, norm_saved);
    RequireFinite(context, step, x);
  }
  if (saved != nullptr) saved->input = std::move(input_memory);
}

// inner(in, dy, din) is the backward of f; dx as Backward says.
template <typename Inner>
void Block::ResidualBackward(Context& context, const Step& step, TensorView dx,
                             const Inner& inner) const {
  const int64_t rows = dx.shape[0], width = dx.shape[1];
  const bool pre = parts_.place == NormPlace::kPre;
  const ResidualSaved& saved = *step.saved;
  const ConstTensorView stream = saved.stream.view();
  if (!pre) step.norm->Backward(context, stream, saved.norm, dx, dx);
  ConstTensorView dadded = dx;
  Temp masked;
  if (step.dropout.rate > 0) {
    masked = Temp(context, dx.type, {rows, width});
    Dropout(context, step.dropout, {dx, masked.view()});
    dadded = masked.view();
  }
  const Temp memory(context, dx.type, {rows, width});
  const TensorView dinput = memory.view();
  inner(saved.input.view(), dadded, dinput);
  if (pre) {
    step.norm->Backward(context, stream, saved.norm, dinput, dx, dx);
  } else {
    AddTo(context, dinput, dx);
  }
}

void Block::Forward(Context& context, const BlockInput& input,
                    TensorView x) const {
  RunHooks* hooks = input.hooks;
  auto take = [&](const char* suffix) {
    if (hooks == nullptr) return;
    const std::string name = parts_.name + suffix;
    if (hooks->Wants(name)) hooks->Take(name, x);
  };
  take(".input");
  // While a norm runs a device may fetch what is multiplied next.
  const bool expects =
      !context.device().is_cpu() && parts_.place == NormPlace::kPre;
  if (expects) parts_.attention.weights().qkv.Expect(context, x.shape[0]);
  Residual(context, AttentionStep(input), x,
           [&](ConstTensorView in, TensorView y, Store store) {
             AttentionInput attention = Attention(input);
             attention.x = in;
             parts_.attention.Forward(context, attention, y, store);
           });
  if (parts_.has_cross) {
    Residual(context, CrossStep(input), x,
             [&](ConstTensorView in, TensorView y, Store store) {
               AttentionInput cross = Cross(input);
               cross.x = in;
               parts_.cross.Forward(context, cross, y, store);
             });
  }
  if (input.attention_only) return;
  if (parts_.mlp.hidden() > 0) {
    if (expects) parts_.mlp.in().Expect(context, x.shape[0]);
    Residual(context, MlpStep(input), x,
             [&](ConstTensorView in, TensorView y, Store store) {
               if (input.saved == nullptr) {
                 return parts_.mlp.Forward(context, in, y, store);
               }
               parts_.mlp.ForwardSaving(context, in, y, store,
                                        input.saved->mlp);
             });
  }
  take(".output");
}

void Block::Backward(Context& context, const BlockInput& input, TensorView dx,
                     TensorView dmemory) const {
  const BlockSaved& saved = *input.saved;
  const bool whole = input.input_gradient;
  const bool attention_learns = Learns(BlockHalf::kAttention);
  if (parts_.mlp.hidden() > 0) {
    ResidualBackward(
        context, MlpStep(input), dx,
        [&](ConstTensorView in, ConstTensorView dy, TensorView din) {
          parts_.mlp.Backward(context, in, saved.mlp, dy, din);
        });
  }
  if (parts_.has_cross &&
      (whole || attention_learns || Learns(BlockHalf::kCross))) {
    ResidualBackward(
        context, CrossStep(input), dx,
        [&](ConstTensorView in, ConstTensorView dy, TensorView din) {
          AttentionInput cross = Cross(input);
          cross.x = in;
          parts_.cross.Backward(context, cross, saved.cross, dy, din, dmemory);
        });
  }
  if (!whole && !attention_learns) return;
  ResidualBackward(context, AttentionStep(input), dx,
                   [&](ConstTensorView in, ConstTensorView dy, TensorView din) {
                     AttentionInput attention = Attention(input);
                     attention.x = in;
                     parts_.attention.Backward(context, attention,
                                               saved.attention, dy, din, {});
                   });
}

}  // namespace headwise
