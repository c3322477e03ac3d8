// Asks the terminal and the environment. Door: console.h.
#include "console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace headwise {
namespace {

std::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
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

}  // namespace headwise
