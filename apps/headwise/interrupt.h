// Ctrl-C as a request to stop: long work ends at the next good place and
// leaves what it has in order. A second Ctrl-C ends the program at once.
#pragma once

#include <stop_token>

namespace headwise {

// From the first call on, SIGINT and SIGTERM request a stop of this token
// instead of ending the program.
std::stop_token StopOnInterrupt();

}  // namespace headwise
