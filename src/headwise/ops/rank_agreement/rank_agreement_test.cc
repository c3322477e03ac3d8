#include "headwise/ops/rank_agreement/rank_agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/rank_agreement/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/tensor/slice.h"

namespace headwise::rank_agreement_test {
namespace {

// By definition: every number beside every other.
std::vector<double> RanksByCounting(const std::vector<float>& values) {
  std::vector<double> ranks;
  for (const float x : values) {
    double rank = 0;
    for (const float y : values) {
      rank += y < x ? 1 : y == x ? .5 : 0;
    }
    ranks.push_back(rank - static_cast<double>(values.size()) / 2);
  }
  return ranks;
}

// What lists are made of.
struct RanksShape {
  std::vector<int32_t> lengths = {8, 501, 11, 2880};
  uint64_t values = 60;  // so many different shares
  uint64_t tokens = 40;
};
// Longer than the tiles of kernels, and as long as they are.
const RanksShape kFewValues = {{1, 2, 1023, 1024, 1025, 0, 4095}, 3, 2};
const RanksShape kManyValues = {{4097, 1, 20000, 2, 4096, 8192}, 1 << 20, 900};

// Lists of several lengths; many numbers are equal.
struct RanksCase {
  static constexpr int64_t kHeads = 3, kRows = 80;
  std::vector<int32_t> starts = {0};
  int64_t lists, entries = 0, width;
  Tensor shares, keys, ranks, norms, agreement;
  Tensor entropy{DType::kF32, {1, kHeads, kRows}}, rows;
  Tensor table, ids, others, found, found_norms;

  explicit RanksCase(uint64_t seed, const RanksShape& shape = {}) {
    for (const int32_t length : shape.lengths) {
      starts.push_back(starts.back() + length);
    }
    lists = static_cast<int64_t>(shape.lengths.size());
    entries = starts.back();
    width = *std::max_element(shape.lengths.begin(), shape.lengths.end()) + 20;
    shares = Tensor(DType::kF32, {lists, kHeads, width});
    keys = Tensor(DType::kI32, {entries});
    ranks = Tensor(DType::kF32, {2, entries});
    norms = Tensor(DType::kF64, {2, lists});
    rows = Tensor(DType::kI32, {lists});
    agreement = Tensor(DType::kF64, {lists, kHeads, 2});
    table = Tensor(DType::kF32, {static_cast<int64_t>(shape.tokens), 24});
    ids = Tensor(DType::kI32, {lists});
    others = Tensor(DType::kI32, {entries});
    found = Tensor(DType::kF32, {entries});
    found_norms = Tensor(DType::kF64, {lists});
    Fill(seed, shape);
  }

