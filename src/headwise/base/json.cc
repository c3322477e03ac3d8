// JSON parsing and writing over nlohmann-json, which no other file sees. Door:
// json.h.
#include "headwise/base/json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "headwise/base/json_object.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"

namespace headwise {
namespace {

using Foreign = nlohmann::ordered_json;

// Thrown while parsing, by what does not know the byte offset.
struct Refused {
  std::string found;
};

// Builds the value, watching nesting and, where asked, repeated keys. (The
// library's own parser with a callback looks through all of an object's
// siblings at its end: quadratic in files of many small objects.)
class Builder : public nlohmann::json_sax<Foreign> {
 public:
  explicit Builder(JsonOptions options) : options_(options) {}

  Json& result() { return root_; }

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(int64_t value) override { return Put(value); }
  bool number_unsigned(uint64_t value) override { return Put(value); }
  bool number_float(double value, const std::string&) override {
    return Put(value);
  }
  bool string(std::string& value) override { return Put(std::move(value)); }
  bool binary(Foreign::binary_t&) override { return false; }  // not in JSON
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& name) override {
    Json& object = *open_.back();
    if (options_.unique_keys && object.contains(name)) {
      throw Refused{"the key \"" + name + "\" twice"};
    }
    member_ = &object[name];
    return true;
  }

  bool parse_error(size_t byte, const std::string&,
                   const nlohmann::json::exception& error) override {
    error_byte_ = byte;
    error_ = error.what();
    return false;
  }
  size_t error_byte() const { return error_byte_; }
  const std::string& error() const { return error_; }

 private:
  bool Put(Json value) {
    Place(std::move(value));
    return true;
  }
  // Where it came to lie.
  Json* Place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_array()) {
      return &open_.back()->emplace_back(std::move(value));
    }
    return &(*member_ = std::move(value));
  }
  bool Open(Json value) {
    if (open_.size() >= kMaxJsonDepth) {
      throw Refused{"nesting deeper than " + std::to_string(kMaxJsonDepth)};
    }
    open_.push_back(Place(std::move(value)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  JsonOptions options_;
  Json root_;
  std::vector<Json*> open_;  // objects and arrays that have not ended
  Json* member_ = nullptr;   // of the innermost object
  size_t error_byte_ = 0;
  std::string error_;
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
std::string Reason(const std::string& text) {
  const size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

}  // namespace

// Hands a value to the library that knows how to write it.
class JsonWriter {
 public:
  static Foreign ToForeign(const Json& json) {
    if (json.is_array()) {
      Foreign list = Foreign::array();
      for (const Json& element : json) list.push_back(ToForeign(element));
      return list;
    }
    if (json.is_object()) {
      Foreign object = Foreign::object();
      // Its operator[] would look through all members before.
      auto& members = object.get_ref<Foreign::object_t&>();
      for (const auto& [key, value] : json.items()) {
        members.Container::emplace_back(key, ToForeign(value));
      }
      return object;
    }
    return std::visit(
        [](const auto& value) -> Foreign {
          using Value = std::decay_t<decltype(value)>;
          if constexpr (std::is_copy_constructible_v<Value> &&
                        !std::is_same_v<Value, std::monostate>) {
            return value;
          }
          return nullptr;
        },
        json.value_);
  }
};

std::string Json::dump(int indent) const {
  return JsonWriter::ToForeign(*this).dump(indent, ' ', false,
                                           Foreign::error_handler_t::replace);
}

std::string DumpUtf8(const Json& json, const std::string& where) {
  try {
    return JsonWriter::ToForeign(json).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kInvalidArgument,
                {where, "names and texts in UTF-8", "other bytes", ""});
  }
}

Json Json::parse(std::string_view text) { return ParseJson(text, "JSON"); }

Json ParseJson(std::string_view text, const std::string& where,
               JsonOptions options) {
  const char* furthest = text.data();
  const CountingIterator begin(text.data(), &furthest);
  const CountingIterator end(text.data() + text.size(), nullptr);
  Builder builder(options);
  try {
    if (Foreign::sax_parse(begin, end, &builder)) {
      return std::move(builder.result());
    }
  } catch (const Refused& refused) {
    FailAt(where, furthest - text.data(), refused.found);
  }
  // Syntax has its byte; a number beyond double does not.
  const size_t byte = builder.error_byte();
  FailAt(where, byte > 0 ? byte - 1 : furthest - text.data(),
         Reason(builder.error()));
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
  if (value_->is_object()) {
    for (const auto& [key, item] : value_->items()) {
      items.emplace_back(item, where_ + ": " + key);
    }
  } else {
    for (const Json& item : *value_) {
      items.emplace_back(item, where_ + ": " + std::to_string(items.size()));
    }
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
  return value_->text();
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

Json FiniteOrNull(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

}  // namespace headwise
