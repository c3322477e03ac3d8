// A thread that waits for the handler's word, since little may be done inside
// a handler. Signals are not blocked and waited for instead: libraries start
// threads before main, which would still take them. Door: interrupt.h.
#include "interrupt.h"

#include <semaphore.h>
#include <signal.h>

#include <thread>

namespace headwise {
namespace {

sem_t interrupted;

void Handle(int) { sem_post(&interrupted); }

// A second signal finds the default action again and ends the program.
void Catch(int signal) {
  struct sigaction action = {};
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART | SA_RESETHAND;
  sigaction(signal, &action, nullptr);
}

}  // namespace

std::stop_token StopOnInterrupt() {
  static std::stop_source source = [] {
    std::stop_source made;
    sem_init(&interrupted, 0, 0);
    std::thread([made]() mutable {
      while (sem_wait(&interrupted) != 0) {
      }
      made.request_stop();
    }).detach();
    Catch(SIGINT);
    Catch(SIGTERM);
    return made;
  }();
  return source.get_token();
}

}  // namespace headwise
