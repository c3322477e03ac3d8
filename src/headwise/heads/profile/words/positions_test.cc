// Word-level positions against a dense computation.
#include "headwise/heads/profile/words/positions.h"

#include <gtest/gtest.h>

#include "headwise/heads/profile/dense.h"

namespace headwise::positions_test {
namespace {

// Six tokens: "un-" "likely" as one word, then four words of their own.
TokenNotes Notes() {
  TokenNotes notes;
  notes.ids = {1, 2, 3, 4, 5, 6};
  notes.special.assign(6, 0);
  notes.punctuation.assign(6, 0);
  notes.rare.assign(6, 0);
  notes.word = {0, 0, 1, 2, 3, 4};
  notes.rarest.assign(6, -1);
  return notes;
}

Profile Observe(const DenseAttention& dense) {
  Context context({.threads = 2, .implementations = ""});
  Profile profile({{AttentionKind::kSelf, 0, 0}});
  WordObserver observer(context, profile, 2);
  SequenceNotes sequence;
  sequence.source = Notes();
  observer.Begin({&sequence, 1});
  const AttentionSite site{AttentionKind::kSelf, 0, "layer.0.attention"};
  ObserveDense(context, observer, site, dense);
  return profile;
}

// Every token reads both pieces of the first word alike.
TEST(WordObserver, SumsToAWordAndAveragesFromIt) {
  DenseAttention dense{1, 6, 6, false, {}};
  for (int i = 0; i < 6; ++i) {
    dense.probabilities.insert(dense.probabilities.end(),
                               {0.25f, 0.25f, 0.125f, 0.125f, 0.125f, 0.125f});
  }
  const Profile profile = Observe(dense);
  // Words 1 … 4 count; the word before is the first for one of them.
  EXPECT_NEAR(profile.Get("words.previous", 0).mean, (0.5 + 3 * 0.125) / 4,
              1e-5);
  EXPECT_NEAR(profile.Get("words.self", 0).mean, 0.125, 1e-5);
  EXPECT_NEAR(profile.Get("words.next", 0).mean, 0.125, 1e-5);
  EXPECT_EQ(profile.Get("words.next", 0).count, 3);
  EXPECT_NEAR(profile.Get("words.previous.chance", 0).mean, 0.2, 1e-5);
  EXPECT_NEAR(profile.Get("words.previous.argmax", 0).mean, 0.25, 1e-5);
  EXPECT_NEAR(profile.Get("words.offset.-4", 0).mean, 0.5, 1e-5);
  EXPECT_NEAR(profile.Get("words.local", 0).mean, 1, 1e-5);
}

TEST(WordObserver, ThePieceBeforeIsTheWordBefore) {
  DenseAttention dense{1, 6, 6, true, {}};
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 6; ++j) {
      dense.probabilities.push_back(j == (i > 0 ? i - 1 : 0) ? 1.0f : 0.0f);
    }
  }
  const Profile profile = Observe(dense);
  EXPECT_NEAR(profile.Get("words.previous", 0).mean, 1, 1e-5);
  EXPECT_NEAR(profile.Get("words.previous.argmax", 0).mean, 1, 1e-5);
  EXPECT_EQ(profile.Get("words.next", 0).count, 0);
}

}  // namespace
}  // namespace headwise::positions_test
