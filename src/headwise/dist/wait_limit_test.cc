#include "headwise/dist/wait_limit.h"

#include <gtest/gtest.h>

#include <string>

#include "headwise/error.h"

namespace headwise::dist {
namespace {

TEST(WaitLimit, NamesTheRankAndTheTimeAndHowToChangeIt) {
  WaitLimit limit(10);
  limit.Add(3, 9);
  try {
    limit.Add(3, 2);
    FAIL() << "waited longer than the limit";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("rank 3 within 10 s"), text.npos) << text;
    EXPECT_NE(text.find("none in 11 s"), text.npos) << text;
    EXPECT_NE(text.find("HEADWISE_RANK_WAIT"), text.npos) << text;
  }
}

TEST(WaitLimit, BeginsAnewWithEveryMessage) {
  WaitLimit limit(10);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NO_THROW(limit.Add(-1, 9));
    limit.Heard();
  }
  EXPECT_THROW(limit.Add(-1, 10), Error);
  WaitLimit none(0);
  EXPECT_NO_THROW(none.Add(1, 1e9));
}

TEST(WaitLimit, IsReadFromTheEnvironment) {
  const auto read = [](const char* text) {
    return RankWaitSeconds([=](const char*) { return text; }, 7);
  };
  EXPECT_EQ(read(nullptr), 7);
  EXPECT_EQ(read("2.5"), 2.5);
  EXPECT_EQ(read("0"), 0);
  for (const char* bad : {"soon", "-1", "nan", "1h"}) {
    EXPECT_THROW(read(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace headwise::dist
