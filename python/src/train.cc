// Training and writing models for others. Doors: include/headwise/train.h,
// export_model.h.
#include "headwise/train.h"

#include <cmath>

#include "headwise/export_model.h"
#include "headwise/model.h"
#include "job.h"

namespace headwise::python {
namespace {

// As _train.py names them.
py::tuple ToTuple(const TrainStep& step) {
  return py::make_tuple(step.step, step.loss, step.penalty, step.gradient_norm,
                        step.rate, step.tokens, step.validation.value_or(NAN),
                        step.seconds);
}
py::tuple ToTuple(const TrainOutcome& out) {
  return py::make_tuple(out.finished, out.steps, out.parameters, out.tokens,
                        out.seconds, out.losses, out.validation,
                        out.last.string(), out.best.string());
}

// What `headwise train` takes besides the fields of its job.
struct TrainKeywords {
  std::vector<std::string> settings;
  OpenOptions engine;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("settings", self.settings,
          "more fields over the configuration: {\"model.hidden_size\": 128}");
    OpenOptions::VisitEngine(self.engine, visit);
  }
};

struct ExportKeywords {
  std::optional<DType> type;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("type", self.type, "of weights, f32, bf16 or f16; None: as stored");
  }
};

// Interrupted, or ended by on_step, the run keeps a checkpoint to resume from.
py::tuple RunTraining(const std::optional<std::string>& file,
                      const std::optional<std::string>& json,
                      const std::vector<std::string>& texts,
                      const py::object& on_step, const py::kwargs& given) {
  TrainKeywords more;
  Call<TrainJob> call("train", given, more);
  TrainJob& job = call.job;
  job.file = file;
  job.json = json;
  job.texts = texts;
  job.settings = more.settings;
  job.device = more.engine.device;
  job.type = more.engine.type;
  job.threads = more.engine.threads;
  job.observe = job.words.any();
  job.on_step = [&](const TrainStep& step) {
    if (on_step.is_none()) return call.work.Look();
    call.work.Call([&] { on_step(ToTuple(step)); });
  };
  return ToTuple(call.work.Run([&] { return Train(job); }));
}

std::string ExportTo(const std::string& folder, const py::kwargs& given) {
  ExportKeywords more;
  Call<ExportJob> call("export", given, more);
  call.job.type = more.type;
  return call.work.Run([&] { return Export(folder, call.job); });
}

}  // namespace

void AddTrain(py::module_& module) {
  Define<TrainJob, TrainKeywords>(module, "train", &RunTraining);
  Define<ExportJob, ExportKeywords>(module, "export", &ExportTo);
}

}  // namespace headwise::python
