// Streaming text through a model. Door: profiler.h.
#include "headwise/heads/profile/profiler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "headwise/error.h"
#include "headwise/heads/profile/copying.h"
#include "headwise/heads/profile/probes.h"

namespace headwise {
namespace {

constexpr int64_t kEncoderContext = 128;

int64_t WindowTokens(const ModelConfig& config, int64_t asked) {
  const int64_t context = ContextOf(config, asked);
  const bool open = asked > 0 || config.causal;
  return open ? context : std::min(context, kEncoderContext);
}

}  // namespace

Profiler::Profiler(Context& context, const Model& model,
                   const Tokenizer* tokenizer, std::string name,
                   std::string hash, ProfileOptions options)
    : context_(context),
      model_(model),
      tokenizer_(tokenizer),
      options_(std::move(options)),
      table_(tokenizer, model.config()),
      profile_(AllHeads(model)),
      queue_(model.config(), table_, options_.sentences,
             options_.metrics != MetricSet::kCore || options_.words ||
                 !options_.detectors.empty()) {
  frame_ = tokenizer != nullptr ? FrameOf(*tokenizer, model.config())
                                : FrameOf(model.config());
  profile_.model = std::move(name);
  profile_.model_hash = std::move(hash);
  options_.context = WindowTokens(model.config(), options_.context);
  if (options_.metrics == MetricSet::kCore) options_.repeats = 0;
  profile_.settings.metrics = options_.metrics;
  profile_.settings.context = options_.context;
  profile_.settings.min_visible = options_.min_visible;
  profile_.settings.repeats = options_.repeats;
  profile_.settings.sentences = options_.sentences;
  profile_.settings.bos = frame_.before.empty() ? -1 : frame_.before[0];
}

void Profiler::Resume(Profile profile) {
  // What Merge refuses, resuming refuses too.
  std::optional<BlockSums> blocks = std::exchange(profile.blocks, {});
  profile.Merge(profile_);
  profile.blocks = std::move(blocks);
  blocks_.Resume(profile);
  profile_ = std::move(profile);
  queue_.PassOver(profile_.counts);
  profile_.counts.documents = 0;
}

void Profiler::AddProbes() {
  if (options_.metrics == MetricSet::kCore) return;
  if (Shares() && !options_.group->is_first()) return;
  if (options_.progress) options_.progress("probe the model", 0, 0);
  AddCopying(context_, model_, profile_);
  const int64_t room = ContextOf(model_.config(), 0);
  AddCopyingInRun(context_, model_,
                  RepeatWindows(table_, frame_, room, {25, 2}, 8), profile_);
  if (options_.repeats > 0) {
    AddRepeats(context_, model_, table_, frame_, profile_, options_.progress,
               options_.stop);
    AddRetrieval(context_, model_, table_, frame_, profile_);
  }
}

bool Profiler::AddText(TextSource& source) {
  if (tokenizer_ == nullptr) {
    throw Error(ErrorCode::kNotFound,
                {profile_.model, "a tokenizer to read text with", "none",
                 "models without one take ids"});
  }
  const WindowCutter cutter(*tokenizer_, model_.config(),
                            {.context = options_.context});
  size_t argument = 0;
  double bytes = 0, tokens = 0;
  queue_.BeginCorpus();
  while (std::optional<Document> document = source.Next()) {
    if (document->argument != argument) {
      if (!RunWaiting()) return false;
      queue_.BeginCorpus();
      argument = document->argument;
    }
    if (Enough() && !queue_.passes_over()) break;
    ++profile_.counts.documents;
    bytes += static_cast<double>(document->text.size());
    for (TokenWindow& window : cutter.Cut(*document)) {
      tokens += static_cast<double>(TokensOf(window));
      queue_.Add(std::move(window));
    }
    expected_tokens_ = static_cast<double>(source.total_bytes()) *
                       (bytes > 0 ? tokens / bytes : 0);
    const auto left = TokensLeft(queue_.passed_tokens() + run_tokens_);
    if (queue_.IsReady(left) && !RunWaiting()) return false;
  }
  if (!RunWaiting() || !FinishText()) return false;
  if (profile_.counts.windows == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {"profile", "a text of at least two tokens",
                 std::to_string(profile_.counts.tokens) + " tokens in windows",
                 "give a longer text"});
  }
  return true;
}

bool Profiler::AddWindows(std::vector<TokenWindow> windows) {
  queue_.BeginCorpus();
  for (TokenWindow& window : windows) queue_.Add(std::move(window));
  ++profile_.counts.documents;
  return RunWaiting() && FinishText();
}

