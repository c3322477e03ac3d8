// From a pickle's nodes to views of the archive. Door: torch_file.h.
#include "headwise/format/torch_file.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "headwise/error.h"
#include "headwise/format/pickle.h"
#include "headwise/format/stored_zip.h"

namespace headwise {
namespace {

struct StorageType {
  std::string_view name;
  DType type;
};
constexpr StorageType kStorageTypes[] = {
    {"FloatStorage", DType::kF32},     {"DoubleStorage", DType::kF64},
    {"BFloat16Storage", DType::kBF16}, {"HalfStorage", DType::kF16},
    {"IntStorage", DType::kI32},       {"LongStorage", DType::kI64},
    {"ByteStorage", DType::kU8},       {"ShortStorage", DType::kI16},
    {"CharStorage", DType::kI8},       {"BoolStorage", DType::kBool},
};
constexpr std::string_view kPickle = "/data.pkl", kByteOrder = "/byteorder";

using Files = std::map<std::string_view, ZipFile>;

// The archive's only folder: "pytorch_model".
std::string_view FolderOf(const Files& files, const std::string& where) {
  for (const auto& [name, file] : files) {
    if (name.ends_with(kPickle) &&
        name.find('/') == name.size() - kPickle.size()) {
      return name.substr(0, name.size() - kPickle.size());
    }
  }
  throw Error(ErrorCode::kUnsupported,
              {where, "FOLDER/data.pkl, as torch.save writes it", "none", ""});
}

class StateDict {
 public:
  StateDict(const MappedFile& file, const std::string& where)
      : text_(file.text()), where_(where), files_(ReadStoredZip(text_, where)) {
    folder_ = FolderOf(files_, where);
  }

  std::vector<TorchTensor> Tensors() const {
    RequireLittleEndian();
    const ZipFile& entry =
        files_.at(std::string(folder_) + std::string(kPickle));
    const Pickle pickle(text_.substr(entry.begin, entry.size), where_,
                        entry.begin);
    const PickleNode& root = pickle.root();
    if (root.kind != PickleKind::kDict) {
      Refuse("", "a dictionary of tensors", "another value");
    }
    std::map<std::string_view, const PickleNode*> named;
    std::vector<TorchTensor> tensors;
    for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
      const PickleNode& key = *root.items[i];
      if (key.kind != PickleKind::kText) {
        Refuse("", "names of tensors", "another key");
      }
      if (!named.emplace(key.text, root.items[i + 1]).second) {
        Corrupt(key.text, "every name once", "it twice");
      }
      tensors.push_back(
          {std::string(key.text), ViewOfTensor(key.text, *root.items[i + 1])});
    }
    return tensors;
  }

 private:
  [[noreturn]] void Throw(ErrorCode code, std::string_view name,
                          const std::string& expected,
                          const std::string& found) const {
    const std::string tensor = name.empty() ? "" : ": " + std::string(name);
    throw Error(code, {where_ + tensor, expected, found, ""});
  }
  [[noreturn]] void Refuse(std::string_view name, const std::string& expected,
                           const std::string& found) const {
    Throw(ErrorCode::kUnsupported, name, expected, found);
  }
  [[noreturn]] void Corrupt(std::string_view name, const std::string& expected,
                            const std::string& found) const {
    Throw(ErrorCode::kCorrupt, name, expected, found);
  }

  void RequireLittleEndian() const {
    const auto found =
        files_.find(std::string(folder_) + std::string(kByteOrder));
    if (found == files_.end()) return;  // older files are little-endian
    const std::string_view order =
        text_.substr(found->second.begin, found->second.size);
    if (order != "little") Refuse("", "byteorder little", std::string(order));
  }

  DType TypeOf(std::string_view name, const PickleNode& global) const {
    const std::string_view type =
        global.text.substr(global.text.find('\n') + 1);
    for (const StorageType& one : kStorageTypes) {
      if (one.name == type) return one.type;
    }
    Refuse(name, "elements of a known type", std::string(type));
  }

  // Sizes and strides that stay within `room` elements.
  void SetShape(std::string_view name, const PickleNode& sizes,
                const PickleNode& strides, uint64_t room,
                ConstTensorView& view) const {
    const size_t rank = sizes.items.size();
    if (rank > static_cast<size_t>(kMaxRank) || strides.items.size() != rank) {
      Refuse(name,
             "at most " + std::to_string(kMaxRank) + " sizes, and strides",
             std::to_string(rank) + " and " +
                 std::to_string(strides.items.size()));
    }
    view.rank = static_cast<int>(rank);
    uint64_t step = 1;
    bool ordered = true;
    for (size_t i = rank; i-- > 0;) {
      const PickleNode &size = *sizes.items[i], &stride = *strides.items[i];
      if (size.kind != PickleKind::kNumber || size.number < 0 ||
          stride.kind != PickleKind::kNumber) {
        Corrupt(name, "sizes and strides", "other values");
      }
      view.shape[i] = size.number;
      view.stride[i] = static_cast<int64_t>(step);
      ordered =
          ordered && (size.number <= 1 || stride.number == view.stride[i]);
      if (__builtin_mul_overflow(step, static_cast<uint64_t>(size.number),
                                 &step) ||
          step > static_cast<uint64_t>(INT64_MAX)) {
        Corrupt(name, "sizes whose product fits 63 bits", "larger ones");
      }
    }
    if (step > room) {
      Corrupt(name, std::to_string(step) + " elements",
              std::to_string(room) + " in its storage");
    }
    if (ordered || step == 0) return;
    Refuse(name, "elements in the order of rows", "a transposed tensor");
  }

  ConstTensorView ViewOfTensor(std::string_view name,
                               const PickleNode& value) const {
    if (value.kind != PickleKind::kTensor) {
      Refuse(name, "a tensor", "another value");
    }
    const PickleNode& storage = *value.items[0];
    const DType type = TypeOf(name, *storage.items[0]);
    const std::string path =
        std::string(folder_) + "/data/" + std::string(storage.items[1]->text);
    const auto found = files_.find(path);
    if (found == files_.end()) Corrupt(name, path + " in the archive", "none");
    const auto element = static_cast<uint64_t>(ElementSize(type));
    const auto count = static_cast<uint64_t>(storage.items[3]->number);
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, element, &bytes) ||
        bytes != found->second.size) {
      Corrupt(name, std::to_string(count) + " elements in " + path,
              std::to_string(found->second.size) + " bytes");
    }
    const auto offset = static_cast<uint64_t>(value.items[1]->number);
    if (offset > count) {
      Corrupt(name, "an offset of at most " + std::to_string(count),
              std::to_string(offset));
    }
    ConstTensorView view;
    view.type = type;
    SetShape(name, *value.items[2], *value.items[3], count - offset, view);
    view.data = text_.data() + found->second.begin + offset * element;
    return view;
  }

  std::string_view text_;
  const std::string& where_;
  Files files_;
  std::string_view folder_;
};

}  // namespace

std::vector<TorchTensor> ReadTorchFile(const MappedFile& file,
                                       const std::string& where) {
  if (!file.text().starts_with("PK\3\4")) {
    throw Error(
        ErrorCode::kUnsupported,
        {where + ": byte 0", "a ZIP archive, as torch.save writes it",
         "other bytes", "files of PyTorch before 1.6 are none: save it again"});
  }
  return StateDict(file, where).Tensors();
}

}  // namespace headwise
