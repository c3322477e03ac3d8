// Door: past_context.h.
#include "past_context.h"

#include <algorithm>

#include "console.h"
#include "free_memory.h"
#include "headwise/base/byte_size.h"
#include "headwise/error.h"
#include "headwise/model/summary.h"

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

void RequireRoom(const ModelConfig& config, int64_t tokens) {
  const double needed = CostOf(config, tokens).stream_bytes;
  const auto free = FreeMemory();
  if (!free || needed <= static_cast<double>(*free)) return;
  throw Error(ErrorCode::kOutOfMemory,
              {"memory",
               fmt::format("{} for a run of {} tokens at once",
                           ByteSize(static_cast<uint64_t>(needed)), tokens),
               "none", ""});
}

int64_t Longest(std::span<const TokenWindow> windows) {
  int64_t most = 0;
  for (const TokenWindow& window : windows) {
    most = std::max({most, window.source.size(), window.target.size()});
  }
  return most;
}

int64_t ShortContext(const ModelConfig& config, int64_t asked) {
  constexpr int64_t kShort = 256;
  return asked > 0 ? asked : std::min(kShort, config.context);
}

}  // namespace headwise
