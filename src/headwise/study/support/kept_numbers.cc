// Door: kept_numbers.h.
#include "headwise/study/support/kept_numbers.h"

#include <fmt/core.h>

#include <cstdint>
#include <string>

#include "headwise/base/atomic_file.h"

namespace headwise {
namespace {

// 16 hexadecimal digits of FNV-1a.
std::string FileOf(const std::string& key) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : key) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return fmt::format("{:016x}.json", hash);
}

}  // namespace

std::vector<double> KeptNumbers(
    const std::filesystem::path& keep, const Json& of,
    const std::function<std::vector<double>()>& make) {
  if (keep.empty()) return make();
  const std::filesystem::path file = keep / FileOf(of.dump());
  if (std::filesystem::exists(file)) {
    const Json kept = ReadJson(file);
    if (kept.value("of", Json()) == of) {
      return kept.at("values").get<std::vector<double>>();
    }
  }
  const std::vector<double> values = make();
  std::filesystem::create_directories(keep);
  const Json kept = {{"of", of}, {"values", values}};
  WriteFileAtomically(file, kept.dump(1) + "\n");
  return values;
}

}  // namespace headwise
