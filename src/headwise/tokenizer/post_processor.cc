// The post-processors of tokenizer.json. Door: post_processor.h.
#include "headwise/tokenizer/post_processor.h"

#include <algorithm>
#include <utility>

#include "headwise/error.h"
#include "headwise/tokenizer/unicode.h"
#include "headwise/tokenizer/vocabulary.h"

namespace headwise {
namespace {

bool IsSpaceMark(char32_t c) {
  return c == ByteToCharacter(' ') || IsWhitespace(c);
}

// How many spaces a token begins or ends with.
struct Spaces {
  size_t leading = 0;
  size_t trailing = 0;
};
Spaces CountSpaces(std::string_view token) {
  Spaces spaces;
  for (size_t at = 0; at < token.size();) {
    const CodePoint next = CharacterAt(token, at);
    if (!IsSpaceMark(next.value)) break;
    ++spaces.leading;
    at += next.bytes;
  }
  for (size_t end = token.size(); end > 0;) {
    const CodePoint last = CharacterBefore(token, end);
    if (!IsSpaceMark(last.value)) break;
    ++spaces.trailing;
    end -= last.bytes;
  }
  return spaces;
}

// Takes the spaces that byte-level tokens carry out of their spans. One space
// that was put before the text (`add_prefix_space`) is not in the text.
void TrimSpans(EncodedPart& part, const TokenNames& names,
               bool add_prefix_space) {
  auto found = part.found.begin();
  for (size_t i = 0; i < part.encoding.size(); ++i) {
    TextSpan& span = part.encoding.spans[i];
    const std::string* name = names(part.encoding.ids[i]);
    std::string_view token;
    if (name != nullptr) token = *name;
    // An added token may have taken spaces along that are not in its name.
    if (found != part.found.end() && *found == i) {
      token = part.text.substr(span.begin, span.end - span.begin);
      ++found;
    }
    Spaces spaces = CountSpaces(token);
    const bool is_first = i == 0 || span.begin == 0;
    if (is_first && add_prefix_space && spaces.leading == 1) spaces.leading = 0;
    for (; spaces.leading > 0 && span.begin < span.end; --spaces.leading) {
      span.begin +=
          static_cast<uint32_t>(CharacterAt(part.text, span.begin).bytes);
    }
    for (; spaces.trailing > 0 && span.end > span.begin; --spaces.trailing) {
      span.end -=
          static_cast<uint32_t>(CharacterBefore(part.text, span.end).bytes);
    }
  }
}

// One element of a template: a text, or tokens to add.
struct TemplatePiece {
  int text = -1;  // 0: first, 1: second, -1: the ids below
  std::vector<TokenId> ids;
  int32_t segment = 0;
};
using Template = std::vector<TemplatePiece>;

EncodedPart Apply(const TemplatePiece& piece,
                  const std::vector<EncodedPart>& texts) {
  EncodedPart part;
  const size_t index = static_cast<size_t>(piece.text);
  if (piece.text >= 0) {
    part = texts[index];
  } else {
    part.encoding.ids = piece.ids;
    part.encoding.spans.resize(piece.ids.size());
    part.encoding.added.assign(piece.ids.size(), 1);
  }
  part.encoding.segments.assign(part.encoding.size(), piece.segment);
  return part;
}

class TemplateProcessor : public PostProcessor {
 public:
  TemplateProcessor(Template single, Template pair)
      : single_(std::move(single)), pair_(std::move(pair)) {}

  void Process(std::vector<EncodedPart>& parts, const TokenNames&,
               bool add_special_tokens) const override {
    std::vector<EncodedPart> result;
    for (const TemplatePiece& piece : parts.size() < 2 ? single_ : pair_) {
      if (piece.text < 0 && !add_special_tokens) continue;
      if (piece.text >= static_cast<int>(parts.size())) continue;
      result.push_back(Apply(piece, parts));
    }
    parts = std::move(result);
  }

 private:
  Template single_;
  Template pair_;
};

class RobertaProcessor : public PostProcessor {
 public:
  RobertaProcessor(TemplateProcessor inner, RobertaOptions options)
      : template_(std::move(inner)), options_(options) {}

  void Process(std::vector<EncodedPart>& parts, const TokenNames& names,
               bool add_special_tokens) const override {
    if (options_.trim_offsets) {
      for (EncodedPart& part : parts) {
        TrimSpans(part, names, options_.add_prefix_space);
      }
    }
    template_.Process(parts, names, add_special_tokens);
  }

 private:
  TemplateProcessor template_;
  RobertaOptions options_;
};

class ByteLevelProcessor : public PostProcessor {
 public:
  ByteLevelProcessor(bool trim, bool add_prefix_space)
      : trim_(trim), add_prefix_space_(add_prefix_space) {}
  void Process(std::vector<EncodedPart>& parts, const TokenNames& names,
               bool) const override {
    if (!trim_) return;
    for (EncodedPart& part : parts) TrimSpans(part, names, add_prefix_space_);
  }

