// Asks the terminal and the environment; writes. Door: console.h.
#include "console.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace headwise {
namespace {

// Holds SIGPIPE back, and takes it away again if it came: a reader of messages
// that left does not end the work, as one of results does.
class WithoutPipeSignal {
 public:
  WithoutPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutPipeSignal() {
    const timespec at_once = {};
    sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutPipeSignal(const WithoutPipeSignal&) = delete;
  WithoutPipeSignal& operator=(const WithoutPipeSignal&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
};

// The last message of a silenced process.
struct Silence {
  bool holds = false;
  std::string last;
};
Silence& TheSilence() {
  static Silence silence;
  return silence;
}

std::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void WriteBytes(std::string_view bytes) noexcept {
  const WithoutPipeSignal quiet;
  (void)!std::fwrite(bytes.data(), 1, bytes.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

Console StdoutConsole() {
  Console console;
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  winsize size{};
  if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 0) {
    console.width = size.ws_col;
  } else if (const int columns = std::atoi(Environment("COLUMNS").data());
             columns > 0) {
    console.width = columns;
  }
  console.width = std::clamp(console.width, 20, 200);
  console.color = terminal && Environment("NO_COLOR").empty() &&
                  Environment("TERM") != "dumb";
  return console;
}

void WriteText(std::string_view text) { fmt::print("{}", Visible(text)); }

void WriteColored(std::string_view text) {
  fmt::print("{}", VisibleDrawing(text));
}

void WriteJson(std::string_view json) { fmt::print("{}\n", VisibleJson(json)); }

void WriteStderr(std::string_view text) noexcept {
  if (TheSilence().holds) {
    TheSilence().last = text;
    return;
  }
  WriteBytes(Visible(text));
}

void Warn(std::span<const std::string> notices) {
  for (const std::string& notice : notices) {
    WriteStderr("warning: {}\n", notice);
  }
}

void WriteStatus(std::string_view text) noexcept {
  if (!TheSilence().holds) WriteBytes("\r\x1b[K" + Visible(text));
}

void SilenceStderr() { TheSilence().holds = true; }

void SpeakAs(std::string_view who) {
  TheSilence().holds = false;
  if (TheSilence().last.empty()) return;
  WriteStderr(std::string(who) + TheSilence().last);
}

}  // namespace headwise
