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
#include "headwise/ops/loss/loss.h"
#include "headwise/tensor/half.h"

namespace headwise {
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
    float* to = dx.As<float>();
    const float scale = 1.0f / static_cast<float>(x.shape(0));
    for (const char* name : {"0.dfinal", "1.dfinal"}) {
      const ConstTensorView given = golden.At(name);
      for (int64_t i = 0; i < given.shape[0] * given.shape[1]; ++i) {
        *to = given.As<float>()[i] * scale;
        loss += *to * x.As<float>()[to - dx.As<float>()];
        ++to;
      }
    }
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
  Tensor x(DType::kF32, {source.batch.total(), width});
  Tensor dx(DType::kF32, {source.batch.total(), width});
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
    Tensor y(DType::kF32, {target.batch.total(), width});
    Tensor dy(DType::kF32, {target.batch.total(), width});
    model.Run(context, *model.decoder(), decoder, y.view());
    loss = LossOf(context, model, golden, y, dy);
    model.Backward(context, *model.decoder(), decoder, dy.view(), dx.view());
  }
  model.Backward(context, model.stack(), input, dx.view());
  return loss;
}

class Gradients : public GoldenTest {};

TEST_P(Gradients, EqualPyTorchs) {
  const Safetensors golden =
      Safetensors::Open(folder() / "gradients.safetensors");
  const auto store = ParameterStore::Load(folder());
  const auto model = BuildModel(OpenConfig(folder()), store);
  Context context({2, ""});
  const double loss = Differentiate(
      context, *model, Safetensors::Open(folder() / "expected.safetensors"),
      golden);
  EXPECT_NEAR(loss, golden.At("loss").As<float>()[0], 1e-4);
  int compared = 0;
  double worst_of_all = 0;
  for (const auto& [name, entry] : store->entries()) {
    const ConstTensorView ref = golden.Find(name);
    ASSERT_EQ(static_cast<bool>(ref), static_cast<bool>(entry.gradient))
        << name;
    if (!ref) continue;
    const float scale = golden.At(name + ".scale").As<float>()[0];
    double worst = 0;
    for (int64_t i = 0; i < entry.gradient.size(); ++i) {
      const double error = entry.gradient.As<float>()[i] -
                           scale * FromF16(ref.As<uint16_t>()[i]);
      worst = std::max(worst, std::isnan(error) ? INFINITY : std::abs(error));
    }
    // Against the tensor's largest gradient: stricter than 1e-3 · max(1,
    // |ref|), since all are below 1 or nearly so. The golden is rounded to 11
    // bits. Biases of keys have a gradient of 0, but for rounding.
    worst /= std::max(scale, 1e-3f);
    EXPECT_LE(worst, 4e-4) << name << ", largest gradient " << scale;
    worst_of_all = std::max(worst_of_all, worst);
    ++compared;
  }
  EXPECT_GE(compared, 20);
  RecordProperty("worst", std::to_string(worst_of_all));
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

INSTANTIATE_TEST_SUITE_P(Families, Gradients, GoldenNames(), TestName);

}  // namespace
}  // namespace headwise
