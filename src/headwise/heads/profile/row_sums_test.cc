// Sums of rows against every definition, on attention made by hand and at
// random, short and long.
#include "headwise/heads/profile/row_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "headwise/base/rng.h"
#include "headwise/base/sanitized.h"
#include "headwise/heads/profile/core_sums.h"
#include "headwise/heads/profile/dense.h"
#include "headwise/heads/profile/naive_metrics.h"

namespace headwise::row_sums_test {
namespace {

// Notes of n tokens out of a small vocabulary: some special, some punctuation,
// some rare, words of one or two pieces.
TokenNotes RandomNotes(int64_t n, bool framed, Rng& rng) {
  TokenNotes notes;
  for (int64_t i = 0; i < n; ++i) {
    const bool special = framed && (i == 0 || i == n - 1 || i == n / 2);
    notes.ids.push_back(static_cast<int32_t>(rng.Below(12)));
    notes.special.push_back(special ? 1 : 0);
    notes.punctuation.push_back(!special && notes.ids[i] == 3 ? 1 : 0);
    notes.rare.push_back(!special && notes.ids[i] > 8 ? 1 : 0);
    notes.word.push_back(special ? -1 : static_cast<int32_t>(i * 2 / 3));
    // Sentences of seven tokens, of which the third is the rarest.
    const int64_t rarest = i / 7 * 7 + 2;
    notes.rarest.push_back(
        special || rarest >= n ? -1 : static_cast<int32_t>(rarest));
  }
  return notes;
}

// Rows of a softmax over normal scores; keys 5 and n / 3 are often sinks.
DenseAttention RandomAttention(int64_t heads, int64_t n, bool causal,
                               Rng& rng) {
  DenseAttention dense{heads, n, n, causal, {}};
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < n; ++i) {
      std::vector<double> p(n);
      double sum = 0;
      for (int64_t j = 0; j < (causal ? i + 1 : n); ++j) {
        const double sink = h % 2 == 1 && (j == 5 || j == n / 3) ? 4.5 : 0;
        sum += p[j] = std::exp(2 * rng.Normal() + sink);
      }
      for (const double value : p) {
        dense.probabilities.push_back(static_cast<float>(value / sum));
      }
    }
  }
  return dense;
}

std::vector<HeadRef> HeadsOfOneLayer(int64_t heads) {
  std::vector<HeadRef> refs;
  for (int64_t h = 0; h < heads; ++h) {
    refs.push_back({AttentionKind::kSelf, 0, h});
  }
  return refs;
}

const AttentionSite kSite{AttentionKind::kSelf, 0, "layer.0.attention"};

void ObserveIn(Context& context, RowSums& sums, const SequenceNotes& sequence,
               const AttentionSite& site, const DenseAttention& dense) {
  sums.Begin(sums.Prepare(context, {sequence}));
  ObserveDense(context, sums, site, dense);
  sums.Finish();
}

Profile Observe(const DenseAttention& dense, const TokenNotes& notes,
                int64_t min_visible = 8) {
  Context context({.threads = 2, .implementations = ""});
  Profile profile(HeadsOfOneLayer(dense.heads));
  ObserverOptions options;
  options.min_visible = min_visible;
  RowSums sums(context, profile, options);
  SequenceNotes sequence;
  sequence.source = notes;
  ObserveIn(context, sums, sequence, kSite, dense);
  return profile;
}

// Every metric that either side has, in both.
void ExpectEqual(const Profile& profile, size_t head,
                 const std::map<std::string, double>& naive, double tolerance) {
  for (const auto& [name, mean] : naive) {
    EXPECT_NEAR(profile.Get(name, head).mean, mean,
                tolerance * std::max(1.0, std::abs(mean)))
        << name;
  }
  for (const auto& [name, tallies] : profile.metrics) {
    if (tallies[head].empty() || name.starts_with("semantic")) continue;
    EXPECT_TRUE(naive.contains(name)) << name << " is not in the definitions";
  }
}

DenseRow RowsOf(const DenseAttention& dense, int64_t h) {
  return [&dense, h](int64_t i) {
    const auto from =
        dense.probabilities.begin() + (h * dense.queries + i) * dense.keys;
    return std::vector<double>(from, from + dense.keys);
  };
}

