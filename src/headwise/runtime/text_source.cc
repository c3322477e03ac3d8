// Reading documents. Door: text_source.h.
#include "headwise/runtime/text_source.h"

#include <algorithm>
#include <utility>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

constexpr size_t kReadBytes = size_t{1} << 16;
// A line of JSON beyond this is no document.
constexpr size_t kMostLineBytes = size_t{1} << 28;

bool Hidden(const std::filesystem::path& path) {
  return path.filename().string().starts_with(".");
}

// The regular files below a folder, by path.
std::vector<std::filesystem::path> FilesBelow(
    const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  auto it = std::filesystem::recursive_directory_iterator(folder);
  for (; it != std::filesystem::recursive_directory_iterator(); ++it) {
    if (Hidden(it->path())) {
      if (it->is_directory()) it.disable_recursion_pending();
    } else if (it->is_regular_file()) {
      files.push_back(it->path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool Compressed(const std::filesystem::path& path) {
  const std::string last = path.extension().string();
  return last == ".gz" || last == ".xz" || last == ".zst";
}

bool Blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == text.npos;
}

// How many bytes of `text` to take for a piece of at most `most`: up to the
// last line end in it, else the last whole character.
size_t PieceBytes(const std::string& text, size_t most) {
  const size_t line = text.rfind('\n', most - 1);
  if (line != text.npos && line > 0) return line + 1;
  size_t end = most;
  while (end > 1 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  return end;
}

}  // namespace

TextSource::TextSource(std::vector<std::string> paths)
    : paths_(std::move(paths)) {
  for (size_t i = 0; i < paths_.size(); ++i) {
    const std::filesystem::path path = paths_[i];
    if (path != "-" && !std::filesystem::exists(path)) {
      throw Error(
          ErrorCode::kNotFound,
          {path.string(), "a text file, a folder of them or -", "nothing", ""});
    }
    if (path != "-" && std::filesystem::is_directory(path)) {
      for (auto& file : FilesBelow(path)) files_.push_back({file, i});
    } else {
      files_.push_back({path, i});
    }
  }
  for (const File& file : files_) {
    if (file.path == "-" || Compressed(file.path)) {
      total_bytes_ = 0;
      break;
    }
    std::error_code error;
    const auto size = std::filesystem::file_size(file.path, error);
    if (!error) total_bytes_ += size;
  }
}

bool TextSource::JsonLines(const std::filesystem::path& path) {
  if (path == "-") {
    Fill();
    const size_t first = buffer_.find_first_not_of(" \t\r\n");
    return first != buffer_.npos && buffer_[first] == '{';
  }
  std::filesystem::path name = path.filename();
  if (Compressed(name)) name = name.stem();
  return name.extension() == ".jsonl" || name.extension() == ".ndjson";
}

void TextSource::OpenNext() {
  const File& file = files_[next_file_++];
  stream_ = OpenBytes(file.path);
  name_ = file.path == "-" ? "standard input" : file.path.string();
  argument_ = file.argument;
  ended_ = false;
  taken_ = 0;
  line_ = 0;
  buffer_.clear();
  json_ = JsonLines(file.path);
}

void TextSource::Fill() {
  const size_t have = buffer_.size();
  buffer_.resize(have + kReadBytes);
  const size_t count = stream_->Read(buffer_.data() + have, kReadBytes);
  buffer_.resize(have + count);
  if (count == 0) ended_ = true;
}

Document TextSource::Checked(std::string text, std::string name) const {
  const size_t zero = text.find('\0');
  if (zero != text.npos) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {name, "text",
         "a binary file: byte 0 at offset " + std::to_string(taken_ + zero),
         ""});
  }
  const size_t bad = FindInvalidUtf8(text);
  if (bad != text.npos) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {name, "UTF-8", "other bytes at offset " + std::to_string(taken_ + bad),
         "iconv -t utf-8 converts it"});
  }
  return {std::move(name), argument_, taken_, std::move(text)};
}

std::optional<Document> TextSource::NextPiece() {
  while (!ended_ && buffer_.size() <= kMostDocumentBytes) Fill();
  if (buffer_.empty()) return std::nullopt;
  const size_t bytes = buffer_.size() <= kMostDocumentBytes
                           ? buffer_.size()
                           : PieceBytes(buffer_, kMostDocumentBytes);
  Document document = Checked(buffer_.substr(0, bytes), name_);
  buffer_.erase(0, bytes);
  taken_ += bytes;
  return document;
}

std::optional<Document> TextSource::NextLine() {
  size_t end = 0;
  while ((end = buffer_.find('\n')) == buffer_.npos && !ended_) {
    if (buffer_.size() > kMostLineBytes) {
      throw Error(ErrorCode::kCorrupt,
                  {name_ + ":" + std::to_string(line_ + 1),
                   "a JSON object on one line", "a longer one", ""});
    }
    Fill();
  }
  if (buffer_.empty()) return std::nullopt;
  const std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end == buffer_.npos ? end : end + 1);
  ++line_;
  Document document;
  if (!Blank(line)) {
    const std::string where = name_ + ":" + std::to_string(line_);
    const Json json = ParseJson(line, where);
    document = Checked(JsonCursor(json, where)["text"].String(), where);
    document.offset = 0;
  }
  taken_ += line.size() + 1;
  return document;
}

std::optional<Document> TextSource::Next() {
  while (true) {
    if (stream_ == nullptr) {
      if (next_file_ == files_.size()) break;
      OpenNext();
    }
    std::optional<Document> document = json_ ? NextLine() : NextPiece();
    if (!document.has_value()) {
      stream_.reset();
    } else if (!Blank(document->text)) {
      any_ = true;
      return document;
    }
  }
  if (any_) return std::nullopt;
  std::string names;
  for (const std::string& path : paths_) {
    names += (names.empty() ? "" : ", ") + path;
  }
  throw Error(ErrorCode::kInvalidArgument, {names, "text", "none", ""});
}

}  // namespace headwise
