// The pre-tokenizers of tokenizer.json. Door: pre_tokenizer.h.
#include "headwise/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "headwise/error.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {

const char* const kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|)"
    R"(\s+(?!\S)|\s+)";

namespace {

// Joins neighbouring stretches as the behaviour says; removed ones vanish.
std::vector<Range> Merge(std::vector<Match> matches, MatchBehavior behavior) {
  std::vector<Range> ranges;
  const bool backward = behavior == MatchBehavior::kMergedWithNext;
  if (backward) std::reverse(matches.begin(), matches.end());
  bool previous = false;
  for (const Match& match : matches) {
    bool join = false;
    if (behavior == MatchBehavior::kContiguous) {
      join = match.matched == previous;
    } else if (behavior == MatchBehavior::kMergedWithPrevious || backward) {
      join = match.matched && !previous;
    } else if (behavior == MatchBehavior::kRemoved && match.matched) {
      continue;
    }
    previous = match.matched;
    if (!join || ranges.empty()) {
      ranges.push_back(match.range);
    } else if (backward) {
      ranges.back().begin = match.range.begin;
    } else {
      ranges.back().end = match.range.end;
    }
  }
  if (backward) std::reverse(ranges.begin(), ranges.end());
  return ranges;
}

// Cuts every piece; `cut` gives the stretches of one piece.
template <typename Cut>
void CutPieces(PieceList& list, MatchBehavior behavior, Cut cut) {
  std::vector<Range> pieces;
  pieces.reserve(list.pieces.size());
  for (const Range& piece : list.pieces) {
    if (list.text.budget() != nullptr) list.text.budget()->CheckTime();
    for (const Range& part : Merge(cut(list.text[piece]), behavior)) {
      if (part.size() == 0) continue;
      pieces.push_back({piece.begin + part.begin, piece.begin + part.end});
    }
  }
  list.pieces = std::move(pieces);
}

// Rewrites every piece; `write` appends the new text of one piece.
template <typename Write>
void RewritePieces(PieceList& list, Write write) {
  AlignedText text = list.text.Blank();
  for (Range& piece : list.pieces) {
    const size_t begin = text.size();
    write(text, piece);
    piece = {begin, text.size()};
  }
  list.text = std::move(text);
}

// The source of the first character of a piece.
TextSpan FirstSource(const AlignedText& text, Range piece) {
  return text.SourceOf(
      {piece.begin, piece.begin + CharacterAt(text.text(), piece.begin).bytes});
}

class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(std::function<bool(char32_t)> is_match, MatchBehavior behavior)
      : is_match_(std::move(is_match)), behavior_(behavior) {}
  void Cut(PieceList& list) const override {
    CutPieces(list, behavior_, [&](std::string_view piece) {
      return CutAtCharacters(piece, is_match_);
    });
  }

 private:
  std::function<bool(char32_t)> is_match_;
  MatchBehavior behavior_;
};

class PatternSplit : public PreTokenizer {
 public:
  PatternSplit(Pattern pattern, MatchBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void Cut(PieceList& list) const override {
    CutPieces(list, behavior_, [&](std::string_view piece) {
      std::vector<Match> matches = pattern_.Cut(piece, list.text.budget());
      for (Match& match : matches) match.matched ^= invert_;
      return matches;
    });
  }

 private:
  Pattern pattern_;
  MatchBehavior behavior_;
  bool invert_;
};

class ByteLevel : public PreTokenizer {
 public:
  explicit ByteLevel(ByteLevelOptions options)
      : options_(options),
        words_(Pattern::Regex(kGpt2Expression, "byte-level rule")) {}

  void Cut(PieceList& list) const override {
    if (options_.add_prefix_space) AddSpaces(list);
    if (options_.use_regex) {
      CutPieces(list, MatchBehavior::kIsolated, [&](std::string_view piece) {
        return words_.Cut(piece, list.text.budget());
      });
    }
    const AlignedText& old = list.text;
    RewritePieces(list, [&](AlignedText& text, Range piece) {
      for (size_t at = piece.begin; at < piece.end;) {
        const size_t bytes = CharacterAt(old.text(), at).bytes;
        const TextSpan source = old.SourceOf({at, at + bytes});
        for (size_t end = at + bytes; at < end; ++at) {
          text.Append(
              ByteToCharacter(static_cast<unsigned char>(old.text()[at])),
              source);
        }
      }
    });
  }

 private:
  static void AddSpaces(PieceList& list) {
    const AlignedText& old = list.text;
    RewritePieces(list, [&](AlignedText& text, Range piece) {
      if (!old[piece].starts_with(' ')) {
        text.Append(" ", FirstSource(old, piece));
      }
      text.Append(old, piece);
    });
  }

  ByteLevelOptions options_;
  Pattern words_;
};

// Spaces become a visible mark, one is put before the text, and pieces begin
// with it.
class Metaspace : public PreTokenizer {
 public:
  enum class Prepend { kAlways, kFirst, kNever };

  explicit Metaspace(const JsonCursor& json)
      : mark_(json.String("replacement", "▁")),
        split_(json.Bool("split", true)) {
    if (CountCharacters(mark_) != 1) {
      json["replacement"].Fail("one character");
    }
    std::string scheme =
        json.String("prepend_scheme",
                    json.Bool("add_prefix_space", true) ? "always" : "never");
    if (scheme == "first") {
      prepend_ = Prepend::kFirst;
    } else if (scheme == "never") {
      prepend_ = Prepend::kNever;
    } else if (scheme != "always") {
      json["prepend_scheme"].Fail("always, first or never");
    }
  }

