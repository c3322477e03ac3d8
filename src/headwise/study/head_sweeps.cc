// Door: head_sweeps.h.
#include "headwise/study/head_sweeps.h"

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
  static const std::vector<HeadSweep> sweeps = {Vaswani()};
  return sweeps;
}

}  // namespace headwise
