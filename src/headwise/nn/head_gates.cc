// Gates of heads: what is drawn, which steps of ops/gate make the gates, and
// their penalties; the mixture's router is in head_router.cc.
// Door: head_gates.h.
#include "headwise/nn/head_gates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/gate/gate.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

constexpr ConcreteProblem kConcrete = {
    .temperature = 0.33, .low = -0.1, .high = 1.1};
constexpr double kEdge = 1e-6;  // of the uniform numbers

// Apart from each other and from the dropout of activations (model.cc).
constexpr uint64_t kDropStreams = uint64_t{1} << 18;
constexpr uint64_t kConcreteStreams = uint64_t{1} << 17;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Numbers of each sequence and head, made here, for the device.
template <typename T>
Temp PerHead(Context& context, const std::vector<T>& values, int64_t sequences,
             int64_t heads) {
  return CopyOf(context, Reshaped(ViewOf(values), {sequences, heads}));
}

}  // namespace

double ConcreteGate(double log_alpha) {
  const double wide =
      Sigmoid(log_alpha) * (kConcrete.high - kConcrete.low) + kConcrete.low;
  return std::clamp(wide, 0.0, 1.0);
}

double ConcreteOpen(double log_alpha) {
  return Sigmoid(log_alpha - kConcrete.temperature *
                                 std::log(-kConcrete.low / kConcrete.high));
}

HeadGates::HeadGates(GateConfig config, GateWeights weights, int64_t heads)
    : config_(config),
      weights_(std::move(weights)),
      log_alpha_(weights_.log_alpha),
      heads_(heads) {}

bool HeadGates::trainable() const {
  return weights_.log_alpha.trainable() ||
         (weights_.router && weights_.router.parts()[0].weight.trainable());
}

void HeadGates::DrawDropout(Context& context, const SequenceBatch& batch,
                            const GateDraw& draw, GateSaved& saved) const {
  Rng rng(draw.training->seed, draw.stream + kDropStreams);
  const int64_t sequences = batch.sequences();
  std::vector<float> factors(sequences * heads_);
  for (int64_t b = 0; b < sequences; ++b) {
    float* own = factors.data() + b * heads_;
    int64_t kept = 0;
    for (int64_t h = 0; h < heads_; ++h) {
      own[h] = rng.Uniform() < draw.training->head_dropout ? 0.0f : 1.0f;
      kept += own[h] > 0 ? 1 : 0;
    }
    if (kept == 0) {
      own[rng.Below(heads_)] = 1;
      kept = 1;
    }
    for (int64_t h = 0; h < heads_; ++h) {
      own[h] *= static_cast<float>(heads_) / static_cast<float>(kept);
    }
  }
  saved.dropout = PerHead(context, factors, sequences, heads_);
}

// Training draws a gate for each sequence; otherwise all share one.
void HeadGates::OpenConcrete(Context& context, const SequenceBatch& batch,
                             const GateDraw& draw, GateSaved& saved) const {
  const int64_t sequences = batch.sequences();
  saved.slopes = Temp(context, DType::kF32, {sequences, heads_});
  Temp noise, open;
  ConcreteArgs args = {.log_alpha = log_alpha_.view(context),
                       .starts = batch.StartsOn(context),
                       .gates = saved.own.view(),
                       .slopes = saved.slopes.view()};
  if (draw.training != nullptr) {
    Rng rng(draw.training->seed, draw.stream + kConcreteStreams);
    std::vector<double> drawn(sequences * heads_);
    for (double& u : drawn) u = kEdge + (1 - 2 * kEdge) * rng.Uniform();
    noise = PerHead(context, drawn, sequences, heads_);
    args.noise = noise.view();
  }
  const bool adds = draw.training != nullptr && draw.training->loss != nullptr;
  if (adds) {
    open = Temp(context, DType::kF64, {heads_});
    args.open = open.view();
  }
  ConcreteForward(context, kConcrete, args);
  if (!adds) return;
  for (const double one : ToVector<double>(context, open.view())) {
    *draw.training->loss += draw.training->gate_penalty * one;
  }
}

void HeadGates::Forward(Context& context, ConstTensorView x,
                        const SequenceBatch& batch, const GateDraw& draw,
                        GateSaved& saved) const {
  const bool drops =
      draw.training != nullptr && draw.training->head_dropout > 0;
  if (heads_ == 0 || (config_.kind == GateKind::kOpen && !drops)) return;
  const Shape shape = {batch.total(), heads_};
  saved.gates = Temp(context, DType::kF32, shape);
  if (config_.kind != GateKind::kOpen) {
    saved.own = Temp(context, DType::kF32, shape);
  }
  if (config_.kind == GateKind::kHardConcrete) {
    OpenConcrete(context, batch, draw, saved);
  } else if (config_.kind == GateKind::kMixture) {
    Route(context, x, draw, saved);
  }
  if (drops) {
    DrawDropout(context, batch, draw, saved);
    GateSequences(context, batch.StartsOn(context), saved.dropout.view(),
                  saved.own.view(), saved.gates.view());
  } else {
    Copy(context, saved.own.view(), saved.gates.view());
  }
  const Temp active(context, DType::kI32, {heads_});
  MarkActive(context, saved.gates.view(), active.view());
  int32_t head = 0;
  for (const int32_t is_active : ToVector<int32_t>(context, active.view())) {
    if (is_active != 0) saved.active.push_back(head);
    ++head;
  }
}

void HeadGates::Backward(Context& context, ConstTensorView x,
                         const SequenceBatch& batch, const GateDraw& draw,
                         const GateSaved& saved, ConstTensorView dgates,
                         TensorView dx) const {
  Temp memory;
  const ConstTensorView starts = batch.StartsOn(context);
  ConstTensorView down = dgates;  // by the gates before head dropout
  if (saved.dropout) {
    memory = Temp(context, DType::kF32, {batch.total(), heads_});
    GateSequences(context, starts, saved.dropout.view(), dgates, memory.view());
    down = memory.view();
  }
  if (config_.kind == GateKind::kMixture) {
    return RouteBackward(context, x, draw, saved, down, dx);
  }
  const float penalty =
      draw.training != nullptr ? draw.training->gate_penalty : 0.0f;
  ConcreteBackward(context, kConcrete,
                   {.log_alpha = log_alpha_.view(context),
                    .starts = starts,
                    .slopes = saved.slopes.view()},
                   {.dgates = down,
                    .penalty = penalty,
                    .dlog_alpha = weights_.log_alpha.gradient});
}

}  // namespace headwise
