// Attention built by hand, run through the operator and the profile's observer,
// must get the role it was built for, first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "headwise/base/rng.h"
#include "headwise/heads/profile/row_sums.h"
#include "headwise/heads/profile/words/links.h"
#include "headwise/heads/profile/words/word_attention.h"
#include "headwise/heads/roles/roles.h"

namespace headwise::hand_built_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// Probability of each (query, key), to be divided by the row's sum.
using Weights = std::function<double(int64_t query, int64_t key)>;

struct Set {
  AttentionKind kind = AttentionKind::kSelf;
  bool causal = true;
  int64_t min_visible = 8;
  std::string prefix = {};  // "repeats."
  const Model* model = nullptr;
};

// Notes as of a text of which nothing is known but the ids.
TokenNotes Plain(const std::vector<int32_t>& ids) {
  TokenNotes notes;
  notes.ids = ids;
  notes.special.assign(ids.size(), 0);
  notes.punctuation.assign(ids.size(), 0);
  notes.rare.assign(ids.size(), 0);
  notes.rarest.assign(ids.size(), -1);
  notes.word.resize(ids.size());
  std::iota(notes.word.begin(), notes.word.end(), 0);
  return notes;
}

TokenNotes Distinct(int64_t count) {
  std::vector<int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  return Plain(ids);
}

// Runs one head with exactly this attention over one sequence: q_i is the i-th
// unit vector, and k_j holds ln A_ij at i.
void Observe(const Set& set, const SequenceNotes& sequence,
             const Weights& weights, Profile& profile) {
  const bool cross = set.kind == AttentionKind::kCross;
  const int64_t queries =
      cross ? sequence.target.size() : sequence.source.size();
  const int64_t keys = sequence.source.size();
  Tensor q(DType::kF32, {1, queries, 1, queries});
  Tensor k(DType::kF32, {1, keys, 1, queries});
  Tensor v(DType::kF32, {1, keys, 1, queries});
  Tensor out(DType::kF32, {1, queries, 1, queries});
  Tensor lse(DType::kF32, {1, 1, queries});
  for (int64_t i = 0; i < queries; ++i) {
    q.As<float>()[i * queries + i] = 1;
    for (int64_t j = 0; j < keys; ++j) {
      const double weight = weights(i, j);
      k.As<float>()[j * queries + i] =
          weight > 0 ? static_cast<float>(std::log(weight)) : -1e4f;
    }
  }
  AttentionProblem problem;
  problem.query_len = queries;
  problem.key_len = keys;
  problem.head_dim = problem.value_dim = queries;
  problem.scale = 1;
  problem.packed = true;
  if (set.causal && !cross) problem.mask = AttentionMask::Causal();
  const std::vector<int32_t> query_starts = {0, static_cast<int32_t>(queries)};
  const std::vector<int32_t> key_starts = {0, static_cast<int32_t>(keys)};
  AttentionArgs args;
  args.q = std::as_const(q).view();
  args.k = std::as_const(k).view();
  args.v = std::as_const(v).view();
  args.out = out.view();
  args.lse = lse.view();
  args.query_starts = {query_starts.data(), DType::kI32, {2}};
  args.key_starts = {key_starts.data(), DType::kI32, {2}};
  Context context({1, ""});
  ObserverOptions options;
  options.prefix = set.prefix;
  options.min_visible = set.min_visible;
  options.text = set.prefix.empty();
  options.model = set.model;
  RowSums sums(context, profile, options);
  sums.Begin(sums.Prepare(context, {sequence}));
  const AttentionSite site{set.kind, 0, "layer.0.attention"};
  sums.BeforeAttention(site, problem, args);
  AttentionForward(context, problem, args);
  args.observation = nullptr;
  sums.AfterAttention(site, problem, args);
  sums.Finish();
}

// Names of the roles of one head observed over equal sequences.
std::vector<std::string> RolesOf(const Set& set, const SequenceNotes& sequence,
                                 const Weights& weights, int times = 2) {
  Profile profile({{set.kind, 0, 0}});
  for (int s = 0; s < times; ++s) Observe(set, sequence, weights, profile);
  const auto all = AssignRoles(profile);
  std::vector<std::string> names;
  for (const Role& role : all[0].roles) names.push_back(ToString(role));
  return names;
}

SequenceNotes Text(TokenNotes source) {
  SequenceNotes sequence;
  sequence.source = std::move(source);
  return sequence;
}

