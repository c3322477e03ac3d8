// A small owned pool. Work is cut into tasks that do not depend on the number
// of threads; whoever is free takes the next one. No nesting.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace headwise {

class ThreadPool {
 public:
  // `threads` workers, the calling thread being worker 0; fewer where the
  // system gives no more.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // What is run, borrowed: anything that is called as (task, worker). Unlike
  // std::function it takes no memory, which small calls would feel.
  class Task {
   public:
    template <typename Run>
    Task(const Run& run)  // NOLINT: implicit on purpose
        : run_(&run), call_([](const void* of, int64_t task, int worker) {
            (*static_cast<const Run*>(of))(task, worker);
          }) {}
    void operator()(int64_t task, int worker) const {
      call_(run_, task, worker);
    }

   private:
    const void* run_;
    void (*call_)(const void* of, int64_t task, int worker);
  };

  // Runs run(t, worker) for every t in [0, tasks), tasks being started in
  // order. Returns when all are done; the first exception is thrown again here,
  // and tasks not yet started are then left out.
  // Of fewer than kAlone multiplications, where the caller knows how many there
  // are, the calling thread does all: it is done before another has begun.
  static constexpr int64_t kAlone = int64_t{1} << 16;
  void ParallelFor(int64_t tasks, const Task& run,
                   int64_t multiplications = kAlone);

  // Memory that work to come will read from begin to end, each thread a
  // stretch of it (stretches.h): threads that wait bring theirs near, so that
  // memory is not idle while one thread alone works. A hint: the memory need
  // not exist any more.
  void Expect(const void* data, size_t bytes);

  // One number a thread, in a cache line of its own, for what shares out work
  // during a ParallelFor.
  std::atomic<int64_t>& counter(int64_t thread) {
    return counters_[thread].value;
  }

 private:
  class Fetcher;
  struct alignas(64) Counter {
    std::atomic<int64_t> value{0};
  };
  void Work(int worker);
  void TakeTasks(int worker);
  bool Enter();
  void Leave();
  bool HasWork(uint64_t seen) const { return stop_ || generation_ != seen; }

  std::vector<std::thread> workers_;
  std::vector<Counter> counters_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  // Written under mutex_, read without while a thread still spins.
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> stop_{false};
  // How many workers are at the work that is on, and whether it takes no more:
  // who wakes too late is not waited for. What follows changes only while it is
  // closed and empty.
  static constexpr int kClosed = 1 << 30;
  std::atomic<int> gate_{kClosed};
  std::exception_ptr error_;  // written under mutex_
  const Task* run_ = nullptr;
  int64_t tasks_ = 0;
  std::atomic<int64_t> next_{0};
  std::atomic<const char*> expected_{nullptr};
  std::atomic<size_t> expected_stretch_{0};  // bytes
};

}  // namespace headwise
