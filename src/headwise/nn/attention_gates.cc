// Gates of an attention layer's heads: those that choose heads, a hook's on top
// of them, and the gate of the output. Door: attention_layer.h.
#include <cstdint>
#include <utility>

#include "headwise/error.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/attention_run.h"
#include "headwise/nn/attention_views.h"
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

// The layer's own gates, and on top of them what a hook asks for.
void AttentionLayer::Choose(Context& context, const AttentionInput& input,
                            Call& call) const {
  const AttentionProblem& problem = call.problem;
  AttentionArgs& args = call.args;
  const ConstTensorView own = OwnGates(context, input, call);
  args.gates = own;
  if (call.gates.gates) args.active_heads = call.gates.active;
  if (input.hooks.empty()) return;
  input.hooks.BeforeAttention(site_, problem, args);
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
                 "one, with gradients wanted", "close them without a mean"});
  }
  Compose(context, own, call.gates, args);
}

// Gates [B, M, H] that choose heads, times those of the output; null: all 1.
ConstTensorView AttentionLayer::OwnGates(Context& context,
                                         const AttentionInput& input,
                                         Call& call) const {
  weights_.gates.Forward(context, input.x, *input.batch, input.gate_draw,
                         call.gates);
  ConstTensorView own = call.gates.gates.view();
  OutputGateSaved& output = call.output_gate;
  if (weights_.output_gate && !gates_channels()) {
    output.gate = weights_.output_gate.Forward(context, input.x, DType::kF32);
    const ConstTensorView gate = output.gate.view();
    if (own) {
      output.product = Temp(context, DType::kF32, {own.shape[0], own.shape[1]});
      Multiply(context, own, gate, output.product.view());
      own = output.product.view();
    } else {
      own = gate;
    }
  }
  if (!own) return {};
  const ConstTensorView& q = call.args.q;
  return Reshaped(own, {q.shape[0], q.shape[1], config_.heads});
}

// Takes a hook's replacement out of the call where channels are gated: it
// stands for what W_O reads.
void AttentionLayer::HoldReplacement(const AttentionInput& input,
                                     Call& call) const {
  if (!gates_channels() || !call.args.replacement) return;
  if (input.saved != nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {site_.name, "no replacement of heads whose channels are gated",
                 "one, with gradients wanted", "close them without a mean"});
  }
  call.replacement = std::exchange(call.args.replacement, {});
}

// heads += (1 − f) · μ of the heads that were computed.
void AttentionLayer::AddReplacement(Context& context, const Call& call,
                                    TensorView heads) const {
  const AttentionArgs& args = call.args;
  if (!call.replacement || !args.gates) return;
  const TensorView out = AsRun(call.problem, heads);
  const Shape shape = {out.shape[0], out.shape[1], out.shape[2], out.shape[3]};
  ConstTensorView f = args.gates;
  f.rank = 4;
  f.shape[3] = f.stride[3] = 1;
  const Temp gated(context, DType::kF32, shape),
      added(context, out.type, shape);
  const ConstTensorView mean = Broadcast(call.replacement, shape);
  Multiply(context, mean, Broadcast(f, shape), gated.view());
  AddScaled(context, mean, -1, gated.view(), gated.view());
  Copy(context, gated.view(), added.view());
  if (args.active_heads.is_all()) return AddTo(context, added.view(), out);
  for (const int32_t head : args.active_heads.heads()) {
    AddTo(context, Slice(added.view(), 2, head, head + 1),
          Slice(out, 2, head, head + 1));
  }
}

// g ∘ heads [T, H·E], by channels, which is what hooks then see.
Temp AttentionLayer::GateChannels(Context& context, const AttentionInput& input,
                                  ConstTensorView heads, Call& call) const {
  Temp gated(context, heads.type, {heads.shape[0], heads.shape[1]});
  Temp& gate = call.output_gate.gate;
  gate = weights_.output_gate.Forward(context, input.x, heads.type);
  Multiply(context, heads, gate.view(), gated.view());
  AddReplacement(context, call,
                 HeadsOf(gated.view(), 0, config_.heads, value_dim()));
  return gated;
}

// The layer's gates of a call, [T, H]; null: all were 1.
ConstTensorView AttentionLayer::GatesOf(const AttentionSaved& saved) const {
  if (saved.output_gate.product) return saved.output_gate.product.view();
  if (weights_.output_gate && !gates_channels()) {
    return saved.output_gate.gate.view();
  }
  return saved.gates.gates.view();
}

// dgates [T, H] by the product of the gates of heads; adds to dx.
void AttentionLayer::GatesBackward(Context& context,
                                   const AttentionInput& input,
                                   const AttentionSaved& saved,
                                   TensorView dgates, TensorView dx) const {
  if (weights_.output_gate && !gates_channels()) {
    const OutputGateSaved& output = saved.output_gate;
    const ConstTensorView gate = output.gate.view();
    Temp memory = CopyOf(context, dgates);
    if (output.product) {
      Multiply(context, dgates, saved.gates.gates.view(), memory.view());
      Multiply(context, dgates, gate, dgates);
    }
    weights_.output_gate.Backward(context, input.x, gate, memory.view(), dx);
  }
  if (!weights_.gates.trainable()) return;
  weights_.gates.Backward(context, input.x, *input.batch, input.gate_draw,
                          saved.gates, dgates, dx);
}

}  // namespace headwise
