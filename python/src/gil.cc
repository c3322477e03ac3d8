// Threads that work while Python ends. Door: gil.h.
#include "gil.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace headwise::python {
namespace {

// Work looks at its stop a few times a second; what does not is left behind.
constexpr std::chrono::seconds kPatience{2};

struct Workers {
  std::mutex mutex;
  std::condition_variable fewer;
  std::vector<std::stop_source*> working;  // and not waiting for the end
  std::atomic<bool> python_ends = false;
  std::thread::id by = {};  // set before
};

// Never destroyed: threads wait here when the process ends.
Workers& TheWorkers() {
  static auto* const workers = new Workers;
  return *workers;
}

// Of this thread: work out of a callback stands above the work that calls it.
thread_local std::vector<std::stop_source*> own_work;

void Leave(std::stop_source* work) {
  Workers& workers = TheWorkers();
  {
    const std::lock_guard lock(workers.mutex);
    std::erase(workers.working, work);
  }
  workers.fewer.notify_all();
}

void EndWork(pid_t process) {
  Workers& workers = TheWorkers();
  workers.by = std::this_thread::get_id();
  workers.python_ends = true;
  if (getpid() != process) return;  // a fork has none of the threads
  const py::gil_scoped_release released;
  std::unique_lock lock(workers.mutex);
  for (std::stop_source* work : workers.working) work->request_stop();
  workers.fewer.wait_for(lock, kPatience,
                         [&] { return workers.working.empty(); });
}

}  // namespace

bool IsTooLate() {
  const Workers& workers = TheWorkers();
  return workers.python_ends && workers.by != std::this_thread::get_id();
}

void WaitForTheEnd() {
  for (std::stop_source* work : own_work) Leave(work);
  for (;;) pause();
}

Worker::Worker(std::stop_source stop) : stop_(std::move(stop)) {
  if (IsTooLate()) WaitForTheEnd();
  Workers& workers = TheWorkers();
  const std::lock_guard lock(workers.mutex);
  workers.working.push_back(&stop_);
  own_work.push_back(&stop_);
}

Worker::~Worker() {
  own_work.pop_back();
  Leave(&stop_);
}

void AddEnding() {
  py::module_::import("atexit").attr("register")(
      py::cpp_function([process = getpid()] { EndWork(process); }));
}

}  // namespace headwise::python
