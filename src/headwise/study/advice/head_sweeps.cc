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

// Study head-count, revision 3: means over its five seeds.
HeadSweep Width256() {
  return {256,
          true,
          "six layers on 19th-century novels, means over five seeds (study "
          "head-count, revision 3)",
          "loss",
          0.015,
          {{1, 3.713},
           {2, 3.683},
           {4, 3.660},
           {8, 3.657},
           {16, 3.669},
           {32, 3.700}}};
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
  static const std::vector<HeadSweep> sweeps = {Width256(), Vaswani()};
  return sweeps;
}

}  // namespace headwise
