// Heads in training. Door: head_life.h.
#include "headwise/heads/importance/head_life.h"

#include <cmath>
#include <limits>
#include <utility>

#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/base/json_lines.h"
#include "headwise/error.h"
#include "headwise/heads/importance/examples.h"
#include "headwise/heads/importance/gradient.h"
#include "headwise/heads/life_lines.h"
#include "headwise/heads/profile/probes.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/model/head_ref.h"

namespace headwise {
namespace {

constexpr int64_t kRepeatSequences = 8;

// Metrics of a profile that the series are.
constexpr std::pair<const char*, const char*> kMetrics[] = {
    {"entropy", "entropy.normalised"},
    {"previous", "previous"},
    {"induction", "repeats.induction"}};

LifeMoment ParseMoment(const Json& json) {
  LifeMoment moment;
  json.at("step").get_to(moment.step);
  json.at("heads").get_to(moment.heads);
  for (const char* series : kLifeSeries) {
    for (const Json& value : json.at(series)) {
      moment.values[series].push_back(
          value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                          : value.get<double>());
    }
    RequireOneEachHead(series, moment.values[series].size(), moment.heads);
  }
  return moment;
}

}  // namespace

LifeObserver::LifeObserver(Context& context, const Tokenizer& tokenizer,
                           const ModelConfig& config,
                           std::vector<TokenWindow> windows)
    : context_(context),
      tokenizer_(tokenizer),
      table_(&tokenizer, config),
      frame_(FrameOf(tokenizer, config)),
      windows_(std::move(windows)) {}

std::vector<double> LifeObserver::Importance(const Model& model) const {
  const std::vector<HeadRef> heads = AllHeads(model);
  if (!model.has_head()) {
    return std::vector<double>(heads.size(),
                               std::numeric_limits<double>::quiet_NaN());
  }
  const Objective objective(model, ObjectiveFor(tokenizer_));
  const ExampleBatch batch = objective.Prepare(ExamplesOf(windows_), 0);
  std::vector<double> importance;
  for (const auto& sequences : GateGradients(context_, model, batch, heads)) {
    double sum = 0;
    for (const GateGradient& one : sequences) sum += std::abs(one.sum);
    importance.push_back(sum / static_cast<double>(sequences.size()));
  }
  return importance;
}

LifeMoment LifeObserver::Observe(const Model& model, int64_t step,
                                 Profile* seen) const {
  ProfileOptions options;
  options.repeats = kRepeatSequences;
  Profiler profiler(context_, model, &tokenizer_, "", "", options);
  profiler.AddWindows(windows_);
  Profile profile = profiler.Take();
  AddRepeats(context_, model, table_, frame_, profile);
  LifeMoment moment;
  moment.step = step;
  for (const HeadRef& head : profile.heads) {
    moment.heads.push_back(ToString(head));
  }
  for (const auto& [series, metric] : kMetrics) {
    for (size_t h = 0; h < profile.heads.size(); ++h) {
      moment.values[series].push_back(profile.Get(metric, h).mean);
    }
  }
  moment.values["importance"] = Importance(model);
  if (seen != nullptr) *seen = std::move(profile);
  return moment;
}

void WriteLife(const std::filesystem::path& file,
               const std::vector<LifeMoment>& life) {
  std::string text;
  for (const LifeMoment& moment : life) {
    Json json = {{"step", moment.step}, {"heads", moment.heads}};
    // NaN is written as null.
    for (const char* series : kLifeSeries) {
      json[series] = moment.values.at(series);
    }
    text += json.dump() + "\n";
  }
  WriteFileAtomically(file, text);
}

std::vector<LifeMoment> ReadLife(const std::filesystem::path& file,
                                 int64_t last) {
  std::vector<LifeMoment> life;
  ReadJsonLines(file, "one observation a line", [&](const Json& line) {
    LifeMoment moment = ParseMoment(line);
    RequireSameHeads(life, moment);
    if (moment.step <= last) life.push_back(std::move(moment));
  });
  return life;
}

}  // namespace headwise
