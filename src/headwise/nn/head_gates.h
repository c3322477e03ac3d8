// How an attention layer chooses its heads. Whatever the way, the outcome is a
// gate of each token and head, out = g · O, which the operator applies and
// whose gradient it returns:
//
//   head dropout   training only: whole heads of a sequence are zeroed, the
//                  rest multiplied by heads / kept, so that every gate is 1 on
//                  average; at least one head is kept (Zhou et al. 2020)
//   hard concrete  a learned gate a head that can close for good
//                  (Louizos et al. 2018, Voita et al. 2019)
//   mixture        a router chooses heads for each token (Jin et al. 2024)
//
// A head whose gates are all 0 in a call is not computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/linear.h"
#include "headwise/nn/parameter.h"
#include "headwise/tensor/temp.h"

namespace headwise {

struct SequenceBatch;

enum class GateKind : uint8_t { kOpen, kHardConcrete, kMixture };

struct GateConfig {
  GateKind kind = GateKind::kOpen;
  // Mixture: the first heads, which every token uses, and how many a token
  // uses in all.
  int64_t shared = 0;
  int64_t active = 0;
};

struct GateWeights {
  Parameter log_alpha;  // hard concrete: [H]
  // Mixture: logits of the routed heads, of the shared ones, and of the two
  // kinds (only where there are shared ones), side by side.
  Linear router;
};

// Training's additions to a run. Randomness is a function of (seed, stream).
struct GateTraining {
  float head_dropout = 0;  // probability of a head to fall, in [0, 1)
  // Weights of the penalties in the loss: of each hard-concrete gate's
  // probability to be open, and of a mixture's imbalance.
  float gate_penalty = 0;
  float balance = 0;
  float span_penalty = 0;    // of each head's span (head_span.h)
  float expert_balance = 0;  // of each mixture of experts (experts.h)
  uint64_t seed = 0;
  double* loss = nullptr;  // the penalties are added here
};

// One attention call's place in a training run; outside training null.
struct GateDraw {
  const GateTraining* training = nullptr;
  uint64_t stream = 0;  // of the step and the place in the model
};

// What a backward needs of a forward, on the context's device. T tokens of B
// sequences, H heads.
struct GateSaved {
  Temp gates;                   // [T, H] as applied; empty: all are 1
  Temp own;                     // [T, H] before head dropout; empty: all are 1
  Temp dropout;                 // [B, H] factors; empty: none
  Temp slopes;                  // hard concrete: ∂g/∂log α, [B, H]
  Temp routes;                  // mixture: [T, router] softmaxes
  Temp chosen;                  // mixture: f64, share of tokens a routed head
  std::vector<int32_t> active;  // heads with a gate above 0, ascending
  // Where a hook put gates on top: those, the products as run, and what
  // replaces a head, [T, H, E].
  Temp outer;
  Temp product;
  Temp replacement;
};

class HeadGates {
 public:
  HeadGates() = default;
  HeadGates(GateConfig config, GateWeights weights, int64_t heads);

  const GateConfig& config() const { return config_; }
  const GateWeights& weights() const { return weights_; }

  // Gates of x [T, d]. saved.gates stays empty where every gate is 1.
  void Forward(Context& context, ConstTensorView x, const SequenceBatch& batch,
               const GateDraw& draw, GateSaved& saved) const;

  // dgates [T, H] by saved.gates; gradients of the weights and penalties are
  // added to, and the router's part to dx [T, d].
  void Backward(Context& context, ConstTensorView x, const SequenceBatch& batch,
                const GateDraw& draw, const GateSaved& saved,
                ConstTensorView dgates, TensorView dx) const;
  // Whether Backward has anything to do.
  bool trainable() const;

 private:
  void DrawDropout(Context& context, const SequenceBatch& batch,
                   const GateDraw& draw, GateSaved& saved) const;
  void OpenConcrete(Context& context, const SequenceBatch& batch,
                    const GateDraw& draw, GateSaved& saved) const;
  void Route(Context& context, ConstTensorView x, const GateDraw& draw,
             GateSaved& saved) const;
  void RouteBackward(Context& context, ConstTensorView x, const GateDraw& draw,
                     const GateSaved& saved, ConstTensorView down,
                     TensorView dx) const;
  int64_t routed() const { return heads_ - config_.shared; }

  GateConfig config_;
  GateWeights weights_;
  Values log_alpha_;
  int64_t heads_ = 0;
};

// The gate of log α when nothing is drawn, and the probability that a drawn
// one is not 0.
double ConcreteGate(double log_alpha);
double ConcreteOpen(double log_alpha);

// log α of a new gate: open, and a drawn one is 1 nine times of ten.
inline constexpr float kNewLogAlpha = 3;

}  // namespace headwise
