// Heads through a training run: what each does, as files beside the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/importance/head_life.h"
#include "headwise/heads/profile/words/word_materials.h"
#include "headwise/heads/roles/role_life.h"
#include "headwise/tokenizer/tokenizer.h"
#include "headwise/train/config.h"

namespace headwise {

// Observes every head before the first step and every so many: OUT/heads.jsonl
// and heads.svg, and the scores of every role, roles.jsonl and roles.svg.
// Nothing, where the configuration does not ask for it (observe_every). Borrows
// what it is given.
class LifeWriter {
 public:
  LifeWriter(Context& context, const TrainConfig& config,
             const WordFiles& words);

  // step: those that earlier pieces of the run did.
  void Begin(const Model& model, int64_t step);
  // After the step `done`, counted from 1.
  void Show(const Model& model, int64_t done);

 private:
  void Observe(const Model& model, int64_t step);
  void Prepare(const Model& model);

  Context& context_;
  const TrainConfig& config_;
  const WordFiles& words_;
  std::filesystem::path out_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<LifeObserver> observer_;
  std::optional<WordMaterials> materials_;
  std::vector<LifeMoment> life_;
  std::vector<RoleMoment> roles_;
};

}  // namespace headwise
