// Drawing roles in training. Door: training_charts.h.
#include "headwise/api/training_charts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "headwise/drawing/text.h"
#include "headwise/heads/roles/rules.h"

namespace headwise {
namespace {

constexpr size_t kMostLines = 4;  // that can be told apart

// Roles in the order of their largest number of holders at any step, then of
// their largest score at the end; mere shapes of attention last.
std::vector<std::string> OrderedRoles(const std::vector<RoleMoment>& life) {
  std::set<std::string> names;
  for (const RoleMoment& moment : life) {
    for (const auto& [role, scores] : moment.scores) names.insert(role);
  }
  struct Ranked {
    bool functional = true;
    int64_t holders = 0;
    double score = 0;
    std::string role;
  };
  std::vector<Ranked> ranked;
  for (const std::string& role : names) {
    const RoleRule* rule = FindRule(role);
    Ranked one{rule == nullptr || !rule->shape, 0, 0, role};
    for (const RoleMoment& moment : life) {
      one.holders = std::max(one.holders, moment.CountOf(role));
    }
    const auto last = life.back().scores.find(role);
    if (last != life.back().scores.end()) {
      for (const double score : last->second) {
        if (std::isfinite(score)) one.score = std::max(one.score, score);
      }
    }
    ranked.push_back(std::move(one));
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Ranked& a, const Ranked& b) {
                     return std::tuple(b.functional, b.holders, b.score) <
                            std::tuple(a.functional, a.holders, a.score);
                   });
  std::vector<std::string> roles;
  for (const Ranked& one : ranked) roles.push_back(one.role);
  return roles;
}

// The moments as the chart of heads takes them, every role in each.
std::vector<LifeMoment> AsLife(const std::vector<RoleMoment>& life,
                               const std::vector<std::string>& roles) {
  std::vector<LifeMoment> moments;
  for (const RoleMoment& moment : life) {
    LifeMoment& one = moments.emplace_back();
    one.step = moment.step;
    one.heads = moment.heads;
    for (const std::string& role : roles) {
      const auto found = moment.scores.find(role);
      one.values[role] =
          found != moment.scores.end()
              ? found->second
              : std::vector<double>(moment.heads.size(),
                                    std::numeric_limits<double>::quiet_NaN());
    }
  }
  return moments;
}

Drawing DrawCounts(const std::vector<RoleMoment>& life,
                   const std::vector<std::string>& roles) {
  LinePlot plot;
  plot.title = "Heads that have each role";
  plot.x_label = "step";
  plot.y_label = fmt::format("of {} heads", life.back().heads.size());
  for (size_t i = 0; i < std::min(kMostLines, roles.size()); ++i) {
    Series line{fmt::format("{}: {} at the end", roles[i],
                            life.back().CountOf(roles[i])),
                {},
                {}};
    for (const RoleMoment& moment : life) {
      line.x.push_back(static_cast<double>(moment.step));
      line.y.push_back(static_cast<double>(moment.CountOf(roles[i])));
    }
    plot.series.push_back(std::move(line));
  }
  return DrawSvg(plot);
}

Drawing DrawStrongest(const std::vector<LifeMoment>& life,
                      const std::vector<std::string>& roles) {
  LinePlot plot;
  plot.title = "The strongest head of each role";
  plot.x_label = "step";
  plot.y_label = "score, as headwise roles --explain defines it";
  for (size_t i = 0; i < std::min(kMostLines, roles.size()); ++i) {
    plot.series.push_back(LifeOfStrongest(life, roles[i], roles[i]));
  }
  return DrawSvg(plot);
}

// What the numbers of a map are.
std::string MeaningOf(const std::string& role) {
  const RoleRule* rule = FindRule(role);
  if (rule == nullptr) return "its score";
  return fmt::format("{}a role from {} on",
                     rule->least_cases > 0 ? "above the baseline; " : "",
                     Share(rule->threshold));
}

}  // namespace

void WriteRoleChart(const std::filesystem::path& file,
                    const std::vector<RoleMoment>& life) {
  const std::vector<std::string> roles = OrderedRoles(life);
  const std::vector<LifeMoment> moments = AsLife(life, roles);
  LifePicture picture;
  picture.title = "Roles through training";
  picture.description =
      "How many heads have each role, the strongest head of each, and below "
      "every role's score: heads in rows, steps in columns.";
  const Drawing lines[] = {DrawCounts(life, roles),
                           DrawStrongest(moments, roles)};
  picture.lines = StackDrawings(lines);
  for (const std::string& role : roles) {
    picture.panels.push_back({role, role, MeaningOf(role)});
  }
  WriteLifePicture(file, std::move(picture), moments);
}

}  // namespace headwise
