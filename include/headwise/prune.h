// Taking heads out of a model for good.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "headwise/evaluate.h"
#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/head_ref.h"
#include "headwise/loss.h"
#include "headwise/progress.h"
#include "headwise/rank.h"
#include "headwise/text_input.h"

namespace headwise {

struct Profile;     // profile.h
class Transformer;  // model.h

/// How gates were learned that rank heads (PruneJob::by).
struct GateLearning {
  int64_t steps = 200;
  /// Cost of all open heads together, as a share of the whole model's loss.
  double penalty = 0.2;
  uint64_t seed = 0;
  /// Learning rate of the weights, which learn along; 0: they stay.
  double rate = 0;

  bool tuned() const { return rate > 0; }
  bool operator==(const GateLearning&) const = default;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("steps", self.steps, "training steps", Between(1, 1000000));
    visit("penalty", self.penalty,
          "cost of all open gates together, as a share of the loss",
          AtLeast(0));
    visit("seed", self.seed, "of random numbers");
    visit("weights_rate", self.rate,
          "learning rate of the weights, which learn along; 0: they stay",
          AtLeast(0));
  }
};

/// Heads that are to leave a model ("headwise.plan/1").
struct PruningPlan {
  std::string model = {};             ///< as it was called, for people
  std::string model_hash = {};        ///< Transformer::hash
  std::string criterion = {};         ///< its name, or "given"
  std::vector<HeadRef> removed = {};  ///< these leave
  /// One a head of the model, in HeadsOf's order: larger matters more. Empty:
  /// nobody ranked them.
  std::vector<double> scores = {};
  std::string search = {};  ///< how they were found, for people; ""
  /// How gates were learned. Tuned: heads leave the weights that learned along.
  std::optional<GateLearning> gates = {};
};

struct CurvePoint {
  int64_t removed = 0;
  double loss = 0;  ///< a prediction
};

struct CurveOrder {
  std::string name = {};  ///< "importance", "reversed", "random 1", …
  std::vector<CurvePoint> points = {};
  double area = 0;  ///< the mean loss over the heads removed, by trapezia
};

/// One piece of work of two models, timed side by side.
struct PairTiming {
  std::string what = {};  ///< "prefill, 16 × 512 tokens"
  double tokens = 0;      ///< tokens of one call
  double before_ms = 0;
  double after_ms = 0;
};

/// Loss against heads that have left, for several orders of leaving.
struct PruningCurve {
  LossKind kind = LossKind::kNextToken;
  std::string domain = {};  ///< the text's name
  int64_t heads = 0;
  std::vector<CurveOrder> orders = {};  ///< importance, reversed, random ones
  /// Over the random orders: their mean area with a 95 % interval of Student's
  /// t, and importance less that mean, with the same interval around it.
  Interval random_area = {};
  Interval gain = {};
  std::vector<PairTiming> speeds =
      {};  ///< of the order by importance, one a point; or none
};

/// How wrong an attention's output is after heads left, on text that was not
/// used, over the variance of the original's: 1 is what its mean would leave.
struct LayerError {
  std::string site = {};
  double none = 0;    ///< heads removed, nothing done
  double fold = 0;    ///< their means in the bias
  double fitted = 0;  ///< least squares
  double ridge = 0;   ///< the one chosen, over the mean variance of an input
};

/// Runs two pieces of work in turns for about so many seconds; gives the
/// milliseconds that a call of each takes.
using TimePair = std::function<std::pair<double, double>(
    const std::function<void()>& before, const std::function<void()>& after,
    double seconds)>;

/// A repair of the weights that remain.
enum class Repair : uint8_t {
  kFold,          ///< the heads' mean output joins the output's bias
  kLeastSquares,  ///< the output matrix is fitted anew
  kFinetune,      ///< all weights are trained further
};
constexpr std::array<const char*, 3> FieldWords(Repair) {
  return {"fold", "least-squares", "finetune"};
}
constexpr std::array<FieldGroup<Repair>, 1> FieldGroups(Repair) {
  return {{{"none", {}}}};
}

