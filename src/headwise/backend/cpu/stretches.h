// Work on one long piece of memory, shared by threads of which each walks
// through a stretch of its own: one long stream a thread, as prefetchers like
// it. Who is done with its own helps with the others'.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"

namespace headwise {

class Stretches {
 public:
  // About `pieces` pieces of equal size, the same number in each stretch.
  Stretches(ThreadPool& pool, int64_t pieces)
      : pool_(pool),
        length_(pieces < pool.threads()
                    ? 1
                    : (pieces + pool.threads() - 1) / pool.threads()),
        stretches_(pool.threads()) {}

  int64_t pieces() const { return length_ * pool_.threads(); }
  // Where the stretch of this piece ends.
  int64_t StretchEnd(int64_t piece) const {
    return (piece / length_ + 1) * length_;
  }

  // Calls run(piece) for every piece in [0, pieces()), from all threads.
  template <typename Run>
  void ForEach(const Run& run) {
    const int64_t count = pool_.threads();
    pool_.ParallelFor(count, [&](int64_t own, int) {
      for (int64_t s = 0; s < count; ++s) {
        const int64_t at = (own + s) % count;
        Stretch& stretch = stretches_[at];
        for (;;) {
          const int64_t step =
              stretch.taken.fetch_add(1, std::memory_order_relaxed);
          if (step >= length_) break;
          run(at * length_ + step);
        }
      }
    });
  }

 private:
  // In a cache line of its own: its thread takes one piece after another.
  struct alignas(64) Stretch {
    std::atomic<int64_t> taken{0};
  };

  ThreadPool& pool_;
  int64_t length_;
  std::vector<Stretch> stretches_;
};

}  // namespace headwise
