// Where and how models run: the flags of every command that runs one.
#pragma once

#include <cstdint>
#include <string>

#include "command_line.h"
#include "headwise/context.h"
#include "headwise/model/model.h"
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

// Throws Error(kOutOfMemory) where the context's device has not the room that a
// model's weights in its type, and the caches and activations of `tokens`
// tokens, will take: before any of it is copied there. The host is not asked.
void RequireRoom(Context& context, const Model& model, int64_t tokens);
// The same of known numbers, in bytes.
void RequireRoom(Device device, double weights, double run, double free);

// Why a word names no device, or "".
std::string WhyNotDevice(const std::string& word);

// `flags` must outlive the parse.
void AddEngineFlags(CommandLine line, EngineFlags& flags);

// For commands that choose what runs where themselves.
void AddThreadsFlag(CommandLine line, int& threads);

}  // namespace headwise