constexpr int64_t kTokens = 64;
const Set kCausal;
const Set kOpen = {.causal = false};

Weights At(int64_t offset) {
  return [=](int64_t i, int64_t j) {
    // Rows that do not have the offset look at themselves.
    const bool there = i + offset >= 0 && i + offset < kTokens;
    return j == i + (there ? offset : 0) ? 1.0 : 1e-4;
  };
}

std::string First(const std::vector<std::string>& roles) {
  return roles.empty() ? kNoRole : roles[0];
}

TEST(HandBuilt, OffsetsGetTheirNames) {
  const SequenceNotes text = Text(Distinct(kTokens));
  EXPECT_THAT(RolesOf(kCausal, text, At(-1)), ElementsAre("previous-token"));
  EXPECT_THAT(RolesOf(kCausal, text, At(-3)), ElementsAre("offset -3"));
  EXPECT_THAT(RolesOf(kCausal, text, At(0)), ElementsAre("self"));
  EXPECT_THAT(RolesOf(kOpen, text, At(1)), ElementsAre("next-token"));
  EXPECT_THAT(RolesOf(kOpen, text, At(5)), ElementsAre("offset 5"));
  EXPECT_THAT(RolesOf(kOpen, text, At(-1)), ElementsAre("previous-token"));
}

TEST(HandBuilt, SinksGetTheirNames) {
  const SequenceNotes text = Text(Distinct(kTokens));
  const Weights first = [](int64_t, int64_t j) { return j == 0 ? 1 : 1e-3; };
  EXPECT_EQ(First(RolesOf(kCausal, text, first)), "first-token");
  const Weights last = [](int64_t, int64_t j) {
    return j == kTokens - 1 ? 1 : 1e-3;
  };
  EXPECT_EQ(First(RolesOf(kOpen, text, last)), "last-token");
}

TEST(HandBuilt, DelimitersAreNamedButNeverTheFirstTokenOfACausalModel) {
  TokenNotes notes = Distinct(kTokens);
  for (int64_t j = 5; j < kTokens; j += 6) notes.punctuation[j] = 1;
  const Weights marks = [=](int64_t, int64_t j) {
    return notes.punctuation[j] != 0 ? 1 : 1e-3;
  };
  EXPECT_EQ(First(RolesOf(kCausal, Text(notes), marks)), "delimiter");

  TokenNotes bos = Distinct(kTokens);
  bos.special[0] = 1;
  const Weights first = [](int64_t, int64_t j) { return j == 0 ? 1 : 1e-3; };
  EXPECT_THAT(RolesOf(kCausal, Text(bos), first), ElementsAre("first-token"));
  EXPECT_THAT(RolesOf(kOpen, Text(bos), first),
              ElementsAre("first-token", "delimiter"))
      << "[CLS] is both";
}

TEST(HandBuilt, LocalIsABandAndBroadAlmostEverything) {
  const SequenceNotes text = Text(Distinct(kTokens));
  const Weights near = [](int64_t i, int64_t j) {
    return std::abs(i - j) <= 4 ? 1 : 1e-4;
  };
  EXPECT_THAT(RolesOf(kCausal, text, near), ElementsAre("local"));
  EXPECT_THAT(RolesOf(kOpen, text, near), ElementsAre("local"));
  const Weights wide = [](int64_t i, int64_t j) {
    return std::exp(0.9 * std::sin(static_cast<double>(7 * i + 13 * j)));
  };
  EXPECT_THAT(RolesOf(kOpen, text, wide), ElementsAre("broad"));
  EXPECT_THAT(RolesOf(kCausal, text, wide), ElementsAre("broad"));
}

TEST(HandBuilt, UniformAttentionHasNoRole) {
  const Weights uniform = [](int64_t, int64_t) { return 1; };
  for (const Set& set : {kCausal, kOpen}) {
    EXPECT_THAT(RolesOf(set, Text(Distinct(kTokens)), uniform), IsEmpty());
  }
}

