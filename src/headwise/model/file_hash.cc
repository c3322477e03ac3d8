// Door: file_hash.h.
#include "headwise/model/file_hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstdint>
#include <memory>

#include "headwise/base/mapped_file.h"

namespace headwise {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
constexpr uint64_t kPieces = 64;

struct FileHashFree {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

void AddFile(XXH3_state_t* state, const MappedFile& file) {
  const uint64_t size = file.size();
  const std::string length = std::to_string(size) + ";";
  XXH3_64bits_update(state, length.data(), length.size());
  if (size == 0) return;
  if (size <= kPieces * kPieceBytes) {
    XXH3_64bits_update(state, file.data(), size);
    return;
  }
  // The first at the beginning, the last at the end.
  for (uint64_t piece = 0; piece < kPieces; ++piece) {
    const uint64_t at = (size - kPieceBytes) / (kPieces - 1) * piece;
    const uint64_t begin = piece + 1 < kPieces ? at : size - kPieceBytes;
    XXH3_64bits_update(state, file.data() + begin, kPieceBytes);
  }
}

}  // namespace

std::string HashFiles(std::span<const std::filesystem::path> files) {
  const std::unique_ptr<XXH3_state_t, FileHashFree> state(XXH3_createState());
  XXH3_64bits_reset(state.get());
  uint64_t bytes = 0;
  for (const std::filesystem::path& path : files) {
    const MappedFile file(path);
    bytes += file.size();
    AddFile(state.get(), file);
  }
  return fmt::format("{} {}, {} bytes, hash {:016x}", files.size(),
                     files.size() == 1 ? "file" : "files", bytes,
                     XXH3_64bits_digest(state.get()));
}

}  // namespace headwise
