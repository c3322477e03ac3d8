// The decoders of tokenizer.json. Door: decoder.h.
#include "headwise/tokenizer/decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "headwise/error.h"
#include "headwise/tokenizer/pattern.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

using Tokens = std::vector<std::string>;

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  if (at == std::string::npos) return;
  std::string replaced;
  size_t done = 0;
  for (; at != std::string::npos; at = text.find(from, done)) {
    replaced.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = replaced.append(text, done);
}

size_t CountBytes(const Tokens& tokens) {
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  return bytes;
}

std::string Join(const Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

class SpaceDecoder : public TokenDecoder {
 public:
  Tokens Decode(Tokens tokens, const WorkBudget&) const override {
    for (size_t i = 1; i < tokens.size(); ++i) {
      tokens[i].insert(tokens[i].begin(), ' ');
    }
    return tokens;
  }
};

class ByteLevelDecoder : public TokenDecoder {
 public:
  Tokens Decode(Tokens tokens, const WorkBudget&) const override {
    std::string bytes;
    for (const std::string& token : tokens) AppendBytes(token, bytes);
    return {ReplaceInvalidUtf8(bytes)};
  }

 private:
  // A token with other characters (an added one) stands for itself.
  static void AppendBytes(const std::string& token, std::string& bytes) {
    const size_t before = bytes.size();
    for (size_t at = 0; at < token.size();) {
      const CodePoint next = CharacterAt(token, at);
      const int byte = CharacterToByte(next.value);
      if (byte < 0) {
        bytes.resize(before);
        bytes += token;
        return;
      }
      bytes += static_cast<char>(byte);
      at += next.bytes;
    }
  }
};

class WordPieceDecoder : public TokenDecoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  Tokens Decode(Tokens tokens, const WorkBudget&) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) {
        if (token.starts_with(prefix_)) {
          token.erase(0, prefix_.size());
        } else {
          token.insert(token.begin(), ' ');
        }
      }
      if (cleanup_) CleanUp(token);
    }
    return tokens;
  }

 private:
  static void CleanUp(std::string& text) {
    static constexpr std::pair<const char*, const char*> kRules[] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [from, to] : kRules) ReplaceAll(text, from, to);
  }

  std::string prefix_;
  bool cleanup_;
};

class MetaspaceDecoder : public TokenDecoder {
 public:
  MetaspaceDecoder(std::string mark, bool strips_first)
      : mark_(std::move(mark)), strips_first_(strips_first) {}
  Tokens Decode(Tokens tokens, const WorkBudget&) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      ReplaceAll(tokens[i], mark_, i == 0 && strips_first_ ? "" : " ");
    }
    return tokens;
  }

 private:
  std::string mark_;
  bool strips_first_;  // the mark that was put before the text
};

// Runs of "<0x0A>" become the characters they spell, or U+FFFD each.
class ByteFallbackDecoder : public TokenDecoder {
 public:
  Tokens Decode(Tokens tokens, const WorkBudget&) const override {
    Tokens result;
    std::string bytes;
    const auto flush = [&] {
      if (FindInvalidUtf8(bytes) == std::string_view::npos) {
        if (!bytes.empty()) result.push_back(bytes);
      } else {
        result.insert(result.end(), bytes.size(), "\uFFFD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = ByteOf(token)) {
        bytes += *byte;
        continue;
      }
      flush();
      result.push_back(std::move(token));
    }
    flush();
    return result;
  }

 private:
  static std::optional<char> ByteOf(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') {
      return std::nullopt;
    }
    int value = 0;
    for (char c : token.substr(3, 2)) {
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                               : -1;
      if (digit < 0) return std::nullopt;
      value = value * 16 + digit;
    }
    return static_cast<char>(value);
  }
};

class FuseDecoder : public TokenDecoder {
 public:
  Tokens Decode(Tokens tokens, const WorkBudget&) const override {
    return {Join(tokens)};
  }
};

