// Work that Python waits for: other Python threads run meanwhile, progress is
// told, and Ctrl-C ends it. Made and destroyed with the GIL held.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>

#include "binding.h"
#include "gil.h"
#include "headwise/progress.h"

namespace headwise::python {

class Work {
 public:
  // progress: called with (stage, done, total), or None.
  explicit Work(py::object progress = py::none())
      : progress_(std::move(progress)) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Both hold on to this.
  OnProgress on_progress();
  std::stop_token stop() const { return stop_.get_token(); }

  // From the working thread, without the GIL: hears of signals now and then.
  void Look();
  // The same, and calls Python; an error of it ends the work.
  template <typename F>
  void Call(F&& call) {
    if (failure_) return;
    WithPython([&] {
      try {
        ThrowSignals();
        call();
      } catch (py::error_already_set& error) {
        failure_ = error;
        stop_.request_stop();
      }
    });
  }

  // What f returns. An error of a callback goes before what f makes of it.
  template <typename F>
  auto Run(F&& f) {
    try {
      auto result = [&] {
        const Released released;
        const Worker worker(stop_);
        return f();
      }();
      if (failure_) throw *failure_;
      return result;
    } catch (const py::error_already_set&) {
      throw;
    } catch (...) {
      if (failure_) throw *failure_;
      throw;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kPause{50};

  static void ThrowSignals() {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  bool Due();

  py::object progress_;
  std::stop_source stop_;
  std::optional<py::error_already_set> failure_;
  Clock::time_point next_ = {};
};

}  // namespace headwise::python
