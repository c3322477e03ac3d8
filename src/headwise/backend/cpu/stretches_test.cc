#include "headwise/backend/cpu/stretches.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace headwise::stretches_test {
namespace {

TEST(Stretches, EveryItemIsRunOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int64_t items : {0, 1, 4, 97}) {
      for (const StretchSteps steps : {StretchSteps{1, 1}, {2, 7}, {50, 50}}) {
        std::vector<int> hits(items, 0);
        ForStretches(pool, items, steps,
                     [&](int64_t begin, int64_t end, int64_t stretch_end) {
                       ASSERT_LT(begin, end);
                       ASSERT_LE(end, stretch_end);
                       ASSERT_LE(stretch_end, items);
                       for (int64_t i = begin; i < end; ++i) ++hits[i];
                     });
        for (const int h : hits) ASSERT_EQ(h, 1);
      }
    }
  }
}

TEST(Stretches, StepsShrinkTowardsTheEnd) {
  ThreadPool pool(1);
  std::vector<int64_t> steps;
  ForStretches(pool, 40, {2, 8}, [&](int64_t begin, int64_t end, int64_t) {
    steps.push_back(end - begin);
  });
  EXPECT_EQ(steps, (std::vector<int64_t>{8, 8, 6, 4, 3, 2, 2, 2, 2, 2, 1}));
}

TEST(Stretches, AnErrorReachesTheCaller) {
  ThreadPool pool(2);
  EXPECT_THROW(ForStretches(pool, 20, {1, 1},
                            [](int64_t begin, int64_t, int64_t) {
                              if (begin == 7) throw std::runtime_error("7");
                            }),
               std::runtime_error);
}

}  // namespace
}  // namespace headwise::stretches_test
