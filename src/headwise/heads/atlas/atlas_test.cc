// The sums of an atlas against the six metrics written out over dense maps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "headwise/base/mapped_file.h"
#include "headwise/heads/atlas/atlas_pass.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/activations.h"

namespace headwise::atlas_test {
namespace {

std::vector<TokenWindow> WindowsOfAsset(const Checkpoint& checkpoint,
                                        size_t count) {
  const WindowCutter cutter(checkpoint.tokenizer(), checkpoint.config(),
                            {.context = 48});
  Document document;
  document.text = MappedFile(std::filesystem::path(HEADWISE_SOURCE) / "assets" /
                             "text" / "the-lamp-at-sorrel-point.txt")
                      .text();
  std::vector<TokenWindow> windows = cutter.Cut(document);
  windows.resize(count);
  return windows;
}

// The definitions of docs/atlas.md, word by word, over one map after another.
class PlainMetrics {
 public:
  void Add(const std::vector<int32_t>& ids, const float* map) {
    const auto n = static_cast<int64_t>(ids.size());
    for (int64_t q = 0; q < n; ++q) {
      rows_ += 1;
      self_ += map[q * n + q];
      if (q > 0) {
        previous_ += map[q * n + q - 1];
        previous_rows_ += 1;
      }
      bool repeats = false;
      for (int64_t j = 0; j < q; ++j) {
        if (ids[j] != ids[q]) continue;
        repeats = true;
        induction_ += map[q * n + j + 1];
      }
      induction_rows_ += repeats ? 1 : 0;
      for (int64_t k = 0; k < n; ++k) {
        const double a = map[q * n + k];
        const auto far = static_cast<double>(std::abs(q - k));
        if (a > 0) entropy_ -= a * std::log(a);
        distance_ += a * far;
        squares_ += a * far * far;
      }
    }
  }
  std::array<double, kHeadVisMetrics> Metrics() const {
    const double distance = distance_ / rows_;
    return {self_ / rows_,
            previous_ / previous_rows_,
            entropy_ / rows_,
            distance,
            squares_ / rows_ - distance * distance,
            induction_ / induction_rows_};
  }

 private:
  double rows_ = 0, self_ = 0, previous_ = 0, previous_rows_ = 0, entropy_ = 0;
  double distance_ = 0, squares_ = 0, induction_ = 0, induction_rows_ = 0;
};

float Strongest(const float* map, int64_t n) {
  float largest = 0;
  for (int64_t q = 1; q < n; ++q) {
    largest = std::max(largest,
                       *std::max_element(map + q * n + 1, map + (q + 1) * n));
  }
  return largest;
}

NextWindow From(const std::vector<TokenWindow>& windows) {
  return [&windows, at = size_t{0}]() mutable -> std::optional<TokenWindow> {
    if (at == windows.size()) return {};
    return windows[at++];
  };
}

class OfModels : public testing::TestWithParam<const char*> {
 protected:
  OfModels()
      : checkpoint_(std::filesystem::path(HEADWISE_SOURCE) / "assets" /
                    GetParam()),
        windows_(WindowsOfAsset(checkpoint_, 5)) {
    job_.strongest = 2;
    job_.samples = 1;
    job_.intervals = 2;
    job_.least = 0;
    job_.keys = 48;
  }
  const Model& model() { return checkpoint_.model(); }
  AtlasSums Sums() {
    return SumAtlas(context_, model(), From(windows_), 48, [] { return 0.0; },
                    job_, {});
  }
  // [heads · n · n] of one layer.
  Tensor MapsOf(const TokenWindow& window, int64_t layer) {
    const std::vector<int64_t> lengths = {window.source.size()};
    const std::string name =
        "layer." + std::to_string(layer) + ".attention.probs";
    return std::move(RecordActivations(
                         context_, model(),
                         {.ids = window.source.ids, .lengths = lengths}, {name})
                         .at(name));
  }

  Context context_;
  Checkpoint checkpoint_;
  std::vector<TokenWindow> windows_;
  AtlasJob job_;
};

TEST_P(OfModels, MetricsAreThoseOfDenseMaps) {
  const AtlasSums sums = Sums();
  const std::vector<HeadRef> heads = AllHeads(model());
  std::vector<PlainMetrics> plain(heads.size());
  std::vector<std::vector<float>> strengths(windows_.size());
  for (size_t w = 0; w < windows_.size(); ++w) {
    const std::vector<int32_t>& ids = windows_[w].source.ids;
    const int64_t n = windows_[w].source.size();
    int64_t layer = -1;
    Tensor maps;
    for (size_t h = 0; h < heads.size(); ++h) {
      if (heads[h].layer != layer) {
        maps = MapsOf(windows_[w], layer = heads[h].layer);
      }
      const float* map = maps.As<float>() + heads[h].head * n * n;
      plain[h].Add(ids, map);
      strengths[w].push_back(Strongest(map, n));
    }
  }
  for (size_t h = 0; h < heads.size(); ++h) {
    const auto metrics = MetricsOf(sums.counts, sums.totals[h]);
    const auto expected = plain[h].Metrics();
    for (size_t m = 0; m < kHeadVisMetrics; ++m) {
      EXPECT_NEAR(metrics[m], expected[m],
                  2e-4 * std::max(1.0, std::abs(expected[m])))
          << ToString(heads[h]) << " metric " << m;
    }
  }
  for (const DrawnSequence& one : sums.drawn()) {
    for (size_t h = 0; h < heads.size(); ++h) {
      EXPECT_NEAR(one.strengths[h], strengths[one.sequence][h], 1e-5);
    }
  }
}

TEST_P(OfModels, MapsOfKeptSequencesAreTheDenseOnes) {
  const AtlasSums sums = Sums();
  const auto chosen = ChooseSequences(sums, job_);
  const auto maps = MapSequences(context_, model(), sums, chosen, job_, {});
  const std::vector<HeadRef> heads = AllHeads(model());
  for (size_t h = 0; h < heads.size(); h += 3) {
    for (size_t i = 0; i < chosen[h].size(); ++i) {
      const TokenWindow& window = windows_[chosen[h][i].sequence];
      const int64_t n = window.source.size();
      const Tensor dense = MapsOf(window, heads[h].layer);
      const float* map = dense.As<float>() + heads[h].head * n * n;
      const SparseMap& found = maps[h][i];
      EXPECT_TRUE(std::is_sorted(found.places.begin(), found.places.end()));
      double sum = 0;
      for (size_t p = 0; p < found.places.size(); ++p) {
        EXPECT_NEAR(found.values[p], map[found.places[p]], 1e-5);
        sum += found.values[p];
      }
      EXPECT_NEAR(sum, static_cast<double>(n), 1e-3);  // every row, whole
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Atlas, OfModels, testing::Values("novels", "encoder"));

}  // namespace
}  // namespace headwise::atlas_test
