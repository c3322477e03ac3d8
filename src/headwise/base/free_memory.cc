// Asks /proc, the process limits and the control group. Door: free_memory.h.
#include "headwise/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace headwise {
namespace {

constexpr uint64_t kKib = 1024;

// The number behind `key` in a file of "Key:   123 kB" lines.
std::optional<uint64_t> Kilobytes(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string word; lines >> word;) {
    uint64_t value = 0;
    if (word == key && lines >> value) return value * kKib;
  }
  return {};
}

std::optional<uint64_t> NumberIn(const char* file) {
  std::ifstream stream(file);
  uint64_t value = 0;
  if (!(stream >> value)) return {};  // "max", or no such file
  return value;
}

uint64_t Left(uint64_t limit, uint64_t used) {
  return limit > used ? limit - used : 0;
}

}  // namespace

std::optional<uint64_t> FreeMemory() {
  std::optional<uint64_t> free = Kilobytes("/proc/meminfo", "MemAvailable:");
  const auto at_most = [&](uint64_t bytes) {
    free = free ? std::min(*free, bytes) : bytes;
  };
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    at_most(Left(limit.rlim_cur,
                 Kilobytes("/proc/self/status", "VmSize:").value_or(0)));
  }
  const auto group = NumberIn("/sys/fs/cgroup/memory.max");
  const auto used = NumberIn("/sys/fs/cgroup/memory.current");
  if (group && used) at_most(Left(*group, *used));
  return free;
}

}  // namespace headwise
