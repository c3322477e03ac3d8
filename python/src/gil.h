// Letting go of Python's lock and taking it again, also while Python ends:
// whoever then comes too late waits for the end of the process. (Python ends a
// thread where it stands, by unwinding it, and C++ aborts on the way.)
#pragma once

#include <cxxabi.h>

#include <stop_token>

#include "binding.h"

namespace headwise::python {

// Whether Python ends, and not by this thread.
bool IsTooLate();
// Does not return. Without the lock.
[[noreturn]] void WaitForTheEnd();

// The lock is not held while it lives.
class Released {
 public:
  Released() : state_(PyEval_SaveThread()) {}
  ~Released() {
    if (IsTooLate()) WaitForTheEnd();
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind&) {
      WaitForTheEnd();
    }
  }
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  PyThreadState* state_;
};

// Calls f, which calls Python, with the lock held.
template <typename F>
void WithPython(F&& f) {
  if (IsTooLate()) WaitForTheEnd();
  try {
    const py::gil_scoped_acquire held;
    f();
  } catch (abi::__forced_unwind&) {
    WaitForTheEnd();
  }
}

// A thread that works for Python, from the call to its end. Made and destroyed
// without the lock.
class Worker {
 public:
  explicit Worker(std::stop_source stop);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

 private:
  std::stop_source stop_;
};

// When Python ends, work of threads that it does not wait for is stopped.
void AddEnding();

}  // namespace headwise::python
