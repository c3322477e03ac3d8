// Turns: sums that several tasks add to, in an order that does not depend on
// threads and without a copy per task.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace headwise {

// One counter per sum. A task waits until the tasks before it have added, adds,
// and calls the next. Whoever is waited for must have a lower task number: the
// pool starts tasks in order, so it is then already running, and the lowest one
// waits for nobody. Tasks must not throw between these calls.
class Turns {
 public:
  explicit Turns(size_t sums) : turns_(sums) {}

  // Until `before` others have added to the sum. Seldom waits: neighbours in
  // the order work on different sums.
  void Wait(size_t sum, int32_t before) const {
    for (int spins = 0; turns_[sum].load(std::memory_order_acquire) != before;
         ++spins) {
      if (spins > kSpins) std::this_thread::yield();
    }
  }
  void Next(size_t sum) { turns_[sum].fetch_add(1, std::memory_order_release); }

 private:
  static constexpr int kSpins = 1000;
  std::vector<std::atomic<int32_t>> turns_;
};

}  // namespace headwise
