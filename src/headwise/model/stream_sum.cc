// Sums of steps in the stream. Door: stream_sum.h.
#include "headwise/model/stream_sum.h"

namespace headwise {

std::string WhyNotSum(const Stack& stack) {
  for (const Block& block : stack.blocks) {
    for (const BlockStep& step : block.steps()) {
      if (step.is_plain()) continue;
      const char* why = step.joined       ? "a norm of the sum"
                        : step.after      ? "a norm of what is added"
                        : step.scale != 1 ? "a scale of what is added"
                                          : "a scale of the sum";
      return block.name() + "." + step.name() + ": " + why;
    }
  }
  return "";
}

}  // namespace headwise
