#include "headwise/context.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "headwise/backend/context_use.h"
#include "headwise/error.h"

namespace headwise::context_test {
namespace {

TEST(Context, FindsThePreferredImplementationOfAnOperator) {
  Context context({1, "matmul:reference,attention:cpu.f32"});
  EXPECT_EQ(context.PreferredImplementation("attention"), "cpu.f32");
  EXPECT_EQ(context.PreferredImplementation("matmul"), "reference");
  EXPECT_EQ(context.PreferredImplementation("norm"), "");
}

TEST(Context, RefusesAPreferenceWithoutAnOperator) {
  Context context({1, "reference"});
  EXPECT_THROW(context.PreferredImplementation("attention"), Error);
}

TEST(Context, RefusesImpossibleThreadCounts) {
  EXPECT_THROW(Context({-1, ""}), Error);
  EXPECT_THROW(Context({5000, ""}), Error);
}

TEST(Context, UsesTheThreadsItWasAskedFor) {
  EXPECT_EQ(Context({3, ""}).threads(), 3);
}

TEST(Context, IsOneThreadsAtATime) {
  Context context({.threads = 1});
  std::string what;
  {
    const ContextUse outer(context);
    const ContextUse inner(context);  // the same thread's: nothing to say
    std::thread([&] {
      try {
        const ContextUse other(context);
      } catch (const Error& error) {
        what = error.what();
      }
    }).join();
  }
  EXPECT_NE(what.find("one calling thread at a time"), std::string::npos);
  std::thread([&] { const ContextUse free(context); }).join();
}

TEST(Context, IsHeldUntilTheOuterCallEnds) {
  Context context({.threads = 1});
  const ContextUse outer(context);
  { const ContextUse inner(context); }
  std::thread([&] {
    EXPECT_THROW(const ContextUse other(context), Error);
  }).join();
}

TEST(Context, HasNoStreamOnTheCpu) {
  Context context({.threads = 1});
  EXPECT_EQ(context.stream(), nullptr);
  context.SynchronizeDevice();
  int any = 0;
  EXPECT_THROW(context.WaitFor(&any), Error);
  EXPECT_THROW(context.MakeWait(&any), Error);
  EXPECT_THROW(Context({.threads = 1, .stream = &any}), Error);
}

}  // namespace
}  // namespace headwise::context_test
