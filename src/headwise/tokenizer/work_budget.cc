// Door: work_budget.h.
#include "headwise/tokenizer/work_budget.h"

#include <fmt/core.h>

#include <ctime>

#include "headwise/base/sanitized.h"
#include "headwise/error.h"

namespace headwise {
namespace {

// The character that grows most does so eleven times (U+FDFA by NFKD), and each
// byte of that may become two (ByteLevel).
constexpr size_t kMostGrowth = 32;
constexpr size_t kFreeBytes = 4096;

constexpr double kFreeSeconds = 0.5;
// Sanitizers make the same work forty times as long.
constexpr double kFreeSanitizedSeconds = 1.2;
constexpr double kSecondsPerByte = 2e-6;

// Processor time does not run while others have the machine.
double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

WorkBudget::WorkBudget(size_t text_bytes)
    : text_bytes_(text_bytes),
      most_bytes_(kMostGrowth * text_bytes + kFreeBytes),
      start_(ThreadSeconds()),
      most_seconds_((IsSanitized() ? kFreeSanitizedSeconds : kFreeSeconds) +
                    kSecondsPerByte * static_cast<double>(text_bytes)) {}

void WorkBudget::FailBytes() const {
  throw Error(
      ErrorCode::kUnsupported,
      {"tokenize",
       fmt::format("rules that make at most {} bytes of a text of {}",
                   most_bytes_, text_bytes_),
       "more", "the tokenizer's Replace, Prepend or ByteLevel rules add up"});
}

void WorkBudget::AskClock() const {
  if (ThreadSeconds() - start_ <= most_seconds_) return;
  throw Error(
      ErrorCode::kUnsupported,
      {"tokenize",
       fmt::format("rules that take at most {:.1f} s for a text of {} bytes",
                   most_seconds_, text_bytes_),
       "more",
       "an expression that tries every way to match, such as (a+)+, is one"});
}

}  // namespace headwise
