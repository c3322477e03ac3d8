// Reading examples. Door: examples.h.
#include "headwise/heads/importance/examples.h"

#include "headwise/error.h"
#include "headwise/runtime/text_source.h"

namespace headwise {

TextExample ExampleOf(const TokenWindow& window) {
  return {window.source.ids, window.target.ids, window.source.added};
}

std::vector<TextExample> ReadExamples(const std::vector<std::string>& paths,
                                      const WindowCutter& cutter,
                                      int64_t most_tokens) {
  TextSource source(paths);
  std::vector<TextExample> examples;
  int64_t tokens = 0;
  auto full = [&] { return most_tokens > 0 && tokens >= most_tokens; };
  while (!full()) {
    const std::optional<Document> document = source.Next();
    if (!document) break;
    for (const TokenWindow& window : cutter.Cut(*document)) {
      if (full()) break;
      examples.push_back(ExampleOf(window));
      tokens += window.source.size() + window.target.size();
    }
  }
  if (examples.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"text", "at least two tokens", "fewer", ""});
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
