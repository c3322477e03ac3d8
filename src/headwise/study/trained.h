// What studies that train share: seeds and steps by request, how far the study
// is, means over seeds. What they train: one attention module (toy.h) or a
// small language model (tiny_model.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/study/study.h"

namespace headwise {

// 1, or 1 … 3 for a full study.
std::vector<uint64_t> StudySeeds(const StudyRequest& request);

// `quick` or `full` steps times the request's effort, at least 1.
int64_t StudySteps(const StudyRequest& request, int64_t quick, int64_t full);

// Tells how far a study is, and ends it when it is to stop. One a study.
class StudyClock {
 public:
  // The request must outlive it. total: ticks of the whole study.
  StudyClock(const StudyRequest& request, std::string name, int64_t total);

  // One step is done. Throws Error(kCancelled).
  void Tick();

 private:
  const StudyRequest& request_;
  std::string name_;
  double total_;
  double done_ = 0;
};

// The mean over seeds with its 95 % interval (Student's t); ±∞ for one.
Interval OverSeeds(std::span<const double> values);

// The mean of a − b over paired sequences, with a bootstrap interval.
Interval PairedDifference(std::span<const double> a, std::span<const double> b);

}  // namespace headwise
