// Records become one. Door: study_report.h.
#include "headwise/drawing/study_report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/study/support/trained.h"

namespace headwise {
namespace {

[[noreturn]] void Refuse(const Study& study, std::string expected,
                         std::string found) {
  throw Error(ErrorCode::kInvalidArgument,
              {fmt::format("pool {}", study.name), std::move(expected),
               std::move(found), ""});
}

std::optional<double> Find(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

Bounds BoundsIn(const Json& figure) {
  const auto found = figure.find("bounds");
  Bounds bounds;
  if (found == figure.end()) return bounds;
  if (found->at(0).is_number()) bounds.low = found->at(0).get<double>();
  if (found->at(1).is_number()) bounds.high = found->at(1).get<double>();
  return bounds;
}

std::optional<StudyKind> KindIn(const Json& figure) {
  for (const StudyKind kind :
       {StudyKind::kLaw, StudyKind::kLiterature, StudyKind::kHypothesis}) {
    if (figure.value("kind", "") == Name(kind)) return kind;
  }
  return std::nullopt;
}

// What must be the same of all.
void Check(const Study& study, std::span<const Json> records) {
  std::set<uint64_t> seeds;
  for (const Json& record : records) {
    if (record.at("study") != study.name) {
      Refuse(study, "its records", record.at("study").get<std::string>());
    }
    for (const char* same : {"hash", "full", "text"}) {
      const Json ours = records[0].value(same, Json()),
                 theirs = record.value(same, Json());
      if (ours != theirs) {
        Refuse(study, fmt::format("one {}, {}", same, ours.dump()),
               theirs.dump());
      }
    }
    for (const Json& seed : record.at("seeds")) {
      if (!seeds.insert(seed.get<uint64_t>()).second) {
        Refuse(study, "every seed once", seed.dump() + " twice");
      }
    }
  }
}

// The values of all seeds.
std::vector<double> ValuesOf(const Study& study, const std::string& name,
                             std::span<const Json> records) {
  std::vector<double> values;
  for (const Json& record : records) {
    const Json& figure = record.at("figures").at(name);
    const auto own = figure.find("values");
    if (own == figure.end()) {
      Refuse(study, "values of each seed", fmt::format("none of {}", name));
    }
    for (const Json& value : *own) {
      values.push_back(value.is_number() ? value.get<double>() : std::nan(""));
    }
  }
  return values;
}

Figure PoolFigure(const Study& study, const std::string& name,
                  std::span<const Json> records) {
  const Json& first = records[0].at("figures").at(name);
  Figure figure;
  figure.name = name;
  figure.value = Find(first, "value").value_or(std::nan(""));
  figure.expected = first.at("expected").get<std::string>();
  figure.least = Find(first, "least").value_or(-Figure::kInfinity);
  figure.most = Find(first, "most").value_or(Figure::kInfinity);
  figure.chance = Find(first, "chance");
  figure.best = Find(first, "best");
  figure.kind = KindIn(first);
  figure.information = first.value("information", false);
  for (const Json& record : records) {
    const Json& one = record.at("figures").at(name);
    if (one.value("verdict", "") == Name(Verdict::kNotMeasured)) {
      figure.not_formed = one.value("why", "");
    }
  }
  if (!first.contains("values")) return figure;
  const SeedMean mean =
      OverSeeds(ValuesOf(study, name, records), BoundsIn(first));
  figure.over_seeds = true;
  figure.value = mean.value;
  figure.low = mean.low;
  figure.high = mean.high;
  figure.values = mean.values;
  figure.bounds = mean.bounds;
  return figure;
}

}  // namespace

Json PoolRecords(const Study& study, std::span<const Json> records) {
  Check(study, records);
  StudyResult result;
  result.kind = study.kind;
  for (const Json& record : records) {
    for (const Json& seed : record.at("seeds")) {
      result.seeds.push_back(seed.get<uint64_t>());
    }
    result.seconds += record.at("seconds").get<double>();
  }
  result.steps = records[0].at("steps").get<std::vector<std::string>>();
  for (const auto& [name, figure] : records[0].at("figures").items()) {
    result.figures.push_back(PoolFigure(study, name, records));
  }
  result.rules = RulesOf(study, result, records[0].at("full").get<bool>());
  Json pooled = StudyJson(study, result);
  // StudyJson takes figures by name; the hash is of their order in the run.
  for (const auto& [name, value] : records[0].items()) {
    if (name == "hash" || !pooled.contains(name)) pooled[name] = value;
  }
  for (const char* each : {"machine", "commit"}) {
    std::vector<std::string> told;
    for (const Json& record : records) {
      const std::string one = record.value(each, "");
      if (!one.empty() && std::ranges::find(told, one) == told.end()) {
        told.push_back(one);
      }
    }
    if (!told.empty()) pooled[each] = fmt::format("{}", fmt::join(told, "; "));
  }
  return pooled;
}

}  // namespace headwise
