// The normalisers of tokenizer.json. Door: normalizer.h.
#include "headwise/tokenizer/normalizer.h"

#include <utility>

#include "headwise/error.h"
#include "headwise/tokenizer/pattern.h"
#include "headwise/tokenizer/precompiled.h"
#include "headwise/tokenizer/unicode.h"
#include "headwise/tokenizer/unicode_forms.h"

namespace headwise {
namespace {

// Calls fn(character, its range) for each character of the text.
template <typename Function>
void ForEachCharacter(const AlignedText& text, Function fn) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint next = CharacterAt(text.text(), at);
    fn(next.value, Range{at, at + next.bytes});
    at += next.bytes;
  }
}

// The text with each character kept, replaced or dropped (nullopt).
template <typename Function>
AlignedText MapCharacters(const AlignedText& text, Function fn) {
  AlignedText result = text.Blank();
  ForEachCharacter(text, [&](char32_t c, Range range) {
    if (const std::optional<char32_t> mapped = fn(c)) {
      result.Append(*mapped, text.SourceOf(range));
    }
  });
  return result;
}

AlignedText Lowercase(const AlignedText& text) {
  constexpr char32_t kCapitalIWithDot = 0x130;
  constexpr char32_t kDotAbove = 0x307;
  AlignedText result = text.Blank();
  ForEachCharacter(text, [&](char32_t c, Range range) {
    const TextSpan source = text.SourceOf(range);
    if (c == kCapitalIWithDot) {  // the one that becomes two
      result.Append(U'i', source);
      result.Append(kDotAbove, source);
    } else {
      result.Append(SimpleLowercase(c), source);
    }
  });
  return result;
}

AlignedText Prepend(const AlignedText& text, const std::string& prefix) {
  if (text.size() == 0) return text;
  AlignedText result = text.Blank();
  const size_t first = CharacterAt(text.text(), 0).bytes;
  result.Append(prefix, text.SourceOf({0, first}));
  result.Append(text, {0, text.size()});
  return result;
}

bool IsChineseCharacter(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

class FormNormalizer : public Normalizer {
 public:
  explicit FormNormalizer(UnicodeForm form) : form_(form) {}
  AlignedText Normalize(AlignedText text) const override {
    return ToUnicodeForm(text, form_);
  }

 private:
  UnicodeForm form_;
};

class LowercaseNormalizer : public Normalizer {
 public:
  AlignedText Normalize(AlignedText text) const override {
    return Lowercase(text);
  }
};

class StripAccentsNormalizer : public Normalizer {
 public:
  AlignedText Normalize(AlignedText text) const override {
    return MapCharacters(text, [](char32_t c) -> std::optional<char32_t> {
      if (IsMark(c)) return std::nullopt;
      return c;
    });
  }
};

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(BertNormalizerOptions options) : options_(options) {}

  AlignedText Normalize(AlignedText text) const override {
    if (options_.clean_text) text = Clean(text);
    if (options_.handle_chinese_chars) text = SpaceChinese(text);
    if (options_.strip_accents) {
      text = MapCharacters(ToUnicodeForm(text, UnicodeForm::kNfd),
                           [](char32_t c) -> std::optional<char32_t> {
                             if (IsNonspacingMark(c)) return std::nullopt;
                             return c;
                           });
    }
    if (options_.lowercase) text = Lowercase(text);
    return text;
  }

 private:
  static AlignedText Clean(const AlignedText& text) {
    return MapCharacters(text, [](char32_t c) -> std::optional<char32_t> {
      if (c == '\t' || c == '\n' || c == '\r') return U' ';
      if (c == 0 || c == 0xFFFD || IsControl(c)) return std::nullopt;
      return IsWhitespace(c) ? U' ' : c;
    });
  }

  static AlignedText SpaceChinese(const AlignedText& text) {
    AlignedText result = text.Blank();
    ForEachCharacter(text, [&](char32_t c, Range range) {
      const TextSpan source = text.SourceOf(range);
      const bool chinese = IsChineseCharacter(c);
      if (chinese) result.Append(U' ', source);
      result.Append(c, source);
      if (chinese) result.Append(U' ', source);
    });
    return result;
  }

  BertNormalizerOptions options_;
};