TEST(HandBuilt, ShuffledAttentionHasNoRole) {
  // The rows of heads that have a role, their keys permuted row by row.
  const SequenceNotes text = Text(Distinct(kTokens));
  std::vector<std::vector<int64_t>> order(kTokens);
  for (int64_t i = 0; i < kTokens; ++i) {
    Rng rng(3, i);
    order[i].resize(kTokens);
    std::iota(order[i].begin(), order[i].end(), 0);
    for (int64_t j = kTokens - 1; j > 0; --j) {
      std::swap(order[i][j], order[i][rng.Below(j + 1)]);
    }
  }
  const Weights band = [](int64_t i, int64_t j) {
    return std::abs(i - j) <= 4 ? 1 : 1e-4;
  };
  for (const Weights& role : {At(-1), At(0), At(2), band}) {
    const Weights shuffled = [&](int64_t i, int64_t j) {
      return role(i, order[i][j]);
    };
    EXPECT_THAT(RolesOf(kOpen, text, shuffled), IsEmpty());
  }
}

TEST(HandBuilt, ASinkHeavyHeadIsNamedByWhatItDoesElsewhere) {
  TokenNotes notes = Distinct(kTokens);
  notes.special[0] = 1;
  const auto mostly_sink = [](double content, int64_t offset) {
    return [=](int64_t i, int64_t j) {
      return j == 0 ? 1 - content : j == i + offset ? content : 1e-6;
    };
  };
  EXPECT_THAT(RolesOf(kCausal, Text(notes), mostly_sink(.2, -1)),
              ElementsAre("first-token",
                          "previous-token (when not at the sink, c = .20)"));
  EXPECT_THAT(RolesOf(kCausal, Text(notes), mostly_sink(.05, -1)),
              ElementsAre("first-token"))
      << "too little is left";
}

TEST(HandBuilt, RepeatsShowInductionAndDuplicates) {
  Set repeats;
  repeats.prefix = "repeats.";
  constexpr int64_t kPeriod = 25;
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < 4 * kPeriod; ++i) {
    ids.push_back(static_cast<int32_t>(i % kPeriod));
  }
  const SequenceNotes sequence = Text(Plain(ids));
  const auto earlier = [](int64_t shift) {
    return [=](int64_t i, int64_t j) {
      return j <= i && (i - j + shift) % kPeriod == 0 && i != j ? 1 : 1e-4;
    };
  };
  EXPECT_EQ(First(RolesOf(repeats, sequence, earlier(1))), "induction");
  EXPECT_EQ(First(RolesOf(repeats, sequence, earlier(0))), "duplicate");
}

TEST(HandBuilt, RareTokensDrawTheRestOfTheirSentence) {
  TokenNotes notes = Distinct(kTokens);
  for (int64_t i = 0; i < kTokens; ++i) {
    notes.rarest[i] = static_cast<int32_t>(i / 16 * 16 + 3);
    notes.rare[i] = i % 16 == 3 ? 1 : 0;
  }
  const Weights rarest = [=](int64_t i, int64_t j) {
    return j == notes.rarest[i] ? 1 : 1e-3;
  };
  EXPECT_EQ(First(RolesOf(kCausal, Text(notes), rarest)), "rare-token");
  const Weights sink_first = [=](int64_t i, int64_t j) {
    return j == 0 ? 3 : rarest(i, j);
  };
  EXPECT_THAT(RolesOf(kCausal, Text(notes), sink_first),
              Contains(StartsWith("rare-token (when not at the sink, c = .2")));
}

TEST(HandBuilt, RareTokensOfShortSentencesAreMetByChance) {
  TokenNotes notes = Distinct(6);
  notes.rarest.assign(6, 1);
  notes.rare[1] = 1;
  // Half of the four rows after it, which see three to six keys.
  const Weights half = [](int64_t i, int64_t j) {
    return j == (i < 4 ? 1 : i) ? 1 : 1e-3;
  };
  const Set set = {.min_visible = 2};
  EXPECT_THAT(RolesOf(set, Text(notes), half), Not(Contains("rare-token")));
}

TEST(HandBuilt, AttentionByLikenessOfEmbeddingsIsSemantic) {
  constexpr int64_t kWidth = 8;
  Tensor table(DType::kF32, {kTokens, kWidth});
  float* numbers = table.As<float>();
  Rng rng(9);
  for (int64_t i = 0; i < table.size(); ++i) {
    numbers[i] = static_cast<float>(rng.Normal());
  }
  Model::Parts parts;
  parts.config.width = kWidth;
  parts.config.vocabulary = kTokens;
  parts.stack.embeddings.tokens = {"tokens", std::as_const(table).view()};
  const Model model(std::move(parts));
  Set set = kOpen;
  set.model = &model;
  const auto dot = [=](int64_t a, int64_t b) {
    return std::inner_product(numbers + a * kWidth, numbers + (a + 1) * kWidth,
                              numbers + b * kWidth, 0.0);
  };
  const Weights alike = [=](int64_t i, int64_t j) {
    if (i == j) return 1e-4;  // else it would be a self head as well
    return std::exp(4 * dot(i, j) / std::sqrt(dot(i, i) * dot(j, j)));
  };
  // Of a sequence few rows are drawn; correlations of 1 do not scatter.
  EXPECT_EQ(First(RolesOf(set, Text(Distinct(kTokens)), alike, 20)),
            "semantic");
}

