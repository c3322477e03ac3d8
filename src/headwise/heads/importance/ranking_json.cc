// Rankings as JSON. Door: ranking_json.h.
#include "headwise/heads/importance/ranking_json.h"

#include <cmath>

namespace headwise {
namespace {

// JSON has no ∞ and no NaN.
Json CriterionJson(const CriterionResult& result) {
  return {{"name", Name(result.criterion)},
          {"definition", Describe(result.criterion)},
          {"gini", FiniteOrNull(result.gini)},
          {"effective_heads", FiniteOrNull(result.effective)}};
}

// Whether any head hurts, and why where there is no telling.
Json HurtingJson(const Ranking& ranking) {
  Json undecided = Json::array();
  for (const size_t head : ranking.hurting.undecided) {
    undecided.push_back(ToString(ranking.heads[head]));
  }
  Json json = {{"answer", Name(ranking.hurting.answer)}};
  if (!ranking.hurting.reason.empty()) json["reason"] = ranking.hurting.reason;
  json["undecided"] = std::move(undecided);
  json["predictions"] = FiniteOrNull(ranking.hurting.predictions);
  json["smallest_seen"] = FiniteOrNull(ranking.hurting.smallest_seen);
  return json;
}

Json HeadJson(const Ranking& ranking, size_t index) {
  const HeadRef& head = ranking.heads[index];
  Json json = {
      {"layer", head.layer}, {"head", head.head}, {"kind", Name(head.kind)}};
  if (!ranking.classes.empty()) {
    json["class"] = Name(ranking.classes[index]);
  }
  Json values = Json::object();
  for (const CriterionResult& result : ranking.criteria) {
    values[Name(result.criterion)] = ToJson(result.heads[index]);
  }
  json["criteria"] = std::move(values);
  if (!ranking.self_repair.empty()) {
    const std::optional<Interval>& repair = ranking.self_repair[index];
    json["self_repair"] = repair ? ToJson(*repair) : Json(nullptr);
  }
  return json;
}

}  // namespace

Json ToJson(const Interval& interval) {
  return {{"value", FiniteOrNull(interval.value)},
          {"low", FiniteOrNull(interval.low)},
          {"high", FiniteOrNull(interval.high)}};
}

Json ToJson(const Ranking& ranking) {
  Json json = {{"format", "headwise.ranking/1"},
               {"loss",
                {{"name", Name(ranking.loss_kind)},
                 {"definition", Describe(ranking.loss_kind)},
                 {"value", FiniteOrNull(ranking.loss)}}},
               {"sequences", ranking.sequences},
               {"tokens", ranking.tokens},
               {"summary", Summary(ranking)}};
  if (ranking.gradient_loss) {
    json["gradient_loss"] = {{"name", Name(*ranking.gradient_loss)},
                             {"definition", Describe(*ranking.gradient_loss)}};
  }
  Json criteria = Json::array();
  for (const CriterionResult& result : ranking.criteria) {
    criteria.push_back(CriterionJson(result));
  }
  json["criteria"] = std::move(criteria);
  Json correlations = Json::array();
  for (const RankCorrelation& pair : ranking.correlations) {
    correlations.push_back({{"a", Name(ranking.criteria[pair.a].criterion)},
                            {"b", Name(ranking.criteria[pair.b].criterion)},
                            {"spearman", FiniteOrNull(pair.spearman)},
                            {"kendall", FiniteOrNull(pair.kendall)}});
  }
  json["correlations"] = std::move(correlations);
  Json heads = Json::array();
  for (size_t i = 0; i < ranking.heads.size(); ++i) {
    heads.push_back(HeadJson(ranking, i));
  }
  json["heads"] = std::move(heads);
  if (!ranking.primary) return json;
  json["primary"] = Name(ranking.criteria[*ranking.primary].criterion);
  json["heads_for_90_percent"] = ranking.heads_for_90;
  json["hurting"] = HurtingJson(ranking);
  Json negative = Json::array();
  for (const NegativeHead& head : ranking.hurting.heads) {
    negative.push_back({{"head", ToString(ranking.heads[head.head])},
                        {"selection", ToJson(head.selection)},
                        {"confirmation", ToJson(head.confirmation)}});
  }
  json["negative"] = std::move(negative);
  json["least_negative"] = FiniteOrNull(ranking.least_negative);
  Json layers = Json::array();
  for (const LayerImportance& layer : ranking.layers) {
    layers.push_back({{"kind", Name(layer.kind)},
                      {"layer", layer.layer},
                      {"delta", ToJson(layer.delta)}});
  }
  json["layers"] = std::move(layers);
  Json pairs = Json::array();
  for (const PairEffect& pair : ranking.pairs) {
    pairs.push_back({{"a", ToString(ranking.heads[pair.a])},
                     {"b", ToString(ranking.heads[pair.b])},
                     {"delta", ToJson(pair.delta)},
                     {"interaction", ToJson(pair.interaction)}});
  }
  json["pairs"] = std::move(pairs);
  json["notes"] = ranking.notes;
  return json;
}

}  // namespace headwise