TEST(RowSums, EqualsTheDefinitionsOnRandomAttention) {
  Rng rng(7);
  for (const bool causal : {true, false}) {
    for (const bool framed : {true, false}) {
      for (const int64_t n : {9, 40, 131}) {
        const TokenNotes notes = RandomNotes(n, framed, rng);
        const DenseAttention dense = RandomAttention(4, n, causal, rng);
        const Profile profile = Observe(dense, notes);
        for (size_t h = 0; h < 4; ++h) {
          SCOPED_TRACE(testing::Message()
                       << "causal " << causal << " framed " << framed << " n "
                       << n << " head " << h);
          ExpectEqual(profile, h,
                      NaiveMetrics(RowsOf(dense, h), notes, causal, 8), 1e-5);
        }
      }
    }
  }
}

TEST(RowSums, HeadsOwnSinksAreFoundAndLeftOut) {
  Rng rng(3);
  const int64_t n = 60;
  const TokenNotes notes = RandomNotes(n, false, rng);
  DenseAttention dense{1, n, n, true, std::vector<float>(n * n, 0)};
  for (int64_t i = 1; i < n; ++i) {
    float* p = dense.probabilities.data() + i * n;
    // Most of the mass rests on key 7, the rest reads the token before.
    p[i > 7 ? 7 : 0] += .8f;
    p[i - 1] += .2f;
  }
  dense.probabilities[0] = 1;
  const Profile profile = Observe(dense, notes);
  EXPECT_NEAR(profile.Get("previous", 0).mean, .2, .02);
  EXPECT_NEAR(profile.Get("previous.content", 0).mean, 1, 1e-5);
  EXPECT_NEAR(profile.Get("previous.content.argmax", 0).mean, 1, 1e-5);
  EXPECT_NEAR(profile.Get("content", 0).mean, .2, .01);
  ExpectEqual(profile, 0, NaiveMetrics(RowsOf(dense, 0), notes, true, 8), 1e-5);
}

// The second largest key counts where the end is the largest, be it a sink.
TEST(RowSums, ConfidenceLeavesOutTheEndAlone) {
  Rng rng(3);
  const int64_t n = 40;
  TokenNotes notes = RandomNotes(n, false, rng);
  notes.special[n - 1] = 1;
  for (const int64_t second : {int64_t{0}, int64_t{7}, n / 2, n / 4}) {
    // n / 4 is one of three special keys behind the first.
    notes.special[n / 2] = second == n / 2 || second == n / 4 ? 1 : 0;
    notes.special[n / 4] = second == n / 4 ? 1 : 0;
    DenseAttention dense{1, n, n, false, std::vector<float>(n * n, 0)};
    for (int64_t i = 0; i < n; ++i) {
      float* p = dense.probabilities.data() + i * n;
      p[n - 1] += .5f;
      p[second] += .4f;
      p[i] += .1f;
    }
    const Profile profile = Observe(dense, notes);
    EXPECT_NEAR(profile.Get("confidence", 0).mean,
                NaiveMetrics(RowsOf(dense, 0), notes, false, 8)["confidence"],
                1e-5)
        << second;
  }
}

TEST(RowSums, RowsThatSeeFewKeysAreLeftOut) {
  Rng rng(1);
  const TokenNotes notes = RandomNotes(9, false, rng);
  const DenseAttention dense = RandomAttention(1, 9, true, rng);
  EXPECT_EQ(Observe(dense, notes, 8).Get("previous", 0).count, 2);
  EXPECT_EQ(Observe(dense, notes, 2).Get("previous", 0).count, 8);
  EXPECT_EQ(Observe(dense, notes, 10).Get("previous", 0).count, 0);
}

