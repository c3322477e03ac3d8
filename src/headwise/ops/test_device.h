// For tests of operators: an entry of a list in a context of its device, and
// the views of a test, which lie on the host, as that context can read them.
// One test then serves every entry, wherever it runs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/backend/device_backend.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/tensor.h"
#include "headwise/tensor/element.h"

namespace headwise {

// A context that asks for this entry alone; null for an entry of CUDA where
// there is no GPU or the build has none of it.
inline std::unique_ptr<Context> ContextFor(std::string_view op,
                                           std::string_view entry,
                                           int threads = 2) {
  const bool on_device = entry.starts_with("cuda") || entry == "device";
  ContextOptions options;
  options.threads = threads;
  options.implementations = std::string(op) + ":" + std::string(entry);
  options.device = on_device ? Device::Cuda() : Device::Cpu();
  try {
    return std::make_unique<Context>(options);
  } catch (const Error& error) {
    if (on_device && error.code() == ErrorCode::kUnsupported) return nullptr;
    throw;
  }
}

// Whether an entry took the call that `run` makes of it; anything but a refusal
// is a failure.
template <typename Run>
bool IsTaken(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
    return false;
  }
  return true;
}

// Views of host memory as a context reads them: themselves for the host, else
// copies with the same strides, whose elements return with Back(). Views of the
// same memory share their copy.
class Mirror {
 public:
  explicit Mirror(Context& context) : context_(context) {}

  template <typename Void>
  BasicView<Void> operator()(const BasicView<Void>& host) {
    if (context_.device().is_cpu() || !host) return host;
    BasicView<Void> view = host;
    view.device = context_.device();
    if (host.size() == 0) return view;
    const auto [low, bytes] = ExtentOf(host);
    Part& part = PartWith(low, bytes);
    const int64_t first = reinterpret_cast<const char*>(host.data) - part.host;
    view.data = part.device.template Raw<char>() + first;
    if constexpr (!std::is_const_v<Void>) results_.push_back({host, &part});
    return view;
  }

  // Waits for the device, and takes what it wrote.
  void Back() {
    if (context_.device().is_cpu()) return;
    for (const auto& [host, part] : results_) {
      std::vector<char> found(part->device.bytes());
      context_.backend()->Copy(found.data(), part->device.view().data,
                               found.size());
      context_.Synchronize();
      const int64_t size = ElementSize(host.type);
      for (int64_t n = 0; n < host.size(); ++n) {
        char* to = static_cast<char*>(host.data) + PlaceOf(host, n) * size;
        std::memcpy(to, found.data() + (to - part->host), size);
      }
    }
  }

 private:
  struct Part {
    const char* host = nullptr;
    Tensor device;
  };
  struct Result {
    TensorView host;
    const Part* part = nullptr;
  };

  static std::pair<const char*, int64_t> ExtentOf(const ConstTensorView& view) {
    int64_t low = 0, high = 1;
    for (int axis = 0; axis < view.rank; ++axis) {
      const int64_t reach = view.stride[axis] * (view.shape[axis] - 1);
      (reach < 0 ? low : high) += reach;
    }
    const int64_t size = ElementSize(view.type);
    return {static_cast<const char*>(view.data) + low * size,
            (high - low) * size};
  }

  Part& PartWith(const char* low, int64_t bytes) {
    for (const auto& part : parts_) {
      const char* end = part->host + part->device.bytes();
      if (part->host <= low && low + bytes <= end) return *part;
    }
    parts_.push_back(std::make_unique<Part>(
        Part{low, Tensor(context_, DType::kU8, {bytes})}));
    context_.backend()->Copy(parts_.back()->device.view().data, low,
                             static_cast<size_t>(bytes));
    context_.Synchronize();
    return *parts_.back();
  }

  Context& context_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<Result> results_;
};

}  // namespace headwise
