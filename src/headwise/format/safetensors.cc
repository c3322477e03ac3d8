// Reading safetensors. Every size is checked against the file before it is
// used, and nothing is allocated from a number the file states.
// Door: safetensors.h.
#include "headwise/format/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/format/torch_file.h"
#include "headwise/tensor/encoding.h"
#include "headwise/tensor/unaligned.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTorchExtension = ".bin";
// What a folder may hold, the first that is there.
constexpr const char* kFolderFiles[] = {
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
    "pytorch_model.bin.index.json"};
constexpr size_t kLengthBytes = 8;
// The format's own limit, so that a header cannot be a disguised body.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
// Two bytes of it become forty of memory. A tensor takes about ten values; the
// largest models have a hundred thousand.
constexpr size_t kMaxHeaderValues = 2'000'000;

struct TypeName {
  DType type;
  const char* name;
};
constexpr TypeName kTypes[] = {
    {DType::kF32, "F32"},   {DType::kF64, "F64"}, {DType::kBF16, "BF16"},
    {DType::kF16, "F16"},   {DType::kI32, "I32"}, {DType::kI64, "I64"},
    {DType::kU8, "U8"},     {DType::kI16, "I16"}, {DType::kI8, "I8"},
    {DType::kBool, "BOOL"},
};
// Of the format, but of no use to attention models so far.
constexpr const char* kOtherTypes[] = {
    "U16",     "U32",     "U64",     "C64",     "F8_E5M2",
    "F8_E4M3", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F4"};

[[noreturn]] void Corrupt(const std::string& where, std::string expected,
                          std::string found) {
  throw Error(ErrorCode::kCorrupt,
              {where, std::move(expected), std::move(found), ""});
}

DType ReadType(const JsonCursor& field) {
  const std::string& name = field.String();
  for (const TypeName& entry : kTypes) {
    if (name == entry.name) return entry.type;
  }
  for (const char* other : kOtherTypes) {
    if (name == other) {
      throw Error(
          ErrorCode::kUnsupported,
          {field.where(), "F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL",
           name, "convert this tensor first"});
    }
  }
  field.Fail("the name of an element type");
}

void ReadShape(const JsonCursor& field, ConstTensorView& view) {
  if (!field.value().is_array()) field.Fail("an array of sizes");
  if (field.value().size() > static_cast<size_t>(kMaxRank)) {
    throw Error(
        ErrorCode::kUnsupported,
        {field.where(), "at most " + std::to_string(kMaxRank) + " sizes",
         std::to_string(field.value().size()), ""});
  }
  for (const JsonCursor& size : field.Items()) {
    view.shape[view.rank++] = size.Int(0, std::numeric_limits<int64_t>::max());
  }
  // Strides of an overflowing shape are never used: CheckedBytes refuses it.
  uint64_t step = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.stride[i] = static_cast<int64_t>(step);
    step *= static_cast<uint64_t>(view.shape[i]);
  }
}

uint64_t CheckedBytes(const ConstTensorView& view, const std::string& where) {
  auto bytes = static_cast<uint64_t>(ElementSize(view.type));
  for (int i = 0; i < view.rank; ++i) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(view.shape[i]),
                               &bytes)) {
      Corrupt(where, "sizes whose product fits 64 bits", ToString(view));
    }
  }
  return bytes;
}

struct Entry {
  std::string name;
  ConstTensorView view;  // data is set once the offsets are known to be good
  uint64_t begin = 0;    // from the start of the data
  uint64_t end = 0;
};

Entry ReadEntry(const std::string& name, const JsonCursor& field) {
  Entry entry{name, {}};
  entry.view.type = ReadType(field["dtype"]);
  ReadShape(field["shape"], entry.view);
  const JsonCursor offsets = field["data_offsets"];
  if (!offsets.value().is_array() || offsets.value().size() != 2) {
    offsets.Fail("two offsets");
  }
  const auto items = offsets.Items();
  entry.begin = items[0].Int(0, std::numeric_limits<int64_t>::max());
  entry.end = items[1].Int(0, std::numeric_limits<int64_t>::max());
  const uint64_t bytes = CheckedBytes(entry.view, field.where());
  if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
    Corrupt(offsets.where(),
            std::to_string(bytes) + " bytes for " + ToString(entry.view),
            "offsets " + std::to_string(entry.begin) + " to " +
                std::to_string(entry.end));
  }
  return entry;
}

