// JSON parsing over nlohmann-json. Door: json.h.
#include "headwise/base/json.h"

#include <set>

#include "headwise/base/mapped_file.h"
#include "headwise/error.h"

namespace headwise {
namespace {

// Thrown inside the parser's callback, which does not know the byte offset.
struct Refused {
  std::string found;
};

// Watches nesting and, where asked, repeated keys.
class Guard {
 public:
  explicit Guard(JsonOptions options) : options_(options) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kMaxJsonDepth) {
        throw Refused{"nesting deeper than " + std::to_string(kMaxJsonDepth)};
      }
      if (options_.unique_keys) keys_.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      if (options_.unique_keys) keys_.pop_back();
    } else if (event == Event::key && options_.unique_keys) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        throw Refused{"the key \"" + key + "\" twice"};
      }
    }
    return true;
  }

 private:
  JsonOptions options_;
  std::vector<std::set<std::string>> keys_;
};

// Counts what the parser has taken, so that Refused gets an offset too.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest)
      : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    if (furthest_ != nullptr) *furthest_ = at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const {
    return at_ == other.at_;
  }
  bool operator!=(const CountingIterator& other) const {
    return at_ != other.at_;
  }

 private:
  const char* at_;
  const char** furthest_;
};

[[noreturn]] void FailAt(const std::string& where, size_t offset,
                         std::string found) {
  throw Error(ErrorCode::kCorrupt, {where + ": byte " + std::to_string(offset),
                                    "valid JSON", std::move(found), ""});
}

// The library's "[json.exception.…] parse error at …: " is noise here.
std::string Reason(const char* what) {
  const std::string text = what;
  const size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

std::string Describe(const Json& value) {
  if (value.is_structured()) {
    return std::string(value.is_object() ? "an object" : "an array") + " of " +
           std::to_string(value.size());
  }
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace

Json ParseJson(std::string_view text, const std::string& where,
               JsonOptions options) {
  const char* furthest = text.data();
  const CountingIterator begin(text.data(), &furthest);
  const CountingIterator end(text.data() + text.size(), nullptr);
  try {
    return Json::parse(begin, end, Guard(options));
  } catch (const Json::parse_error& error) {
    FailAt(where, error.byte > 0 ? error.byte - 1 : 0, Reason(error.what()));
  } catch (const Json::exception& error) {  // a number beyond double
    FailAt(where, furthest - text.data(), Reason(error.what()));
  } catch (const Refused& refused) {
    FailAt(where, furthest - text.data(), refused.found);
  }
}

Json ReadJson(const std::filesystem::path& path, JsonOptions options) {
  const MappedFile file(path);
  return ParseJson(file.text(), path.string(), options);
}

void JsonCursor::Fail(const std::string& expected) const {
  throw Error(ErrorCode::kCorrupt, {where_, expected, Describe(*value_), ""});
}

JsonCursor JsonCursor::operator[](const std::string& key) const {
  if (!value_->is_object()) Fail("an object with \"" + key + "\"");
  const auto found = value_->find(key);
  if (found == value_->end()) {
    throw Error(ErrorCode::kCorrupt,
                {where_, "the key \"" + key + "\"", "none", ""});
  }
  return {*found, where_ + ": " + key};
}

std::optional<JsonCursor> JsonCursor::Find(const std::string& key) const {
  if (!value_->is_object()) Fail("an object");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonCursor(*found, where_ + ": " + key);
}

std::vector<JsonCursor> JsonCursor::Items() const {
  if (!value_->is_structured()) Fail("an array or an object");
  std::vector<JsonCursor> items;
  items.reserve(value_->size());
  for (const auto& [key, item] : value_->items()) {
    items.emplace_back(item, where_ + ": " + key);
  }
  return items;
}

bool JsonCursor::Bool() const {
  if (!value_->is_boolean()) Fail("true or false");
  return value_->get<bool>();
}

int64_t JsonCursor::Int(int64_t least, int64_t most) const {
  const bool fits =
      value_->is_number_integer() &&
      !(value_->is_number_unsigned() &&
        value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
  const int64_t number = fits ? value_->get<int64_t>() : 0;
  if (!fits || number < least || number > most) {
    Fail("a whole number from " + std::to_string(least) + " to " +
         std::to_string(most));
  }
  return number;
}

double JsonCursor::Number() const {
  if (!value_->is_number()) Fail("a number");
  return value_->get<double>();
}

const std::string& JsonCursor::String() const {
  if (!value_->is_string()) Fail("a string");
  return value_->get_ref<const std::string&>();
}

bool JsonCursor::Bool(const std::string& key, bool otherwise) const {
  const auto member = Find(key);
  return member ? member->Bool() : otherwise;
}

int64_t JsonCursor::Int(const std::string& key, int64_t least, int64_t most,
                        int64_t otherwise) const {
  const auto member = Find(key);
  return member ? member->Int(least, most) : otherwise;
}

std::string JsonCursor::String(const std::string& key,
                               const std::string& otherwise) const {
  const auto member = Find(key);
  return member ? member->String() : otherwise;
}

}  // namespace headwise
