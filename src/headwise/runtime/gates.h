// Switching heads off for a run.
#pragma once

#include <span>

#include "headwise/model/head_ref.h"
#include "headwise/nn/gated_sites.h"

namespace headwise {

// Hooks that close the given heads: their output is 0, as if their rows of
// W_O were.
class ClosedHeads : public GatedSites {
 public:
  ClosedHeads(const Model& model, std::span<const HeadRef> closed) {
    for (const HeadRef& head : closed) {
      const AttentionLayer& layer =
          *AttentionLayers(model, head.kind)[head.layer];
      Open(layer.site().name, layer.config().heads)[head.head] = 0;
    }
  }
};

}  // namespace headwise
