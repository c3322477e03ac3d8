// Gates of heads: head dropout and hard concrete; the mixture's router is in
// head_router.cc. Door: head_gates.h.
#include "headwise/nn/head_gates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/nn/attention_layer.h"

namespace headwise {
namespace {

// The stretched concrete distribution: temperature, and the ends that are cut
// back to [0, 1].
constexpr double kTemperature = 0.33;
constexpr double kLow = -0.1;
constexpr double kHigh = 1.1;
constexpr double kEdge = 1e-6;  // of the uniform numbers

// Apart from each other and from the dropout of activations (model.cc).
constexpr uint64_t kDropStreams = uint64_t{1} << 18;
constexpr uint64_t kConcreteStreams = uint64_t{1} << 17;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Stretched {
  double gate;
  double slope;  // by what went into the sigmoid
};

Stretched Stretch(double x) {
  const double s = Sigmoid(x);
  const double wide = s * (kHigh - kLow) + kLow;
  const bool inside = wide > 0 && wide < 1;
  return {std::clamp(wide, 0.0, 1.0),
          inside ? (kHigh - kLow) * s * (1 - s) : 0.0};
}

}  // namespace

double ConcreteGate(double log_alpha) { return Stretch(log_alpha).gate; }

double ConcreteOpen(double log_alpha) {
  return Sigmoid(log_alpha - kTemperature * std::log(-kLow / kHigh));
}

HeadGates::HeadGates(GateConfig config, GateWeights weights, int64_t heads)
    : config_(config), weights_(std::move(weights)), heads_(heads) {}

bool HeadGates::trainable() const {
  return weights_.log_alpha.trainable() ||
         (weights_.router && weights_.router.parts()[0].weight.trainable());
}

void HeadGates::DrawDropout(const SequenceBatch& batch, const GateDraw& draw,
                            GateSaved& saved) const {
  Rng rng(draw.training->seed, draw.stream + kDropStreams);
  const int64_t sequences = batch.sequences();
  saved.dropout.assign(sequences * heads_, 0.0f);
  for (int64_t b = 0; b < sequences; ++b) {
    float* own = saved.dropout.data() + b * heads_;
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
}

// Training draws a gate for each sequence; otherwise all share one.
void HeadGates::OpenConcrete(const SequenceBatch& batch, const GateDraw& draw,
                             GateSaved& saved) const {
  const Tensor log_alpha = ToF32(weights_.log_alpha);
  const int64_t sequences = batch.sequences();
  saved.slopes.resize(sequences * heads_);
  float* gates = saved.own.As<float>();
  const bool drawn = draw.training != nullptr;
  Rng rng(drawn ? draw.training->seed : 0, draw.stream + kConcreteStreams);
  for (int64_t b = 0; b < sequences; ++b) {
    for (int64_t h = 0; h < heads_; ++h) {
      const double a = log_alpha.As<float>()[h];
      Stretched gate = Stretch(a);
      if (drawn) {
        const double u = kEdge + (1 - 2 * kEdge) * rng.Uniform();
        gate = Stretch((std::log(u) - std::log1p(-u) + a) / kTemperature);
        gate.slope /= kTemperature;
      }
      saved.slopes[b * heads_ + h] = static_cast<float>(gate.slope);
      for (int64_t t = batch.starts[b]; t < batch.starts[b + 1]; ++t) {
        gates[t * heads_ + h] = static_cast<float>(gate.gate);
      }
    }
  }
  if (!drawn || draw.training->loss == nullptr) return;
  for (int64_t h = 0; h < heads_; ++h) {
    *draw.training->loss +=
        draw.training->gate_penalty * ConcreteOpen(log_alpha.As<float>()[h]);
  }
}

void HeadGates::Forward(Context& context, ConstTensorView x,
                        const SequenceBatch& batch, const GateDraw& draw,
                        GateSaved& saved) const {
  const bool drops =
      draw.training != nullptr && draw.training->head_dropout > 0;
  if (heads_ == 0 || (config_.kind == GateKind::kOpen && !drops)) return;
  const int64_t rows = batch.total();
  saved.own = context.workspace().TakeArray<float>(rows * heads_);
  saved.gates = context.workspace().TakeArray<float>(rows * heads_);
  float* own = saved.own.As<float>();
  float* gates = saved.gates.As<float>();
  if (config_.kind == GateKind::kHardConcrete) {
    OpenConcrete(batch, draw, saved);
  } else if (config_.kind == GateKind::kMixture) {
    Route(context, x, draw, saved);
  } else {
    std::fill_n(own, rows * heads_, 1.0f);
  }
  std::copy_n(own, rows * heads_, gates);
  if (drops) {
    DrawDropout(batch, draw, saved);
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      for (int64_t t = batch.starts[b]; t < batch.starts[b + 1]; ++t) {
        for (int64_t h = 0; h < heads_; ++h) {
          gates[t * heads_ + h] *= saved.dropout[b * heads_ + h];
        }
      }
    }
  }
  for (int64_t h = 0; h < heads_; ++h) {
    int64_t t = 0;
    while (t < rows && gates[t * heads_ + h] == 0) ++t;
    if (t < rows) saved.active.push_back(static_cast<int32_t>(h));
  }
}

void HeadGates::Backward(Context& context, ConstTensorView x,
                         const SequenceBatch& batch, const GateDraw& draw,
                         const GateSaved& saved, const float* dgates,
                         TensorView dx) const {
  const int64_t rows = batch.total();
  const Scratch memory = context.workspace().TakeArray<float>(rows * heads_);
  float* down = memory.As<float>();  // by the gates before head dropout
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    for (int64_t t = batch.starts[b]; t < batch.starts[b + 1]; ++t) {
      for (int64_t h = 0; h < heads_; ++h) {
        const float factor =
            saved.dropout.empty() ? 1.0f : saved.dropout[b * heads_ + h];
        down[t * heads_ + h] = factor * dgates[t * heads_ + h];
      }
    }
  }
  if (config_.kind == GateKind::kMixture) {
    return RouteBackward(context, x, draw, saved, down, dx);
  }
  const Tensor log_alpha = ToF32(weights_.log_alpha);
  const TensorView& gradient = weights_.log_alpha.gradient;
  for (int64_t h = 0; h < heads_; ++h) {
    double sum = 0;
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const double slope = saved.slopes[b * heads_ + h];
      for (int64_t t = batch.starts[b]; t < batch.starts[b + 1]; ++t) {
        sum += slope * down[t * heads_ + h];
      }
    }
    if (draw.training != nullptr) {
      const double open = ConcreteOpen(log_alpha.As<float>()[h]);
      sum += draw.training->gate_penalty * open * (1 - open);
    }
    gradient.As<float>()[h] += static_cast<float>(sum);
  }
}

}  // namespace headwise
