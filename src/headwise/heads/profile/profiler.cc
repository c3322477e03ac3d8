// Parts of windows through a model. Door: profiler.h.
#include "headwise/heads/profile/profiler.h"

#include <algorithm>
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

[[noreturn]] void RefuseText(const char* found) {
  throw Error(ErrorCode::kInvalidArgument,
              {"resume", "the text that was begun with", found,
               "give the same texts in the same order"});
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
      sum_(AllHeads(model)),
      part_(sum_.heads),
      queue_(model.config(), table_, options_.sentences,
             options_.metrics != MetricSet::kCore || options_.words ||
                 !options_.detectors.empty()),
      pass_({.group = options_.group,
             .kept = options_.kept,
             .progress = options_.on_progress,
             .stop = options_.stop},
            Work()) {
  frame_ = tokenizer != nullptr ? FrameOf(*tokenizer, model.config())
                                : FrameOf(model.config());
  if (options_.metrics == MetricSet::kCore) options_.repeats = 0;
  sum_.model = std::move(name);
  sum_.model_hash = std::move(hash);
  sum_.settings = {.metrics = options_.metrics,
                   .context = WindowTokens(model.config(), options_.context),
                   .min_visible = options_.min_visible,
                   .repeats = options_.repeats,
                   .sentences = options_.sentences,
                   .bos = frame_.before.empty() ? -1 : frame_.before[0]};
}

PassWork Profiler::Work() {
  PassWork work;
  work.stage = "profile";
  work.add = [this](std::string_view part) { AddPacked(part, sum_); };
  work.pack = [this] {
    TakeExamples();
    return Packed(sum_, WithExamples::kYes);
  };
  work.unpack = [this](std::string_view sum) {
    AddPacked(sum, sum_);
    kept_keys_[sum_.counts.windows] = sum_.counts.text_key;
    was_kept_ = true;
  };
  work.open = [this] {
    return part_.counts.windows == 0 ? std::string()
                                     : Packed(part_, WithExamples::kYes);
  };
  work.settle = [this] { Settle(); };
  return work;
}

void Profiler::AddProbes() {
  if (options_.metrics == MetricSet::kCore || was_kept_ || !IsFirst()) return;
  if (options_.on_progress) options_.on_progress("probe the model", 0, 0);
  AddCopying(context_, model_, sum_);
  const int64_t room = ContextOf(model_.config(), 0);
  AddCopyingInRun(context_, model_,
                  RepeatWindows(table_, frame_, room, {25, 2}, 8), sum_);
  if (options_.repeats > 0) {
    AddRepeats(context_, model_, table_, frame_, sum_, options_.on_progress,
               options_.stop);
    AddRetrieval(context_, model_, table_, frame_, sum_);
  }
}

void Profiler::AddText(TextSource& source) {
  if (tokenizer_ == nullptr) {
    throw Error(ErrorCode::kNotFound,
                {sum_.model, "a tokenizer to read text with", "none",
                 "models without one take ids"});
  }
  const WindowCutter cutter(*tokenizer_, model_.config(),
                            {.context = sum_.settings.context});
  size_t argument = 0;
  double bytes = 0, tokens = 0;
  queue_.BeginCorpus();
  while (std::optional<Document> document = source.Next()) {
    if (document->argument != argument) {
      RunWaiting();
      queue_.BeginCorpus();
      argument = document->argument;
    }
    if (HasEnough()) break;
    ++read_.documents;
    bytes += static_cast<double>(document->text.size());
    for (TokenWindow& window : cutter.Cut(*document)) {
      tokens += static_cast<double>(TokensOf(window));
      queue_.Add(std::move(window));
    }
    expected_tokens_ = static_cast<double>(source.total_bytes()) *
                       (bytes > 0 ? tokens / bytes : 0);
    if (queue_.IsReady(TokensLeft())) RunWaiting();
  }
  RunWaiting();
  if (read_.windows == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {"profile", "a text of at least two tokens",
                 std::to_string(read_.tokens) + " tokens in windows",
                 "give a longer text"});
  }
}

void Profiler::AddWindows(std::vector<TokenWindow> windows) {
  queue_.BeginCorpus();
  for (TokenWindow& window : windows) queue_.Add(std::move(window));
  ++read_.documents;
  RunWaiting();
}

