// Runs. Door: run.h.
#include "headwise/train/run.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "headwise/base/fields.h"
#include "headwise/context.h"
#include "headwise/dist/same_run.h"
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/model_hash.h"
#include "headwise/model/room.h"
#include "headwise/train/gradient_tree.h"
#include "headwise/train/material.h"
#include "headwise/train/run_folder.h"

namespace headwise {
namespace {

using Path = std::filesystem::path;
Json DescribeMachine(const Context& context, int ranks) {
  utsname name{};
  ::uname(&name);
  return {{"architecture", name.machine},
          {"system", name.sysname},
          {"instructions", InstructionSet()},
          {"threads", context.threads()},
          {"ranks", ranks}};
}

// Lists every field that differs, in one error.
void RefuseChanges(const Path& checkpoint, const TrainingRecord& before,
                   const TrainConfig& now, const Json& data) {
  std::vector<std::string> changes = Differences(before.config, now);
  if (before.data.value("hash", "") != data.value("hash", "")) {
    changes.push_back("data: other text or another tokenizer");
  }
  if (changes.empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              {checkpoint.string(), "the configuration it was begun with",
               fmt::format("{}", fmt::join(changes, "; ")),
               "begin a new run in another folder"});
}

// A record that was changed, or that another run left.
void RequireRecordOf(const Path& checkpoint, const TrainingRecord& record,
                     const TrainConfig& config) {
  const int64_t step = StepOfCheckpoint(checkpoint);
  if (record.step == step && step <= config.steps) return;
  throw Error(ErrorCode::kCorrupt,
              {(checkpoint / "training.json").string(),
               fmt::format("step {} of {}", step, config.steps),
               fmt::format("step {}", record.step),
               "start a new run, or remove this checkpoint"});
}

// A new run would remove what it begins with.
void RequireStartElsewhere(const TrainConfig& config) {
  std::error_code ignored;
  const Path start = std::filesystem::weakly_canonical(config.start, ignored);
  const Path out = std::filesystem::weakly_canonical(
      Path(config.out) / "checkpoints", ignored);
  const Path within = start.lexically_relative(out);
  if (config.start.empty() || within.empty() || *within.begin() == "..") return;
  throw Error(ErrorCode::kInvalidArgument,
              {"training", "a start outside of the checkpoints to be replaced",
               config.start, "name another folder for the run"});
}

// Before the first step, so that no rank adds up gradients of another run. What
// lies where may differ: the files themselves are compared by content.
void RequireOneConfig(dist::Group* group, const TrainConfig& config,
                      const RunOptions& options) {
  if (group == nullptr || group->is_single()) return;
  const std::set<std::string> places = {"data", "validation", "tokenizer",
                                        "start"};
  std::vector<RunField> fields = {
      {"type", Name(options.type)},
      {"--resume", options.resume ? "true" : "false"},
      {"--force", options.replace ? "true" : "false"}};
  const Json all = FieldsToJson(config);
  for (const auto& [name, value] : all.items()) {
    if (!places.contains(name)) fields.push_back({name, value.dump()});
  }
  fields.push_back(
      {"start", config.start.empty()
                    ? std::string("a new model")
                    : "weights of hash " + ModelHash(Path(config.start))});
  dist::RequireSameRun(*group, fields);
}

void RequireOneText(dist::Group* group, const Json& data) {
  if (group == nullptr || group->is_single()) return;
  const RunField field = {"data and tokenizer",
                          "hash " + data.value("hash", "")};
  dist::RequireSameRun(*group, {&field, 1});
}

// Rank 0 first: it keeps the tokens of the text in the run's folder, where the
// others find them.
Material OpenInTurn(Context& context, const TrainConfig& config,
                    const RunOptions& options) {
  const bool waits = options.group != nullptr && !options.group->is_first();
  if (waits) options.group->Barrier();
  Material material =
      OpenMaterial(context, options.type, config, options.progress);
  if (options.group != nullptr && !waits) options.group->Barrier();
  RequireOneText(options.group, material.data);
  return material;
}

class Run {
 public:
  Run(Context& context, const TrainConfig& config, const RunOptions& options)
      : context_(context),
        config_(config),
        options_(options),
        out_(config.out),
        material_(OpenInTurn(context, config, options)) {
    RequireRoomToBegin();
    trainer_ = std::make_unique<Trainer>(
        context_, config_, *material_.model, *material_.store,
        material_.classifier ? &*material_.classifier : nullptr);
    trainer_->ShareWith(&Group());
    if (!options_.timeline.empty()) {
      timeline_.emplace(Group());
      trainer_->Record(&*timeline_);
    }
    record_.config = FieldsToJson(config_);
    record_.data = material_.data;
    record_.machine = DescribeMachine(context_, Group().size());
    record_.machine["optimizer_bytes"] = trainer_->optimizer().state_bytes();
    record_.parameters = material_.store->Count();
  }

