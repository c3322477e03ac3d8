// A tokenizer built from parts, in the order a text goes through them: added
// tokens, normalizer, pre-tokenizer, model, post-processor; and a decoder.
#pragma once

#include <memory>

#include "headwise/tokenizer/added_tokens.h"
#include "headwise/tokenizer/decoder.h"
#include "headwise/tokenizer/model.h"
#include "headwise/tokenizer/normalizer.h"
#include "headwise/tokenizer/post_processor.h"
#include "headwise/tokenizer/pre_tokenizer.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// All must be set.
struct PipelineParts {
  AddedTokens added;
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<SubwordModel> model;
  std::unique_ptr<PostProcessor> post_processor;
  std::unique_ptr<TokenDecoder> decoder;
};

class PipelineTokenizer : public Tokenizer {
 public:
  explicit PipelineTokenizer(PipelineParts parts) : parts_(std::move(parts)) {}

  Encoding Encode(std::string_view text, EncodeOptions options) const override;
  Encoding EncodePair(std::string_view first, std::string_view second,
                      EncodeOptions options) const override;
  std::string Decode(std::span<const TokenId> ids,
                     DecodeOptions options) const override;
  TokenId vocab_size() const override;
  std::optional<std::string> Token(TokenId id) const override;
  std::optional<TokenId> Id(std::string_view token) const override;
  bool IsSpecial(TokenId id) const override;
  std::optional<TokenId> unknown() const override;

 private:
  const std::string* FindToken(TokenId id) const;
  EncodedPart EncodeText(std::string_view text, int32_t segment) const;
  void EncodeSegment(AlignedText text, Encoding& encoding) const;
  Encoding Finish(std::vector<EncodedPart> parts, EncodeOptions options) const;

  PipelineParts parts_;
};

// Throws Error(kInvalidArgument) unless `text` is UTF-8 of less than 4 GiB.
void CheckText(std::string_view text);

// Puts the parts of an encoding one after the other.
Encoding JoinParts(const std::vector<EncodedPart>& parts);

}  // namespace headwise
