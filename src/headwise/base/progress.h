// How far long work has come: the library tells, whoever started it shows.
#pragma once

#include <functional>
#include <string>

namespace headwise {

struct Progress {
  std::string stage;  // "profile", "ablate 5.1"
  double done = 0;
  double total = 0;  // 0: not known
  std::string unit;  // "tokens"
};

// Called from the thread that works, often: cheap, and it must not throw.
// An empty one is not called.
using ProgressCallback = std::function<void(const Progress&)>;

}  // namespace headwise
