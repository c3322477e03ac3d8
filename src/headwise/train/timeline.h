// When a rank did what, for viewers of traces (ui.perfetto.dev): the spans of
// a run's first steps. On a device, when its work was asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "headwise/dist/group.h"

namespace headwise {

// Several threads may write at a time.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Row : uint8_t { kCompute, kReduce };
  static constexpr int64_t kMostSteps = 20;

  // Waits for the other ranks: their times count from here.
  explicit Timeline(dist::Group& group);

  // Nothing is kept after the first kMostSteps.
  void BeginStep();
  void Add(Row row, std::string name, Clock::time_point begin,
           Clock::time_point end);

  // All ranks' spans as one file, which the first rank writes: objects of
  // Chrome's trace format, times in µs, a process a rank and a thread a row.
  // Every rank calls it.
  void Write(dist::Group& group, const std::filesystem::path& file) const;

 private:
  struct Span {
    Row row;
    std::string name;
    double begin, seconds;
  };

  Clock::time_point origin_;
  mutable std::mutex mutex_;
  int64_t steps_ = 0;
  std::vector<Span> spans_;
};

// Spans end to end of one thread; timeline: null: none are kept.
class Laps {
 public:
  Laps(Timeline* timeline, Timeline::Row row)
      : timeline_(timeline), row_(row), begin_(Timeline::Clock::now()) {}
  // The next begins now: what passed since the last is no span.
  void Begin() { begin_ = Timeline::Clock::now(); }
  void End(const std::string& name) {
    if (timeline_ == nullptr) return;
    const auto now = Timeline::Clock::now();
    timeline_->Add(row_, name, begin_, now);
    begin_ = now;
  }

 private:
  Timeline* timeline_;
  Timeline::Row row_;
  Timeline::Clock::time_point begin_;
};

}  // namespace headwise