Profile Profiler::Take() {
  Settle();
  const bool is_open = read_.windows % kPartWindows != 0;
  if (is_open && owns_) GivePart(part());
  pass_.Finish(part() + (is_open ? 1 : 0));
  TakeExamples();
  if (IsFirst()) RequireSameText();
  sum_.counts.documents = read_.documents;
  EraseEmpty(sum_);
  return std::move(sum_);
}

// Of the whole text, since keys of parts that came before others were not
// looked at when those were passed over.
void Profiler::RequireSameText() const {
  if (sum_.counts.windows > read_.windows) RefuseText("a shorter one");
  if (sum_.counts.text_key != read_.text_key) RefuseText("another one");
}

// All waiting windows. The last run may go on, while more text is read.
void Profiler::RunWaiting() {
  if (!runs_) BeginRuns();
  Run(queue_.Take());
  queue_.Clear();
}

// When the first windows are known.
void Profiler::BeginRuns() {
  runs_.emplace(context_, model_, table_, part_, options_);
  const WindowQueue::Size size = queue_.size();
  runs_->RequireRoomFor(size.longest, options_.tokens > 0
                                          ? std::min(size.all, options_.tokens)
                                          : size.all);
}

// In batches, each within a part.
void Profiler::Run(std::span<const TokenWindow> windows) {
  const int64_t most = runs_->batch_tokens();
  while (!windows.empty() && !HasEnough()) {
    if (read_.windows % kPartWindows == 0) BeginPart();
    // The window in which options_.tokens are reached is the last one.
    const int64_t left = TokensLeft().value_or(most);
    const size_t last = std::min<size_t>(
        windows.size(), to_pass_ > 0 ? to_pass_ : WindowsLeftOfPart());
    size_t count = 0;
    int64_t tokens = 0;
    while (count < last && tokens < left &&
           (count == 0 || tokens + TokensOf(windows[count]) <= most)) {
      tokens += TokensOf(windows[count++]);
    }
    pass_.Tell(static_cast<double>(read_.tokens), AllTokens());
    const auto batch = windows.first(count);
    if (to_pass_ > 0) {
      to_pass_ -= std::ssize(batch);
    } else if (owns_) {
      RunBatch(batch);
    }
    Count(batch);
    windows = windows.subspan(count);
  }
}

void Profiler::BeginPart() {
  owns_ = pass_.Owns(part());
  if (!owns_) return;
  const std::string begun = pass_.Begin(part());
  if (begun.empty()) return;
  Settle();
  AddPacked(begun, part_);
  to_pass_ = part_.counts.windows;
  kept_keys_[read_.windows + to_pass_] = read_.text_key + part_.counts.text_key;
}

void Profiler::RunBatch(std::span<const TokenWindow> batch) {
  double tokens = 0;
  for (const TokenWindow& window : batch) {
    tokens += static_cast<double>(TokensOf(window));
  }
  std::function<void()> added;
  if (std::ssize(batch) == WindowsLeftOfPart()) {
    added = [this, part = part()] { GivePart(part); };
  }
  runs_->Run({batch, queue_.counts(), std::move(added), [&](double share) {
                if (!options_.on_progress) return;
                options_.on_progress(
                    "profile",
                    static_cast<double>(read_.tokens) + share * tokens,
                    AllTokens());
              }});
  for (const TokenWindow& window : batch) {
    ++part_.counts.windows;
    part_.counts.tokens += TokensOf(window);
    part_.counts.text_key += window.key;
  }
}

void Profiler::GivePart(size_t part) {
  std::string message =
      Packed(part_, IsFirst() ? WithExamples::kNo : WithExamples::kYes);
  Clear(part_);
  pass_.Give(part, std::move(message));
}

// Into the first rank's sum, once a run that may still find some has ended.
void Profiler::TakeExamples() {
  for (size_t h = 0; h < sum_.heads.size(); ++h) {
    const std::vector<Example>& found = part_.examples[h];
    sum_.examples[h].insert(sum_.examples[h].end(), found.begin(), found.end());
    TrimExamples(sum_.examples[h]);
  }
}

void Profiler::Count(std::span<const TokenWindow> batch) {
  for (const TokenWindow& window : batch) {
    ++read_.windows;
    read_.tokens += TokensOf(window);
    read_.text_key += window.key;
    const auto kept = kept_keys_.find(read_.windows);
    if (kept != kept_keys_.end() && kept->second != read_.text_key) {
      RefuseText("another one");
    }
  }
}

}  // namespace headwise
