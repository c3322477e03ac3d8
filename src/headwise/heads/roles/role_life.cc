// Roles in training. Door: role_life.h.
#include "headwise/heads/roles/role_life.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/base/json_lines.h"
#include "headwise/error.h"
#include "headwise/heads/life_lines.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/heads/roles/syntactic.h"
#include "headwise/model/head_ref.h"

namespace headwise {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr int kLeastOffset = 2;  // nearer ones are roles of their own

double MeanOf(const Profile& profile, const std::string& metric, size_t head) {
  const Estimate score = profile.Get(metric, head);
  return score.count > 0 ? score.mean : kNone;
}

// The larger number, if there is one.
double Larger(double a, double b) { return std::isnan(a) || b > a ? b : a; }

double LargestOffset(const Profile& profile, size_t head) {
  double most = kNone;
  for (int offset = -kMostOffset; offset <= kMostOffset; ++offset) {
    if (std::abs(offset) < kLeastOffset) continue;
    most = Larger(most, MeanOf(profile, OffsetMetric(offset), head));
  }
  return most;
}

double ScoreOf(const Profile& profile, const RoleRule& rule, size_t head) {
  if (std::string_view(rule.role) == "offset") {
    return LargestOffset(profile, head);
  }
  double score = MeanOf(profile, rule.metric, head);
  if (std::isnan(score) && rule.repeats != OnRepeats::kNo) {
    score = MeanOf(profile, std::string("repeats.") + rule.metric, head);
  }
  double best = 0;
  for (const char* name : {rule.baseline, rule.second_baseline}) {
    if (name != nullptr) best = std::max(best, BaselineShare(profile, name));
  }
  return score - best;
}

// Points above the best offset, the better way of the relation.
double SyntacticScore(const Profile& profile, const Relation& relation,
                      size_t head) {
  double most = kNone;
  for (const RelationWay& way : relation.ways) {
    const Estimate shown = profile.Get(way.metric + ".b", head);
    if (shown.count < FindRule("syntactic")->least_cases) continue;
    most = Larger(most, shown.mean - way.second.share);
  }
  return most;
}

template <typename Score>
void AddScores(const std::string& role, const Score& score,
               RoleMoment& moment) {
  std::vector<double> scores;
  bool any = false;
  for (size_t h = 0; h < moment.heads.size(); ++h) {
    scores.push_back(score(h));
    any = any || std::isfinite(scores.back());
  }
  if (any) moment.scores[role] = std::move(scores);
}

RoleMoment ParseRoles(const Json& json) {
  RoleMoment moment;
  json.at("step").get_to(moment.step);
  json.at("heads").get_to(moment.heads);
  for (const auto& [role, values] : json.at("scores").items()) {
    for (const Json& value : values) {
      moment.scores[role].push_back(value.is_null() ? kNone
                                                    : value.get<double>());
    }
    RequireOneEachHead("scores of " + role, values.size(), moment.heads);
  }
  for (const Json& roles : json.at("roles")) {
    std::vector<std::string>& own = moment.roles.emplace_back();
    for (const Json& role : roles) own.push_back(role.get<std::string>());
  }
  RequireOneEachHead("roles", moment.roles.size(), moment.heads);
  return moment;
}

}  // namespace

int64_t RoleMoment::CountOf(const std::string& role) const {
  return std::count_if(roles.begin(), roles.end(), [&](const auto& own) {
    return std::find(own.begin(), own.end(), role) != own.end();
  });
}

RoleMoment RolesAt(const Profile& profile, int64_t step) {
  RoleMoment moment;
  moment.step = step;
  for (const HeadRef& head : profile.heads) {
    moment.heads.push_back(ToString(head));
  }
  for (const RoleRule& rule : RoleRules()) {
    if (std::string_view(rule.role) == "syntactic") continue;
    AddScores(
        rule.role, [&](size_t h) { return ScoreOf(profile, rule, h); }, moment);
  }
  for (const Relation& relation : ReadRelations(profile)) {
    AddScores(
        "syntactic(" + relation.name + ")",
        [&](size_t h) { return SyntacticScore(profile, relation, h); }, moment);
  }
  for (const HeadRoles& head : AssignRoles(profile)) {
    std::vector<std::string>& own = moment.roles.emplace_back();
    for (const Role& role : head.roles) own.push_back(role.name);
  }
  return moment;
}

void WriteRoleLife(const std::filesystem::path& file,
                   const std::vector<RoleMoment>& life) {
  std::string text;
  for (const RoleMoment& moment : life) {
    Json scores = Json::object(), roles = Json::array();
    // NaN is written as null.
    for (const auto& [role, values] : moment.scores) scores[role] = values;
    for (const std::vector<std::string>& own : moment.roles) {
      roles.push_back(own);
    }
    const Json json = {{"step", moment.step},
                       {"heads", moment.heads},
                       {"scores", std::move(scores)},
                       {"roles", std::move(roles)}};
    text += json.dump() + "\n";
  }
  WriteFileAtomically(file, text);
}

std::vector<RoleMoment> ReadRoleLife(const std::filesystem::path& file,
                                     int64_t last) {
  std::vector<RoleMoment> life;
  ReadJsonLines(file, "one observation a line", [&](const Json& line) {
    RoleMoment moment = ParseRoles(line);
    RequireSameHeads(life, moment);
    if (moment.step <= last) life.push_back(std::move(moment));
  });
  return life;
}

}  // namespace headwise
