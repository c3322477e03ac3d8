// The flags that describe a problem, shared by bench and explain: the fields of
// bench::Config, a problem file underneath them, and the operator's name.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/config.h"

namespace headwise {

struct ProblemFlags {
  std::string op;
  bench::Config config;
  std::string file;
  CLI::App* app = nullptr;

  // Declares them. The object must outlive the parse.
  void Declare(CLI::App& command);

  // The problems asked for: those of the file or the one default, with the
  // flags that were given laid over each. Throws UsageError for flags and
  // headwise::Error for files.
  std::vector<bench::Config> Problems() const;

  // Whether a flag of this field was given.
  bool Given(const std::string& field) const;
};

}  // namespace headwise
