// Gates of heads, element by element, forward and backward: how a layer's own
// gates come about (hard concrete, a mixture's router, factors of whole
// sequences such as head dropout), how a caller's gates stand on top of them,
// and the table of learned spans. What is drawn, which kind a layer has and
// what of it goes into the loss is the caller's; no random number is made here.
//
// Letters in shapes: T tokens of B sequences end to end, H heads; sequence b is
// tokens starts[b] … starts[b + 1] − 1, and starts [B + 1] is i32. Gates and
// their gradients are f32 and dense, sums are made in f64 in one order.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// All throw Error(kInvalidArgument) naming the view that does not fit.

// ---- Hard concrete: a learned gate a head that can close for good (Louizos et
// ---- al. 2018). With the logistic function σ and u from noise,
//
//   s = σ((ln u − ln(1 − u) + log α) / temperature), or σ(log α) without noise
//   g = clamp(s · (high − low) + low, 0, 1)
//   P(g ≠ 0) = σ(log α − temperature · ln(−low / high))

struct ConcreteProblem {
  double temperature = 0.33;
  double low = -0.1;
  double high = 1.1;

  friend bool operator==(const ConcreteProblem&,
                         const ConcreteProblem&) = default;
};

struct ConcreteArgs {
  ConstTensorView log_alpha = {};  // f32 [H]
  ConstTensorView starts = {};     // i32 [B + 1]
  ConstTensorView noise = {};  // f64 [B, H], within (0, 1); null: none is drawn
  TensorView gates = {};       // f32 [T, H]: that of the token's sequence
  TensorView slopes = {};      // f32 [B, H]: ∂g/∂log α, for the backward
  TensorView open = {};        // f64 [H]: P(g ≠ 0); null: not wanted
};

void ConcreteForward(Context& context, const ConcreteProblem& problem,
                     const ConcreteArgs& args);

struct ConcreteGrads {
  ConstTensorView dgates = {};  // f32 [T, H]
  float penalty = 0;            // weight of Σ P(g ≠ 0) in the loss
  TensorView dlog_alpha = {};   // f32 [H]; added to
};

// args: log_alpha, starts, and slopes as the forward left them.
void ConcreteBackward(Context& context, const ConcreteProblem& problem,
                      const ConcreteArgs& args, const ConcreteGrads& grads);

// ---- The router of a mixture of heads (Jin et al. 2024), with S shared heads,
// ---- which come first, and R routed ones:
//
//   shared head i   g = 2·α_0 · S · softmax(z_s)_i
//   routed head i   g = 2·α_1 · R · softmax(z_r)_i  if among the top, else 0
//   α = softmax(z_k); without shared heads 2·α_1 is 1
//
// A token's top are the active − S likeliest routed heads, of equal ones the
// first. Its logits z are z_r, z_s and z_k side by side, K = R + S + 2 of them;
// K = R without shared heads.

struct RouteProblem {
  int64_t shared = 0;
  int64_t active = 0;  // heads that a token uses in all

  friend bool operator==(const RouteProblem&, const RouteProblem&) = default;
};

struct RouteArgs {
  TensorView routes = {};  // f32 [T, K]: logits, which become softmaxes
  TensorView gates = {};   // f32 [T, H]
  TensorView chosen = {};  // f64 [R]: share of tokens with this head at the top
  TensorView mean = {};    // f64 [R]: mean of its softmax; null: not wanted
};

void RouteForward(Context& context, const RouteProblem& problem,
                  const RouteArgs& args);

struct RouteGrads {
  ConstTensorView dgates = {};  // f32 [T, H]
  float balance = 0;            // weight of Σ mean · chosen in the loss
  TensorView dlogits = {};      // f32 [T, K]; overwritten
};

// args as the forward left them; mean is not read.
void RouteBackward(Context& context, const RouteProblem& problem,
                   const RouteArgs& args, const RouteGrads& grads);

// ---- Adaptive spans (Sukhbaatar et al. 2019) as the bias of a distance d:
//
//   log m(d), m(d) = clamp((ramp + z − d) / ramp, 0, 1),
//   z = limit · clamp(span, 0, 1)

struct SpanProblem {
  int64_t ramp = 1;
  int64_t limit = 0;
  int64_t reach = 0;  // distances −reach … reach

  friend bool operator==(const SpanProblem&, const SpanProblem&) = default;
};

// spans: f32 [H]; table: f32 [H, 2 · reach + 1].
void SpanForward(Context& context, const SpanProblem& problem,
                 const ConstTensorView& spans, const TensorView& table);

struct SpanGrads {
  ConstTensorView dtable = {};  // f32 [H, 2 · reach + 1]
  float penalty = 0;            // weight of Σ z / limit in the loss
  TensorView dspans = {};       // f32 [H]; added to
};

void SpanBackward(Context& context, const SpanProblem& problem,
                  const ConstTensorView& spans, const SpanGrads& grads);

// ---- Gates in use.

// y [T, H] = x [T, H] · factors [B, H] of the token's sequence, all f32; x
// null: the factors. Its own backward: dx is the same of dy. y may be x.
void GateSequences(Context& context, const ConstTensorView& starts,
                   const ConstTensorView& factors, const ConstTensorView& x,
                   const TensorView& y);

// A caller's gates f and replacement μ on top of a layer's gates g:
// f · (g · O) + (1 − f) · μ is one gate f · g with the replacement
// (1 − f) / (1 − f · g) · μ, or 0 where f · g is 1. All f32; f and μ may have
// any strides.
struct ComposeArgs {
  ConstTensorView own = {};          // g [B, M, H]
  ConstTensorView outer = {};        // f [B, M, H]
  ConstTensorView replacement = {};  // μ [B, M, H, E]; null: 0
  TensorView product = {};           // [B, M, H]
  TensorView share = {};  // [B, M, H, E]: of μ; only with a replacement
};

void ComposeGates(Context& context, const ComposeArgs& args);

// active [H] (i32) = whether a head has a gate, of gates [T, H], that is not 0.
void MarkActive(Context& context, const ConstTensorView& gates,
                const TensorView& active);

}  // namespace headwise
