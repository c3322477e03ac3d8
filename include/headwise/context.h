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
  /// The device of operators and of their tensors.
  Device device = {};
  /// On CUDA: the cudaStream_t of that GPU to work on. It stays the caller's,
  /// and outlives the Context and every tensor made by it. Null: one of the
  /// Context's own, which does not wait for the default stream
  /// (cudaStreamLegacy and cudaStreamPerThread name default streams).
  void* stream = nullptr;
};

/// The vector instructions that this process uses: "neon", "avx2", …; the
/// machine's best, or what HEADWISE_MAX_ISA allows.
HEADWISE_API std::string InstructionSet();

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

  /// The queue that all work of this Context goes to, in order: a cudaStream_t
  /// on CUDA, null on the CPU, where calls return when they are done. What is
  /// put on it runs before what is asked of the Context next. It belongs to the
  /// Context, or to whoever gave it (ContextOptions::stream), and lives as long
  /// as the Context or a tensor made by it does; never destroy it.
  void* stream() const;
  /// Work asked of this Context from now on begins when all that was put on
  /// `stream`, a cudaStream_t of the same GPU, so far is done. The host does
  /// not wait. Throws Error(kInvalidArgument) on the CPU.
  void WaitFor(void* stream);
  /// The other way round: what is put on `stream` from now on begins when all
  /// that was asked of this Context so far is done.
  void MakeWait(void* stream);
  /// Waits until every stream of the device is done, whoever's it is; for work
  /// of libraries that do not tell theirs. Does nothing on the CPU.
  void SynchronizeDevice();

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
