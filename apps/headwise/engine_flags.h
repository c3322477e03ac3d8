// Where and how models run: the flags of every command that runs one.
#pragma once

#include <string>

#include "command_line.h"
#include "headwise/context.h"

namespace headwise {

struct EngineFlags {
  int threads = 0;
  std::string device = "cpu";
  std::string type = "f32";

  // Of the Context that the model runs in.
  ContextOptions context() const;
};

// `flags` must outlive the parse, which refuses what this build cannot run.
void AddEngineFlags(CommandLine line, EngineFlags& flags);

// For commands that choose what runs where themselves.
void AddThreadsFlag(CommandLine line, int& threads);

}  // namespace headwise
