// Values as the bytes of a message, between processes of one program.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "headwise/error.h"

namespace headwise::dist {

// A fault of ours: ranks that are not at the same place of the program.
inline Error UnexpectedMessage(size_t expected, size_t found) {
  return {ErrorCode::kInternal,
          {"ranks", "a message of " + std::to_string(expected) + " bytes",
           std::to_string(found), ""}};
}

class Packer {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void Put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void Put(const std::string& text) {
    Put(text.size());
    bytes_ += text;
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void Put(const std::vector<T>& values) {
    Put(values.size());
    bytes_.append(reinterpret_cast<const char*>(values.data()),
                  values.size() * sizeof(T));
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// The same in the same order. Borrows the bytes.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    T value;
    std::memcpy(&value, Next(sizeof(T)), sizeof(T));
    return value;
  }
  std::string GetString() {
    const auto size = Get<size_t>();
    return {Next(size), size};
  }
  template <typename T>
  std::vector<T> GetVector() {
    const auto size = Get<size_t>();
    if (size > bytes_.size() / sizeof(T)) {
      throw UnexpectedMessage(size * sizeof(T), bytes_.size());
    }
    std::vector<T> values(size);
    if (size == 0) return values;
    std::memcpy(values.data(), Next(size * sizeof(T)), size * sizeof(T));
    return values;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  const char* Next(size_t size) {
    if (size > bytes_.size()) throw UnexpectedMessage(size, bytes_.size());
    const char* at = bytes_.data();
    bytes_.remove_prefix(size);
    return at;
  }

  std::string_view bytes_;
};

}  // namespace headwise::dist
