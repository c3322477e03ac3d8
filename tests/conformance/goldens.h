// The tiny checkpoints of tools/make_goldens.py.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

namespace headwise {

inline const std::filesystem::path kGoldens = HEADWISE_GOLDENS;

// Every family, then shapes and settings that few checkpoints have.
inline auto GoldenNames() {
  return testing::Values(
      "gpt2", "bert", "bert-headless", "roberta", "distilbert", "llama",
      "llama-linear", "llama-3", "mistral", "qwen2", "qwen3", "marian",
      "gpt2-scaled", "gpt2-unscaled", "bert-odd", "llama-odd", "marian-odd");
}

// "llama_3"
inline std::string TestName(const testing::TestParamInfo<const char*>& one) {
  std::string name = one.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class GoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder())) {
      GTEST_SKIP() << "no " << folder() << ": tools/make_goldens.py makes it";
    }
  }
  static std::filesystem::path folder() { return kGoldens / GetParam(); }
};

}  // namespace headwise
