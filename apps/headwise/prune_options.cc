// Door: prune_options.h.
#include "prune_options.h"

#include <algorithm>

#include "command.h"
#include "headwise/error.h"

namespace headwise {
namespace {

// A job that no model can fulfil was asked for wrongly.
void RequireJob(const PruneOptions& options) {
  PruneJob job = options.job;
  // Which heads they are, the model says.
  if (!options.drop.empty()) job.drop.resize(1);
  try {
    RequirePossible(job);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

bool Folds(const PruneOptions& options) {
  return std::ranges::find(options.job.repair, Repair::kFold) !=
         options.job.repair.end();
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
  RequireJob(options);
  if (options.job.tune && curve) {
    throw UsageError("--tune changes the model: no --curve with it");
  }
  if (!options.mean.empty() && !Folds(options)) {
    throw UsageError("--mean is what fold takes: expected --repair fold");
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
