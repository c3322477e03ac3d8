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
// its help come from that list. Fields are bool, integers, floats, strings,
// vectors of these, and enums, which JSON has as words: a function of the
// enum's namespace lists them in the order of its values, counted from 0.
//
//   constexpr std::array<const char*, 2> FieldWords(Kind) {
//     return {"soft", "hard"};
//   }
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "headwise/base/json.h"

namespace headwise {

// What the templates below share. Whether a field of type T holds what the
// JSON value says: no truth values as numbers, no fractions as whole ones,
// nothing outside the type's range.
bool TakeField(const Json& json, bool& field);
bool TakeField(const Json& json, int& field);
bool TakeField(const Json& json, int64_t& field);
bool TakeField(const Json& json, uint64_t& field);
bool TakeField(const Json& json, float& field);
bool TakeField(const Json& json, double& field);
bool TakeField(const Json& json, std::string& field);
bool TakeField(const Json& json, Json& field);
template <typename T>
bool TakeField(const Json& json, std::vector<T>& field) {
  if (!json.is_array()) return false;
  std::vector<T> values;
  for (const Json& element : json) {
    if (!TakeField(element, values.emplace_back())) return false;
  }
  field = std::move(values);
  return true;
}
template <typename T>
requires std::is_enum_v<T>
bool TakeField(const Json& json, T& field) {
  std::string text;
  if (!TakeField(json, text)) return false;
  const auto words = FieldWords(field);
  for (size_t i = 0; i < words.size(); ++i) {
    if (text != words[i]) continue;
    field = static_cast<T>(i);
    return true;
  }
  return false;
}
void RequireKnownFields(const Json& json, const std::vector<std::string>& names,
                        const std::string& where);
[[noreturn]] void FailField(const char* name, const Json& field,
                            const Json& found, const std::string& where);
[[noreturn]] void FailWord(const char* name, std::span<const char* const> words,
                           const Json& found, const std::string& where);

template <typename T>
Json FieldToJson(const T& field) {
  if constexpr (std::is_enum_v<T>) {
    return FieldWords(field)[static_cast<size_t>(field)];
  } else {
    return Json(field);
  }
}

// {"heads": 8, …}, in the order of the list.
template <typename Config>
Json FieldsToJson(const Config& config) {
  Json json = Json::object();
  Config::VisitFields(config,
                      [&](const char* name, const auto& value, const char*) {
                        json[name] = FieldToJson(value);
                      });
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
void FieldsFromJson(const Json& json, Config& config,
                    const std::string& where) {
  RequireKnownFields(json, FieldNames<Config>(), where);
  Config::VisitFields(config, [&](const char* name, auto& value, const char*) {
    const auto found = json.find(name);
    if (found == json.end() || TakeField(*found, value)) return;
    if constexpr (std::is_enum_v<std::remove_reference_t<decltype(value)>>) {
      FailWord(name, FieldWords(value), *found, where);
    } else {
      FailField(name, Json(value), *found, where);
    }
  });
}

}  // namespace headwise
