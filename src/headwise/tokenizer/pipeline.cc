// The tokenizer built from parts. Door: pipeline.h.
#include "headwise/tokenizer/pipeline.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "headwise/error.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

void AddToken(Encoding& encoding, TokenId id, TextSpan span) {
  encoding.ids.push_back(id);
  encoding.spans.push_back(span);
}

template <typename T>
void Extend(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void CheckText(std::string_view text) {
  if (text.size() > std::numeric_limits<uint32_t>::max()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"tokenize", "text of less than 4 GiB",
                 std::to_string(text.size()) + " bytes", "cut it into parts"});
  }
  const size_t invalid = FindInvalidUtf8(text);
  if (invalid != std::string_view::npos) {
    throw Error(ErrorCode::kInvalidArgument,
                {"tokenize", "text in UTF-8",
                 "another byte at " + std::to_string(invalid),
                 "convert the text to UTF-8"});
  }
}

Encoding JoinParts(const std::vector<EncodedPart>& parts) {
  Encoding result;
  for (const EncodedPart& part : parts) {
    Extend(result.ids, part.encoding.ids);
    Extend(result.spans, part.encoding.spans);
    Extend(result.segments, part.encoding.segments);
    Extend(result.added, part.encoding.added);
  }
  return result;
}

void PipelineTokenizer::EncodeSegment(AlignedText text,
                                      Encoding& encoding) const {
  PieceList list(std::move(text));
  parts_.pre_tokenizer->Cut(list);
  std::vector<PieceToken> tokens;
  for (const Range& piece : list.pieces) {
    list.text.budget()->CheckTime();
    tokens.clear();
    parts_.model->Tokenize(list.text[piece], tokens);
    for (const PieceToken& token : tokens) {
      AddToken(encoding, token.id,
               list.text.SourceOf(
                   {piece.begin + token.begin, piece.begin + token.end}));
    }
  }
}

EncodedPart PipelineTokenizer::EncodeText(std::string_view text,
                                          int32_t segment) const {
  CheckText(text);
  const WorkBudget budget(text.size());
  EncodedPart part;
  part.text = text;
  for (const AddedSegment& plain : parts_.added.Cut(text, false)) {
    const auto base = static_cast<uint32_t>(plain.range.begin);
    if (plain.id != kNoToken) {
      part.found.push_back(part.encoding.size());
      AddToken(part.encoding, plain.id,
               {base, static_cast<uint32_t>(plain.range.end)});
      continue;
    }
    const AlignedText normal = parts_.normalizer->Normalize(
        AlignedText(text.substr(base, plain.range.size()), base, &budget));
    for (const AddedSegment& found : parts_.added.Cut(normal.text(), true)) {
      if (found.id != kNoToken) {
        part.found.push_back(part.encoding.size());
        AddToken(part.encoding, found.id, normal.SourceOf(found.range));
      } else {
        EncodeSegment(normal.Slice(found.range), part.encoding);
      }
    }
  }
  part.encoding.segments.assign(part.encoding.size(), segment);
  part.encoding.added.assign(part.encoding.size(), 0);
  return part;
}

Encoding PipelineTokenizer::Finish(std::vector<EncodedPart> parts,
                                   EncodeOptions options) const {
  parts_.post_processor->Process(
      parts, [this](TokenId id) { return FindToken(id); },
      options.add_special_tokens);
  return JoinParts(parts);
}

Encoding PipelineTokenizer::Encode(std::string_view text,
                                   EncodeOptions options) const {
  std::vector<EncodedPart> parts;
  parts.push_back(EncodeText(text, 0));
  return Finish(std::move(parts), options);
}

Encoding PipelineTokenizer::EncodePair(std::string_view first,
                                       std::string_view second,
                                       EncodeOptions options) const {
  std::vector<EncodedPart> parts;
  parts.push_back(EncodeText(first, 0));
  parts.push_back(EncodeText(second, 1));
  return Finish(std::move(parts), options);
}

std::string PipelineTokenizer::Decode(std::span<const TokenId> ids,
                                      DecodeOptions options) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (TokenId id : ids) {
    const std::string* token = FindToken(id);
    if (token == nullptr) continue;
    if (options.skip_special_tokens) {
      const AddedToken* added = parts_.added.Find(*token);
      if (added != nullptr && added->special) continue;
    }
    tokens.push_back(*token);
  }
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  std::string text;
  for (const std::string& part :
       parts_.decoder->Decode(std::move(tokens), WorkBudget(bytes))) {
    text += part;
  }
  return text;
}

const std::string* PipelineTokenizer::FindToken(TokenId id) const {
  const AddedToken* added = parts_.added.Find(id);
  return added != nullptr ? &added->content
                          : parts_.model->vocabulary().Token(id);
}

TokenId PipelineTokenizer::vocab_size() const {
  return std::max(parts_.added.size(), parts_.model->vocabulary().size());
}

std::optional<std::string> PipelineTokenizer::Token(TokenId id) const {
  const std::string* token = FindToken(id);
  return token == nullptr ? std::nullopt : std::optional(*token);
}

std::optional<TokenId> PipelineTokenizer::Id(std::string_view token) const {
  const AddedToken* added = parts_.added.Find(std::string(token));
  const TokenId id =
      added != nullptr ? added->id : parts_.model->vocabulary().Find(token);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

std::optional<TokenId> PipelineTokenizer::unknown() const {
  const TokenId id = parts_.model->unknown();
  return id == kNoToken ? std::nullopt : std::optional(id);
}

bool PipelineTokenizer::IsSpecial(TokenId id) const {
  const AddedToken* added = parts_.added.Find(id);
  return added != nullptr && added->special;
}

}  // namespace headwise
