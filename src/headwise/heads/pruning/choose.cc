// Choosing heads by their scores. Door: choose.h.
#include "headwise/heads/pruning/choose.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

// Heads that leave together.
struct Unit {
  std::vector<HeadRef> heads;
  double score = 0;  // the mean of theirs
};

using Scored = std::vector<std::pair<double, HeadRef>>;

Unit UnitOf(const Scored& scored) {
  Unit unit;
  for (const auto& [score, head] : scored) {
    unit.heads.push_back(head);
    unit.score += score / static_cast<double>(scored.size());
  }
  return unit;
}

// The units of one layer, those that leave first in front. groups: the heads
// of each.
std::vector<Unit> UnitsOf(std::vector<Scored> groups, GroupUnit kind) {
  std::vector<Unit> units;
  if (kind == GroupUnit::kGroups || groups[0].size() == 1) {
    for (const Scored& group : groups) units.push_back(UnitOf(group));
  } else {
    for (Scored& group : groups) std::sort(group.begin(), group.end());
    for (size_t place = 0; place < groups[0].size(); ++place) {
      Scored together;
      for (const Scored& group : groups) together.push_back(group[place]);
      units.push_back(UnitOf(together));
    }
  }
  std::stable_sort(
      units.begin(), units.end(),
      [](const Unit& a, const Unit& b) { return a.score < b.score; });
  return units;
}

// The units of every layer that has heads, in the model's order. The uses of a
// head that layers share are one unit, of the first of these layers.
std::vector<std::vector<Unit>> AllUnits(const Model& model,
                                        std::span<const double> scores,
                                        GroupUnit kind) {
  std::map<std::pair<AttentionKind, int64_t>, std::vector<Scored>> layers;
  const std::vector<HeadRef> heads = AllHeads(model);
  for (size_t i = 0; i < heads.size(); ++i) {
    const AttentionLayerConfig& config =
        AttentionLayers(model, heads[i].kind)[heads[i].layer]->config();
    const HeadRef first = UsesOf(model.config(), heads[i]).front();
    auto& groups = layers[{first.kind, first.layer}];
    groups.resize(config.kv_heads);
    groups[heads[i].head / (config.heads / config.kv_heads)].emplace_back(
        scores[i], heads[i]);
  }
  std::vector<std::vector<Unit>> units;
  const bool shared = SharesHeads(model.config());
  for (auto& [layer, groups] : layers) {
    units.push_back(
        UnitsOf(std::move(groups), shared ? GroupUnit::kGroups : kind));
  }
  return units;
}

void Take(const Unit& unit, std::vector<HeadRef>& removed) {
  removed.insert(removed.end(), unit.heads.begin(), unit.heads.end());
}

// `share` of the units of every layer, of which the last `stay` do not go.
std::vector<HeadRef> Evenly(const std::vector<std::vector<Unit>>& layers,
                            double share, size_t stay) {
  std::vector<HeadRef> removed;
  for (const std::vector<Unit>& units : layers) {
    const auto count = static_cast<size_t>(
        std::floor(share * static_cast<double>(units.size() + stay) + 1e-9));
    for (size_t i = 0; i < std::min(count, units.size()); ++i) {
      Take(units[i], removed);
    }
  }
  return removed;
}

// Units of all layers, those that matter least first.
std::vector<const Unit*> InOrder(const std::vector<std::vector<Unit>>& layers) {
  std::vector<const Unit*> order;
  for (const std::vector<Unit>& units : layers) {
    for (const Unit& unit : units) order.push_back(&unit);
  }
  std::stable_sort(
      order.begin(), order.end(),
      [](const Unit* a, const Unit* b) { return a->score < b->score; });
  return order;
}

// At most `most` heads, wherever they matter least.
std::vector<HeadRef> Anywhere(const std::vector<std::vector<Unit>>& layers,
                              size_t most) {
  std::vector<HeadRef> removed;
  for (const Unit* unit : InOrder(layers)) {
    if (removed.size() + unit->heads.size() > most) continue;
    Take(*unit, removed);
  }
  return removed;
}

void RequireScores(const Model& model, std::span<const double> scores) {
  const size_t heads = AllHeads(model).size();
  if (scores.size() != heads ||
      !std::all_of(scores.begin(), scores.end(),
                   [](double score) { return std::isfinite(score); })) {
    throw Error(ErrorCode::kInvalidArgument,
                {"scores", fmt::format("{} finite numbers, one a head", heads),
                 fmt::format("{} numbers", scores.size()), ""});
  }
}

size_t Staying(const ChooseOptions& options) {
  return options.empty == EmptyLayers::kRefused ? 1 : 0;
}

// The units of every layer that may leave: all, or all but the best.
std::vector<std::vector<Unit>> MayLeave(const Model& model,
                                        std::span<const double> scores,
                                        const ChooseOptions& options) {
  RequireScores(model, scores);
  auto layers = AllUnits(model, scores, options.unit);
  for (std::vector<Unit>& units : layers) {
    units.resize(units.size() - Staying(options));
  }
  return layers;
}

size_t CountHeads(const std::vector<std::vector<Unit>>& layers) {
  size_t count = 0;
  for (const std::vector<Unit>& units : layers) {
    for (const Unit& unit : units) count += unit.heads.size();
  }
  return count;
}

}  // namespace

double LeastShare(const Model& model, const ChooseOptions& options) {
  const std::vector<double> scores(AllHeads(model).size());
  return 1 - static_cast<double>(CountHeads(MayLeave(model, scores, options))) /
                 static_cast<double>(scores.size());
}

std::vector<HeadRef> ChooseHeads(const Model& model,
                                 std::span<const double> scores,
                                 const ChooseOptions& options) {
  if (!(options.keep >= 0 && options.keep <= 1)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"keep", "a share from 0 to 1", fmt::format("{}", options.keep), ""});
  }
  const auto layers = MayLeave(model, scores, options);
  const size_t removable = CountHeads(layers);
  const auto heads = static_cast<double>(scores.size());
  const auto most =
      static_cast<size_t>(std::floor((1 - options.keep) * heads + 1e-9));
  if (most > removable) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"keep",
         fmt::format("at least {:.4f}, where every layer keeps a head (or one "
                     "of each group)",
                     1 - static_cast<double>(removable) / heads),
         fmt::format("{}", options.keep),
         "empty layers are allowed only where they are asked for"});
  }
  std::vector<HeadRef> removed =
      options.uniform ? Evenly(layers, 1 - options.keep, Staying(options))
                      : Anywhere(layers, most);
  std::sort(removed.begin(), removed.end());
  return removed;
}

std::vector<std::vector<HeadRef>> RemovalSets(const Model& model,
                                              std::span<const double> scores,
                                              const ChooseOptions& options) {
  const auto layers = MayLeave(model, scores, options);
  std::vector<std::vector<HeadRef>> sets(1);
  const auto add = [&](std::vector<HeadRef> set) {
    std::sort(set.begin(), set.end());
    if (set.size() > sets.back().size()) sets.push_back(std::move(set));
  };
  if (options.uniform) {
    size_t most = 0;
    for (const std::vector<Unit>& units : layers) {
      most = std::max(most, units.size() + Staying(options));
    }
    for (size_t count = 1; count <= most; ++count) {
      add(Evenly(layers, static_cast<double>(count) / static_cast<double>(most),
                 Staying(options)));
    }
    return sets;
  }
  std::vector<HeadRef> set;
  for (const Unit* unit : InOrder(layers)) {
    Take(*unit, set);
    add(set);
  }
  return sets;
}

}  // namespace headwise
