// A dense twin: the heads that a model lost are back, of zeros, so that every
// layer has the shape that it had. It answers as the pruned model does, and
// whatever reads the original reads it.
#pragma once

#include "headwise/base/json.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/model/model.h"
#include "headwise/model/weights.h"

namespace headwise {

// Where zeros stand does not matter, but for the groups of keys: heads that
// are left stay in their order, in front.
//
// `weights` are those of the model. Throws Error(kUnsupported) where a layer
// has more heads, or more of them a group, than `config` (config.json, which
// keeps the original counts) says.
ChangedTensors SpreadHeads(const Model& model, const WeightSource& weights,
                           const Json& config);

// config.json without the counts that pruning wrote.
Json ConfigOfTwin(Json config);

}  // namespace headwise
