// Profiles that a device sums, beside those of the host.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/model/checkpoint.h"

namespace headwise::device_sums_test {
namespace {

namespace fs = std::filesystem;

std::vector<TokenWindow> RandomWindows(const Model& model, int count,
                                       uint64_t seed) {
  Rng rng(seed);
  const auto draw = [&](uint64_t least, uint64_t more) {
    std::vector<int32_t> ids(least + rng.Below(more));
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(
          rng.Below(static_cast<uint64_t>(model.config().vocabulary)));
    }
    return ids;
  };
  std::vector<TokenWindow> windows;
  for (int n = 0; n < count; ++n) {
    TokenWindow window = WindowOfIds(draw(20, 10));
    if (model.config().encoder_decoder()) {
      window.target = WindowOfIds(draw(15, 12)).source;
      SetKey(window);
    }
    windows.push_back(std::move(window));
  }
  return windows;
}

Profile ProfileOf(Context& context, const Model& model,
                  std::vector<TokenWindow> windows) {
  ProfileOptions options;
  options.repeats = 0;
  options.min_visible = 4;
  Profiler profiler(context, model, nullptr, "a model", "", options);
  profiler.AddWindows(std::move(windows));
  return profiler.Take();
}

class DeviceSums : public testing::TestWithParam<const char*> {};

// All kinds of attention, windows of different lengths, more than a block.
TEST_P(DeviceSums, GiveTheProfileOfTheHost) {
  std::unique_ptr<Context> device;
  try {
    device = std::make_unique<Context>(
        ContextOptions{.threads = 2, .device = Device::Cuda()});
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kUnsupported);
    GTEST_SKIP() << "no GPU";
  }
  const fs::path folder =
      fs::path(HEADWISE_SOURCE) / "tests/conformance/goldens" / GetParam();
  const auto model = OpenModel(folder);
  Context host({.threads = 2, .implementations = ""});
  // A model keeps what it made of its weights for the first device it ran on.
  const Profile expected =
      ProfileOf(host, *OpenModel(folder), RandomWindows(*model, 70, 9));
  const Profile found =
      ProfileOf(*device, *model, RandomWindows(*model, 70, 9));
  EXPECT_EQ(found.counts, expected.counts);
  ASSERT_EQ(found.metrics.size(), expected.metrics.size());
  for (const auto& [name, tallies] : expected.metrics) {
    for (size_t h = 0; h < tallies.size(); ++h) {
      const Estimate a = found.Get(name, h), b = expected.Get(name, h);
      EXPECT_EQ(a.sequences, b.sequences) << name << " of head " << h;
      if (b.sequences == 0) continue;
      // A largest key may be another where two are all but equal.
      const bool is_count = name.find("argmax") != name.npos ||
                            name.find("semantic") != name.npos ||
                            name == "broad";
      EXPECT_NEAR(a.mean, b.mean,
                  (is_count ? .05 : 2e-3) * std::max(1.0, std::abs(b.mean)))
          << name << " of head " << h;
    }
  }
  const Profile again =
      ProfileOf(*device, *model, RandomWindows(*model, 70, 9));
  EXPECT_EQ(again.metrics, found.metrics);
}

INSTANTIATE_TEST_SUITE_P(Families, DeviceSums,
                         testing::Values("gpt2", "bert", "marian", "mistral"));

}  // namespace
}  // namespace headwise::device_sums_test
