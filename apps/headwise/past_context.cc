// Door: past_context.h.
#include "past_context.h"

#include <algorithm>

#include "console.h"

namespace headwise {

void WarnPastContext(const ModelConfig& config, int64_t tokens) {
  if (config.positions != Positions::kRotary || tokens <= config.context) {
    return;
  }
  WriteStderr(
      "warning: [context] expected at most {} tokens at once, which "
      "the model was trained for; found {}; heads may do there what "
      "they do nowhere else\n",
      config.context, tokens);
}

int64_t Longest(std::span<const TokenWindow> windows) {
  int64_t most = 0;
  for (const TokenWindow& window : windows) {
    most = std::max({most, window.source.size(), window.target.size()});
  }
  return most;
}

}  // namespace headwise
