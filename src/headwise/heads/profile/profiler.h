// Profiling: streams text through a model and adds up what every head does.
// The door of the folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/dist/group.h"
#include "headwise/heads/profile/core_sums.h"
#include "headwise/heads/profile/detector.h"
#include "headwise/heads/profile/notes.h"
#include "headwise/heads/profile/observer.h"
#include "headwise/heads/profile/pattern_observer.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/row_sums.h"
#include "headwise/heads/profile/shared_blocks.h"
#include "headwise/heads/profile/window_blocks.h"
#include "headwise/heads/profile/words/positions.h"
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
  // All metrics are added up where the rows lie (row_sums.h); nothing: on a
  // device, and not on the host.
  std::optional<bool> sum_rows = {};
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
  ~Profiler();

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
  void NextCorpus();
  bool IsCoreAlone() const;
  void CountTokens(const TokenWindow& window);
  void Queue(TokenWindow window);
  bool RunWaiting();
  bool Skip(const TokenWindow& window);
  void MakeObservers();
  void RequireRoomToBegin();
  void RequireAllSkipped() const;
  [[noreturn]] static void RefuseText(const char* found);
  void Run(std::span<const TokenWindow> batch);
  void RunCore(std::span<const TokenWindow> batch);
  void RunRows(std::span<const TokenWindow> batch);
  struct WindowRun;
  void AddHooks(std::span<const TokenWindow> batch,
                std::span<const SequenceNotes> notes, RunHooks& first,
                WindowRun& run);
  void TellTokens(double more) const;
  static int64_t TokensOf(const TokenWindow& window) {
    return window.source.size() + window.target.size();
  }
  Context& Beside();
  void OrderBeside();
  void Count(std::span<const TokenWindow> batch);
  void Settle();
  int64_t Block() const { return profile_.counts.windows / kBlockWindows; }
  bool Shares() const {
    return options_.group != nullptr && !options_.group->is_single();
  }
  bool Owns(int64_t block) const { return !shared_ || shared_->Owns(block); }
  void CloseBlock(int64_t block);
  bool FinishText();
  int64_t BatchTokens() const;
  void MaybeCheckpoint();
  bool Enough() const {
    return options_.tokens > 0 && profile_.counts.tokens >= options_.tokens;
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
  std::unique_ptr<HeadObserver> observer_;
  // Instead of it, where a device adds up the core, or all metrics: a run goes
  // on while the next is prepared.
  std::unique_ptr<CoreSums> core_;
  std::unique_ptr<RowSums> rows_;
  std::unique_ptr<Context> beside_;  // once it was asked for
  bool is_tight_ = false;    // the device has no room for its largest batches
  bool is_running_ = false;  // a run of either
  std::shared_ptr<const WindowRun> running_;  // what it reads
  std::optional<int64_t> closing_block_;      // it was the last of this one
  std::unique_ptr<WordObserver> words_;
  std::unique_ptr<PatternObserver> patterns_;
  std::chrono::steady_clock::time_point saved_at_ =
      std::chrono::steady_clock::now();
  // Windows that wait for their path's frequencies, which are counted until
  // they are known well enough.
  std::vector<TokenWindow> waiting_;
  TokenCounts counts_;
  int64_t counted_ = 0;
  bool counting_ = true;
  // Windows still to be passed over, and the sum of the keys of those that
  // were.
  int64_t skip_ = 0;
  uint64_t skipped_key_ = 0;
  int64_t passed_ = 0;  // tokens of the text that were run or passed over
  double expected_tokens_ = 0;  // of the whole text; 0: not known
  // The run of rows_'s that is on, by a thread of its own: the last member,
  // which waits for it.
  std::future<void> run_;
};

}  // namespace headwise
