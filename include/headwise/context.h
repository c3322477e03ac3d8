/// @file
/// A Context owns what an operator needs to run: a device's queue and memory,
/// the host's threads and scratch memory. Nothing is global, so two models can
/// run in one process, each with its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "headwise/device.h"
#include "headwise/export.h"

namespace headwise {

class DeviceBackend;
class ThreadPool;
class Workspace;

struct ContextOptions {
  /// Threads that work, the calling one included. 0: $HEADWISE_THREADS, else
  /// every core. More threads: faster, never different results.
  int threads = 0;
  /// "operator:implementation[,…]", e.g. "attention:reference": that one or an
  /// error. Empty: $HEADWISE_IMPL, else the first that takes the problem.
  std::string implementations = {};
  /// Where operators run and what they are given lies.
  Device device = {};
};

/// One calling thread at a time: a call made while another thread's is on
/// throws Error(kInvalidArgument). Distinct Contexts are independent.
class HEADWISE_API Context {
 public:
  explicit Context(ContextOptions options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int threads() const;
  Device device() const;
  /// Waits until all that was asked of the device is done.
  void Synchronize();

  /// The implementation that options ask for of this operator, or "".
  std::string_view PreferredImplementation(std::string_view op) const;

  /// Scratch memory that operators hold at most at one time since the last
  /// reset, in bytes: what a call needs beyond the tensors it is given.
  size_t PeakScratchBytes() const;
  void ResetPeakScratch();

  /// For operators.
  ThreadPool& pool() { return *pool_; }
  Workspace& workspace() { return *workspace_; }
  const std::shared_ptr<DeviceBackend>& backend() { return backend_; }

 private:
  friend class ContextUse;  // backend/context_use.h
  /// The thread whose call is on; none: no thread's id.
  std::atomic<std::thread::id> user_{};
  ContextOptions options_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Workspace> workspace_;
  std::shared_ptr<DeviceBackend> backend_;
};

}  // namespace headwise
