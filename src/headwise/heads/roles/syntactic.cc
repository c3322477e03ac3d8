// Relations and their baselines. Door: syntactic.h.
#include "headwise/heads/roles/syntactic.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "headwise/heads/profile/words/materials.h"
#include "headwise/heads/roles/rules.h"

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

// The head with the largest mean of a metric, or −1.
int64_t BestHead(const Profile& profile, const std::string& metric) {
  int64_t best = -1;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    if (profile.Find(metric, h) == nullptr) continue;
    if (best < 0 ||
        profile.Get(metric, h).mean > profile.Get(metric, best).mean) {
      best = static_cast<int64_t>(h);
    }
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

std::vector<RelationHead> BestOfRelations(const Profile& profile) {
  std::vector<RelationHead> best;
  for (const Relation& relation : ReadRelations(profile)) {
    for (const RelationWay& way : relation.ways) {
      const int64_t head = BestHead(profile, way.metric + ".a");
      if (head < 0) continue;
      const Estimate shown = profile.Get(way.metric + ".b", head);
      if (shown.count < FindRule("syntactic")->least_cases) continue;
      best.push_back({relation.name, way.up, profile.heads[head], shown.mean,
                      shown.count, way.second.share, way.second.offset});
    }
  }
  std::ranges::sort(best, {}, [](const RelationHead& one) {
    return std::tuple(-one.points(), one.relation, one.up);
  });
  return best;
}

}  // namespace headwise
