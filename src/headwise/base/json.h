// JSON from files nobody vouches for: a cap on nesting, and errors that name
// the file with a byte offset (syntax) or a key (content).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/base/json_value.h"

namespace headwise {

// Deeper files are refused, since values are destroyed by recursion.
inline constexpr int kMaxJsonDepth = 128;

struct JsonOptions {
  // Refuse an object that names a key twice, where the format forbids it;
  // otherwise the last one counts. Costs a set of the keys while parsing.
  bool unique_keys = false;
};

// Parses one JSON text. `where` is the file's name, for messages. Throws
// Error(kCorrupt) with the byte offset for bad syntax, invalid UTF-8, nesting
// deeper than kMaxJsonDepth and repeated keys.
Json ParseJson(std::string_view text, const std::string& where,
               JsonOptions options = {});

// The same for a whole file; Error(kNotFound) or Error(kIo) as MappedFile.
Json ReadJson(const std::filesystem::path& path, JsonOptions options = {});

// A short text of a value for messages: "an array of 3", "7".
std::string Describe(const Json& value);

// The text of a value that must be UTF-8 throughout: else
// Error(kInvalidArgument).
std::string DumpUtf8(const Json& json, const std::string& where);

// A place in a JSON value that knows its name, so that a wrong type is
// reported as "[tokenizer.json: model.merges.3] expected a string; found 7".
// Borrows the value. Every accessor throws Error(kCorrupt) on a wrong type.
class JsonCursor {
 public:
  JsonCursor(const Json& value, std::string where)
      : value_(&value), where_(std::move(where)) {}

  const Json& value() const { return *value_; }
  const std::string& where() const { return where_; }

  // A member that must be there.
  JsonCursor operator[](const std::string& key) const;
  // A member that may be absent or null.
  std::optional<JsonCursor> Find(const std::string& key) const;
  // The elements of an array, the members of an object.
  std::vector<JsonCursor> Items() const;

  bool Bool() const;
  int64_t Int(int64_t least, int64_t most) const;
  double Number() const;
  const std::string& String() const;

  // A member's value, or `otherwise` where it is absent or null.
  bool Bool(const std::string& key, bool otherwise) const;
  int64_t Int(const std::string& key, int64_t least, int64_t most,
              int64_t otherwise) const;
  std::string String(const std::string& key,
                     const std::string& otherwise) const;

  // Throws Error(kCorrupt): "[where] expected …; found <this value>".
  [[noreturn]] void Fail(const std::string& expected) const;

 private:
  const Json* value_;
  std::string where_;
};

// A number that JSON has a word for, or null.
Json FiniteOrNull(double value);

}  // namespace headwise
