// Door: head_sweeps.h.
#include "headwise/study/advice/head_sweeps.h"

#include <algorithm>

namespace headwise {
namespace {

HeadSweep Vaswani() {
  HeadSweep sweep{512,
                  false,
                  "Vaswani et al. 2017, Table 3 (A): translation, six layers",
                  "perplexity",
                  0.02,
                  {}};
  for (const PublishedHeads& one : kVaswaniHeads) {
    sweep.points.push_back({one.heads, one.perplexity});
  }
  return sweep;
}

// Study head-count, revision 1, on the shipped text.
HeadSweep Width128() {
  return {128,
          true,
          "two layers on the shipped story, one seed (study head-count, "
          "revision 1)",
          "loss",
          0.02,
          {{1, 2.054},
           {2, 1.732},
           {4, 1.666},
           {8, 1.737},
           {16, 1.793},
           {32, 1.874},
           {64, 1.902},
           {128, 1.907}}};
}

}  // namespace

std::vector<HeadSweep::Point> HeadSweep::Ties() const {
  const double least = std::min_element(points.begin(), points.end(),
                                        [](const Point& a, const Point& b) {
                                          return a.loss < b.loss;
                                        })
                           ->loss;
  std::vector<Point> ties;
  for (const Point& point : points) {
    if (point.loss <= least + tie) ties.push_back(point);
  }
  return ties;
}

const HeadSweep::Point& HeadSweep::Best() const {
  const int64_t heads = Ties().front().heads;
  return *std::find_if(points.begin(), points.end(), [&](const Point& point) {
    return point.heads == heads;
  });
}

std::span<const HeadSweep> MeasuredSweeps() {
  static const std::vector<HeadSweep> sweeps = {Width128(), Vaswani()};
  return sweeps;
}

}  // namespace headwise
