// A thread that waits for signals, since little may be done inside a handler.
// Door: interrupt.h.
#include "interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

namespace headwise {

std::stop_token StopOnInterrupt() {
  static std::stop_source source = [] {
    std::stop_source made;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::thread([signals, made]() mutable {
      int signal = 0;
      sigwait(&signals, &signal);
      made.request_stop();
      sigwait(&signals, &signal);
      ::_exit(128 + signal);
    }).detach();
    return made;
  }();
  return source.get_token();
}

}  // namespace headwise
