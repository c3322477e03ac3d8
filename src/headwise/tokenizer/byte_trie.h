// A set of strings with a number each, asked for those that a text begins
// with.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headwise {

class ByteTrie {
 public:
  static constexpr int32_t kNone = -1;

  ByteTrie() { first_.fill(0); }

  // A string added twice keeps the later number. Empty strings are ignored.
  void Add(std::string_view text, int32_t value) {
    if (text.empty()) return;
    uint32_t node = 0;
    for (char c : text) node = Child(node, static_cast<unsigned char>(c));
    values_[node] = value;
  }

  // Calls fn(length, value) for each string that `text` begins with, shortest
  // first.
  template <typename Function>
  void ForEachPrefix(std::string_view text, Function fn) const {
    if (text.empty()) return;
    uint32_t node = first_[static_cast<unsigned char>(text[0])];
    for (size_t length = 1; node != 0; ++length) {
      if (values_[node] != kNone) fn(length, values_[node]);
      if (length == text.size()) return;
      const auto child =
          children_.find(Key(node, static_cast<unsigned char>(text[length])));
      node = child == children_.end() ? 0 : child->second;
    }
  }

 private:
  static uint64_t Key(uint32_t node, unsigned char byte) {
    return uint64_t{node} << 8 | byte;
  }
  uint32_t Child(uint32_t node, unsigned char byte) {
    uint32_t& child = node == 0 ? first_[byte] : children_[Key(node, byte)];
    if (child == 0) {
      child = static_cast<uint32_t>(values_.size());
      values_.push_back(kNone);
    }
    return child;
  }

  std::array<uint32_t, 256> first_;  // children of the root, node 0
  std::unordered_map<uint64_t, uint32_t> children_;
  std::vector<int32_t> values_ = {kNone};  // by node
};

}  // namespace headwise
