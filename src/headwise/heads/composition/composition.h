// Which heads feed which: how much of what a sender writes a later head's
// queries, keys or values read (from the weights alone), and how much the
// receiver's input changes when the sender is taken away (on a text).
//
//   score  ‖W_OV¹ W‖ / (‖W_OV¹‖ ‖W‖) with W = W_QK for queries, W_QKᵀ for
//          keys, W_OV for values (Elhage et al. 2021); Frobenius norms
//
// W is what the layer reads through its norm: the norm's weights, and its
// centring, are part of it where norms stand before the layers. With rotary
// positions W_QK is the one at equal positions; biases are left out. Where
// queries and keys are normed head by head, W_QK holds the norms' gains but not
// their division by the root mean square (head_weights.h).
#pragma once

#include <span>
#include <string>

#include "headwise/base/json.h"
#include "headwise/compose.h"
#include "headwise/context.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/windows.h"

namespace headwise {

Composition MeasureComposition(Context& context, const Model& model,
                               const CompositionJob& job = {});

// Fills the edges' effects. The sender's output is replaced by its mean over
// the window. Throws Error(kUnsupported) for encoder–decoders.
void MeasureEffects(Context& context, const Model& model,
                    std::span<const TokenWindow> windows,
                    const CompositionJob& job, Composition& composition);

// Highest effect first instead.
void SortByEffect(Composition& composition);

// "headwise.composition/1" with the first `top` edges, above chance or not;
// 0: all.
Json ToJson(const Composition& composition, size_t top = 0);

// Shown(top) edges as a graph for Graphviz, layers from left to right.
std::string ToDot(const Composition& composition, size_t top);

}  // namespace headwise
