// The members of a JSON object, in the order in which they came. Behind
// json_value.h: only json_value.cc and json.cc look inside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/base/json_value.h"

namespace headwise {

struct Json::Object {
  static constexpr size_t kNone = ~size_t{0};
  static constexpr uint32_t kFree = ~uint32_t{0};
  // Up to so many keys are looked through one by one; vocabularies have 10^5.
  static constexpr size_t kScanned = 8;

  size_t Find(std::string_view key) const;  // kNone where it is absent
  Json& Add(std::string_view key);          // which must be absent
  void Erase(size_t member);

  std::vector<std::string> keys;
  std::vector<Json> values;
  // Open addressing, a power of two, at most half full; empty for few keys.
  std::vector<uint32_t> slots;

 private:
  void Index();
  void Enter(size_t member);
};

}  // namespace headwise
