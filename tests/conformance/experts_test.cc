// Mixtures of experts against transformers' layers (tools/make_goldens.py
// --experts): outputs, all gradients and the router's balance.
#include "headwise/nn/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "goldens.h"
#include "headwise/format/safetensors.h"
#include "headwise/ops/copy/copy.h"

namespace headwise::expert_golden_test {
namespace {

struct Golden {
  const char* name;
  ExpertRouterConfig config;
  const char* shared;  // prefix of the shared expert's tensors
};

const Golden kExpertGoldens[] = {
    {"mixtral", {.active = 2, .normalized = true}, "shared"},
    {"qwen2_moe", {.active = 3}, "shared_expert"},
    {"deepseek_v3",
     {.score = RouterScore::kSigmoid,
      .active = 4,
      .normalized = true,
      .scale = 2.5f,
      .groups = 4,
      .active_groups = 2,
      .group_score = GroupScore::kBestTwo},
     "shared_experts"}};

// A golden's tensors on a device, with gradients.
class Layer {
 public:
  Layer(Context& context, const Golden& golden)
      : context_(context),
        file_(Safetensors::Open(kGoldens / "experts" /
                                (std::string(golden.name) + ".safetensors"))) {
    const std::string shared = std::string(golden.shared) + ".";
    ExpertsParts parts = {.name = golden.name, .config = golden.config};
    parts.router = LinearOf("gate.weight");
    if (file_.Find("gate.e_score_correction_bias")) {
      parts.correction = Make("gate.e_score_correction_bias");
      parts.correction.gradient = {};
    }
    parts.experts = ExpertsOf({.in = Make("experts.gate_up_proj"),
                               .down = Make("experts.down_proj")});
    if (file_.Find(shared + "up_proj.weight")) {
      parts.shared =
          Mlp(Activation::kSilu, LinearOf(shared + "gate_proj.weight"),
              LinearOf(shared + "up_proj.weight"),
              LinearOf(shared + "down_proj.weight"));
    }
    if (file_.Find("shared_expert_gate.weight")) {
      parts.shared_gate = LinearOf("shared_expert_gate.weight");
    }
    experts_ = Experts(std::move(parts));
  }

  // Holds y, dx and all gradients to the golden.
  void Check() {
    const Tensor x = OnDevice("x"), dy = OnDevice("dy");
    Tensor y = OnDevice("y"), dx = OnDevice("dx");
    Fill(context_, 0, y.view());
    Fill(context_, 0, dx.view());
    ExpertsSaved saved;
    double balance = 0;
    experts_.ForwardSaving(context_, x.view(), y.view(), Store::kOverwrite,
                           saved, {.balance = 1, .loss = &balance});
    saved.balance = 0;  // no part of the golden's gradients
    experts_.Backward(context_, x.view(), saved, dy.view(), dx.view());
    ExpectNear("y", y);
    ExpectNear("dx", dx);
    for (const auto& [name, gradient] : gradients_) {
      if (!file_.Find(name + ".gradient")) continue;
      ExpectNear(name + ".gradient", gradient);
    }
    if (!file_.Find("balance")) return;
    EXPECT_NEAR(balance, ToVector<float>(context_, file_.At("balance"))[0],
                1e-5);
  }

 private:
  Tensor OnDevice(const std::string& name) {
    return ToDevice(context_, file_.At(name));
  }
  Parameter Make(const std::string& name) {
    Tensor& value = values_[name] = OnDevice(name);
    Tensor& gradient = gradients_[name] = OnDevice(name);
    Fill(context_, 0, gradient.view());
    return {name, std::as_const(value).view(), gradient.view()};
  }
  Linear LinearOf(const std::string& name) {
    return Linear({{Make(name), {}}}, WeightLayout::kOutIn);
  }
  void ExpectNear(const std::string& name, const Tensor& found) {
    const auto expected = ToVector<float>(context_, file_.At(name));
    const auto values = ToVector<float>(context_, found.view());
    ASSERT_EQ(values.size(), expected.size()) << name;
    float most = 0;
    for (const float one : expected) most = std::max(most, std::abs(one));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], expected[i], 1e-5 * most) << name << " " << i;
    }
  }

  Context& context_;
  Safetensors file_;
  std::map<std::string, Tensor> values_, gradients_;
  Experts experts_;
};

TEST(ExpertGoldens, LayersAreThoseOfTransformers) {
  for (const Place& place : Places()) {
    if (place.type != DType::kF32) continue;  // bf16 chooses other experts
    Context context = place.MakeContext();
    for (const Golden& golden : kExpertGoldens) {
      SCOPED_TRACE(std::string(golden.name) + " on " + place.name);
      Layer(context, golden).Check();
    }
  }
}

}  // namespace
}  // namespace headwise::expert_golden_test
