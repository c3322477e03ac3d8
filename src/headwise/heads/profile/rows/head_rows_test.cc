#include "headwise/heads/profile/rows/head_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/heads/profile/rows/implementation.h"
#include "headwise/heads/profile/rows/row.h"
#include "headwise/ops/test_device.h"
#include "headwise/tensor/slice.h"

namespace headwise::head_rows_test {
namespace {

constexpr int64_t kHeads = 3, kBuckets = 5;

std::vector<int32_t> StartsOf(const std::vector<int32_t>& lengths) {
  std::vector<int32_t> starts = {0};
  for (const int32_t length : lengths) starts.push_back(starts.back() + length);
  return starts;
}
// Lengths around those of a kernel's stretches, and none at all.
const std::vector<int32_t> kStarts =
    StartsOf({5, 1, 194, 0, 255, 256, 257, 512, 0, 1100, 0});
// More sequences than a block has threads.
const std::vector<int32_t> kManyStarts = StartsOf(std::vector(700, 20));

Tensor Numbers(const Shape& shape, double most, Rng& rng) {
  Tensor tensor(DType::kF32, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    tensor.As<float>()[i] = static_cast<float>(most * rng.Uniform());
  }
  return tensor;
}

// Rows of any numbers, with notes that fit their sequences.
struct RowsCase {
  std::vector<int32_t> starts;
  int64_t rows = starts.back();
  int64_t sequences = static_cast<int64_t>(starts.size()) - 1;
  HeadRowsProblem problem;
  Tensor entropy, max, distance, kept_max, features, labels, band, below_end;
  Tensor argmax{DType::kI32, {1, kHeads, rows}};
  Tensor kept_argmax{DType::kI32, {1, kHeads, rows}};
  std::vector<RowNotes> notes = std::vector<RowNotes>(rows);
  Tensor special{DType::kU8, {rows}}, punctuation{DType::kU8, {rows}};
  Tensor rare{DType::kU8, {rows}}, ids{DType::kI32, {rows}};
  std::vector<int64_t> pair_offsets = {0};
  std::vector<int32_t> pair_split, pair_keys;
  Tensor pair_mass;
  std::vector<int32_t> sink_starts = {0}, sink_keys;
  std::vector<int64_t> sink_at;
  std::vector<float> sink_mass;
  Tensor histogram{DType::kF64, {sequences, kHeads, kBuckets}};
  Tensor tallies{DType::kF64, {kHeads, kHeadSlots, kTallyNumbers}};
  Tensor histogram_sums{DType::kF64, {kHeads, kBuckets}};
  Tensor best_rows{DType::kI32, {sequences, kHeads, kBestRows}};
  Tensor best_scores{DType::kF32, {sequences, kHeads, kBestRows}};

  RowsCase(bool cross, bool causal, bool with_sinks, uint64_t seed,
           std::vector<int32_t> from = kStarts)
      : starts(std::move(from)) {
    Rng rng(seed);
    const int64_t reach = kFarthestOffset;
    problem = {cross, causal, cross ? 0 : reach, cross || causal ? 0 : reach};
    const Shape row = {1, kHeads, rows};
    entropy = Numbers(row, 6, rng);
    max = Numbers(row, 1, rng);
    distance = Numbers(row, 90, rng);
    kept_max = Numbers(row, 1, rng);
    for (int64_t i = 0; i < kept_max.size(); ++i) {  // the first one is best
      float& share = kept_max.As<float>()[i];
      share = std::floor(32 * share) / 32;
    }
    below_end = Numbers(row, 1, rng);
    features = Numbers({1, kHeads, rows, kKeyFeatures}, .6, rng);
    labels = Numbers({1, kHeads, rows, kLabelChannels}, .5, rng);
    band =
        Numbers({1, kHeads, rows, problem.before + problem.after + 1}, .3, rng);
    entropy.As<float>()[700] = std::numeric_limits<float>::quiet_NaN();
    entropy.As<float>()[701] = std::numeric_limits<float>::infinity();
    for (int64_t t = 0; t < rows; ++t) {
      special.As<uint8_t>()[t] = rng.Below(10) == 0 ? 1 : 0;
      punctuation.As<uint8_t>()[t] = rng.Below(6) == 0 ? 1 : 0;
      rare.As<uint8_t>()[t] = rng.Below(4) == 0 ? 1 : 0;
      ids.As<int32_t>()[t] = static_cast<int32_t>(rng.Below(20));
    }
    for (size_t b = 0; b + 1 < starts.size(); ++b) {
      for (int32_t t = starts[b]; t < starts[b + 1]; ++t) {
        Note(static_cast<int32_t>(b), t, rng);
      }
    }
    if (pair_keys.empty()) pair_keys.push_back(0);
    pair_mass =
        Numbers({kHeads, static_cast<int64_t>(pair_keys.size())}, .1, rng);
    for (int64_t i = 0; i < histogram.size(); ++i) {
      histogram.As<double>()[i] = rng.Uniform();
    }
    for (int64_t b = 0; b < sequences; ++b) {
      for (int64_t h = 0; h < kHeads; ++h) {
        if (with_sinks && h != 1) AddSinks(b, rng);
        sink_starts.push_back(static_cast<int32_t>(sink_keys.size()));
      }
    }
    if (!with_sinks) sink_starts.clear();
  }

