// What was measured about the number of heads at fixed width and equal
// parameters: what the advice of head_advice.h rests on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headwise {

// Vaswani et al. 2017, Table 3 (A): newstest2013, width 512, 65 M parameters.
struct PublishedHeads {
  int64_t heads;
  double perplexity;
  double bleu;
};
inline constexpr PublishedHeads kVaswaniHeads[] = {{1, 5.29, 24.9},
                                                   {4, 5.00, 25.5},
                                                   {8, 4.92, 25.8},
                                                   {16, 4.91, 25.8},
                                                   {32, 5.01, 25.4}};

struct HeadSweep {
  struct Point {
    int64_t heads;
    double loss;
  };
  int64_t width = 0;
  bool ours = false;  // else published
  const char* source = "";
  const char* unit = "";  // of the losses
  double tie = 0;         // losses this near to the best are as good
  std::vector<Point> points;

  // The fewest heads whose loss ties with the best: wide heads can do what
  // narrow ones can.
  const Point& Best() const;
  std::vector<Point> Ties() const;
};

// By width.
std::span<const HeadSweep> MeasuredSweeps();

}  // namespace headwise
