// The flags that describe a problem, shared by bench and explain: the fields of
// bench::Config, a problem file underneath them, and the operator's name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/config.h"
#include "command_line.h"

namespace headwise {

struct ProblemFlags {
  std::string op;
  bench::Config config;
  std::string file;
  std::optional<CommandLine> line;

  // Declares them. The object must outlive the parse.
  // `ops`: which ones the command takes, for its help.
  void Declare(CommandLine command, const char* ops);

  // The problems asked for: those of the file or the one default, with the
  // flags that were given laid over each. Throws UsageError for flags and
  // headwise::Error for files.
  std::vector<bench::Config> Problems() const;

  // Whether a flag of this field was given.
  bool Given(const std::string& field) const;
};

}  // namespace headwise
