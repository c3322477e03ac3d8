// How two models' speeds are measured, by the means of bench.
#pragma once

#include <optional>
#include <string>

#include "bench/measure.h"
#include "headwise/context.h"
#include "headwise/prune.h"

namespace headwise {

// One thread is timed by its processor time, several by the clock. What it
// gives must not outlive it.
class PairTimer {
 public:
  TimePair On(const Context& context);
  // Of a machine that was busy, or "".
  const std::string& note() const { return note_; }

 private:
  std::optional<bench::LoadWatch> watch_;  // since the first measurement
  std::string note_;
};

}  // namespace headwise
