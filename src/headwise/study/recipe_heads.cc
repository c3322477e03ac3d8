// The models of study recipe and what is expected of them. Door: recipe.h.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "headwise/heads/composition/composition.h"
#include "headwise/heads/importance/examples.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/heads/similarity/similarity.h"
#include "headwise/study/one_vs_many.h"
#include "headwise/study/recipe.h"
#include "headwise/study/specialise.h"

namespace headwise {
namespace {

constexpr int64_t kManyHeads = 8, kDeepLayers = 12;
constexpr int64_t kProfiledWindows = 32;
constexpr int64_t kSecondText = 64;  // the first window of the other text
constexpr int64_t kLikeWindows = 16;
constexpr int64_t kRankedWindows = 2;  // with pairs, of which there are 1128
constexpr int64_t kEffectTokens = 256;
constexpr int64_t kLossTokens = int64_t{1} << 18;
constexpr double kTakenOver = 0.1;
constexpr double kInductionFormed = 0.5, kPreviousFormed = 0.5;
constexpr Bounds kDivergenceBounds = {0, std::numbers::ln2};

double MostRolesInLayer(const Profile& profile) {
  size_t most = 0;
  for (const HeadRef& head : profile.heads) {
    most = std::max(most, RoleNames(profile, head.layer).size());
  }
  return static_cast<double>(most);
}

// Heads that have a role.
double CountOf(const std::vector<HeadRoles>& heads, const std::string& role) {
  return static_cast<double>(
      std::ranges::count_if(heads, [&](const HeadRoles& head) {
        return std::ranges::any_of(
            head.roles, [&](const Role& own) { return own.name == role; });
      }));
}

// When half of the final induction score was there, as a share of training.
class Rise {
 public:
  Rise(Context& context, const Language& language, const TinyModel& tiny)
      : context_(context), language_(language), tiny_(tiny) {}

  void After(int64_t steps) {
    if (steps != tiny_.how().steps / 16 && steps != tiny_.how().steps / 8 &&
        steps != tiny_.how().steps / 4 && steps != tiny_.how().steps / 2) {
      return;
    }
    const HostModel host(context_, tiny_);
    const Profile profile =
        language_.MakeProfile(host.context(), host.model(), 1);
    steps_.push_back(steps);
    scores_.push_back(FindBestHead(profile, kInductionOnRepeats).score);
  }
  double HalfThere(double last) const {
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (scores_[i] >= last / 2) {
        return static_cast<double>(steps_[i]) /
               static_cast<double>(tiny_.how().steps);
      }
    }
    return 1;
  }
  Series series(double last) const {
    Series series{"best induction score", {}, scores_};
    for (const int64_t step : steps_) {
      series.x.push_back(static_cast<double>(step));
    }
    series.x.push_back(static_cast<double>(tiny_.how().steps));
    series.y.push_back(last);
    return series;
  }

