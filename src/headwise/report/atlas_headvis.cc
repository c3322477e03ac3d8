// HeadVis' layout, as its data pipeline's contracts say. Door: atlas_files.h.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "headwise/base/atomic_file.h"
#include "headwise/base/fields.h"
#include "headwise/heads/profile/metrics.h"
#include "headwise/report/atlas_files.h"

namespace headwise {
namespace {

constexpr size_t kTableTokens = 50;

// Metrics of ours beside the six, where the profile has them.
constexpr const char* kOurMetrics[] = {"previous",         "first",
                                       "delimiter",        "local",
                                       "distance",         "repeats.induction",
                                       "repeats.duplicate"};

// So many decimals: enough for 1e-6, and short files.
Json Decimals(double value, int digits = 6) {
  if (!std::isfinite(value)) return nullptr;
  const double unit = std::pow(10.0, digits);
  return std::round(value * unit) / unit;
}

void WriteData(const std::filesystem::path& path, const Json& json) {
  WriteFileAtomically(path, json.dump() + "\n");
}

// |q − k| over all rows: mean attention of a row by distance.
Json DistanceHistogram(const AtlasParts& parts, size_t head) {
  const RowTotals& totals = parts.sums.totals[head];
  std::vector<double> by_distance(kHistogramCenter + 1, 0);
  for (int b = 0; b < kHistogramBuckets; ++b) {
    by_distance[std::abs(b - kHistogramCenter)] += totals.distances[b];
  }
  while (by_distance.size() > 1 && by_distance.back() <= 0) {
    by_distance.pop_back();
  }
  Json edges = Json::array({0}), values = Json::array();
  for (size_t b = 0; b < by_distance.size(); ++b) {
    edges.push_back(int64_t{1} << b);
    values.push_back(Decimals(by_distance[b] /
                              static_cast<double>(parts.sums.counts.tokens)));
  }
  return {{"bin_edges", std::move(edges)}, {"bin_values", std::move(values)}};
}

Json StrengthHistogram(const RowTotals& totals) {
  Json edges = Json::array();
  for (size_t b = 0; b <= kStrengthBins; ++b) {
    edges.push_back(Decimals(static_cast<double>(b) / kStrengthBins));
  }
  return {{"bin_edges", std::move(edges)}, {"bin_values", totals.strengths}};
}

// Attention of the kept maps by the text of the token that looks, or that is
// looked at.
class TableOf {
 public:
  void Add(const std::string& token, double weight) { sums_[token] += weight; }
  Json Largest() const {
    std::vector<std::pair<std::string, double>> all(sums_.begin(), sums_.end());
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.second > b.second;
    });
    if (all.size() > kTableTokens) all.resize(kTableTokens);
    Json list = Json::array();
    for (const auto& [token, weight] : all) {
      list.push_back({{"token", token}, {"weight", Decimals(weight, 4)}});
    }
    return list;
  }

 private:
  std::map<std::string, double> sums_;
};

Json SequenceJson(const KeptSequence& kept, const SparseMap& map,
                  const std::vector<std::string>& tokens) {
  Json values = Json::array();
  for (const float value : map.values) values.push_back(Decimals(value, 4));
  return {{"sequence_id", kept.sequence},
          {"interval", kept.interval},
          {"tokens", tokens},
          {"attention_indices", map.places},
          {"attention_values", std::move(values)},
          {"seq_len", tokens.size()},
          {"max_activation", Decimals(kept.strength, 4)}};
}

// "+0.012 (+0.010 to +0.015)" of the first ablation, or "".
std::string AblationText(const AtlasParts& parts, size_t head) {
  const Json& one = parts.report["heads"][head];
  if (!one.contains("importance")) return "";
  const Json& value = one["importance"]["values"]
                         [parts.report["importance"]["by"].get<std::string>()];
  if (!value["value"].is_number()) return "";
  const auto number = [&](const char* name) {
    return value[name].get<double>();
  };
  if (!value.contains("low")) return fmt::format("{:+.4g}", number("value"));
  return fmt::format("{:+.4g} ({:+.4g} to {:+.4g})", number("value"),
                     number("low"), number("high"));
}

Json HeadPayload(const AtlasParts& parts, size_t head) {
  Json sequences = Json::array();
  TableOf queries, keys;
  for (size_t i = 0; i < parts.chosen[head].size(); ++i) {
    const KeptSequence& kept = parts.chosen[head][i];
    const SparseMap& map = parts.maps[head][i];
    std::vector<std::string> tokens;
    for (const int32_t id : parts.sums.ids(kept.sequence)) {
      tokens.push_back(parts.text.Of(id));
    }
    const size_t size = tokens.size();
    for (size_t p = 0; p < map.places.size(); ++p) {
      queries.Add(tokens[map.places[p] / size], map.values[p]);
      keys.Add(tokens[map.places[p] % size], map.values[p]);
    }
    sequences.push_back(SequenceJson(kept, map, tokens));
  }
  Json statistics = {{"sequences", parts.sums.counts.sequences},
                     {"mean_max_activation",
                      Decimals(parts.atlas.heads[head].mean_strength, 4)},
                     {"role", parts.atlas.heads[head].role}};
  if (const std::string text = AblationText(parts, head); !text.empty()) {
    statistics["ablation"] = text;
  }
  return {{"sequences", std::move(sequences)},
          {"qk_distance_histogram", DistanceHistogram(parts, head)},
          {"top_query_tokens", queries.Largest()},
          {"top_key_tokens", keys.Largest()},
          {"histogram", StrengthHistogram(parts.sums.totals[head])},
          {"statistics", std::move(statistics)}};
}

