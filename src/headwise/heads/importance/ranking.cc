// From losses to a ranking. Door: ranking.h.
#include "headwise/heads/importance/ranking.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/error.h"
#include "headwise/heads/importance/corpus_runs.h"
#include "headwise/heads/importance/gradient.h"
#include "headwise/nn/head_weights.h"

namespace headwise {
namespace {

// Heads whose pairs are closed together: 276 pairs.
constexpr size_t kMostPairedHeads = 24;

std::vector<double> Minus(std::span<const double> a,
                          std::span<const double> b) {
  std::vector<double> difference(a.begin(), a.end());
  for (size_t i = 0; i < b.size(); ++i) difference[i] -= b[i];
  return difference;
}

// All heads of each attention layer.
std::vector<HeadSet> LayerSets(std::span<const HeadRef> heads) {
  std::vector<HeadSet> layers;
  for (const HeadRef& head : heads) {
    if (layers.empty() || layers.back()[0].kind != head.kind ||
        layers.back()[0].layer != head.layer) {
      layers.emplace_back();
    }
    layers.back().push_back(head);
  }
  return layers;
}

class Ranker {
 public:
  Ranker(Context& context, const Model& model,
         std::span<const TextExample> examples, const RankOptions& options)
      : context_(context),
        model_(model),
        options_(options),
        runs_(context, model, examples,
              {options.objective, options.batch_tokens, options.job.seed,
               options.pass}),
        bootstrap_(runs_.weights(), options.replicates, options.job.seed) {
    ranking_.loss_kind = runs_.loss_kind();
    ranking_.heads = AllHeads(model);
    ranking_.sequences = static_cast<int64_t>(runs_.weights().size());
    ranking_.tokens = runs_.tokens();
    ranking_.loss = bootstrap_.Ratio(runs_.base()).value;
  }

  Ranking Run() {
    for (const Criterion criterion : options_.job.by) {
      ranking_.criteria.push_back({criterion, Values(criterion), 0, 0});
      CriterionResult& result = ranking_.criteria.back();
      const std::vector<double> values = ValuesOf(result);
      result.gini = Gini(values);
      result.effective = EffectiveNumber(values);
    }
    Correlate();
    NoteQueryNorms();
    NoteSharedHeads();
    if (!ranking_.primary) return std::move(ranking_);
    ranking_.heads_for_90 = CountForShare(ValuesOf(Primary()), 0.9);
    FindNegative();
    if (options_.job.pairs) ClosePairs();
    if (options_.job.self_repair) MeasureRepair();
    Classes();
    return std::move(ranking_);
  }

 private:
  static std::vector<double> ValuesOf(const CriterionResult& result) {
    std::vector<double> values;
    for (const Interval& head : result.heads) values.push_back(head.value);
    return values;
  }
  const CriterionResult& Primary() const {
    return ranking_.criteria[*ranking_.primary];
  }
  // 1 % of what? Of the loss; of a cosine's whole range where the loss is a
  // distance from the model itself.
  double Scale() const {
    return ranking_.loss_kind == LossKind::kEmbeddingCosine ? 1 : ranking_.loss;
  }

  std::vector<Interval> Values(Criterion criterion) {
    if (IsAblation(criterion)) return Ablate(criterion);
    if (IsGradient(criterion)) return Gradients(criterion);
    const std::vector<double> plain =
        criterion == Criterion::kActivation
            ? runs_.ActivationNorms(ranking_.heads)
            : WeightNorms(context_, model_, ranking_.heads, criterion);
    std::vector<Interval> values;
    for (const double value : plain) values.push_back({value, value, value});
    return values;
  }

  // Sequences count alike, however long.
  std::vector<Interval> Gradients(Criterion criterion) {
    const PairedBootstrap bootstrap(
        std::vector<double>(runs_.weights().size(), 1.0), options_.replicates,
        options_.job.seed);
    ranking_.gradient_loss = GradientLossOf(model_);
    std::vector<Interval> values;
    for (const auto& head : runs_.Gradients(ranking_.heads, criterion)) {
      Interval value = bootstrap.Ratio(head);
      if (criterion == Criterion::kGradientBatch && value.value < 0) {
        value = {-value.value, -value.high, -value.low};
      }
      values.push_back(value);
    }
    if (options_.job.per_layer) NormaliseLayers(values);
    return values;
  }

