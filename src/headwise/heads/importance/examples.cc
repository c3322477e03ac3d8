// Reading examples. Door: examples.h.
#include "headwise/heads/importance/examples.h"

#include <optional>

namespace headwise {

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
