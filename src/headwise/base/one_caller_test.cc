#include "headwise/base/one_caller.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "headwise/error.h"

namespace headwise::one_caller_test {
namespace {

constexpr OneCaller::Rule kRule = {"thing", "take two"};

TEST(OneCaller, RefusesASecondThreadByName) {
  CallingThread thread;
  const OneCaller outer(thread, kRule);
  std::string what;
  std::thread([&] {
    EXPECT_FALSE(OneCaller(thread).is_in());
    try {
      const OneCaller other(thread, kRule);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      what = error.what();
    }
  }).join();
  EXPECT_EQ(what.find("[thing] expected one calling thread"), 0u) << what;
  EXPECT_NE(what.find("take two"), std::string::npos) << what;
}

TEST(OneCaller, IsFreeToItsOwnThreadAndAfterwardsToAll) {
  CallingThread thread;
  {
    const OneCaller outer(thread, kRule);
    EXPECT_TRUE(outer.is_first());
    const OneCaller inner(thread, kRule);
    EXPECT_TRUE(inner.is_in());
    EXPECT_FALSE(inner.is_first());
  }
  std::thread([&] { EXPECT_TRUE(OneCaller(thread).is_first()); }).join();
}

}  // namespace
}  // namespace headwise::one_caller_test
