// Door: past_context.h.
#include "past_context.h"

#include <algorithm>

#include "console.h"

namespace headwise {

void WarnPastContext(const ModelConfig& config, int64_t tokens) {
  if (const std::string notice = PastContextNotice(config, tokens);
      !notice.empty()) {
    WriteStderr("warning: {}\n", notice);
  }
}

int64_t ShortContext(const ModelConfig& config, int64_t asked) {
  constexpr int64_t kShort = 256;
  return asked > 0 ? asked : std::min(kShort, config.context);
}

}  // namespace headwise