 private:
  Context& context_;
  const Language& language_;
  const TinyModel& tiny_;
  std::vector<int64_t> steps_;
  std::vector<double> scores_;
};

// Roles on the one text and on another, and on the other form of repeats.
double TellAgreement(Context& context, const Language& language,
                     const Model& model, const Profile& first, uint64_t seed) {
  const Profile second =
      language.MakeProfile(context, model, kProfiledWindows, kSecondText);
  std::vector<int64_t> layers;
  for (const HeadRef& head : first.heads) layers.push_back(head.layer);
  return AgreementBeyondLayer(ScoresAboveChance(first),
                              ScoresAboveChance(second, kInductionOnPairs),
                              layers, seed);
}

void AddImportance(Context& context, const Language& language,
                   const TinyModel& tiny, const HostModel& host,
                   const Profile& profile, const HeadSimilarity& like,
                   RecipeFound& found) {
  const std::set<HeadRef> roles = HeadsWithRoles(profile);
  std::set<HeadRef> twins;
  for (const HeadPair& pair : like.twins) {
    twins.insert(like.heads[pair.a]);
    twins.insert(like.heads[pair.b]);
  }
  const std::vector<TokenWindow> windows =
      language.Windows(kProfiledWindows, kRankedWindows);
  RankOptions options;
  options.replicates = 500;
  options.job.pairs = true;
  options.has_role = [&](const HeadRef& head) { return roles.contains(head); };
  options.has_twin = [&](const HeadRef& head) { return twins.contains(head); };
  const Ranking ranking =
      RankHeads(context, tiny.model(), ExamplesOf(windows), options);
  found.gini.push_back(ranking.criteria[0].gini);
  found.heads_for_90.push_back(static_cast<double>(ranking.heads_for_90));
  const auto count = [&](HeadClass kind) {
    return static_cast<double>(std::ranges::count(ranking.classes, kind));
  };
  found.critical.push_back(count(HeadClass::kCritical));
  found.backup.push_back(count(HeadClass::kBackup));
  found.auxiliary.push_back(count(HeadClass::kAuxiliary));
  found.redundant.push_back(count(HeadClass::kRedundant));
  found.noise.push_back(count(HeadClass::kNoise));
  found.twins.push_back(static_cast<double>(like.twins.size()));
  RankOptions repair;
  repair.replicates = 500;
  repair.job.self_repair = true;
  const Ranking repaired =
      RankHeads(host.context(), host.model(), ExamplesOf(windows), repair);
  found.repaired.push_back(static_cast<double>(std::ranges::count_if(
      repaired.self_repair, [](const std::optional<Interval>& share) {
        return share && share->low >= kTakenOver;
      })));
}

double LargestEffect(const HostModel& host, const Language& language) {
  Composition composition = MeasureComposition(host.context(), host.model());
  std::vector<int32_t> ids = language.HeldOut().Make(0, 1).ids;
  ids.resize(std::min<size_t>(ids.size(), kEffectTokens));
  const std::vector<TokenWindow> windows = {WindowOfIds(ids)};
  MeasureEffects(host.context(), host.model(), windows, {}, composition);
  double most = 0;
  for (const HeadEdge& edge : composition.edges) {
    if (!std::isnan(edge.effect)) most = std::max(most, edge.effect);
  }
  return most;
}

// The one head a layer: what the others are held against.
double AddOneHead(Context& context, const Language& language,
                  const TinyModel& tiny, RecipeFound& found) {
  const HostModel host(context, tiny);
  const Profile profile =
      language.MakeProfile(host.context(), host.model(), kProfiledWindows);
  found.roles_one.push_back(static_cast<double>(RoleNames(profile).size()));
  found.most_roles_one.push_back(MostRolesInLayer(profile));
  found.induction_one.push_back(
      FindBestHead(profile, kInductionOnRepeats).score);
  return MeanOf(
      tiny.SequenceLosses(language.HeldOut(), language.held_out(kLossTokens)));
}

void AddRoles(const Profile& profile, RecipeFound& found) {
  const std::vector<HeadRoles> heads = AssignRoles(profile);
  found.roles_many.push_back(static_cast<double>(RoleNames(profile).size()));
  found.most_roles_many.push_back(MostRolesInLayer(profile));
  found.induction_heads.push_back(CountOf(heads, "induction"));
  found.previous_heads.push_back(CountOf(heads, "previous-token"));
  found.delimiter_heads.push_back(CountOf(heads, "delimiter"));
  double nearest = Figure::kInfinity, farthest = 0;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    const double distance = profile.Get("distance", h).mean;
    nearest = std::min(nearest, distance);
    farthest = std::max(farthest, distance);
  }
  found.nearest.push_back(nearest);
  found.far_over_near.push_back(farthest / nearest);
}

}  // namespace

std::unique_ptr<TinyModel> NewRecipeModel(Context& context,
                                          const Language& language,
                                          const LanguageShape& shape,
                                          uint64_t seed, int64_t steps) {
  return language.NewModel(
      context, shape, language.WithRepeats(language.Training(seed, steps)));
}

