// Readers of plain vocabularies. Door: vocabulary_files.h.
#include "headwise/tokenizer/vocabulary_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "headwise/base/json.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/tokenizer/bpe.h"
#include "headwise/tokenizer/pipeline.h"
#include "headwise/tokenizer/unicode.h"
#include "headwise/tokenizer/wordpiece.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

JsonCursor Null(const std::string& where) {
  static const Json kNull;
  return {kNull, where};
}

// Parts that do nothing, to be replaced where the family wants more.
PipelineParts EmptyParts(const std::string& where) {
  PipelineParts parts;
  parts.normalizer = MakeNormalizer(Null(where));
  parts.pre_tokenizer = MakePreTokenizer(Null(where));
  parts.post_processor = MakePostProcessor(Null(where));
  return parts;
}

std::unique_ptr<TokenDecoder> DecoderOf(const char* json) {
  const Json parsed = Json::parse(json);
  return MakeTokenDecoder({parsed, "decoder"});
}

// Calls fn(line, number from 1) for each line; the last may lack its end.
template <typename Function>
void ForEachLine(std::string_view text, const std::string& where, Function fn) {
  const size_t invalid = FindInvalidUtf8(text);
  if (invalid != std::string_view::npos) {
    throw Error(
        ErrorCode::kCorrupt,
        {where + ": byte " + std::to_string(invalid), "UTF-8",
         fmt::format("byte {:#04x}", static_cast<unsigned char>(text[invalid])),
         "save the file as UTF-8"});
  }
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    fn(line, number);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

// Special tokens that the vocabulary has, and how they treat spaces.
void AddSpecials(PipelineParts& parts,
                 std::initializer_list<const char*> names) {
  for (const char* name : names) {
    AddedToken token;
    token.content = name;
    token.id = parts.model->vocabulary().Find(name);
    token.special = true;
    token.lstrip = token.content == "<mask>";
    if (token.id != kNoToken) parts.added.Add(token, *parts.normalizer);
  }
}

void ReadMerges(const fs::path& path, BpeModel& model) {
  const MappedFile file(path);
  int rank = 0;
  ForEachLine(
      file.text(), path.string(), [&](std::string_view line, int number) {
        if (line.empty() || (number == 1 && line.starts_with("#version")))
          return;
        const std::string where =
            path.string() + ": line " + std::to_string(number);
        const size_t space = line.find(' ');
        if (space == std::string_view::npos) {
          throw Error(
              ErrorCode::kCorrupt,
              {where, "two tokens", "\"" + std::string(line) + "\"", ""});
        }
        model.AddMerge(rank++, line.substr(0, space), line.substr(space + 1),
                       where);
      });
}

// do_lower_case of the tokenizer_config.json beside the vocabulary, if any.
std::optional<bool> ConfiguredLowercase(const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  const Json json = ReadJson(path);
  const auto field = JsonCursor(json, path.string()).Find("do_lower_case");
  return field ? std::optional(field->Bool()) : std::nullopt;
}

bool HasCapital(std::string_view token) {
  for (size_t at = 0; at < token.size();) {
    const CodePoint next = CharacterAt(token, at);
    if (SimpleLowercase(next.value) != next.value) return true;
    at += next.bytes;
  }
  return false;
}

// Every cut of every token is tried, so a token must be short.
constexpr uint32_t kMaxScoredBytes = 1024;

struct ScoredToken {
  std::string text;
  float score;
};

std::vector<ScoredToken> ReadScoredTokens(const fs::path& path) {
  const MappedFile file(path);
  const std::string_view bytes = file.text();
  size_t at = 0;
  const auto fail = [&](const char* expected) {
    throw Error(ErrorCode::kCorrupt,
                {path.string() + ": byte " + std::to_string(at), expected,
                 std::to_string(bytes.size() - at) + " bytes left", ""});
  };
  const auto word = [&](const char* what) {
    if (bytes.size() - at < 4) fail(what);
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      value |= uint32_t{static_cast<unsigned char>(bytes[at++])} << (8 * i);
    }
    return value;
  };
  const uint32_t longest = word("the longest token's length");
  if (longest > kMaxScoredBytes) fail("a longest token of at most 1024 bytes");
  std::vector<ScoredToken> tokens;
  while (at < bytes.size()) {
    const float score = std::bit_cast<float>(word("a score"));
    const uint32_t length = word("a length");
    if (length > bytes.size() - at) fail("a token");
    if (length > longest) fail("a token no longer than the longest");
    tokens.push_back({std::string(bytes.substr(at, length)), score});
    if (FindInvalidUtf8(tokens.back().text) != std::string_view::npos) {
      fail("a token in UTF-8");
    }
    at += length;
  }
  return tokens;
}

