// Toys: one attention module in training. Door: toy.h.
#include "headwise/study/support/toy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "headwise/ops/adamw/adamw.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/train/schedule.h"

namespace headwise {
namespace {

constexpr double kClip = 1;

// AdamW over the fields of a module's parameters.
class ToyOptimizer {
 public:
  explicit ToyOptimizer(MultiHeadAttentionParameters& values)
      : values_(values) {}

  void Step(Context& context, MultiHeadAttentionParameters& gradients,
            AdamWProblem how) {
    double squares = 0;
    Visit(gradients, [&](const char*, Tensor& tensor) {
      if (tensor.size() == 0) return;
      AddSumOfSquares(context, tensor.view(), {&squares, DType::kF64, {1}});
    });
    const double norm = std::sqrt(squares);
    how.gradient_scale = static_cast<float>(norm > kClip ? kClip / norm : 1);
    std::map<std::string, const float*> gradient;
    Visit(gradients, [&](const char* name, Tensor& tensor) {
      gradient[name] = tensor.As<float>();
    });
    Visit(values_, [&](const char* name, Tensor& value) {
      Moments& moments = moments_[name];
      moments.first.resize(Size(value));
      moments.second.resize(Size(value));
      AdamW(context, how,
            {.value = View(value.As<float>(), {value.size()}),
             .gradient = View(gradient[name], {value.size()}),
             .first = View(moments.first.data(), {value.size()}),
             .second = View(moments.second.data(), {value.size()})});
    });
  }

  template <typename Function>
  static void Visit(MultiHeadAttentionParameters& parameters,
                    const Function& function) {
    MultiHeadAttentionParameters::VisitFields(
        parameters, [&](const char* name, Tensor& tensor, const char*) {
          if (tensor.size() > 0) function(name, tensor);
        });
  }

 private:
  struct Moments {
    std::vector<float> first, second;
  };
  static size_t Size(const Tensor& tensor) {
    return static_cast<size_t>(tensor.size());
  }

  MultiHeadAttentionParameters& values_;
  std::map<std::string, Moments> moments_;
};

// Rows and columns of the target within the output.
struct Extent {
  Extent(const MultiHeadAttention& module, const ToyBatch& batch)
      : rows(batch.target.shape(0) * batch.target.shape(1)),
        columns(batch.target.shape(2)),
        width(module.output_dim()) {}
  int64_t rows, columns, width;
};

// dout [B, M, width] = ∂ mean squared error / ∂ out; returns the error.
double SquaredError(const Extent& e, const Tensor& out, const Tensor& target,
                    Tensor& dout) {
  const double count = static_cast<double>(e.rows * e.columns);
  double sum = 0;
  for (int64_t r = 0; r < e.rows; ++r) {
    const float* y = out.As<float>() + r * e.width;
    const float* t = target.As<float>() + r * e.columns;
    float* dy = dout.As<float>() + r * e.width;
    for (int64_t c = 0; c < e.columns; ++c) {
      const double miss = static_cast<double>(y[c]) - t[c];
      sum += miss * miss;
      dy[c] = static_cast<float>(2 * miss / count);
    }
  }
  return sum / count;
}

}  // namespace

MultiHeadAttentionInput ToyBatch::Input() const {
  MultiHeadAttentionInput input;
  input.x = x.view();
  if (source.size() > 0) input.source = source.view();
  return input;
}

double TrainToy(Context& context, MultiHeadAttention& module,
                const ToyTask& task, const ToyTraining& how,
                StudyClock& clock) {
  TrainConfig schedule;
  schedule.steps = how.steps;
  schedule.rate = how.rate;
  schedule.warmup = std::min<int64_t>(20, how.steps / 10);
  ToyOptimizer optimizer(module.parameters());
  const int64_t tail = std::max<int64_t>(1, how.steps / 10);
  double last = 0;
  for (int64_t step = 0; step < how.steps; ++step) {
    Rng rng(how.seed, static_cast<uint64_t>(step));
    const ToyBatch batch = task(rng);
    const Extent extent(module, batch);
    const MultiHeadAttentionInput input = batch.Input();
    Tensor out(DType::kF32, {batch.x.shape(0), batch.x.shape(1), extent.width});
    Tensor dout(DType::kF32,
                {batch.x.shape(0), batch.x.shape(1), extent.width});
    MultiHeadAttentionActivations kept;
    module.Forward(context, input, out.view(), &kept);
    const double loss = SquaredError(extent, out, batch.target, dout);
    MultiHeadAttentionParameters gradients(module.config());
    MultiHeadAttentionGradients into;
    into.parameters = &gradients;
    module.Backward(context, input, kept, dout.view(), into);
    if (how.freeze) how.freeze(gradients);
    AdamWProblem adam;
    adam.step = step + 1;
    adam.rate = static_cast<float>(RateAt(schedule, step));
    adam.beta2 = 0.99f;
    optimizer.Step(context, gradients, adam);
    if (how.on_step) how.on_step(step, loss);
    if (step >= how.steps - tail) last += loss / static_cast<double>(tail);
    clock.Tick();
  }
  return last;
}

Tensor ToyOutput(Context& context, const MultiHeadAttention& module,
                 const ToyBatch& batch) {
  const Extent extent(module, batch);
  const Tensor out = module.Forward(context, batch.Input());
  Tensor columns(DType::kF32, {batch.target.shape(0), batch.target.shape(1),
                               extent.columns});
  for (int64_t r = 0; r < extent.rows; ++r) {
    std::copy_n(out.As<float>() + r * extent.width, extent.columns,
                columns.As<float>() + r * extent.columns);
  }
  return columns;
}

std::vector<double> ExplainedShares(Context& context,
                                    const MultiHeadAttention& module,
                                    const ToyBatch& batch) {
  const Extent extent(module, batch);
  const Tensor out = ToyOutput(context, module, batch);
  std::vector<double> shares;
  for (int64_t c = 0; c < extent.columns; ++c) {
    const double n = static_cast<double>(extent.rows);
    double missed = 0, sum = 0, squares = 0;
    for (int64_t r = 0; r < extent.rows; ++r) {
      const double t = batch.target.As<float>()[r * extent.columns + c];
      const double miss = out.As<float>()[r * extent.columns + c] - t;
      missed += miss * miss;
      sum += t;
      squares += t * t;
    }
    shares.push_back(1 - missed / (squares - sum * sum / n));
  }
  return shares;
}

double ToyError(Context& context, const MultiHeadAttention& module,
                const ToyBatch& batch) {
  const Tensor out = ToyOutput(context, module, batch);
  double sum = 0;
  for (int64_t i = 0; i < out.size(); ++i) {
    const double miss =
        static_cast<double>(out.As<float>()[i]) - batch.target.As<float>()[i];
    sum += miss * miss;
  }
  return sum / static_cast<double>(out.size());
}

}  // namespace headwise
