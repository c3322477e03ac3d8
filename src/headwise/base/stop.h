// How long work ends that somebody stopped: by one error, wherever it stood.
#pragma once

#include <stop_token>
#include <string>
#include <utility>

#include "headwise/error.h"

namespace headwise {

// where: the work, as OnProgress calls it.
[[noreturn]] inline void ThrowStopped(std::string where) {
  throw Error(ErrorCode::kCancelled,
              {std::move(where), "", "", "stopped before the end"});
}

inline void ThrowIfStopped(const std::stop_token& stop, std::string where) {
  if (stop.stop_requested()) ThrowStopped(std::move(where));
}

}  // namespace headwise
