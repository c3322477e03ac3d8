// One description of each configuration. A configuration lists its fields once:
//
//   struct Config {
//     int64_t heads = 1;
//     template <typename Self, typename Visit>
//     static void VisitFields(Self& self, Visit&& visit) {
//       visit("heads", self.heads, "attention heads", AtLeast(1));
//     }
//   };
//
// and its JSON form, its flags on the command line (apps/headwise/flags.h), its
// help and the check of its ranges come from that list. Fields are bool,
// integers, floats, strings, paths, enums, and vectors and optionals of these.
// JSON has enums as words: a function of the enum's namespace lists them in the
// order of its values, counted from 0.
//
//   constexpr std::array<const char*, 2> FieldWords(Kind) {
//     return {"soft", "hard"};
//   }
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/fields.h"

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
bool TakeField(const Json& json, std::filesystem::path& field);
bool TakeField(const Json& json, Json& field);
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
// Adds the values of a word for several; false: it is none.
template <typename T>
bool TakeGroup(const Json& json, std::vector<T>& values) {
  if constexpr (requires { FieldGroups(T{}); }) {
    for (const auto& group : FieldGroups(T{})) {
      if (json != group.word) continue;
      values.insert(values.end(), group.values.begin(), group.values.end());
      return true;
    }
  }
  return false;
}
template <typename T>
bool TakeField(const Json& json, std::vector<T>& field) {
  if (!json.is_array()) return false;
  std::vector<T> values;
  for (const Json& element : json) {
    if (TakeGroup(element, values)) continue;
    T value{};
    if (!TakeField(element, value)) return false;
    values.push_back(std::move(value));
  }
  field = std::move(values);
  return true;
}
template <typename T>
bool TakeField(const Json& json, std::optional<T>& field) {
  if (json.is_null()) {
    field.reset();
    return true;
  }
  T value{};
  if (!TakeField(json, value)) return false;
  field = std::move(value);
  return true;
}
void RequireKnownFields(const Json& json, const std::vector<std::string>& names,
                        const std::string& where);
[[noreturn]] void FailField(const char* name, const Json& field,
                            const Json& found, const std::string& where);
[[noreturn]] void FailWord(const char* name,
                           const std::vector<std::string>& words,
                           const Json& found, const std::string& where);
[[noreturn]] void FailRange(const char* name, const FieldRange& range,
                            double found, const std::string& where);

// "a, b or c"
std::string AnyOf(std::span<const std::string> words);
// "of at least 1", "above 0", "from 0 to 1"
std::string RangeText(const FieldRange& range);

// The word of an enum's value.
template <typename T>
requires std::is_enum_v<T>
const char* FieldWord(T value) {
  return FieldWords(value)[static_cast<size_t>(value)];
}

// The words of an enum, and of a list of them those of groups too; of another
// field none.
template <typename T>
std::vector<std::string> WordsOfField(const T&) {
  std::vector<std::string> words;
  if constexpr (std::is_enum_v<T>) {
    for (const char* word : FieldWords(T{})) words.emplace_back(word);
  }
  return words;
}
template <typename T>
std::vector<std::string> WordsOfField(const std::optional<T>&) {
  return WordsOfField(T{});
}
template <typename T>
std::vector<std::string> WordsOfField(const std::vector<T>&) {
  std::vector<std::string> words = WordsOfField(T{});
  if constexpr (requires { FieldGroups(T{}); }) {
    for (const auto& group : FieldGroups(T{})) words.emplace_back(group.word);
  }
  return words;
}

inline Json FieldToJson(const std::filesystem::path& field) {
  return field.string();
}
template <typename T>
Json FieldToJson(const T& field) {
  if constexpr (std::is_enum_v<T>) {
    return FieldWord(field);
  } else {
    return Json(field);
  }
}
template <typename T>
Json FieldToJson(const std::vector<T>& field) {
  Json list = Json::array();
  for (const T& value : field) list.push_back(FieldToJson(value));
  return list;
}
template <typename T>
Json FieldToJson(const std::optional<T>& field) {
  return field ? FieldToJson(*field) : Json();
}

// {"heads": 8, …}, in the order of the list.
template <typename Config>
Json FieldsToJson(const Config& config) {
  Json json = Json::object();
  Config::VisitFields(
      config, [&](const char* name, const auto& value, const char*,
                  const FieldRange& = {}) { json[name] = FieldToJson(value); });
  return json;
}

template <typename Config>
std::vector<std::string> FieldNames() {
  std::vector<std::string> names;
  const Config config;
  Config::VisitFields(
      config, [&](const char* name, const auto&, const char*,
                  const FieldRange& = {}) { names.emplace_back(name); });
  return names;
}

// Sets the fields that `json` names and leaves the others. Throws
// Error(kInvalidArgument) for an unknown name (with the nearest known one) or
// a value of the wrong type.
template <typename Config>
void FieldsFromJson(const Json& json, Config& config,
                    const std::string& where) {
  RequireKnownFields(json, FieldNames<Config>(), where);
  Config::VisitFields(config, [&](const char* name, auto& value, const char*,
                                  const FieldRange& = {}) {
    const auto found = json.find(name);
    if (found == json.end() || TakeField(*found, value)) return;
    const std::vector<std::string> words = WordsOfField(value);
    if (!words.empty()) FailWord(name, words, *found, where);
    FailField(name, FieldToJson(value), *found, where);
  });
}

template <typename T>
void CheckField(const char* name, const T& value, const FieldRange& range,
                const std::string& where) {
  if constexpr (requires { value.has_value(); }) {
    if (value) CheckField(name, *value, range, where);
  } else if constexpr (std::is_arithmetic_v<T>) {
    const auto number = static_cast<double>(value);
    if (!range.Holds(number)) FailRange(name, range, number, where);
  } else {
    for (const auto& one : value) CheckField(name, one, range, where);
  }
}

struct FieldChecker {
  const std::string& where;

  template <typename T>
  void operator()(const char*, const T&, const char*) const {}
  template <typename T>
  void operator()(const char* name, const T& value, const char*,
                  const FieldRange& range) const {
    CheckField(name, value, range, where);
  }
};

// Throws Error(kInvalidArgument) for the first number that is out of its range.
template <typename Config>
void CheckFields(const Config& config, const std::string& where) {
  Config::VisitFields(config, FieldChecker{where});
}

}  // namespace headwise