TEST(HandBuilt, CrossAttentionAlongTheDiagonalIsMonotone) {
  const Set cross = {.kind = AttentionKind::kCross};
  SequenceNotes pair;
  pair.source = Distinct(30);
  pair.target = Distinct(20);
  const Weights diagonal = [](int64_t i, int64_t j) {
    return std::abs(static_cast<double>(j) - 1.5 * static_cast<double>(i)) <= 1
               ? 1
               : 1e-4;
  };
  EXPECT_EQ(First(RolesOf(cross, pair, diagonal)), "monotone");
  const Weights end = [](int64_t, int64_t j) { return j == 29 ? 1 : 1e-3; };
  EXPECT_EQ(First(RolesOf(cross, pair, end)), "source-end");
}

TEST(HandBuilt, AHeadThatFollowsArcsIsSyntactic) {
  // Sentences of 20 words, one token each; word w depends on a random one.
  constexpr size_t kWords = 20;
  std::vector<int32_t> words(kWords);
  std::iota(words.begin(), words.end(), 0);
  const auto tokens = TokensOfWords(words, kWords);
  Profile profile({{AttentionKind::kSelf, 0, 0}});
  LinkCounter counter(1);
  Rng rng(5);
  for (int sentence = 0; sentence < 20; ++sentence) {
    const std::string half = sentence % 2 == 0 ? ".a" : ".b";
    std::vector<float> map(kWords * kWords, 1e-4f);
    std::vector<WordLink> links;
    for (size_t w = 0; w < kWords; ++w) {
      const size_t governor = (w + 1 + rng.Below(kWords - 1)) % kWords;
      map[w * kWords + governor] = .9f;
      links.push_back({static_cast<int32_t>(w), static_cast<int32_t>(governor),
                       counter.Metric("syntactic.nsubj.up" + half)});
    }
    counter.BeginSequence(links);
    counter.Add(0, MostAttendedWords({map.data(), kWords}, tokens, words,
                                     kWords, FromWord::kMean, true));
  }
  counter.AddTo(profile);
  const auto roles = AssignRoles(profile);
  ASSERT_EQ(roles[0].roles.size(), 1u);
  EXPECT_EQ(roles[0].roles[0].name, "syntactic(nsubj)");
  EXPECT_EQ(roles[0].roles[0].score, 1);
}

// The 5 × 5 pictures of the source texts, rows divided by their sum.
class Picture : public testing::Test {
 protected:
  static Profile Of(const std::vector<std::string>& rows) {
    Set set = kOpen;
    set.min_visible = 2;
    Profile profile({{AttentionKind::kSelf, 0, 0}});
    const Weights weights = [&](int64_t i, int64_t j) {
      return rows[i][j] == '1' ? 1.0 : 0.0;
    };
    Observe(set, Text(Distinct(5)), weights, profile);
    return profile;
  }
  static void ExpectFirst(const Profile& profile, const std::string& name,
                          double score) {
    const auto roles = AssignRoles(profile);
    ASSERT_FALSE(roles[0].roles.empty());
    EXPECT_EQ(roles[0].roles[0].name, name);
    EXPECT_NEAR(roles[0].roles[0].score, score, 1e-5);
  }
};

TEST_F(Picture, PreviousToken) {
  ExpectFirst(Of({"10000", "11000", "01100", "00110", "00011"}),
              "previous-token", .5);
}

TEST_F(Picture, NextToken) {
  ExpectFirst(Of({"11000", "01100", "00110", "00011", "00001"}), "next-token",
              .5);
}

TEST_F(Picture, LastToken) {
  ExpectFirst(Of({"00001", "00001", "00001", "00001", "00001"}), "last-token",
              1);
}

}  // namespace
}  // namespace headwise::hand_built_test
