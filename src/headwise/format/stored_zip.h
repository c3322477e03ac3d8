// The files of a ZIP archive that are stored as they are, uncompressed, as
// torch.save writes them. ZIP64 too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace headwise {

struct ZipFile {
  uint64_t begin = 0;  // its first byte in the archive
  uint64_t size = 0;
};

// By name. `archive` is the whole file, `where` its name for errors. Throws
// Error: kCorrupt naming the byte for what is no archive, for files that do not
// lie within it and for names that stand twice; kUnsupported for compressed
// or encrypted files.
std::map<std::string_view, ZipFile> ReadStoredZip(std::string_view archive,
                                                  const std::string& where);

}  // namespace headwise
