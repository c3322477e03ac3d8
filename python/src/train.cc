// Training and writing models for others. Doors: include/headwise/train.h,
// export_model.h.
#include "headwise/train.h"

#include "headwise/export_model.h"
#include "headwise/model.h"
#include "job.h"

namespace headwise::python {
namespace {

// As _train.py names them.
py::tuple ToTuple(const TrainStep& step) {
  return py::make_tuple(step.step, step.loss, step.penalty, step.gradient_norm,
                        step.rate, step.tokens, step.validation, step.seconds);
}
py::tuple ToTuple(const TrainOutcome& out) {
  return py::make_tuple(out.finished, out.steps, out.parameters, out.tokens,
                        out.seconds, out.losses, out.validation,
                        out.last.string(), out.best.string());
}

// Interrupted, or ended by on_step, the run keeps a checkpoint to resume from.
py::tuple RunTraining(const std::string& file, const std::string& json,
                      const std::vector<std::string>& texts,
                      const py::object& on_step, const py::kwargs& given) {
  EngineKeywords engine;
  Call<TrainJob> call("train", given, engine);
  TrainJob& job = call.job;
  job.file = file;
  job.json = json;
  job.texts = texts;
  job.device = engine.device;
  job.type = engine.type;
  job.threads = engine.threads;
  job.on_step = [&](const TrainStep& step) {
    if (on_step.is_none()) return call.work.Look();
    call.work.Call([&] { on_step(ToTuple(step)); });
  };
  return ToTuple(call.work.Run([&] { return Train(job); }));
}

std::string ExportTo(const std::string& folder, const py::kwargs& given) {
  Call<ExportJob> call("export", given);
  return call.work.Run([&] { return Export(folder, call.job); });
}

}  // namespace

void AddTrain(py::module_& module) {
  Define<TrainJob, EngineKeywords>(module, "train", &RunTraining);
  Define<ExportJob>(module, "export", &ExportTo);
}

}  // namespace headwise::python
