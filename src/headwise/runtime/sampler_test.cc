#include "headwise/runtime/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "headwise/error.h"

namespace headwise::sampler_test {
namespace {

const std::vector<float> kLogits = {0.0f, 1.0f, 2.0f, 3.0f};

std::map<int32_t, double> Shares(const GenerateJob& job) {
  Sampler sampler(job);
  std::map<int32_t, double> shares;
  for (int i = 0; i < 20000; ++i) shares[sampler.Next(kLogits)] += 1.0 / 20000;
  return shares;
}

TEST(Sampler, ZeroTemperatureTakesTheLikeliest) {
  EXPECT_EQ(Sampler({}).Next(kLogits), 3);
}

TEST(Sampler, FollowsTheSoftmax) {
  auto shares = Shares({.temperature = 2, .seed = 4});
  double sum = 0;
  for (const float z : kLogits) sum += std::exp(z / 2);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(shares[i], std::exp(kLogits[i] / 2) / sum, 0.015);
  }
}

TEST(Sampler, TopKAndTopPCutTheTail) {
  auto top_k = Shares({.temperature = 1, .top_k = 2});
  EXPECT_EQ(top_k.size(), 2u);
  EXPECT_NEAR(top_k[3], 1 / (1 + std::exp(-1.0)), 0.015);
  // .644 + .237 = .881: two tokens hold .8, one alone does not.
  EXPECT_EQ(Shares({.temperature = 1, .top_p = 0.8}).size(), 2u);
  EXPECT_EQ(Shares({.temperature = 1, .top_p = 0.6}).size(), 1u);
}

TEST(Sampler, SameSeedSameTokens) {
  Sampler a({.temperature = 1, .seed = 9}), b({.temperature = 1, .seed = 9});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.Next(kLogits), b.Next(kLogits));
}

TEST(Sampler, RefusesLogitsThatAreNoNumbers) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  EXPECT_THROW(Sampler({.temperature = 1}).Next(std::vector<float>{1, NAN}),
               Error);
  for (const double temperature : {0.0, 1.0}) {
    for (const std::vector<float>& logits : {std::vector<float>{NAN, 1},
                                             {1, kInfinite},
                                             {-kInfinite, -kInfinite}}) {
      Sampler sampler({.temperature = temperature});
      EXPECT_THROW(sampler.Next(logits), Error)
          << logits[0] << " " << logits[1];
    }
    EXPECT_EQ(Sampler({.temperature = temperature})
                  .Next(std::vector<float>{-kInfinite, 1}),
              1)
        << "a token that is ruled out";
  }
}

}  // namespace
}  // namespace headwise::sampler_test
