#include "headwise/heads/profile/rows/core_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/heads/profile/rows/core_row.h"
#include "headwise/ops/test_device.h"
#include "headwise/tensor/slice.h"

namespace headwise::core_rows_test {
namespace {

int ColumnOf(const std::string& name) {
  const auto found = std::find(SlotNames().begin(), SlotNames().end(), name);
  return kCoreColumnMap.of[found - SlotNames().begin()];
}

// Three sequences of two heads, rows of any numbers.
struct CoreCase {
  std::vector<int32_t> queries = {0, 5, 6, 1300};
  std::vector<int32_t> keys = {0, 5, 6, 1300};
  int64_t heads = 2, total = 1300;
  Tensor entropy{DType::kF32, {1, 2, 1300}}, max{DType::kF32, {1, 2, 1300}};
  Tensor argmax{DType::kI32, {1, 2, 1300}};
  Tensor distance{DType::kF32, {1, 2, 1300}}, first{DType::kF32, {1, 2, 1300}};
  Tensor band{DType::kF32, {1, 2, 1300, 3}};
  Tensor special{DType::kU8, {1300}};
  Tensor sums{DType::kF64, {3, 2, kCoreColumns}};

  CoreCase() {
    Rng rng(3);
    for (Tensor* tensor : {&entropy, &max, &distance, &first, &band}) {
      for (int64_t i = 0; i < tensor->size(); ++i) {
        tensor->As<float>()[i] = static_cast<float>(7 * rng.Uniform());
      }
    }
    for (int64_t i = 0; i < argmax.size(); ++i) {
      argmax.As<int32_t>()[i] = static_cast<int32_t>(rng.Below(40));
    }
    for (int64_t i = 0; i < total; ++i) {
      special.As<uint8_t>()[i] = rng.Below(8) == 0 ? 1 : 0;
    }
  }
  CoreRowsArgs Args(Mirror& there) {
    CoreRowsArgs args;
    args.entropy = there(std::as_const(entropy).view());
    args.max_probability = there(std::as_const(max).view());
    args.argmax = there(std::as_const(argmax).view());
    args.distance = there(std::as_const(distance).view());
    args.first = there(std::as_const(first).view());
    args.band = there(std::as_const(band).view());
    args.query_starts = there(ConstTensorView(ViewOf(queries)));
    args.key_starts = there(ConstTensorView(ViewOf(keys)));
    args.special = there(std::as_const(special).view());
    args.sums = there(sums.view());
    return args;
  }
};

std::vector<double> Sums(const char* entry, const CoreRowsProblem& problem,
                         CoreCase& rows) {
  const auto context = ContextFor("core_rows", entry);
  if (context == nullptr) return {};
  Mirror there(*context);
  CoreRowSums(*context, problem, rows.Args(there));
  there.Back();
  const double* from = rows.sums.As<double>();
  return {from, from + rows.sums.size()};
}

TEST(CoreRows, AddsUpRowsThatCount) {
  CoreCase rows;
  rows.entropy.As<float>()[400] = std::numeric_limits<float>::quiet_NaN();
  const CoreRowsProblem problem{.mask = AttentionMask::Causal(),
                                .min_visible = 4,
                                .before = 1,
                                .after = 1};
  const std::vector<double> sums = Sums("reference", problem, rows);
  // The last sequence of head 0: rows 6 … 1299.
  double count = 0, entropy = 0, first = 0, previous = 0;
  for (int64_t t = 9; t < rows.total; ++t) {
    if (rows.special.As<uint8_t>()[t] != 0 || t == 400) continue;
    count += 1;
    entropy += rows.entropy.As<float>()[t];
    first += rows.argmax.As<int32_t>()[t] == 0 ? 1 : 0;
    previous += rows.band.As<float>()[t * 3];
  }
  const double* last = sums.data() + 2 * 2 * kCoreColumns;
  EXPECT_EQ(last[kCoreRows], count);
  EXPECT_DOUBLE_EQ(last[ColumnOf("entropy")], entropy);
  EXPECT_EQ(last[kCoreSeesFirst], count);
  EXPECT_EQ(last[ColumnOf("first.argmax")], first);
  EXPECT_EQ(last[kCoreOffsets], count);
  EXPECT_DOUBLE_EQ(last[kCoreOffsets + 1], previous);
  // Nothing is seen behind a query, and one token counts nowhere.
  EXPECT_EQ(last[CoreOffsetColumn(1)], 0);
  EXPECT_EQ(sums[2 * kCoreColumns + kCoreRows], 0);
}

TEST(CoreRows, EveryEntryAddsUpTheSame) {
  for (const bool cross : {false, true}) {
    for (const AttentionMask& mask :
         {AttentionMask::None(), AttentionMask::Causal(),
          AttentionMask::SlidingWindow(60)}) {
      const CoreRowsProblem problem{.mask = mask,
                                    .cross = cross,
                                    .min_visible = 8,
                                    .before = 1,
                                    .after = 1};
      CoreCase rows;
      const std::vector<double> expected = Sums("reference", problem, rows);
      for (const auto& entry : CoreRowsImplementations().entries) {
        const std::vector<double> found = Sums(entry.name, problem, rows);
        for (size_t i = 0; i < found.size(); ++i) {
          ASSERT_NEAR(found[i], expected[i],
                      1e-6 * std::max(1.0, std::abs(expected[i])))
              << entry.name << " " << i;
        }
      }
    }
  }
}

TEST(CoreRows, RefusesViewsThatDoNotFit) {
  Context context({.threads = 1});
  Mirror here(context);
  CoreCase rows;
  CoreRowsArgs args = rows.Args(here);
  args.first = {};
  EXPECT_THROW(CoreRowSums(context, {.before = 1, .after = 1}, args), Error);
  args = rows.Args(here);
  EXPECT_THROW(CoreRowSums(context, {.before = 2, .after = 0}, args), Error);
}

}  // namespace
}  // namespace headwise::core_rows_test
