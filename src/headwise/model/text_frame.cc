// Door: text_frame.h.
#include "headwise/model/text_frame.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

// The tokens that the tokenizer adds before and after any text.
TokenFrame TemplateOf(const Tokenizer& tokenizer) {
  const Encoding encoding = tokenizer.Encode("a");
  TokenFrame frame;
  size_t begin = 0, end = encoding.size();
  while (begin < end && encoding.added[begin] != 0) {
    frame.before.push_back(encoding.ids[begin++]);
  }
  while (end > begin && encoding.added[end - 1] != 0) --end;
  frame.after.assign(encoding.ids.begin() + static_cast<int64_t>(end),
                     encoding.ids.end());
  return frame;
}

// A token that may begin texts, and who names it.
struct NamedToken {
  std::vector<int32_t> ids;  // empty: none is known
  std::string by;
};

NamedToken KnownToken(const Tokenizer& tokenizer, const ModelConfig& config,
                      std::vector<int32_t> by_template) {
  if (!by_template.empty()) {
    return {std::move(by_template), "the tokenizer's template adds it"};
  }
  if (tokenizer.bos().token) {
    if (const auto id = tokenizer.Id(*tokenizer.bos().token)) {
      return {{*id}, "bos_token of tokenizer_config.json names it"};
    }
  }
  if (config.bos < 0) return {};
  return {{static_cast<int32_t>(config.bos)},
          "bos_token_id of config.json names it"};
}

// The rule of the header, but for what was asked.
std::pair<bool, std::string> ByFiles(const BosFacts& facts, bool in_template,
                                     const NamedToken& known) {
  if (known.ids.empty()) return {false, "no file names one"};
  if (facts.add == true) return {true, "tokenizer_config.json: add_bos_token"};
  if (facts.opens_chat) return {true, "the chat template begins with it"};
  if (facts.add == false) {
    return {false, "tokenizer_config.json: add_bos_token is false"};
  }
  if (!in_template && facts.null_token) {
    return {false, "tokenizer_config.json: bos_token is null"};
  }
  return {true, known.by};
}

// Sets what stands before a text as the rule says.
void SetBegin(const Tokenizer& tokenizer, const ModelConfig& config,
              TokenFrame& frame) {
  const BosFacts& facts = tokenizer.bos();
  const bool in_template = !frame.before.empty();
  NamedToken known = KnownToken(tokenizer, config, std::move(frame.before));
  frame.before.clear();
  if (facts.asked == BosChoice::kNo) {
    frame.why = "asked for none";
    return;
  }
  if (facts.asked == BosChoice::kYes) {
    if (known.ids.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"bos", "a token that begins texts",
                   "none in the tokenizer's files or in config.json",
                   "set bos_token_id in config.json"});
    }
    frame.before = std::move(known.ids);
    frame.why = "asked for";
    return;
  }
  // Only causal models have a rule of their own; others follow the template.
  auto [begins, why] =
      config.causal
          ? ByFiles(facts, in_template, known)
          : std::pair(in_template,
                      std::string(in_template ? known.by
                                              : "the tokenizer's template "
                                                "adds none"));
  if (begins) frame.before = std::move(known.ids);
  frame.why = std::move(why);
}

}  // namespace

TokenFrame FrameOf(const Tokenizer& tokenizer, const ModelConfig& config) {
  TokenFrame frame = TemplateOf(tokenizer);
  SetBegin(tokenizer, config, frame);
  if (config.causal) frame.after.clear();
  if (config.encoder_decoder() && !config.eos.empty() &&
      (frame.after.empty() || frame.after.back() != config.eos[0])) {
    frame.after.push_back(static_cast<int32_t>(config.eos[0]));
  }
  return frame;
}

TokenFrame FrameOf(const ModelConfig& config) {
  TokenFrame frame;
  frame.why = "no file names one";
  if (config.causal && config.bos >= 0) {
    frame.before.push_back(static_cast<int32_t>(config.bos));
    frame.why = "bos_token_id of config.json names it";
  }
  return frame;
}

TokenFrame TargetFrameOf(const ModelConfig& config) {
  TokenFrame frame;
  if (config.decoder_start >= 0) {
    frame.before.push_back(static_cast<int32_t>(config.decoder_start));
    frame.why = "decoder_start_token_id of config.json";
  }
  return frame;
}

Encoding Framed(const Encoding& encoding, const TokenFrame& frame) {
  return Framed(encoding, frame, 0, encoding.size());
}

Encoding Framed(const Encoding& encoding, const TokenFrame& frame, size_t begin,
                size_t end) {
  Encoding result;
  const auto add_frame = [&](const std::vector<int32_t>& ids) {
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.spans.resize(result.ids.size());
    result.segments.resize(result.ids.size(), 0);
    result.added.resize(result.ids.size(), 1);
  };
  const auto take = [&](const auto& from, auto& to) {
    to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(begin),
              from.begin() + static_cast<std::ptrdiff_t>(end));
  };
  add_frame(frame.before);
  take(encoding.ids, result.ids);
  take(encoding.spans, result.spans);
  take(encoding.segments, result.segments);
  take(encoding.added, result.added);
  add_frame(frame.after);
  return result;
}

}  // namespace headwise
