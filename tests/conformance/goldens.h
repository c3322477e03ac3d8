// The tiny checkpoints of tools/make_goldens.py.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/tensor.h"

namespace headwise {

inline const std::filesystem::path kGoldens = HEADWISE_GOLDENS;

// Where and in what a model is held to its golden.
struct Place {
  const char* name = "the CPU in f32";
  Device device = {};
  DType type = DType::kF32;

  Context MakeContext(int threads = 2) const {
    return Context({.threads = threads, .device = device});
  }
};

// How far from a golden's f32 a model in bf16 may be: 2 % of a tensor's largest
// activation, 5 % of its largest gradient, or twice as far as PyTorch in bf16
// is (tools/make_goldens.py --halves).
struct HalfTolerance {
  double activations = 2e-2;
  double gradients = 5e-2;
};
inline HalfTolerance HalfToleranceOf(const std::string& golden) {
  static const Json all = ReadJson(kGoldens / "bf16.json");
  const Json& theirs = all.at(golden);
  HalfTolerance ours;
  ours.activations =
      std::max(ours.activations, 2 * theirs.at("activations").get<double>());
  ours.gradients = std::max(ours.gradients, 2 * theirs.value("gradients", 0.0));
  return ours;
}

// The CPU, and a GPU where there is one.
inline std::vector<Place> Places() {
  std::vector<Place> places = {{}};
  const Place gpu = {"a GPU in f32", Device::Cuda(), DType::kF32};
  try {
    gpu.MakeContext();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
    return places;
  }
  places.push_back(gpu);
  places.push_back({"a GPU in bf16", Device::Cuda(), DType::kBF16});
  return places;
}

// The folders, of whose names the first word is a model_type: families, and
// shapes and settings that few checkpoints have.
inline std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens)) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Those that can be trained: with gradients.
inline auto TrainableGoldenNames() {
  std::vector<std::string> names;
  for (const std::string& name : GoldenNames()) {
    const auto file = kGoldens / name / "gradients.safetensors";
    if (std::filesystem::exists(file)) names.push_back(name);
  }
  return testing::ValuesIn(names);
}

// "llama_3"
inline std::string TestName(const testing::TestParamInfo<std::string>& one) {
  std::string name = one.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class GoldenTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder() / "expected.safetensors")) {
      GTEST_SKIP() << folder() << " is to be made by tools/make_goldens.py";
    }
  }
  static std::filesystem::path folder() { return kGoldens / GetParam(); }
};

}  // namespace headwise
