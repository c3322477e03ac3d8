// Streaming text through a model. Door: profiler.h.
#include "headwise/heads/profile/profiler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "headwise/error.h"
#include "headwise/format/token_ids.h"
#include "headwise/heads/profile/copying.h"
#include "headwise/heads/profile/probes.h"
#include "headwise/model/room.h"

namespace headwise {
namespace {

// Tokens that pass through the layers together: enough to fill the matrix
// products, few enough that a layer's activations stay small.
constexpr int64_t kBatchTokens = 2048;
// The same where a device has to be filled: where it adds up the rows, and
// where they are brought home.
constexpr int64_t kDeviceTokens = 65536;
constexpr int64_t kDeviceRowTokens = 16384;
// Tokens of a path that frequencies are counted on.
constexpr int64_t kCountedTokens = int64_t{1} << 20;

constexpr int64_t kEncoderContext = 128;

int64_t WindowTokens(const ModelConfig& config, int64_t asked) {
  const int64_t context = ContextOf(config, asked);
  const bool open = asked > 0 || config.causal;
  return open ? context : std::min(context, kEncoderContext);
}

// Tokens [begin, end) of a row, framed as the row was.
TokenRow Part(const TokenRow& row, size_t begin, size_t end) {
  TokenRow part;
  part.text = row.text;
  const auto take = [&](size_t i) {
    part.ids.push_back(row.ids[i]);
    part.spans.push_back(row.spans.empty() ? TextSpan() : row.spans[i]);
    part.added.push_back(row.added[i]);
  };
  size_t before = 0, after = row.ids.size();
  while (before < after && row.added[before] != 0) take(before++);
  for (size_t i = begin; i < end; ++i) take(i);
  while (after > before && row.added[after - 1] != 0) --after;
  for (; after < row.ids.size(); ++after) take(after);
  return part;
}

// One window a sentence; those of one token, which no row can count in, are
// left out. Pairs of source and target are left whole.
std::vector<TokenWindow> CutSentences(TokenWindow window,
                                      const TokenTable& table) {
  std::vector<TokenWindow> sentences;
  if (window.target.size() > 0) {
    sentences.push_back(std::move(window));
    return sentences;
  }
  const TokenRow& row = window.source;
  size_t begin = 0;
  while (begin < row.ids.size() && row.added[begin] != 0) ++begin;
  for (size_t i = begin; i < row.ids.size() && row.added[i] == 0; ++i) {
    const bool last = i + 1 == row.ids.size() || row.added[i + 1] != 0;
    if (!last && !table.sentence_end(row.ids[i])) continue;
    if (i > begin) {
      TokenWindow& sentence = sentences.emplace_back();
      sentence.source = Part(row, begin, i + 1);
      sentence.name = window.name;
      sentence.argument = window.argument;
      sentence.offset = window.offset;
      SetKey(sentence);
    }
    begin = i + 1;
  }
  return sentences;
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
      counts_(table_.size()) {
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

// The device may still read what goes, where a run was left behind.
Profiler::~Profiler() {
  if (!is_running_ || context_.device().is_cpu()) return;
  if (run_.valid()) run_.wait();
  try {
    context_.SynchronizeDevice();
  } catch (const Error&) {  // nothing runs any more
  }
}

void Profiler::Resume(Profile profile) {
  // What Merge refuses, resuming refuses too.
  std::optional<BlockSums> blocks = std::exchange(profile.blocks, {});
  profile.Merge(profile_);
  profile.blocks = std::move(blocks);
  blocks_.Resume(profile);
  profile_ = std::move(profile);
  skip_ = profile_.counts.windows;
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
  NextCorpus();
  while (std::optional<Document> document = source.Next()) {
    if (document->argument != argument) {
      if (!RunWaiting()) return false;
      NextCorpus();
      argument = document->argument;
    }
    if (Enough() && skip_ == 0) break;
    ++profile_.counts.documents;
    bytes += static_cast<double>(document->text.size());
    for (TokenWindow& window : cutter.Cut(*document)) {
      tokens += static_cast<double>(TokensOf(window));
      if (counting_) CountTokens(window);
      counted_ += TokensOf(window);
      Queue(std::move(window));
    }
    expected_tokens_ = static_cast<double>(source.total_bytes()) *
                       (bytes > 0 ? tokens / bytes : 0);
    const int64_t wanted =
        options_.tokens > 0
            ? std::min(kCountedTokens, options_.tokens - passed_)
            : kCountedTokens;
    if ((!counting_ || counted_ >= wanted) && !RunWaiting()) return false;
  }
  if (!RunWaiting() || !FinishText()) return false;
  if (profile_.counts.windows == 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"profile", "a text of at least two tokens", "a shorter one", ""});
  }
  return true;
}

bool Profiler::AddWindows(std::vector<TokenWindow> windows) {
  NextCorpus();
  for (TokenWindow& window : windows) {
    CountTokens(window);
    Queue(std::move(window));
  }
  ++profile_.counts.documents;
  return RunWaiting() && FinishText();
}

// The last block, and those of other ranks; false when stopped.
bool Profiler::FinishText() {
  Settle();
  RequireAllSkipped();
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
  observer_.reset();
  core_.reset();
  rows_.reset();
  words_.reset();
  patterns_.reset();
  if (shared_) return shared_->SoFar(std::move(profile_), blocks_);
  blocks_.Total(profile_);
  return std::move(profile_);
}

void Profiler::Queue(TokenWindow window) {
  for (const TokenRow* row : {&window.source, &window.target}) {
    RequireTokenIds(row->ids, model_.config().vocabulary, "profile");
  }
  if (model_.decoder() != nullptr && window.target.ids.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"profile", "a source and a target for an encoder–decoder",
                 "no target", "give lines source<TAB>target as text"});
  }
  if (!options_.sentences) {
    waiting_.push_back(std::move(window));
    return;
  }
  for (TokenWindow& sentence : CutSentences(std::move(window), table_)) {
    waiting_.push_back(std::move(sentence));
  }
}

