#include "headwise/backend/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace headwise::thread_pool_test {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      std::vector<int> hits(97, 0);
      pool.ParallelFor(97, [&](int64_t t, int worker) {
        ASSERT_LT(worker, threads);
        ++hits[t];
      });
      for (int h : hits) ASSERT_EQ(h, 1);
    }
  }
}

TEST(ThreadPool, ThrowsTheFirstErrorAndStaysUsable) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.ParallelFor(20,
                                [](int64_t t, int) {
                                  if (t == 7) throw std::runtime_error("7");
                                }),
               std::runtime_error);
  std::atomic<int> count{0};
  pool.ParallelFor(20, [&](int64_t, int) { ++count; });
  EXPECT_EQ(count, 20);
}

TEST(ThreadPool, WhatIsExpectedNeedNotExist) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    const std::vector<char> gone(100000);
    pool.Expect(gone.data(), gone.size());
    std::atomic<int> count{0};
    pool.ParallelFor(5, [&](int64_t, int) { ++count; });
    EXPECT_EQ(count, 5);
  }
  pool.Expect(nullptr, 0);
  pool.ParallelFor(5, [](int64_t, int) {});
}

TEST(ThreadPool, NoTasksIsFine) {
  ThreadPool pool(2);
  pool.ParallelFor(0, [](int64_t, int) { FAIL(); });
}

TEST(ThreadPool, LeavesLittleWorkToTheCallingThread) {
  ThreadPool pool(4);
  std::vector<int> workers(100, -1);
  pool.ParallelFor(
      100, [&](int64_t task, int worker) { workers[task] = worker; },
      ThreadPool::kAlone - 1);
  EXPECT_EQ(workers, std::vector<int>(100, 0));
}

}  // namespace
}  // namespace headwise::thread_pool_test
