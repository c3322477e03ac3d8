// Holds a Context for the calling thread while a call is on, so that a second
// thread that takes the same Context gets an error and not wrong numbers. Calls
// inside a call of the same thread are free to do so.
#pragma once

#include <atomic>
#include <thread>

#include "headwise/context.h"

namespace headwise {

class ContextUse {
 public:
  // Throws Error(kInvalidArgument) while another thread's call is on.
  explicit ContextUse(Context& context) {
    const std::thread::id self = std::this_thread::get_id();
    std::thread::id user = context.user_.load(std::memory_order_relaxed);
    if (user == self) return;
    user = {};
    if (!context.user_.compare_exchange_strong(
            user, self, std::memory_order_acquire, std::memory_order_relaxed)) {
      ThrowBusy();
    }
    held_ = &context;
  }
  ~ContextUse() {
    if (held_ != nullptr) held_->user_.store({}, std::memory_order_release);
  }
  ContextUse(const ContextUse&) = delete;
  ContextUse& operator=(const ContextUse&) = delete;

 private:
  [[noreturn]] static void ThrowBusy();

  Context* held_ = nullptr;
};

}  // namespace headwise
