// The public doors on a GPU give what they give on the host, in f32. Skipped
// where there is none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "headwise/api/test_model.h"
#include "headwise/error.h"
#include "headwise/head_edit.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/rank.h"
#include "headwise/session.h"
#include "headwise/text_input.h"

namespace headwise::device_test {
namespace {

constexpr double kTolerance = 1e-4;

// The shipped model on the first GPU, or null where there is none.
std::unique_ptr<Transformer> NovelsThere(DType type = DType::kF32) {
  try {
    return std::make_unique<Transformer>(
        Novels({.device = Device::Cuda(), .type = type}));
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

// Before anything is run: more than any GPU has.
TEST(DoorsOnDevice, WorkThatDoesNotFitSaysWhatItTakes) {
  const auto there = NovelsThere();
  if (there == nullptr) GTEST_SKIP() << "no GPU";
  constexpr size_t kTokens = 60'000'000;
  TextInput text;
  text.ids = {std::vector<int32_t>(kTokens, 5)};
  try {
    MakeProfile(*there, text, {.repeats = 0});
    FAIL() << "was let through";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    const std::string said = error.what();
    for (const char* part :
         {"for the weights", "for a run", "free", "--type"}) {
      EXPECT_NE(said.find(part), said.npos) << said;
    }
  }
}

// The logits of a text that grows by its likeliest token: after each step what
// `pause` does comes in between.
std::vector<float> Grow(Transformer& model,
                        const std::function<void()>& pause) {
  constexpr int kSteps = 20;
  std::vector<int32_t> ids = model.Encode(kSentence).ids;
  std::vector<float> all;
  Conversation text(model);
  for (int step = 0; step < kSteps; ++step) {
    const Tensor logits = text.Feed(ids);
    const std::span<const float> values(logits.As<float>(),
                                        static_cast<size_t>(logits.size()));
    all.insert(all.end(), values.begin(), values.end());
    const auto best = std::max_element(values.begin(), values.end());
    ids = {static_cast<int32_t>(best - values.begin())};
    pause();
  }
  return all;
}

// Two models, each with its own context, in turn and at once: bit for bit what
// each gives alone. b differs from a.
void ExpectUndisturbed(Transformer& a, Transformer& b) {
  const auto nothing = [] {};
  const std::vector<float> alone_a = Grow(a, nothing);
  const std::vector<float> alone_b = Grow(b, nothing);
  EXPECT_NE(alone_a, alone_b);
  Conversation beside(b);
  const std::vector<int32_t> piece = b.Encode(kSentence).ids;
  EXPECT_EQ(Grow(a,
                 [&] {
                   beside.Clear();
                   beside.Feed(piece);
                   beside.Feed({piece.data(), 1});
                 }),
            alone_a);
  std::vector<float> with_b;
  std::jthread other([&] { with_b = Grow(b, nothing); });
  const std::vector<float> with_a = Grow(a, nothing);
  other.join();
  EXPECT_EQ(with_a, alone_a);
  EXPECT_EQ(with_b, alone_b);
}

TEST(DoorsOnDevice, TwoModelsGrowTextsUndisturbed) {
  {
    Transformer a = Novels(), b = Novels();
    const Intervention edit = b.Edit({.drop = {{.layer = 0, .head = 0}}});
    ExpectUndisturbed(a, b);
  }
  const auto a = NovelsThere(), b = NovelsThere(DType::kBF16);
  if (a == nullptr) GTEST_SKIP() << "no GPU: the host alone was tested";
  ExpectUndisturbed(*a, *b);
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
}  // namespace headwise::device_test
