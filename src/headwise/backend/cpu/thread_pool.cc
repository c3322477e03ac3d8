// ThreadPool. Door: thread_pool.h.
#include "headwise/backend/cpu/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace headwise {
namespace {

// How long a thread looks for work (or for its end) before it sleeps. A woken
// thread starts on the core of the one that woke it and moves away only after
// milliseconds, so two threads would share one core through every short call.
constexpr std::chrono::microseconds kSpin(200);

// Looks between two yields: about twenty microseconds. Most work comes sooner,
// and a yield, a call of the system, would miss it for a microsecond.
constexpr int kLooks = 1024;

void Relax() {
#if defined(__aarch64__)
  __asm__ __volatile__("isb");
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

template <typename Ready, typename Wait>
void SpinUntil(const Ready& ready, Wait& wait) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int look = 0; look < kLooks; ++look) {
      if (ready()) return;
      wait();
    }
    std::this_thread::yield();  // others may need the core more
  } while (std::chrono::steady_clock::now() < end);
}

}  // namespace

// Brings one thread's stretch of the expected memory near, a little at a time.
class ThreadPool::Fetcher {
 public:
  Fetcher(const ThreadPool& pool, int worker) : pool_(pool), worker_(worker) {}

  void operator()() {
    const char* expected = pool_.expected_.load(std::memory_order_relaxed);
    if (expected != begun_) Begin(expected);
    Relax();
    if (left_ < kLines * kLineBytes) return;
    for (size_t line = 0; line < kLines; ++line) {
      __builtin_prefetch(reinterpret_cast<const void*>(next_), 0, 2);
      next_ += kLineBytes;
    }
    left_ -= kLines * kLineBytes;
  }

 private:
  static constexpr size_t kLineBytes = 64;
  static constexpr size_t kLines = 8;              // between two looks for work
  static constexpr size_t kMostBytes = 512 << 10;  // half a second-level cache

  void Begin(const char* expected) {
    begun_ = expected;
    const size_t stretch =
        pool_.expected_stretch_.load(std::memory_order_relaxed);
    next_ = reinterpret_cast<uintptr_t>(expected) + worker_ * stretch;
    left_ = std::min(stretch, kMostBytes);
  }

  const ThreadPool& pool_;
  const size_t worker_;
  const char* begun_ = nullptr;
  uintptr_t next_ = 0;  // a number: there may be nothing any more
  size_t left_ = 0;
};

ThreadPool::ThreadPool(int threads) : counters_(threads > 1 ? threads : 1) {
  workers_.reserve(threads > 1 ? threads - 1 : 0);
  try {
    for (int worker = 1; worker < threads; ++worker) {
      workers_.emplace_back([this, worker] { Work(worker); });
    }
  } catch (const std::system_error&) {
    // The system gives no more (memory for stacks, a limit of processes): fewer
    // threads work longer and come to the same results.
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Expect(const void* data, size_t bytes) {
  // A thread that sees one of the two without the other fetches in vain.
  expected_stretch_.store(bytes / threads(), std::memory_order_relaxed);
  expected_.store(static_cast<const char*>(data), std::memory_order_relaxed);
}

void ThreadPool::ParallelFor(int64_t tasks, const Task& run,
                             int64_t multiplications) {
  if (tasks <= 0) return;
  if (workers_.empty() || tasks == 1 || multiplications < kAlone) {
    for (int64_t t = 0; t < tasks; ++t) run(t, 0);
    return;
  }
  run_ = &run;
  tasks_ = tasks;
  next_.store(0, std::memory_order_relaxed);
  error_ = nullptr;
  gate_.fetch_and(~kClosed);
  {
    std::lock_guard lock(mutex_);
    ++generation_;
  }
  start_.notify_all();
  TakeTasks(0);
  gate_.fetch_or(kClosed);
  const auto empty = [this] { return gate_ == kClosed; };
  SpinUntil(empty, Relax);
  if (!empty()) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, empty);
  }
  if (error_) std::rethrow_exception(error_);
}

bool ThreadPool::Enter() {
  if ((gate_.fetch_add(1) & kClosed) == 0) return true;
  Leave();
  return false;
}

void ThreadPool::Leave() {
  if (gate_.fetch_sub(1) != (kClosed | 1)) return;
  // Under the lock, so that it falls not between the caller's look at gate_
  // and its sleep.
  std::lock_guard lock(mutex_);
  done_.notify_one();
}

void ThreadPool::TakeTasks(int worker) {
  for (;;) {
    const int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
    if (task >= tasks_) return;
    try {
      (*run_)(task, worker);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_.store(tasks_, std::memory_order_relaxed);
    }
  }
}

void ThreadPool::Work(int worker) {
  uint64_t seen = 0;
  Fetcher fetch(*this, worker);
  for (;;) {
    SpinUntil([&] { return HasWork(seen); }, fetch);
    if (!HasWork(seen)) {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return HasWork(seen); });
    }
    if (stop_) return;
    seen = generation_;
    if (!Enter()) continue;
    TakeTasks(worker);
    Leave();
  }
}

}  // namespace headwise