  void Note(int32_t b, int32_t t, Rng& rng) {
    const int32_t keys = starts[b + 1] - starts[b], i = t - starts[b];
    RowNotes& row = notes[t];
    row.low = static_cast<int32_t>(rng.Below(3) == 0 ? std::max(0, i - 30) : 0);
    row.high = problem.causal ? i + 1 : keys;
    row.counted = row.visible() > 12 && special.As<uint8_t>()[t] == 0;
    row.log_visible = std::log(static_cast<float>(row.visible()));
    const auto some = [&](int32_t most) {
      const int32_t seen = static_cast<int32_t>(rng.Below(most));
      return RowTargets{seen, std::max(0, seen - 1)};
    };
    row.separator = some(5);
    for (RowTargets* targets :
         {&row.punctuation, &row.rare, &row.duplicate, &row.induction}) {
      *targets = some(4);
    }
    const auto seen = [&] {
      return row.low + static_cast<int32_t>(rng.Below(row.visible()));
    };
    if (rng.Below(2) == 0) row.rarest = seen();
    for (int64_t h = 0; h < kHeads; ++h) {
      argmax.As<int32_t>()[h * rows + t] =
          rng.Below(4) == 0 ? keys - 1 : seen();
      kept_argmax.As<int32_t>()[h * rows + t] =
          rng.Below(9) == 0
              ? -1
              : std::max(row.low,
                         row.high - 1 - static_cast<int32_t>(rng.Below(5)));
    }
    if (problem.causal || !row.counted || rng.Below(3) == 0) return;
    row.pairs = static_cast<int32_t>(pair_split.size());
    const int32_t count = static_cast<int32_t>(rng.Below(5));
    for (int32_t n = 0; n < count; ++n) pair_keys.push_back(seen());
    pair_split.push_back(count / 2);
    pair_offsets.push_back(static_cast<int64_t>(pair_keys.size()));
  }

  void AddSinks(int64_t b, Rng& rng) {
    const int32_t keys = starts[b + 1] - starts[b];
    for (int32_t j = 2; j < keys; j += keys / 3 + 1) {
      sink_keys.push_back(j);
      sink_at.push_back(static_cast<int64_t>(sink_mass.size()));
      for (int32_t i = 0; i < keys; ++i) {
        sink_mass.push_back(static_cast<float>(.2 * rng.Uniform()));
      }
    }
  }

  HeadRowsArgs Args(Mirror& there) {
    const auto shown = [&](const Tensor& tensor) {
      return there(tensor.view());
    };
    const auto list = [&](const auto& values) {
      return there(ConstTensorView(ViewOf(values)));
    };
    HeadRowsArgs a;
    a.entropy = shown(entropy);
    a.max_probability = shown(max);
    a.argmax = shown(argmax);
    a.distance = shown(distance);
    a.kept_max = shown(kept_max);
    a.kept_argmax = shown(kept_argmax);
    a.feature_mass = shown(features);
    if (problem.causal) a.label_mass = shown(labels);
    if (!problem.cross) a.band = shown(band);
    a.below_end = shown(below_end);
    a.query_starts = list(starts);
    a.key_starts = a.query_starts;
    a.notes =
        there(ConstTensorView(notes.data(), DType::kU8,
                              {rows, static_cast<int64_t>(sizeof(RowNotes))}));
    a.special = shown(special);
    a.punctuation = shown(punctuation);
    a.rare = shown(rare);
    a.ids = shown(ids);
    if (!pair_split.empty()) {
      a.pair_offsets = list(pair_offsets);
      a.pair_split = list(pair_split);
      a.pair_keys = list(pair_keys);
      a.pair_mass = shown(pair_mass);
    }
    if (!sink_starts.empty()) {
      a.sink_starts = list(sink_starts);
      a.sink_keys = list(sink_keys);
      a.sink_at = list(sink_at);
      a.sink_mass = list(sink_mass);
    }
    a.histogram = shown(histogram);
    a.tallies = there(tallies.view());
    a.histogram_sums = there(histogram_sums.view());
    a.best_rows = there(best_rows.view());
    a.best_scores = there(best_scores.view());
    return a;
  }