  RunResult Finish() {
    if (options_.replace && Group().is_first()) RemoveCheckpoints(out_);
    Resume();
    if (options_.on_start) options_.on_start(*material_.model, record_.step);
    Group().Barrier();  // they opened in turn
    const auto begun = std::chrono::steady_clock::now();
    const double seconds_before = record_.seconds;
    const int64_t steps_before = record_.step;
    auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                           begun)
          .count();
    };
    while (record_.step < config_.steps && !IsStopped()) {
      const StepReport report = trainer_->Step(*material_.train);
      record_.step = report.step + 1;
      record_.tokens += report.tokens;
      record_.losses.push_back(report.loss);
      const double validation = Evaluate();
      record_.seconds = seconds_before + seconds();
      if (options_.on_step) {
        options_.on_step(
            {report, validation, seconds(), steps_before, *material_.model});
      }
      const auto best = record_.Best();
      if (record_.step % config_.save_every == 0 ||
          (best && best->first == record_.step)) {
        Save();
      }
    }
    Save();
    if (timeline_) timeline_->Write(Group(), options_.timeline);
    RunResult result;
    result.finished = record_.step >= config_.steps;
    result.last = result.finished ? out_ : CheckpointFolder(out_, record_.step);
    if (const auto best = record_.Best()) {
      const Path folder = CheckpointFolder(out_, best->first);
      std::error_code ignored;
      if (std::filesystem::exists(folder, ignored)) result.best = folder;
    }
    if (result.finished && Group().is_first()) {
      SaveModel(
          out_, material_.files, *material_.store,
          config_.save_type == SaveType::kBF16 ? DType::kBF16 : DType::kF32,
          record_);
    }
    result.record = std::move(record_);
    return result;
  }

 private:
  dist::Group& Group() const {
    return options_.group != nullptr ? *options_.group : *alone_;
  }

  // The first batch is as large as any. On a device; the host is not asked.
  void RequireRoomToBegin() {
    if (context_.device().is_cpu()) return;
    const TrainBatch batch = material_.train->Make(0, config_.micro_batch);
    TrainingSize size;
    size.tokens = std::max(std::ssize(batch.ids), std::ssize(batch.source_ids));
    size.recompute = config_.recompute;
    for (const ParameterStore::Buffer& buffer : material_.store->buffers()) {
      size.parameters += buffer.used;
      if (buffer.gradient.size() > 0) size.missing = 2;  // the moments
    }
    RequireRoom(context_, TrainingNeeds(material_.model->config(),
                                        material_.model->type(), size));
  }

  // All ranks stop after the same step.
  bool IsStopped() const {
    int64_t asked[] = {options_.stop.stop_requested() ? 1 : 0};
    Group().AllReduce(std::span<int64_t>(asked));
    return asked[0] > 0;
  }

  // Rank 0 looks, all ranks go on from what it found.
  std::optional<Path> FindCheckpoint() const {
    std::optional<Path> found;
    if (Group().is_first()) found = NewestCheckpoint(out_);
    std::string name = found ? found->string() : "";
    Group().Broadcast(name);
    if (name.empty()) return {};
    return Path(name);
  }

  void Resume() {
    const std::optional<Path> checkpoint = FindCheckpoint();
    if (!checkpoint) return;
    TrainingRecord before =
        TrainingRecord::FromFile(*checkpoint / "training.json");
    RequireRecordOf(*checkpoint, before, config_);
    RefuseChanges(*checkpoint, before, config_, record_.data);
    RestoreCheckpoint(context_, *checkpoint, *material_.store,
                      trainer_->optimizer(), before.step);
    before.config = record_.config;
    before.machine = record_.machine;
    record_ = std::move(before);
  }

  double Evaluate() {
    const bool due = record_.step % config_.evaluate_every == 0 ||
                     record_.step == config_.steps;
    if (!due || material_.validation == nullptr) return NAN;
    const double loss =
        trainer_->Evaluate(*material_.validation, config_.evaluate_sequences);
    // Nothing to evaluate is not a number, which JSON has no word for.
    if (std::isfinite(loss)) {
      record_.validation.emplace_back(record_.step, loss);
    }
    return loss;
  }

  void Save() {
    OptimizerState state = trainer_->optimizer().State(context_);
    if (!Group().is_first()) return;
    SaveCheckpoint(out_, material_.files, *material_.store, std::move(state),
                   record_);
  }

  Context& context_;
  const TrainConfig& config_;
  const RunOptions& options_;
  std::unique_ptr<dist::Group> alone_ = dist::MakeSingleGroup();
  Path out_;
  Material material_;
  std::optional<Timeline> timeline_;
  std::unique_ptr<Trainer> trainer_;
  TrainingRecord record_;
};

}  // namespace

RunResult RunTraining(Context& context, const TrainConfig& config,
                      const RunOptions& options) {
  CheckTrainConfig(config, "training");
  RequireOneConfig(options.group, config, options);
  // Throws where they do not fit.
  [[maybe_unused]] const GradientTree fits(options.group, config.parts);
  if (options.group != nullptr && !options.group->is_first()) {
    return Run(context, config, options).Finish();
  }
  const RunFolder folder(config.out);
  if (options.replace) {
    RequireStartElsewhere(config);
  } else if (options.resume) {
    folder.RequireRun();
  } else {
    folder.RequireNew();
  }
  return Run(context, config, options).Finish();
}

}  // namespace headwise
