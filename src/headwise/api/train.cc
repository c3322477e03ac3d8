// Training runs. Door: include/headwise/train.h.
#include "headwise/train.h"

#include <string>
#include <utility>

#include "headwise/api/state.h"
#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/train/run.h"

namespace headwise {
namespace {

TrainConfig ConfigOf(const TrainJob& job) {
  if (job.file.empty() && job.json.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"train", "a configuration, as file or as json", "none", ""});
  }
  Json json = Json::object();
  if (!job.file.empty()) json = ReadJson(job.file);
  if (!job.json.empty()) {
    const Json over = ParseJson(job.json, "json");
    if (!json.is_object() || !over.is_object()) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"json", "an object", Describe(over), ""});
    }
    for (const auto& [key, value] : over.items()) json[key] = value;
  }
  return ReadTrainConfig(std::move(json), job.file.empty() ? "json" : job.file,
                         job.settings);
}

TrainStep StepOf(const StepView& view) {
  TrainStep step;
  step.step = view.report.step;
  step.loss = view.report.loss;
  step.penalty = view.report.penalty;
  step.assigned = view.report.assigned;
  step.gradient_norm = view.report.gradient_norm;
  step.rate = view.report.rate;
  step.tokens = view.report.tokens;
  step.validation = view.validation;
  step.seconds = view.seconds;
  return step;
}

}  // namespace

TrainOutcome Train(const TrainJob& job) {
  if (job.resume && job.replace) {
    throw Error(ErrorCode::kInvalidArgument,
                {"train", "resume or replace", "both", ""});
  }
  const TrainConfig config = ConfigOf(job);
  RunOptions options;
  options.resume = job.resume;
  options.replace = job.replace;
  options.type = ComputeType(job.device, job.type);
  options.progress = Tell(job.on_progress);
  options.stop = job.stop;
  if (job.on_step) {
    options.on_step = [&](const StepView& view) { job.on_step(StepOf(view)); };
  }
  Context context({.threads = job.threads, .device = job.device});
  RunResult run = RunTraining(context, config, options);
  TrainOutcome outcome;
  outcome.finished = run.finished;
  outcome.steps = run.record.step;
  outcome.parameters = run.record.parameters;
  outcome.tokens = run.record.tokens;
  outcome.seconds = run.record.seconds;
  outcome.losses = std::move(run.record.losses);
  outcome.validation = std::move(run.record.validation);
  outcome.last = std::move(run.last);
  outcome.best = std::move(run.best);
  return outcome;
}

}  // namespace headwise
