// Door: wait_limit.h.
#include "headwise/dist/wait_limit.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "headwise/error.h"

namespace headwise::dist {
namespace {

constexpr const char* kVariable = "HEADWISE_RANK_WAIT";

}  // namespace

void WaitLimit::Add(int whom, double seconds) {
  waited_ += seconds;
  if (is_none() || waited_ < seconds_) return;
  const std::string who =
      whom < 0 ? "any other rank" : "rank " + std::to_string(whom);
  throw Error(
      ErrorCode::kIo,
      {"ranks", fmt::format("a message of {} within {:g} s", who, seconds_),
       fmt::format("none in {:.0f} s", waited_), HowToWait()});
}

double RankWaitSeconds(const std::function<const char*(const char*)>& lookup,
                       double otherwise) {
  const char* text = lookup(kVariable);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end == '\0' && std::isfinite(seconds) && seconds >= 0) return seconds;
  throw Error(ErrorCode::kInvalidArgument,
              {"ranks", fmt::format("{} in seconds, 0 for no limit", kVariable),
               text, "unset it for the usual limit"});
}

double RankWaitSeconds(double otherwise) {
  return RankWaitSeconds([](const char* name) { return std::getenv(name); },
                         otherwise);
}

std::string HowToWait() {
  return fmt::format(
      "see whether all ranks run; {}=SECONDS waits longer, 0 without limit",
      kVariable);
}

}  // namespace headwise::dist
