// Door: window_runs.h.
#include "headwise/heads/profile/window_runs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "headwise/error.h"
#include "headwise/model/room.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

// Enough tokens to fill the matrix products, few enough that a layer's
// activations stay small.
constexpr int64_t kBatchTokens = 2048;
// Enough to fill a device: where it sums the rows, and where they are copied to
// the host.
constexpr int64_t kDeviceTokens = 65536;
constexpr int64_t kDeviceRowTokens = 16384;

void Append(const TokenRow& row, std::vector<int32_t>& ids,
            std::vector<int64_t>& lengths) {
  ids.insert(ids.end(), row.ids.begin(), row.ids.end());
  lengths.push_back(row.size());
}

std::vector<CoreSums::Specials> SpecialsOf(std::span<const TokenWindow> windows,
                                           const TokenTable& table) {
  const auto specials = [&](const TokenRow& row) {
    std::vector<uint8_t> special(row.ids.size());
    for (size_t i = 0; i < row.ids.size(); ++i) {
      special[i] = row.added[i] != 0 || table.special(row.ids[i]) ? 1 : 0;
    }
    return special;
  };
  std::vector<CoreSums::Specials> all;
  for (const TokenWindow& window : windows) {
    all.push_back({specials(window.source), specials(window.target)});
  }
  return all;
}

}  // namespace

// Says how far a run has come after every layer: a window may be long.
class WindowRuns::LayerSteps : public RunHooks {
 public:
  LayerSteps(const ModelConfig& config, std::function<void(double)> tell)
      : calls_(static_cast<double>(config.layers.size() +
                                   2 * config.decoder.size())),
        tell_(std::move(tell)) {}

  void AfterAttention(const AttentionSite&, const AttentionProblem&,
                      const AttentionArgs&) override {
    tell_(++done_ / calls_);
  }

 private:
  double calls_;
  double done_ = 0;
  std::function<void(double)> tell_;
};

// The inputs of a run, which are read until the device is done, and the call
// that follows when it is in the profile.
struct WindowRuns::OneRun {
  PreparedInput source, target;
  std::vector<SequenceNotes> notes;  // of the core
  std::optional<LayerSteps> steps;
  HookList hooks;
  std::function<void()> added;

  OneRun(Context& beside, Batch& batch) : added(std::move(batch.added)) {
    std::vector<int32_t> ids, decoder_ids;
    std::vector<int64_t> lengths, decoder_lengths;
    for (const TokenWindow& window : batch.windows) {
      Append(window.source, ids, lengths);
      if (window.target.size() == 0) continue;
      Append(window.target, decoder_ids, decoder_lengths);
    }
    source = PreparedInput(std::move(ids), lengths);
    target = PreparedInput(std::move(decoder_ids), decoder_lengths);
    source.MoveTo(beside);
    target.MoveTo(beside);
  }
  void IsAdded() const {
    if (added) added();
  }
};

WindowRuns::WindowRuns(Context& context, const Model& model,
                       const TokenTable& table, Profile& profile,
                       const ProfileOptions& options)
    : context_(context), model_(model), table_(table), options_(options) {
  if (options.metrics == MetricSet::kCore) {
    core_ = std::make_unique<CoreSums>(context, profile, options.min_visible);
  } else {
    rows_ = std::make_unique<RowSums>(
        context, profile,
        ObserverOptions{.min_visible = options.min_visible,
                        .table = &table,
                        .model = &model});
  }
  if (options.words) {
    words_ =
        std::make_unique<WordObserver>(context, profile, options.min_visible);
  }
  if (!options.detectors.empty()) {
    patterns_ = std::make_unique<PatternObserver>(
        context, profile, options.detectors, options.min_visible);
  }
}

// The device may still read what goes, where a run was left behind.
WindowRuns::~WindowRuns() {
  if (running_ == nullptr || is_host()) return;
  if (thread_.valid()) thread_.wait();
  try {
    context_.SynchronizeDevice();
  } catch (const Error&) {  // nothing runs any more
  }
}

Context& WindowRuns::Beside() {
  if (is_host()) return context_;
  if (side_context_ == nullptr) {
    side_context_ = std::make_unique<Context>(ContextOptions{
        .threads = context_.threads(), .device = context_.device()});
  }
  return *side_context_;
}

int64_t WindowRuns::batch_tokens() const {
  if (is_host()) return kBatchTokens;
  return words_ == nullptr && !is_tight_ ? kDeviceTokens : kDeviceRowTokens;
}

