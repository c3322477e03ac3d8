// Relations and their baselines. Door: syntactic.h.
#include "headwise/heads/roles/syntactic.h"

#include <map>
#include <string_view>

#include "headwise/heads/profile/words/materials.h"

namespace headwise {
namespace {

OffsetShare BestOffset(const Profile& profile, const std::string& metric) {
  OffsetShare best;
  for (int offset = -kMostOffset; offset <= kMostOffset; ++offset) {
    const double share =
        BaselineShare(profile, metric + OffsetBaseline(offset));
    if (share > best.share) best = {offset, share};
  }
  return best;
}

}  // namespace

double BaselineShare(const Profile& profile, const std::string& name) {
  const auto found = profile.baselines.find(name);
  if (found == profile.baselines.end() || found->second.empty()) return 0;
  return found->second.x / found->second.w;
}

std::vector<Relation> ReadRelations(const Profile& profile) {
  constexpr std::string_view kPrefix = "syntactic.";
  std::map<std::string, Relation> relations;
  for (const auto& [name, tallies] : profile.metrics) {
    if (!name.starts_with(kPrefix) || !name.ends_with(".a")) continue;
    RelationWay way;
    way.metric = name.substr(0, name.size() - 2);
    if (!profile.metrics.contains(way.metric + ".b")) continue;
    const size_t dot = way.metric.rfind('.');
    way.up = way.metric.substr(dot) == ".up";
    way.first = BestOffset(profile, way.metric + ".a");
    way.second = BestOffset(profile, way.metric + ".b");
    Relation& relation =
        relations[way.metric.substr(kPrefix.size(), dot - kPrefix.size())];
    relation.ways.push_back(std::move(way));
  }
  std::vector<Relation> all;
  for (auto& [name, relation] : relations) {
    relation.name = name;
    all.push_back(std::move(relation));
  }
  return all;
}

}  // namespace headwise