// 8192 tokens of one head, streamed, equal the dense rows.
TEST(RowSums, LongTextEqualsDense) {
  // Sanitizers make N² rows of doubles slow.
  const int64_t tokens = IsSanitized() ? 1024 : 8192;
  constexpr int64_t kWidth = 4;
  Rng rng(5);
  const TokenNotes notes = RandomNotes(tokens, true, rng);
  Tensor q(DType::kF32, {1, tokens, 1, kWidth}),
      k(DType::kF32, {1, tokens, 1, kWidth});
  for (int64_t i = 0; i < q.size(); ++i) {
    q.As<float>()[i] = static_cast<float>(1.5 * rng.Normal());
    k.As<float>()[i] = static_cast<float>(1.5 * rng.Normal());
  }
  const DenseRow row = [&](int64_t i) {
    std::vector<double> p(tokens);
    double most = -1e9, sum = 0;
    for (int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (int64_t d = 0; d < kWidth; ++d) {
        score += static_cast<double>(q.As<float>()[i * kWidth + d]) *
                 k.As<float>()[j * kWidth + d];
      }
      p[j] = score / 2;  // 1/√4
      most = std::max(most, p[j]);
    }
    for (int64_t j = 0; j <= i; ++j) sum += p[j] = std::exp(p[j] - most);
    for (int64_t j = 0; j <= i; ++j) p[j] /= sum;
    return p;
  };
  Context context({.threads = 2, .implementations = ""});
  Profile profile(HeadsOfOneLayer(1));
  RowSums sums(context, profile, {});
  SequenceNotes sequence;
  sequence.source = notes;
  sums.Begin(sums.Prepare(context, {sequence}));
  Tensor out(DType::kF32, {1, tokens, 1, kWidth}),
      lse(DType::kF32, {1, 1, tokens});
  const int32_t starts[] = {0, static_cast<int32_t>(tokens)};
  AttentionProblem problem;
  problem.query_len = problem.key_len = tokens;
  problem.head_dim = kWidth;
  problem.packed = true;
  problem.mask = AttentionMask::Causal();
  AttentionArgs args;
  args.q = std::as_const(q).view();
  args.k = args.v = std::as_const(k).view();
  args.out = out.view();
  args.lse = lse.view();
  args.query_starts = args.key_starts = {starts, DType::kI32, {2}};
  sums.BeforeAttention(kSite, problem, args);
  AttentionForward(context, problem, args);
  args.observation = nullptr;
  sums.AfterAttention(kSite, problem, args);
  sums.Finish();
  ExpectEqual(profile, 0, NaiveMetrics(row, notes, true, 8), 1e-4);
}

TEST(RowSums, CrossAttentionIsJudgedByItsOwnMetrics) {
  // 12 target tokens over 24 source tokens: a diagonal head, and one at rest.
  DenseAttention dense{2, 12, 24, false, std::vector<float>(2 * 12 * 24, 0)};
  for (int64_t i = 0; i < 12; ++i) {
    dense.probabilities[i * 24 + 2 * i] = 1;
    dense.probabilities[(12 + i) * 24 + 23] = 1;
  }
  Rng rng(2);
  SequenceNotes sequence;
  sequence.source = RandomNotes(24, false, rng);
  sequence.target = RandomNotes(12, false, rng);
  Context context({.threads = 1, .implementations = ""});
  Profile profile(
      {{AttentionKind::kCross, 0, 0}, {AttentionKind::kCross, 0, 1}});
  RowSums sums(context, profile, {});
  ObserveIn(context, sums, sequence,
            {AttentionKind::kCross, 0, "decoder.layer.0.cross"}, dense);
  EXPECT_NEAR(profile.Get("monotone", 0).mean, 1, 1e-6);
  EXPECT_NEAR(profile.Get("monotone.chance", 0).mean, 5.0 / 24, .02);
  EXPECT_NEAR(profile.Get("source-end", 0).mean, 0, 1e-6);
  EXPECT_NEAR(profile.Get("source-end", 1).mean, 1, 1e-6);
  EXPECT_EQ(profile.Get("previous", 0).count, 0);
  EXPECT_EQ(profile.Get("distance", 0).count, 0);
}

