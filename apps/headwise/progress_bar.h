// Progress on standard error: a bar with the time left on a terminal, a line
// now and then otherwise.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "headwise/progress.h"

namespace headwise {

class ProgressBar {
 public:
  ProgressBar();
  // Wipes the bar, so that later text begins on a clean line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Must not outlive the bar. unit: what is counted by stages whose name does
  // not say it.
  OnProgress on_progress(const char* unit = "");
  void Show(std::string_view stage, double done, double total,
            std::string_view unit);

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_ = false;
  int width_ = 80;
  bool drawn_ = false;
  std::string stage_;
  double begun_at_ = 0;  // `done` when the stage was first seen
  Clock::time_point begun_;
  Clock::time_point shown_;
};

}  // namespace headwise