class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  AlignedText Normalize(AlignedText text) const override {
    AlignedText result = text.Blank();
    for (const Match& match : pattern_.Cut(text.text(), text.budget())) {
      const Range range = match.range;
      if (!match.matched) {
        result.Append(text, range);
      } else if (range.end > 0) {
        // The replacement stands for the last character it replaced.
        result.Append(content_, text.SourceOf({range.end - 1, range.end}));
      }
    }
    return result;
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string text) : prefix_(std::move(text)) {}
  AlignedText Normalize(AlignedText text) const override {
    return Prepend(text, prefix_);
  }

 private:
  std::string prefix_;
};

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  AlignedText Normalize(AlignedText text) const override {
    Range kept{0, text.size()};
    while (left_ && kept.size() > 0) {
      const CodePoint first = CharacterAt(text.text(), kept.begin);
      if (!IsWhitespace(first.value)) break;
      kept.begin += first.bytes;
    }
    while (right_ && kept.size() > 0) {
      const CodePoint last = CharacterBefore(text.text(), kept.end);
      if (!IsWhitespace(last.value)) break;
      kept.end -= last.bytes;
    }
    return text.Slice(kept);
  }

 private:
  bool left_;
  bool right_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  AlignedText Normalize(AlignedText text) const override {
    AlignedText result = text.Blank();
    ForEachCharacter(text, [&](char32_t, Range range) {
      for (char byte : text[range]) {
        result.Append(ByteToCharacter(static_cast<unsigned char>(byte)),
                      text.SourceOf(range));
      }
    });
    return result;
  }
};

class PrecompiledNormalizer : public Normalizer {
 public:
  explicit PrecompiledNormalizer(PrecompiledMap map) : map_(std::move(map)) {}
  AlignedText Normalize(AlignedText text) const override {
    return map_.Normalize(text);
  }

 private:
  PrecompiledMap map_;
};

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts)
      : parts_(std::move(parts)) {}
  AlignedText Normalize(AlignedText text) const override {
    for (const auto& part : parts_) text = part->Normalize(std::move(text));
    return text;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

std::unique_ptr<Normalizer> MakeBert(const JsonCursor& json) {
  BertNormalizerOptions options;
  options.clean_text = json.Bool("clean_text", true);
  options.handle_chinese_chars = json.Bool("handle_chinese_chars", true);
  options.lowercase = json.Bool("lowercase", true);
  options.strip_accents = json.Bool("strip_accents", options.lowercase);
  return MakeBertNormalizer(options);
}

std::unique_ptr<Normalizer> MakePrecompiled(const JsonCursor& json) {
  const auto map = json.Find("precompiled_charsmap");
  const std::string blob =
      map ? DecodeBase64(map->String(), map->where()) : std::string();
  if (blob.empty()) {  // written so where the model has no map
    return std::make_unique<SequenceNormalizer>(
        std::vector<std::unique_ptr<Normalizer>>());
  }
  return std::make_unique<PrecompiledNormalizer>(
      PrecompiledMap(blob, map->where()));
}

}  // namespace

std::unique_ptr<Normalizer> MakeBertNormalizer(BertNormalizerOptions options) {
  return std::make_unique<BertNormalizer>(options);
}

std::unique_ptr<Normalizer> MakePrependNormalizer(std::string text) {
  return std::make_unique<PrependNormalizer>(std::move(text));
}

std::unique_ptr<Normalizer> MakeNormalizer(const JsonCursor& json) {
  std::vector<std::unique_ptr<Normalizer>> parts;
  if (json.value().is_null()) {
    return std::make_unique<SequenceNormalizer>(std::move(parts));
  }
  const JsonCursor field = json["type"];
  const std::string& type = field.String();
  const auto form = [](UnicodeForm value) {
    return std::make_unique<FormNormalizer>(value);
  };
  if (type == "NFC") return form(UnicodeForm::kNfc);
  if (type == "NFD") return form(UnicodeForm::kNfd);
  if (type == "NFKC") return form(UnicodeForm::kNfkc);
  if (type == "NFKD") return form(UnicodeForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<LowercaseNormalizer>();
  if (type == "StripAccents") return std::make_unique<StripAccentsNormalizer>();
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "BertNormalizer") return MakeBert(json);
  if (type == "Precompiled") return MakePrecompiled(json);
  if (type == "Prepend") {
    return MakePrependNormalizer(json["prepend"].String());
  }
  if (type == "Strip") {
    return std::make_unique<StripNormalizer>(json.Bool("strip_left", true),
                                             json.Bool("strip_right", true));
  }
  if (type == "Replace") {
    return std::make_unique<ReplaceNormalizer>(
        Pattern::FromJson(json["pattern"]), json["content"].String());
  }
  if (type == "Sequence") {
    for (const JsonCursor& part : json["normalizers"].Items()) {
      parts.push_back(MakeNormalizer(part));
    }
    return std::make_unique<SequenceNormalizer>(std::move(parts));
  }
  throw Error(ErrorCode::kUnsupported,
              {field.where(),
               "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, ByteLevel, "
               "BertNormalizer, Precompiled, Prepend, Strip, Replace or "
               "Sequence",
               "\"" + type + "\"", ""});
}

}  // namespace headwise
