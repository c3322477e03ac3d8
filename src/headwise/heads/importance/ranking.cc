// From losses to a ranking. Door: ranking.h.
#include "headwise/heads/importance/ranking.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "headwise/heads/importance/corpus_runs.h"
#include "headwise/heads/importance/gradient.h"

namespace headwise {
namespace {

// Expected share of false discoveries among negative heads.
constexpr double kFalseDiscoveries = 0.05;
// Heads whose pairs are closed together: 276 pairs.
constexpr size_t kMostPairedHeads = 24;

std::vector<double> Minus(std::span<const double> a,
                          std::span<const double> b) {
  std::vector<double> difference(a.begin(), a.end());
  for (size_t i = 0; i < b.size(); ++i) difference[i] -= b[i];
  return difference;
}

// Every second sequence, from `first` on.
std::vector<double> Half(std::span<const double> values, size_t first) {
  std::vector<double> half;
  for (size_t i = first; i < values.size(); i += 2) half.push_back(values[i]);
  return half;
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
              {options.objective, options.batch_tokens, options.seed,
               options.progress, options.stop}),
        bootstrap_(runs_.weights(), options.replicates, options.seed) {
    ranking_.loss_kind = runs_.loss_kind();
    ranking_.heads = AllHeads(model);
    ranking_.sequences = static_cast<int64_t>(runs_.weights().size());
    ranking_.tokens = runs_.tokens();
    ranking_.loss = bootstrap_.Ratio(runs_.base()).value;
  }

  Ranking Run() {
    for (const Criterion criterion : options_.criteria) {
      ranking_.criteria.push_back({criterion, Values(criterion), 0, 0});
      CriterionResult& result = ranking_.criteria.back();
      const std::vector<double> values = ValuesOf(result);
      result.gini = Gini(values);
      result.effective = EffectiveNumber(values);
    }
    Correlate();
    if (!ranking_.primary) return std::move(ranking_);
    ranking_.heads_for_90 = CountForShare(ValuesOf(Primary()), 0.9);
    FindNegative();
    if (options_.pairs) ClosePairs();
    if (options_.self_repair) MeasureRepair();
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
        options_.seed);
    ranking_.gradient_loss = GradientLossOf(model_);
    std::vector<Interval> values;
    for (const auto& head : runs_.Gradients(ranking_.heads, criterion)) {
      Interval value = bootstrap.Ratio(head);
      if (criterion == Criterion::kGradientBatch && value.value < 0) {
        value = {-value.value, -value.high, -value.low};
      }
      values.push_back(value);
    }
    if (options_.normalise_layers) NormaliseLayers(values);
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
    const LossTable losses = runs_.Ablate(variants, criterion);
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

  // Selected on the even sequences, confirmed on the odd ones.
  void FindNegative() {
    ranking_.least_negative = options_.least_negative * Scale();
    const std::vector<double>& weights = runs_.weights();
    if (weights.size() < 4) {
      ranking_.notes.push_back(
          fmt::format("negative heads need at least 4 sequences; there {} {}",
                      weights.size() == 1 ? "is" : "are", weights.size()));
      return;
    }
    const std::vector<double> even = Half(weights, 0), odd = Half(weights, 1);
    std::vector<double> p;
    for (const std::vector<double>& delta : deltas_) {
      p.push_back(BelowZeroP(Half(delta, 0), even));
    }
    const std::vector<bool> chosen = BenjaminiHochberg(p, kFalseDiscoveries);
    std::vector<size_t> selected;
    std::vector<double> confirm;
    for (size_t h = 0; h < chosen.size(); ++h) {
      if (!chosen[h]) continue;
      selected.push_back(h);
      confirm.push_back(BelowZeroP(Half(deltas_[h], 1), odd));
    }
    const std::vector<bool> held =
        BenjaminiHochberg(confirm, kFalseDiscoveries);
    const PairedBootstrap first(even, options_.replicates, options_.seed);
    const PairedBootstrap second(odd, options_.replicates, options_.seed);
    for (size_t i = 0; i < selected.size(); ++i) {
      if (!held[i]) continue;
      const std::vector<double>& delta = deltas_[selected[i]];
      const NegativeHead head = {selected[i], first.Ratio(Half(delta, 0)),
                                 second.Ratio(Half(delta, 1))};
      const auto hurts = [&](const Interval& change) {
        return change.high < 0 && change.value < -ranking_.least_negative;
      };
      if (hurts(head.selection) && hurts(head.confirmation)) {
        ranking_.negative.push_back(head);
      }
    }
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
    const LossTable losses = runs_.Ablate(variants, Primary().criterion);
    for (size_t v = 0; v < variants.size(); ++v) {
      PairEffect& pair = ranking_.pairs[v];
      const std::vector<double> delta = Minus(losses[v], runs_.base());
      pair.delta = bootstrap_.Ratio(delta);
      pair.interaction = bootstrap_.Ratio(
          Minus(Minus(delta, deltas_[pair.a]), deltas_[pair.b]));
    }
  }

  // Resampling has no single write to remove: its direct effect is the mean's.
  void MeasureRepair() {
    const Criterion ablation = Primary().criterion == Criterion::kAblationZero
                                   ? Criterion::kAblationZero
                                   : Criterion::kAblationMean;
    const LossTable direct = runs_.RemoveDirect(ranking_.heads, ablation);
    for (size_t h = 0; h < direct.size(); ++h) {
      const Interval effect = bootstrap_.Ratio(Minus(direct[h], runs_.base()));
      ranking_.self_repair.push_back(
          effect.low > 0 ? 1 - Primary().heads[h].value / effect.value
                         : std::numeric_limits<double>::quiet_NaN());
    }
  }

  void Classes() {
    const size_t heads = ranking_.heads.size();
    ClassEvidence evidence;
    evidence.scale = Scale();
    evidence.delta = Primary().heads;
    evidence.negative.assign(heads, false);
    for (const NegativeHead& head : ranking_.negative) {
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
    if (options_.pairs) {
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
  return Ranker(context, model, examples, options).Run();
}

std::string Summary(const Ranking& ranking) {
  if (!ranking.primary) return "No ablation was asked for.";
  const CriterionResult& primary = ranking.criteria[*ranking.primary];
  const size_t hurt = ranking.negative.size();
  return fmt::format(
      "{} of {} heads {} 90 % of the importance; {}. The effective number "
      "of heads is {:.1f} (Gini {:.2f}).",
      ranking.heads_for_90, ranking.heads.size(),
      ranking.heads_for_90 == 1 ? "carries" : "carry",
      hurt == 0   ? "none hurts"
      : hurt == 1 ? "1 hurts"
                  : fmt::format("{} hurt", hurt),
      primary.effective, primary.gini);
}

}  // namespace headwise
