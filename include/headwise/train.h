// Making models: training one from a configuration, which are the fields of
// `headwise train`, as a file, as JSON text or as settings; and taking heads
// out of one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/context.h"
#include "headwise/export.h"
#include "headwise/heads.h"
#include "headwise/keep.h"
#include "headwise/model.h"
#include "headwise/observation.h"
#include "headwise/profile.h"
#include "headwise/tensor.h"

namespace headwise {

/// One step of the optimizer, as it is told of.
struct TrainStep {
  int64_t step = 0;          ///< from 0
  double loss = 0;           ///< nats a target, before the update
  double penalty = 0;        ///< of gates, besides the loss
  double assigned = 0;       ///< of assigned heads, weighted, besides the loss
  double gradient_norm = 0;  ///< before clipping
  double rate = 0;           ///< learning rate
  int64_t tokens = 0;        ///< read, on both sides
  /// Of the evaluation that followed; NaN where none did.
  double validation = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0;  ///< of this piece of the run
};

/// A run: its configuration is the file, the text or both (the text's keys
/// over the file's), with settings over them. `headwise train --help` lists the
/// fields.
struct TrainJob {
  std::string file = {};  ///< JSON; "": none
  std::string json = {};  ///< the same as text; "": none
  /// "rate=1e-4", "model.hidden_size=128", in this order.
  std::vector<std::string> settings = {};
  /// Documents to train on, in the place of "data"; of translation and
  /// classification lines with a tab, as its files hold. The run's folder keeps
  /// them as texts.jsonl.
  std::vector<std::string> texts = {};
  bool resume = false;   ///< continue the run in its folder, bit for bit
  bool replace = false;  ///< begin anew over what the folder holds
  Device device = {};
  int threads = 0;  ///< as in ContextOptions; results do not depend on it
  /// What the model computes in; nothing: f32 on the CPU, bf16 on a GPU.
  std::optional<DType> type = {};
  /// Also write beside the model, as that command does: heads.jsonl and
  /// roles.jsonl where the configuration's observe_every asks for them, with
  /// pictures, and one of the loss.
  bool observe = false;
  WordFiles words = {};         ///< that roles are observed on besides the text
  OnProgress on_progress = {};  ///< of what comes before the first step
  /// Before the first step, with the steps that earlier pieces of the run did.
  std::function<void(int64_t step)> on_start = {};
  /// After each step, from the thread that trains. What it throws ends the run
  /// and reaches the caller; the last checkpoint stays.
  std::function<void(const TrainStep&)> on_step = {};
  std::stop_token stop = {};  ///< saves a checkpoint and returns
};

struct TrainOutcome {
  bool finished = false;  ///< false: stopped before the last step
  int64_t steps = 0;
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
  int64_t best_step = -1;  ///< of that loss; −1: there was none
};

/// Throws Error: kInvalidArgument for an unknown key (with the nearest known
/// one), a value that makes no sense, a folder that holds a run or a model and
/// is neither to be resumed nor replaced, and a loss that is not finite;
/// kNotFound, kCorrupt for files. Calls in several threads are independent, in
/// folders of their own.
HEADWISE_API TrainOutcome Train(const TrainJob& job);

// ---- Taking heads out.

/// Runs two pieces of work in turns for about so many seconds; gives the
/// milliseconds that a call of each takes.
using TimePair = std::function<std::pair<double, double>(
    const std::function<void()>& before, const std::function<void()>& after,
    double seconds)>;

/// Which heads leave: by one of the first five, of which `headwise prune
/// --help` tells more; and what is done for those that stay.
struct PruneJob {
  double keep = -1;                ///< share of the heads that stays; −1: no
  std::vector<HeadRef> drop = {};  ///< these leave
  std::string plan = {};           ///< those of a plan, which is a file
  /// As many as the loss on held-out text allows, of at least 8 sequences:
  /// "+1%" of it, "+0.05nats"; without a unit nats, at most 1.
  std::string max_loss = {};
  double target_speedup = 0;  ///< as few as make prefill so much faster: 1.3
  std::string by = "ablation-mean";  ///< a criterion (RankJob::by), or "gates"
  int64_t gate_steps = 200;          ///< of training, for gates: 1 to 10^6
  /// What all open heads together cost gates, as a share of the loss.
  double gate_penalty = 0.2;
  /// Gates: the weights learn along, at finetune_rate, in steps of their own
  /// number; the heads leave the weights as they became.
  bool tune = false;
  int64_t tune_steps = 200;
  int64_t iterative = 1;      ///< steps; heads are ranked anew before each
  bool uniform = false;       ///< the same number in every layer
  bool whole_groups = false;  ///< with their keys and values
  bool allow_empty = false;   ///< a layer may lose all its heads
  /// "none", or some of fold,least-squares,finetune, in this order.
  std::string repair = "none";
  /// Whose means fold takes (ProfileJob::means); null: over the text. Borrowed.
  const Profile* means = nullptr;
  int64_t finetune_steps = 100;
  double finetune_rate = 1e-4;
  /// Texts that choose nothing and judge the smaller model, each by itself,
  /// beside the last quarter of the text that chooses.
  std::vector<TextInput> judge = {};
  TimePair time = {};         ///< null: speed is not measured
  bool measure_speed = true;  ///< of results too, not in a search alone
  uint64_t seed = 0;          ///< of masks, resampling and intervals
  PartialWork partial = {};          ///< of all that comes before the smaller model
  OnProgress on_progress = {};
  std::stop_token stop = {};
};

/// A smaller model beside the one it was made of.
struct PruneOutcome {
  LossKind kind = LossKind::kNextToken;
  int64_t sequences = 0;  ///< of text that chose nothing
  int64_t tokens = 0;
  Compared loss = {};  ///< nats a prediction
  /// The same with the agreement of both models, text by text: the one that
  /// chose, then PruneJob::judge.
  std::vector<ModelJudgement> judged = {};
  std::vector<LayerError> layers = {};  ///< of least squares
  int64_t tuned_step = -1;              ///< finetune: the one kept; −1: none
  double tuned_before = 0;              ///< its losses on text of its own
  double tuned_after = 0;
  std::vector<PairTiming> timings = {};  ///< prefill and decoding
  int64_t weight_bytes[2] = {0, 0};      ///< before and after
  int64_t cache_bytes[2] = {0, 0};       ///< of a token
};

/// Takes heads out of a model for good. Three quarters of the text choose them,
/// the rest judges. Borrows the model, which is not changed, and its thread
/// rule. All functions throw Error(kCancelled) when stopped.
class HEADWISE_API HeadPruner {
 public:
  /// Reads the text and judges the whole model. Throws Error: kInvalidArgument
  /// for less than two windows, for a share that cannot be reached, for words
  /// that are not known, for a text that chooses and is to judge, and for a
  /// model under an edit or a hook; kUnsupported for a model that finetune does
  /// not train.
  HeadPruner(Transformer& model, const TextInput& text, const PruneJob& job);
  ~HeadPruner();
  HeadPruner(HeadPruner&&) noexcept;
  HeadPruner& operator=(HeadPruner&&) noexcept;

