// What a model's heads do by layer. Door: layers.h.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "headwise/heads/composition/composition.h"
#include "headwise/study/layers.h"

namespace headwise {
namespace {

constexpr const char* kPrevious = "previous";
constexpr const char* kInduction = "repeats.induction";

}  // namespace

BestHead FindBestHead(const Profile& profile, const std::string& metric) {
  BestHead best;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    const double score = profile.Get(metric, h).mean;
    if (score > best.score) best = {h, score};
  }
  return best;
}

std::vector<double> LayerMeans(const Profile& profile,
                               const std::string& metric) {
  std::vector<double> sums, counts;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    const auto layer = static_cast<size_t>(profile.heads[h].layer);
    sums.resize(std::max(sums.size(), layer + 1));
    counts.resize(sums.size());
    sums[layer] += profile.Get(metric, h).mean;
    ++counts[layer];
  }
  for (size_t layer = 0; layer < sums.size(); ++layer) {
    sums[layer] /= counts[layer];
  }
  return sums;
}

double LayersToInduction(const Profile& profile) {
  const auto layer_of = [&](const char* metric) {
    return profile.heads[FindBestHead(profile, metric).head].layer;
  };
  return static_cast<double>(layer_of(kInduction) - layer_of(kPrevious));
}

void TellLayers(const Profile& profile, const Ranking& ranking,
                const std::string& title, StudyResult& result) {
  StudyTable table{title,
                   {"layer", "distance", "entropy", "previous token",
                    "induction", "loss without it"},
                   {}};
  const std::vector<double> distance = LayerMeans(profile, "distance"),
                            entropy = LayerMeans(profile, "entropy"),
                            previous = LayerMeans(profile, kPrevious),
                            induction = LayerMeans(profile, kInduction);
  Series layers;
  for (size_t layer = 0; layer < distance.size(); ++layer) {
    layers.x.push_back(static_cast<double>(layer));
    table.rows.push_back(
        {std::to_string(layer), fmt::format("{:.1f}", distance[layer]),
         fmt::format("{:.2f}", entropy[layer]),
         fmt::format("{:.2f}", previous[layer]),
         fmt::format("{:.2f}", induction[layer]),
         fmt::format("{:+.3f}", ranking.layers[layer].delta.value)});
  }
  result.tables.push_back(std::move(table));
  result.pictures.push_back(
      LinePlot{title + ", mean mass",
               "layer",
               "share",
               false,
               false,
               {{"previous token", layers.x, previous},
                {"induction, on repeats", layers.x, induction}}});
}

void TellEdge(Context& context, const Model& model, const Profile& profile,
              const std::string& whose, StudyResult& result) {
  const size_t from = FindBestHead(profile, kPrevious).head;
  const size_t to = FindBestHead(profile, kInduction).head;
  if (profile.heads[to].layer <= profile.heads[from].layer) return;
  const Composition composition = MeasureComposition(context, model);
  double rank = 0, edges = 0;
  for (const HeadEdge& edge : composition.edges) {
    if (edge.input != HeadInput::kKey) continue;
    ++edges;
    if (edge.sender == from && edge.receiver == to) rank = edges;
  }
  result.Report(fmt::format("{}rank of the edge previous-token → induction "
                            "among {:.0f} key edges",
                            whose, edges),
                rank);
}

}  // namespace headwise
