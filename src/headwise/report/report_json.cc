// Puts the parts of a report together, head by head. Door: report_json.h.
#include "headwise/report/report_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "headwise/api/state.h"
#include "headwise/drawing/numbers.h"
#include "headwise/drawing/text.h"
#include "headwise/head_ref.h"
#include "headwise/heads/profile/metrics.h"
#include "headwise/heads/roles/rules.h"
#include "headwise/observation.h"
#include "headwise/report/token_text.h"
#include "headwise/version.h"

namespace headwise {
namespace {

Json ModelJson(const ReportParts& parts) {
  const ModelConfig& config = parts.model.state().checkpoint.config();
  return {{"name", parts.profile.model},
          {"hash", parts.profile.model_hash},
          {"type", config.model_type},
          {"kind", config.encoder_decoder() ? "encoder–decoder"
                   : config.causal          ? "decoder"
                                            : "encoder"},
          {"width", config.width},
          {"head_dim", config.head_dim},
          {"vocabulary", config.vocabulary},
          {"parameters", parts.model.info().parameters}};
}

Json ProfileJson(const ReportParts& parts) {
  const Profile& profile = parts.profile;
  Json json = Json::object();
  if (!parts.texts.empty()) json["texts"] = parts.texts;
  json["documents"] = profile.counts.documents;
  json["sequences"] = profile.counts.windows;
  json["tokens"] = profile.counts.tokens;
  json["context"] = profile.settings.context;
  json["min_visible"] = profile.settings.min_visible;
  return json;
}

// What a reader may want beside the roles. The rest (halves and relations of a
// treebank, chances, other offsets' forms, most of random repeats) would be
// most of the file; the profile holds it.
bool IsReported(const std::string& metric) {
  if (metric.starts_with("syntactic.") || metric.ends_with(".a") ||
      metric.ends_with(".b") || metric.ends_with(".chance")) {
    return false;
  }
  if (metric.starts_with("repeats.")) {
    return metric == "repeats.induction" || metric == "repeats.duplicate" ||
           metric == "repeats.previous";
  }
  return !metric.starts_with("offset.") ||
         metric.find('.', std::string_view("offset.").size()) ==
             std::string::npos;
}

Json EstimateJson(const Estimate& estimate) {
  Json json = {{"mean", Number(estimate.mean)}};
  PutInterval(json, estimate.low, estimate.high);
  json["count"] = Number(estimate.count);
  return json;
}

Json MetricsJson(const Profile& profile, size_t head) {
  Json metrics = Json::object();
  for (const auto& [name, tallies] : profile.metrics) {
    if (!IsReported(name)) continue;
    const Estimate estimate = profile.Get(name, head);
    if (estimate.count > 0) metrics[name] = EstimateJson(estimate);
  }
  return metrics;
}

// Shares by distance, key − query; outer buckets that hold nothing are left
// out.
Json DistanceJson(const std::vector<double>& histogram) {
  const double total = std::accumulate(histogram.begin(), histogram.end(), 0.0);
  int first = kHistogramBuckets, last = -1;
  for (int b = 0; b < static_cast<int>(histogram.size()); ++b) {
    // Rounding leaves traces where a mask lets nothing through.
    if (histogram[b] <= 1e-6 * total) continue;
    first = std::min(first, b);
    last = b;
  }
  Json buckets = Json::array();
  // Earlier keys, which the operator counts upward, come first here.
  for (int b = last; b >= first && total > 0; --b) {
    const int steps = std::abs(b - kHistogramCenter);
    const int64_t near = steps == 0 ? 0 : int64_t{1} << (steps - 1);
    const int64_t far = steps == 0 ? 0 : (int64_t{1} << steps) - 1;
    const bool earlier = b > kHistogramCenter;
    buckets.push_back({{"from", earlier ? -far : near},
                       {"to", earlier ? -near : far},
                       {"mass", Rounded(histogram[b] / total)}});
  }
  return buckets;
}

Json RoleJson(const Role& role, const Profile& profile, size_t head) {
  Json json;
  json["name"] = role.name;
  if (role.shape) json["shape"] = true;
  json["score"] = Number(role.score);
  PutInterval(json, role.low, role.high);
  json["count"] = Number(role.count);
  json["sink_excluded"] = role.sink_excluded;
  if (role.sink_excluded) json["content_mass"] = Number(role.content_mass);
  // Where the score is compared with a baseline, the threshold is in points
  // above it: not a place on the score's own line.
  const RoleRule* rule = FindRule(role.name);
  if (rule != nullptr && rule->least_cases == 0) {
    json["threshold"] = rule->threshold;
    const std::string form = role.sink_excluded ? ".content" : "";
    const double chance =
        profile.Get(rule->metric + form + ".chance", head).mean;
    if (std::isfinite(chance)) json["chance"] = Rounded(chance);
  }
  if (!role.material.empty()) json["material"] = role.material;
  if (!role.evidence.empty()) json["evidence"] = Capital(role.evidence);
  if (role.check) json["check"] = role.check->text;
  return json;
}

// Tokens around the query, with the mass of those that are among its top keys;
// keys further away are added in front, so that they are seen.
Json ExampleJson(const Example& example, const TokenText& text) {
  std::map<int64_t, const Example::Key*> keys;
  for (const Example::Key& key : example.keys) keys[key.position] = &key;
  const int64_t last =
      example.first + static_cast<int64_t>(example.tokens.size()) - 1;
  Json tokens = Json::array(), weights = Json::array();
  int64_t before = 0;
  for (const auto& [position, key] : keys) {
    if (position >= example.first || key->mass < 0.02) continue;
    tokens.push_back(text.Of(key->token));
    weights.push_back(Rounded(key->mass, 3));
    tokens.push_back(" … ");
    weights.push_back(0);
    before += 2;
  }
  for (size_t i = 0; i < example.tokens.size(); ++i) {
    const auto found = keys.find(example.first + static_cast<int64_t>(i));
    tokens.push_back(text.Of(example.tokens[i]));
    weights.push_back(found == keys.end() ? 0
                                          : Rounded(found->second->mass, 3));
  }
  for (const auto& [position, key] : keys) {
    if (position <= last || key->mass < 0.02) continue;
    tokens.push_back(" … ");
    weights.push_back(0);
    tokens.push_back(text.Of(key->token));
    weights.push_back(Rounded(key->mass, 3));
  }
  static const std::map<std::string, std::string> titles = {
      {"sample", "A row at random"},
      {"strongest", "One of its surest rows"},
      {"induction", "What followed the same token before"},
      {"duplicate", "An earlier copy of the same token"}};
  const auto title = titles.find(example.kind);
  Json json = {{"title", title == titles.end() ? example.kind : title->second},
               {"tokens", std::move(tokens)},
               {"query", example.query - example.first + before},
               {"weights", std::move(weights)}};
  if (example.kind != "sample") json["score"] = Rounded(example.score, 3);
  return json;
}

// The two best of each kind, and one row at random.
Json ExamplesJson(const std::vector<Example>& examples, const TokenText& text) {
  std::map<std::string, int> taken;
  Json list = Json::array();
  for (const bool samples : {false, true}) {
    for (const Example& example : examples) {
      if ((example.kind == "sample") != samples) continue;
      // A query that is not among its tokens cannot be shown.
      const int64_t at = example.query - example.first;
      if (at < 0 || at >= static_cast<int64_t>(example.tokens.size()) ||
          ++taken[example.kind] > (samples ? 1 : 2)) {
        continue;
      }
      list.push_back(ExampleJson(example, text));
    }
  }
  return list;
}

Json SamplesJson(const HeadSamples& samples, const TokenText& text) {
  Json list = Json::array();
  const auto tokens = [&](const std::vector<int32_t>& ids) {
    Json texts = Json::array();
    for (const int32_t id : ids) texts.push_back(text.Of(id));
    return texts;
  };
  for (const AttentionSample& sample : samples.samples) {
    Json one = {{"title", sample.title},
                {"kind", Name(sample.kind)},
                {"tokens", tokens(sample.queries)}};
    if (sample.kind == AttentionKind::kCross) one["keys"] = tokens(sample.keys);
    list.push_back(std::move(one));
  }
  return list;
}

Json ContentJson(const ReportParts& parts, size_t head, const TokenText& text) {
  Json json = {{"says", CopyingSentence(parts.profile, head)}};
  if (parts.profile.Find("copying.run", head) != nullptr) {
    json["copying_run"] = EstimateJson(parts.profile.Get("copying.run", head));
  }
  for (const auto& [key, metric] :
       {std::pair{"copying", "copying"},
        std::pair{"copying_vocabulary", "copying.vocabulary"}}) {
    if (parts.profile.Find(metric, head) == nullptr) continue;
    json[key] = Number(parts.profile.Get(metric, head).mean);
  }
  if (!parts.contents) return json;
  json["readout"] = parts.contents->readout;
  Json writes = Json::array();
  for (const TokenWrites& one : parts.contents->heads[head]) {
    Json top = Json::array();
    // A head that writes nothing favours nothing.
    for (const WrittenToken& token : one.top) {
      if (!(token.logit > 0)) continue;
      top.push_back(
          {{"token", text.Of(token.id)}, {"logit", Rounded(token.logit, 3)}});
    }
    if (top.empty()) continue;
    writes.push_back({{"token", text.Of(one.read)}, {"top", std::move(top)}});
  }
  json["writes"] = std::move(writes);
  return json;
}

Json HeadJson(const ReportParts& parts, size_t head, const TokenText& text) {
  const Profile& profile = parts.profile;
  const HeadRef& ref = profile.heads[head];
  Json json = {{"id", ToString(ref)},
               {"layer", ref.layer},
               {"head", ref.head},
               {"kind", Name(ref.kind)},
               {"roles", Json::array()}};
  for (const Role& role : parts.roles[head].roles) {
    json["roles"].push_back(RoleJson(role, profile, head));
  }
  if (!parts.roles[head].closest.empty()) {
    json["closest"] = parts.roles[head].closest;
  }
  json["metrics"] = MetricsJson(profile, head);
  if (head < profile.histograms.size() && ref.kind != AttentionKind::kCross) {
    json["distance"] = DistanceJson(profile.histograms[head]);
  }
  if (parts.samples) {
    Json keys = Json::array();
    for (const auto& [id, share] : parts.samples->top_keys[head]) {
      keys.push_back({{"token", text.Of(id)}, {"share", Rounded(share, 3)}});
    }
    json["top_keys"] = std::move(keys);
    Json attention = Json::array();
    for (const AttentionSample& sample : parts.samples->samples) {
      attention.push_back(Bytes(sample.weights[head]));
    }
    json["attention"] = std::move(attention);
  }
  if (head < profile.examples.size()) {
    json["examples"] = ExamplesJson(profile.examples[head], text);
  }
  json["content"] = ContentJson(parts, head, text);
  return json;
}

// Roles first, then every measurement that the profile holds.
Json DefinitionsJson(const Profile& profile) {
  Json list = Json::array();
  const auto add = [&](const std::string& name, const char* sentence,
                       const char* trap) {
    Json one = {{"name", name}, {"sentence", Capital(sentence)}};
    if (*trap != '\0') one["trap"] = Capital(trap);
    list.push_back(std::move(one));
  };
  for (const RoleRule& rule : RoleRules()) {
    add(std::string("role: ") + rule.role, rule.means, rule.trap);
  }
  std::set<const MetricDefinition*> present;
  for (const auto& [name, tallies] : profile.metrics) {
    if (IsReported(name)) present.insert(FindDefinition(name));
  }
  for (const MetricDefinition& one : MetricDefinitions()) {
    if (present.contains(&one)) add(one.name, one.sentence, one.trap);
  }
  return list;
}

}  // namespace

Json ReportJson(const ReportParts& parts) {
  const TokenText text(parts.model.state().checkpoint.FindTokenizer());
  Json report;
  report["format"] = "headwise.report/1";
  report["program"] = "headwise " HEADWISE_VERSION_STRING;
  report["model"] = ModelJson(parts);
  report["profile"] = ProfileJson(parts);
  report["summary"] = Json::object();  // last: it reads the rest
  report["heads"] = Json::array();
  for (size_t head = 0; head < parts.profile.heads.size(); ++head) {
    report["heads"].push_back(HeadJson(parts, head, text));
  }
  if (parts.samples) {
    report["samples"] = SamplesJson(*parts.samples, text);
    report["top_keys_on"] = {{"sequences", parts.samples->windows},
                             {"tokens", kSampleTokens}};
  }
  report["roles"] = ThirdsJson(parts.roles);
  if (parts.ranking) {
    report["importance"] = ImportanceJson(*parts.ranking, report["heads"]);
  }
  if (parts.similarity) {
    report["similarity"] = SimilarityJson(*parts.similarity);
  }
  if (parts.composition) {
    report["composition"] = CompositionJson(*parts.composition);
  }
  report["definitions"] = DefinitionsJson(parts.profile);
  if (!parts.absent.empty()) {
    report["absent"] = Json::array();
    for (const ReportParts::Absent& one : parts.absent) {
      report["absent"].push_back({{"part", one.part}, {"why", one.why}});
    }
  }
  report["summary"]["sentences"] = SummarySentences(report);
  return report;
}

}  // namespace headwise