void AddTwins(Context& context, const Language& language, uint64_t seed,
              int64_t steps, StudyClock& clock, RecipeFound& found,
              StudyResult& result) {
  const auto one = NewRecipeModel(context, language, {.heads = 1}, seed, steps);
  one->Train(*language.Train(one->how()), clock);
  const double loss_one = AddOneHead(context, language, *one, found);

  const auto many =
      NewRecipeModel(context, language, {.heads = kManyHeads}, seed, steps);
  found.parameters.push_back(
      static_cast<double>(many->store().Count() - one->store().Count()));
  const std::vector<TokenWindow> windows = language.Windows(0, kLikeWindows);
  Profile fresh;
  {
    const HostModel host(context, *many);
    fresh =
        language.MakeProfile(host.context(), host.model(), kProfiledWindows);
    found.divergence_new.push_back(
        DifferenceInLayers(host.context(), host.model(), windows).jsd);
    found.agreement_new.push_back(
        TellAgreement(host.context(), language, host.model(), fresh, seed));
  }
  Rise rise(context, language, *many);
  many->Train(*language.Train(many->how()), clock,
              [&](const StepReport& report) { rise.After(report.step + 1); });
  found.gain.push_back(
      loss_one - MeanOf(many->SequenceLosses(language.HeldOut(),
                                             language.held_out(kLossTokens))));
  const HostModel host(context, *many);
  const Profile trained =
      language.MakeProfile(host.context(), host.model(), kProfiledWindows);
  const double induction = FindBestHead(trained, kInductionOnRepeats).score;
  found.induction.push_back(induction);
  found.induction_new.push_back(FindBestHead(fresh, kInductionOnRepeats).score);
  found.half_there.push_back(rise.HalfThere(induction));
  found.closed.push_back(
      RiseOverOthers(context, many->model(), language, trained, seed));
  AddRoles(trained, found);
  const Specialised told = Examine(fresh, trained, seed);
  found.specialised.push_back(told.after);
  found.specialised_new.push_back(told.before);
  found.agreement.push_back(
      TellAgreement(host.context(), language, host.model(), trained, seed));
  const LayerDifference difference =
      DifferenceInLayers(host.context(), host.model(), windows);
  found.divergence.push_back(difference.jsd);
  found.overlap.push_back(difference.read);
  AddImportance(context, language, *many, host, trained,
                CompareHeads(host.context(), host.model(), windows), found);
  found.effect.push_back(LargestEffect(host, language));
  if (seed != result.seeds.front()) return;
  result.pictures.push_back(
      DrawRoles("Scores above chance after training", trained));
  result.pictures.push_back(LinePlot{"Induction while training, on repeats",
                                     "step",
                                     "share",
                                     false,
                                     false,
                                     {rise.series(induction)}});
}

void AddDeep(Context& context, const Language& language,
             const LayerProbes& probes, uint64_t seed, int64_t steps,
             StudyClock& clock, RecipeFound& found) {
  const auto deep =
      NewRecipeModel(context, language, {.layers = kDeepLayers}, seed, steps);
  found.probes.fresh.push_back(probes.Read(context, deep->model()));
  deep->Train(*language.Train(deep->how()), clock);
  found.probes.trained.push_back(probes.Read(context, deep->model()));
  const HostModel host(context, *deep);
  const Profile profile =
      language.MakeProfile(host.context(), host.model(), kProfiledWindows);
  found.deep_previous.push_back(FindBestHead(profile, "previous").score);
  found.deep_induction.push_back(
      FindBestHead(profile, kInductionOnRepeats).score);
  found.apart.push_back(LayersToInduction(profile));
  const std::vector<double> far = LayerMeans(profile, "distance");
  found.distance.push_back(far.back() - far.front());
}

