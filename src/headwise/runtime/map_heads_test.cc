// What MapHeads runs, and for which queries.
#include "headwise/runtime/attention_maps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "headwise/error.h"
#include "headwise/model/checkpoint.h"

namespace headwise::map_heads_test {
namespace {

using testing::ElementsAre;

class AttentionMapsTest : public testing::Test {
 protected:
  AttentionMapsTest() {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 100; ++i) ids.push_back(1 + i % 60);
    window_ = WindowOfIds(std::move(ids));
  }

  const std::unique_ptr<Model> model_ =
      OpenModel(std::filesystem::path(HEADWISE_SOURCE) / "assets" / "planted");
  Context context_{{.threads = 1, .implementations = ""}};
  TokenWindow window_;
};

// Lists of keys are made for the queries that are shown, not for all.
TEST_F(AttentionMapsTest, ListsKeysOfSomeQueriesEvenlySpread) {
  ShowJob job;
  job.queries = 4;
  job.top = 3;
  const auto few =
      MapHeads(context_, *model_, window_, {{.layer = 1, .head = 2}}, job);
  EXPECT_THAT(few[0].top_queries, ElementsAre(12, 37, 62, 87));
  ASSERT_EQ(few[0].top_keys.size(), 12u);
  job.queries = 100;
  const auto all =
      MapHeads(context_, *model_, window_, {{.layer = 1, .head = 2}}, job);
  for (size_t i = 0; i < 4; ++i) {
    const int64_t query = few[0].top_queries[i];
    EXPECT_EQ(all[0].top_queries[query], query);
    for (int64_t t = 0; t < 3; ++t) {
      EXPECT_EQ(few[0].top_keys[i * 3 + t], all[0].top_keys[query * 3 + t]);
    }
  }
  job.query = 50;
  const auto one =
      MapHeads(context_, *model_, window_, {{.layer = 1, .head = 2}}, job);
  EXPECT_THAT(one[0].top_queries, ElementsAre(50));
}

TEST_F(AttentionMapsTest, RunsNoLayerPastTheLastThatIsAskedFor) {
  int layers = 0;
  ShowJob job;
  job.on_progress = [&](std::string_view stage, double, double) {
    if (stage == "attend") ++layers;
  };
  MapHeads(context_, *model_, window_, {{.layer = 0, .head = 3}}, job);
  EXPECT_EQ(layers, 1);
  MapHeads(context_, *model_, window_,
           {{.layer = 1, .head = 3}, {.layer = 0, .head = 3}}, job);
  EXPECT_EQ(layers, 3);
}

TEST_F(AttentionMapsTest, StopsWhenAsked) {
  std::stop_source stop;
  ShowJob job;
  job.stop = stop.get_token();
  stop.request_stop();
  EXPECT_THROW(
      MapHeads(context_, *model_, window_, {{.layer = 1, .head = 0}}, job),
      Error);
}

}  // namespace
}  // namespace headwise::map_heads_test
