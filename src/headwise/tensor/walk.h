// N views of one shape as few, long runs of elements: what a loop over all
// elements walks along, whatever their strides.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "headwise/tensor.h"

namespace headwise {

// The last axis is innermost; axes that lie end to end in all views are one.
template <int kViews>
class Walk {
 public:
  using Places = std::array<int64_t, kViews>;  // one a view, in elements

  explicit Walk(const std::array<ConstTensorView, kViews>& views) {
    shape_[0] = 1;
    steps_[0].fill(1);
    int axes = 0;
    for (int i = 0; i < views[0].rank; ++i) {
      const int64_t count = views[0].shape[i];
      size_ *= count;
      if (count == 1) continue;
      bool joins = axes > 0;
      for (int v = 0; v < kViews && joins; ++v) {
        joins = steps_[axes - 1][v] == views[v].stride[i] * count;
      }
      const int64_t before = joins ? shape_[axes - 1] : 1;
      if (!joins) ++axes;
      shape_[axes - 1] = before * count;
      for (int v = 0; v < kViews; ++v) {
        steps_[axes - 1][v] = views[v].stride[i];
      }
    }
    last_ = std::max(axes, 1) - 1;
  }

  int64_t size() const { return size_; }
  // Between neighbours of a run.
  const Places& step() const { return steps_[last_]; }

  // run(places, count) for the runs of elements [begin, end) in order: where
  // they begin, and how many elements they have.
  template <typename Run>
  void ForRuns(int64_t begin, int64_t end, const Run& run) const {
    std::array<int64_t, kMaxRank> at{};
    Places places{};
    int64_t left = begin;
    for (int i = last_; i >= 0; --i) {
      at[i] = left % shape_[i];
      left /= shape_[i];
      Move(places, i, at[i]);
    }
    while (begin < end) {
      const int64_t count = std::min(shape_[last_] - at[last_], end - begin);
      run(std::as_const(places), count);
      begin += count;
      at[last_] += count;
      Move(places, last_, count);
      for (int i = last_; i > 0 && at[i] == shape_[i]; --i) {
        Move(places, i, -at[i]);
        Move(places, i - 1, 1);
        at[i] = 0;
        ++at[i - 1];
      }
    }
  }

 private:
  void Move(Places& places, int axis, int64_t by) const {
    for (int v = 0; v < kViews; ++v) places[v] += by * steps_[axis][v];
  }

  int last_ = 0;  // axis
  int64_t size_ = 1;
  std::array<int64_t, kMaxRank> shape_{};
  std::array<Places, kMaxRank> steps_{};
};

}  // namespace headwise
