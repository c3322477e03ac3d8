// Profiling: streams text through a model and adds up what every head does.
// A WindowQueue has the windows, WindowRuns runs them, and here they become
// blocks that ranks share and checkpoints keep. The door of the folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/dist/group.h"
#include "headwise/heads/profile/detector.h"
#include "headwise/heads/profile/notes.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/shared_blocks.h"
#include "headwise/heads/profile/window_blocks.h"
#include "headwise/heads/profile/window_queue.h"
#include "headwise/heads/profile/window_runs.h"
#include "headwise/model/model.h"
#include "headwise/progress.h"
#include "headwise/runtime/windows.h"
#include "headwise/tokenizer/text_source.h"

namespace headwise {

struct ProfileOptions {
  // The core comes almost free with the forward pass; probes are left out.
  MetricSet metrics = MetricSet::kAll;
  // Tokens of a window. 0: 512 for causal models, 128 for encoders (whose
  // later positions were often hardly trained), or what the model can take.
  int64_t context = 0;
  int64_t tokens = 0;       // stop after so many; 0: all
  int64_t min_visible = 8;  // rows that see fewer keys do not count
  int64_t repeats = 32;     // sequences of the random-repeat test; 0: none
  std::span<Detector> detectors = {};  // a user's own
  // Each sentence is a sequence of its own, as rare-token heads are defined:
  // it then has no other sentence to look at.
  bool sentences = false;
  // Also position metrics between words (words/positions.h).
  bool words = false;
  // Called with the profile so far, every so many seconds: what Resume takes.
  std::function<void(const Profile&)> checkpoint = {};
  double checkpoint_seconds = 60;
  // Ranks that share the windows of one text; null: this process alone. Each
  // reads all of it; rank 0 gets the profile, and it alone makes checkpoints.
  dist::Group* group = nullptr;
  OnProgress progress = {};
  std::stop_token stop = {};
};

// One model's profile while it grows. Everything that is given must outlive
// it. Not thread-safe.
class Profiler {
 public:
  // `tokenizer` may be null for models that are fed ids. `name` and `hash`
  // (model_hash.h) go into the profile.
  Profiler(Context& context, const Model& model, const Tokenizer* tokenizer,
           std::string name, std::string hash, ProfileOptions options);

  // Goes on with an interrupted profile: the windows that it holds are passed
  // over by the next AddText or AddWindows, which throws
  // Error(kInvalidArgument) when they are of another text or of a longer one.
  // Throws for another model or other settings too, and for a profile without
  // `blocks`. The result is that of an uninterrupted run, bit for bit.
  void Resume(Profile profile);

  // What the model alone gives: repeats, retrieval, copying. Once. Rank 0 runs
  // it.
  void AddProbes();

  // Every window of the text. Frequencies are counted for each path on its
  // own (its first 2^20 tokens at most), so that profiles of several paths add
  // up to that of all. False when stopped before the end. Throws
  // Error(kInvalidArgument) for a text without two tokens.
  bool AddText(TextSource& source);
  // The same for windows that come from elsewhere, as one corpus.
  bool AddWindows(std::vector<TokenWindow> windows);

  // Without the metrics that nothing was counted for; with `blocks`, which a
  // finished profile does not need. Of ranks, the first has it; where the text
  // was not read to its end, it holds the blocks that came in time.
  Profile Take();

 private:
  bool RunWaiting();
  bool Run(std::span<const TokenWindow> windows);
  void RunBatch(std::span<const TokenWindow> batch);
  void Begin();
  void TellTokens(double more) const;
  void Count(std::span<const TokenWindow> batch);
  void Settle() {
    if (runs_) runs_->Settle();
  }
  int64_t Block() const { return profile_.counts.windows / kBlockWindows; }
  bool Shares() const {
    return options_.group != nullptr && !options_.group->is_single();
  }
  bool Owns(int64_t block) const { return !shared_ || shared_->Owns(block); }
  void CloseBlock(int64_t block);
  bool FinishText();
  void MaybeCheckpoint();
  // Tokens that are still to be run; nothing: all.
  std::optional<int64_t> TokensLeft(int64_t done) const {
    if (options_.tokens <= 0) return {};
    return options_.tokens - done;
  }
  bool Enough() const {
    return TokensLeft(profile_.counts.tokens).value_or(1) <= 0;
  }

  Context& context_;
  const Model& model_;
  const Tokenizer* tokenizer_;
  ProfileOptions options_;
  TokenTable table_;
  TokenFrame frame_;
  Profile profile_;  // its sums of windows are those of the open block
  WindowBlocks blocks_;
  std::optional<SharedBlocks> shared_;  // with other ranks
  WindowQueue queue_;
  std::chrono::steady_clock::time_point saved_at_ =
      std::chrono::steady_clock::now();
  int64_t run_tokens_ = 0;      // by this process
  double expected_tokens_ = 0;  // of the whole text; 0: not known
  // From the first window on; the last member, since runs read the others.
  std::optional<WindowRuns> runs_;
};

}  // namespace headwise