// The format allows neither gaps nor overlaps, and the last tensor ends with
// the file: anything else is truncation or smuggled data.
void CheckLayout(const std::vector<Entry>& sorted, uint64_t data_bytes,
                 uint64_t data_offset, const std::string& where) {
  uint64_t expected = 0;
  for (const Entry& entry : sorted) {
    if (entry.begin != expected) {
      Corrupt(where + ": byte " + std::to_string(data_offset + entry.begin),
              "tensor \"" + entry.name + "\" to begin at " +
                  std::to_string(expected) + " of the data",
              std::to_string(entry.begin) +
                  (entry.begin < expected ? ", which overlaps another tensor"
                                          : ", which leaves a gap"));
    }
    expected = entry.end;
    if (expected > data_bytes) {
      Corrupt(where + ": byte " + std::to_string(data_offset + expected),
              "the end of tensor \"" + entry.name + "\"",
              "the end of the file at byte " +
                  std::to_string(data_offset + data_bytes));
    }
  }
  if (expected != data_bytes) {
    Corrupt(where + ": byte " + std::to_string(data_offset + expected),
            "the end of the file",
            std::to_string(data_bytes - expected) +
                " bytes that belong to no tensor");
  }
}

uint64_t HeaderBytes(const MappedFile& file, const std::string& where) {
  if (file.size() < kLengthBytes) {
    Corrupt(where + ": byte 0", "an 8-byte header length",
            "a file of " + std::to_string(file.size()) + " bytes");
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<uint64_t>(file.data()[i]) << (8 * i);
  }
  const uint64_t most =
      std::min<uint64_t>(kMaxHeaderBytes, file.size() - kLengthBytes);
  if (length > most) {
    Corrupt(where + ": byte 0",
            "a header of at most " + std::to_string(most) + " bytes",
            std::to_string(length));
  }
  return length;
}

// Whether JSON has more values than this, as its commas tell.
bool MoreValuesThan(size_t most, std::string_view json) {
  size_t commas = 0;
  bool quoted = false;
  for (size_t i = 0; i < json.size() && commas < most; ++i) {
    if (json[i] == '"') quoted = !quoted;
    if (quoted && json[i] == '\\') ++i;
    if (!quoted && json[i] == ',') ++commas;
  }
  return commas >= most;
}

// A syntax error's offset is told within the file, not within the header.
Json ParseHeader(std::string_view text, const std::string& where) {
  if (text.empty() || text.front() != '{') {
    Corrupt(where + ": byte 8", "a header that begins with {",
            text.empty() ? "an empty header" : "another byte");
  }
  if (MoreValuesThan(kMaxHeaderValues, text)) {
    Corrupt(
        where + ": byte 8",
        "a header of at most " + std::to_string(kMaxHeaderValues) + " values",
        "more");
  }
  return ParseJson(text, where + ": header at byte 8", {.unique_keys = true});
}

}  // namespace

const char* SafetensorsName(DType type) {
  for (const TypeName& entry : kTypes) {
    if (entry.type == type) return entry.name;
  }
  return "?";
}

bool IsSafetensorsType(DType type) {
  return std::any_of(std::begin(kTypes), std::end(kTypes),
                     [&](const TypeName& entry) { return entry.type == type; });
}

struct Safetensors::Header {
  std::vector<Entry> entries;
  Metadata metadata;
};