struct ScatterMetric {
  std::string name;
  std::string words;
};

// The six, then ours that every head has: the viewer takes the columns of the
// first head.
std::vector<ScatterMetric> ScatterMetrics(const AtlasParts& parts) {
  std::vector<ScatterMetric> metrics;
  const auto words = FieldWords(HeadVisMetric{});
  for (size_t m = 0; m < kHeadVisMetrics; ++m) {
    metrics.push_back({words[m], Describe(static_cast<HeadVisMetric>(m))});
  }
  for (const char* name : kOurMetrics) {
    bool complete = parts.profile.metrics.contains(name);
    for (size_t h = 0; complete && h < parts.atlas.heads.size(); ++h) {
      complete = std::isfinite(parts.profile.Get(name, h).mean);
    }
    if (!complete) continue;
    const MetricDefinition* definition = FindDefinition(name);
    metrics.push_back({std::string("headwise.") + name,
                       definition == nullptr ? "" : definition->sentence});
  }
  return metrics;
}

Json ScatterRow(const AtlasParts& parts, size_t head,
                const std::vector<ScatterMetric>& metrics) {
  const AtlasHead& one = parts.atlas.heads[head];
  Json row = {{"layer", one.head.layer}, {"head", one.head.head}};
  for (size_t m = 0; m < metrics.size(); ++m) {
    const std::string& name = metrics[m].name;
    row[name] = Decimals(
        m < kHeadVisMetrics
            ? one.metrics[m]
            : parts.profile.Get(name.substr(name.find('.') + 1), head).mean);
  }
  return row;
}

Json ConfigJson(const AtlasParts& parts,
                const std::vector<ScatterMetric>& metrics) {
  Json heads = Json::array(), names = Json::array(), words = Json::object();
  int64_t layers = 0, most = 0;
  for (const AtlasHead& one : parts.atlas.heads) {
    heads.push_back({one.head.layer, one.head.head});
    layers = std::max(layers, one.head.layer + 1);
    most = std::max(most, one.head.head + 1);
  }
  for (const ScatterMetric& metric : metrics) {
    names.push_back(metric.name);
    words[metric.name] = metric.words;
  }
  return {{"model_name", parts.model},
          {"heads", std::move(heads)},
          {"n_layers", layers},
          {"n_heads", most},
          {"n_intervals", parts.job.intervals},
          {"metrics", std::move(names)},
          {"metric_descriptions", std::move(words)},
          {"head_data_pattern", "L{layer}H{head}.json"},
          {"has_umap", false},
          {"umap_heads", Json::array()},
          {"custom_plots",
           {{{"key", "qk_distance_histogram"},
             {"label", "Distance of query and key"},
             {"description", "Mean attention of a row, over all rows"}}}},
          {"custom_tables",
           {{{"key", "top_query_tokens"}, {"label", "Top query tokens"}},
            {{"key", "top_key_tokens"}, {"label", "Top key tokens"}}}},
          {"statistics_display",
           {{"sequences", {{"label", "Sequences"}, {"format", "integer"}}},
            {"mean_max_activation",
             {{"label", "Mean max activation"}, {"format", "default"}}},
            {"role", {{"label", "Role"}, {"format", "default"}}},
            {"ablation",
             {{"label", "Loss without the head, 95 % interval"},
              {"format", "default"}}}}}};
}

}  // namespace

std::string FileNameOf(const HeadRef& head) {
  return fmt::format("L{}H{}", head.layer, head.head);
}

void WriteHeadVisData(const std::filesystem::path& folder,
                      const AtlasParts& parts) {
  std::filesystem::create_directories(folder / "heads");
  std::filesystem::create_directories(folder / "attributions");
  const std::vector<ScatterMetric> metrics = ScatterMetrics(parts);
  Json rows = Json::array();
  for (size_t head = 0; head < parts.atlas.heads.size(); ++head) {
    rows.push_back(ScatterRow(parts, head, metrics));
    WriteData(
        folder / "heads" / (FileNameOf(parts.atlas.heads[head].head) + ".json"),
        HeadPayload(parts, head));
  }
  WriteData(folder / "scatter_data.json", rows);
  WriteData(folder / "config.json", ConfigJson(parts, metrics));
  // Nothing that needs a server.
  WriteData(folder / "server_config.json", Json::object());
  WriteData(folder / "attributions" / "manifest.json", Json::object());
}

}  // namespace headwise
