// ZIP archives. Every offset is checked against the file before it is used.
// Door: stored_zip.h.
#include "headwise/format/stored_zip.h"

#include <algorithm>

#include "headwise/error.h"

namespace headwise {
namespace {

// Records by their signatures and the bytes that they have at least.
constexpr std::string_view kEnd = "PK\5\6", kEntry = "PK\1\2",
                           kLocal = "PK\3\4", kEnd64 = "PK\6\6",
                           kLocator64 = "PK\6\7";
constexpr uint64_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30,
                   kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr uint64_t kMostComment = 65535;
constexpr uint64_t kInZip64 = 0xffffffff;
constexpr uint64_t kZip64Extra = 1;
constexpr uint64_t kEncrypted = 1;

class Archive {
 public:
  Archive(std::string_view bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  std::map<std::string_view, ZipFile> Files() const {
    uint64_t at = 0, count = 0;
    FindDirectory(at, count);
    std::map<std::string_view, ZipFile> files;
    for (uint64_t i = 0; i < count; ++i) {
      Require(at, kEntry, kEntryBytes);
      const uint64_t name_size = Number(at + 28, 2);
      const uint64_t extra_size = Number(at + 30, 2);
      const uint64_t next =
          at + kEntryBytes + name_size + extra_size + Number(at + 32, 2);
      if (next > bytes_.size()) Fail(at, "an entry within the file", "its end");
      const std::string_view name = bytes_.substr(at + kEntryBytes, name_size);
      if (!files.emplace(name, FileOf(at, name_size, extra_size)).second) {
        Fail(at, "every name once", "\"" + std::string(name) + "\" twice");
      }
      at = next;
    }
    return files;
  }

 private:
  [[noreturn]] void Fail(uint64_t byte, const std::string& expected,
                         const std::string& found,
                         ErrorCode code = ErrorCode::kCorrupt) const {
    throw Error(
        code, {where_ + ": byte " + std::to_string(byte), expected, found, ""});
  }
  bool Holds(uint64_t at, uint64_t count) const {
    return at <= bytes_.size() && count <= bytes_.size() - at;
  }
  // A record with this signature and as many bytes.
  void Require(uint64_t at, std::string_view signature, uint64_t count) const {
    if (!Holds(at, count)) {
      Fail(at, std::to_string(count) + " bytes of a ZIP record",
           "the end of the file at byte " + std::to_string(bytes_.size()));
    }
    if (bytes_.substr(at, signature.size()) == signature) return;
    Fail(at, "the signature of a ZIP record", "other bytes");
  }
  // Little-endian, where Require or Holds said that it is there.
  uint64_t Number(uint64_t at, size_t count) const {
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      value |= uint64_t{static_cast<unsigned char>(bytes_[at + i])} << (8 * i);
    }
    return value;
  }

  // Where the directory begins, and its entries.
  void FindDirectory(uint64_t& at, uint64_t& count) const {
    const uint64_t size = bytes_.size();
    const uint64_t first = size - std::min(size, kEndBytes + kMostComment);
    const size_t end = bytes_.rfind(kEnd);
    if (end == bytes_.npos || end < first || !Holds(end, kEndBytes)) {
      Fail(size, "the end record of a ZIP archive, as torch.save writes it",
           "none");
    }
    count = Number(end + 10, 2);
    at = Number(end + 16, 4);
    const uint64_t locator = end - std::min<uint64_t>(end, kLocator64Bytes);
    if (bytes_.substr(locator, kLocator64.size()) == kLocator64) {
      const uint64_t record = Number(locator + 8, 8);
      Require(record, kEnd64, kEnd64Bytes);
      count = Number(record + 32, 8);
      at = Number(record + 48, 8);
    }
    if (count > size / kEntryBytes) {
      Fail(end, "at most " + std::to_string(size / kEntryBytes) + " files",
           std::to_string(count));
    }
  }

  ZipFile FileOf(uint64_t at, uint64_t name_size, uint64_t extra_size) const {
    if ((Number(at + 8, 2) & kEncrypted) != 0) {
      Fail(at, "files that are not encrypted", "one that is",
           ErrorCode::kUnsupported);
    }
    if (Number(at + 10, 2) != 0) {
      Fail(at, "files that are stored uncompressed", "a compressed one",
           ErrorCode::kUnsupported);
    }
    ZipFile file;
    file.size = Number(at + 24, 4);
    uint64_t packed = Number(at + 20, 4), local = Number(at + 42, 4);
    ReadZip64(at + kEntryBytes + name_size, extra_size,
              {&file.size, &packed, &local});
    if (packed != file.size) {
      Fail(at, std::to_string(file.size) + " stored bytes",
           std::to_string(packed));
    }
    Require(local, kLocal, kLocalBytes);
    file.begin =
        local + kLocalBytes + Number(local + 26, 2) + Number(local + 28, 2);
    if (!Holds(file.begin, file.size)) {
      Fail(file.begin, std::to_string(file.size) + " bytes of a file",
           "the end of the archive at byte " + std::to_string(bytes_.size()));
    }
    return file;
  }

  // Numbers that 32 bits do not hold, in their order.
  void ReadZip64(uint64_t at, uint64_t size,
                 std::initializer_list<uint64_t*> numbers) const {
    const uint64_t end = at + size;
    while (end - at >= 4) {
      const uint64_t kind = Number(at, 2), length = Number(at + 2, 2);
      at += 4;
      if (length > end - at)
        Fail(at, "an extra field within its entry", "more");
      uint64_t next = at;
      for (uint64_t* number : numbers) {
        if (kind != kZip64Extra || *number != kInZip64) continue;
        if (next + 8 > at + length) Fail(at, "a number of 64 bits", "none");
        *number = Number(next, 8);
        next += 8;
      }
      at += length;
    }
  }

  std::string_view bytes_;
  const std::string& where_;
};

}  // namespace

std::map<std::string_view, ZipFile> ReadStoredZip(std::string_view archive,
                                                  const std::string& where) {
  return Archive(archive, where).Files();
}

}  // namespace headwise
