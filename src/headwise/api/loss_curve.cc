// Drawing losses. Door: training_charts.h.
#include "headwise/api/training_charts.h"

#include <algorithm>

#include "headwise/base/atomic_file.h"
#include "headwise/drawing/pictures.h"

namespace headwise {

void WriteLossCurve(const std::filesystem::path& file,
                    const TrainingRecord& record) {
  Series training{"training", {}, {}}, validation{"validation", {}, {}};
  const size_t stretch = std::max<size_t>(1, record.losses.size() / 200);
  for (size_t i = 0; i + stretch <= record.losses.size(); i += stretch) {
    double sum = 0;
    for (size_t j = i; j < i + stretch; ++j) sum += record.losses[j];
    training.x.push_back(static_cast<double>(i + stretch));
    training.y.push_back(sum / static_cast<double>(stretch));
  }
  for (const auto& [step, loss] : record.validation) {
    validation.x.push_back(static_cast<double>(step));
    validation.y.push_back(loss);
  }
  LinePlot plot;
  plot.title = "Loss during training";
  plot.x_label = "step";
  plot.y_label = "nats a token";
  plot.series = {training};
  if (!validation.x.empty()) plot.series.push_back(validation);
  WriteFileAtomically(
      file,
      PlotSvg(plot, "Mean loss by optimizer step, training and held out"));
}

}  // namespace headwise