TEST(RowSums, TheCoreIsPartOfThem) {
  Rng rng(5);
  for (const bool causal : {true, false}) {
    for (const AttentionKind kind :
         {AttentionKind::kSelf, AttentionKind::kCross}) {
      const int64_t n = 70;
      SequenceNotes sequence;
      sequence.source = RandomNotes(n, true, rng);
      sequence.target = RandomNotes(n, true, rng);
      const DenseAttention dense = RandomAttention(3, n, causal, rng);
      const AttentionSite site{kind, 0, "a site"};
      const std::vector<HeadRef> heads = {
          {kind, 0, 0}, {kind, 0, 1}, {kind, 0, 2}};
      Context context({.threads = 2, .implementations = ""});
      Profile all(heads), core(heads);
      RowSums sums(context, all, {});
      CoreSums core_sums(context, core, 8);
      const std::vector<CoreSums::Specials> specials = {
          {sequence.source.special, sequence.target.special}};
      // Twice: a second run begins anew.
      for (int run = 0; run < 2; ++run) {
        ObserveIn(context, sums, sequence, site, dense);
        core_sums.Begin(CoreSums::Prepare(context, specials));
        ObserveDense(context, core_sums, site, dense);
        core_sums.Finish();
        core_sums.Finish();
      }
      EXPECT_EQ(core.metrics.size(), 18u);
      for (const auto& [name, tallies] : core.metrics) {
        for (size_t h = 0; h < tallies.size(); ++h) {
          const Tally& whole = all.metrics.at(name)[h];
          EXPECT_EQ(tallies[h].n, whole.n) << name;
          EXPECT_EQ(tallies[h].w, whole.w) << name;
          EXPECT_NEAR(tallies[h].x, whole.x, 1e-6 * std::max(1.0, whole.w))
              << name;
        }
      }
    }
  }
}

// Numbers of a run go to what the profile holds.
TEST(RowSums, RunsAddUp) {
  Rng rng(9);
  const TokenNotes notes = RandomNotes(30, true, rng);
  const DenseAttention dense = RandomAttention(2, 30, true, rng);
  SequenceNotes sequence;
  sequence.source = notes;
  Context context({.threads = 2, .implementations = ""});
  Profile profile(HeadsOfOneLayer(2));
  RowSums sums(context, profile, {});
  for (int run = 1; run <= 3; ++run) {
    ObserveIn(context, sums, sequence, kSite, dense);
    EXPECT_EQ(profile.Get("entropy", 1).sequences, run);
    EXPECT_NEAR(profile.Get("entropy", 1).mean,
                Observe(dense, notes).Get("entropy", 1).mean, 1e-12);
  }
  double mass = 0;
  for (const double bucket : profile.histograms[1]) mass += bucket;
  EXPECT_NEAR(mass, profile.Get("entropy", 1).count, 1e-3);
}

// A head that rests almost entirely: what is left keeps its digits.
TEST(RowSums, ContentOfAHeadAtRestIsExact) {
  Rng rng(11);
  const int64_t n = 40;
  const TokenNotes notes = RandomNotes(n, false, rng);
  DenseAttention dense{1, n, n, true, {}};
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> p(n, 0.0);
    double sum = 0;
    for (int64_t j = 1; j <= i; ++j) sum += p[j] = std::exp(rng.Normal());
    for (int64_t j = 1; j <= i; ++j) p[j] *= 1e-4 / sum;
    p[0] = i == 0 ? 1 : 1 - 1e-4;
    for (const double value : p) {
      dense.probabilities.push_back(static_cast<float>(value));
    }
  }
  const Profile profile = Observe(dense, notes);
  const auto naive = NaiveMetrics(RowsOf(dense, 0), notes, true, 8);
  for (const char* name :
       {"content", "previous.content", "local.content", "offset.-3.content"}) {
    EXPECT_NEAR(profile.Get(name, 0).mean / naive.at(name), 1, 2e-5) << name;
  }
}

TEST(RowSums, RankAgreementHandlesTies) {
  const std::vector<float> a = {1, 2, 3, 4}, b = {4, 3, 2, 1},
                           ties = {1, 1, 2, 2}, flat = {5, 5, 5, 5};
  EXPECT_NEAR(RankAgreement(a, a), 1, 1e-12);
  EXPECT_NEAR(RankAgreement(a, b), -1, 1e-12);
  EXPECT_NEAR(RankAgreement(a, ties), 4 / std::sqrt(5.0 * 4), 1e-12);
  EXPECT_EQ(RankAgreement(a, flat), 0);
}

}  // namespace
}  // namespace headwise::row_sums_test
