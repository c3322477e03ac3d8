// The gradient of every parameter of every family's tiny checkpoint against
// PyTorch's (tools/make_goldens.py --gradients).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "goldens.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"
#include "headwise/model/parameters.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/tensor/half.h"

namespace headwise::gradient_test {
namespace {

// Both inputs of a golden end to end.
struct Inputs {
  std::vector<int32_t> ids;
  SequenceBatch batch;
};

Inputs Read(const Safetensors& file, const char* name) {
  Inputs inputs;
  std::vector<int64_t> lengths;
  for (const char* index : {"0.", "1."}) {
    const ConstTensorView view = file.Find(std::string(index) + name);
    if (!view) continue;
    inputs.ids.insert(inputs.ids.end(), view.As<int32_t>(),
                      view.As<int32_t>() + view.shape[0]);
    lengths.push_back(view.shape[0]);
  }
  inputs.batch = MakeBatch(lengths);
  return inputs;
}

// dx [rows, width] by a loss of the stack's output x; returns the loss.
double LossOf(Context& context, const Model& model, const Safetensors& golden,
              const Tensor& x, Tensor& dx) {
  if (!model.has_head()) {
    double loss = 0;
    const std::vector<float> values = ToVector<float>(context, x.view());
    std::vector<float> slopes;
    const float scale = 1.0f / static_cast<float>(x.shape(0));
    for (const char* name : {"0.dfinal", "1.dfinal"}) {
      const ConstTensorView given = golden.At(name);
      for (int64_t i = 0; i < given.shape[0] * given.shape[1]; ++i) {
        loss += given.As<float>()[i] * scale * values[slopes.size()];
        slopes.push_back(given.As<float>()[i] * scale);
      }
    }
    Copy(context, Reshaped(ViewOf(slopes), {x.shape(0), x.shape(1)}),
         dx.view());
    context.Synchronize();
    return loss;
  }
  const std::vector<int32_t> targets = Read(golden, "targets").ids;
  const double count = static_cast<double>(
      targets.size() -
      std::count(targets.begin(), targets.end(), kIgnoreTarget));
  HeadTargets head;
  head.targets = targets;
  head.smoothing = model.decoder() != nullptr ? 0.1f : 0.0f;
  head.scale = static_cast<float>(1 / count);
  return model.HeadLoss(context, x.view(), head, dx.view()) / count;
}

// Forward and backward of both inputs; returns the loss.
double Differentiate(Context& context, const Model& model,
                     const Safetensors& expected, const Safetensors& golden) {
  const int64_t width = model.config().width;
  const Inputs source = Read(expected, "input_ids");
  const Inputs target = Read(expected, "decoder_input_ids");
  StackSaved saved, decoder_saved;
  StackInput input;
  input.ids = source.ids;
  input.batch = &source.batch;
  input.saved = &saved;
  Tensor x(context, model.type(), {source.batch.total(), width});
  Tensor dx(context, model.type(), {source.batch.total(), width});
  model.Run(context, model.stack(), input, x.view());
  double loss = 0;
  if (model.decoder() == nullptr) {
    loss = LossOf(context, model, golden, x, dx);
  } else {
    StackInput decoder;
    decoder.ids = target.ids;
    decoder.batch = &target.batch;
    decoder.memory = std::as_const(x).view();
    decoder.memory_batch = &source.batch;
    decoder.saved = &decoder_saved;
    Tensor y(context, model.type(), {target.batch.total(), width});
    Tensor dy(context, model.type(), {target.batch.total(), width});
    model.Run(context, *model.decoder(), decoder, y.view());
    loss = LossOf(context, model, golden, y, dy);
    model.Backward(context, *model.decoder(), decoder, dy.view(), dx.view());
  }
  model.Backward(context, model.stack(), input, dx.view());
  return loss;
}

class Gradients : public GoldenTest {};

// Of a golden's largest gradient, and of its loss. A golden is rounded to 11
// bits; biases of keys have a gradient of 0, but for rounding.
struct GradientTolerance {
  double gradient = 4e-4;
  double loss = 1e-4;
  double least = 1e-3;
};
GradientTolerance ToleranceOf(const Place& place, const std::string& golden) {
  if (place.type == DType::kF32) return {};
  return {.gradient = HalfToleranceOf(golden).gradients,
          .loss = 2e-2,
          .least = 2e-2};
}

void ExpectGradients(const std::filesystem::path& folder, const Place& place) {
  SCOPED_TRACE(place.name);
  const Safetensors golden =
      Safetensors::Open(folder / "gradients.safetensors");
  const auto store = ParameterStore::Load(
      folder, {.device = place.device, .compute = place.type});
  const auto model = BuildModel(OpenConfig(folder), store, place.type);
  const GradientTolerance tolerance =
      ToleranceOf(place, folder.filename().string());
  Context context = place.MakeContext();
  store->Round(context);
  const double loss =
      Differentiate(context, *model,
                    Safetensors::Open(folder / "expected.safetensors"), golden);
  EXPECT_NEAR(loss, golden.At("loss").As<float>()[0], tolerance.loss);
  int compared = 0;
  for (const auto& [name, entry] : store->entries()) {
    const ConstTensorView ref = golden.Find(name);
    ASSERT_EQ(static_cast<bool>(ref), static_cast<bool>(entry.gradient))
        << name;
    if (!ref) continue;
    const float scale = golden.At(name + ".scale").As<float>()[0];
    double worst = 0;
    const auto found = ToVector<float>(context, entry.gradient);
    for (size_t i = 0; i < found.size(); ++i) {
      const double error = found[i] - scale * FromF16(ref.As<uint16_t>()[i]);
      worst = std::max(worst, std::isnan(error) ? INFINITY : std::abs(error));
    }
    // Against the tensor's largest gradient: stricter than 1e-3 · max(1,
    // |ref|), since all are below 1 or nearly so.
    worst /= std::max<double>(scale, tolerance.least);
    EXPECT_LE(worst, tolerance.gradient)
        << name << ", largest gradient " << scale;
    ++compared;
  }
  EXPECT_GE(compared, 12);
}

TEST_P(Gradients, EqualPyTorchs) {
  for (const Place& place : Places()) ExpectGradients(folder(), place);
}

TEST_P(Gradients, AreTheSameAtAnyThreadCount) {
  const Safetensors expected =
      Safetensors::Open(folder() / "expected.safetensors");
  const Safetensors golden =
      Safetensors::Open(folder() / "gradients.safetensors");
  std::vector<std::shared_ptr<ParameterStore>> stores;
  for (const int threads : {1, 3}) {
    Context context({threads, ""});
    stores.push_back(ParameterStore::Load(folder()));
    const auto model = BuildModel(OpenConfig(folder()), stores.back());
    Differentiate(context, *model, expected, golden);
  }
  for (const auto& [name, entry] : stores[0]->entries()) {
    const ConstTensorView other = stores[1]->entries().at(name).gradient;
    ASSERT_EQ(static_cast<bool>(entry.gradient), static_cast<bool>(other));
    if (!other) continue;
    for (int64_t i = 0; i < entry.gradient.size(); ++i) {
      ASSERT_EQ(entry.gradient.As<float>()[i], other.As<float>()[i]) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Gradients, TrainableGoldenNames(), TestName);

}  // namespace
}  // namespace headwise::gradient_test
