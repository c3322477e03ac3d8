// Ranking, similarity and composition as parts of a report. Door:
// report_json.h.
#include "headwise/report/report_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "headwise/drawing/numbers.h"

namespace headwise {
namespace {

constexpr size_t kMostPairs = 12;
constexpr size_t kMostEdges = 150;

Json IntervalJson(const Interval& interval) {
  Json json = {{"value", Number(interval.value)}};
  if (interval.low != interval.high) {
    PutInterval(json, interval.low, interval.high);
  }
  return json;
}

// 1 for the largest value.
std::vector<int64_t> PlacesOf(const std::vector<Interval>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return values[a].value > values[b].value;
  });
  std::vector<int64_t> ranks(values.size());
  for (size_t i = 0; i < order.size(); ++i) {
    ranks[order[i]] = static_cast<int64_t>(i) + 1;
  }
  return ranks;
}

Json CorrelationsJson(const Ranking& ranking) {
  const size_t n = ranking.criteria.size();
  std::vector<std::vector<double>> matrix(n, std::vector<double>(n, 1));
  for (const RankCorrelation& one : ranking.correlations) {
    matrix[one.a][one.b] = matrix[one.b][one.a] = one.spearman;
  }
  Json rows = Json::array();
  for (const std::vector<double>& values : matrix) {
    Json row = Json::array();
    for (const double value : values) row.push_back(Number(value, 3));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string PairName(const HeadSimilarity& similarity, size_t head) {
  return ToString(similarity.heads[head]);
}

// The most alike pairs by one matrix [heads, heads].
Json Pairs(const HeadSimilarity& similarity, const Tensor& matrix,
           bool distance) {
  struct Pair {
    size_t a, b;
    double value;
  };
  std::vector<Pair> pairs;
  const size_t n = similarity.heads.size();
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      const double value = matrix.As<double>()[a * n + b];
      if (std::isfinite(value)) pairs.push_back({a, b, value});
    }
  }
  const size_t most = std::min(kMostPairs, pairs.size());
  std::partial_sort(pairs.begin(), pairs.begin() + static_cast<long>(most),
                    pairs.end(), [&](const Pair& x, const Pair& y) {
                      return distance ? x.value < y.value : x.value > y.value;
                    });
  Json list = Json::array();
  for (size_t i = 0; i < most; ++i) {
    list.push_back({{"a", PairName(similarity, pairs[i].a)},
                    {"b", PairName(similarity, pairs[i].b)},
                    {"value", Rounded(pairs[i].value, 3)}});
  }
  return list;
}

}  // namespace

Json ImportanceJson(const Ranking& ranking, Json& heads) {
  const size_t primary = ranking.primary.value_or(0);
  Json json = {{"loss", Name(ranking.loss_kind)},
               {"base", Number(ranking.loss, 5)},
               {"by", Name(ranking.criteria[primary].criterion)}};
  if (ranking.primary) json["sentence"] = Summary(ranking);
  json["criteria"] = Json::array();
  for (const CriterionResult& one : ranking.criteria) {
    json["criteria"].push_back({{"name", Name(one.criterion)},
                                {"what", Describe(one.criterion)},
                                {"gini", Number(one.gini, 6)},
                                {"effective", Number(one.effective, 3)}});
  }
  if (ranking.criteria.size() > 1) {
    json["correlations"] = CorrelationsJson(ranking);
  }
  json["layers"] = Json::array();
  for (const LayerImportance& layer : ranking.layers) {
    Json one = {{"kind", Name(layer.kind)}, {"layer", layer.layer}};
    one.update(IntervalJson(layer.delta));
    json["layers"].push_back(std::move(one));
  }
  if (ranking.primary) {
    json["carry"] = {{"share", 0.9}, {"heads", ranking.heads_for_90}};
    json["hurting"] = {{"answer", Name(ranking.hurting.answer)}};
    if (!ranking.hurting.reason.empty()) {
      json["hurting"]["reason"] = ranking.hurting.reason;
    }
    json["hurting"]["predictions"] = Number(ranking.hurting.predictions, 0);
    json["hurting"]["smallest_seen"] = Number(ranking.hurting.smallest_seen, 5);
    json["negative"] = Json::array();
    for (const NegativeHead& one : ranking.hurting.heads) {
      json["negative"].push_back(ToString(ranking.heads[one.head]));
    }
    json["least_negative"] = Number(ranking.least_negative, 5);
  }
  std::map<std::string, int64_t> classes;
  for (const HeadClass one : ranking.classes) ++classes[Name(one)];
  if (!classes.empty()) json["classes"] = classes;
  if (!ranking.notes.empty()) json["notes"] = ranking.notes;

  const std::vector<int64_t> ranks = PlacesOf(ranking.criteria[primary].heads);
  for (size_t head = 0; head < ranking.heads.size(); ++head) {
    Json one = Json::object();
    if (head < ranking.classes.size()) {
      one["class"] = Name(ranking.classes[head]);
    }
    one["rank"] = ranks[head];
    one["values"] = Json::object();
    for (const CriterionResult& criterion : ranking.criteria) {
      one["values"][Name(criterion.criterion)] =
          IntervalJson(criterion.heads[head]);
    }
    heads[head]["importance"] = std::move(one);
  }
  return json;
}

