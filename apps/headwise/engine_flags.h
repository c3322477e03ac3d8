// Where and how models run: the flags of every command that runs one.
#pragma once

#include <cstdint>
#include <string>

#include "command_line.h"
#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

struct EngineFlags {
  int threads = 0;
  std::string device = "cpu";
  std::string type = "auto";

  // Before anything is opened: throws for a device that is not here, and as
  // compute does.
  void Require() const;
  // Of the Context that the model runs in.
  ContextOptions context() const;
  // What the model computes in. Throws UsageError for what the device does not.
  DType compute() const;
};

// Why a word names no device, or "".
std::string WhyNotDevice(const std::string& word);

// `flags` must outlive the parse.
void AddEngineFlags(CommandLine line, EngineFlags& flags);

// For commands that choose what runs where themselves.
void AddThreadsFlag(CommandLine line, int& threads);

}  // namespace headwise