namespace {

void JudgeTwins(const RecipeFound& found, StudyResult& result) {
  result.Expect(StudyKind::kLaw);
  double apart = 0;
  for (const double one : found.parameters) apart = std::max(apart, one);
  result.Near("parameters: 8 heads − 1 head", apart, 0, 0);
  result.Expect(StudyKind::kHypothesis);
  // The least that is worth a sentence: two in a hundred of the probability.
  result.AtLeast("loss of 1 head − loss of 8 heads, nats",
                 OverSeeds(found.gain), 0.02);
  result.AtLeast("patterns: mean divergence of heads of a layer, nats",
                 OverSeeds(found.divergence, kDivergenceBounds), 0.05);
  result.Between(0, std::numbers::ln2);
  result.AtLeast("patterns: the same − before training, nats",
                 DifferenceOverSeeds(found.divergence, found.divergence_new),
                 0.05);
  result.AtMost("subspaces: overlap of what heads read (chance 0.125)",
                OverSeeds(found.overlap, kShare), 0.5);
  result.AtLeast("different roles: 8 heads − 1 head",
                 DifferenceOverSeeds(found.roles_many, found.roles_one), 1);
  result.AtLeast(
      "most roles in one layer: 8 heads − 1 head",
      DifferenceOverSeeds(found.most_roles_many, found.most_roles_one), 1);
  result.Report("best induction score, models of one head",
                OverSeeds(found.induction_one, kShare));
}

void JudgeHeads(const RecipeFound& found, StudyResult& result) {
  const auto at_least_one = [&](const char* name,
                                const std::vector<double>& counts) {
    result.AtLeast(name, OverSeeds(counts, kNotNegative), 1);
  };
  result.Formed("best induction score", OverSeeds(found.induction, kShare),
                kInductionFormed);
  at_least_one("induction heads of 48", found.induction_heads);
  result.AtLeast("best induction score: trained − before training",
                 DifferenceOverSeeds(found.induction, found.induction_new,
                                     kShareDifference),
                 0.4);
  result.AtMost("share of the training until half of it is there",
                OverSeeds(found.half_there, kShare), 0.5);
  result.AtLeast(
      "repeats without the 2 best induction heads − without 2 others, nats",
      OverSeeds(found.closed), 0.1);
  result.EndFormed();
  at_least_one("previous-token heads of 48", found.previous_heads);
  at_least_one("delimiter heads of 48", found.delimiter_heads);
  result.AtMost("mean distance of the nearest-looking head, tokens",
                OverSeeds(found.nearest, kNotNegative), 10);
  result.AtLeast("mean distance, farthest-looking head ÷ nearest-looking",
                 OverSeeds(found.far_over_near, kNotNegative), 10);
  result.AtLeast("specialisation, trained − before training, nats",
                 DifferenceOverSeeds(found.specialised, found.specialised_new),
                 0.05);
  result.AtLeast("roles on another text: own head − others of its layer",
                 OverSeeds(found.agreement, kShareDifference), 0.05);
  result.AtMost("the same before training",
                OverSeeds(found.agreement_new, kShareDifference), 0.05);
}

void JudgeImportance(const RecipeFound& found, StudyResult& result) {
  const auto at_least_one = [&](const char* name,
                                const std::vector<double>& counts) {
    result.AtLeast(name, OverSeeds(counts, kNotNegative), 1);
  };
  result.AtLeast("Gini of what closing a head costs",
                 OverSeeds(found.gini, kShare), 0.3);
  result.Report("heads of 48 that carry 90 %",
                OverSeeds(found.heads_for_90, kNotNegative));
  at_least_one("critical heads of 48", found.critical);
  at_least_one("backup heads", found.backup);
  at_least_one("auxiliary heads", found.auxiliary);
  at_least_one("redundant heads", found.redundant);
  at_least_one("noise heads", found.noise);
  at_least_one("pairs of twins", found.twins);
  at_least_one("heads of 48 of which later heads surely take over a tenth",
               found.repaired);
  result.AtLeast("largest change of a head without an earlier one",
                 OverSeeds(found.effect, kNotNegative), 0.2);
}

void JudgeDeep(const RecipeFound& found, StudyResult& result) {
  result.Report("twelve layers: best previous-token score",
                OverSeeds(found.deep_previous, kShare));
  result.Formed(
      "twelve layers, lesser of the best previous-token and "
      "induction scores",
      [&] {
        std::vector<double> lesser;
        for (size_t s = 0; s < found.apart.size(); ++s) {
          lesser.push_back(
              std::min(found.deep_previous[s], found.deep_induction[s]));
        }
        return OverSeeds(lesser, kShare);
      }(),
      std::min(kInductionFormed, kPreviousFormed));
  result.AtLeast("layers from the best previous-token to the best induction",
                 OverSeeds(found.apart), 1);
  result.EndFormed();
  JudgeLayerProbes(found.probes, result);
  result.Report("mean distance, last layer − first", OverSeeds(found.distance));
  ShowLayerProbes(found.probes, result);
}

}  // namespace

void JudgeRecipe(const RecipeFound& found, StudyResult& result) {
  JudgeTwins(found, result);
  JudgeHeads(found, result);
  JudgeImportance(found, result);
  JudgeDeep(found, result);
}

}  // namespace headwise
