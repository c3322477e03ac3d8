// Training a model from a configuration, which are the fields of
// `headwise train`, as a file, as JSON text or as settings.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "headwise/device.h"
#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/profile.h"
#include "headwise/progress.h"
#include "headwise/tensor.h"

namespace headwise {

class WorkGroup;  // work_group.h

/// One step of the optimizer, for TrainJob::on_step.
struct TrainStep {
  int64_t step = 0;     ///< from 0
  int64_t steps = 0;    ///< of the whole run
  double loss = 0;      ///< nats a target, before the update
  double penalty = 0;   ///< penalty of gates, besides the loss
  double assigned = 0;  ///< loss of assigned heads, weighted, besides `loss`
  double gradient_norm = 0;  ///< before clipping
  double rate = 0;           ///< learning rate
  int64_t tokens = 0;        ///< read, on both sides
  std::optional<double> validation =
      {};              ///< loss of the evaluation that followed
  double seconds = 0;  ///< since this piece of the run began
};

/// A run: its configuration is the file, the text or both (the text's keys
/// over the file's), with settings over them. `headwise train --help` lists the
/// fields.
struct TrainJob {
  std::optional<std::filesystem::path> file = {};  ///< JSON
  std::optional<std::string> json = {};            ///< the same as text
  /// "rate=1e-4", "model.hidden_size=128", in this order.
  std::vector<std::string> settings = {};
  /// Documents to train on, in the place of "data"; of translation and
  /// classification lines with a tab, as its files hold. The run's folder keeps
  /// them as texts.jsonl.
  std::vector<std::string> texts = {};
  bool resume = false;  ///< continue the run in its folder, bit for bit
  bool force = false;   ///< begin anew over what the folder holds
  Device device = {};
  int threads = 0;  ///< as in ContextOptions; results do not depend on it
  /// The type of activations; nothing: f32 on the CPU, bf16 on a GPU.
  std::optional<DType> type = {};
  /// Also write beside the model, as that command does: heads.jsonl and
  /// roles.jsonl where the configuration's observe_every asks for them, with
  /// pictures, and one of the loss.
  bool observe = false;
  WordFiles words = {};  ///< that roles are observed on besides the text
  /// Where the times of the first 20 steps of every rank are written, as a
  /// trace for ui.perfetto.dev.
  std::optional<std::filesystem::path> timeline = {};
  /// That share each step; the first writes. Null: this process alone.
  WorkGroup* group = nullptr;
  OnProgress on_progress = {};  ///< progress before the first step
  /// Before the first step, with the steps that earlier pieces of the run did.
  std::function<void(int64_t step)> on_start = {};
  /// After each step, from the thread that trains. What it throws ends the run
  /// and reaches the caller; the last checkpoint stays.
  std::function<void(const TrainStep&)> on_step = {};
  std::stop_token stop = {};  ///< saves a checkpoint and returns

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("resume", self.resume, "continue the run in its folder, bit for bit");
    visit("force", self.force,
          "begin anew in a folder that holds a run or a model, and replace it");
    WordFiles::VisitFields(self.words, visit);
    visit("timeline", self.timeline,
          "write when each rank computed and when gradients were added up, of "
          "the first 20 steps, as a trace for ui.perfetto.dev");
  }
};

struct TrainOutcome {
  bool finished = false;  ///< false: stopped before the last step
  int64_t steps = 0;
  int64_t planned_steps = 0;       ///< of the whole run
  std::filesystem::path out = {};  ///< the run's folder
  int64_t parameters = 0;
  int64_t tokens = 0;
  double seconds = 0;
  std::vector<double> losses = {};                          ///< one a step
  std::vector<std::pair<int64_t, double>> validation = {};  ///< step, loss
  /// The model as the last step left it: the run's folder once it is finished,
  /// else its newest checkpoint.
  std::filesystem::path last = {};
  /// The checkpoint with the lowest validation loss; empty: there was none.
  std::filesystem::path best = {};
  std::optional<int64_t> best_step = {};  ///< step of that loss
};

/// A field of a run's configuration.
struct TrainField {
  std::string name = {};
  std::string value = {};  ///< its default, as JSON
  std::string help = {};
};
HEADWISE_API std::vector<TrainField> TrainFields();

/// Throws Error: kInvalidArgument for an unknown key (with the nearest known
/// one), a value that makes no sense, a folder that holds a run or a model and
/// is neither to be resumed nor replaced, and a loss that is not finite;
/// kNotFound, kCorrupt for files. Calls in several threads are independent, in
/// folders of their own.
HEADWISE_API TrainOutcome Train(const TrainJob& job);

}  // namespace headwise
