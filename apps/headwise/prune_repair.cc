// Door: prune_repair.h.
#include "prune_repair.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "headwise/error.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/heads/pruning/profile_means.h"
#include "interrupt.h"
#include "progress_bar.h"

namespace headwise {
namespace {

// A folder that is removed at the end, whatever the end is.
class PassingFolder {
 public:
  explicit PassingFolder(std::filesystem::path path) : path_(std::move(path)) {
    Remove();
  }
  ~PassingFolder() { Remove(); }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  void Remove() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path path_;
};

struct Errors {
  double none = 0, fold = 0, fitted = 0;
};
// Over layers, each counting alike.
Errors MeanErrors(const std::vector<LayerError>& layers) {
  Errors mean;
  const auto n = static_cast<double>(layers.size());
  for (const LayerError& layer : layers) {
    mean.none += layer.none / n;
    mean.fold += layer.fold / n;
    mean.fitted += layer.fitted / n;
  }
  return mean;
}

}  // namespace

Pruner::Pruner(const PruneOptions& options, const PruneMaterial& material,
               Context& context)
    : options_(options),
      material_(material),
      context_(context),
      repairs_(ParseRepairs(options.repair)) {
  if (repairs_.finetune) RequireTrainable(material.model());
}

const HeadOutputs* Pruner::means() {
  if (!repairs_.fold) return nullptr;
  if (!means_ && !options_.mean.empty()) {
    means_ = MeansOf(Profile::Load(options_.mean), material_.model(),
                     material_.checkpoint.hash());
  }
  if (!means_) {
    ProgressBar bar;
    means_ = MeansOver(context_, material_.model(), parts().choose,
                       CorpusOptionsFor(material_, bar, options_.seed));
  }
  return &*means_;
}

ChangedTensors Pruner::Changed(const std::vector<HeadRef>& removed, bool fit,
                               RepairReport& report) {
  const Model& model = material_.model();
  ChangedTensors changed = RemoveHeads(model, removed);
  if (removed.empty()) return changed;
  if (repairs_.fold) FoldMeans(model, removed, *means(), changed);
  if (fit && repairs_.least_squares) {
    ProgressBar bar;
    report.layers =
        RefitOutputs(context_, model, removed, {parts().choose, parts().judge},
                     repairs_.fold ? NewBias::kAllowed : NewBias::kRefused,
                     CorpusOptionsFor(material_, bar, options_.seed), changed);
  }
  return changed;
}

Json Pruner::ConfigOf(const std::vector<HeadRef>& removed) const {
  return ConfigWithout(
      ReadJson(std::filesystem::path(options_.run.model) / "config.json"),
      material_.model(), removed);
}

std::unique_ptr<Model> Pruner::Without(const std::vector<HeadRef>& removed) {
  RepairReport unused;
  return ChangedModel(options_.run.model, Changed(removed, true, unused),
                      ConfigOf(removed), material_.model().type());
}

std::unique_ptr<Model> Pruner::Unfitted(const std::vector<HeadRef>& removed) {
  RepairReport unused;
  return ChangedModel(options_.run.model, Changed(removed, false, unused),
                      ConfigOf(removed), material_.model().type());
}

void Pruner::Finetune(const std::vector<HeadRef>& removed,
                      ChangedTensors& changed, RepairReport& report) {
  std::filesystem::path folder = options_.out;
  if (!folder.has_filename()) folder = folder.parent_path();
  folder += ".tuning";
  const PassingFolder scratch(folder);
  WriteChanged(options_.run.model, folder, changed, ConfigOf(removed));
  ProgressBar bar;
  TuneOptions tune;
  tune.steps = options_.finetune_steps;
  tune.rate = options_.finetune_rate;
  tune.type = material_.model().type();
  tune.objective = material_.objective;
  tune.objective.seed = tune.seed = options_.seed;
  tune.progress = bar.callback();
  tune.stop = StopOnInterrupt();
  Tuned tuned = Tune(context_, folder, parts().choose, tune);
  for (auto& [name, tensor] : tuned.tensors) changed[name] = std::move(tensor);
  tuned.tensors.clear();
  report.tuned = std::move(tuned);
}

RepairReport Pruner::Write(const std::vector<HeadRef>& removed) {
  RepairReport report;
  ChangedTensors changed = Changed(removed, true, report);
  if (repairs_.finetune) Finetune(removed, changed, report);
  WriteChanged(options_.run.model, options_.out, changed, ConfigOf(removed),
               options_.replace());
  return report;
}

std::string ToText(const RepairReport& report) {
  std::string text;
  if (!report.layers.empty()) {
    const Errors mean = MeanErrors(report.layers);
    text += fmt::format(
        "Least squares: on that text the attention outputs of {} layers are "
        "wrong by {:.2f} % of their variance (nothing done: {:.2f} %; means "
        "folded: {:.2f} %).\n",
        report.layers.size(), 100 * mean.fitted, 100 * mean.none,
        100 * mean.fold);
  }
  if (report.tuned) {
    text += fmt::format(
        "Finetune: {:.4f} → {:.4f} on text that it was not trained on; step "
        "{} is kept.\n",
        report.tuned->before, report.tuned->after, report.tuned->kept_step);
  }
  return text;
}

Json ToJson(const RepairReport& report) {
  Json json = Json::object();
  if (!report.layers.empty()) {
    const Errors mean = MeanErrors(report.layers);
    Json layers = Json::array();
    for (const LayerError& layer : report.layers) {
      layers.push_back({{"site", layer.site},
                        {"none", layer.none},
                        {"fold", layer.fold},
                        {"least_squares", layer.fitted},
                        {"ridge", layer.ridge}});
    }
    json["output_error"] = {{"none", mean.none},
                            {"fold", mean.fold},
                            {"least_squares", mean.fitted},
                            {"layers", std::move(layers)}};
  }
  if (report.tuned) {
    json["finetune"] = {{"loss_before", report.tuned->before},
                        {"loss_after", report.tuned->after},
                        {"kept_step", report.tuned->kept_step}};
  }
  return json;
}

}  // namespace headwise
