// Tallies that are made where rows lie, beside those that are made row by row.
#include "headwise/heads/profile/row_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/heads/profile/dense.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/model/checkpoint.h"

namespace headwise::row_sums_test {
namespace {

namespace fs = std::filesystem;

void ExpectNear(double found, double expected, double tolerance,
                const std::string& what) {
  EXPECT_NEAR(found, expected, tolerance * std::max(1.0, std::abs(expected)))
      << what;
}

// Tallies and histograms.
void ExpectSameSums(const Profile& found, const Profile& expected) {
  ASSERT_EQ(found.metrics.size(), expected.metrics.size());
  for (const auto& [name, tallies] : expected.metrics) {
    for (size_t h = 0; h < tallies.size(); ++h) {
      const Tally& a = found.metrics.at(name)[h];
      const Tally& b = tallies[h];
      const std::string what = name + " of head " + std::to_string(h);
      EXPECT_EQ(a.n, b.n) << what;
      ExpectNear(a.w, b.w, 1e-9, what);
      ExpectNear(a.x, b.x, 1e-9, what);
      ExpectNear(a.ww, b.ww, 1e-9, what);
      ExpectNear(a.wx, b.wx, 1e-9, what);
      ExpectNear(a.xx, b.xx, 1e-9, what);
    }
  }
  for (size_t h = 0; h < expected.heads.size(); ++h) {
    for (size_t c = 0; c < expected.histograms[h].size(); ++c) {
      ExpectNear(found.histograms[h][c], expected.histograms[h][c], 1e-9,
                 "a histogram");
    }
  }
}

void ExpectSameExamples(const Profile& found, const Profile& expected) {
  for (size_t h = 0; h < expected.heads.size(); ++h) {
    EXPECT_EQ(found.sinks[h], expected.sinks[h]);
    ASSERT_EQ(found.examples[h].size(), expected.examples[h].size());
    for (size_t e = 0; e < expected.examples[h].size(); ++e) {
      const Example &a = found.examples[h][e], &b = expected.examples[h][e];
      EXPECT_EQ(a.kind, b.kind);
      EXPECT_EQ(a.score, b.score);
      EXPECT_EQ(a.hash, b.hash);
      EXPECT_EQ(a.query, b.query);
      EXPECT_EQ(a.tokens, b.tokens);
      ASSERT_EQ(a.keys.size(), b.keys.size());
      for (size_t k = 0; k < b.keys.size(); ++k) {
        EXPECT_EQ(a.keys[k].position, b.keys[k].position);
        EXPECT_EQ(a.keys[k].mass, b.keys[k].mass);
      }
    }
  }
}

TokenNotes RandomNotes(int64_t n, int64_t specials, Rng& rng) {
  TokenNotes notes;
  for (int64_t i = 0; i < n; ++i) {
    // The end, and others within.
    const bool special =
        specials > 0 && (i == n - 1 || (i * specials) % n < specials - 1);
    notes.ids.push_back(static_cast<int32_t>(rng.Below(12)));
    notes.special.push_back(special ? 1 : 0);
    notes.punctuation.push_back(!special && notes.ids[i] == 3 ? 1 : 0);
    notes.rare.push_back(!special && notes.ids[i] > 8 ? 1 : 0);
    notes.word.push_back(special ? -1 : static_cast<int32_t>(i * 2 / 3));
    const int64_t rarest = i / 7 * 7 + 2;
    notes.rarest.push_back(
        special || rarest >= n ? -1 : static_cast<int32_t>(rarest));
  }
  return notes;
}

// Keys 5 and n / 3 are sinks of every second head; some rows end at the end.
DenseAttention RandomAttention(int64_t heads, int64_t n, bool causal,
                               Rng& rng) {
  DenseAttention dense{heads, n, n, causal, {}};
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < n; ++i) {
      std::vector<double> p(n);
      double sum = 0;
      for (int64_t j = 0; j < (causal ? i + 1 : n); ++j) {
        const bool rests = h % 2 == 1 && (j == 5 || j == n / 3);
        const double sink = rests ? 7 : 0;
        const double end = j == n - 1 && i % 3 == 0 ? 4 : 0;
        sum += p[j] = std::exp(2 * rng.Normal() + sink + end);
      }
      for (const double value : p) {
        dense.probabilities.push_back(static_cast<float>(value / sum));
      }
    }
  }
  return dense;
}

