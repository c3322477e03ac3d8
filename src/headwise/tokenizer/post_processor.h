// What happens to tokens after the model: templates that add [CLS] and its
// like, and spans that leave spaces out.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// Tokens of one text, or tokens that a template added (no text then).
struct EncodedPart {
  Encoding encoding;
  std::string_view text;
  // Which tokens are added ones, found in the text; ascending.
  std::vector<size_t> found;
};

// The token of an id, or null.
using TokenNames = std::function<const std::string*(TokenId)>;

// Immutable; threads may share one.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // One part per text comes in; they leave in the order of the result.
  virtual void Process(std::vector<EncodedPart>& parts, const TokenNames& names,
                       bool add_special_tokens) const = 0;
};

// The "post_processor" of a tokenizer.json; null gives one that does nothing.
// Throws Error(kCorrupt) or, for a type no reader knows, Error(kUnsupported).
std::unique_ptr<PostProcessor> MakePostProcessor(const JsonCursor& json);

// [CLS] first [SEP] and, for pairs, second [SEP] in segment 1.
std::unique_ptr<PostProcessor> MakeBertProcessor(TokenId cls, TokenId sep);

struct RobertaOptions {
  bool trim_offsets = true;
  bool add_prefix_space = true;
};
// <s> first </s> and, for pairs, </s> second </s>.
std::unique_ptr<PostProcessor> MakeRobertaProcessor(TokenId cls, TokenId sep,
                                                    RobertaOptions options);
// `before` the text and `after` it, whichever are given.
std::unique_ptr<PostProcessor> MakeSurroundProcessor(
    std::vector<TokenId> before, std::vector<TokenId> after);

}  // namespace headwise
