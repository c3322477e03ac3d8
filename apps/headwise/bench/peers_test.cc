#include "bench/peers.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "bench/softmax.h"

namespace headwise::bench {
namespace {

using testing::Contains;

AttentionProblem Small() {
  AttentionProblem problem;
  problem.heads = 2;
  problem.kv_heads = 2;
  problem.query_len = problem.key_len = 70;
  problem.head_dim = 8;
  problem.mask = AttentionMask::Causal();
  return problem;
}

Row SmallRow() {
  Row row;
  row.pass = "forward";
  row.type = "f32";
  row.mask = "causal";
  row.heads = row.kv_heads = 2;
  row.query_len = row.key_len = 70;
  row.head_dim = 8;
  return row;
}

TEST(Softmax, SumsToOneOverTheVisibleAndClearsTheRest) {
  for (int64_t visible = 1; visible <= 21; ++visible) {
    std::vector<float> row(21);
    double sum = 0;
    for (int64_t j = 0; j < 21; ++j) row[j] = static_cast<float>(j % 5) - 2;
    for (int64_t j = 0; j < visible; ++j) sum += std::exp(row[j]);
    const std::vector<float> scores = row;
    SoftmaxRow(row.data(), visible, 21);
    for (int64_t j = 0; j < 21; ++j) {
      const double expected = j < visible ? std::exp(scores[j]) / sum : 0;
      EXPECT_NEAR(row[j], expected, 1e-6) << visible << " " << j;
    }
  }
}

TEST(Peers, WrongResultsAreLeftOut) {
  const AttentionData data = MakeAttentionData(Small());
  Tensor zeros(DType::kF32, {1, 70, 2, 8});
  Peers peers;
  AddIfCorrect(
      {data, SmallRow(), 1}, "wrong", [] {}, zeros, peers);
  EXPECT_TRUE(peers.candidates.empty());
  ASSERT_EQ(peers.notes.size(), 1u);
  EXPECT_THAT(peers.notes[0], testing::HasSubstr("peer wrong: left out"));
}

TEST(Peers, MissingOnnxRuntimeSaysHowToGetIt) {
  setenv("HEADWISE_PEERS", testing::TempDir().c_str(), 1);
  const AttentionData data = MakeAttentionData(Small());
  Peers peers;
  AddOnnxRuntimeAttention({data, SmallRow(), 1}, peers);
  unsetenv("HEADWISE_PEERS");
  EXPECT_THAT(peers.notes, Contains("peer onnxruntime: not installed; run "
                                    "bench/peers/setup"));
}

// Composed attention is ours but for the products: it must be attention.
TEST(Peers, OpenBlasComposedIsAttentionWhereInstalled) {
  const AttentionData data = MakeAttentionData(Small());
  Peers peers;
  AddOpenBlasAttention({data, SmallRow(), 1}, peers);
  if (peers.versions.empty()) GTEST_SKIP() << peers.notes[0];
  EXPECT_EQ(peers.candidates.size(), 1u);
  EXPECT_TRUE(peers.notes.empty());
}

}  // namespace
}  // namespace headwise::bench