  // Each layer's values divided by their L2 norm.
  void NormaliseLayers(std::vector<Interval>& values) const {
    size_t begin = 0;
    for (const HeadSet& layer : LayerSets(ranking_.heads)) {
      double squares = 0;
      for (size_t h = begin; h < begin + layer.size(); ++h) {
        squares += values[h].value * values[h].value;
      }
      for (size_t h = begin; h < begin + layer.size() && squares > 0; ++h) {
        values[h].value /= std::sqrt(squares);
        values[h].low /= std::sqrt(squares);
        values[h].high /= std::sqrt(squares);
      }
      begin += layer.size();
    }
  }

  // Heads one by one; for the first ablation whole layers too.
  std::vector<Interval> Ablate(Criterion criterion) {
    const bool first = !ranking_.primary;
    const size_t heads = ranking_.heads.size();
    std::vector<HeadSet> variants;
    for (const HeadRef& head : ranking_.heads) variants.push_back({head});
    const std::vector<HeadSet> layers = LayerSets(ranking_.heads);
    if (first) variants.insert(variants.end(), layers.begin(), layers.end());
    const LossTable losses = runs_.Ablate(
        variants, criterion,
        std::string(Name(criterion)) + (first ? " heads, layers" : " heads"));
    std::vector<std::vector<double>> deltas;
    std::vector<Interval> intervals;
    for (const std::vector<double>& sums : losses) {
      deltas.push_back(Minus(sums, runs_.base()));
      intervals.push_back(bootstrap_.Ratio(deltas.back()));
    }
    if (first) {
      ranking_.primary = ranking_.criteria.size();
      for (size_t i = 0; i < layers.size(); ++i) {
        ranking_.layers.push_back(
            {layers[i][0].kind, layers[i][0].layer, intervals[heads + i]});
      }
      deltas.resize(heads);
      deltas_ = std::move(deltas);
    }
    intervals.resize(heads);
    return intervals;
  }

  void Correlate() {
    for (size_t b = 1; b < ranking_.criteria.size(); ++b) {
      for (size_t a = 0; a < b; ++a) {
        const std::vector<double> x = ValuesOf(ranking_.criteria[a]);
        const std::vector<double> y = ValuesOf(ranking_.criteria[b]);
        ranking_.correlations.push_back({a, b, Spearman(x, y), Kendall(x, y)});
      }
    }
  }

  void FindNegative() {
    HurtingEvidence evidence;
    evidence.loss = ranking_.loss_kind;
    evidence.deltas = deltas_;
    evidence.weights = runs_.weights();
    evidence.intervals = Primary().heads;
    evidence.least = options_.job.least_negative * Scale();
    evidence.resolution = std::max(evidence.least, kNegligibleShare * Scale());
    evidence.replicates = options_.replicates;
    evidence.seed = options_.job.seed;
    ranking_.hurting = FindHurting(evidence);
    ranking_.least_negative = evidence.least;
  }

  // The norm's division takes the scale of W_Q and W_K out of the scores.
  void NoteQueryNorms() {
    const auto norms = [&](const HeadRef& head) {
      return NormsQueries(*AttentionLayers(model_, head.kind)[head.layer]);
    };
    for (const CriterionResult& result : ranking_.criteria) {
      if (result.criterion != Criterion::kWeightsQk ||
          std::none_of(ranking_.heads.begin(), ranking_.heads.end(), norms)) {
        continue;
      }
      ranking_.notes.emplace_back(
          "the size of scores by ‖W_QK‖: this model norms queries and keys "
          "head by head; the norms' gains are in W_QK, their division by the "
          "root mean square cannot be, and it takes the scale of W_Q and W_K "
          "out of the scores");
    }
  }

  void NoteSharedHeads() {
    if (!SharesHeads(model_.config())) return;
    ranking_.notes.emplace_back(
        "heads as such: layers of this model share their weights, a row closes "
        "one use of a head, and prune takes a head out of all its uses, by "
        "their mean");
  }

  void ClosePairs() {
    std::vector<size_t> top(ranking_.heads.size());
    std::iota(top.begin(), top.end(), size_t{0});
    const std::vector<Interval>& single = Primary().heads;
    std::stable_sort(top.begin(), top.end(), [&](size_t a, size_t b) {
      return single[a].value > single[b].value;
    });
    top.resize(std::min(top.size(), kMostPairedHeads));
    std::sort(top.begin(), top.end());
    std::vector<HeadSet> variants;
    for (size_t j = 1; j < top.size(); ++j) {
      for (size_t i = 0; i < j; ++i) {
        variants.push_back({ranking_.heads[top[i]], ranking_.heads[top[j]]});
        ranking_.pairs.push_back({top[i], top[j], {}, {}});
      }
    }
    const Criterion criterion = Primary().criterion;
    const LossTable losses = runs_.Ablate(
        variants, criterion, std::string(Name(criterion)) + " pairs");
    for (size_t v = 0; v < variants.size(); ++v) {
      PairEffect& pair = ranking_.pairs[v];
      const std::vector<double> delta = Minus(losses[v], runs_.base());
      pair.delta = bootstrap_.Ratio(delta);
      pair.interaction = bootstrap_.Ratio(
          Minus(Minus(delta, deltas_[pair.a]), deltas_[pair.b]));
    }
  }

