#include "headwise/dist/same_run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "headwise/dist/thread_group.h"
#include "headwise/error.h"

namespace headwise::dist {
namespace {

// What three ranks are told that have these fields; "" where all is well.
std::vector<std::string> Told(
    const std::function<std::vector<RunField>(int rank)>& fields) {
  std::vector<std::string> told(3);
  RunRanks(3, [&](Group& group) {
    try {
      RequireSameRun(group, fields(group.rank()));
    } catch (const Error& error) {
      told[static_cast<size_t>(group.rank())] = error.what();
    }
  });
  return told;
}

TEST(SameRun, AgreesWhereAllFieldsDo) {
  const auto told = Told([](int) -> std::vector<RunField> {
    return {{"command", "profile"}, {"--context", "64"}};
  });
  EXPECT_EQ(told, std::vector<std::string>(3));
}

TEST(SameRun, NamesTheFieldTheRanksAndTheValuesOnEveryRank) {
  const auto told = Told([](int rank) -> std::vector<RunField> {
    return {{"command", "profile"}, {"--context", rank == 2 ? "32" : "64"}};
  });
  for (const std::string& one : told) {
    EXPECT_NE(one.find("--context: 64 on rank 0, 32 on rank 2"), one.npos)
        << one;
    EXPECT_EQ(one.find("command"), one.npos) << one;
    EXPECT_EQ(one, told[0]);
  }
}

TEST(SameRun, NamesWhatOneRankAloneHas) {
  const auto told = Told([](int rank) -> std::vector<RunField> {
    if (rank == 1) return {{"--seed", "7"}};
    return {};
  });
  EXPECT_NE(told[0].find("--seed: nothing on rank 0, 7 on rank 1"),
            std::string::npos)
      << told[0];
}

}  // namespace
}  // namespace headwise::dist
