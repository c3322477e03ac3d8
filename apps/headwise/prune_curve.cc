// Door: prune_curve.h.
#include "prune_curve.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "console.h"
#include "evaluate_text.h"
#include "headwise/base/atomic_file.h"
#include "headwise/drawing/pictures.h"
#include "headwise/drawing/terminal.h"
#include "headwise/heads/importance/interval_json.h"
#include "model_name.h"

namespace headwise {
namespace {

// The random orders at one place: they share their numbers of heads unless
// groups differ in size.
struct Band {
  double low = 0, mean = 0, high = 0;
};
Band BandAt(const PruningCurve& curve, size_t point) {
  Band band;
  double count = 0;
  for (size_t order = 2; order < curve.orders.size(); ++order) {
    const auto& points = curve.orders[order].points;
    if (point >= points.size()) continue;
    const double loss = points[point].loss;
    band.low = count == 0 ? loss : std::min(band.low, loss);
    band.high = count == 0 ? loss : std::max(band.high, loss);
    band.mean += loss;
    ++count;
  }
  band.mean /= count;
  return band;
}

LinePlot PlotOf(const PruningCurve& curve, const std::string& loss) {
  LinePlot plot;
  plot.title =
      "Loss on held-out parts of " + curve.domain + " against heads removed";
  plot.x_label = "share of the heads removed";
  plot.y_label = loss;
  const auto share = [&](int64_t removed) {
    return static_cast<double>(removed) / static_cast<double>(curve.heads);
  };
  for (size_t order = 0; order < 2; ++order) {
    Series series{curve.orders[order].name, {}, {}};
    for (const CurvePoint& point : curve.orders[order].points) {
      series.x.push_back(share(point.removed));
      series.y.push_back(point.loss);
    }
    plot.series.push_back(std::move(series));
  }
  Series low{"random, lowest", {}, {}}, mean{"random, mean", {}, {}},
      high{"random, highest", {}, {}};
  const auto& points = curve.orders[2].points;
  for (size_t i = 0; i < points.size(); ++i) {
    const Band band = BandAt(curve, i);
    for (auto [series, value] :
         {std::pair(&low, band.low), std::pair(&mean, band.mean),
          std::pair(&high, band.high)}) {
      series->x.push_back(share(points[i].removed));
      series->y.push_back(value);
    }
  }
  for (Series* series : {&mean, &low, &high}) {
    plot.series.push_back(std::move(*series));
  }
  return plot;
}

Json ToJson(const PruningCurve& curve) {
  Json orders = Json::array();
  for (const CurveOrder& order : curve.orders) {
    Json points = Json::array();
    for (const CurvePoint& point : order.points) {
      points.push_back({{"removed", point.removed}, {"loss", point.loss}});
    }
    orders.push_back({{"order", order.name},
                      {"area", order.area},
                      {"points", std::move(points)}});
  }
  return {{"domain", curve.domain},
          {"heads", curve.heads},
          {"orders", std::move(orders)},
          {"random_area", ToJson(curve.random_area)},
          {"importance_less_random", ToJson(curve.gain)}};
}

StudyTable TableOf(const PruningCurve& curve, const Json& speeds) {
  StudyTable table;
  table.title = "Loss on held-out parts of " + Visible(curve.domain) +
                ", whose other parts rank the heads, by heads removed";
  table.columns = {"heads removed", "importance", "random (range)", "reversed"};
  if (!speeds.empty()) table.columns.push_back("prefill");
  const auto& importance = curve.orders[0].points;
  const auto& reversed = curve.orders[1].points;
  for (size_t i = 0; i < importance.size(); ++i) {
    const Band band = BandAt(curve, i);
    std::vector<std::string> row = {
        fmt::format("{} of {}", importance[i].removed, curve.heads),
        fmt::format("{:.4f}", importance[i].loss),
        fmt::format("{:.4f} ({:.4f} … {:.4f})", band.mean, band.low, band.high),
        i < reversed.size() ? fmt::format("{:.4f}", reversed[i].loss) : ""};
    if (!speeds.empty()) {
      row.push_back(fmt::format("{:.2f}×", speeds[i]["ratio"].get<double>()));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The areas in words.
std::vector<std::string> Sentences(const PruningCurve& curve) {
  std::vector<std::string> sentences = {fmt::format(
      "Area under the curve: importance {:.4f}, random {}, reversed {:.4f}; "
      "importance less random {}.",
      curve.orders[0].area, ToText(curve.random_area), curve.orders[1].area,
      ToText(curve.gain, true))};
  if (curve.gain.value >= 0) {
    sentences.emplace_back(
        "Importance did not beat the mean random order here.");
  }
  return sentences;
}

LinePlot SpeedPlot(const PruningCurve& curve, const Json& speeds) {
  LinePlot plot;
  plot.title = "Speed of the prefill against heads removed";
  plot.x_label = "share of the heads removed";
  plot.y_label = "times as fast";
  Series series{"importance", {}, {}};
  for (const Json& point : speeds) {
    series.x.push_back(point["removed"].get<double>() /
                       static_cast<double>(curve.heads));
    series.y.push_back(point["ratio"].get<double>());
  }
  plot.series.push_back(std::move(series));
  return plot;
}

std::string PageOf(const PruneOptions& options, const PruningCurve& curve,
                   const LinePlot& losses, const Json& speeds) {
  FigurePageContent page;
  page.title = "Heads removed from " + ModelName(options.run.model);
  page.lead = fmt::format(
      "Heads leave by importance ({}), in the reverse of it, and in {} random "
      "orders; losses are of text that chose nothing.",
      Name(options.job.by), options.random_orders);
  page.pictures.emplace_back(losses);
  if (!speeds.empty()) page.pictures.emplace_back(SpeedPlot(curve, speeds));
  page.tables.push_back(TableOf(curve, speeds));
  page.notes = Sentences(curve);
  page.command = fmt::format("headwise prune {} --text … --by {} --curve FILE",
                             options.run.model, Name(options.job.by));
  return FigurePage(page);
}

// The order by importance.
Json SpeedsOf(const PruningCurve& curve) {
  Json speeds = Json::array();
  for (size_t i = 0; i < curve.speeds.size(); ++i) {
    const PairTiming& timing = curve.speeds[i];
    speeds.push_back({{"removed", curve.orders[0].points[i].removed},
                      {"what", timing.what},
                      {"before_ms", timing.before_ms},
                      {"after_ms", timing.after_ms},
                      {"ratio", timing.before_ms / timing.after_ms}});
  }
  return speeds;
}

}  // namespace

void WriteCurve(const PruneOptions& options, const Transformer& model,
                const PruningCurve& curve) {
  const std::string loss = fmt::format("{} loss", Name(curve.kind));
  Json json = {{"format", "headwise.prune-curve/1"},
               {"model", options.run.model},
               {"model_hash", model.hash()},
               {"criterion", Name(options.job.by)},
               {"removed_heads_give", Folds(options) ? "mean" : "zero"},
               {"loss_kind", Name(curve.kind)}};
  json.update(ToJson(curve));
  const Json speeds = SpeedsOf(curve);
  if (options.job.timing) json["speed"] = speeds;
  const LinePlot plot = PlotOf(curve, loss);
  WriteFileAtomically(options.curve + ".json", json.dump(2) + "\n");
  WriteFileAtomically(
      options.curve + ".svg",
      PlotSvg(plot, "Heads leave by importance, in the reverse of it, and in " +
                        std::to_string(options.random_orders) +
                        " random orders, of which the mean and the range are "
                        "drawn"));
  WriteFileAtomically(options.curve + ".html",
                      PageOf(options, curve, plot, speeds));
  if (options.run.json) {
    if (options.out.empty()) WriteJson(json.dump(2));
    return;
  }
  const StudyTable table = TableOf(curve, speeds);
  WriteStdout("{}:\n\n", table.title);
  WriteDrawn("{}\n", DrawTable(table, StdoutConsole()));
  for (const std::string& sentence : Sentences(curve)) {
    WriteStdout("{}\n", sentence);
  }
  WriteStdout("Written to {0}.json, {0}.svg and {0}.html.\n", options.curve);
}

}  // namespace headwise
