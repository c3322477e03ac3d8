// A model without some of its heads, repaired as asked for.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "headwise/api/prune_job.h"
#include "headwise/api/text_input.h"
#include "headwise/heads/importance/corpus_runs.h"
#include "headwise/heads/pruning/remove.h"

namespace headwise {

// All that makes smaller models of one model. Borrows what it is given.
class Pruner {
 public:
  Pruner(Transformer& model, const JudgedInput& input, const PruneJob& job,
         const PassOptions& pass);

  TextParts split() const { return SplitText(input_.examples); }
  CorpusOptions corpus() const {
    return CorpusOptionsOf(input_, job_.seed, pass_);
  }
  const PassOptions& pass() const { return pass_; }
  void StopSharing() { pass_.group = nullptr; }
  // What stands in for removed heads; null: 0. Of the profile that was given,
  // else over the text that chooses.
  const HeadOutputs* means();

  // Weights that learned along with gates take the place of the model's own,
  // as what heads leave; or its own do again.
  void UseTuned(const GateLearning& by, ChangedTensors tensors);
  void UseOwn();
  // By which those in use were learned; none: the model's own.
  const std::optional<GateLearning>& tuned_by() const { return tuned_by_; }

  // In memory, by fold and least squares alone.
  std::unique_ptr<Model> Without(const std::vector<HeadRef>& removed);
  // The same, by fold alone.
  std::unique_ptr<Model> Unfitted(const std::vector<HeadRef>& removed);

  // Into a folder, with all repairs, of which `outcome` is told.
  void Write(const std::vector<HeadRef>& removed,
             const std::filesystem::path& folder, Replace replace,
             PruneOutcome& outcome);

 private:
  // What heads leave.
  const Model& whole() const;
  ChangedTensors TunedTensors() const;  // copies
  // What repairs fit: the text that chooses, of encoders in several lengths.
  std::vector<TextExample> RepairText() const;
  ChangedTensors Changed(const std::vector<HeadRef>& removed, bool fit,
                         PruneOutcome& outcome);
  Json ConfigOf(const std::vector<HeadRef>& removed) const;
  void Finetune(const std::vector<HeadRef>& removed,
                const std::filesystem::path& folder, Replace replace,
                ChangedTensors& changed, PruneOutcome& outcome);

  Transformer& model_;
  const JudgedInput& input_;
  const PruneJob& job_;
  PassOptions pass_;
  std::optional<GateLearning> tuned_by_;
  ChangedTensors tuned_;
  std::unique_ptr<Model> tuned_model_;
  std::optional<HeadOutputs> means_;  // of the weights in use
};

}  // namespace headwise