TEST(RowSums, AreThoseOfTheRows) {
  Rng rng(5);
  for (const AttentionKind kind :
       {AttentionKind::kSelf, AttentionKind::kDecoder, AttentionKind::kCross}) {
    for (const bool causal : {true, false}) {
      for (const int64_t specials : {0, 1, 3, 6}) {
        if (kind == AttentionKind::kCross && causal) continue;
        SCOPED_TRACE(testing::Message()
                     << Name(kind) << " causal " << causal << " specials "
                     << specials << " seed 5");
        const int64_t n = 90;
        const std::vector<HeadRef> heads = {
            {kind, 0, 0}, {kind, 0, 1}, {kind, 0, 2}, {kind, 0, 3}};
        Context context({.threads = 2, .implementations = ""});
        Profile by_rows(heads), by_sums(heads);
        HeadObserver observer(context, by_rows, {});
        RowSums sums(context, by_sums, {});
        // Twice: a second run begins anew, and knows its sites.
        for (int run = 0; run < 2; ++run) {
          const DenseAttention dense = RandomAttention(4, n, causal, rng);
          SequenceNotes sequence;
          sequence.source = RandomNotes(n, specials, rng);
          sequence.target = RandomNotes(n, specials, rng);
          const AttentionSite site{kind, 0, "a site"};
          observer.Begin({&sequence, 1});
          ObserveDense(context, observer, site, dense);
          std::vector<SequenceNotes> one;
          one.push_back(sequence);
          sums.Begin(sums.Prepare(context, std::move(one)));
          ObserveDense(context, sums, site, dense);
          sums.Finish();
          sums.Finish();
        }
        ExpectSameSums(by_sums, by_rows);
        // Sinks of single heads were there to be found.
        EXPECT_GT(by_rows.Get("sink", 1).mean, .4);
      }
    }
  }
}

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
                  std::vector<TokenWindow> windows, bool sum_rows) {
  ProfileOptions options;
  options.sum_rows = sum_rows;
  options.repeats = 0;
  options.min_visible = 4;
  Profiler profiler(context, model, nullptr, "a model", "", options);
  EXPECT_TRUE(profiler.AddWindows(std::move(windows)));
  return profiler.Take();
}

class RowSumsOfModel : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Model> Open() const {
    return OpenModel(fs::path(HEADWISE_SOURCE) / "tests/conformance/goldens" /
                     GetParam());
  }
};

// Of all kinds of attention, windows of different lengths, more than a block.
TEST_P(RowSumsOfModel, GiveTheProfileOfTheRows) {
  const auto model = Open();
  Context context({.threads = 2, .implementations = ""});
  const Profile expected =
      ProfileOf(context, *model, RandomWindows(*model, 70, 9), false);
  const Profile found =
      ProfileOf(context, *model, RandomWindows(*model, 70, 9), true);
  EXPECT_EQ(found.counts, expected.counts);
  ExpectSameSums(found, expected);
  ExpectSameExamples(found, expected);
}

TEST_P(RowSumsOfModel, GiveTheProfileOfTheRowsOnADevice) {
  std::unique_ptr<Context> device;
  try {
    device = std::make_unique<Context>(
        ContextOptions{.threads = 2, .device = Device::Cuda()});
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kUnsupported);
    GTEST_SKIP() << "no GPU";
  }
  const auto model = Open();
  const Profile expected =
      ProfileOf(*device, *model, RandomWindows(*model, 70, 9), false);
  const Profile found =
      ProfileOf(*device, *model, RandomWindows(*model, 70, 9), true);
  EXPECT_EQ(found.counts, expected.counts);
  ExpectSameSums(found, expected);
  ExpectSameExamples(found, expected);
  const Profile again =
      ProfileOf(*device, *model, RandomWindows(*model, 70, 9), true);
  EXPECT_EQ(again.metrics, found.metrics);
}

INSTANTIATE_TEST_SUITE_P(Families, RowSumsOfModel,
                         testing::Values("gpt2", "bert", "marian", "mistral"));

}  // namespace
}  // namespace headwise::row_sums_test
