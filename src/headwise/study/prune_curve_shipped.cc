// The curve of a model from disk. Door: prune_curve.h.
#include <fmt/core.h>

#include <string>
#include <vector>

#include "headwise/heads/importance/examples.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/study/prune_curve.h"
#include "headwise/study/support/pruned.h"
#include "headwise/study/support/shipped.h"

namespace headwise {
namespace {

// Windows of a quick study; a full one reads all that a reader takes.
constexpr size_t kQuickWindows = 12;

}  // namespace

void TellShippedCurve(Context& context, const StudyRequest& request,
                      StudyResult& result) {
  if (request.model.empty()) {
    result.remark += " The shipped model is not here.";
    return;
  }
  const TrainedReader reader(request.model, request.reading);
  std::vector<TextExample> examples = ExamplesOf(reader.windows());
  if (!request.full && examples.size() > kQuickWindows) {
    examples.resize(kQuickWindows);
  }
  const size_t judged = std::max<size_t>(1, examples.size() / 3);
  const std::span<const TextExample> all = examples;
  RankOptions rank;
  rank.job.by = {Criterion::kAblationZero};
  rank.replicates = 50;
  std::vector<double> scores;
  const Ranking ranking =
      RankHeads(context, reader.model(), all.first(all.size() - judged), rank);
  for (const Interval& head : ranking.criteria[0].heads) {
    scores.push_back(head.value);
  }
  const JudgedText text(context, reader.model(), all.last(judged), {});
  CurveOptions options;
  options.choose.empty = EmptyLayers::kAllowed;
  const PruningCurve curve =
      MakeCurve(reader.model(), scores, text, nullptr, options);
  std::vector<SharePoint> points;
  LinePlot plot;
  plot.title = "The shipped model: loss by heads removed, nothing tuned";
  plot.x_label = "share of the heads removed";
  plot.y_label = "held-out loss, nats";
  for (size_t i = 0; i < 3; ++i) {
    const CurveOrder& order = curve.orders[i];
    Series series{order.name, {}, {}};
    for (const CurvePoint& point : order.points) {
      const double share =
          static_cast<double>(point.removed) / static_cast<double>(curve.heads);
      series.x.push_back(share);
      series.y.push_back(point.loss);
      if (i == 0) points.push_back({share, point.loss});
    }
    plot.series.push_back(std::move(series));
  }
  result.AtMost("shipped: mean loss over the curve: importance − random",
                SeedMean{curve.gain}, 0);
  const double whole = points.front().loss;
  result.Report(
      "shipped: share of heads that may go, one-shot",
      ShareWithin(points, whole + kUncounted * (points.back().loss - whole)));
  result.pictures.push_back(std::move(plot));
  result.remark += fmt::format(
      " The shipped model: {} heads, ranked on {} windows of text and judged "
      "on {}; its interval is over five random orders, not over seeds.",
      curve.heads, all.size() - judged, judged);
}

}  // namespace headwise
