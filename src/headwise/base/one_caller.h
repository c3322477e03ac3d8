// One calling thread at a time: who holds an object that several threads must
// not use at once keeps the calling thread's id in it. A second thread gets an
// error and not wrong numbers; calls inside a call of the same thread are free.
#pragma once

#include <atomic>
#include <thread>

namespace headwise {

// The thread whose call is on; none: no thread's id.
using CallingThread = std::atomic<std::thread::id>;

class OneCaller {
 public:
  // What is used, and what the second thread should do, for the error.
  struct Rule {
    const char* where = "";
    const char* hint = "";
  };
  // Throws Error(kInvalidArgument) while another thread is in.
  OneCaller(CallingThread& thread, const Rule& rule) : OneCaller(thread) {
    if (!is_in_) ThrowBusy(rule);
  }
  // Does not throw: see is_in().
  explicit OneCaller(CallingThread& thread) {
    const std::thread::id self = std::this_thread::get_id();
    std::thread::id user = thread.load(std::memory_order_relaxed);
    is_in_ = user == self;
    if (is_in_) return;
    user = {};
    is_in_ = thread.compare_exchange_strong(
        user, self, std::memory_order_acquire, std::memory_order_relaxed);
    if (is_in_) held_ = &thread;
  }
  ~OneCaller() {
    if (held_ != nullptr) held_->store({}, std::memory_order_release);
  }
  OneCaller(const OneCaller&) = delete;
  OneCaller& operator=(const OneCaller&) = delete;

  // Whether the object is this thread's.
  bool is_in() const { return is_in_; }
  // Whether it was nobody's before.
  bool is_first() const { return held_ != nullptr; }

 private:
  [[noreturn]] static void ThrowBusy(const Rule& rule);

  CallingThread* held_ = nullptr;
  bool is_in_ = false;
};

}  // namespace headwise
