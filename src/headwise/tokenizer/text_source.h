// Text from files, folders and standard input, one document after another, in
// memory that does not grow with the text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/base/byte_stream.h"
#include "headwise/progress.h"

namespace headwise {

struct Document {
  std::string name;     // "novel.txt", "news.jsonl:17"
  size_t argument = 0;  // which of the paths given it came from
  uint64_t offset = 0;  // bytes of the same text before this piece
  std::string text;     // valid UTF-8, not empty
};

// Each path is a file (plain, gzip, xz or zstd), a folder (every file below
// it, hidden ones left out, by name) or "-" for standard input. Files called
// *.jsonl or *.ndjson (compressed or not), and standard input that starts with
// an object, hold one JSON object a line, of which "text" is a document;
// everything else is one document. Documents longer than kMostDocumentBytes
// come in pieces, cut where a line ends if one does.
//
// Throws Error: kNotFound; kIo; kCorrupt for a damaged compressed file or
// JSON; kInvalidArgument for binary files and bytes that are not UTF-8 (with
// the offset), and, from the last Next, when paths held no text at all.
class TextSource {
 public:
  static constexpr size_t kMostDocumentBytes = size_t{1} << 20;

  explicit TextSource(std::vector<std::string> paths);
  // Texts themselves instead, each as a path's plain file would be.
  static TextSource OfTexts(std::vector<std::string> texts);

  // Bytes of all files together; 0 where that says nothing of the text
  // (compressed files, standard input).
  uint64_t total_bytes() const { return total_bytes_; }

  // The next document; none at the end.
  std::optional<Document> Next();
  // The document that Next will give, or null.
  const Document* Peek();
  // Bytes of all documents given so far.
  uint64_t text_bytes() const { return text_bytes_; }

 private:
  friend std::vector<Document> ReadDocuments(const std::filesystem::path& file);
  struct File {
    std::filesystem::path path;
    size_t argument = 0;
    std::shared_ptr<const std::string> text = {};  // null: the path's
  };
  void OpenNext();
  std::optional<Document> NextPart();
  void Fill();
  // Bytes that were read and wait to be given.
  std::string_view rest() const {
    return std::string_view(buffer_).substr(given_);
  }
  void Give(size_t bytes);
  std::optional<Document> NextPiece();
  std::optional<Document> NextLine();
  Document NextOfLong();
  Document Checked(std::string text, std::string name) const;
  bool JsonLines(const std::filesystem::path& path);

  std::vector<std::string> paths_;
  std::vector<File> files_;
  size_t next_file_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t text_bytes_ = 0;

  // The open file.
  std::unique_ptr<ByteStream> stream_;
  std::string name_;
  size_t argument_ = 0;
  bool json_ = false;
  bool ended_ = false;
  uint64_t taken_ = 0;  // bytes before rest()
  uint64_t line_ = 0;
  std::string buffer_;
  size_t given_ = 0;  // bytes of buffer_ that documents were made of
  Document long_;     // of a line of JSON; `offset` bytes of it were given
  std::optional<Document> peeked_;
};

// How much of all texts was given.
void TellRead(const TextSource& texts, const OnProgress& progress);

// The files that paths name, to be read as often as one likes: themselves, and
// those below a folder as above. Throws Error(kNotFound), and kInvalidArgument
// for standard input.
std::vector<std::filesystem::path> ListFiles(
    const std::vector<std::string>& paths);

// The documents of one file, whole however long, empty ones left out.
std::vector<Document> ReadDocuments(const std::filesystem::path& file);

}  // namespace headwise
