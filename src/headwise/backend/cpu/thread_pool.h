// A small owned pool. Work is cut into tasks that do not depend on the number
// of threads; whoever is free takes the next one. No nesting.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace headwise {

class ThreadPool {
 public:
  // `threads` workers, the calling thread being worker 0.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  using Task = std::function<void(int64_t task, int worker)>;

  // Runs run(t, worker) for every t in [0, tasks), tasks being started in
  // order. Returns when all are done; the first exception is thrown again here,
  // and tasks not yet started are then left out.
  void ParallelFor(int64_t tasks, const Task& run);

 private:
  void Work(int worker);
  void TakeTasks(int worker);
  bool HasWork(uint64_t seen) const { return stop_ || generation_ != seen; }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  // Written under mutex_ (busy_ but for its countdown), read without while a
  // thread still spins. generation_ is written last: it publishes the rest.
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
  std::exception_ptr error_;  // guarded by mutex_
  const Task* run_ = nullptr;
  int64_t tasks_ = 0;
  std::atomic<int64_t> next_{0};
};

}  // namespace headwise