 private:
  bool trim_;
  bool add_prefix_space_;
};

class SequenceProcessor : public PostProcessor {
 public:
  explicit SequenceProcessor(std::vector<std::unique_ptr<PostProcessor>> parts)
      : parts_(std::move(parts)) {}
  void Process(std::vector<EncodedPart>& parts, const TokenNames& names,
               bool add_special_tokens) const override {
    for (const auto& part : parts_) {
      part->Process(parts, names, add_special_tokens);
    }
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> parts_;
};

// A text of the template, in a segment.
TemplatePiece Text(int index, int32_t segment = 0) {
  return {index, {}, segment};
}
// Tokens that the template adds.
TemplatePiece Added(std::vector<TokenId> ids, int32_t segment = 0) {
  return {-1, std::move(ids), segment};
}

TemplatePiece ReadSequence(const JsonCursor& json) {
  const std::string& id = json["id"].String();
  if (id != "A" && id != "B") json["id"].Fail("A or B");
  return Text(id == "A" ? 0 : 1,
              static_cast<int32_t>(json.Int("type_id", 0, INT32_MAX, 0)));
}

TemplatePiece ReadSpecial(const JsonCursor& json, const JsonCursor& tokens) {
  std::vector<TokenId> ids;
  for (const JsonCursor& id : tokens[json["id"].String()]["ids"].Items()) {
    ids.push_back(static_cast<TokenId>(id.Int(0, kMaxTokenId)));
  }
  return Added(std::move(ids),
               static_cast<int32_t>(json.Int("type_id", 0, INT32_MAX, 0)));
}

// Each text gets them all.
constexpr size_t kMostAdded = 1024;

Template ReadTemplate(const JsonCursor& json, const JsonCursor& tokens) {
  Template result;
  size_t added = 0;
  for (const JsonCursor& piece : json.Items()) {
    const auto sequence = piece.Find("Sequence");
    result.push_back(sequence ? ReadSequence(*sequence)
                              : ReadSpecial(piece["SpecialToken"], tokens));
    added += result.back().ids.size();
    if (added > kMostAdded) json.Fail("a template of at most 1024 tokens");
    const auto same = [&](const TemplatePiece& other) {
      return other.text >= 0 && other.text == result.back().text;
    };
    if (std::ranges::count_if(result, same) > 1) json.Fail("each text once");
  }
  return result;
}

std::unique_ptr<PostProcessor> MakeTemplate(const JsonCursor& json) {
  const JsonCursor tokens = json["special_tokens"];
  Template single = ReadTemplate(json["single"], tokens);
  Template pair;
  if (json.Find("pair")) pair = ReadTemplate(json["pair"], tokens);
  if (pair.empty()) pair = {Text(0), Text(1, 1)};
  return std::make_unique<TemplateProcessor>(std::move(single),
                                             std::move(pair));
}

// ["[SEP]", 102]
TokenId ReadNamedToken(const JsonCursor& json) {
  const auto items = json.Items();
  if (items.size() != 2) json.Fail("a token and its id");
  return static_cast<TokenId>(items[1].Int(0, kMaxTokenId));
}

TemplateProcessor RobertaTemplate(TokenId cls, TokenId sep) {
  return {{Added({cls}), Text(0), Added({sep})},
          {Added({cls}), Text(0), Added({sep, sep}), Text(1), Added({sep})}};
}

}  // namespace

std::unique_ptr<PostProcessor> MakeBertProcessor(TokenId cls, TokenId sep) {
  return std::make_unique<TemplateProcessor>(
      Template{Added({cls}), Text(0), Added({sep})},
      Template{Added({cls}), Text(0), Added({sep}), Text(1, 1),
               Added({sep}, 1)});
}

std::unique_ptr<PostProcessor> MakeRobertaProcessor(TokenId cls, TokenId sep,
                                                    RobertaOptions options) {
  return std::make_unique<RobertaProcessor>(RobertaTemplate(cls, sep), options);
}

std::unique_ptr<PostProcessor> MakeSurroundProcessor(
    std::vector<TokenId> before, std::vector<TokenId> after) {
  return std::make_unique<TemplateProcessor>(
      Template{Added(before), Text(0), Added(after)},
      Template{Added(before), Text(0), Added(after), Added(before, 1),
               Text(1, 1), Added(after, 1)});
}

std::unique_ptr<PostProcessor> MakePostProcessor(const JsonCursor& json) {
  std::vector<std::unique_ptr<PostProcessor>> parts;
  if (json.value().is_null()) {
    return std::make_unique<SequenceProcessor>(std::move(parts));
  }
  const JsonCursor field = json["type"];
  const std::string& type = field.String();
  if (type == "TemplateProcessing") return MakeTemplate(json);
  if (type == "BertProcessing") {
    return MakeBertProcessor(ReadNamedToken(json["cls"]),
                             ReadNamedToken(json["sep"]));
  }
  if (type == "RobertaProcessing") {
    return MakeRobertaProcessor(
        ReadNamedToken(json["cls"]), ReadNamedToken(json["sep"]),
        {json.Bool("trim_offsets", true), json.Bool("add_prefix_space", true)});
  }
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevelProcessor>(
        json.Bool("trim_offsets", true), json.Bool("add_prefix_space", true));
  }
  if (type == "Sequence") {
    for (const JsonCursor& part : json["processors"].Items()) {
      parts.push_back(MakePostProcessor(part));
    }
    return std::make_unique<SequenceProcessor>(std::move(parts));
  }
  throw Error(ErrorCode::kUnsupported,
              {field.where(),
               "TemplateProcessing, BertProcessing, RobertaProcessing, "
               "ByteLevel or Sequence",
               "\"" + type + "\"", ""});
}

}  // namespace headwise
