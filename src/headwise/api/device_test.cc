// The public doors on a GPU give what they give on the host, in f32. Skipped
// where there is none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "headwise/api/test_model.h"
#include "headwise/error.h"
#include "headwise/heads.h"
#include "headwise/profile.h"
#include "headwise/session.h"

namespace headwise {
namespace {

constexpr double kTolerance = 1e-4;

// The shipped model on the first GPU, or null where there is none.
std::unique_ptr<Transformer> NovelsThere() {
  try {
    return std::make_unique<Transformer>(
        Novels({.device = Device::Cuda(), .type = DType::kF32}));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return nullptr;
  }
}

void ExpectNear(double found, double wanted) {
  EXPECT_NEAR(found, wanted, kTolerance * std::max(1.0, std::abs(wanted)));
}

TEST(DoorsOnDevice, LossAndRankAsOnTheHost) {
  const auto there = NovelsThere();
  if (there == nullptr) GTEST_SKIP() << "no GPU";
  Transformer here = Novels();
  const TextInput text = ShortText(1024);
  ExpectNear(there->Loss(text).loss.value, here.Loss(text).loss.value);
  {
    const HeadEdit edit = {.drop = {{.layer = 1, .head = 2}}};
    const Intervention a = there->Edit(edit), b = here.Edit(edit);
    ExpectNear(there->Loss(text).loss.value, here.Loss(text).loss.value);
  }
  const Ranking found = RankHeads(*there, text), wanted = RankHeads(here, text);
  ASSERT_EQ(found.heads.size(), wanted.heads.size());
  for (size_t h = 0; h < wanted.heads.size(); ++h) {
    ExpectNear(found.criteria[0].heads[h].value,
               wanted.criteria[0].heads[h].value);
  }
}

TEST(DoorsOnDevice, ProfileAsOnTheHost) {
  const auto there = NovelsThere();
  if (there == nullptr) GTEST_SKIP() << "no GPU";
  Transformer here = Novels();
  const ProfileJob job = {.repeats = 0};
  const auto entropy = [&](Transformer& model) {
    return MetricMeans(MakeProfile(model, ShortText(1024), job), "entropy");
  };
  const auto found = entropy(*there), wanted = entropy(here);
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t h = 0; h < wanted.size(); ++h) ExpectNear(found[h], wanted[h]);
}

// Each has its own context; neither disturbs the other.
TEST(DoorsOnDevice, TwoModelsTakeTurns) {
  const auto a = NovelsThere(), b = NovelsThere();
  if (a == nullptr) GTEST_SKIP() << "no GPU";
  const TextInput text = ShortText(512);
  const double alone = a->Loss(text).loss.value;
  const Intervention edit = b->Edit({.drop = {{.layer = 0, .head = 0}}});
  const double other = b->Loss(text).loss.value;
  EXPECT_EQ(a->Loss(text).loss.value, alone);
  EXPECT_EQ(b->Loss(text).loss.value, other);
  EXPECT_NE(alone, other);
}

}  // namespace
}  // namespace headwise
