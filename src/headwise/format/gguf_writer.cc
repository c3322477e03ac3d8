// Writing GGUF. Door: gguf.h.
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "headwise/base/atomic_file.h"
#include "headwise/error.h"
#include "headwise/format/gguf.h"
#include "headwise/tensor/encoding.h"

namespace headwise {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignment = 32;
// Types of metadata.
constexpr uint32_t kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kText = 8,
                   kArray = 9;

template <typename T>
void Append(std::string& bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

void AppendText(std::string& bytes, std::string_view text) {
  Append<uint64_t>(bytes, text.size());
  bytes.append(text);
}

void RequireRange(std::string_view key, int64_t value, int64_t least,
                  int64_t most) {
  if (value >= least && value <= most) return;
  throw Error(ErrorCode::kUnsupported,
              {std::string(key),
               std::to_string(least) + " to " + std::to_string(most) +
                   ", as GGUF has it",
               std::to_string(value), ""});
}

uint64_t Padding(uint64_t size) {
  return (kAlignment - size % kAlignment) % kAlignment;
}

// What a file calls the types that it may hold.
struct TypeNumber {
  DType type;
  uint32_t number;
};
constexpr TypeNumber kTypeNumbers[] = {{DType::kF32, 0},
                                       {DType::kF16, 1},
                                       {DType::kQ8_0, 8},
                                       {DType::kBF16, 30},
                                       {DType::kMXFP4, 39}};

const TypeNumber* FindTypeNumber(DType type) {
  const auto* const found =
      std::find_if(std::begin(kTypeNumbers), std::end(kTypeNumbers),
                   [&](const TypeNumber& one) { return one.type == type; });
  return found == std::end(kTypeNumbers) ? nullptr : found;
}

std::string KnownTypes() {
  std::string names;
  for (const TypeNumber& one : kTypeNumbers) {
    names += (names.empty() ? "" : ", ") + std::string(Name(one.type));
  }
  return names;
}

}  // namespace

void GgufWriter::BeginValue(std::string_view key, uint32_t type) {
  AppendText(metadata_, key);
  Append(metadata_, type);
  ++values_;
}

void GgufWriter::AddCount(std::string_view key, int64_t value) {
  RequireRange(key, value, 0, std::numeric_limits<uint32_t>::max());
  BeginValue(key, kU32);
  Append(metadata_, static_cast<uint32_t>(value));
}

void GgufWriter::AddNumber(std::string_view key, float value) {
  BeginValue(key, kF32);
  Append(metadata_, value);
}

void GgufWriter::AddFlag(std::string_view key, bool value) {
  BeginValue(key, kBool);
  Append(metadata_, static_cast<uint8_t>(value));
}

void GgufWriter::AddText(std::string_view key, std::string_view value) {
  BeginValue(key, kText);
  AppendText(metadata_, value);
}

void GgufWriter::AddCounts(std::string_view key,
                           std::span<const int64_t> values) {
  BeginValue(key, kArray);
  Append(metadata_, kI32);
  Append<uint64_t>(metadata_, values.size());
  for (const int64_t value : values) {
    RequireRange(key, value, std::numeric_limits<int32_t>::min(),
                 std::numeric_limits<int32_t>::max());
    Append(metadata_, static_cast<int32_t>(value));
  }
}

void GgufWriter::AddNumbers(std::string_view key,
                            std::span<const float> values) {
  BeginValue(key, kArray);
  Append(metadata_, kF32);
  Append<uint64_t>(metadata_, values.size());
  for (const float value : values) Append(metadata_, value);
}

void GgufWriter::AddTexts(std::string_view key,
                          std::span<const std::string> values) {
  BeginValue(key, kArray);
  Append(metadata_, kText);
  Append<uint64_t>(metadata_, values.size());
  for (const std::string& value : values) AppendText(metadata_, value);
}

void GgufWriter::AddTensor(std::string name, DType type, const Shape& shape,
                           std::function<Tensor()> make) {
  const bool known = FindTypeNumber(type) != nullptr;
  const bool repeated =
      std::any_of(tensors_.begin(), tensors_.end(),
                  [&](const Planned& other) { return other.name == name; });
  if (!known || repeated) {
    throw Error(ErrorCode::kInvalidArgument,
                {name, "a new tensor of " + KnownTypes(),
                 repeated ? "one of that name" : Name(type), ""});
  }
  const int64_t bytes = CheckedBytes(type, shape, name.c_str());
  tensors_.push_back({std::move(name), type, shape,
                      static_cast<uint64_t>(bytes), std::move(make)});
}

void GgufWriter::Write(const std::filesystem::path& path) const {
  std::string head = "GGUF";
  Append(head, kVersion);
  Append<uint64_t>(head, tensors_.size());
  Append(head, values_);
  head += metadata_;
  uint64_t offset = 0;
  for (const Planned& tensor : tensors_) {
    AppendText(head, tensor.name);
    Append(head, static_cast<uint32_t>(tensor.shape.rank()));
    for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis) {
      Append(head, static_cast<uint64_t>(tensor.shape[axis]));
    }
    Append(head, FindTypeNumber(tensor.type)->number);
    Append(head, offset);
    offset += tensor.bytes + Padding(tensor.bytes);
  }
  head.append(Padding(head.size()), '\0');
  AtomicFile file(path);
  file.Write(head);
  for (const Planned& tensor : tensors_) {
    const Tensor values = tensor.make();
    if (values.type() != tensor.type || values.bytes() != tensor.bytes) {
      throw Error(ErrorCode::kInvalidArgument,
                  {tensor.name, std::to_string(tensor.bytes) + " bytes",
                   std::to_string(values.bytes()), ""});
    }
    file.Write(values.view().data, tensor.bytes);
    file.Write(std::string(Padding(tensor.bytes), '\0'));
  }
  file.Commit();
}

}  // namespace headwise
