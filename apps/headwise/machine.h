// The machine that something was measured on.
#pragma once

#include <string>

#include "headwise/device.h"

namespace headwise {

// "AMD EPYC 9454 48-Core Processor", "Arm Neoverse-V1".
std::string CpuName();

// The processor that a device is: CpuName, or the GPU's name where the driver
// tells it, else "cuda:0".
std::string MachineName(Device device);

// Today in UTC, "2026-01-31".
std::string Today();

}  // namespace headwise
