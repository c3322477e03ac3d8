// Of a build without CUDA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/context.h"
#include "headwise/error.h"

namespace headwise::backend_test {
namespace {

using testing::HasSubstr;

TEST(Context, OnCudaSaysThatThisBuildHasNone) {
  try {
    Context context({1, "", Device::Cuda()});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(),
                HasSubstr("a build with CUDA; found one without"));
    EXPECT_THAT(error.what(), HasSubstr("preset cuda"));
  }
}

}  // namespace
}  // namespace headwise::backend_test
