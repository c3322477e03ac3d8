// Where and how models run: the flags of every command that runs one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "command_line.h"
#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

struct EngineFlags {
  int threads = 0;
  std::string device = "cpu";
  std::string type = "auto";
  std::string weight_memory;

  // Before anything is opened: throws for a device that is not here, and as
  // compute does.
  void Require() const;
  // Of the Context that the model runs in.
  ContextOptions context() const;
  // What the model computes in. Throws UsageError for what the device does not.
  DType compute() const;
  // Bytes of OpenOptions::weight_memory. Throws UsageError for a GPU.
  std::optional<uint64_t> prepared_bytes() const;
};

// Why a word names no device, or "".
std::string WhyNotDevice(const std::string& word);

// `flags` must outlive the parse.
void AddEngineFlags(CommandLine line, EngineFlags& flags);

// --weight-memory, for commands that do nothing but run models which
// OpenTransformer opens.
void AddWeightMemoryFlag(CommandLine line, EngineFlags& flags);

// For commands that choose what runs where themselves.
void AddThreadsFlag(CommandLine line, int& threads);

}  // namespace headwise
