// Progress on standard error: a bar with the time left on a terminal, a line
// now and then otherwise.
#pragma once

#include <chrono>
#include <string>

#include "headwise/base/progress.h"
#include "headwise/progress.h"

namespace headwise {

class ProgressBar {
 public:
  ProgressBar();
  // Wipes the bar, so that what follows stands on a clean line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Must not outlive the bar.
  ProgressCallback callback() {
    return [this](const Progress& progress) { Show(progress); };
  }
  // The same for the public headers, which do not say what is counted. unit: of
  // stages that count one thing here and another there.
  OnProgress on_progress(const char* unit = "");
  void Show(const Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_ = false;
  int width_ = 80;
  bool drawn_ = false;
  std::string stage_;
  double begun_at_ = 0;  // Progress::done when the stage was first seen
  Clock::time_point begun_;
  Clock::time_point shown_;
};

}  // namespace headwise