  /// Heads closed one after the other, in so many random orders too. Throws
  /// Error(kInvalidArgument) for gates that are tuned, which change the model.
  PruningCurve Curve(int64_t random_orders = 5);
  /// The heads that leave. Throws Error(kInvalidArgument) for a set that cannot
  /// leave, and for a target that is not reached, with the nearest that is.
  PruningPlan Plan();
  /// Writes the smaller model with all repairs, whole or not at all, and
  /// measures it. A plan of tuned gates is tuned again, as it says, where Plan
  /// did not make it. Throws Error(kInvalidArgument) for a folder that is there
  /// and not to be replaced, or holds no model, another's files or the model
  /// itself; Error(kIo) where another writes it.
  PruneOutcome Write(const PruningPlan& plan,
                     const std::filesystem::path& folder, bool replace = false);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// As a file holds it, which ReadPlan and PruneJob::plan take.
HEADWISE_API std::string JsonText(const PruningPlan& plan,
                                  const Transformer& model);

// ---- Writing models for other programs.

enum class ExportTarget : uint8_t {
  kHuggingFace,  ///< a folder for transformers
  kGguf,         ///< a file for llama.cpp
  kOnnx,         ///< a file for ONNX Runtime
};
/// "huggingface", "gguf", "onnx". Throws Error(kInvalidArgument).
HEADWISE_API ExportTarget ParseExportTarget(std::string_view word);

/// What `headwise export` writes.
struct ExportJob {
  ExportTarget to = ExportTarget::kHuggingFace;
  std::filesystem::path out = {};  ///< a folder, or a file
  std::optional<DType> type = {};  ///< of weights; nothing: as stored
  /// kHuggingFace: the shapes of the original, with zeros for heads that left.
  bool twin = false;
  bool tokenizer = true;  ///< kGguf: false writes weights alone, for ids
  bool replace = false;   ///< what is at out
};

/// Writes the model of a folder, pruned or not, whole or not at all; returns
/// the architecture that it is called there. Throws Error: as Transformer does
/// for the folder; kInvalidArgument for what is there and not to be replaced,
/// and for choices that the target does not know; kUnsupported for a model that
/// the target would not run as we do.
HEADWISE_API std::string Export(const std::filesystem::path& folder,
                                const ExportJob& job);

}  // namespace headwise
