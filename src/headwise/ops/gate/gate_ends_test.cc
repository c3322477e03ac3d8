// What gates do at their ends, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "headwise/ops/gate/gate.h"
#include "headwise/ops/test_values.h"
#include "headwise/tensor/slice.h"

namespace headwise::gate_ends_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

template <typename Values>
auto Matrix(Values& values, int64_t rows) {
  return Reshaped(ViewOf(values),
                  {rows, static_cast<int64_t>(values.size()) / rows});
}

TEST(Gate, TheReferencesSpansFallWithTheDistance) {
  Context context({1, "gate:reference"});
  Floats table(7), dspans = {0};
  const Floats span = {0.5f}, dtable = {1, 1, 1, 1, 1, 1, 1};
  const SpanProblem problem = {.ramp = 2, .limit = 2, .reach = 3};
  SpanForward(context, problem, ViewOf(span), Matrix(table, 1));
  // z is 1: m is 1, 1, 1/2, 0.
  const float half = std::log(0.5f);
  const float never = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(table, ElementsAre(never, half, 0, 0, 0, half, never));
  SpanBackward(context, problem, ViewOf(span),
               {Matrix(dtable, 1), 0.25f, ViewOf(dspans)});
  // Twice ∂ ln m / ∂ span = limit / (ramp · m), and the penalty.
  EXPECT_FLOAT_EQ(dspans[0], 2 * 2 / (2 * 0.5f) + 0.25f);
}

TEST(Gate, ARouterThatKnowsNothingGivesGatesOfOne) {
  Context context({1, ""});
  for (const int64_t shared : {0, 2}) {
    const int64_t heads = 5, width = shared > 0 ? heads + 2 : heads;
    Floats routes(3 * width, 0.5f), gates(3 * heads);
    Doubles chosen(heads - shared);
    RouteForward(context, {.shared = shared, .active = heads},
                 {.routes = Matrix(routes, 3),
                  .gates = Matrix(gates, 3),
                  .chosen = ViewOf(chosen)});
    for (const float gate : gates) EXPECT_FLOAT_EQ(gate, 1);
    for (const double share : chosen) EXPECT_DOUBLE_EQ(share, 1);
  }
}

TEST(Gate, OfEquallyLikelyHeadsTheFirstAreChosen) {
  Context context({1, ""});
  Floats routes = {1, 3, 3, 3}, gates(4);
  Doubles chosen(4);
  RouteForward(context, {.shared = 0, .active = 2},
               {.routes = Matrix(routes, 1),
                .gates = Matrix(gates, 1),
                .chosen = ViewOf(chosen)});
  EXPECT_EQ(gates[0], 0);
  EXPECT_GT(gates[1], 0);
  EXPECT_GT(gates[2], 0);
  EXPECT_EQ(gates[3], 0);
  EXPECT_THAT(chosen, ElementsAre(0, 1, 1, 0));
}

TEST(Gate, AConcreteGateClosesAndOpensForGood) {
  Context context({1, ""});
  const Floats log_alpha = {-9, 9};
  const std::vector<int32_t> starts = {0, 1};
  Floats gates(2), slopes(2);
  Doubles open(2);
  ConcreteForward(context, {},
                  {.log_alpha = ViewOf(log_alpha),
                   .starts = ViewOf(starts),
                   .gates = Matrix(gates, 1),
                   .slopes = Matrix(slopes, 1),
                   .open = ViewOf(open)});
  EXPECT_THAT(gates, ElementsAre(0, 1));
  EXPECT_THAT(slopes, ElementsAre(0, 0));
  EXPECT_LT(open[0], 0.01);
  EXPECT_GT(open[1], 0.99);
}

TEST(Gate, WhatDoesNotFitIsNamed) {
  Context context({1, ""});
  Floats two(2), four(4), six(6);
  Doubles sums(2);
  const std::vector<int32_t> starts = {0, 1, 3}, wrong = {0, 2, 1};
  const auto sequences = [&](const std::vector<int32_t>& from,
                             const ConstTensorView& factors) {
    return ErrorOf([&] {
      GateSequences(context, ViewOf(from), factors, {}, Matrix(six, 3));
    });
  };
  EXPECT_EQ(sequences(starts, Matrix(four, 2)), "");
  EXPECT_THAT(sequences(starts, Matrix(six, 3)),
              HasSubstr("factors f32 [2, 2]"));
  EXPECT_THAT(sequences(wrong, Matrix(four, 2)),
              HasSubstr("starts that ascend from 0 to 3; found from 0 to 1"));
  EXPECT_THAT(ErrorOf([&] {
                ConcreteForward(context, {},
                                {.log_alpha = ViewOf(two),
                                 .starts = ViewOf(starts),
                                 .gates = Matrix(six, 3)});
              }),
              HasSubstr("slopes f32 [2, 2]; found none"));
  EXPECT_THAT(ErrorOf([&] {
                RouteForward(context, {.shared = 1, .active = 3},
                             {.routes = Matrix(six, 3),
                              .gates = Matrix(six, 3),
                              .chosen = ViewOf(sums)});
              }),
              HasSubstr("0 ≤ shared ≤ active ≤ heads"));
  EXPECT_THAT(ErrorOf([&] {
                SpanForward(context, {.ramp = 1, .limit = 4, .reach = 2},
                            ViewOf(two), Matrix(six, 2));
              }),
              HasSubstr("table f32 [2, 5]"));
  EXPECT_THAT(
      ErrorOf([&] { MarkActive(context, Matrix(six, 3), ViewOf(two)); }),
      HasSubstr("active i32 [2]"));
}

}  // namespace
}  // namespace headwise::gate_ends_test
