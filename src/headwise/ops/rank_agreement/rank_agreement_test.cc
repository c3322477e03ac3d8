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

// Lists of several lengths, one of them longer than a tile of a kernel; many
// numbers are equal.
struct RanksCase {
  static constexpr int64_t kHeads = 3, kKeys = 3000, kRows = 50;
  std::vector<int32_t> starts = {0, 8, 509, 520, 3400};
  int64_t lists = 4, entries = 3400;
  Tensor shares{DType::kF32, {4, kHeads, kKeys}};
  Tensor keys{DType::kI32, {3400}}, ranks{DType::kF32, {2, 3400}};
  Tensor norms{DType::kF64, {2, 4}};
  Tensor entropy{DType::kF32, {1, kHeads, kRows}}, rows{DType::kI32, {4}};
  Tensor agreement{DType::kF64, {4, kHeads, 2}};
  Tensor table{DType::kF32, {40, 24}};
  Tensor ids{DType::kI32, {4}}, others{DType::kI32, {3400}};
  Tensor found{DType::kF32, {3400}}, found_norms{DType::kF64, {4}};

  explicit RanksCase(uint64_t seed) {
    Rng rng(seed);
    const auto numbers = [&](Tensor& to, uint64_t below) {
      for (int64_t i = 0; i < to.size(); ++i) {
        to.As<float>()[i] = static_cast<float>(rng.Below(below)) / 64;
      }
    };
    const auto whole = [&](Tensor& to, uint64_t below) {
      for (int64_t i = 0; i < to.size(); ++i) {
        to.As<int32_t>()[i] = static_cast<int32_t>(rng.Below(below));
      }
    };
    numbers(shares, 60);
    numbers(ranks, 3000);
    numbers(entropy, 300);
    numbers(table, 9);
    entropy.As<float>()[kRows + 7] = std::numeric_limits<float>::quiet_NaN();
    for (int64_t i = 0; i < norms.size(); ++i) {
      norms.As<double>()[i] = 1 + static_cast<double>(i % 7);
    }
    norms.As<double>()[3] = 0;
    for (int64_t r = 0; r < lists; ++r) {
      rows.As<int32_t>()[r] = static_cast<int32_t>(7 * (r + 1));
      for (int32_t n = starts[r]; n < starts[r + 1]; ++n) {
        keys.As<int32_t>()[n] = n - starts[r];
      }
    }
    whole(ids, 40);
    whole(others, 40);
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
            shares.push_back(c.shares.As<float>()[(r * RanksCase::kHeads + h) *
                                                      RanksCase::kKeys +
                                                  c.keys.As<int32_t>()[n]]);
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

TEST(RankAgreement, EveryEntryRanksCosinesTheSame) {
  for (const uint64_t seed : {5, 6}) {
    SCOPED_TRACE(seed);
    RanksCase expected(seed);
    ASSERT_TRUE(expected.Run("reference"));
    for (const auto& entry : RanksImplementations().entries) {
      RanksCase found(seed);
      if (!found.Run(entry.name)) continue;
      // The table's numbers are such that no sum is rounded.
      for (int64_t n = 0; n < found.entries; ++n) {
        ASSERT_EQ(found.found.As<float>()[n], expected.found.As<float>()[n])
            << entry.name << " " << n;
      }
      for (int64_t r = 0; r < found.lists; ++r) {
        EXPECT_EQ(found.found_norms.As<double>()[r],
                  expected.found_norms.As<double>()[r])
            << entry.name;
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
