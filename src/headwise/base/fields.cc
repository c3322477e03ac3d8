// Fields of configurations from JSON. Door: fields.h.
#include "headwise/base/fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "headwise/base/nearest.h"
#include "headwise/error.h"

namespace headwise {
namespace {

template <typename T>
bool Take(const Json& json, T& field) {
  try {
    json.get_to(field);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool TakeField(const Json& json, bool& field) { return Take(json, field); }
bool TakeField(const Json& json, int& field) { return Take(json, field); }
bool TakeField(const Json& json, int64_t& field) { return Take(json, field); }
bool TakeField(const Json& json, uint64_t& field) { return Take(json, field); }
bool TakeField(const Json& json, float& field) { return Take(json, field); }
bool TakeField(const Json& json, double& field) { return Take(json, field); }
bool TakeField(const Json& json, std::string& field) {
  return Take(json, field);
}
bool TakeField(const Json& json, std::filesystem::path& field) {
  std::string text;
  if (!TakeField(json, text)) return false;
  field = std::move(text);
  return true;
}
bool TakeField(const Json& json, Json& field) {
  field = json;
  return true;
}

void RequireKnownFields(const Json& json, const std::vector<std::string>& names,
                        const std::string& where) {
  for (const auto& [key, value] : json.items()) {
    if (std::find(names.begin(), names.end(), key) != names.end()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {.where = where,
                 .expected = "known fields",
                 .found = "\"" + key + "\"",
                 .hint = "did you mean \"" + Nearest(key, names) + "\"?"});
  }
}

void FailField(const char* name, const Json& field, const Json& found,
               const std::string& where) {
  throw Error(ErrorCode::kInvalidArgument,
              {.where = where,
               .expected = std::string("a value of the type of \"") + name +
                           "\", such as " + field.dump(),
               .found = found.dump(),
               .hint = ""});
}

void FailWord(const char* name, const std::vector<std::string>& words,
              const Json& found, const std::string& where) {
  // Of a list, the first word that is not known.
  const auto known = [&](const Json& one) {
    return std::ranges::any_of(
        words, [&](const std::string& word) { return one == word; });
  };
  const Json* word = &found;
  for (size_t i = 0; found.is_array() && i < found.size(); ++i) {
    word = &found[i];
    if (!known(*word)) break;
  }
  const std::string hint =
      word->is_string()
          ? "did you mean " + Nearest(word->get<std::string>(), words) + "?"
          : "";
  throw Error(ErrorCode::kInvalidArgument,
              {.where = where,
               .expected = std::string(name) + ": " + AnyOf(words),
               .found = word->dump(),
               .hint = hint});
}

void FailRange(const char* name, const FieldRange& range, double found,
               const std::string& where) {
  throw Error(ErrorCode::kInvalidArgument,
              {.where = where,
               .expected = std::string(name) + " " + RangeText(range),
               .found = fmt::format("{}", found),
               .hint = ""});
}

std::string AnyOf(std::span<const std::string> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool last = i + 1 == words.size();
    text += i == 0 ? "" : last ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::string RangeText(const FieldRange& range) {
  constexpr FieldRange kAny;
  const bool low = range.least > kAny.least, high = range.most < kAny.most;
  if (!low && !high) return "that is finite";
  if (range.above) {
    return fmt::format("above {:.15g}", range.least) +
           (high ? fmt::format(" and up to {:.15g}", range.most) : "");
  }
  if (!high) return fmt::format("of at least {:.15g}", range.least);
  if (!low) return fmt::format("of at most {:.15g}", range.most);
  return fmt::format("from {:.15g} to {:.15g}", range.least, range.most);
}

}  // namespace headwise