/// Chooses the heads that leave by exactly one of keep, drop, plan, max_loss
/// and target_speedup, and says what is done for those that stay.
struct PruneJob {
  std::optional<double> keep = {};  ///< share of the heads that stays
  std::vector<HeadRef> drop = {};   ///< these leave
  std::optional<std::filesystem::path> plan =
      {};  ///< the heads of this file leave
  /// As many as the loss on held-out text allows, of at least 8 sequences:
  /// "+1%" of it, "+0.05nats"; without a unit nats, at most 1.
  std::optional<std::string> max_loss = {};
  /// As few as make prefill so much faster: 1.3.
  std::optional<double> target_speedup = {};
  Criterion by = Criterion::kAblationMean;
  int64_t gate_steps = 200;  ///< training steps of gates: 1 to 10^6
  /// Cost of all open gates together, as a share of the loss.
  double gate_penalty = 0.2;
  /// Gates: the weights learn along, at finetune_rate, in steps of their own
  /// number; the heads leave the weights as they became.
  bool tune = false;
  int64_t tune_steps = 200;
  int64_t iterative = 1;      ///< steps; heads are ranked anew before each
  bool uniform = false;       ///< the same number in every layer
  bool whole_groups = false;  ///< with their keys and values
  bool allow_empty = false;   ///< a layer may lose all its heads
  std::vector<Repair> repair = {};  ///< in the order of the enum
  /// The profile whose means fold takes; null: means over the text. Borrowed.
  const Profile* means = nullptr;
  int64_t finetune_steps = 100;
  double finetune_rate = 1e-4;
  /// Texts that choose nothing and judge the smaller model, each by itself,
  /// beside the last quarter of the text that chooses.
  std::vector<TextInput> judge = {};
  TimePair time = {};  ///< null: speed is not measured
  bool timing = true;  ///< time the smaller model too, not in a search alone
  uint64_t seed = 0;   ///< random numbers of masks, resampling and intervals
  PartialWork partial = {};
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("keep", self.keep, "share of the heads that stays: 0.7",
          Between(0, 1));
    visit("plan", self.plan,
          "or take out the heads of a plan that was written before");
    visit("max_loss", self.max_loss,
          "or as many as the loss on held-out text allows, of at least 8 "
          "sequences: +1% of it, or +0.05nats; measured with the repairs but "
          "finetune");
    visit("target_speedup", self.target_speedup,
          "or as few as make the prefill of one sequence so many times as "
          "fast: 1.3; measured",
          Above(0));
    visit("by", self.by,
          "what chooses heads; gates are learned with the model frozen or, by "
          "tune, with it");
    visit("gate_steps", self.gate_steps, "training steps of gates",
          Between(1, 1000000));
    visit("gate_penalty", self.gate_penalty,
          "what all open gates together cost, as a share of the loss",
          AtLeast(0));
    visit("tune", self.tune,
          "by gates: all weights learn along with them, at finetune_rate; the "
          "heads leave the weights as they became");
    visit("tune_steps", self.tune_steps,
          "of tune, of 8 windows each, in place of gate_steps",
          Between(1, 1000000));
    visit(
        "iterative", self.iterative,
        "heads leave in so many steps; those left are ranked anew before each",
        Between(1, 1000));
    visit("repair", self.repair,
          "repairs, in their order: fold adds what the heads gave on average "
          "to the output's bias, least-squares fits the output matrix anew, "
          "finetune trains all weights further");
    visit("finetune_steps", self.finetune_steps,
          "of 8 windows each; the best of ten looks is kept",
          Between(1, 1000000));
    visit("finetune_rate", self.finetune_rate,
          "learning rate of the weights, of tune too", AtLeast(0));
    visit("uniform", self.uniform, "the same number of heads in every layer");
    visit("whole_groups", self.whole_groups,
          "grouped queries: whole groups leave with their keys and values, so "
          "that the cache shrinks");
    visit("allow_empty", self.allow_empty, "a layer may lose all its heads");
    visit("timing", self.timing, "measure the speed of the smaller model");
    visit("seed", self.seed, "of masks, resampling, intervals");
    PartialWork::VisitFields(self.partial, visit);
  }
};

/// Throws Error(kInvalidArgument) for a job that no model can fulfil: a number
/// out of its range, several ways to choose heads, repairs out of order, a
/// `max_loss` that cannot be read, settings that exclude each other.
HEADWISE_API void RequirePossible(const PruneJob& job);

/// Throws as HeadPruner::Write would for this folder, before the work.
HEADWISE_API void RequireFolder(const std::filesystem::path& folder,
                                bool replace,
                                const std::filesystem::path& model);

/// A smaller model beside the one it was made of.
struct PruneOutcome {
  LossKind kind = LossKind::kNextToken;
  int64_t sequences = 0;  ///< of the text that judges
  int64_t tokens = 0;
  Compared loss = {};  ///< nats a prediction
  /// Loss and agreement of both models, text by text: the one that
  /// chose, then PruneJob::judge.
  std::vector<ModelJudgement> judged = {};
  std::vector<LayerError> layers = {};     ///< errors of least squares
  std::optional<int64_t> tuned_step = {};  ///< finetune: the one kept
  double tuned_before = 0;                 ///< its losses on text of its own
  double tuned_after = 0;
  std::vector<PairTiming> timings = {};  ///< prefill and decoding
  int64_t weight_bytes[2] = {0, 0};      ///< before and after
  int64_t cache_bytes[2] = {0, 0};       ///< bytes a token
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

/// The heads that a plan takes out ("headwise.plan/1", which `headwise prune`
/// writes). Throws Error: kNotFound; kCorrupt naming file and key;
/// kInvalidArgument for a plan of another model or with a head twice.
HEADWISE_API std::vector<HeadRef> ReadPlan(const std::filesystem::path& path,
                                           const Transformer& model);

}  // namespace headwise
