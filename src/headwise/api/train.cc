// Training runs. Door: include/headwise/train.h.
#include "headwise/train.h"

#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headwise/api/life_writer.h"
#include "headwise/api/state.h"
#include "headwise/api/training_charts.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/fields.h"
#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/train/run.h"
#include "headwise/train/run_folder.h"
#include "headwise/work_group.h"

namespace headwise {
namespace {

constexpr const char* kTextsFile = "texts.jsonl";

TrainConfig ConfigOf(const TrainJob& job) {
  if (!job.file && !job.json) {
    throw Error(ErrorCode::kInvalidArgument,
                {"train", "a configuration, as file or as json", "none",
                 "examples/train holds some"});
  }
  Json json = Json::object();
  if (job.file) json = ReadJson(*job.file);
  if (job.json) {
    const Json over = ParseJson(*job.json, "json");
    if (!json.is_object() || !over.is_object()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {"json", "an object of fields",
           Describe(json.is_object() ? over : json), "{\"steps\": 200, …}"});
    }
    for (const auto& [key, value] : over.items()) json[key] = value;
  }
  if (!job.texts.empty()) {
    if (json.is_object() && json.contains("data")) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"train", "either texts or \"data\"",
                   std::to_string(job.texts.size()) + " texts and \"data\" " +
                       json["data"].dump(),
                   "leave out one of them"});
    }
    json["data"] = {kTextsFile};
  }
  return ReadTrainConfig(std::move(json),
                         job.file ? job.file->string() : "json", job.settings);
}

// Texts become a file of the run's folder, where a run that is resumed finds
// them.
void KeepTexts(const TrainJob& job, TrainConfig& config) {
  const std::filesystem::path file =
      std::filesystem::path(config.out) / kTextsFile;
  std::string lines;
  for (const std::string& text : job.texts) {
    lines += DumpUtf8({{"text", text}}, "texts") + "\n";
  }
  const RunFolder folder(config.out);
  if (!job.resume && !job.force) folder.RequireNew();
  WriteFileAtomically(file, lines);
  config.data = {file.string()};
}

TrainStep StepOf(const StepView& view, const TrainConfig& config) {
  TrainStep step;
  step.step = view.report.step;
  step.steps = config.steps;
  step.loss = view.report.loss;
  step.penalty = view.report.penalty;
  step.assigned = view.report.assigned;
  step.gradient_norm = view.report.gradient_norm;
  step.rate = view.report.rate;
  step.tokens = view.report.tokens;
  if (!std::isnan(view.validation)) step.validation = view.validation;
  step.seconds = view.seconds;
  return step;
}

void RequireSense(const TrainJob& job, const TrainConfig& config) {
  if (job.resume && job.force) {
    throw Error(ErrorCode::kInvalidArgument,
                {"train", "either `resume` or `force`", "both",
                 "resume goes on with the run, force begins it anew"});
  }
  if (job.words.any() && (!job.observe || config.observe_every <= 0)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"train", "heads that are observed, for `conllu`, `coref` and `pairs`",
         job.observe ? fmt::format("observe_every {}", config.observe_every)
                     : "no `observe`",
         "set observe_every in the configuration"});
  }
}

TrainOutcome OutcomeOf(RunResult run, const TrainConfig& config) {
  TrainOutcome outcome;
  outcome.out = config.out;
  outcome.planned_steps = config.steps;
  outcome.finished = run.finished;
  outcome.steps = run.record.step;
  outcome.parameters = run.record.parameters;
  outcome.tokens = run.record.tokens;
  outcome.seconds = run.record.seconds;
  if (const auto best = run.record.Best()) outcome.best_step = best->first;
  outcome.losses = std::move(run.record.losses);
  outcome.validation = std::move(run.record.validation);
  outcome.last = std::move(run.last);
  outcome.best = std::move(run.best);
  return outcome;
}

}  // namespace

std::vector<TrainField> TrainFields() {
  std::vector<TrainField> fields;
  const TrainConfig config;
  TrainConfig::VisitFields(
      config, [&](const char* name, const auto& value, const char* help) {
        fields.push_back({name, FieldToJson(value).dump(), help});
      });
  return fields;
}

TrainOutcome Train(const TrainJob& job) {
  dist::Group* group = job.group == nullptr ? nullptr : &job.group->group();
  TrainConfig config = ConfigOf(job);
  RequireSense(job, config);
  if (!job.texts.empty()) KeepTexts(job, config);
  const bool first = group == nullptr || group->is_first();
  Context context({.threads = job.threads, .device = job.device});
  std::optional<LifeWriter> life;
  if (job.observe && first) life.emplace(context, config, job.words);
  RunOptions options;
  options.resume = job.resume;
  options.replace = job.force;
  options.type = ComputeType(job.device, job.type);
  options.progress = job.on_progress;
  options.group = group;
  options.timeline = job.timeline.value_or("");
  options.stop = job.stop;
  options.on_start = [&](const Model& model, int64_t step) {
    if (job.on_start) job.on_start(step);
    if (life) life->Begin(model, step);
  };
  options.on_step = [&](const StepView& view) {
    if (job.on_step) job.on_step(StepOf(view, config));
    if (life) life->Show(view.model, view.report.step + 1);
  };
  RunResult run = RunTraining(context, config, options);
  if (job.observe && first) {
    WriteLossCurve(std::filesystem::path(config.out) / "loss.svg", run.record);
  }
  return OutcomeOf(std::move(run), config);
}

}  // namespace headwise
