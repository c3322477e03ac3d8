/// @file
/// The place of memory and work: the host, or a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "headwise/export.h"

namespace headwise {

struct Device {
  enum class Kind : uint8_t { kCpu, kCuda };

  Kind kind = Kind::kCpu;
  int8_t index = 0;  ///< which GPU

  static constexpr Device Cpu() { return {}; }
  static constexpr Device Cuda(int index = 0) {
    return {Kind::kCuda, static_cast<int8_t>(index)};
  }
  bool is_cpu() const { return kind == Kind::kCpu; }
  bool is_cuda() const { return kind == Kind::kCuda; }

  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:0"
HEADWISE_API std::string ToString(Device device);

}  // namespace headwise
