// A model without some of its heads, repaired as asked for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headwise/heads/pruning/refit.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/heads/pruning/tune.h"
#include "prune_options.h"

namespace headwise {

struct RepairReport {
  std::vector<LayerError> layers;  // of least squares
  std::optional<Tuned> tuned;      // without its tensors
};

// All that makes smaller models of one model. Borrows what it is given.
class Pruner {
 public:
  Pruner(const PruneOptions& options, const PruneMaterial& material,
         Context& context);

  const Repairs& repairs() const { return repairs_; }
  TextParts parts() const { return SplitText(material_.examples); }
  // What stands in for removed heads; null: 0. Of the profile that was given,
  // else over the text that chooses.
  const HeadOutputs* means();

  // In memory, by fold and least squares alone.
  std::unique_ptr<Model> Without(const std::vector<HeadRef>& removed);
  // The same, by fold alone.
  std::unique_ptr<Model> Unfitted(const std::vector<HeadRef>& removed);

  // Into --out, with all repairs.
  RepairReport Write(const std::vector<HeadRef>& removed);

 private:
  ChangedTensors Changed(const std::vector<HeadRef>& removed, bool fit,
                         RepairReport& report);
  Json ConfigOf(const std::vector<HeadRef>& removed) const;
  void Finetune(const std::vector<HeadRef>& removed, ChangedTensors& changed,
                RepairReport& report);

  const PruneOptions& options_;
  const PruneMaterial& material_;
  Context& context_;
  Repairs repairs_;
  std::optional<HeadOutputs> means_;
};

// "…least squares left 3.1 % of the variance…", one line each, and as JSON.
std::string ToText(const RepairReport& report);
Json ToJson(const RepairReport& report);

}  // namespace headwise
