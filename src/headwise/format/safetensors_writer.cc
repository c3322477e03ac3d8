// Writing safetensors, with bytes that depend on the content only.
// Door: safetensors.h.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"

namespace headwise {
namespace {

// The header is padded with spaces to this, so that the data is aligned.
constexpr size_t kHeaderAlignment = 8;

uint64_t Bytes(const ConstTensorView& view) {
  return static_cast<uint64_t>(BytesOf(view.type, view.size()));
}

void Check(const NamedTensor& tensor) {
  if (!IsSafetensorsType(tensor.view.type)) {
    throw Error(
        ErrorCode::kUnsupported,
        {"write tensor \"" + tensor.name + "\"", "a type that safetensors has",
         ToString(tensor.view), "make it f32, bf16 or f16 first"});
  }
  int64_t step = 1;
  bool dense = true;
  for (int i = tensor.view.rank - 1; i >= 0; --i) {
    // The stride of a size of 1 moves nowhere.
    dense &= tensor.view.stride[i] == step || tensor.view.shape[i] == 1;
    step *= tensor.view.shape[i];
  }
  if (step != 0 && (!dense || tensor.view.data == nullptr)) {
    throw Error(ErrorCode::kInvalidArgument,
                {"write tensor \"" + tensor.name + "\"",
                 "dense row-major data on the host", ToString(tensor.view),
                 "copy it into a Tensor first"});
  }
}

void CheckNames(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end() ||
      std::binary_search(names.begin(), names.end(), "__metadata__")) {
    throw Error(ErrorCode::kInvalidArgument,
                {"write safetensors", "names that are unique and not reserved",
                 twice != names.end() ? "\"" + std::string(*twice) + "\" twice"
                                      : "\"__metadata__\"",
                 ""});
  }
}

std::string Header(const std::vector<NamedTensor>& sorted,
                   const Metadata& metadata) {
  // Ordered as the data lies, which is also how people look for a tensor.
  Json json = Json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const NamedTensor& tensor : sorted) {
    const uint64_t end = offset + Bytes(tensor.view);
    Json entry;
    entry["dtype"] = SafetensorsName(tensor.view.type);
    entry["shape"] =
        std::vector<int64_t>(tensor.view.shape.begin(),
                             tensor.view.shape.begin() + tensor.view.rank);
    entry["data_offsets"] = {offset, end};
    json[tensor.name] = std::move(entry);
    offset = end;
  }
  std::string text = DumpUtf8(json, "write safetensors");
  text.append(
      (kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment,
      ' ');
  return text;
}

}  // namespace

void WriteSafetensors(const std::filesystem::path& path,
                      std::vector<NamedTensor> tensors,
                      const Metadata& metadata) {
  CheckNames(tensors);
  for (const NamedTensor& tensor : tensors) Check(tensor);
  std::sort(tensors.begin(), tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) {
              const int64_t size_a = ElementSize(a.view.type);
              const int64_t size_b = ElementSize(b.view.type);
              return size_a != size_b ? size_a > size_b : a.name < b.name;
            });
  const std::string header = Header(tensors, metadata);
  AtomicFile file(path);
  for (size_t i = 0; i < 8; ++i) {
    const char byte = static_cast<char>(header.size() >> (8 * i));
    file.Write(&byte, 1);
  }
  file.Write(header);
  for (const NamedTensor& tensor : tensors) {
    file.Write(tensor.view.data, Bytes(tensor.view));
  }
  file.Commit();
}

}  // namespace headwise
