// What a model wants around a text: [CLS] … [SEP], <bos> …, … </s>. One rule
// for everything that shows texts to models.
//
// Encoders, and the source side of encoder–decoders: what the tokenizer's
// template adds (and the end token, which encoders of encoder–decoders read
// whether or not the template has it).
//
// Causal models begin with one token and end open. Whether they do, the first
// of these decides:
//   1. what the tokenizer was loaded with (TokenizerOptions::bos);
//   2. add_bos_token of tokenizer_config.json, where it is true;
//   3. the chat template: a model whose chats open with the token knows texts
//      so, also where add_bos_token is false because the template adds it;
//   4. add_bos_token, where it is false: none;
//   5. the template of the tokenizer (its post-processor): the token it adds;
//   6. "bos_token": null in tokenizer_config.json: none;
//   7. else the token that tokenizer_config.json or config.json names, if any:
//      it stood between the texts that the model was trained on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// The tokens around those of a text.
struct TokenFrame {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
  std::string why;  // what decided on `before`, in words

  int64_t size() const {
    return static_cast<int64_t>(before.size() + after.size());
  }
};

// By the rule above. Throws Error(kInvalidArgument) when a token was asked for
// and none is known.
TokenFrame FrameOf(const Tokenizer& tokenizer, const ModelConfig& config);

// For a model without a tokenizer: the token that config.json names.
TokenFrame FrameOf(const ModelConfig& config);

// The token that an encoder–decoder's decoder reads before a target.
TokenFrame TargetFrameOf(const ModelConfig& config);

// The tokens of a text within a frame, all of them or of [begin, end).
Encoding Framed(const Encoding& encoding, const TokenFrame& frame);
Encoding Framed(const Encoding& encoding, const TokenFrame& frame, size_t begin,
                size_t end);

// Encodes texts in the frame of one model. The tokenizer must outlive it.
class Framer {
 public:
  Framer(const Tokenizer& tokenizer, const ModelConfig& config)
      : tokenizer_(tokenizer), frame_(FrameOf(tokenizer, config)) {}
  Framer(const Tokenizer& tokenizer, TokenFrame frame)
      : tokenizer_(tokenizer), frame_(std::move(frame)) {}

  Encoding Encode(std::string_view text) const {
    return Framed(tokenizer_.Encode(text, {.add_special_tokens = false}),
                  frame_);
  }
  const TokenFrame& frame() const { return frame_; }
  int64_t size() const { return frame_.size(); }

 private:
  const Tokenizer& tokenizer_;
  TokenFrame frame_;
};

}  // namespace headwise
