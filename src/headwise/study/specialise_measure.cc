// How much heads tell of roles, and the controls. Door: specialise.h.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/study/specialise.h"
#include "headwise/study/support/story.h"

namespace headwise {
namespace {

constexpr const char* kMetrics[] = {
    "previous",  "self",      "offset.-2",        "first",
    "duplicate", "delimiter", kInductionOnRepeats};
constexpr size_t kRoles = std::size(kMetrics);
constexpr int kDraws = 500;
// What a head without any role scores everywhere: its row is then even.
constexpr double kFloor = 0.02;

using Scores = RoleScores;

}  // namespace

RoleScores ScoresAboveChance(const Profile& profile,
                             const std::string& induction) {
  Scores scores;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    std::vector<double> row;
    for (const std::string role : kMetrics) {
      const std::string& metric =
          role == kInductionOnRepeats ? induction : role;
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

namespace {

// Mutual information of head and role, in nats, where a head and a role meet
// as often as the head scores on it: 0 when all heads do the same, ln(roles)
// when each does one thing and all things are done.
double Specialisation(const Scores& scores) {
  std::vector<double> heads(scores.size()), roles(kRoles);
  double sum = 0;
  for (size_t h = 0; h < scores.size(); ++h) {
    for (size_t r = 0; r < kRoles; ++r) {
      const double value = scores[h][r] + kFloor;
      heads[h] += value;
      roles[r] += value;
      sum += value;
    }
  }
  double information = 0;
  for (size_t h = 0; h < scores.size(); ++h) {
    for (size_t r = 0; r < kRoles; ++r) {
      const double value = scores[h][r] + kFloor;
      information += value / sum * std::log(value * sum / heads[h] / roles[r]);
    }
  }
  return information;
}

// Of many draws, sorted.
template <typename Change>
std::vector<double> Draws(const Scores& scores, uint64_t seed,
                          const Change& change) {
  Rng rng(seed);
  std::vector<double> values;
  for (int draw = 0; draw < kDraws; ++draw) {
    Scores changed = scores;
    change(rng, changed);
    values.push_back(Specialisation(changed));
  }
  std::sort(values.begin(), values.end());
  return values;
}

// The control: every layer does what it does, but who does it is drawn: each
// role's mass is split among the layer's heads in random proportions.
std::vector<double> SplitAtRandom(const Profile& profile, const Scores& scores,
                                  uint64_t seed) {
  return Draws(scores, seed, [&](Rng& rng, Scores& changed) {
    for (size_t begin = 0, end = 0; begin < changed.size(); begin = end) {
      while (end < changed.size() &&
             profile.heads[end].layer == profile.heads[begin].layer) {
        ++end;
      }
      for (size_t r = 0; r < kRoles; ++r) {
        double mass = 0, sum = 0;
        for (size_t h = begin; h < end; ++h) {
          mass += changed[h][r];
          changed[h][r] = -std::log1p(-rng.Uniform());
          sum += changed[h][r];
        }
        for (size_t h = begin; h < end; ++h) changed[h][r] *= mass / sum;
      }
    }
  });
}

// The shuffled control: every role's scores go to other heads, as they are.
// Where few heads have roles it can hardly give one head two, so that even
// heads of one role each may be within its range: the stricter of the two.
std::vector<double> DealOut(const Scores& scores, uint64_t seed) {
  return Draws(scores, seed, [](Rng& rng, Scores& changed) {
    for (size_t r = 0; r < kRoles; ++r) {
      for (size_t h = changed.size() - 1; h > 0; --h) {
        std::swap(changed[h][r], changed[rng.Below(h + 1)][r]);
      }
    }
  });
}

size_t CountRoles(const Profile& profile) {
  std::set<std::string> names;
  for (const HeadRoles& head : AssignRoles(profile)) {
    if (!head.roles.empty()) names.insert(head.roles[0].name);
  }
  return names.size();
}

}  // namespace

double MostSpecialised() { return std::log(static_cast<double>(kRoles)); }

HeatMap DrawRoles(const char* title, const Profile& profile) {
  const Scores scores = ScoresAboveChance(profile);
  HeatMap map{title, {}, {}, {}};
  for (const char* metric : kMetrics) {
    map.columns.emplace_back(
        metric == std::string_view(kInductionOnRepeats) ? "induction" : metric);
  }
  for (size_t h = 0; h < scores.size(); ++h) {
    map.rows.push_back(ToString(profile.heads[h]));
    map.values.insert(map.values.end(), scores[h].begin(), scores[h].end());
  }
  return map;
}

Specialised Examine(const Profile& fresh, const Profile& trained,
                    uint64_t seed) {
  const Scores scores = ScoresAboveChance(trained);
  const Scores scores_before = ScoresAboveChance(fresh);
  const std::vector<double> control = SplitAtRandom(trained, scores, seed);
  const auto bound = [](const std::vector<double>& sorted) {
    return sorted[sorted.size() * 975 / 1000];
  };
  return {.before = Specialisation(scores_before),
          .after = Specialisation(scores),
          .control = MeanOf(control),
          .bound = bound(control),
          .dealt = bound(DealOut(scores, seed)),
          .bound_before = bound(SplitAtRandom(fresh, scores_before, seed)),
          .roles_before = static_cast<double>(CountRoles(fresh)),
          .roles_after = static_cast<double>(CountRoles(trained))};
}

void TellSpecialised(const std::vector<Specialised>& seeds,
                     const std::string& whose, const std::string& title,
                     StudyResult& result) {
  const auto of = [&](double Specialised::*what) {
    std::vector<double> values;
    for (const Specialised& found : seeds) values.push_back(found.*what);
    return values;
  };
  const std::vector<double> after = of(&Specialised::after);
  result.AtLeast(whose + "specialisation, trained − before training, nats",
                 DifferenceOverSeeds(after, of(&Specialised::before)), 0.05);
  result.AtLeast(whose + "specialisation, trained − split at random (97.5 %)",
                 DifferenceOverSeeds(after, of(&Specialised::bound)), 0);
  result.AtLeast(whose + "specialisation, trained − shuffled (97.5 %)",
                 DifferenceOverSeeds(after, of(&Specialised::dealt)), 0);
  result.AtMost(
      whose + "specialisation, before training − its split at random (97.5 %)",
      DifferenceOverSeeds(of(&Specialised::before),
                          of(&Specialised::bound_before)),
      0.01);
  result.AtLeast(whose + "different roles, trained − before training",
                 DifferenceOverSeeds(of(&Specialised::roles_after),
                                     of(&Specialised::roles_before)),
                 1);
  const auto show = [&](double Specialised::*what) {
    return ShowInterval(OverSeeds(of(what)));
  };
  result.tables.push_back(
      {title,
       {"", "specialisation, nats", "different roles"},
       {{"before training", show(&Specialised::before),
         show(&Specialised::roles_before)},
        {"trained", show(&Specialised::after), show(&Specialised::roles_after)},
        {"trained, split at random", show(&Specialised::control), "–"},
        {"trained, shuffled (97.5 %)", show(&Specialised::dealt), "–"}}});
}

}  // namespace headwise
