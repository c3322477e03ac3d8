// Small models that lose heads. Door: pruned.h.
#include "headwise/study/support/pruned.h"

#include <algorithm>
#include <utility>

#include "headwise/heads/pruning/remove.h"
#include "headwise/model/family.h"

namespace headwise {
namespace {

struct Left {
  std::shared_ptr<ParameterStore> store;
  std::unique_ptr<Model> model;
};

// The same weights less those of the removed heads. A store has its tensors
// once a model was built of it.
Left Without(const Context& context, const TinyModel& whole, const Json& config,
             std::span<const HeadRef> removed) {
  const ModelConfig smaller =
      ReadConfig(ConfigWithout(config, whole.model(), removed), "study");
  Left left;
  left.store = NewParameters(context, smaller, whole.how());
  left.model = BuildModel(smaller, left.store);
  const ChangedTensors changed = RemoveHeads(whole.model(), removed);
  for (auto& [name, entry] : left.store->entries()) {
    const auto found = changed.find(name);
    const ConstTensorView from = found != changed.end()
                                     ? found->second.view()
                                     : whole.store().entries().at(name).value;
    std::copy_n(from.As<float>(), entry.value.size(), entry.value.As<float>());
  }
  return left;
}

}  // namespace

std::unique_ptr<Model> ModelWithout(const Context& context,
                                    const TinyModel& whole, const Json& config,
                                    std::span<const HeadRef> removed) {
  return Without(context, whole, config, removed).model;
}

std::unique_ptr<TinyModel> TrainableWithout(Context& context,
                                            const TinyModel& whole,
                                            const Json& config,
                                            std::span<const HeadRef> removed,
                                            TrainConfig how) {
  Left left = Without(context, whole, config, removed);
  return std::make_unique<TinyModel>(context, std::move(left.store),
                                     std::move(left.model), std::move(how));
}

double ShareWithin(std::vector<SharePoint> points, double most) {
  std::stable_sort(points.begin(), points.end(),
                   [](const SharePoint& a, const SharePoint& b) {
                     return a.removed < b.removed;
                   });
  double within = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const SharePoint& now = points[i];
    if (now.loss <= most) {
      within = now.removed;
      continue;
    }
    if (i == 0) return 0;
    const SharePoint& before = points[i - 1];
    return before.removed + (now.removed - before.removed) *
                                (most - before.loss) / (now.loss - before.loss);
  }
  return within;
}

std::vector<double> LossesClosed(const JudgedText& text,
                                 std::span<const HeadSet> sets) {
  std::vector<double> losses;
  for (const std::vector<double>& row : text.Closed(sets, nullptr)) {
    losses.push_back(text.Mean(row));
  }
  return losses;
}

}  // namespace headwise