// Every way to make a token of two others, better scores first: what joining
// the best-scored pair again and again amounts to.
void AddScoredMerges(const std::vector<ScoredToken>& tokens,
                     const std::string& where, BpeModel& model) {
  std::vector<const ScoredToken*> order;
  for (const ScoredToken& token : tokens) order.push_back(&token);
  std::stable_sort(order.begin(), order.end(),
                   [](const ScoredToken* a, const ScoredToken* b) {
                     return a->score > b->score;
                   });
  int rank = 0;
  const ScoredToken* previous = nullptr;
  for (const ScoredToken* token : order) {
    if (previous != nullptr && token->score < previous->score) ++rank;
    previous = token;
    const std::string_view text = token->text;
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const std::string_view left = text.substr(0, cut);
      const std::string_view right = text.substr(cut);
      if (model.vocabulary().Find(left) == kNoToken ||
          model.vocabulary().Find(right) == kNoToken) {
        continue;
      }
      model.AddMerge(rank, left, right, where);
    }
  }
}

}  // namespace

std::unique_ptr<Tokenizer> ReadVocabJson(const fs::path& vocab,
                                         const fs::path& merges) {
  const std::string where = vocab.string();
  const Json json = ReadJson(vocab);
  Vocabulary vocabulary = Vocabulary::FromJson({json, where});
  CheckIds(vocabulary.size() - 1, vocabulary.count(), where);
  auto model = std::make_unique<BpeModel>(std::move(vocabulary), BpeOptions{});
  ReadMerges(merges, *model);
  const TokenId bos = model->vocabulary().Find("<s>");
  const TokenId eos = model->vocabulary().Find("</s>");
  PipelineParts parts = EmptyParts(where);
  parts.pre_tokenizer = MakeByteLevelPreTokenizer({});
  parts.model = std::move(model);
  if (bos != kNoToken && eos != kNoToken) {
    parts.post_processor = MakeRobertaProcessor(
        bos, eos, {.trim_offsets = true, .add_prefix_space = false});
  }
  parts.decoder = DecoderOf(R"({"type": "ByteLevel"})");
  AddSpecials(parts,
              {"<|endoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>"});
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

std::unique_ptr<Tokenizer> ReadVocabTxt(const fs::path& path) {
  const std::string where = path.string();
  const MappedFile file(path);
  Vocabulary vocabulary;
  bool has_capital = false;
  ForEachLine(file.text(), where, [&](std::string_view line, int number) {
    const bool is_special = line.starts_with('[') && line.ends_with(']');
    has_capital |= !is_special && HasCapital(line);
    vocabulary.Add(std::string(line), number - 1);
  });
  const TokenId cls = vocabulary.Find("[CLS]");
  const TokenId sep = vocabulary.Find("[SEP]");
  PipelineParts parts = EmptyParts(where);
  BertNormalizerOptions options;
  options.lowercase =
      ConfiguredLowercase(path.parent_path()).value_or(!has_capital);
  options.strip_accents = options.lowercase;
  parts.normalizer = MakeBertNormalizer(options);
  parts.pre_tokenizer = MakeBertPreTokenizer();
  parts.model = std::make_unique<WordPieceModel>(std::move(vocabulary),
                                                 WordPieceOptions{}, where);
  if (cls != kNoToken && sep != kNoToken) {
    parts.post_processor = MakeBertProcessor(cls, sep);
  }
  parts.decoder = DecoderOf(R"({"type": "WordPiece"})");
  AddSpecials(parts, {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"});
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

std::unique_ptr<Tokenizer> ReadLlama2c(const fs::path& path) {
  const std::string where = path.string();
  const std::vector<ScoredToken> tokens = ReadScoredTokens(path);
  constexpr TokenId kBos = 1;
  constexpr TokenId kEos = 2;
  if (tokens.size() <= static_cast<size_t>(kEos)) {
    throw Error(ErrorCode::kCorrupt,
                {where, "at least <unk>, <s> and </s>",
                 std::to_string(tokens.size()) + " tokens", ""});
  }
  Vocabulary vocabulary;
  for (size_t id = 0; id < tokens.size(); ++id) {
    vocabulary.Add(tokens[id].text, static_cast<TokenId>(id));
  }
  BpeOptions options;
  options.byte_fallback = true;
  auto model = std::make_unique<BpeModel>(std::move(vocabulary), options);
  AddScoredMerges(tokens, where, *model);
  PipelineParts parts = EmptyParts(where);
  parts.normalizer = MakePrependNormalizer(" ");
  parts.model = std::move(model);
  parts.post_processor = MakeSurroundProcessor({kBos}, {});
  parts.decoder = DecoderOf(
      R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"},
          {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1}]})");
  for (TokenId id : {kBos, kEos}) {
    AddedToken token;
    token.content = id == kBos ? "<s>" : "</s>";
    token.id = id;
    token.special = true;
    parts.added.Add(token, *parts.normalizer);
  }
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

}  // namespace headwise
