#include "headwise/backend/device_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "headwise/context.h"
#include "headwise/error.h"

namespace headwise::device_backend_test {
namespace {

using testing::HasSubstr;

TEST(Device, IsNamed) {
  EXPECT_EQ(ToString(Device::Cpu()), "cpu");
  EXPECT_EQ(ToString(Device::Cuda(3)), "cuda:3");
  EXPECT_EQ(Device(), Device::Cpu());
  EXPECT_NE(Device::Cuda(0), Device::Cuda(1));
}

// Writes, copies and zeroes on a device, read back on the host.
void ExpectMemoryWorks(DeviceBackend& backend) {
  constexpr size_t kBytes = 1000;
  std::vector<uint8_t> values(kBytes), found(kBytes);
  for (size_t i = 0; i < kBytes; ++i) values[i] = static_cast<uint8_t>(i * 7);
  void* from = backend.Allocate(kBytes);
  void* to = backend.Allocate(kBytes);
  EXPECT_NE(from, to);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(from) % 64, 0u);
  backend.Copy(from, values.data(), kBytes);
  backend.Copy(to, from, kBytes);
  backend.Zero(static_cast<uint8_t*>(to) + 10, 20);
  backend.Copy(found.data(), to, kBytes);
  backend.Copy(found.data(), to, 0);
  backend.Synchronize();
  std::memset(values.data() + 10, 0, 20);
  EXPECT_EQ(found, values);
  backend.Free(from, kBytes);
  backend.Free(to, kBytes);
}

TEST(DeviceBackend, OfTheHostAllocatesCopiesAndZeroes) {
  ExpectMemoryWorks(*MakeBackend(Device::Cpu()));
}

TEST(DeviceBackend, OfAGpuAllocatesCopiesAndZeroes) {
  std::shared_ptr<DeviceBackend> backend;
  try {
    backend = MakeBackend(Device::Cuda());
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  ExpectMemoryWorks(*backend);
}

// What one Context writes another reads, without the host waiting between.
TEST(Context, OfAGpuHandsItsStreamOver) {
  std::unique_ptr<Context> one;
  try {
    one = std::make_unique<Context>(
        ContextOptions{.threads = 1, .device = Device::Cuda()});
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  ASSERT_NE(one->stream(), nullptr);
  Context other({.threads = 1, .device = Device::Cuda()});
  Context shared(
      {.threads = 1, .device = Device::Cuda(), .stream = one->stream()});
  EXPECT_NE(other.stream(), one->stream());
  EXPECT_EQ(shared.stream(), one->stream());
  constexpr size_t kBytes = size_t{64} << 20;
  std::vector<uint8_t> values(kBytes, 7), found(kBytes);
  void* data = one->backend()->Allocate(kBytes);
  one->backend()->Copy(data, values.data(), kBytes);
  other.WaitFor(one->stream());
  other.backend()->Copy(found.data(), data, kBytes);
  other.MakeWait(one->stream());
  shared.backend()->Zero(data, kBytes);
  other.Synchronize();
  EXPECT_EQ(found, values);
  other.WaitFor(shared.stream());
  other.backend()->Copy(found.data(), data, kBytes);
  other.SynchronizeDevice();
  EXPECT_EQ(found, std::vector<uint8_t>(kBytes));
  one->backend()->Free(data, kBytes);
}

TEST(DeviceBackend, TooMuchMemoryIsAnErrorThatNamesIt) {
  const auto backend = MakeBackend(Device::Cpu());
  try {
    backend->Allocate(size_t{1} << 60);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_THAT(error.what(), HasSubstr("1.0 EiB"));
  }
  EXPECT_THROW(backend->Allocate(std::numeric_limits<size_t>::max()), Error);
}

TEST(DeviceBackend, ContextsHaveOneEach) {
  Context one({1, ""}), two({1, ""});
  EXPECT_NE(one.backend(), two.backend());
  EXPECT_EQ(one.device(), Device::Cpu());
  EXPECT_NO_THROW(one.Synchronize());
}

// Holds with a GPU, without one, and in a build without CUDA.
TEST(Context, OnADeviceThatIsNotHereIsAnErrorThatSaysWhatToDo) {
  try {
    Context context({1, "", Device::Cuda(100)});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("take the device cpu"));
  }
}

}  // namespace
}  // namespace headwise::device_backend_test
