// Reading examples. Door: examples.h.
#include "headwise/heads/importance/examples.h"

#include <utility>

#include "headwise/error.h"
#include "headwise/runtime/text_source.h"

namespace headwise {

std::vector<TokenWindow> ReadWindows(const std::vector<std::string>& paths,
                                     const WindowCutter& cutter,
                                     int64_t most_tokens) {
  TextSource source(paths);
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
                {"text", "at least two tokens", "fewer", ""});
  }
  return windows;
}

std::vector<TextExample> ExamplesOf(std::span<const TokenWindow> windows) {
  std::vector<TextExample> examples;
  for (const TokenWindow& window : windows) {
    examples.push_back(
        {window.source.ids, window.target.ids, window.source.added});
  }
  return examples;
}

ObjectiveOptions ObjectiveFor(const Tokenizer& tokenizer) {
  ObjectiveOptions options;
  for (const char* name : {"[MASK]", "<mask>"}) {
    const std::optional<TokenId> id = tokenizer.Id(name);
    if (id) options.mask_token = *id;
  }
  return options;
}

}  // namespace headwise
