// A Context owns what an operator needs to run: threads and scratch memory.
// Nothing is global, so two models can run in one process, each with its own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "headwise/export.h"

namespace headwise {

class ThreadPool;
class Workspace;

struct ContextOptions {
  // Threads that work, the calling one included. 0: $HEADWISE_THREADS, else
  // every core. More threads: faster, never different results.
  int threads = 0;
  // "operator:implementation[,…]", e.g. "attention:reference". Empty:
  // $HEADWISE_IMPL, else the first implementation that takes the problem.
  std::string implementations;
};

// One calling thread at a time; distinct Contexts are independent.
class HEADWISE_API Context {
 public:
  explicit Context(ContextOptions options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int threads() const;

  // The implementation that options ask for of this operator, or "".
  std::string_view PreferredImplementation(std::string_view op) const;

  // Scratch memory that operators hold at most at one time since the last
  // reset, in bytes: what a call needs beyond the tensors it is given.
  size_t PeakScratchBytes() const;
  void ResetPeakScratch();

  // For operators.
  ThreadPool& pool() { return *pool_; }
  Workspace& workspace() { return *workspace_; }
  // What an accelerator's backend keeps between calls, made at its first use.
  std::shared_ptr<void>& accelerator() { return accelerator_; }

 private:
  ContextOptions options_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Workspace> workspace_;
  std::shared_ptr<void> accelerator_;
};

}  // namespace headwise
