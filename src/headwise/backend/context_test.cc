#include "headwise/context.h"

#include <gtest/gtest.h>

#include "headwise/error.h"

namespace headwise {
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

}  // namespace
}  // namespace headwise
