// Fields of configurations from JSON. Door: fields.h.
#include "headwise/base/fields.h"

#include <algorithm>

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

void FailWord(const char* name, std::span<const char* const> words,
              const Json& found, const std::string& where) {
  std::string expected = std::string(name) + ": ";
  for (size_t i = 0; i < words.size(); ++i) {
    const bool last = i + 1 == words.size();
    expected += i == 0 ? "" : last ? " or " : ", ";
    expected += words[i];
  }
  throw Error(ErrorCode::kInvalidArgument, {.where = where,
                                            .expected = expected,
                                            .found = found.dump(),
                                            .hint = ""});
}

}  // namespace headwise