  // Resampling has no one effect to lose: its direct effect is the mean's.
  void MeasureRepair() {
    const Criterion ablation = Primary().criterion == Criterion::kAblationZero
                                   ? Criterion::kAblationZero
                                   : Criterion::kAblationMean;
    CorpusRuns::Repair repair = runs_.MeasureRepair(ranking_.heads, ablation);
    ranking_.self_repair.resize(ranking_.heads.size());
    if (repair.lost.empty()) {
      ranking_.notes.emplace_back(
          "self-repair: heads of this model have no direct path to logits");
      return;
    }
    for (size_t h = 0; h < repair.lost.size(); ++h) {
      std::vector<double>& lost = repair.lost[h];
      std::vector<double>& taken = repair.taken[h];
      const Interval direct = bootstrap_.Ratio(lost);
      if (!(direct.low > 0 || direct.high < 0)) continue;
      // A head that lowers the right logit: both change their sign.
      for (size_t i = 0; i < lost.size() && direct.high < 0; ++i) {
        lost[i] = -lost[i];
        taken[i] = -taken[i];
      }
      ranking_.self_repair[h] =
          PairedBootstrap(lost, options_.replicates, options_.job.seed)
              .Ratio(taken);
    }
  }

  void Classes() {
    const size_t heads = ranking_.heads.size();
    ClassEvidence evidence;
    evidence.scale = Scale();
    evidence.delta = Primary().heads;
    evidence.negative.assign(heads, false);
    for (const NegativeHead& head : ranking_.hurting.heads) {
      evidence.negative[head.head] = true;
    }
    auto ask = [&](const std::function<bool(const HeadRef&)>& answer,
                   const char* without) {
      std::vector<bool> answers;
      if (!answer) {
        ranking_.notes.emplace_back(without);
        return answers;
      }
      for (const HeadRef& head : ranking_.heads) {
        answers.push_back(answer(head));
      }
      return answers;
    };
    evidence.has_twin =
        ask(options_.has_twin, "redundant heads: patterns were not compared");
    evidence.has_role =
        ask(options_.has_role,
            "noise heads: roles were not looked at (a profile tells them)");
    if (options_.job.pairs) {
      evidence.backup.assign(heads, false);
      for (const PairEffect& pair : ranking_.pairs) {
        if (pair.interaction.low <= kNegligibleShare * Scale()) continue;
        evidence.backup[pair.a] = evidence.backup[pair.b] = true;
      }
    } else {
      ranking_.notes.emplace_back("backup heads: no pairs were closed");
    }
    ranking_.classes = Classify(evidence);
  }

  Context& context_;
  const Model& model_;
  const RankOptions& options_;
  CorpusRuns runs_;
  PairedBootstrap bootstrap_;
  Ranking ranking_;
  // Of the primary ablation: each head's Δ of summed losses by sequence.
  std::vector<std::vector<double>> deltas_;
};

}  // namespace

Ranking RankHeads(Context& context, const Model& model,
                  std::span<const TextExample> examples,
                  const RankOptions& options) {
  RequireEnoughText(model, examples, options.job.by);
  return Ranker(context, model, examples, options).Run();
}

void RequireEnoughText(const Model& model,
                       std::span<const TextExample> examples,
                       std::span<const Criterion> criteria) {
  if (examples.size() > 1) return;
  for (const Criterion criterion : criteria) {
    const bool compares = criterion == Criterion::kAblationResample ||
                          (IsGradient(criterion) &&
                           GradientLossOf(model) == LossKind::kContrastive);
    if (!compares || examples.empty()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {Name(criterion), "at least two sequences of text",
                 std::to_string(examples.size()),
                 "give more text, or cut it into shorter sequences"});
  }
}

std::string Summary(const Ranking& ranking) {
  if (!ranking.primary) return "No ablation was asked for.";
  const CriterionResult& primary = ranking.criteria[*ranking.primary];
  return fmt::format(
      "{} of {} heads {} 90 % of the importance; {}. The effective number "
      "of heads is {:.1f} (Gini {:.2f}).",
      ranking.heads_for_90, ranking.heads.size(),
      ranking.heads_for_90 == 1 ? "carries" : "carry",
      Describe(ranking.hurting), primary.effective, primary.gini);
}

}  // namespace headwise
