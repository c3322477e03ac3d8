// Claim: heads specialise in training; an experiment can tell.
// Expectation: how much a head tells of the role (mutual information between
//   heads and the roles they score on) grows in training, and is larger than
//   in a control in which each role's scores are dealt out to other heads.
// Kind: hypothesis.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "headwise/base/distribution.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/study/story.h"
#include "headwise/study/study.h"

namespace headwise {
namespace {

constexpr const char* kMetrics[] = {"previous", "self",      "offset.-2",
                                    "first",    "duplicate", "induction"};
constexpr size_t kRoles = std::size(kMetrics);
constexpr int64_t kSequences = 32;
constexpr int kDeals = 500;
// What a head without any role scores everywhere: its row is then even.
constexpr double kFloor = 0.02;

// Scores above chance, [heads][roles].
using Scores = std::vector<std::vector<double>>;

Scores ScoreHeads(const Profile& profile) {
  Scores scores;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    std::vector<double> row;
    for (const std::string metric : kMetrics) {
      const double score = profile.Get(metric, h).mean;
      const Tally* chance = profile.Find(metric + ".chance", h);
      const double above =
          score - (chance == nullptr ? 0 : chance->Ratio().mean);
      row.push_back(above > 0 ? above : 0);  // NaN: nothing was counted
    }
    scores.push_back(std::move(row));
  }
  return scores;
}

// H(mean of the heads' shares) − mean H(share), in nats: 0 when all heads do
// the same, ln(roles) when each does one thing and all things are done.
double Specialisation(const Scores& scores) {
  std::vector<std::vector<double>> shares;
  double own = 0;
  for (std::vector<double> row : scores) {
    double sum = 0;
    for (double& value : row) sum += value += kFloor;
    for (double& value : row) value /= sum;
    own += Entropy(row) / static_cast<double>(scores.size());
    shares.push_back(std::move(row));
  }
  return Entropy(Mean(shares)) - own;
}

// The same with every role's scores dealt out at random, sorted.
std::vector<double> Control(Scores scores, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values;
  for (int deal = 0; deal < kDeals; ++deal) {
    for (size_t r = 0; r < kRoles; ++r) {
      for (size_t h = scores.size() - 1; h > 0; --h) {
        std::swap(scores[h][r], scores[rng.Below(h + 1)][r]);
      }
    }
    values.push_back(Specialisation(scores));
  }
  std::sort(values.begin(), values.end());
  return values;
}

size_t CountRoles(const Profile& profile) {
  std::set<std::string> names;
  for (const HeadRoles& head : AssignRoles(profile)) {
    if (!head.roles.empty()) names.insert(head.roles[0].name);
  }
  return names.size();
}

HeatMap Draw(const Profile& profile, const Scores& scores) {
  HeatMap map{"Scores above chance after training", {}, {}, {}};
  for (const char* metric : kMetrics) map.columns.emplace_back(metric);
  for (size_t h = 0; h < scores.size(); ++h) {
    map.rows.push_back(ToString(profile.heads[h]));
    map.values.insert(map.values.end(), scores[h].begin(), scores[h].end());
  }
  return map;
}

// Over seeds.
struct Found {
  std::vector<double> before, after, control, bound, roles_before, roles_after;
};

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const StudyText text = OpenStudyText(request);
  const int64_t steps = StudySteps(request, 2000, 4000);
  StudyClock clock(request, "specialise",
                   steps * static_cast<int64_t>(result.seeds.size()));
  Found found;
  for (const uint64_t seed : result.seeds) {
    TinyModel tiny(context,
                   StoryLlama({.layers = 4, .vocabulary = text.vocabulary}),
                   InductionTraining(seed, steps));
    const auto profile = [&] {
      return StoryProfile(context, tiny.model(), text, kSequences);
    };
    const Profile fresh = profile();
    tiny.Train(MadeBatches(seed, MostlyRepeats(text)), clock);
    const Profile trained = profile();
    const Scores scores = ScoreHeads(trained);
    const std::vector<double> control = Control(scores, seed);
    found.before.push_back(Specialisation(ScoreHeads(fresh)));
    found.after.push_back(Specialisation(scores));
    found.control.push_back(MeanOf(control));
    found.bound.push_back(control[control.size() * 975 / 1000]);
    found.roles_before.push_back(static_cast<double>(CountRoles(fresh)));
    found.roles_after.push_back(static_cast<double>(CountRoles(trained)));
    if (seed == result.seeds.front()) {
      result.pictures.push_back(Draw(trained, scores));
    }
  }
  result.AtLeast("specialisation, trained − before training, nats",
                 MeanOf(found.after) - MeanOf(found.before), 0.05);
  result.AtLeast("specialisation, trained − control (97.5 % of the deals)",
                 MeanOf(found.after) - MeanOf(found.bound), 0);
  result.AtLeast("different roles, trained − before training",
                 MeanOf(found.roles_after) - MeanOf(found.roles_before), 1);
  result.tables.push_back(
      {"16 heads",
       {"", "specialisation, nats", "different roles"},
       {{"before training", ShowInterval(OverSeeds(found.before)),
         ShowInterval(OverSeeds(found.roles_before))},
        {"trained", ShowInterval(OverSeeds(found.after)),
         ShowInterval(OverSeeds(found.roles_after))},
        {"trained, scores dealt out", ShowInterval(OverSeeds(found.control)),
         "–"}}});
  result.remark = fmt::format(
      "4 layers of 4 heads, trained on {}; two of three sequences were random "
      "words repeated, without which models this small form no induction "
      "heads. Specialisation is the mutual information between heads and "
      "roles: 0 when all heads do the same, {:.2f} at the most.",
      text.name, std::log(static_cast<double>(kRoles)));
  return result;
}

}  // namespace

const Study kSpecialiseStudy = {
    .name = "specialise",
    .claim = "Heads specialise in training, and an experiment can tell.",
    .expectation =
        "mutual information of heads and roles grows in training and exceeds "
        "that of shuffled scores",
    .kind = StudyKind::kHypothesis,
    .run = Run,
    .trained = true};

}  // namespace headwise
