// Door: prune_options.h.
#include "prune_options.h"

#include <fmt/core.h>

#include <functional>

#include "command.h"
#include "headwise/api/prune_job.h"
#include "headwise/error.h"

namespace headwise {
namespace {

// What the library cannot read is the flag's fault.
void Read(const char* flag, const std::function<void()>& parse) {
  try {
    parse();
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: expected {}; found {}", flag,
                                 error.parts().expected, error.parts().found));
  }
}

// Weights that learn along with gates.
void CheckTuning(const PruneOptions& options) {
  const PruneJob& job = options.job;
  if (!job.tune) return;
  if (job.by != Criterion::kGates || !options.drop.empty() || job.plan) {
    throw UsageError(
        "--tune trains weights along with gates: expected --by gates with it, "
        "and neither --drop nor --plan");
  }
  if (!options.curve.empty()) {
    throw UsageError("--tune changes the model: no --curve with it");
  }
  if (!options.mean.empty()) {
    throw UsageError(
        "--mean is of a model before --tune: fold takes means over the text");
  }
  if (!(job.finetune_rate > 0)) {
    throw UsageError(
        fmt::format("--finetune-rate: expected a rate above 0, at which "
                    "--tune trains; found {}",
                    job.finetune_rate));
  }
}

}  // namespace

bool Folds(const PruneOptions& options) {
  return Does(options.job, Repair::kFold);
}

std::vector<TextInput> JudgedTexts(const PruneOptions& options) {
  std::vector<TextInput> texts;
  for (const std::string& path : options.judge) {
    TextInput& text = texts.emplace_back(options.text.input);
    text.files = {path};
    text.tokens = *text.tokens / 4;
  }
  return texts;
}

void CheckUsage(const PruneOptions& options) {
  const int ways = options.job.keep.has_value() + !options.drop.empty() +
                   options.job.plan.has_value() +
                   options.job.max_loss.has_value() +
                   options.job.target_speedup.has_value();
  const bool curve = !options.curve.empty();
  if (ways != 1 && !(curve && ways == 0 && options.out.empty())) {
    throw UsageError(
        "expected one of --keep, --drop, --plan, --max-loss, "
        "--target-speedup");
  }
  if (options.job.iterative > 1 &&
      (!options.drop.empty() || options.job.plan || curve)) {
    throw UsageError(
        "--iterative ranks heads: expected --keep, --max-loss or "
        "--target-speedup with it, and no --curve");
  }
  if (options.job.iterative > 1 && options.job.by == Criterion::kGates) {
    throw UsageError("--by gates learns all gates at once: no --iterative");
  }
  CheckTuning(options);
  Read("--repair", [&] { RequireOrder(options.job.repair); });
  if (!options.mean.empty() && !Folds(options)) {
    throw UsageError("--mean is what fold takes: expected --repair fold");
  }
  if (options.job.max_loss) {
    Read("--max-loss", [&] { ParseLossLimit(*options.job.max_loss); });
  }
  const bool writes = !options.plan_only && !options.out.empty();
  if (!writes && (!options.judge.empty() || !options.prompts.empty())) {
    throw UsageError(
        "--judge and --prompts are of the smaller model: expected --out");
  }
  if (options.plan_only && !options.out.empty()) {
    throw UsageError(
        "--plan-only writes no model: leave out --out, or leave out "
        "--plan-only");
  }
  if (options.plan_only && options.plan_out.empty()) {
    throw UsageError("--plan-only needs --plan-out FILE");
  }
  if (!options.plan_only && options.out.empty() && !(curve && ways == 0)) {
    throw UsageError("expected --out FOLDER");
  }
}

}  // namespace headwise