  void Cut(PieceList& list) const override {
    const AlignedText& old = list.text;
    RewritePieces(list, [&](AlignedText& text, Range piece) {
      const std::string_view whole = old[piece];
      const TextSpan first = FirstSource(old, piece);
      const bool begins = whole.starts_with(' ') || whole.starts_with(mark_);
      if (!begins && (prepend_ == Prepend::kAlways ||
                      (prepend_ == Prepend::kFirst && first.begin == 0))) {
        text.Append(mark_, first);
      }
      for (size_t at = piece.begin; at < piece.end;) {
        const Range character{at, at + CharacterAt(old.text(), at).bytes};
        const bool space = old[character] == " ";
        text.Append(space ? std::string_view(mark_) : old[character],
                    old.SourceOf(character));
        at = character.end;
      }
    });
    if (!split_) return;
    const Pattern mark = Pattern::Literal(mark_);
    CutPieces(list, MatchBehavior::kMergedWithNext,
              [&](std::string_view piece) { return mark.Cut(piece); });
  }

 private:
  std::string mark_;
  bool split_;
  Prepend prepend_ = Prepend::kAlways;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizer>> parts)
      : parts_(std::move(parts)) {}
  void Cut(PieceList& list) const override {
    for (const auto& part : parts_) part->Cut(list);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

MatchBehavior ReadBehavior(const JsonCursor& field) {
  constexpr std::array<const char*, 5> kNames = {
      "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
      "Contiguous"};
  const auto found = std::find(kNames.begin(), kNames.end(), field.String());
  if (found == kNames.end()) {
    field.Fail(
        "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  }
  return static_cast<MatchBehavior>(found - kNames.begin());
}

std::unique_ptr<PreTokenizer> MakeSplit(const JsonCursor& json) {
  return std::make_unique<PatternSplit>(Pattern::FromJson(json["pattern"]),
                                        ReadBehavior(json["behavior"]),
                                        json.Bool("invert", false));
}

std::unique_ptr<PreTokenizer> MakeSequence(const JsonCursor& json) {
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  for (const JsonCursor& part : json["pretokenizers"].Items()) {
    parts.push_back(MakePreTokenizer(part));
  }
  return std::make_unique<Sequence>(std::move(parts));
}

std::unique_ptr<PreTokenizer> MakeDelimiterSplit(const JsonCursor& json) {
  const JsonCursor field = json["delimiter"];
  if (CountCharacters(field.String()) != 1) field.Fail("one character");
  const char32_t delimiter = CharacterAt(field.String(), 0).value;
  return std::make_unique<CharacterSplit>(
      [delimiter](char32_t c) { return c == delimiter; },
      MatchBehavior::kRemoved);
}

}  // namespace

std::unique_ptr<PreTokenizer> MakeByteLevelPreTokenizer(
    ByteLevelOptions options) {
  return std::make_unique<ByteLevel>(options);
}

std::unique_ptr<PreTokenizer> MakeBertPreTokenizer() {
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  parts.push_back(
      std::make_unique<CharacterSplit>(IsWhitespace, MatchBehavior::kRemoved));
  parts.push_back(std::make_unique<CharacterSplit>(IsPunctuation,
                                                   MatchBehavior::kIsolated));
  return std::make_unique<Sequence>(std::move(parts));
}

std::unique_ptr<PreTokenizer> MakePreTokenizer(const JsonCursor& json) {
  if (json.value().is_null()) {
    return std::make_unique<Sequence>(
        std::vector<std::unique_ptr<PreTokenizer>>());
  }
  const JsonCursor field = json["type"];
  const std::string& type = field.String();
  if (type == "Sequence") return MakeSequence(json);
  if (type == "Split") return MakeSplit(json);
  if (type == "Metaspace") return std::make_unique<Metaspace>(json);
  if (type == "BertPreTokenizer") return MakeBertPreTokenizer();
  if (type == "CharDelimiterSplit") return MakeDelimiterSplit(json);
  if (type == "ByteLevel") {
    return MakeByteLevelPreTokenizer(
        {json.Bool("add_prefix_space", true), json.Bool("use_regex", true)});
  }
  if (type == "Digits") {
    return std::make_unique<CharacterSplit>(
        IsNumeric, json.Bool("individual_digits", false)
                       ? MatchBehavior::kIsolated
                       : MatchBehavior::kContiguous);
  }
  if (type == "Punctuation") {
    return std::make_unique<CharacterSplit>(
        IsPunctuation, json.Find("behavior") ? ReadBehavior(json["behavior"])
                                             : MatchBehavior::kIsolated);
  }
  if (type == "WhitespaceSplit") {
    return std::make_unique<CharacterSplit>(IsWhitespace,
                                            MatchBehavior::kRemoved);
  }
  if (type == "Whitespace") {
    return std::make_unique<PatternSplit>(
        Pattern::Regex(R"(\w+|[^\w\s]+)", json.where()),
        MatchBehavior::kRemoved, true);
  }
  throw Error(ErrorCode::kUnsupported,
              {field.where(),
               "ByteLevel, BertPreTokenizer, Metaspace, Split, Digits, "
               "Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit "
               "or Sequence",
               "\"" + type + "\"", ""});
}

}  // namespace headwise
