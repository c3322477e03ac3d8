// What linear probes tell after each layer. Door: layers.h.
#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/study/layers.h"
#include "headwise/study/support/novels.h"
#include "headwise/study/support/probes.h"
#include "headwise/study/support/trained.h"

namespace headwise {
namespace layer_probes {
namespace {

// Follows a text and says whether it is inside a quotation, once it knows.
class Quotations {
 public:
  // State after the piece; kNoLabel before the first paragraph's end.
  int32_t Read(const std::string& piece) {
    constexpr std::string_view kOpen = "\u201c", kClose = "\u201d";
    for (size_t i = 0; i < piece.size(); ++i) {
      const std::string_view rest = std::string_view(piece).substr(i);
      if (rest[0] == '\n' && last_ == '\n') {
        known_ = true;
        inside_ = false;
      }
      if (rest[0] == '"') inside_ = !inside_;
      if (rest.starts_with(kOpen)) inside_ = true;
      if (rest.starts_with(kClose)) inside_ = false;
      if (rest[0] != '\r') last_ = rest[0];
    }
    return known_ ? (inside_ ? 1 : 0) : kNoLabel;
  }

 private:
  bool known_ = false, inside_ = false;
  char last_ = ' ';
};

// Whether the subject of a story's sentence is plural, from it to the stop.
class Subjects {
 public:
  int32_t Read(int32_t token) {
    const bool noun =
        token > 3 && !IsStoryAdjective(token) && !IsStoryVerb(token);
    if (noun && label_ == kNoLabel) label_ = IsStoryPlural(token) ? 1 : 0;
    if (StoryWord(token) == ".") label_ = kNoLabel;
    return label_;
  }

 private:
  int32_t label_ = kNoLabel;
};

std::vector<int32_t> FarLabels(const Language& language,
                               const TrainBatch& batch) {
  std::vector<int32_t> labels;
  const auto& starts = batch.batch.starts;
  for (size_t b = 0; b + 1 < starts.size(); ++b) {
    Quotations quotations;
    Subjects subjects;
    for (int64_t t = starts[b]; t < starts[b + 1]; ++t) {
      const int32_t id = batch.ids[t];
      labels.push_back(language.stories() ? subjects.Read(id)
                                          : quotations.Read(language.Word(id)));
    }
  }
  return labels;
}

enum Label : size_t { kBefore, kFar, kNext, kLabelCount };
constexpr const char* kLabelNames[kLabelCount] = {"previous token",
                                                  "longer link", "next token"};
// Share right over new weights that a probe must reach to mean something.
constexpr double kLeastGain[kLabelCount] = {0.05, 0.02, 0.05};

// value(scores of one seed) for every seed.
template <typename Value>
SeedMean Over(const std::vector<std::vector<ProbeScores>>& seeds,
              const Value& value, const Bounds& bounds = {}) {
  std::vector<double> values;
  for (const auto& scores : seeds) {
    values.push_back(static_cast<double>(value(scores)));
  }
  return OverSeeds(values, bounds);
}

}  // namespace
}  // namespace layer_probes

LayerProbes::LayerProbes(const Language& language)
    : train_(language.HeldOut().Make(0, kWindows)),
      test_(language.HeldOut().Make(kWindows, kWindows)) {
  using namespace layer_probes;  // NOLINT(google-build-using-namespace)
  labels_.push_back(
      NeighbourLabels(kLabelNames[kBefore], train_, test_, -1, kClasses));
  labels_.push_back({.name = kLabelNames[kFar],
                     .classes = 2,
                     .train = FarLabels(language, train_),
                     .test = FarLabels(language, test_)});
  labels_.push_back(
      NeighbourLabels(kLabelNames[kNext], train_, test_, 1, kClasses));
}

std::vector<ProbeScores> LayerProbes::Read(Context& context,
                                           const Model& model) const {
  return ProbeLayers(context, model, train_, test_, labels_);
}

void JudgeLayerProbes(const LayerScores& found, StudyResult& result) {
  using namespace layer_probes;  // NOLINT(google-build-using-namespace)
  using Scores = std::vector<ProbeScores>;
  const auto later = [&](Label label) {
    return Over(found.trained, [&](const Scores& scores) {
      return scores[label].DepthOfGain() - scores[kBefore].DepthOfGain();
    });
  };
  result.AtLeast("depth of the next token − of the previous, layers",
                 later(kNext), 1);
  result.AtLeast("depth of the longer link − of the previous token, layers",
                 later(kFar), 0);
  result.AtLeast(
      "depth of the next token, share of the layers",
      Over(
          found.trained,
          [](const Scores& scores) {
            return static_cast<double>(scores[kNext].DepthOfGain()) /
                   static_cast<double>(scores[kNext].right.size() - 1);
          },
          kShare),
      2.0 / 3);
  for (size_t label = 0; label < kLabelCount; ++label) {
    std::vector<double> trained, fresh;
    for (size_t s = 0; s < found.trained.size(); ++s) {
      trained.push_back(found.trained[s][label].best());
      fresh.push_back(found.fresh[s][label].best());
    }
    result.AtLeast(fmt::format("{} told right at best: trained − new weights",
                               kLabelNames[label]),
                   DifferenceOverSeeds(trained, fresh, kShareDifference),
                   kLeastGain[label]);
    result.Report(fmt::format("{} told right at best", kLabelNames[label]),
                  OverSeeds(trained, kShare));
    result.Between(found.trained[0][label].chance, 1);
  }
}

void ShowLayerProbes(const LayerScores& found, StudyResult& result) {
  using namespace layer_probes;  // NOLINT(google-build-using-namespace)
  LinePlot plot{"What linear probes tell after so many layers",
                "layers",
                "share right",
                false,
                false,
                {}};
  StudyTable table{
      "Shares that linear probes tell right, by layers read", {"layers"}, {}};
  for (const bool fresh : {false, true}) {
    const auto& seeds = fresh ? found.fresh : found.trained;
    for (size_t label = 0; label < kLabelCount; ++label) {
      Series series{
          fmt::format("{}{}", kLabelNames[label], fresh ? ", new weights" : ""),
          {},
          {}};
      for (size_t depth = 0; depth < seeds[0][label].right.size(); ++depth) {
        series.x.push_back(static_cast<double>(depth));
        series.y.push_back(
            Over(seeds, [&](const std::vector<ProbeScores>& scores) {
              return scores[label].right[depth];
            }).value);
      }
      table.columns.push_back(series.name);
      plot.series.push_back(std::move(series));
    }
  }
  for (size_t depth = 0; depth < plot.series[0].x.size(); ++depth) {
    std::vector<std::string> row = {std::to_string(depth)};
    for (const Series& series : plot.series) {
      row.push_back(fmt::format("{:.3f}", series.y[depth]));
    }
    table.rows.push_back(std::move(row));
  }
  result.tables.push_back(std::move(table));
  result.pictures.push_back(std::move(plot));
}

}  // namespace headwise