// Takes up to `start` and `stop` of one character off the ends of each token.
class StripDecoder : public TokenDecoder {
 public:
  StripDecoder(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  Tokens Decode(Tokens tokens, const WorkBudget&) const override {
    for (std::string& token : tokens) {
      std::string_view kept = token;
      for (int64_t i = 0; i < start_ && kept.starts_with(content_); ++i) {
        kept.remove_prefix(content_.size());
      }
      for (int64_t i = 0; i < stop_ && kept.ends_with(content_); ++i) {
        kept.remove_suffix(content_.size());
      }
      token = std::string(kept);
    }
    return tokens;
  }

 private:
  std::string content_;
  int64_t start_;
  int64_t stop_;
};

class ReplaceDecoder : public TokenDecoder {
 public:
  ReplaceDecoder(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  Tokens Decode(Tokens tokens, const WorkBudget& budget) const override {
    size_t made = 0;  // bytes of the tokens so far
    for (std::string& token : tokens) {
      std::string replaced;
      for (const Match& match : pattern_.Cut(token, &budget)) {
        const Range range = match.range;
        replaced += match.matched ? std::string_view(content_)
                                  : std::string_view(token).substr(
                                        range.begin, range.size());
        budget.CheckBytes(made + replaced.size());
      }
      made += replaced.size();
      token = std::move(replaced);
    }
    return tokens;
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class SuffixDecoder : public TokenDecoder {
 public:
  explicit SuffixDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  Tokens Decode(Tokens tokens, const WorkBudget&) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      ReplaceAll(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
    }
    return tokens;
  }

 private:
  std::string suffix_;
};

class SequenceDecoder : public TokenDecoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<TokenDecoder>> parts)
      : parts_(std::move(parts)) {}
  Tokens Decode(Tokens tokens, const WorkBudget& budget) const override {
    for (const auto& part : parts_) {
      tokens = part->Decode(std::move(tokens), budget);
      budget.CheckBytes(CountBytes(tokens));
    }
    return tokens;
  }

 private:
  std::vector<std::unique_ptr<TokenDecoder>> parts_;
};

// A member that is text to look for, so must not be empty.
std::string ReadNonEmpty(const JsonCursor& json, const std::string& key,
                         const std::string& otherwise) {
  std::string text = json.String(key, otherwise);
  if (text.empty()) json[key].Fail("a text that is not empty");
  return text;
}

std::unique_ptr<TokenDecoder> MakeMetaspace(const JsonCursor& json) {
  const std::string scheme =
      json.String("prepend_scheme",
                  json.Bool("add_prefix_space", true) ? "always" : "never");
  return std::make_unique<MetaspaceDecoder>(
      ReadNonEmpty(json, "replacement", "▁"), scheme != "never");
}

}  // namespace

std::unique_ptr<TokenDecoder> MakeTokenDecoder(const JsonCursor& json) {
  if (json.value().is_null()) return std::make_unique<SpaceDecoder>();
  const JsonCursor field = json["type"];
  const std::string& type = field.String();
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Metaspace") return MakeMetaspace(json);
  if (type == "WordPiece") {
    return std::make_unique<WordPieceDecoder>(json.String("prefix", "##"),
                                              json.Bool("cleanup", true));
  }
  if (type == "BPEDecoder") {
    return std::make_unique<SuffixDecoder>(
        ReadNonEmpty(json, "suffix", "</w>"));
  }
  if (type == "Strip") {
    return std::make_unique<StripDecoder>(ReadNonEmpty(json, "content", " "),
                                          json.Int("start", 0, INT32_MAX, 0),
                                          json.Int("stop", 0, INT32_MAX, 0));
  }
  if (type == "Replace") {
    return std::make_unique<ReplaceDecoder>(Pattern::FromJson(json["pattern"]),
                                            json["content"].String());
  }
  if (type == "Sequence") {
    std::vector<std::unique_ptr<TokenDecoder>> parts;
    for (const JsonCursor& part : json["decoders"].Items()) {
      parts.push_back(MakeTokenDecoder(part));
    }
    return std::make_unique<SequenceDecoder>(std::move(parts));
  }
  throw Error(ErrorCode::kUnsupported,
              {field.where(),
               "ByteLevel, WordPiece, Metaspace, ByteFallback, Fuse, Strip, "
               "Replace, BPEDecoder or Sequence",
               "\"" + type + "\"", ""});
}

}  // namespace headwise
