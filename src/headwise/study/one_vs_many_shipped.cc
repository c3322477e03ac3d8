// One head beside many in two models from disk, trained alike. Door:
// one_vs_many.h.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/heads/importance/examples.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/study/compare/trained_comparison.h"
#include "headwise/study/one_vs_many.h"
#include "headwise/study/support/shipped.h"
#include "headwise/study/support/story.h"

namespace headwise {
namespace {

constexpr int64_t kTwinRepeats = 32;  // sequences of random repeats
constexpr char kSentence[] = "The cat sat on the mat";

// What is measured of either model.
struct Seen {
  std::vector<double> text;            // loss, one a window
  double repeated = 0, ambiguous = 0;  // shares of right answers
  double worst = 0;                    // rise of the loss without one head
  Profile profile;
};

Seen Look(Context& context, const TrainedReader& reader) {
  Seen seen;
  const Model& model = reader.model();
  seen.text = SequenceLosses(context, model, reader.Text());
  seen.repeated = ShareRight(
      context, model, reader.Repeats(RepeatTask::kOneToken, kTwinRepeats));
  seen.ambiguous = ShareRight(
      context, model, reader.Repeats(RepeatTask::kTwoTokens, kTwinRepeats));
  seen.profile = reader.MakeProfile(context);
  RankOptions options;
  options.replicates = 100;
  const Ranking ranking =
      RankHeads(context, model, ExamplesOf(reader.windows()), options);
  for (const Interval& head : ranking.criteria[0].heads) {
    seen.worst = std::max(seen.worst, head.value);
  }
  return seen;
}

size_t MostInOneLayer(const Profile& profile, int64_t layers) {
  size_t most = 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    most = std::max(most, RoleNames(profile, layer).size());
  }
  return most;
}

std::string RolesOf(const Profile& profile, int64_t layer) {
  const std::set<std::string> names = RoleNames(profile, layer);
  return names.empty() ? "–" : fmt::format("{}", fmt::join(names, ", "));
}

StudyTable RoleTable(const Seen& one, const Seen& many, int64_t layers) {
  StudyTable table{"The shipped models: roles that a layer has at once",
                   {"layer", "one head", "several heads"},
                   {}};
  for (int64_t layer = 0; layer < layers; ++layer) {
    table.rows.push_back({std::to_string(layer), RolesOf(one.profile, layer),
                          RolesOf(many.profile, layer)});
  }
  return table;
}

StudyTable TwinLosses(const Seen& one, const Seen& many) {
  const auto share = [](double value) { return fmt::format("{:.3f}", value); };
  return {
      "The shipped models: what they can do",
      {"", "one head", "several heads"},
      {{"loss on the text, nats a token", share(MeanOf(one.text)),
        share(MeanOf(many.text))},
       {"random tokens repeated: right", share(one.repeated),
        share(many.repeated)},
       {"the same, told apart by two tokens", share(one.ambiguous),
        share(many.ambiguous)},
       {"worst loss of one head, nats", share(one.worst), share(many.worst)}}};
}

// Where the heads look from the last word: one head, then the several.
HeatMap LastWord(Context& context, const StudyRequest& request) {
  const Comparison comparison = CompareTrained(
      context, kSentence, {.models = {request.twin, request.model}});
  HeatMap map{fmt::format("The shipped models, layer {}: from the last word of "
                          "\"{}\"",
                          comparison.sets.back().layer, kSentence),
              {},
              comparison.sets.back().tokens,
              {}};
  for (const ComparedHeads& set : comparison.sets) {
    for (size_t h = 0; h < set.maps.size(); ++h) {
      map.rows.push_back(set.heads == 1 ? "one head"
                                        : fmt::format("head {}", h));
      const Matrix& weights = set.maps[h].weights;
      map.values.insert(map.values.end(),
                        weights.values.end() - weights.columns,
                        weights.values.end());
    }
  }
  return map;
}

// The held-out losses that the manifest beside a model tells; none without it.
Series CurveOf(const std::filesystem::path& model, std::string name) {
  Series series{std::move(name), {}, {}};
  const std::filesystem::path manifest = model / "training.json";
  if (!std::filesystem::exists(manifest)) return series;
  const Json training = ReadJson(manifest);
  for (const Json& point : training.value("validation", Json::array())) {
    series.x.push_back(point.at(0).get<double>());
    series.y.push_back(point.at(1).get<double>());
  }
  return series;
}

void Tell(const Seen& one, const Seen& many, const LayerDifference& difference,
          int64_t layers, StudyResult& result) {
  const auto count = [](size_t a, size_t b) {
    return static_cast<double>(a) - static_cast<double>(b);
  };
  result.AtLeast("shipped: mean divergence of heads of a layer, nats",
                 difference.jsd, 0.05);
  result.AtMost("shipped: overlap of what heads of a layer read",
                difference.read, 0.5);
  result.Report("shipped: overlap of what they write", difference.write);
  result.AtLeast(
      "shipped: different roles, many heads − one",
      count(RoleNames(many.profile).size(), RoleNames(one.profile).size()), 1);
  result.AtLeast("shipped: most roles in one layer, many heads − one",
                 count(MostInOneLayer(many.profile, layers),
                       MostInOneLayer(one.profile, layers)),
                 1);
  const Interval gain = PairedDifference(one.text, many.text);
  result.AtLeast("shipped: loss of one head − loss of many, nats", gain.value,
                 0);
  result.OverSequences(gain);
  result.Report("shipped: repeats told right, many heads − one",
                many.repeated - one.repeated);
  result.Report("shipped: told apart by two tokens, many heads − one",
                many.ambiguous - one.ambiguous);
  result.Report("shipped: loss of the worst head, many heads − one, nats",
                many.worst - one.worst);
}

}  // namespace

void TellShippedTwins(Context& context, const StudyRequest& request,
                      StudyResult& result) {
  if (request.model.empty() || request.twin.empty()) {
    result.remark +=
        " The shipped models are not here: what follows from "
        "them is left out.";
    return;
  }
  const TrainedReader many(request.model, request.reading);
  const TrainedReader one(request.twin, request.reading);
  const Seen of_many = Look(context, many), of_one = Look(context, one);
  Tell(of_one, of_many,
       DifferenceInLayers(context, many.model(), many.windows()), many.layers(),
       result);
  result.tables.push_back(TwinLosses(of_one, of_many));
  result.tables.push_back(RoleTable(of_one, of_many, many.layers()));
  const Series curves[] = {CurveOf(request.twin, "one head"),
                           CurveOf(request.model, "several heads")};
  if (!curves[0].x.empty() && !curves[1].x.empty()) {
    result.pictures.push_back(
        LinePlot{"The shipped models: held-out loss while training",
                 "step",
                 "nats a token",
                 false,
                 false,
                 {curves[0], curves[1]}});
  }
  result.pictures.push_back(LastWord(context, request));
}

}  // namespace headwise