  void Fill(uint64_t seed, const RanksShape& shape) {
    Rng rng(seed);
    const auto numbers = [&](Tensor& to, uint64_t below, int64_t least) {
      for (int64_t i = 0; i < to.size(); ++i) {
        const int64_t number = static_cast<int64_t>(rng.Below(below)) + least;
        to.As<float>()[i] = static_cast<float>(number) / 64;
      }
    };
    const auto whole = [&](Tensor& to, uint64_t below) {
      for (int64_t i = 0; i < to.size(); ++i) {
        to.As<int32_t>()[i] = static_cast<int32_t>(rng.Below(below));
      }
    };
    numbers(shares, shape.values, 0);
    // All of these count as the smallest normal number.
    for (int64_t i = 0; i < shares.size(); i += 1 + rng.Below(9)) {
      constexpr float kNothing[] = {0.0f, -0.0f, 1e-40f, 1e-45f,
                                    std::numeric_limits<float>::min()};
      shares.As<float>()[i] = kNothing[rng.Below(5)];
    }
    numbers(ranks, 3000, 0);
    numbers(entropy, 300, 0);
    numbers(table, 9, -4);
    std::fill_n(table.As<float>(), 24, 0.0f);  // of no length
    entropy.As<float>()[kRows + 7] = std::numeric_limits<float>::quiet_NaN();
    for (int64_t i = 0; i < norms.size(); ++i) {
      norms.As<double>()[i] = 1 + static_cast<double>(i % 7);
    }
    norms.As<double>()[lists - 1] = 0;
    for (int64_t r = 0; r < lists; ++r) {
      rows.As<int32_t>()[r] = static_cast<int32_t>(7 * (r + 1));
      // Every row reads keys of its own, from the last to the first.
      for (int32_t n = starts[r]; n < starts[r + 1]; ++n) {
        keys.As<int32_t>()[n] = static_cast<int32_t>(r) + starts[r + 1] - 1 - n;
      }
    }
    whole(ids, shape.tokens);
    whole(others, shape.tokens);
  }
  bool Run(const char* entry) {
    const auto context = ContextFor("rank_agreement", entry);
    if (context == nullptr) return false;
    Mirror there(*context);
    const ConstTensorView lists_there = there(ConstTensorView(ViewOf(starts)));
    RankAgreement(*context, {.shares = there(std::as_const(shares).view()),
                             .keys = there(std::as_const(keys).view()),
                             .starts = lists_there,
                             .ranks = there(std::as_const(ranks).view()),
                             .norms = there(std::as_const(norms).view()),
                             .entropy = there(std::as_const(entropy).view()),
                             .rows = there(std::as_const(rows).view()),
                             .agreement = there(agreement.view())});
    CosineRanks(*context, {.table = there(std::as_const(table).view()),
                           .ids = there(std::as_const(ids).view()),
                           .others = there(std::as_const(others).view()),
                           .starts = lists_there,
                           .ranks = there(found.view()),
                           .norms = there(found_norms.view())});
    there.Back();
    return true;
  }
};

TEST(RankAgreement, EveryEntryGivesTheDefinition) {
  for (const auto& entry : RanksImplementations().entries) {
    for (const uint64_t seed : {3, 4}) {
      SCOPED_TRACE(testing::Message() << entry.name << ", seed " << seed);
      RanksCase c(seed);
      if (!c.Run(entry.name)) continue;
      for (int64_t r = 0; r < c.lists; ++r) {
        for (int64_t h = 0; h < RanksCase::kHeads; ++h) {
          std::vector<float> shares;
          for (int32_t n = c.starts[r]; n < c.starts[r + 1]; ++n) {
            const float* own =
                c.shares.As<float>() + (r * RanksCase::kHeads + h) * c.width;
            shares.push_back(std::max(own[c.keys.As<int32_t>()[n]],
                                      std::numeric_limits<float>::min()));
          }
          const std::vector<double> ranks = RanksByCounting(shares);
          double squares = 0;
          for (const double rank : ranks) squares += rank * rank;
          for (int64_t k = 0; k < 2; ++k) {
            double dot = 0;
            for (size_t n = 0; n < ranks.size(); ++n) {
              dot +=
                  ranks[n] * c.ranks.As<float>()[k * c.entries + c.starts[r] +
                                                 static_cast<int64_t>(n)];
            }
            const double norm = c.norms.As<double>()[k * c.lists + r];
            const double found =
                c.agreement.As<double>()[(r * RanksCase::kHeads + h) * 2 + k];
            if (r == 0 && h == 1) {
              EXPECT_TRUE(std::isnan(found));  // no finite entropy
            } else if (norm == 0) {
              EXPECT_EQ(found, 0);
            } else {
              EXPECT_DOUBLE_EQ(found, dot / (std::sqrt(squares) * norm));
            }
          }
        }
      }
    }
  }
}

// The same bits, since no sum is rounded.
void ExpectSame(const Tensor& found, const Tensor& expected, const char* what) {
  const auto compare = [&](auto type) {
    using T = decltype(type);
    for (int64_t n = 0; n < expected.size(); ++n) {
      const T wanted = expected.As<T>()[n];
      if (std::isnan(wanted)) {
        ASSERT_TRUE(std::isnan(found.As<T>()[n])) << what << " " << n;
      } else {
        ASSERT_EQ(found.As<T>()[n], wanted) << what << " " << n;
      }
    }
  };
  found.type() == DType::kF64 ? compare(double{}) : compare(float{});
}

TEST(RankAgreement, EveryEntryGivesTheSameForListsOfAnyLength) {
  for (const RanksShape& shape : {RanksShape{}, kFewValues, kManyValues}) {
    for (const uint64_t seed : {5, 6}) {
      SCOPED_TRACE(testing::Message()
                   << shape.lengths[0] << " first, seed " << seed);
      RanksCase expected(seed, shape);
      ASSERT_TRUE(expected.Run("reference"));
      for (const auto& entry : RanksImplementations().entries) {
        RanksCase found(seed, shape);
        if (!found.Run(entry.name)) continue;
        SCOPED_TRACE(entry.name);
        ExpectSame(found.agreement, expected.agreement, "agreement");
        ExpectSame(found.found, expected.found, "ranks of cosines");
        ExpectSame(found.found_norms, expected.found_norms, "norms");
      }
    }
  }
}

TEST(RankAgreement, RefusesViewsThatDoNotFit) {
  Context context({.threads = 1});
  RanksCase c(1);
  EXPECT_THROW(CosineRanks(context, {.table = std::as_const(c.table).view(),
                                     .ids = std::as_const(c.ids).view()}),
               Error);
  EXPECT_THROW(
      RankAgreement(context, {.shares = std::as_const(c.shares).view()}),
      Error);
}

}  // namespace
}  // namespace headwise::rank_agreement_test
