// A JSON value. nlohmann-json reads and writes it (json.cc), and stays out of
// every other file: it costs seconds of compilation wherever it is seen.
//
//   Json json = {{"heads", 8}, {"names", {"a", "b"}}};  // pairs: an object
//   json["width"] = 64;
//   for (const auto& [key, value] : json.items()) …
//   const auto heads = json.at("heads").get<int64_t>();
//
// Objects keep the order in which their members came; two are equal whatever
// the order. References and iterators last until the container grows.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace headwise {

class Json;

// What Json takes as an object (maps) or as an array (other containers).
template <typename T>
concept JsonMap = requires(const T& map) {
  typename T::mapped_type;
  map.begin();
};
template <typename T>
concept JsonList = requires(const T& list) {
  typename T::value_type;
  list.begin();
}
&&!JsonMap<T> && !std::convertible_to<const T&, std::string_view> &&
    !std::same_as<T, Json>;

class Json {
 public:
  using value_type = Json;
  using iterator = Json*;
  using const_iterator = const Json*;

  Json();  // null
  ~Json();
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;

  Json(std::nullptr_t) : Json() {}
  template <std::same_as<bool> T>
  Json(T value) : value_(value) {}
  template <std::signed_integral T>
  Json(T value) : value_(static_cast<int64_t>(value)) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) Json(T value)
      : value_(static_cast<uint64_t>(value)) {}
  template <std::floating_point T>
  Json(T value) : value_(static_cast<double>(value)) {}
  Json(const char* text) : Json(std::string_view(text)) {}
  Json(std::string_view text) : Json(std::string(text)) {}
  Json(std::string text);
  template <JsonMap T>
  Json(const T& map) : Json(object()) {
    for (const auto& [key, value] : map) (*this)[key] = Json(value);
  }
  template <JsonList T>
  Json(const T& list) : Json(array()) {
    for (const auto& value : list) push_back(Json(value));
  }
  // An object where every element is a pair that begins with a string, else an
  // array.
  Json(std::initializer_list<Json> values);

  static Json array();
  static Json array(std::initializer_list<Json> values);
  static Json object();
  // One JSON text that we wrote ourselves; others: ParseJson (json.h).
  static Json parse(std::string_view text);

  bool is_null() const;
  bool is_boolean() const;
  bool is_number() const;
  bool is_number_integer() const;   // no fraction, as written
  bool is_number_unsigned() const;  // that, and not negative
  bool is_number_float() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;
  bool is_structured() const { return is_array() || is_object(); }

  // Elements or members; 0 for null, 1 for other values.
  size_t size() const;
  bool empty() const { return size() == 0; }
  // The elements of an array, the values of an object.
  iterator begin();
  iterator end();
  const_iterator begin() const;
  const_iterator end() const;
  Json& front() { return *begin(); }
  Json& back() { return end()[-1]; }
  const Json& front() const { return *begin(); }
  const Json& back() const { return end()[-1]; }

  // A member; end() where there is none, or where this is no object.
  iterator find(std::string_view key);
  const_iterator find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != end(); }
  // Member or element that must be there: Error(kCorrupt) says what is.
  Json& at(std::string_view key);
  const Json& at(std::string_view key) const;
  Json& at(size_t index);
  const Json& at(size_t index) const;
  // The same, but a new member is made in what is not const (null becomes an
  // object).
  Json& operator[](std::string_view key);
  const Json& operator[](std::string_view key) const { return at(key); }
  template <std::integral T>
  Json& operator[](T index) {
    return at(static_cast<size_t>(index));
  }
  template <std::integral T>
  const Json& operator[](T index) const {
    return at(static_cast<size_t>(index));
  }

  // Null becomes an array.
  void push_back(Json value);
  Json& emplace_back(Json value);
  // Takes over the members of another object.
  void update(const Json& other);
  void erase(std::string_view key);

  // The members in order, as pairs of key and value.
  class Items;
  Items items() const;

  // The value as a C++ one. Error(kCorrupt) for another type, for a fraction
  // where a whole number is wanted, and for one that does not fit.
  template <typename T>
  T get() const {
    T value{};
    get_to(value);
    return value;
  }
  void get_to(Json& value) const { value = *this; }
  void get_to(bool& value) const;
  void get_to(std::string& value) const { value = text(); }
  void get_to(double& value) const;
  void get_to(float& value) const;
  template <std::integral T>
  void get_to(T& value) const {
    if constexpr (std::unsigned_integral<T>) {
      const uint64_t whole = Unsigned();
      value = static_cast<T>(whole);
      if (value != whole) FailRange();
    } else {
      const int64_t whole = Signed();
      value = static_cast<T>(whole);
      if (value != whole) FailRange();
    }
  }
  template <typename T>
  void get_to(std::vector<T>& values) const {
    values.clear();
    for (const Json& element : Elements()) {
      values.push_back(element.get<T>());
    }
  }
  template <typename A, typename B>
  void get_to(std::pair<A, B>& pair) const {
    if (size() != 2) Fail("an array of two");
    pair = {at(size_t{0}).get<A>(), at(size_t{1}).get<B>()};
  }
  // A string's bytes, without a copy.
  const std::string& text() const;

  // A member's value, or `otherwise` where it is absent.
  template <typename T>
  T value(std::string_view key, T otherwise) const {
    const auto found = find(key);
    return found == end() ? otherwise : found->get<T>();
  }
  std::string value(std::string_view key, const char* otherwise) const {
    return value(key, std::string(otherwise));
  }

  // The text; with `indent` >= 0 over several lines. Bytes that are no UTF-8
  // become U+FFFD, numbers that are not finite null.
  std::string dump(int indent = -1) const;

  friend bool operator==(const Json& a, const Json& b) { return a.Equals(b); }

 private:
  friend class JsonWriter;
  using Array = std::vector<Json>;
  struct Object;
  struct Drop {  // of what is not known here
    void operator()(Array* list) const;
    void operator()(Object* object) const;
  };
  using ArrayPointer = std::unique_ptr<Array, Drop>;
  using ObjectPointer = std::unique_ptr<Object, Drop>;

  bool Equals(const Json& other) const;
  int64_t Signed() const;
  uint64_t Unsigned() const;
  const Array& Elements() const;
  [[noreturn]] void FailRange() const;
  [[noreturn]] void Fail(const char* expected) const;

  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string,
               ArrayPointer, ObjectPointer>
      value_;
};

std::ostream& operator<<(std::ostream& out, const Json& json);

class Json::Items {
 public:
  struct Item {
    const std::string& key;
    const Json& value;
  };
  class Iterator {
   public:
    Iterator(const std::string* key, const Json* value)
        : key_(key), value_(value) {}
    Item operator*() const { return {*key_, *value_}; }
    Iterator& operator++() {
      ++key_;
      ++value_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return key_ != other.key_; }

   private:
    const std::string* key_;
    const Json* value_;
  };

  Items(const std::vector<std::string>& keys, const std::vector<Json>& values)
      : begin_(keys.data(), values.data()),
        end_(keys.data() + keys.size(), values.data() + values.size()) {}
  Iterator begin() const { return begin_; }
  Iterator end() const { return end_; }

 private:
  Iterator begin_, end_;
};

}  // namespace headwise