  bool Run(const char* entry) {
    const auto context = ContextFor("head_rows", entry);
    if (context == nullptr) return false;
    Mirror there(*context);
    HeadRowTallies(*context, problem, Args(there));
    there.Back();
    return true;
  }
  const double* Tally(int64_t h, int slot) const {
    return tallies.As<double>() + (h * kHeadSlots + slot) * kTallyNumbers;
  }
};

void ExpectNear(const Tensor& found, const Tensor& expected, double tolerance,
                const char* what) {
  for (int64_t i = 0; i < expected.size(); ++i) {
    const double wanted = expected.As<double>()[i];
    ASSERT_NEAR(found.As<double>()[i], wanted,
                tolerance * std::max(1.0, std::abs(wanted)))
        << what << " " << i;
  }
}

TEST(HeadRows, AddsUpRowsThatCount) {
  RowsCase c(false, true, false, 3);
  ASSERT_TRUE(c.Run("reference"));
  double sequences = 0, rows = 0, entropy = 0, squares = 0, previous = 0;
  for (size_t b = 0; b + 1 < kStarts.size(); ++b) {
    double count = 0, sum = 0;
    for (int32_t t = kStarts[b]; t < kStarts[b + 1]; ++t) {
      const float here = c.entropy.As<float>()[t];
      if (!c.notes[t].counted || !std::isfinite(here)) continue;
      count += 1;
      sum += here;
      const int64_t i = t - kStarts[b];
      if (i - 1 >= c.notes[t].low) previous += c.band.As<float>()[t * 9 + 7];
    }
    sequences += count > 0 ? 1 : 0;
    rows += count;
    entropy += sum;
    squares += sum * sum;
  }
  const double* found = c.Tally(0, kFirstSlots.of[MetricAt("entropy")]);
  EXPECT_EQ(found[0], sequences);
  EXPECT_EQ(found[1], rows);
  EXPECT_DOUBLE_EQ(found[2], entropy);
  EXPECT_DOUBLE_EQ(found[5], squares);
  EXPECT_NEAR(c.Tally(0, OffsetSlot(kOffsetMass, -1))[2], previous, 1e-9);
  // Nothing is seen behind a query.
  EXPECT_EQ(c.Tally(0, OffsetSlot(kOffsetMass, 1))[0], 0);
  EXPECT_EQ(c.best_rows.As<int32_t>()[kHeads * kBestRows], -1);
}

TEST(HeadRows, EveryEntryAddsUpTheSame) {
  for (const auto& [starts, seed] :
       {std::pair(kStarts, 5), {kStarts, 6}, {kManyStarts, 7}}) {
    for (const auto& [cross, causal] :
         {std::pair(false, true), {false, false}, {true, false}}) {
      for (const bool with_sinks : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << "cross " << cross << " causal " << causal << " sinks "
                     << with_sinks << " seed " << seed);
        RowsCase expected(cross, causal, with_sinks, seed, starts);
        ASSERT_TRUE(expected.Run("reference"));
        for (const auto& entry : HeadRowsImplementations().entries) {
          RowsCase found(cross, causal, with_sinks, seed, starts);
          if (!found.Run(entry.name)) continue;
          ExpectNear(found.tallies, expected.tallies, 1e-9, entry.name);
          ExpectNear(found.histogram_sums, expected.histogram_sums, 1e-12,
                     entry.name);
          for (int64_t i = 0; i < expected.best_rows.size(); ++i) {
            ASSERT_EQ(found.best_rows.As<int32_t>()[i],
                      expected.best_rows.As<int32_t>()[i])
                << entry.name << " " << i;
            ASSERT_EQ(found.best_scores.As<float>()[i],
                      expected.best_scores.As<float>()[i]);
          }
          // The same bits again.
          RowsCase again(cross, causal, with_sinks, seed, starts);
          ASSERT_TRUE(again.Run(entry.name));
          ExpectNear(again.tallies, found.tallies, 0, entry.name);
        }
      }
    }
  }
}

TEST(HeadRows, AddsToWhatTalliesHold) {
  RowsCase c(false, true, true, 8);
  ASSERT_TRUE(c.Run("reference"));
  const auto copy = [](const Tensor& tensor) {
    const double* from = tensor.As<double>();
    return std::vector<double>(from, from + tensor.size());
  };
  const auto once = copy(c.tallies), histogram = copy(c.histogram_sums);
  c.problem.adds = true;
  ASSERT_TRUE(c.Run("reference"));
  for (size_t i = 0; i < once.size(); ++i) {
    ASSERT_NEAR(c.tallies.As<double>()[i], 2 * once[i],
                1e-12 * std::abs(once[i]));
  }
  for (size_t i = 0; i < histogram.size(); ++i) {
    EXPECT_NEAR(c.histogram_sums.As<double>()[i], 2 * histogram[i], 1e-12);
  }
}

TEST(HeadRows, RefusesViewsThatDoNotFit) {
  Context context({.threads = 1});
  Mirror here(context);
  RowsCase c(false, true, true, 7);
  HeadRowsArgs args = c.Args(here);
  args.kept_max = {};
  EXPECT_THROW(HeadRowTallies(context, c.problem, args), Error);
  args = c.Args(here);
  args.sink_at = {};
  EXPECT_THROW(HeadRowTallies(context, c.problem, args), Error);
  args = c.Args(here);
  c.problem.before = kFarthestOffset + 1;
  EXPECT_THROW(HeadRowTallies(context, c.problem, args), Error);
}

}  // namespace
}  // namespace headwise::head_rows_test
