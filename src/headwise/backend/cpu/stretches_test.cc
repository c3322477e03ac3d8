#include "headwise/backend/cpu/stretches.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace headwise {
namespace {

TEST(Stretches, EveryPieceIsRunOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int64_t wanted : {0, 1, 4, 97}) {
      Stretches stretches(pool, wanted);
      EXPECT_GE(stretches.pieces(), wanted);
      std::vector<int> hits(stretches.pieces(), 0);
      stretches.ForEach([&](int64_t piece) { ++hits[piece]; });
      for (const int h : hits) ASSERT_EQ(h, 1);
    }
  }
}

TEST(Stretches, AStretchEndsWhereTheNextBegins) {
  ThreadPool pool(3);
  const Stretches stretches(pool, 12);
  EXPECT_EQ(stretches.StretchEnd(0), 4);
  EXPECT_EQ(stretches.StretchEnd(3), 4);
  EXPECT_EQ(stretches.StretchEnd(4), 8);
  EXPECT_EQ(stretches.StretchEnd(11), 12);
}

TEST(Stretches, AnErrorReachesTheCaller) {
  ThreadPool pool(2);
  Stretches stretches(pool, 20);
  EXPECT_THROW(stretches.ForEach([](int64_t piece) {
    if (piece == 7) throw std::runtime_error("7");
  }),
               std::runtime_error);
}

}  // namespace
}  // namespace headwise