// Whether the device adds the core up, which asks for no frequencies.
bool Profiler::IsCoreAlone() const {
  return options_.metrics == MetricSet::kCore && !context_.device().is_cpu() &&
         !options_.words && options_.detectors.empty();
}

void Profiler::CountTokens(const TokenWindow& window) {
  if (!IsCoreAlone()) counts_.Add(window.source.ids);
}

void Profiler::NextCorpus() {
  counts_ = TokenCounts(table_.size());
  counted_ = 0;
  counting_ = true;
}

// Passes over a window that an interrupted profile already holds.
bool Profiler::Skip(const TokenWindow& window) {
  if (skip_ == 0) return false;
  skipped_key_ += window.key;
  passed_ += TokensOf(window);
  if (--skip_ == 0 && skipped_key_ != profile_.counts.text_key) {
    RefuseText("another one");
  }
  return true;
}

void Profiler::MakeObservers() {
  if (IsCoreAlone()) {
    core_ =
        std::make_unique<CoreSums>(context_, profile_, options_.min_visible);
    return;
  }
  ObserverOptions options;
  options.min_visible = options_.min_visible;
  options.metrics = options_.metrics;
  options.table = &table_;
  options.model = &model_;
  if (options_.metrics == MetricSet::kAll &&
      options_.sum_rows.value_or(!context_.device().is_cpu())) {
    rows_ = std::make_unique<RowSums>(context_, profile_, options);
  } else {
    observer_ = std::make_unique<HeadObserver>(context_, profile_, options);
  }
  if (options_.words) {
    words_ = std::make_unique<WordObserver>(context_, profile_,
                                            options_.min_visible);
  }
  if (!options_.detectors.empty()) {
    patterns_ = std::make_unique<PatternObserver>(
        context_, profile_, options_.detectors, options_.min_visible);
  }
}

