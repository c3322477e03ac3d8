// Door: machine.h.
#include "machine.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace headwise {

// /proc/cpuinfo says it on x86; on Arm it gives the maker's numbers only, which
// is still enough to tell two machines apart.
std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  std::string implementer, part;
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.rfind("model name", 0) == 0) return value;
    if (line.rfind("CPU implementer", 0) == 0) implementer = value;
    if (line.rfind("CPU part", 0) == 0) part = value;
  }
  if (implementer == "0x41" && part == "0xd40") return "Arm Neoverse-V1";
  if (implementer == "0x41" && part == "0xd4f") return "Arm Neoverse-V2";
  if (implementer == "0x41" && part == "0xd0c") return "Arm Neoverse-N1";
  return implementer.empty() ? "unknown"
                             : "Arm " + implementer + " part " + part;
}

std::string MachineName(Device device) {
  if (device.is_cpu()) return CpuName();
  std::error_code missing;
  for (const auto& gpu : std::filesystem::directory_iterator(
           "/proc/driver/nvidia/gpus", missing)) {
    std::ifstream info(gpu.path() / "information");
    for (std::string line; std::getline(info, line);) {
      if (line.rfind("Model:", 0) != 0) continue;
      const size_t name = line.find_first_not_of(" \t", 6);
      if (name != std::string::npos) return line.substr(name);
    }
  }
  return ToString(device);
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::tm day = {};
  gmtime_r(&now, &day);
  char text[sizeof "2026-01-31"];
  std::strftime(text, sizeof text, "%F", &day);
  return text;
}

}  // namespace headwise
