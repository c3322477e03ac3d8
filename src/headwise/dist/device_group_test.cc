#include "headwise/dist/device_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>

#include "headwise/backend/device_backend.h"
#include "headwise/dist/thread_group.h"
#include "headwise/error.h"

namespace headwise::dist {
namespace {

using testing::HasSubstr;

std::unique_ptr<Context> Gpu() {
  try {
    return std::make_unique<Context>(
        ContextOptions{.threads = 1, .device = Device::Cuda()});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return nullptr;
  }
}

TEST(DeviceGroups, AreNotOfTheCpu) {
  Context context({1, ""});
  const auto group = MakeSingleGroup();
  try {
    MakeNcclGroup(context, *group);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr(HasNccl() ? "the CPU" : "NCCL"));
  }
}

// What one GPU can show: that NCCL is loaded and joined, and that what comes
// back is what was given.
TEST(DeviceGroups, OfOneRankGiveBackWhatTheyAreGiven) {
  if (!HasNccl()) GTEST_SKIP() << "a build without NCCL";
  const auto context = Gpu();
  if (context == nullptr) GTEST_SKIP() << "no GPU here";
  const auto group = MakeSingleGroup();
  const auto devices = MakeNcclGroup(*context, *group);
  Tensor host(DType::kF32, {100003});
  std::iota(host.As<float>(), host.As<float>() + host.size(), 0.5f);
  Tensor there(*context, DType::kF32, {host.size()});
  const auto bytes = static_cast<size_t>(host.size()) * sizeof(float);
  context->backend()->Copy(there.view().data, host.view().data, bytes);
  devices->AllReduce(there.view());
  Tensor back(DType::kF32, {host.size()});
  context->backend()->Copy(back.view().data, there.view().data, bytes);
  context->Synchronize();
  for (int64_t i = 0; i < host.size(); ++i) {
    ASSERT_EQ(back.As<float>()[i], host.As<float>()[i]) << i;
  }
  EXPECT_THROW(devices->AllReduce(host.view()), Error);
}

TEST(DeviceGroups, RefuseTwoRanksOnOneGpu) {
  if (!HasNccl()) GTEST_SKIP() << "a build without NCCL";
  if (Gpu() == nullptr) GTEST_SKIP() << "no GPU here";
  RunRanks(2, [](Group& group) {
    const auto context = Gpu();
    try {
      MakeNcclGroup(*context, group);
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("ranks 0 and 1 on the GPU"));
    }
  });
}

}  // namespace
}  // namespace headwise::dist
