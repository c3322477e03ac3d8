// Reading documents. Door: text_source.h.
#include "headwise/tokenizer/text_source.h"

#include <algorithm>
#include <utility>

#include "headwise/base/byte_size.h"
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

std::vector<std::filesystem::path> FilesOf(const std::filesystem::path& path) {
  if (path == "-") return {path};
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorCode::kNotFound,
                {path.string(), "a text file, a folder of them or -",
                 "nothing of that name", "- reads standard input"});
  }
  if (std::filesystem::is_directory(path)) return FilesBelow(path);
  return {path};
}

bool Compressed(const std::filesystem::path& path) {
  const std::string last = path.extension().string();
  return last == ".gz" || last == ".xz" || last == ".zst";
}

bool Blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == text.npos;
}

// How many bytes of `text` to take for a piece: all, or up to the last line end
// in as many as a piece may have, else the last whole character.
size_t PieceBytes(std::string_view text) {
  constexpr size_t kMost = TextSource::kMostDocumentBytes;
  if (text.size() <= kMost) return text.size();
  const size_t line = text.rfind('\n', kMost - 1);
  if (line != text.npos && line > 0) return line + 1;
  size_t end = kMost;
  while (end > 1 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  return end;
}

class MemoryStream : public ByteStream {
 public:
  explicit MemoryStream(std::shared_ptr<const std::string> text)
      : text_(std::move(text)) {}

  size_t Read(char* data, size_t size) override {
    const size_t count = text_->copy(data, size, at_);
    at_ += count;
    return count;
  }

 private:
  std::shared_ptr<const std::string> text_;
  size_t at_ = 0;
};

}  // namespace

TextSource TextSource::OfTexts(std::vector<std::string> texts) {
  TextSource source({});
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string name = "text " + std::to_string(i + 1);
    source.total_bytes_ += texts[i].size();
    source.files_.push_back(
        {name, i, std::make_shared<const std::string>(std::move(texts[i]))});
    source.paths_.push_back(name);
  }
  return source;
}

TextSource::TextSource(std::vector<std::string> paths)
    : paths_(std::move(paths)) {
  for (size_t i = 0; i < paths_.size(); ++i) {
    for (auto& file : FilesOf(paths_[i])) files_.push_back({file, i, {}});
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
    const size_t first = rest().find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && rest()[first] == '{';
  }
  std::filesystem::path name = path.filename();
  if (Compressed(name)) name = name.stem();
  return name.extension() == ".jsonl" || name.extension() == ".ndjson";
}

void TextSource::OpenNext() {
  const File& file = files_[next_file_++];
  if (file.text != nullptr) {
    stream_ = std::make_unique<MemoryStream>(file.text);
  } else {
    stream_ = OpenBytes(file.path);
  }
  name_ = file.path == "-" ? "standard input" : file.path.string();
  argument_ = file.argument;
  ended_ = false;
  taken_ = 0;
  line_ = 0;
  buffer_.clear();
  given_ = 0;
  json_ = JsonLines(file.path);
}

// What was given leaves the buffer here, not with every line: a buffer of many
// lines would be moved as many times.
void TextSource::Fill() {
  buffer_.erase(0, given_);
  given_ = 0;
  const size_t have = buffer_.size();
  buffer_.resize(have + kReadBytes);
  const size_t count = stream_->Read(buffer_.data() + have, kReadBytes);
  buffer_.resize(have + count);
  if (count == 0) ended_ = true;
}

void TextSource::Give(size_t bytes) {
  given_ += bytes;
  taken_ += bytes;
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
  while (!ended_ && rest().size() <= kMostDocumentBytes) Fill();
  if (rest().empty()) return std::nullopt;
  const size_t bytes = PieceBytes(rest());
  Document document = Checked(std::string(rest().substr(0, bytes)), name_);
  Give(bytes);
  return document;
}

Document TextSource::NextOfLong() {
  const auto left = std::string_view(long_.text).substr(long_.offset);
  Document piece = {long_.name, long_.argument, long_.offset,
                    std::string(left.substr(0, PieceBytes(left)))};
  long_.offset += piece.text.size();
  if (long_.offset == long_.text.size()) long_ = {};
  return piece;
}

std::optional<Document> TextSource::NextLine() {
  if (!long_.text.empty()) return NextOfLong();
  size_t end = 0, seen = 0;  // bytes of the line without an end
  while ((end = rest().find('\n', seen)) == std::string_view::npos && !ended_) {
    seen = rest().size();
    if (seen > kMostLineBytes) {
      throw Error(
          ErrorCode::kCorrupt,
          {name_ + ":" + std::to_string(line_ + 1), "a JSON object on one line",
           "more than " + ByteSize(kMostLineBytes) + " without its end",
           "cut the text into several objects"});
    }
    Fill();
  }
  if (rest().empty()) return std::nullopt;
  const std::string_view line = rest().substr(0, end);
  ++line_;
  Document document;
  if (!Blank(line)) {
    const std::string where = name_ + ":" + std::to_string(line_);
    const Json json = ParseJson(line, where);
    document = Checked(JsonCursor(json, where)["text"].String(), where);
    document.offset = 0;
  }
  Give(std::min(line.size() + 1, rest().size()));
  if (document.text.size() <= kMostDocumentBytes) return document;
  long_ = std::move(document);
  return NextOfLong();
}

// The next piece or line, blank ones too.
std::optional<Document> TextSource::NextPart() {
  while (true) {
    if (stream_ == nullptr) {
      if (next_file_ == files_.size()) return std::nullopt;
      OpenNext();
    }
    std::optional<Document> part = json_ ? NextLine() : NextPiece();
    if (part.has_value()) return part;
    stream_.reset();
  }
}

const Document* TextSource::Peek() {
  if (!peeked_) peeked_ = Next();
  return peeked_ ? &*peeked_ : nullptr;
}

std::optional<Document> TextSource::Next() {
  if (peeked_) return std::exchange(peeked_, std::nullopt);
  while (std::optional<Document> document = NextPart()) {
    if (Blank(document->text)) continue;
    text_bytes_ += document->text.size();
    return document;
  }
  if (text_bytes_ > 0 || paths_.empty()) return std::nullopt;
  std::string names;
  for (const std::string& path : paths_) {
    names += (names.empty() ? "" : ", ") + path;
  }
  throw Error(ErrorCode::kInvalidArgument,
              {names, "text", "none", "are the files empty?"});
}

void TellRead(const TextSource& texts, const OnProgress& progress) {
  if (!progress) return;
  progress("read text", static_cast<double>(texts.text_bytes()),
           static_cast<double>(texts.total_bytes()));
}

std::vector<std::filesystem::path> ListFiles(
    const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::string& path : paths) {
    if (path == "-") {
      throw Error(ErrorCode::kInvalidArgument,
                  {"text", "files, which are read more than once",
                   "standard input", "write it to a file first"});
    }
    for (auto& file : FilesOf(path)) files.push_back(std::move(file));
  }
  return files;
}

std::vector<Document> ReadDocuments(const std::filesystem::path& file) {
  TextSource source({file.string()});
  std::vector<Document> documents;
  while (std::optional<Document> part = source.NextPart()) {
    if (part->offset > 0) {
      documents.back().text += part->text;
    } else {
      documents.push_back(std::move(*part));
    }
  }
  std::erase_if(documents,
                [](const Document& document) { return Blank(document.text); });
  return documents;
}

}  // namespace headwise
