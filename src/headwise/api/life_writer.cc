// Door: life_writer.h.
#include "headwise/api/life_writer.h"

#include "headwise/api/training_charts.h"
#include "headwise/runtime/windows.h"

namespace headwise {

LifeWriter::LifeWriter(Context& context, const TrainConfig& config,
                       const WordFiles& words)
    : context_(context), config_(config), words_(words), out_(config.out) {}

void LifeWriter::Begin(const Model& model, int64_t step) {
  if (config_.observe_every <= 0) return;
  if (step == 0) {
    Observe(model, step);
  } else {  // what a lost piece of the run saw is seen again
    life_ = ReadLife(out_ / "heads.jsonl", step);
    roles_ = ReadRoleLife(out_ / "roles.jsonl", step);
  }
}

void LifeWriter::Show(const Model& model, int64_t done) {
  if (config_.observe_every <= 0) return;
  if (done % config_.observe_every != 0 && done != config_.steps) return;
  Observe(model, done);
}

void LifeWriter::Observe(const Model& model, int64_t step) {
  if (!observer_) Prepare(model);
  Profile profile;
  life_.push_back(observer_->Observe(model, step, &profile));
  materials_->AddTo(context_, model, *tokenizer_, {}, profile);
  roles_.push_back(RolesAt(profile, step));
  WriteLife(out_ / "heads.jsonl", life_);
  WriteLifeChart(out_ / "heads.svg", life_);
  WriteRoleLife(out_ / "roles.jsonl", roles_);
  WriteRoleChart(out_ / "roles.svg", roles_);
}

void LifeWriter::Prepare(const Model& model) {
  constexpr int64_t kTokens = 2048;  // of an observation
  tokenizer_ = Tokenizer::Load(config_.tokenizer.empty() ? config_.start
                                                         : config_.tokenizer);
  const WindowCutter cutter(*tokenizer_, model.config(),
                            {.context = config_.sequence});
  observer_.emplace(context_, *tokenizer_, model.config(),
                    ReadWindows(config_.validation.empty() ? config_.data
                                                           : config_.validation,
                                cutter, kTokens));
  materials_.emplace(words_, model, tokenizer_.get(), config_.out);
}

}  // namespace headwise
