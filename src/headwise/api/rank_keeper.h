// What a ranking has computed, kept in a file while it runs, so that one that
// was interrupted or killed goes on.
#pragma once

#include <chrono>
#include <string>

#include "headwise/heads/importance/kept_losses.h"

namespace headwise {

class RankKeeper {
 public:
  // seconds: between copies; 0: only when interrupted.
  RankKeeper(std::string path, LossesKey key, double seconds);

  KeptLosses& losses() { return losses_; }

  // From the file. Throws Error: as KeptLosses::Load, and kInvalidArgument
  // where it is of another model, text or setting.
  void Resume();

  // Between steps: writes the file when it is time. Never throws: work goes on
  // where nothing can be written.
  void Tick();

  // Removes the file, where this run wrote or read it.
  void Finish();

  // Writes the file and throws Error(kCancelled) that says so.
  [[noreturn]] void ThrowInterrupted();

 private:
  bool Save();

  std::string path_;
  KeptLosses losses_;
  double seconds_;
  bool ours_ = false;    // the file is of this run
  bool failed_ = false;  // it could not be written
  std::chrono::steady_clock::time_point last_;
};

}  // namespace headwise
