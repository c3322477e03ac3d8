#include "headwise/study/support/passkey.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "headwise/ops/loss/loss.h"

namespace headwise::passkey_test {
namespace {

constexpr PasskeyTask kTask = {};

TEST(PasskeyTest, IsHiddenOnceAndAskedForAtTheEnd) {
  for (const Passkey& one : HidePasskeys(kTask, 7, 50)) {
    const std::vector<int32_t>& prompt = one.prompt;
    EXPECT_EQ(std::ssize(prompt), kTask.length - kTask.key + 1);
    EXPECT_EQ(prompt.back(), one.key[0]);
    for (int64_t i = 0; i < kTask.key; ++i) {
      EXPECT_EQ(prompt[one.place + i], one.key[i]);
      EXPECT_EQ(std::count(prompt.begin(), prompt.end(), one.key[i]),
                i == 0 ? 2 : 1);
    }
    EXPECT_LE(one.place + kTask.key, kTask.length / 2);
  }
  EXPECT_NEAR(kTask.chance(), std::pow(63, -4), 1e-15);
}

TEST(PasskeyTest, LessonsPredictTheKeyWhereItIsAskedFor) {
  for (uint64_t i = 0; i < 50; ++i) {
    Rng rng(3, i);
    const MadeSequence lesson = kTask.Lesson(rng);
    ASSERT_LE(std::ssize(lesson.ids), kTask.length);
    int64_t told = 0;
    for (size_t t = 0; t + 1 < lesson.ids.size(); ++t) {
      if (lesson.targets[t] == kIgnoreTarget) continue;
      EXPECT_EQ(lesson.targets[t], lesson.ids[t + 1]);
      // It stood there before.
      EXPECT_NE(std::find(lesson.ids.begin(), lesson.ids.begin() + t,
                          lesson.targets[t]),
                lesson.ids.begin() + t);
      ++told;
    }
    EXPECT_GE(told, kTask.key - 1);
  }
}

// What has learned nothing tells nothing, and a policy saves what it leaves
// out.
TEST(PasskeyTest, AnUntrainedModelTellsNoKeys) {
  Context context({.threads = 2, .implementations = ""});
  const TinyModel tiny(context,
                       TinyLlama({.layers = 2,
                                  .heads = 4,
                                  .vocabulary = kTask.vocabulary(),
                                  .context = kTask.length}),
                       TinyTraining(1, 1));
  const std::vector<Passkey> texts = HidePasskeys(kTask, 1, 30);
  const ToldKeys whole = TellKeys(context, tiny.model(), texts, nullptr);
  EXPECT_LT(whole.share, 0.1);
  EXPECT_EQ(whole.bytes.saved(), 0);
  const KvPolicy policy = {4, 32, {{AttentionKind::kSelf, 1, 0}}};
  const ToldKeys cut = TellKeys(context, tiny.model(), texts, &policy);
  EXPECT_NEAR(cut.bytes.saved(), 1 - (1 + 7 * 51. / 255) / 8, 1e-9);
  const std::vector<double> retrieval =
      RetrievalOf(context, tiny.model(), texts);
  ASSERT_EQ(retrieval.size(), 8u);
  for (const double share : retrieval) {
    EXPECT_TRUE(share >= 0 && share < 0.2) << share;
  }
}

}  // namespace
}  // namespace headwise::passkey_test
