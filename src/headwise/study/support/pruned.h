// Small trained models that lose heads: the model without them, in memory, and
// how much of a curve of losses stays within a limit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/heads/pruning/curve.h"
#include "headwise/study/support/tiny_model.h"

namespace headwise {

// The same weights less those of the removed heads; `config` is what `whole`
// was made of. A model that only runs, or one to train further as `how` says.
std::unique_ptr<Model> ModelWithout(const Context& context,
                                    const TinyModel& whole, const Json& config,
                                    std::span<const HeadRef> removed);
std::unique_ptr<TinyModel> TrainableWithout(Context& context,
                                            const TinyModel& whole,
                                            const Json& config,
                                            std::span<const HeadRef> removed,
                                            TrainConfig how);

// One point of a curve: a share of the heads is gone, and the loss.
struct SharePoint {
  double removed = 0;
  double loss = 0;
};

// The share up to which the loss, drawn as straight lines between the points,
// stays at or below `most`: where it first crosses. The first point is of
// nothing removed; 0 where even that is above.
double ShareWithin(std::vector<SharePoint> points, double most);

// Mean loss of heads that are closed, by set.
std::vector<double> LossesClosed(const JudgedText& text,
                                 std::span<const HeadSet> sets);

}  // namespace headwise