Safetensors::Header Safetensors::ReadHeader(const MappedFile& file,
                                            const std::string& where) {
  Header header;
  if (fs::path(where).extension() == kTorchExtension) {
    for (TorchTensor& tensor : ReadTorchFile(file, where)) {
      header.entries.push_back({std::move(tensor.name), tensor.view});
    }
    header.metadata["format"] = "pt";  // as safetensors of PyTorch's say
    return header;
  }
  const uint64_t length = HeaderBytes(file, where);
  const Json json =
      ParseHeader(file.text().substr(kLengthBytes, length), where);
  header.entries.reserve(json.size());
  for (const auto& [name, value] : json.items()) {
    const JsonCursor field(value, where + ": " + name);
    if (name != "__metadata__") {
      header.entries.push_back(ReadEntry(name, field));
      continue;
    }
    if (!value.is_object()) field.Fail("an object of strings");
    for (const auto& [key, note] : value.items()) {
      header.metadata[key] = JsonCursor(note, field.where() + key).String();
    }
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const Entry& a, const Entry& b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  const uint64_t data_offset = kLengthBytes + length;
  CheckLayout(header.entries, file.size() - data_offset, data_offset, where);
  for (Entry& entry : header.entries) {
    entry.view.data = file.data() + data_offset + entry.begin;
  }
  return header;
}

void Safetensors::OpenFile(const fs::path& path) {
  MappedFile file(path);
  Header header = ReadHeader(file, path.string());
  metadata_ = std::move(header.metadata);
  for (Entry& entry : header.entries) {
    tensors_.emplace(std::move(entry.name), entry.view);
  }
  shards_.push_back(std::move(file));
}

void Safetensors::OpenIndex(const fs::path& path) {
  const Json json = ReadJson(path, {.unique_keys = true});
  const JsonCursor map = JsonCursor(json, path.string())["weight_map"];
  if (!map.value().is_object()) map.Fail("an object of file names");
  std::map<std::string, std::vector<std::string>> names_of_file;
  for (const auto& [name, value] : map.value().items()) {
    const JsonCursor field(value, map.where() + ": " + name);
    const std::string& file = field.String();
    // A shard lies beside its index; anything else would let a checkpoint
    // read files elsewhere on the machine.
    if (file.empty() || file == "." || file == ".." ||
        file.find_first_of("/\\") != std::string::npos ||
        file.find('\0') != std::string::npos) {
      field.Fail("the name of a file beside the index");
    }
    names_of_file[file].push_back(name);
  }
  for (const auto& [file, names] : names_of_file) {
    const fs::path shard_path = path.parent_path() / file;
    MappedFile shard(shard_path);
    Header header = ReadHeader(shard, shard_path.string());
    metadata_.merge(header.metadata);
    std::map<std::string_view, const ConstTensorView*> views;
    for (const Entry& entry : header.entries) views[entry.name] = &entry.view;
    for (const std::string& name : names) {
      const auto found = views.find(name);
      if (found == views.end()) {
        Corrupt(path.string(), "tensor \"" + name + "\" in " + file, "none");
      }
      tensors_.emplace(name, *found->second);
    }
    shards_.push_back(std::move(shard));
  }
}

Safetensors Safetensors::Open(const fs::path& path) {
  Safetensors result;
  fs::path file = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const auto* found = std::find_if(
        std::begin(kFolderFiles), std::end(kFolderFiles),
        [&](const char* name) { return fs::exists(path / name, ignored); });
    if (found == std::end(kFolderFiles)) {
      throw Error(
          ErrorCode::kNotFound,
          {path.string(), "model.safetensors or model.safetensors.index.json",
           "none", "pytorch_model.bin would do too"});
    }
    file = path / *found;
  }
  result.where_ = file.string();
  if (file.extension() == ".json") {
    result.OpenIndex(file);
  } else {
    result.OpenFile(file);
  }
  return result;
}

std::vector<FileIdentity> Safetensors::Identities() const {
  std::vector<FileIdentity> identities;
  for (const MappedFile& shard : shards_) {
    identities.push_back(shard.identity());
  }
  return identities;
}

ConstTensorView Safetensors::Stored(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? ConstTensorView{} : found->second;
}

ConstTensorView Safetensors::Find(std::string_view name) const {
  ConstTensorView view = Stored(name);
  if (IsAligned(view)) return view;
  const auto bytes = static_cast<size_t>(BytesOf(view));
  const std::lock_guard lock(copies_->mutex);
  std::unique_ptr<std::byte[]>& copy = copies_->bytes[view.data];
  if (copy == nullptr) {
    // operator new[] aligns to at least 8 bytes, the largest element.
    copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::memcpy(copy.get(), view.data, bytes);
  }
  view.data = copy.get();
  return view;
}

ConstTensorView Safetensors::At(std::string_view name) const {
  const ConstTensorView view = Find(name);
  if (!view) {
    throw Error(ErrorCode::kNotFound,
                {where_, "tensor \"" + std::string(name) + "\"",
                 std::to_string(tensors_.size()) + " others", ""});
  }
  return view;
}

}  // namespace headwise
