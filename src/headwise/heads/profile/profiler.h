// Profiling: a text through a model, and what every head does in it. A
// WindowQueue reads, WindowRuns observes, and a TextPass has the parts: who
// runs which, and what is kept of them. The door of the folder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/profile/notes.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/profile_options.h"
#include "headwise/heads/profile/profile_part.h"
#include "headwise/heads/profile/window_queue.h"
#include "headwise/heads/profile/window_runs.h"
#include "headwise/model/model.h"
#include "headwise/runtime/text_pass.h"
#include "headwise/runtime/windows.h"
#include "headwise/tokenizer/text_source.h"

namespace headwise {

// One model's profile while it grows. Everything that is given must outlive
// it. Not thread-safe. Ranks of a group make the same calls; each reads all of
// the text. Throws Error(kCancelled) when stopped.
class Profiler {
 public:
  // `tokenizer` may be null for models that are fed ids. `name` and `hash`
  // (model_hash.h) go into the profile.
  Profiler(Context& context, const Model& model, const Tokenizer* tokenizer,
           std::string name, std::string hash, ProfileOptions options);

  // What the model alone gives: repeats, retrieval, copying. Once. The first
  // rank runs it, unless it was kept.
  void AddProbes();

  // Every window of the text. Frequencies are counted for each path on its
  // own (its first 2^20 tokens at most), so that profiles of several paths add
  // up to that of all. Throws Error(kInvalidArgument) for a text without two
  // tokens, and for another one than what was kept is of.
  void AddText(TextSource& source);
  // The same for windows that come from elsewhere, as one corpus.
  void AddWindows(std::vector<TokenWindow> windows);

  // The last call: the profile without the metrics that nothing was counted
  // for. Of ranks, the first has it, the others its settings. Throws
  // Error(kInvalidArgument) where what was kept is of another text.
  Profile Take();

 private:
  PassWork Work();
  void RunWaiting();
  void Run(std::span<const TokenWindow> windows);
  void RunBatch(std::span<const TokenWindow> batch);
  void BeginRuns();
  void BeginPart();
  void GivePart(size_t part);
  void Count(std::span<const TokenWindow> batch);
  void TakeExamples();
  void RequireSameText() const;
  void Settle() {
    if (runs_) runs_->Settle();
  }
  bool IsFirst() const {
    return options_.group == nullptr || options_.group->is_first();
  }
  size_t part() const {
    return static_cast<size_t>(read_.windows / kPartWindows);
  }
  int64_t WindowsLeftOfPart() const {
    return kPartWindows - read_.windows % kPartWindows;
  }
  // Tokens that are still to be read; nothing: all.
  std::optional<int64_t> TokensLeft() const {
    if (options_.tokens <= 0) return {};
    return options_.tokens - read_.tokens;
  }
  bool HasEnough() const { return TokensLeft().value_or(1) <= 0; }
  double AllTokens() const {
    return options_.tokens > 0 ? static_cast<double>(options_.tokens)
                               : expected_tokens_;
  }

  Context& context_;
  const Model& model_;
  const Tokenizer* tokenizer_;
  ProfileOptions options_;
  TokenTable table_;
  TokenFrame frame_;
  Profile sum_;   // parts that are done, and what the model alone gives
  Profile part_;  // the one that runs, and the best examples of this process
  ProfileCounts read_;          // of the text, whoever runs it
  double expected_tokens_ = 0;  // of the whole text; 0: not known
  bool was_kept_ = false;       // sum_, by an interrupted process
  bool owns_ = false;           // the part that is read
  int64_t to_pass_ = 0;         // windows of it that part_ holds already
  // Keys of the text's first so many windows, as they were when it was kept.
  std::map<int64_t, uint64_t> kept_keys_;
  WindowQueue queue_;
  // From the first window on; after what runs read.
  std::optional<WindowRuns> runs_;
  // The last member, since it looks at all others until it ends.
  TextPass pass_;
};

}  // namespace headwise
