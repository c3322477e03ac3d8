// The JSON value: access, comparison, objects. Door: json_value.h; parsing and
// writing are in json.cc.
#include "headwise/base/json_value.h"

#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <type_traits>

#include "headwise/base/json.h"
#include "headwise/base/json_object.h"
#include "headwise/error.h"

namespace headwise {

size_t Json::Object::Find(std::string_view key) const {
  if (slots.empty()) {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == key) return i;
    }
    return kNone;
  }
  const size_t mask = slots.size() - 1;
  size_t at = std::hash<std::string_view>()(key) & mask;
  for (; slots[at] != kFree; at = (at + 1) & mask) {
    if (keys[slots[at]] == key) return slots[at];
  }
  return kNone;
}

void Json::Object::Index() {
  slots.clear();
  if (keys.size() <= kScanned) return;
  size_t size = 4 * kScanned;
  while (size < 4 * keys.size()) size *= 2;  // at most half full until then
  slots.assign(size, kFree);
  for (size_t i = 0; i < keys.size(); ++i) Enter(i);
}

void Json::Object::Enter(size_t member) {
  const size_t mask = slots.size() - 1;
  size_t at = std::hash<std::string_view>()(keys[member]) & mask;
  while (slots[at] != kFree) at = (at + 1) & mask;
  slots[at] = static_cast<uint32_t>(member);
}

Json& Json::Object::Add(std::string_view key) {
  if (keys.size() == kFree) {
    throw Error(ErrorCode::kOutOfMemory,
                {"JSON", "fewer than 2^32 members of an object", "more", ""});
  }
  keys.emplace_back(key);
  values.emplace_back();
  if (slots.size() < 2 * keys.size()) {
    if (keys.size() > kScanned) Index();
  } else {
    Enter(keys.size() - 1);
  }
  return values.back();
}

void Json::Object::Erase(size_t member) {
  keys.erase(keys.begin() + static_cast<ptrdiff_t>(member));
  values.erase(values.begin() + static_cast<ptrdiff_t>(member));
  Index();
}

void Json::Drop::operator()(Array* list) const { delete list; }
void Json::Drop::operator()(Object* object) const { delete object; }

Json::Json() = default;
Json::~Json() = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::Json(std::string text) : value_(std::move(text)) {}

Json::Json(const Json& other) {
  if (const auto* list = std::get_if<ArrayPointer>(&other.value_)) {
    value_ = ArrayPointer(new Array(**list));
  } else if (const auto* object = std::get_if<ObjectPointer>(&other.value_)) {
    value_ = ObjectPointer(new Object(**object));
  } else {
    std::visit(
        [this](const auto& value) {
          if constexpr (std::is_copy_constructible_v<
                            std::decay_t<decltype(value)>>) {
            value_ = value;
          }
        },
        other.value_);
  }
}

Json& Json::operator=(const Json& other) {
  Json copy(other);
  value_ = std::move(copy.value_);
  return *this;
}

Json::Json(std::initializer_list<Json> values) {
  bool pairs = true;
  for (const Json& value : values) {
    pairs = pairs && value.is_array() && value.size() == 2 &&
            value.front().is_string();
  }
  if (!pairs) {
    value_ = ArrayPointer(new Array(values));
    return;
  }
  value_ = ObjectPointer(new Object());
  for (const Json& value : values) {
    (*this)[value.front().text()] = value.back();
  }
}

Json Json::array() { return array({}); }

Json Json::array(std::initializer_list<Json> values) {
  Json json;
  json.value_ = ArrayPointer(new Array(values));
  return json;
}

Json Json::object() {
  Json json;
  json.value_ = ObjectPointer(new Object());
  return json;
}

bool Json::is_null() const {
  return std::holds_alternative<std::monostate>(value_);
}
bool Json::is_boolean() const { return std::holds_alternative<bool>(value_); }
bool Json::is_number() const {
  return is_number_integer() || is_number_float();
}
bool Json::is_number_integer() const {
  return std::holds_alternative<int64_t>(value_) ||
         std::holds_alternative<uint64_t>(value_);
}
bool Json::is_number_unsigned() const {
  const auto* whole = std::get_if<int64_t>(&value_);
  return whole != nullptr ? *whole >= 0
                          : std::holds_alternative<uint64_t>(value_);
}
bool Json::is_number_float() const {
  return std::holds_alternative<double>(value_);
}
bool Json::is_string() const {
  return std::holds_alternative<std::string>(value_);
}
bool Json::is_array() const {
  return std::holds_alternative<ArrayPointer>(value_);
}
bool Json::is_object() const {
  return std::holds_alternative<ObjectPointer>(value_);
}

size_t Json::size() const {
  if (is_null()) return 0;
  return is_structured() ? static_cast<size_t>(end() - begin()) : 1;
}

Json::const_iterator Json::begin() const {
  if (const auto* list = std::get_if<ArrayPointer>(&value_)) {
    return (*list)->data();
  }
  const auto* object = std::get_if<ObjectPointer>(&value_);
  return object == nullptr ? nullptr : (*object)->values.data();
}

Json::const_iterator Json::end() const {
  if (const auto* list = std::get_if<ArrayPointer>(&value_)) {
    return (*list)->data() + (*list)->size();
  }
  const auto* object = std::get_if<ObjectPointer>(&value_);
  return object == nullptr ? nullptr
                           : (*object)->values.data() + (*object)->keys.size();
}

Json::iterator Json::begin() {
  return const_cast<iterator>(std::as_const(*this).begin());
}
Json::iterator Json::end() {
  return const_cast<iterator>(std::as_const(*this).end());
}

