#include "bench/report.h"

#include <gmock/gmock.h>

#include "bench/attention_bench.h"

namespace headwise::bench {
namespace {

using testing::HasSubstr;

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

Row MakeRow(const std::string& impl, bool peer, const std::string& observe,
            double ms, int threads = 1) {
  Row row;
  row.impl = impl;
  row.peer = peer;
  row.observe = observe;
  row.ms = ms;
  row.threads = threads;
  return row;
}

TEST(Report, RowHasExactlyTheAgreedMembers) {
  const std::vector<std::string> expected = {
      "op",      "impl",    "peer",     "pass",      "type",    "mask",
      "batch",   "heads",   "kv_heads", "query_len", "key_len", "head_dim",
      "threads", "observe", "ms",       "spread",    "gflops",  "extra_bytes"};
  EXPECT_EQ(Keys(ToJson(Row())), expected);
}

TEST(Report, MachineIsDescribed) {
  const auto machine = DescribeMachine({"peer 1.0"});
  EXPECT_FALSE(machine["cpu"].get<std::string>().empty());
  EXPECT_GE(machine["cores"].get<int>(), 1);
  EXPECT_EQ(machine["peers"][0], "peer 1.0");
}

TEST(Report, TableComparesWithTheFastestPeerOfAsManyThreads) {
  const std::string table = Table(
      {MakeRow("ours", false, "none", 10), MakeRow("ours", false, "core", 10.5),
       MakeRow("ours", false, "none", 5, 2), MakeRow("slow", true, "none", 20),
       MakeRow("fast", true, "none", 15),
       MakeRow("fast", true, "none", 10, 2)});
  EXPECT_THAT(table, HasSubstr("1.50×"));   // 15 / 10
  EXPECT_THAT(table, HasSubstr("+5.0 %"));  // 10.5 / 10
  EXPECT_THAT(table, HasSubstr("2.00×"));   // 10 / 5, peer and threads
  EXPECT_THAT(table, HasSubstr("0.75×"));   // the slow peer, 15 / 20
}

TEST(BenchAttention, TinyProblemGivesRowsOfEveryLevelAndImplementation) {
  Config config;
  config.heads = 2;
  config.query_len = 9;
  config.head_dim = 8;
  config.mask = {"causal"};
  config.features = 3;
  config.labels = 1;
  const auto results = BenchAttention(config, {.all = true, .seconds = 0.01});
  ASSERT_EQ(results.size(), 1u);
  int references = 0;
  for (const Row& row : results[0].rows) {
    EXPECT_EQ(row.op, "attention");
    EXPECT_EQ(row.mask, "causal");
    EXPECT_EQ(row.key_len, 9);
    EXPECT_GT(row.ms, 0);
    // 2 heads, 45 visible pairs, 2·(8 + 8) operations each.
    EXPECT_NEAR(row.gflops, 2 * 45 * 32 / row.ms * 1e-6, 1e-9);
    EXPECT_TRUE(row.extra_bytes.has_value());
    references += row.impl.rfind("reference", 0) == 0;
  }
  EXPECT_EQ(references, 3);  // none, core, full
}

TEST(BenchAttention, BackwardIsTimedWithoutObservations) {
  Config config;
  config.heads = 2;
  config.query_len = 9;
  config.head_dim = 8;
  config.mask = {"none"};
  config.pass = {"backward"};
  const auto results = BenchAttention(config, {.seconds = 0.01});
  ASSERT_EQ(results.size(), 1u);
  ASSERT_EQ(results[0].rows.size(), 1u);
  const Row& row = results[0].rows[0];
  EXPECT_EQ(row.pass, "backward");
  EXPECT_NEAR(row.gflops, 2.5 * 2 * 81 * 32 / row.ms * 1e-6, 1e-9);
}

TEST(BenchMatmul, TinyProblemGivesPackedAndPlain) {
  Config config;
  config.m = 3;
  config.n = 5;
  config.k = 7;
  const auto results = BenchMatmul(config, {.seconds = 0.01});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].rows.size(), 2u);
  EXPECT_EQ(results[0].rows[0].head_dim, 7);
}

}  // namespace
}  // namespace headwise::bench
