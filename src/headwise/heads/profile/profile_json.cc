// Profiles as JSON. Door: profile_json.h.
#include "headwise/heads/profile/profile_json.h"

namespace headwise {
namespace {

Json HeadJson(const Profile& profile, size_t h) {
  const HeadRef& ref = profile.heads[h];
  Json metrics = Json::object();
  for (const auto& [name, tallies] : profile.metrics) {
    if (tallies[h].empty()) continue;
    metrics[name] = ToJson(profile.Get(name, h));
  }
  Json sinks = Json::object();
  for (const auto& [token, windows] : profile.sinks[h]) sinks[token] = windows;
  return {{"layer", ref.layer},
          {"head", ref.head},
          {"kind", Name(ref.kind)},
          {"metrics", metrics},
          {"histogram", profile.histograms[h]},
          {"sinks", sinks}};
}

}  // namespace

Json ToJson(const Estimate& estimate) {
  return {{"mean", FiniteOrNull(estimate.mean)},
          {"low", FiniteOrNull(estimate.low)},
          {"high", FiniteOrNull(estimate.high)},
          {"count", FiniteOrNull(estimate.count)}};
}

Json ProfileJson(const Profile& profile) {
  Json heads = Json::array();
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    heads.push_back(HeadJson(profile, h));
  }
  Json settings = {{"metrics", Name(profile.settings.metrics)},
                   {"context", profile.settings.context},
                   {"min_visible", profile.settings.min_visible},
                   {"repeats", profile.settings.repeats},
                   {"sentences", profile.settings.sentences}};
  if (profile.settings.bos) settings["bos"] = *profile.settings.bos;
  return {{"format", Profile::kFormat},
          {"model", profile.model},
          {"hash", profile.model_hash},
          {"settings", settings},
          {"counts",
           {{"documents", profile.counts.documents},
            {"windows", profile.counts.windows},
            {"tokens", profile.counts.tokens}}},
          {"heads", heads}};
}

}  // namespace headwise
