// How much every head matters to a model on a text: criteria side by side with
// intervals, heads that hurt, classes, layers, and how uneven it all is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/base/progress.h"
#include "headwise/context.h"
#include "headwise/heads/importance/classes.h"
#include "headwise/heads/importance/criterion.h"
#include "headwise/heads/importance/hurting.h"
#include "headwise/heads/importance/kept_losses.h"
#include "headwise/heads/importance/objective.h"
#include "headwise/heads/importance/statistics.h"
#include "headwise/model/head_ref.h"

namespace headwise {

struct CriterionResult {
  Criterion criterion = Criterion::kAblationZero;
  // One a head. Criteria without sequences to compare (activation, weights)
  // have low = high = value.
  std::vector<Interval> heads;
  double gini = 0;
  double effective = 0;  // heads, exp(entropy of the shares)
};

struct LayerImportance {
  AttentionKind kind = AttentionKind::kSelf;
  int64_t layer = 0;
  Interval delta;  // all heads of the layer closed
};

// Two heads closed together.
struct PairEffect {
  size_t a = 0;
  size_t b = 0;
  Interval delta;
  Interval interaction;  // delta − what closing each alone costs
};

struct RankCorrelation {
  size_t a = 0;  // of Ranking::criteria
  size_t b = 0;
  double spearman = 0;
  double kendall = 0;
};

struct Ranking {
  LossKind loss_kind = LossKind::kNextToken;
  double loss = 0;  // of the whole model, a prediction
  // What gradients are of, where they were asked for.
  std::optional<LossKind> gradient_loss;
  int64_t sequences = 0;
  int64_t tokens = 0;
  std::vector<HeadRef> heads;
  std::vector<CriterionResult> criteria;  // in the order asked for
  std::vector<RankCorrelation> correlations;

  // The rest is by the first ablation among the criteria; empty without one.
  std::optional<size_t> primary;  // of criteria
  std::vector<HeadClass> classes;
  Hurting hurting;
  double least_negative = 0;  // Δloss that is below −this, on both halves
  std::vector<LayerImportance> layers;
  std::vector<PairEffect> pairs;
  // The part of a head's direct effect that later heads take over when it is
  // closed (self_repair.h); empty where the direct effect is not certain or
  // there is none.
  std::vector<std::optional<Interval>> self_repair;
  int64_t heads_for_90 = 0;  // the fewest that hold 90 % of the importance
  // What could not be told, and why; what a figure does not hold.
  std::vector<std::string> notes;
};

struct RankOptions {
  std::vector<Criterion> criteria = {Criterion::kAblationMean};
  bool pairs = false;
  bool self_repair = false;
  // A share of the loss. A head is negative when closing it lowers the loss by
  // more, on both halves of the text: enough text finds an effect in any head,
  // and one below this counts as none in the classes too.
  double least_negative = kNegligibleShare;
  // Gradients are divided by the L2 norm of their layer's.
  bool normalise_layers = false;
  ObjectiveOptions objective = {};
  int64_t replicates = 2000;
  uint64_t seed = 0;
  // Tokens of text that run together; resampling needs two sequences in them.
  int64_t batch_tokens = 1024;
  // What other analyses know of heads; absent: the class is not given.
  std::function<bool(const HeadRef&)> has_role = {};
  std::function<bool(const HeadRef&)> has_twin = {};
  // What an earlier call computed for the same model, examples and options
  // (SettingsKey), and where this one keeps what it computes; may be null.
  KeptLosses* kept = nullptr;
  ProgressCallback progress = {};
  std::stop_token stop = {};
};

// Throws Error: kInvalidArgument for no text or less than the criteria need,
// before anything runs; kCancelled when stopped, with what is done in `kept`.
Ranking RankHeads(Context& context, const Model& model,
                  std::span<const TextExample> examples,
                  const RankOptions& options);

// The same check alone.
void RequireEnoughText(const Model& model,
                       std::span<const TextExample> examples,
                       std::span<const Criterion> criteria);

// The options that losses depend on, in words.
std::string SettingsKey(const RankOptions& options);

// "14 of 48 heads carry 90 % of the importance; 3 hurt."
std::string Summary(const Ranking& ranking);

}  // namespace headwise
