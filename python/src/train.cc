// Training. Door: include/headwise/train.h.
#include <cmath>

#include "headwise/export_model.h"
#include "headwise/model.h"
#include "headwise/train.h"
#include "work.h"

namespace headwise::python {
namespace {

py::dict ToDict(const TrainStep& step) {
  py::dict dict;
  dict["step"] = step.step;
  dict["loss"] = step.loss;
  dict["penalty"] = step.penalty;
  dict["gradient_norm"] = step.gradient_norm;
  dict["rate"] = step.rate;
  dict["tokens"] = step.tokens;
  dict["validation"] = step.validation.value_or(NAN);
  dict["seconds"] = step.seconds;
  return dict;
}

py::dict ToDict(const TrainOutcome& outcome) {
  py::dict dict;
  dict["finished"] = outcome.finished;
  dict["steps"] = outcome.steps;
  dict["parameters"] = outcome.parameters;
  dict["tokens"] = outcome.tokens;
  dict["seconds"] = outcome.seconds;
  dict["losses"] = outcome.losses;
  dict["validation"] = outcome.validation;
  dict["last"] = outcome.last.string();
  dict["best"] = outcome.best.string();
  return dict;
}

// Interrupted, or ended by on_step, the run keeps a checkpoint to resume from.
py::dict RunTraining(const std::string& file, const std::string& json,
                     const std::vector<std::string>& settings, bool resume,
                     bool replace, const std::vector<std::string>& texts,
                     const std::string& device,
                     const std::optional<std::string>& type, int threads,
                     const py::object& on_step, const py::object& progress) {
  Work work(progress);
  const TrainOutcome outcome = work.Run([&] {
    TrainJob job;
    if (!file.empty()) job.file = file;
    if (!json.empty()) job.json = json;
    job.settings = settings;
    job.resume = resume;
    job.force = replace;
    job.texts = texts;
    job.device = ParseDevice(device);
    if (type) job.type = ParseType(*type);
    job.threads = threads;
    job.on_progress = work.on_progress();
    job.stop = work.stop();
    job.on_step = [&](const TrainStep& step) {
      if (on_step.is_none()) return work.Look();
      work.Call([&] { on_step(ToDict(step)); });
    };
    return Train(job);
  });
  return ToDict(outcome);
}

std::string ExportTo(const std::string& folder, const std::string& to,
                     const std::string& out,
                     const std::optional<std::string>& type, bool twin,
                     bool tokenizer, bool replace) {
  Work work;
  return work.Run([&] {
    ExportJob job;
    job.to = ParseExportTarget(to);
    job.out = out;
    if (type) job.type = ParseType(*type);
    job.twin = twin;
    job.tokenizer = tokenizer;
    job.force = replace;
    return Export(folder, job);
  });
}

}  // namespace

void AddTrain(py::module_& module) {
  module.def("train", &RunTraining);
  module.def("export", &ExportTo);
}

}  // namespace headwise::python
