// Documents and token ids from files. Door: include/headwise/text_input.h.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "headwise/base/byte_size.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/format/token_ids.h"
#include "headwise/text_input.h"
#include "headwise/tokenizer/text_source.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

[[noreturn]] void RefuseIds(const Safetensors& file, std::string expected,
                            std::string found) {
  throw Error(ErrorCode::kInvalidArgument,
              {file.where(), std::move(expected), std::move(found), ""});
}

// Row b of `ids` without what the mask leaves out; its first position too.
std::vector<int32_t> IdRow(const Safetensors& file, const ConstTensorView& ids,
                           const ConstTensorView& mask, int64_t b,
                           int64_t& first) {
  std::vector<int32_t> row;
  int64_t last = -1;
  for (int64_t i = 0; i < ids.shape[1]; ++i) {
    const int64_t at = b * ids.shape[1] + i;
    if (mask && IntegerAt(mask, at, file.where()) == 0) continue;
    if (last >= 0 && last + 1 < i) {
      RefuseIds(file, "padding before or after a sequence",
                fmt::format("some before token {} of sequence {}", i, b));
    }
    if (row.empty()) first = i;
    row.push_back(TokenIdAt(ids, at, file.where()));
    last = i;
  }
  return row;
}

}  // namespace

std::vector<TextDocument> ReadTexts(const std::vector<std::string>& files,
                                    uint64_t most_bytes) {
  TextSource source(files);
  std::vector<TextDocument> documents;
  while (auto piece = source.Next()) {
    if (source.text_bytes() > most_bytes) {
      throw Error(
          ErrorCode::kUnsupported,
          {piece->name,
           fmt::format("at most {} of text in one call", ByteSize(most_bytes)),
           fmt::format("{} so far", ByteSize(source.text_bytes())),
           "give fewer files, or the beginning of this one"});
    }
    const bool more = piece->offset > 0 && !documents.empty() &&
                      documents.back().name == piece->name;
    if (more) {
      documents.back().text += piece->text;
    } else {
      documents.push_back({std::move(piece->name), std::move(piece->text)});
    }
  }
  return documents;
}

std::string ReadFirstText(const std::string& file) {
  TextSource source({file});
  std::string text;
  while (const auto piece = source.Next()) {
    if (!text.empty() && piece->offset == 0) break;
    text += piece->text;
  }
  return text;
}

std::vector<std::string> ReadLines(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string_view text = file.text();
  if (const size_t bad = FindInvalidUtf8(text); bad != text.npos) {
    throw Error(ErrorCode::kInvalidArgument,
                {path.string(), "UTF-8 text",
                 fmt::format("byte {:#04x} at {}",
                             static_cast<unsigned char>(text[bad]), bad),
                 "save the file as UTF-8"});
  }
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    at = end + 1;
  }
  return lines;
}

IdRows ReadIdRows(const std::filesystem::path& path, const char* ids_name,
                  const char* mask_name, int64_t least) {
  const Safetensors file = Safetensors::Open(path);
  const ConstTensorView ids = file.At(ids_name);
  const ConstTensorView mask = file.Find(mask_name);
  if (ids.rank != 2 || (mask && (mask.rank != 2 || mask.shape != ids.shape))) {
    RefuseIds(file,
              fmt::format("\"{}\" and \"{}\" to be [sequences, tokens]",
                          ids_name, mask_name),
              ToString(ids) + (mask ? " and " + ToString(mask) : ""));
  }
  if (ids.shape[0] == 0) {
    RefuseIds(file, fmt::format("sequences in \"{}\"", ids_name), "none");
  }
  const std::string enough =
      fmt::format("at least {} tokens in each sequence", least);
  // Rows of no tokens cost the file nothing, and memory each.
  if (ids.shape[1] < std::max<int64_t>(least, 1)) {
    RefuseIds(file, enough, std::to_string(ids.shape[1]));
  }
  IdRows read;
  read.width = ids.shape[1];
  read.first.resize(ids.shape[0]);
  for (int64_t b = 0; b < ids.shape[0]; ++b) {
    read.rows.push_back(IdRow(file, ids, mask, b, read.first[b]));
    const auto tokens = std::ssize(read.rows.back());
    if (tokens < least) {
      RefuseIds(file, enough, fmt::format("{} in sequence {}", tokens, b));
    }
  }
  return read;
}

std::vector<std::vector<int32_t>> ReadIds(const std::filesystem::path& path,
                                          int64_t vocabulary) {
  IdRows read = ReadIdRows(path, "input_ids", "attention_mask", 2);
  for (const std::vector<int32_t>& row : read.rows) {
    RequireTokenIds(row, vocabulary, path.string());
  }
  return std::move(read.rows);
}

}  // namespace headwise
