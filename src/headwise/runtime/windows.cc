// Cutting token windows. Door: windows.h.
#include "headwise/runtime/windows.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

// A window of fewer tokens of text has no attention to speak of.
constexpr size_t kLeastTokens = 2;

// Tokens [begin, end) of a text in a frame.
TokenRow RowOf(const Encoding& encoding, const TokenFrame& frame, size_t begin,
               size_t end) {
  Encoding framed = Framed(encoding, frame, begin, end);
  TokenRow row;
  row.ids = std::move(framed.ids);
  row.spans = std::move(framed.spans);
  row.added = std::move(framed.added);
  return row;
}

}  // namespace

int64_t ContextOf(const ModelConfig& config, int64_t asked) {
  const int64_t most = config.context > 0 ? config.context : kUnlimited;
  if (asked == 0) return std::min(most, kDefaultContext);
  // Rotary positions go on for ever, which no run does; tables end.
  const int64_t longest =
      config.open_positions() ? std::max(config.context, kOpenContext) : most;
  if (asked < 0 || asked > longest) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"context",
         "at most " + std::to_string(longest) + " tokens, which is " +
             (longest == config.context ? "what the model has positions for"
                                        : "what one window may take"),
         std::to_string(asked), "ask for a smaller context"});
  }
  return asked;
}

WindowCutter::WindowCutter(const Tokenizer& tokenizer,
                           const ModelConfig& config, WindowOptions options)
    : tokenizer_(tokenizer),
      pairs_(config.encoder_decoder()),
      context_(ContextOf(config, options.context)),
      frame_(FrameOf(tokenizer, config)),
      target_frame_(TargetFrameOf(config)) {
  const int64_t least = static_cast<int64_t>(kLeastTokens) + frame_.size();
  if (context_ < least) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"context",
         "at least " + std::to_string(least) + " tokens: two of text and " +
             std::to_string(frame_.size()) + " around them",
         std::to_string(context_), "ask for a larger context"});
  }
}

std::vector<TokenWindow> WindowCutter::Cut(const Document& document) const {
  if (pairs_) return CutPairs(document);
  const auto text = std::make_shared<const std::string>(document.text);
  const Encoding encoding =
      tokenizer_.Encode(*text, {.add_special_tokens = false});
  const size_t room = static_cast<size_t>(context_ - frame_.size());
  std::vector<TokenWindow> windows;
  for (size_t begin = 0; begin < encoding.size(); begin += room) {
    const size_t end = std::min(encoding.size(), begin + room);
    if (end - begin < kLeastTokens) break;
    TokenWindow window;
    window.source = RowOf(encoding, frame_, begin, end);
    window.source.text = text;
    window.name = document.name;
    window.argument = document.argument;
    window.offset = document.offset;
    SetKey(window);
    windows.push_back(std::move(window));
  }
  return windows;
}

std::vector<TokenWindow> WindowCutter::CutPairs(
    const Document& document) const {
  std::vector<TokenWindow> windows;
  size_t number = 0;
  for (size_t at = 0; at < document.text.size(); ++number) {
    const size_t end =
        std::min(document.text.find('\n', at), document.text.size());
    std::string line = document.text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const size_t tab = line.find('\t');
    if (tab == line.npos) {
      throw Error(ErrorCode::kInvalidArgument,
                  {document.name, "lines \"source<TAB>target\"",
                   "line " + std::to_string(number + 1) +
                       " of a piece without "
                       "a tab",
                   "an encoder–decoder reads both sides"});
    }
    TokenWindow window;
    for (const bool target : {false, true}) {
      const std::string text =
          target ? line.substr(tab + 1) : line.substr(0, tab);
      const TokenFrame& frame = target ? target_frame_ : frame_;
      const Encoding encoding =
          tokenizer_.Encode(text, {.add_special_tokens = false});
      const size_t room = static_cast<size_t>(context_ - frame.size());
      TokenRow row = RowOf(encoding, frame, 0, std::min(encoding.size(), room));
      row.text = std::make_shared<const std::string>(text);
      (target ? window.target : window.source) = std::move(row);
    }
    if (window.source.ids.empty() || window.target.ids.empty()) continue;
    window.name = document.name;
    window.argument = document.argument;
    SetKey(window);
    windows.push_back(std::move(window));
  }
  return windows;
}

std::vector<TokenWindow> ReadWindows(const std::vector<std::string>& paths,
                                     const WindowCutter& cutter,
                                     int64_t most_tokens) {
  return ReadWindows(TextSource(paths), cutter, most_tokens);
}

std::vector<TokenWindow> ReadWindows(TextSource source,
                                     const WindowCutter& cutter,
                                     int64_t most_tokens) {
  std::vector<TokenWindow> windows;
  int64_t tokens = 0;
  auto full = [&] { return most_tokens > 0 && tokens >= most_tokens; };
  while (!full()) {
    const std::optional<Document> document = source.Next();
    if (!document) break;
    for (TokenWindow& window : cutter.Cut(*document)) {
      if (full()) break;
      tokens += window.source.size() + window.target.size();
      windows.push_back(std::move(window));
    }
  }
  if (windows.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"text", "at least two tokens",
                 std::to_string(source.text_bytes()) + " bytes without two",
                 "give a longer text"});
  }
  return windows;
}

TokenWindow WindowOfIds(std::vector<int32_t> ids, int64_t added_before,
                        int64_t added_after) {
  TokenWindow window;
  TokenRow& row = window.source;
  row.ids = std::move(ids);
  row.spans.resize(row.ids.size());
  row.added.assign(row.ids.size(), 0);
  std::fill_n(row.added.begin(), added_before, 1);
  std::fill_n(row.added.rbegin(), added_after, 1);
  SetKey(window);
  return window;
}

void SetKey(TokenWindow& window) {
  const auto& source = window.source.ids;
  const auto& target = window.target.ids;
  window.key = XXH3_64bits(source.data(), source.size() * sizeof(int32_t));
  if (!target.empty()) {
    window.key = XXH3_64bits_withSeed(
        target.data(), target.size() * sizeof(int32_t), window.key);
  }
}

}  // namespace headwise
