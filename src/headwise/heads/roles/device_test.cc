// What is observed of a model on a GPU beside what is on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/base/mapped_file.h"
#include "headwise/base/temporary_folder.h"
#include "headwise/error.h"
#include "headwise/heads/composition/composition.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/heads/similarity/similarity.h"
#include "headwise/model/checkpoint.h"
#include "headwise/runtime/kept_work.h"
#include "headwise/tensor/matrix.h"

namespace headwise::roles_device_test {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Context> OnDevice() {
  try {
    ContextOptions options;
    options.device = Device::Cuda();
    return std::make_unique<Context>(options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return nullptr;
  }
}

// A shipped model in a context of its own, and a text for it.
struct Subject {
  Subject(const std::string& name, DType type)
      : checkpoint(fs::path(HEADWISE_SOURCE) / "assets" / name, {}, type) {}

  std::vector<TokenWindow> Windows(int64_t context, size_t most) const {
    const WindowCutter cutter(checkpoint.tokenizer(), checkpoint.config(),
                              {.context = context});
    Document document;
    const MappedFile file(fs::path(HEADWISE_SOURCE) /
                          "assets/text/the-lamp-at-sorrel-point.txt");
    document.text = file.text();
    std::vector<TokenWindow> windows = cutter.Cut(document);
    windows.resize(std::min(windows.size(), most));
    return windows;
  }

  Checkpoint checkpoint;
};

// In halves the mass of a sharp head moves by 1.1e-2.
double Tolerance(DType type) { return type == DType::kF32 ? 1e-4 : 1.5e-2; }

class OnTheDevice : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    device_ = OnDevice();
    if (device_ == nullptr) GTEST_SKIP() << "no GPU";
  }
  void Near(double found, double expected, const std::string& what) const {
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << what;
      return;
    }
    EXPECT_NEAR(found, expected,
                Tolerance(GetParam()) * std::max(1.0, std::abs(expected)))
        << what;
  }

  std::unique_ptr<Context> device_;
  Context host_;
};

Profile ProfileOf(Context& context, const Subject& subject, MetricSet metrics) {
  ProfileOptions options;
  options.metrics = metrics;
  options.repeats = 4;
  Profiler profiler(context, subject.checkpoint.model(),
                    &subject.checkpoint.tokenizer(), "a model", "", options);
  profiler.AddProbes();
  // More windows than a part.
  profiler.AddWindows(subject.Windows(48, 70));
  return profiler.Take();
}

TEST_P(OnTheDevice, ProfilesAreTheHosts) {
  for (const MetricSet metrics : {MetricSet::kCore, MetricSet::kAll}) {
    const Profile expected =
        ProfileOf(host_, Subject("novels", DType::kF32), metrics);
    const Profile found =
        ProfileOf(*device_, Subject("novels", GetParam()), metrics);
    EXPECT_EQ(found.counts, expected.counts);
    ASSERT_EQ(found.metrics.size(), expected.metrics.size());
    for (const auto& [name, tallies] : expected.metrics) {
      for (size_t h = 0; h < tallies.size(); ++h) {
        const Estimate mean = found.Get(name, h);
        // What is rare, or drawn by single rows, hangs on single numbers; so
        // do shares of what leaves the first token, in heads that rest there.
        const bool is_count = name.find("argmax") != name.npos ||
                              name.find("content") != name.npos ||
                              name.find("retrieval") != name.npos ||
                              name.find("semantic") != name.npos ||
                              name == "copying.run" || name == "broad";
        if (is_count) continue;
        if (GetParam() == DType::kF32) {
          EXPECT_EQ(mean.sequences, expected.Get(name, h).sequences) << name;
        }
        Near(mean.mean, expected.Get(name, h).mean,
             name + " of head " + std::to_string(h));
      }
    }
  }
}

TEST_P(OnTheDevice, AnInterruptedProfileGoesOnBitForBit) {
  for (const MetricSet metrics : {MetricSet::kCore, MetricSet::kAll}) {
    const Subject subject("novels", GetParam());
    const auto profile = [&](const ProfileOptions& options) {
      Profiler profiler(*device_, subject.checkpoint.model(),
                        &subject.checkpoint.tokenizer(), "a model", "",
                        options);
      profiler.AddWindows(subject.Windows(48, 70));
      return profiler.Take();
    };
    ProfileOptions options;
    options.metrics = metrics;
    const Profile expected = profile(options);
    const TemporaryFolder folder;
    PartialWork job{.file = folder.path() / "kept"};
    const auto key = [] { return KeptKey(); };
    {  // Stopped before the first run, which on a GPU may be all of the text.
      KeptWork kept("profile", job, key);
      std::stop_source stop;
      ProfileOptions stopped = options;
      stopped.kept = &kept;
      stopped.stop = stop.get_token();
      stopped.on_progress = [&](std::string_view, double, double) {
        stop.request_stop();
      };
      EXPECT_THROW(profile(stopped), Error);
      EXPECT_THROW(kept.ThrowInterrupted(), Error);
    }
    job.resume = true;
    KeptWork kept("profile", job, key);
    options.kept = &kept;
    const Profile found = profile(options);
    kept.Finish();
    EXPECT_EQ(found.counts, expected.counts);
    EXPECT_EQ(found.metrics, expected.metrics);
  }
}

TEST_P(OnTheDevice, SimilaritiesAreTheHosts) {
  const Subject here("novels", DType::kF32), there("novels", GetParam());
  const std::vector<TokenWindow> windows = here.Windows(64, 3);
  const HeadSimilarity expected =
      CompareHeads(host_, here.checkpoint.model(), windows);
  const HeadSimilarity found =
      CompareHeads(*device_, there.checkpoint.model(), windows);
  const auto compare = [&](const Tensor& one, const Tensor& other,
                           const char* what) {
    const Matrix a = FromTensor(one), b = FromTensor(other);
    ASSERT_EQ(a.values.size(), b.values.size());
    for (size_t i = 0; i < a.values.size(); ++i) {
      Near(a.values[i], b.values[i], what);
    }
  };
  compare(found.bhattacharyya, expected.bhattacharyya, "bhattacharyya");
  compare(found.jsd, expected.jsd, "divergence");
  compare(found.cka, expected.cka, "cka");
  compare(found.ov_read, expected.ov_read, "read");
  compare(found.ov_write, expected.ov_write, "write");
}

TEST_P(OnTheDevice, CompositionIsTheHosts) {
  const Subject here("novels", DType::kF32), there("novels", GetParam());
  const std::vector<TokenWindow> windows = here.Windows(48, 1);
  const auto measure = [&](Context& context, const Subject& subject) {
    const Model& model = subject.checkpoint.model();
    Composition made = MeasureComposition(context, model, {});
    MeasureEffects(context, model, windows, {}, made);
    return made;
  };
  const Composition expected = measure(host_, here);
  const Composition found = measure(*device_, there);
  ASSERT_EQ(found.edges.size(), expected.edges.size());
  for (size_t i = 0; i < found.edges.size(); ++i) {
    Near(found.edges[i].score, expected.edges[i].score, "score");
    Near(found.edges[i].effect, expected.edges[i].effect, "effect");
  }
}

INSTANTIATE_TEST_SUITE_P(Types, OnTheDevice,
                         testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return Name(type.param); });

}  // namespace
}  // namespace headwise::roles_device_test
