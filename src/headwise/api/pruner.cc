// Door: pruner.h.
#include "headwise/api/pruner.h"

#include <system_error>
#include <utility>

#include "headwise/api/state.h"
#include "headwise/base/json.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/heads/pruning/profile_means.h"
#include "headwise/heads/pruning/refit.h"
#include "headwise/heads/pruning/tune.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {

Pruner::Pruner(Transformer& model, const JudgedInput& input,
               const PruneJob& job, const PassOptions& pass)
    : model_(model), input_(input), job_(job), pass_(pass) {
  if (Does(job, Repair::kFinetune) || job.tune)
    RequireTrainable(model.state().model());
}

const Model& Pruner::whole() const {
  return tuned_model_ ? *tuned_model_ : model_.state().model();
}

ChangedTensors Pruner::TunedTensors() const {
  ChangedTensors copies;
  for (const auto& [name, tensor] : tuned_) {
    copies[name] = ToHost(model_.context(), tensor.view());
  }
  return copies;
}

void Pruner::UseTuned(const GateLearning& by, ChangedTensors tensors) {
  means_.reset();
  tuned_by_ = by;
  tuned_ = std::move(tensors);
  tuned_model_ =
      ChangedModel(model_.folder(), TunedTensors(),
                   ReadJson(model_.folder() / "config.json"), model_.type());
}

void Pruner::UseOwn() {
  if (!tuned_by_) return;
  means_.reset();
  tuned_by_.reset();
  tuned_.clear();
  tuned_model_.reset();
}

std::vector<TextExample> Pruner::RepairText() const {
  const std::span<const TextExample> all = split().choose;
  const ModelConfig& config = model_.state().model().config();
  if (config.causal || config.encoder_decoder()) {
    return {all.begin(), all.end()};
  }
  return OfMixedLengths(all);
}

const HeadOutputs* Pruner::means() {
  if (!Does(job_, Repair::kFold)) return nullptr;
  const Model& model = whole();
  if (!means_ && job_.means != nullptr) {
    means_ = MeansOf(*job_.means, model, model_.hash());
  }
  if (!means_) {
    means_ = MeansOver(model_.context(), model, RepairText(), corpus());
  }
  return &*means_;
}

ChangedTensors Pruner::Changed(const std::vector<HeadRef>& removed, bool fit,
                               PruneOutcome& outcome) {
  const Model& model = whole();
  ChangedTensors changed = RemoveHeads(model, removed);
  changed.merge(TunedTensors());  // those that lost nothing
  if (removed.empty()) return changed;
  const bool fold = Does(job_, Repair::kFold);
  if (fold) FoldMeans(model, removed, *means(), changed);
  if (fit && Does(job_, Repair::kLeastSquares)) {
    const std::vector<TextExample> text = RepairText();
    outcome.layers = RefitOutputs(
        model_.context(), model, removed, {text, split().judge},
        fold ? NewBias::kAllowed : NewBias::kRefused, corpus(), changed);
  }
  return changed;
}

Json Pruner::ConfigOf(const std::vector<HeadRef>& removed) const {
  return ConfigWithout(ReadJson(model_.folder() / "config.json"),
                       model_.state().model(), removed);
}

std::unique_ptr<Model> Pruner::Without(const std::vector<HeadRef>& removed) {
  PruneOutcome unused;
  return ChangedModel(model_.folder(), Changed(removed, true, unused),
                      ConfigOf(removed), model_.type());
}

std::unique_ptr<Model> Pruner::Unfitted(const std::vector<HeadRef>& removed) {
  PruneOutcome unused;
  return ChangedModel(model_.folder(), Changed(removed, false, unused),
                      ConfigOf(removed), model_.type());
}

void Pruner::Finetune(const std::vector<HeadRef>& removed,
                      const std::filesystem::path& folder, Replace replace,
                      ChangedTensors& changed, PruneOutcome& outcome) {
  const auto scratch =
      WriteBeside(model_.folder(), folder, changed, ConfigOf(removed), replace);
  TuneOptions tune;
  tune.steps = job_.finetune_steps;
  tune.rate = job_.finetune_rate;
  tune.type = model_.type();
  tune.objective = input_.objective;
  tune.seed = job_.seed;
  tune.progress = pass_.progress;
  tune.stop = pass_.stop;
  Tuned tuned = Tune(model_.context(), scratch->path(), split().choose, tune);
  for (auto& [name, tensor] : tuned.tensors) changed[name] = std::move(tensor);
  outcome.tuned_step = tuned.kept_step;
  outcome.tuned_before = tuned.before;
  outcome.tuned_after = tuned.after;
}

void Pruner::Write(const std::vector<HeadRef>& removed,
                   const std::filesystem::path& folder, Replace replace,
                   PruneOutcome& outcome) {
  ChangedTensors changed = Changed(removed, true, outcome);
  if (Does(job_, Repair::kFinetune))
    Finetune(removed, folder, replace, changed, outcome);
  WriteChanged(model_.folder(), folder, changed, ConfigOf(removed), replace);
}

}  // namespace headwise
