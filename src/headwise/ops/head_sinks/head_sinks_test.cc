#include "headwise/ops/head_sinks/head_sinks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/head_sinks/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/tensor/slice.h"

namespace headwise::head_sinks_test {
namespace {

using Candidate = std::array<int32_t, 3>;

// Two sequences of three heads; head 1 rests on key 7 of the second one.
struct SinkCase {
  std::vector<int32_t> starts = {0, 300, 1500};
  Tensor kept_max{DType::kF32, {1, 3, 1500}};
  Tensor kept_argmax{DType::kI32, {1, 3, 1500}};
  Tensor weights{DType::kF32, {1, 1500}};
  Tensor seen{DType::kI32, {1500}};
  Tensor found{DType::kI32, {20, 3}}, count{DType::kI32, {1}};

  explicit SinkCase(uint64_t seed) {
    Rng rng(seed);
    for (int64_t t = 0; t < 1500; ++t) {
      const int64_t begin = t < 300 ? 0 : 300;
      weights.As<float>()[t] = t - begin >= 8 ? 1 : 0;
      // Causal rows: the last keys are seen by too few.
      const int64_t rows = (t < 300 ? 300 : 1500) - std::max(t, begin + 8);
      seen.As<int32_t>()[t] = rows > 80 ? static_cast<int32_t>(rows) : 0;
      for (int64_t h = 0; h < 3; ++h) {
        const int64_t at = h * 1500 + t;
        const bool rests = h == 1 && t > 320;
        kept_max.As<float>()[at] =
            static_cast<float>((rests ? 0.5 : 0.2) * rng.Uniform());
        kept_argmax.As<int32_t>()[at] = static_cast<int32_t>(
            rests ? 7 : rng.Below(static_cast<uint64_t>(t - begin + 1)));
      }
    }
    kept_argmax.As<int32_t>()[40] = -1;
  }
  std::set<Candidate> Find(const char* entry) {
    const auto context = ContextFor("head_sinks", entry);
    if (context == nullptr) return {{-1, -1, -1}};
    Mirror there(*context);
    HeadSinksArgs args;
    args.kept_max = there(std::as_const(kept_max).view());
    args.kept_argmax = there(std::as_const(kept_argmax).view());
    args.weights = there(std::as_const(weights).view());
    args.seen = there(std::as_const(seen).view());
    args.query_starts = there(ConstTensorView(ViewOf(starts)));
    args.key_starts = args.query_starts;
    args.found = there(found.view());
    args.count = there(count.view());
    FindSinkCandidates(*context, args);
    there.Back();
    std::set<Candidate> all;
    for (int32_t n = 0; n < std::min(count.As<int32_t>()[0], 20); ++n) {
      const int32_t* from = found.As<int32_t>() + 3 * n;
      all.insert({from[0], from[1], from[2]});
    }
    return all;
  }
};

TEST(HeadSinks, EveryEntryFindsWhereAHeadRests) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    const std::set<Candidate> expected = SinkCase(seed).Find("reference");
    EXPECT_EQ(expected, (std::set<Candidate>{{1, 1, 7}}));
    for (const auto& entry : HeadSinksImplementations().entries) {
      const std::set<Candidate> found = SinkCase(seed).Find(entry.name);
      if (found.contains({-1, -1, -1})) {
        RecordProperty("skipped", entry.name);
        continue;
      }
      EXPECT_EQ(found, expected) << entry.name;
    }
  }
}

TEST(HeadSinks, RefusesViewsThatDoNotFit) {
  Context context({.threads = 1});
  SinkCase rows(1);
  HeadSinksArgs args;
  args.kept_max = std::as_const(rows.kept_max).view();
  EXPECT_THROW(FindSinkCandidates(context, args), Error);
}

}  // namespace
}  // namespace headwise::head_sinks_test
