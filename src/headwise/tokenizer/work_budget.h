// What one text may cost. A tokenizer's files are not to be trusted: a few
// rules in a row can make gigabytes of a word, or look at it for days.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headwise {

// For one call of Encode or Decode, on the thread that made it. Real
// tokenizers stay a hundred times below both limits.
class WorkBudget {
 public:
  explicit WorkBudget(size_t text_bytes);

  // Throws Error(kUnsupported) when rules made more than this of the text.
  void CheckBytes(size_t bytes) const {
    if (bytes > most_bytes_) FailBytes();
  }
  // Throws Error(kUnsupported) when the processor was busy for too long. The
  // clock is asked every 32nd time only.
  void CheckTime() const {
    if (++asked_ % kAskEvery == 0) AskClock();
  }

 private:
  static constexpr uint32_t kAskEvery = 32;

  [[noreturn]] void FailBytes() const;
  void AskClock() const;

  size_t text_bytes_;
  size_t most_bytes_;
  double start_;         // of this thread's processor time, in seconds
  double most_seconds_;  // a text of a megabyte takes a tenth
  mutable uint32_t asked_ = 0;
};

}  // namespace headwise
