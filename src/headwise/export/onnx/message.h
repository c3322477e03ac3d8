// A protobuf message as its bytes, written field by field: all that an ONNX
// file needs. Debian's libprotobuf cannot be loaded beside libsentencepiece,
// which carries an older one of its own under the same names.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace headwise {

static_assert(std::endian::native == std::endian::little);

class ProtoMessage {
 public:
  const std::string& bytes() const { return bytes_; }

  ProtoMessage& Int(int field, int64_t value) {
    Key(field, 0);
    Varint(static_cast<uint64_t>(value));
    return *this;
  }
  ProtoMessage& Float(int field, float value) {
    Key(field, 5);
    char raw[sizeof(value)];
    std::memcpy(raw, &value, sizeof(value));
    bytes_.append(raw, sizeof(raw));
    return *this;
  }
  // Text, or the bytes of numbers.
  ProtoMessage& Bytes(int field, std::string_view value) {
    Key(field, 2);
    Varint(value.size());
    bytes_.append(value);
    return *this;
  }
  ProtoMessage& Message(int field, const ProtoMessage& value) {
    return Bytes(field, value.bytes_);
  }

 private:
  void Key(int field, int kind) {
    Varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(kind));
  }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      bytes_.push_back(static_cast<char>(value | 0x80));
    }
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

}  // namespace headwise
