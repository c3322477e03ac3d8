// Batches of windows through a model, with hooks that add what heads do to a
// profile. On a device a run goes on while the next is prepared and the one
// before is added.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/core_sums.h"
#include "headwise/heads/profile/notes.h"
#include "headwise/heads/profile/pattern_observer.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/profile_options.h"
#include "headwise/heads/profile/row_sums.h"
#include "headwise/heads/profile/words/positions.h"
#include "headwise/model/model.h"
#include "headwise/runtime/windows.h"

namespace headwise {

inline int64_t TokensOf(const TokenWindow& window) {
  return window.source.size() + window.target.size();
}

// Everything given must outlive it, and the profile stay where it is. Not
// thread-safe.
class WindowRuns {
 public:
  WindowRuns(Context& context, const Model& model, const TokenTable& table,
             Profile& profile, const ProfileOptions& options);
  ~WindowRuns();

  struct Batch {
    std::span<const TokenWindow> windows;
    const TokenCounts& counts;  // frequencies in their text
    // Called when the batch is in the profile: by a later Run, or by Settle.
    std::function<void()> added;
    // Called after every layer with the share of the run that is done. The
    // host's runs alone.
    std::function<void(double)> tell;
  };
  void Run(Batch batch);
  // The last batch into the profile.
  void Settle();

  // Tokens that pass through the layers together.
  int64_t batch_tokens() const;
  // Throws where the device has no room for the largest batch of windows of so
  // many tokens, `longest` the longest; takes smaller batches first.
  void RequireRoomFor(int64_t longest, int64_t all);

 private:
  class LayerSteps;
  struct OneRun;

  bool is_host() const { return context_.device().is_cpu(); }
  // Whether examples are told with a part, so that no other run may be on then
  // that finds some.
  bool TellsExamples() const {
    return options_.group != nullptr && !options_.group->is_first();
  }
  bool HasOthers() const { return words_ != nullptr || patterns_ != nullptr; }
  Context& Beside();
  void RunCore(Batch& batch, const std::shared_ptr<OneRun>& run);
  void RunRows(Batch& batch, const std::shared_ptr<OneRun>& run);
  void AddHooks(const Batch& batch, std::span<const SequenceNotes> notes,
                RunHooks& first, OneRun& run);
  void Start(const std::shared_ptr<OneRun>& run);

  Context& context_;
  const Model& model_;
  const TokenTable& table_;
  const ProfileOptions& options_;
  // One of both.
  std::unique_ptr<CoreSums> core_;
  std::unique_ptr<RowSums> rows_;
  std::unique_ptr<WordObserver> words_;
  std::unique_ptr<PatternObserver> patterns_;
  // A context of the same device that prepares a run, and adds the one before,
  // beside the run that is on. Made when it is asked for.
  std::unique_ptr<Context> side_context_;
  bool is_tight_ = false;  // the device has no room for its largest batches
  // The run that is on, or that is not in the profile yet; null: none.
  std::shared_ptr<OneRun> running_;
  // RowSums's, on a device: the last member, which waits for it.
  std::future<void> thread_;
};

}  // namespace headwise
