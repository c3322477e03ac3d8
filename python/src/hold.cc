// Door: model.h.
#include <chrono>

#include "headwise/error.h"
#include "model.h"

namespace headwise::python {

Hold::Hold(PyModel& model, Work& work) : model_(model) {
  if (model.is_mine()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"model", "a call outside its own hooks and callbacks",
                 "one while it runs", "keep what you need and call later"});
  }
  while (!model.busy.try_lock_for(std::chrono::milliseconds(50))) {
    work.Look();
    if (work.stop().stop_requested()) {
      throw Error(ErrorCode::kCancelled, {"model", "", "stopped", ""});
    }
  }
  model.user = std::this_thread::get_id();
}

Hold::~Hold() {
  model_.user = std::thread::id();
  model_.busy.unlock();
}

}  // namespace headwise::python
