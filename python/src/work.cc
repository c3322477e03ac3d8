// Door: work.h.
#include "work.h"

namespace headwise::python {

bool Work::Due() {
  const Clock::time_point now = Clock::now();
  if (now < next_) return false;
  next_ = now + kPause;
  return true;
}

void Work::Look() {
  if (Due()) Call([] {});
}

OnProgress Work::on_progress() {
  return [this](std::string_view stage, double done, double total) {
    const bool ends = total > 0 && done >= total;
    if (!Due() && !ends) return;
    Call([&] {
      if (!progress_.is_none()) progress_(stage, done, total);
    });
  };
}

}  // namespace headwise::python