void WindowRuns::RequireRoomFor(int64_t longest, int64_t all) {
  const auto require = [&] {
    const int64_t together = std::max(longest, std::min(all, batch_tokens()));
    RoomNeeds needs = ForwardNeeds(context_, model_, together);
    // They look into the layer before, and into the last of the run before.
    if (rows_ != nullptr && !is_host()) {
      needs.run += 2 * static_cast<double>(ElementSize(model_.type())) *
                   CallNumbers(model_.config(), together);
    }
    RequireRoom(context_, needs);
  };
  if (batch_tokens() > kDeviceRowTokens) {
    try {
      return require();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      is_tight_ = true;
    }
  }
  require();
}

void WindowRuns::Run(Batch batch) {
  const auto run = std::make_shared<OneRun>(Beside(), batch);
  if (core_ != nullptr) {
    RunCore(batch, run);
  } else {
    RunRows(batch, run);
  }
}

// Asks for the run while the one before is on, so that the device has always
// something to do; that one is added meanwhile.
void WindowRuns::RunCore(Batch& batch, const std::shared_ptr<OneRun>& run) {
  CoreSums::Tokens tokens =
      CoreSums::Prepare(Beside(), SpecialsOf(batch.windows, table_));
  if (HasOthers()) {
    run->notes = AnnotateAll(Beside(), batch.windows, table_, &batch.counts);
  }
  if (is_host() || HasOthers()) Settle();
  if (!is_host()) Beside().WaitFor(context_.stream());
  CoreSums::Done done = core_->TakeRun();
  const std::shared_ptr<OneRun> before = std::exchange(running_, run);
  core_->Begin(std::move(tokens));
  AddHooks(batch, run->notes, *core_, *run);
  Start(run);
  if (before == nullptr) return;
  core_->Add(Beside(), std::move(done));
  before->IsAdded();
}

// On a device the run has a thread of its own: hooks block on host work while
// the device continues. The run before is added meanwhile, when the device is
// done with it, unless runs themselves add to the profile.
void WindowRuns::RunRows(Batch& batch, const std::shared_ptr<OneRun>& run) {
  RowSums::Batch next = rows_->Prepare(
      Beside(), AnnotateAll(Beside(), batch.windows, table_, &batch.counts));
  RowSums::Done done;
  std::shared_ptr<OneRun> before;
  if (thread_.valid()) thread_.wait();
  if (running_ != nullptr && !is_host() && !TellsExamples() && !HasOthers() &&
      !rows_->has_gates()) {
    before = std::exchange(running_, nullptr);
    thread_.get();
    Beside().WaitFor(context_.stream());
    done = rows_->TakeRun();
  }
  Settle();
  rows_->Begin(std::move(next));
  AddHooks(batch, rows_->sequences(), *rows_, *run);
  running_ = run;
  if (is_host()) {
    Start(run);
  } else {
    thread_ = std::async(std::launch::async, [this, run] { Start(run); });
  }
  if (before == nullptr) return;
  rows_->Add(Beside(), std::move(done));
  before->IsAdded();
}

// All observers', `first` before the others.
void WindowRuns::AddHooks(const Batch& batch,
                          std::span<const SequenceNotes> notes, RunHooks& first,
                          OneRun& run) {
  run.hooks = &first;
  if (words_ != nullptr) {
    words_->Begin(notes);
    run.hooks.Add(words_.get());
  }
  if (patterns_ != nullptr) {
    patterns_->Begin(batch.windows, notes);
    run.hooks.Add(patterns_.get());
  }
  if (is_host() && batch.tell) {
    run.hooks.Add(&run.steps.emplace(model_.config(), batch.tell));
  }
}

void WindowRuns::Start(const std::shared_ptr<OneRun>& run) {
  try {
    ForwardToLastAttention(context_, model_, run->source, run->target,
                           run->hooks);
  } catch (...) {
    context_.SynchronizeDevice();  // what it reads may go now
    if (is_host() || core_ != nullptr) running_ = nullptr;
    throw;
  }
}

void WindowRuns::Settle() {
  const std::shared_ptr<OneRun> run = std::exchange(running_, nullptr);
  if (run == nullptr) return;
  if (thread_.valid()) thread_.get();
  core_ != nullptr ? core_->Finish() : rows_->Finish();
  run->IsAdded();
}

}  // namespace headwise