Json SimilarityJson(const HeadSimilarity& similarity) {
  Json measures = Json::array();
  const auto add = [&](const char* name, const char* what, const Tensor& matrix,
                       bool distance) {
    Json pairs = Pairs(similarity, matrix, distance);
    if (pairs.empty()) return;
    measures.push_back({{"name", name},
                        {"what", what},
                        {"distance", distance},
                        {"pairs", std::move(pairs)}});
  };
  add("pattern",
      "Jensen–Shannon divergence of where they look, in nats: 0 is the same.",
      similarity.jsd, true);
  add("output", "Linear CKA of what they give: 1 is the same.", similarity.cka,
      false);
  add("content",
      "Overlap of what W_O writes into, by principal angles: 1 is the same.",
      similarity.ov_write, false);

  const double* place = similarity.map.As<double>();
  Json map = Json::array();
  std::map<int64_t, std::vector<std::string>> groups;
  for (size_t head = 0; head < similarity.heads.size(); ++head) {
    const int64_t group = similarity.group[head];
    groups[group].push_back(PairName(similarity, head));
    map.push_back({{"head", PairName(similarity, head)},
                   {"x", Number(place[2 * head])},
                   {"y", Number(place[2 * head + 1])},
                   {"cluster", group}});
  }
  Json clusters = Json::array();
  for (const auto& [group, heads] : groups) clusters.push_back(heads);
  Json twins = Json::array();
  for (const HeadPair& pair : similarity.twins) {
    twins.push_back(
        {PairName(similarity, pair.a), PairName(similarity, pair.b)});
  }
  return {{"measures", std::move(measures)},
          {"map_of", "Hellinger distance of where they look, classical MDS"},
          {"map", std::move(map)},
          {"clusters", std::move(clusters)},
          {"twins", std::move(twins)}};
}

Json CompositionJson(const Composition& composition) {
  Json edges = Json::array();
  for (const HeadEdge& edge : composition.edges) {
    if (edges.size() == kMostEdges) break;
    if (composition.Over(edge) <= 0) continue;
    Json one = {{"from", ToString(composition.heads[edge.sender])},
                {"to", ToString(composition.heads[edge.receiver])},
                {"kind", Name(edge.input)},
                {"score", Number(edge.score)},
                {"baseline", Number(composition.baseline)}};
    if (composition.effect_tokens > 0 && std::isfinite(edge.effect)) {
      one["effect"] = Rounded(edge.effect, 3);
    }
    edges.push_back(std::move(one));
  }
  Json json = Json::object();
  std::string note;
  if (composition.rotary) {
    note = "Rotary positions: W_QK is taken at equal positions (offset 0).";
  }
  if (composition.query_norms) {
    note += std::string(note.empty() ? "" : " ") +
            "Queries and keys are normed head by head: the norms' gains are "
            "in W_QK, their division by the root mean square is not.";
  }
  if (!note.empty()) json["note"] = note;
  json["edges"] = std::move(edges);
  return json;
}

}  // namespace headwise