Json::const_iterator Json::find(std::string_view key) const {
  const auto* object = std::get_if<ObjectPointer>(&value_);
  if (object == nullptr) return end();
  const size_t member = (*object)->Find(key);
  return member == Object::kNone ? end() : begin() + member;
}
Json::iterator Json::find(std::string_view key) {
  return const_cast<iterator>(std::as_const(*this).find(key));
}

const Json& Json::at(std::string_view key) const {
  if (!is_object()) Fail("an object");
  const auto found = find(key);
  if (found == end()) {
    throw Error(ErrorCode::kCorrupt,
                {"JSON", "the key \"" + std::string(key) + "\"", "none", ""});
  }
  return *found;
}
Json& Json::at(std::string_view key) {
  return const_cast<Json&>(std::as_const(*this).at(key));
}

const Json& Json::at(size_t index) const {
  const Array& elements = Elements();
  if (index < elements.size()) return elements[index];
  throw Error(ErrorCode::kCorrupt,
              {"JSON", "an element " + std::to_string(index),
               "an array of " + std::to_string(elements.size()), ""});
}
Json& Json::at(size_t index) {
  return const_cast<Json&>(std::as_const(*this).at(index));
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = ObjectPointer(new Object());
  auto* object = std::get_if<ObjectPointer>(&value_);
  if (object == nullptr) Fail("an object");
  const size_t member = (*object)->Find(key);
  return member == Object::kNone ? (*object)->Add(key)
                                 : (*object)->values[member];
}

void Json::push_back(Json value) { emplace_back(std::move(value)); }

Json& Json::emplace_back(Json value) {
  if (is_null()) value_ = ArrayPointer(new Array());
  auto* list = std::get_if<ArrayPointer>(&value_);
  if (list == nullptr) Fail("an array");
  return (*list)->emplace_back(std::move(value));
}

void Json::update(const Json& other) {
  for (const auto& [key, value] : other.items()) (*this)[key] = value;
}

void Json::erase(std::string_view key) {
  auto* object = std::get_if<ObjectPointer>(&value_);
  if (object == nullptr) return;
  const size_t member = (*object)->Find(key);
  if (member != Object::kNone) (*object)->Erase(member);
}

Json::Items Json::items() const {
  const auto* object = std::get_if<ObjectPointer>(&value_);
  if (object == nullptr) Fail("an object");
  return {(*object)->keys, (*object)->values};
}

void Json::get_to(bool& value) const {
  const bool* held = std::get_if<bool>(&value_);
  if (held == nullptr) Fail("true or false");
  value = *held;
}

void Json::get_to(double& value) const {
  if (const auto* whole = std::get_if<int64_t>(&value_)) {
    value = static_cast<double>(*whole);
  } else if (const auto* large = std::get_if<uint64_t>(&value_)) {
    value = static_cast<double>(*large);
  } else if (const auto* real = std::get_if<double>(&value_)) {
    value = *real;
  } else {
    Fail("a number");
  }
}

void Json::get_to(float& value) const {
  value = static_cast<float>(get<double>());
}

int64_t Json::Signed() const {
  if (const auto* whole = std::get_if<int64_t>(&value_)) return *whole;
  if (const auto* large = std::get_if<uint64_t>(&value_)) {
    if (*large > static_cast<uint64_t>(INT64_MAX)) FailRange();
    return static_cast<int64_t>(*large);
  }
  const auto* real = std::get_if<double>(&value_);
  if (real == nullptr) Fail("a whole number");
  if (std::trunc(*real) != *real || std::abs(*real) >= 0x1p53) FailRange();
  return static_cast<int64_t>(*real);
}

uint64_t Json::Unsigned() const {
  if (const auto* large = std::get_if<uint64_t>(&value_)) return *large;
  const int64_t whole = Signed();
  if (whole < 0) FailRange();
  return static_cast<uint64_t>(whole);
}

const Json::Array& Json::Elements() const {
  const auto* list = std::get_if<ArrayPointer>(&value_);
  if (list == nullptr) Fail("an array");
  return **list;
}

const std::string& Json::text() const {
  const auto* text = std::get_if<std::string>(&value_);
  if (text == nullptr) Fail("a string");
  return *text;
}

bool Json::Equals(const Json& other) const {
  if (is_number() && other.is_number()) {
    if (is_number_float() || other.is_number_float()) {
      return get<double>() == other.get<double>();
    }
    if (is_number_unsigned() != other.is_number_unsigned()) return false;
    return is_number_unsigned() ? Unsigned() == other.Unsigned()
                                : Signed() == other.Signed();
  }
  if (value_.index() != other.value_.index() || size() != other.size()) {
    return false;
  }
  if (is_array()) return Elements() == other.Elements();
  if (!is_object()) return value_ == other.value_;
  for (const auto& [key, value] : items()) {
    const auto found = other.find(key);
    if (found == other.end() || !(*found == value)) return false;
  }
  return true;
}

void Json::FailRange() const { Fail("a whole number that fits its place"); }

void Json::Fail(const char* expected) const {
  throw Error(ErrorCode::kCorrupt, {"JSON", expected, Describe(*this), ""});
}

std::string Describe(const Json& value) {
  if (value.is_structured()) {
    return std::string(value.is_object() ? "an object" : "an array") + " of " +
           std::to_string(value.size());
  }
  std::string text = value.dump();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::ostream& operator<<(std::ostream& out, const Json& json) {
  return out << json.dump();
}

}  // namespace headwise
