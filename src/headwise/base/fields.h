// One description of each configuration. A configuration lists its fields once:
//
//   struct Config {
//     int64_t heads = 1;
//     template <typename Self, typename Visit>
//     static void VisitFields(Self& self, Visit&& visit) {
//       visit("heads", self.heads, "attention heads");
//     }
//   };
//
// and its JSON form, its flags on the command line (apps/headwise/flags.h) and
// its help come from that list. Fields are bool, integers, floats, strings and
// vectors of these.
#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "headwise/base/nearest.h"
#include "headwise/error.h"

namespace headwise {

// Whether a field of type T holds what the JSON value says: no truth values as
// numbers, no fractions as whole ones, nothing outside the type's range.
template <typename T>
bool FieldHolds(const nlohmann::ordered_json& json, const T&) {
  if constexpr (std::is_same_v<T, bool>) {
    return json.is_boolean();
  } else if constexpr (std::is_integral_v<T>) {
    if (json.is_number_unsigned())
      return std::in_range<T>(json.get<uint64_t>());
    if (json.is_number_integer()) return std::in_range<T>(json.get<int64_t>());
    if (!json.is_number_float()) return false;
    const double value = json.get<double>();  // "1e3"
    return std::abs(value) < 0x1p53 && std::trunc(value) == value &&
           std::in_range<T>(static_cast<int64_t>(value));
  } else {
    return !std::is_floating_point_v<T> || json.is_number();
  }
}
template <typename T>
bool FieldHolds(const nlohmann::ordered_json& json, const std::vector<T>&) {
  return json.is_array() &&
         std::all_of(json.begin(), json.end(), [](const auto& element) {
           return FieldHolds(element, T());
         });
}

// {"heads": 8, …}, in the order of the list.
template <typename Config>
nlohmann::ordered_json FieldsToJson(const Config& config) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  Config::VisitFields(config, [&](const char* name, const auto& value,
                                  const char*) { json[name] = value; });
  return json;
}

template <typename Config>
std::vector<std::string> FieldNames() {
  std::vector<std::string> names;
  const Config config;
  Config::VisitFields(config, [&](const char* name, const auto&, const char*) {
    names.emplace_back(name);
  });
  return names;
}

// Sets the fields that `json` names and leaves the others. Throws
// Error(kInvalidArgument) for an unknown name (with the nearest known one) or
// a value of the wrong type.
template <typename Config>
void FieldsFromJson(const nlohmann::ordered_json& json, Config& config,
                    const std::string& where) {
  const std::vector<std::string> names = FieldNames<Config>();
  for (const auto& [key, value] : json.items()) {
    if (std::find(names.begin(), names.end(), key) != names.end()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {.where = where,
                 .expected = "known fields",
                 .found = "\"" + key + "\"",
                 .hint = "did you mean \"" + Nearest(key, names) + "\"?"});
  }
  Config::VisitFields(config, [&](const char* name, auto& value, const char*) {
    const auto found = json.find(name);
    if (found == json.end()) return;
    bool fits = FieldHolds(*found, value);
    try {
      if (fits) found->get_to(value);
    } catch (const nlohmann::json::exception&) {
      fits = false;
    }
    if (fits) return;
    throw Error(ErrorCode::kInvalidArgument,
                {.where = where,
                 .expected = std::string("a value of the type of \"") + name +
                             "\", such as " + nlohmann::json(value).dump(),
                 .found = found->dump(),
                 .hint = ""});
  });
}

}  // namespace headwise
