// One batch of windows through the model, while the one before is added up.
// Door: profiler.h.
#include <functional>
#include <optional>
#include <utility>

#include "headwise/error.h"
#include "headwise/heads/profile/both_hooks.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

void Append(const TokenRow& row, std::vector<int32_t>& ids,
            std::vector<int64_t>& lengths) {
  ids.insert(ids.end(), row.ids.begin(), row.ids.end());
  lengths.push_back(row.size());
}

// Says how far a run has come after every layer: a window may be long.
class LayerSteps : public RunHooks {
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

}  // namespace

// What a run of windows reads, in whatever thread, until the device is done.
struct Profiler::WindowRun {
  PreparedInput source, target;
  std::optional<BothHooks> with_words, with_patterns;
  RunHooks* hooks = nullptr;

  WindowRun(Context& beside, std::span<const TokenWindow> batch) {
    std::vector<int32_t> ids, decoder_ids;
    std::vector<int64_t> lengths, decoder_lengths;
    for (const TokenWindow& window : batch) {
      Append(window.source, ids, lengths);
      if (window.target.size() == 0) continue;
      Append(window.target, decoder_ids, decoder_lengths);
    }
    source = PreparedInput(std::move(ids), lengths);
    target = PreparedInput(std::move(decoder_ids), decoder_lengths);
    source.MoveTo(beside);
    target.MoveTo(beside);
  }
  void Start(Context& context, const Model& model) const {
    try {
      ForwardToLastAttention(context, model, source, target, hooks);
    } catch (...) {
      context.SynchronizeDevice();  // what it reads may go now
      throw;
    }
  }
};

// `more`: tokens of a run that is on.
void Profiler::TellTokens(double more) const {
  if (!options_.progress) return;
  options_.progress("profile",
                    static_cast<double>(profile_.counts.tokens) + more,
                    options_.tokens > 0 ? static_cast<double>(options_.tokens)
                                        : expected_tokens_);
}

// Of the same device: prepares a run, and adds the one before, beside the run
// that is on.
Context& Profiler::Beside() {
  if (context_.device().is_cpu()) return context_;
  if (beside_ == nullptr) {
    beside_ = std::make_unique<Context>(ContextOptions{
        .threads = context_.threads(), .device = context_.device()});
  }
  return *beside_;
}

// What is asked of Beside() from now on begins when the run is done that is on.
void Profiler::OrderBeside() {
  if (!context_.device().is_cpu()) Beside().WaitFor(context_.stream());
}

// Asks for the run, which goes on when this returns. It is asked for while the
// one before is on, so that the device has always something to do; that one is
// added meanwhile.
void Profiler::RunCore(std::span<const TokenWindow> batch) {
  std::vector<uint8_t> special, decoder_special;
  const auto note = [&](const TokenRow& row, std::vector<uint8_t>& to) {
    for (size_t i = 0; i < row.ids.size(); ++i) {
      to.push_back(row.added[i] != 0 || table_.special(row.ids[i]) ? 1 : 0);
    }
  };
  for (const TokenWindow& window : batch) {
    note(window.source, special);
    note(window.target, decoder_special);
  }
  const auto run = std::make_shared<WindowRun>(Beside(), batch);
  run->hooks = core_.get();
  CoreSums::Tokens tokens = CoreSums::Prepare(
      Beside(), static_cast<int64_t>(batch.size()), special, decoder_special);
  OrderBeside();
  CoreSums::Done done = core_->TakeRun();
  const auto done_run = std::exchange(running_, run);
  const auto done_block = std::exchange(closing_block_, {});
  core_->Begin(std::move(tokens));
  is_running_ = true;
  run->Start(context_, model_);
  core_->Add(Beside(), std::move(done));
  if (done_block) CloseBlock(*done_block);
  Count(batch);
  if (profile_.counts.windows % kBlockWindows == 0) {
    closing_block_ = Block() - 1;
  }
}

// Hooks of all observers, `first` before the others.
void Profiler::AddHooks(std::span<const TokenWindow> batch,
                        std::span<const SequenceNotes> notes, RunHooks& first,
                        WindowRun& run) {
  run.hooks = &first;
  if (words_ != nullptr) {
    words_->Begin(notes);
    run.hooks = &run.with_words.emplace(*run.hooks, *words_);
  }
  if (patterns_ != nullptr) {
    patterns_->Begin(batch, notes);
    run.hooks = &run.with_patterns.emplace(*run.hooks, *patterns_);
  }
}

// Starts the run in a thread of its own, since the host is asked for this and
// that while it goes on. On the host it waits for Settle: there is nothing to
// be gained. The run before is added meanwhile, when the device is done with
// it, unless what is asked for besides is added by the runs themselves.
void Profiler::RunRows(std::span<const TokenWindow> batch) {
  const auto run = std::make_shared<WindowRun>(Beside(), batch);
  RowSums::Batch next =
      rows_->Prepare(Beside(), AnnotateAll(Beside(), batch, table_, &counts_));
  RowSums::Done done;
  std::shared_ptr<const WindowRun> done_run;
  std::optional<int64_t> done_block;
  if (is_running_) run_.wait();
  if (is_running_ && !shared_ && words_ == nullptr && patterns_ == nullptr &&
      !rows_->has_gates()) {
    is_running_ = false;
    run_.get();
    OrderBeside();
    done = rows_->TakeRun();
    done_run = std::move(running_);
    done_block = std::exchange(closing_block_, {});
  }
  Settle();
  rows_->Begin(std::move(next));
  AddHooks(batch, rows_->sequences(), *rows_, *run);
  is_running_ = true;
  running_ = run;
  run_ = std::async(
      context_.device().is_cpu() ? std::launch::deferred : std::launch::async,
      [this, run] { run->Start(context_, model_); });
  rows_->Add(Beside(), std::move(done));
  if (done_block) CloseBlock(*done_block);
  Count(batch);
  if (profile_.counts.windows % kBlockWindows == 0) {
    closing_block_ = Block() - 1;
  }
}

void Profiler::Run(std::span<const TokenWindow> batch) {
  if (core_ != nullptr) {
    RunCore(batch);
    return;
  }
  if (rows_ != nullptr) {
    RunRows(batch);
    return;
  }
  const std::vector<SequenceNotes> notes =
      AnnotateAll(context_, batch, table_, &counts_);
  WindowRun run(context_, batch);
  observer_->Begin(notes);
  AddHooks(batch, notes, *observer_, run);
  int64_t tokens = 0;
  for (const TokenWindow& window : batch) tokens += TokensOf(window);
  LayerSteps steps(model_.config(), [&](double share) {
    TellTokens(share * static_cast<double>(tokens));
  });
  BothHooks with_steps(*run.hooks, steps);
  run.hooks = &with_steps;
  run.Start(context_, model_);
  Count(batch);
  if (profile_.counts.windows % kBlockWindows == 0) CloseBlock(Block() - 1);
}

}  // namespace headwise
