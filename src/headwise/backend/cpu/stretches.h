// Work on one long piece of memory, shared by threads of which each walks
// through a stretch of its own: one long stream a thread, as prefetchers like
// it. Who is done with its own helps with the others'.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "headwise/backend/cpu/thread_pool.h"

namespace headwise {

// Items that a thread takes at a time: many while much is left, few at the end,
// so that all threads are done at about the same time.
struct StretchSteps {
  int64_t least = 1;
  int64_t most = 1;
};

// Calls run(begin, end, stretch_end) for items [begin, end) of [0, items), each
// once, from all threads; the thread is likely to go on up to stretch_end. One
// at a time on a pool.
template <typename Run>
void ForStretches(ThreadPool& pool, int64_t items, StretchSteps steps,
                  const Run& run) {
  const int64_t count = pool.threads();
  for (int64_t s = 0; s < count; ++s) {
    pool.counter(s).store(items * s / count, std::memory_order_relaxed);
  }
  pool.ParallelFor(count, [&](int64_t, int own) {
    for (int64_t s = 0; s < count; ++s) {
      const int64_t at = (own + s) % count;
      std::atomic<int64_t>& next = pool.counter(at);
      const int64_t stretch_end = items * (at + 1) / count;
      for (;;) {
        const int64_t left = stretch_end - next.load(std::memory_order_relaxed);
        if (left <= 0) break;
        const int64_t step = std::clamp(left / 4, steps.least, steps.most);
        const int64_t begin = next.fetch_add(step, std::memory_order_relaxed);
        if (begin >= stretch_end) break;
        run(begin, std::min(begin + step, stretch_end), stretch_end);
      }
    }
  });
}

}  // namespace headwise
