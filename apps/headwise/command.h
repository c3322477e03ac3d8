// A command of the program. Each has its own cmd_*.cc, which
// defines one `const Command`; main.cc holds the table of them.
#pragma once

#include <functional>
#include <stdexcept>

#include "command_line.h"

namespace headwise {

enum class Group { kUnderstand, kTrain, kAnalyse, kPrune, kTools };

// Exit codes. Errors of the library give kFailed, of the command line kUsage.
inline constexpr int kSucceeded = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

struct Command {
  const char* name;
  Group group;
  const char* summary;   // one line of `headwise --help`
  const char* examples;  // lines "  headwise …" below the command's --help
  // Declares arguments and flags; what it returns runs once they are parsed
  // and gives the exit code. It prints results on stdout and throws
  // headwise::Error for what went wrong, or UsageError for a combination of
  // flags that makes no sense.
  std::function<int()> (*setup)(CommandLine line);
  // What takes less memory when it is less, said when that runs out; "" for
  // what commands of its group have in common.
  const char* lower = "";
  // Shares its work among the processes that mpirun starts (ranks.h).
  bool ranks = false;
};

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace headwise