// The last block, and those of other ranks; false when stopped.
bool Profiler::FinishText() {
  Settle();
  queue_.RequireAllPassed();
  if (!shared_) return true;
  const bool is_open = profile_.counts.windows % kBlockWindows != 0;
  if (is_open && Owns(Block())) CloseBlock(Block());
  if (!options_.group->is_first()) return true;
  constexpr double kSeconds = 0.1;
  while (shared_->next() < Block() + (is_open ? 1 : 0)) {
    if (options_.stop.stop_requested()) return false;
    shared_->Collect(kSeconds, blocks_);
    MaybeCheckpoint();
  }
  return true;
}

void Profiler::CloseBlock(int64_t block) {
  if (!shared_) {
    blocks_.Close(profile_);
    return;
  }
  shared_->Give(block, profile_);
  shared_->Collect(0, blocks_);
}

Profile Profiler::Take() {
  Settle();
  runs_.reset();
  if (shared_) return shared_->SoFar(std::move(profile_), blocks_);
  blocks_.Total(profile_);
  return std::move(profile_);
}

// Makes the runs when the first windows are known.
void Profiler::Begin() {
  if (Shares() && !shared_) shared_.emplace(*options_.group, profile_);
  runs_.emplace(context_, model_, table_, profile_,
                WindowRunOptions{.metrics = options_.metrics,
                                 .min_visible = options_.min_visible,
                                 .words = options_.words,
                                 .detectors = options_.detectors,
                                 .takes_all = shared_.has_value()});
  const WindowQueue::Size size = queue_.size();
  runs_->RequireRoomFor(size.longest, options_.tokens > 0
                                          ? std::min(size.all, options_.tokens)
                                          : size.all);
}

// All waiting windows; false when stopped. The last run may go on, while more
// text is read.
bool Profiler::RunWaiting() {
  if (!runs_) Begin();
  const bool ends = Run(queue_.Take());
  if (ends) queue_.Clear();
  return ends;
}

// In batches, each within a block.
bool Profiler::Run(std::span<const TokenWindow> windows) {
  const int64_t most = runs_->batch_tokens();
  while (!windows.empty() && !Enough()) {
    size_t count = 0;
    int64_t tokens = 0;
    // The window in which options_.tokens are reached is the last one.
    const int64_t left = TokensLeft(profile_.counts.tokens).value_or(most);
    const size_t last =
        std::min<size_t>(windows.size(), WindowBlocks::Room(profile_));
    while (count < last && tokens < left &&
           (count == 0 || tokens + TokensOf(windows[count]) <= most)) {
      tokens += TokensOf(windows[count++]);
    }
    TellTokens(0);
    if (options_.stop.stop_requested()) {
      Settle();
      return false;
    }
    const auto batch = windows.first(count);
    if (Owns(Block())) {
      RunBatch(batch);
      MaybeCheckpoint();
    } else {
      Count(batch);
    }
    windows = windows.subspan(count);
  }
  return true;
}

void Profiler::RunBatch(std::span<const TokenWindow> batch) {
  double tokens = 0;
  for (const TokenWindow& window : batch) {
    tokens += static_cast<double>(TokensOf(window));
  }
  std::function<void()> added;
  const auto windows = static_cast<int64_t>(batch.size());
  if (windows == WindowBlocks::Room(profile_)) {
    added = [this, block = Block()] { CloseBlock(block); };
  }
  runs_->Run({batch, queue_.counts(), std::move(added),
              [&](double share) { TellTokens(share * tokens); }});
  Count(batch);
}

// `more`: tokens of a run that is on.
void Profiler::TellTokens(double more) const {
  if (!options_.progress) return;
  options_.progress("profile",
                    static_cast<double>(profile_.counts.tokens) + more,
                    options_.tokens > 0 ? static_cast<double>(options_.tokens)
                                        : expected_tokens_);
}

void Profiler::MaybeCheckpoint() {
  if (shared_) shared_->Collect(0, blocks_);
  if (!options_.checkpoint || (shared_ && !options_.group->is_first())) return;
  const auto now = std::chrono::steady_clock::now();
  if (std::chrono::duration<double>(now - saved_at_).count() <
      options_.checkpoint_seconds) {
    return;
  }
  Settle();
  Profile so_far = profile_;
  if (shared_) {
    so_far = shared_->SoFar(std::move(so_far), blocks_);
  } else {
    blocks_.Total(so_far);
  }
  options_.checkpoint(so_far);
  saved_at_ = std::chrono::steady_clock::now();
}

void Profiler::Count(std::span<const TokenWindow> batch) {
  const bool ours = shared_ && Owns(Block());
  for (const TokenWindow& window : batch) {
    if (ours) shared_->Count(TokensOf(window), window.key);
    ++profile_.counts.windows;
    profile_.counts.tokens += TokensOf(window);
    run_tokens_ += TokensOf(window);
    profile_.counts.text_key += window.key;
  }
}

}  // namespace headwise