// A text that ends before what the profile holds cannot be the same.
void Profiler::RequireAllSkipped() const {
  if (skip_ > 0) RefuseText("a shorter one");
}

void Profiler::RefuseText(const char* found) {
  throw Error(ErrorCode::kInvalidArgument,
              {"resume", "the text that was begun with", found,
               "give the same texts in the same order"});
}

// Runs all waiting windows in batches; false when stopped. The last run may go
// on, while more text is read.
bool Profiler::RunWaiting() {
  if (Shares() && !shared_) shared_.emplace(*options_.group, profile_);
  if (observer_ == nullptr && core_ == nullptr && rows_ == nullptr) {
    MakeObservers();
    RequireRoomToBegin();
  }
  if (counting_ && !IsCoreAlone()) counts_.Finish();
  counting_ = false;
  const int64_t batch_tokens = BatchTokens();
  const std::span<const TokenWindow> all = waiting_;
  size_t at = 0;
  while (at < all.size() && Skip(all[at])) ++at;
  while (at < all.size() && !Enough()) {
    size_t end = at;
    int64_t tokens = 0;
    // The window in which options_.tokens are reached is the last one.
    const int64_t left = options_.tokens > 0
                             ? options_.tokens - profile_.counts.tokens
                             : batch_tokens;
    const size_t last = std::min(all.size(), at + WindowBlocks::Room(profile_));
    while (end < last && tokens < left &&
           (end == at || tokens + TokensOf(all[end]) <= batch_tokens)) {
      tokens += TokensOf(all[end++]);
    }
    TellTokens(0);
    if (options_.stop.stop_requested()) {
      Settle();
      return false;
    }
    if (Owns(Block())) {
      Run(all.subspan(at, end - at));
      MaybeCheckpoint();
    } else {
      Count(all.subspan(at, end - at));
    }
    at = end;
  }
  waiting_.clear();
  return true;
}

// For the largest batch of the windows that wait.
void Profiler::RequireRoomToBegin() {
  int64_t longest = 0, all = 0;
  for (const TokenWindow& window : waiting_) {
    const int64_t rows = std::max(window.source.size(), window.target.size());
    longest = std::max(longest, rows);
    all += rows;
  }
  if (options_.tokens > 0) all = std::min(all, options_.tokens);
  const auto require = [&] {
    const int64_t together = std::max(longest, std::min(all, BatchTokens()));
    RoomNeeds needs = ForwardNeeds(context_, model_, together);
    // They look into the layer before, and into the last of the run before.
    if (rows_ != nullptr) {
      needs.run += 2 * static_cast<double>(ElementSize(model_.type())) *
                   CallNumbers(model_.config(), together);
    }
    RequireRoom(context_, needs);
  };
  if (BatchTokens() > kDeviceRowTokens) {
    try {
      return require();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      is_tight_ = true;
    }
  }
  require();
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

int64_t Profiler::BatchTokens() const {
  if (context_.device().is_cpu()) return kBatchTokens;
  const bool stays = core_ != nullptr || (rows_ != nullptr && !options_.words);
  return stays && !is_tight_ ? kDeviceTokens : kDeviceRowTokens;
}

// The sums of the last run into the profile.
void Profiler::Settle() {
  if (!std::exchange(is_running_, false)) return;
  if (core_ != nullptr) {
    core_->Finish();
  } else {
    run_.get();
    rows_->Finish();
  }
  running_.reset();
  if (const auto block = std::exchange(closing_block_, {})) CloseBlock(*block);
}

void Profiler::Count(std::span<const TokenWindow> batch) {
  const bool ours = shared_ && Owns(Block());
  for (const TokenWindow& window : batch) {
    if (ours) shared_->Count(TokensOf(window), window.key);
    ++profile_.counts.windows;
    profile_.counts.tokens += TokensOf(window);
    passed_ += TokensOf(window);
    profile_.counts.text_key += window.key;
  }
}

}  // namespace headwise
