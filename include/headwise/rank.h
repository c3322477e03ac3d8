// How much each head matters on a text, by criteria side by side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/head_ref.h"
#include "headwise/loss.h"
#include "headwise/progress.h"

namespace headwise {

struct HeadSimilarity;  // similar.h
struct Profile;         // profile.h
struct TextInput;       // text_input.h
class Transformer;      // model.h

enum class Criterion : uint8_t {
  kAblationZero,
  kAblationMean,
  kAblationResample,
  kActivation,
  kWeightsOv,
  kWeightsQk,
  kGradient,
  kGradientToken,
  kGradientBatch,
  kGates,  ///< learned gates, of pruning alone
};
constexpr std::array<const char*, 10> FieldWords(Criterion) {
  return {"ablation-zero", "ablation-mean",  "ablation-resample",
          "activation",    "weights-ov",     "weights-qk",
          "gradient",      "gradient-token", "gradient-batch",
          "gates"};
}
inline constexpr Criterion kWeightCriteria[] = {Criterion::kWeightsOv,
                                                Criterion::kWeightsQk};
constexpr std::array<FieldGroup<Criterion>, 1> FieldGroups(Criterion) {
  return {{{"weights", kWeightCriteria}}};
}

/// "ablation-zero", …
HEADWISE_API const char* Name(Criterion criterion);

/// The criterion's number in one sentence.
HEADWISE_API const char* Describe(Criterion criterion);

/// Whether it is a change of the loss when the head is closed.
HEADWISE_API bool IsAblation(Criterion criterion);
/// Whether it needs a backward pass.
HEADWISE_API bool IsGradient(Criterion criterion);

/// In order of precedence. A quiet head is one whose Δloss is as good as 0: the
/// interval's ends are below 1 % of the loss and it holds 0, or |Δ| is below
/// 0.1 % of the loss.
enum class HeadClass : uint8_t {
  kCritical,   ///< the lower end of Δloss is above 1 % of the loss
  kNegative,   ///< Δloss < 0 by more than a least size, on two splits
  kRedundant,  ///< quiet, and another head has the same pattern
  kBackup,     ///< closing it with another costs more than both apart
  kNoise,      ///< quiet, and no role
  kAuxiliary,  ///< none of these
};
HEADWISE_API const char* Name(HeadClass kind);

HEADWISE_API const char* Describe(HeadClass kind);

struct NegativeHead {
  size_t head = 0;  ///< index of Ranking::heads
  Interval selection = {};
  Interval confirmation = {};
};

enum class HurtAnswer : uint8_t {
  kNone,         ///< every head's interval ends above the least size
  kSome,         ///< these do
  kNotTested,    ///< too little text, or no ablation
  kNotTestable,  ///< this loss cannot be lowered
};

/// "none", "some", "not-tested", "not-testable"
HEADWISE_API const char* Name(HurtAnswer answer);

struct Hurting {
  HurtAnswer answer = HurtAnswer::kNotTested;
  std::string reason = "no head was closed";  ///< for the last two verdicts
  std::vector<NegativeHead> heads = {};
  /// Heads of which the text does not tell: an effect of the least size is
  /// within their interval.
  std::vector<size_t> undecided = {};
  double predictions = 0;  ///< that the answer rests on: tokens, or examples
  /// The smallest effect that could be distinguished from 0 for every head: the
  /// widest half of an interval among those that reach below 0; 0: none does.
  double smallest_seen = 0;
};

struct CriterionResult {
  Criterion criterion = Criterion::kAblationZero;
  /// One a head. Criteria without sequences to compare (activation, weights)
  /// have low = high = value.
  std::vector<Interval> heads = {};
  double gini = 0;
  double effective = 0;  ///< heads, exp(entropy of the shares)
};

struct LayerImportance {
  AttentionKind kind = AttentionKind::kSelf;
  int64_t layer = 0;
  Interval delta = {};  ///< all heads of the layer closed
};

/// Two heads closed together.
struct PairEffect {
  size_t a = 0;
  size_t b = 0;
  Interval delta = {};
  Interval interaction = {};  ///< delta − what closing each alone costs
};

struct RankCorrelation {
  size_t a = 0;  ///< index of Ranking::criteria
  size_t b = 0;
  double spearman = 0;
  double kendall = 0;
};

struct Ranking {
  LossKind loss_kind = LossKind::kNextToken;
  double loss = 0;  ///< the whole model's, a prediction
  /// The loss of the gradients, where they were asked for.
  std::optional<LossKind> gradient_loss = {};
  int64_t sequences = 0;
  int64_t tokens = 0;
  std::vector<HeadRef> heads = {};
  std::vector<CriterionResult> criteria = {};  ///< in the order asked for
  std::vector<RankCorrelation> correlations = {};

  /// The rest is by the first ablation among the criteria; empty without one.
  std::optional<size_t> primary = {};  ///< index of criteria
  std::vector<HeadClass> classes = {};
  Hurting hurting = {};
  double least_negative = 0;  ///< Δloss that is below −this, on both halves
  std::vector<LayerImportance> layers = {};
  std::vector<PairEffect> pairs = {};
  /// The part of a head's direct effect that later heads take over when it is
  /// closed; empty where the direct effect is not certain or there is none.
  std::vector<std::optional<Interval>> self_repair = {};
  int64_t heads_for_90 = 0;  ///< the fewest that hold 90 % of the importance
  /// Figures that are missing, and why; limits of figures.
  std::vector<std::string> notes = {};
};

/// "14 of 48 heads carry 90 % of the importance; 3 hurt."
HEADWISE_API std::string Summary(const Ranking& ranking);

struct RankJob {
  /// The first ablation gives classes.
  std::vector<Criterion> by = {Criterion::kAblationMean, Criterion::kActivation,
                               Criterion::kWeightsOv, Criterion::kWeightsQk};
  bool pairs = false;        ///< also close the top 24 heads in pairs
  bool self_repair = false;  ///< also what later heads take over
  bool per_layer = false;    ///< gradients are divided by their layer's norm
  double least_negative = 0.001;  ///< share of the loss that counts as hurting
  /// Tells heads without a role (noise); of this very model. May be null.
  const Profile* profile = nullptr;
  /// Tells heads that look alike (redundant), of this very model; null: found
  /// on the first windows.
  const HeadSimilarity* similarity = nullptr;
  uint64_t seed = 0;
  PartialWork partial = {};
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("by", self.by,
          "criteria, of which the first ablation gives classes; weights are "
          "both of weights-ov and weights-qk, gates are for prune alone");
    visit(
        "least_negative", self.least_negative,
        "a head hurts when closing it lowers the loss by more than this share "
        "of it, on both halves of the text; 0: by anything that is no accident",
        Between(0, 1));
    visit("pairs", self.pairs,
          "also close the top 24 heads in pairs: backup heads");
    visit("self_repair", self.self_repair,
          "also measure the part of a head's direct effect on the right "
          "token's logit that later heads take over when it is closed");
    visit("per_layer", self.per_layer,
          "divide gradients by the L2 norm of their layer's");
    visit("seed", self.seed, "of masks, resampling, intervals");
    PartialWork::VisitFields(self.partial, visit);
  }
};

/// How much every head matters on a text, by criteria side by side.
HEADWISE_API Ranking RankHeads(Transformer& model, const TextInput& text,
                               const RankJob& job = {});

HEADWISE_API std::string JsonText(const Ranking& ranking);

}  // namespace headwise
