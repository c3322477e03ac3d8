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

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/base/progress.h"
#include "headwise/context.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/windows.h"

namespace headwise {

// What of the receiver is fed.
enum class HeadInput : uint8_t { kQuery, kKey, kValue };
inline constexpr HeadInput kHeadInputs[] = {HeadInput::kQuery, HeadInput::kKey,
                                            HeadInput::kValue};
// "q", "k", "v"
const char* Name(HeadInput input);

struct HeadEdge {
  size_t sender = 0;  // indices into Composition::heads
  size_t receiver = 0;
  HeadInput input = HeadInput::kQuery;
  double score = 0;
  // Relative change of the receiver's queries, keys or values without the
  // sender, √(Σ‖Δ‖² / Σ‖·‖²) over tokens; NaN where not measured.
  double effect = 0;
};

struct Composition {
  std::vector<HeadRef> heads;
  // The score of a sender turned at random: 1/√width exactly, in the mean of
  // squares, whatever the matrices.
  double baseline = 0;
  bool rotary = false;
  bool query_norms = false;  // queries and keys are normed head by head
  // Of each head, the first of those that share its keys and values.
  std::vector<size_t> key_group;
  // Every pair that can feed and has weights; highest score first. A head that
  // writes or reads nothing has no edges.
  std::vector<HeadEdge> edges;
  int64_t effect_tokens = 0;  // 0: effects were not measured
  const char* ablation = "";  // how the sender was taken away

  bool by_effect = false;  // edges are in the order of effects

  double Over(const HeadEdge& edge) const { return edge.score - baseline; }
  // How many edges to list or draw: the first `top`, but none that chance
  // gives just as well.
  size_t Shown(size_t top) const;
  // The heads that share this one's keys and values, itself among them.
  std::vector<size_t> Sharing(size_t head) const;
};

// An edge, and whom it feeds: one head, or all that share what is fed.
struct EdgeRow {
  HeadEdge edge;  // the strongest of them
  std::vector<size_t> receivers;
};

// The first `top` rows to list: edges that Shown would give, those into shared
// keys or values as one.
std::vector<EdgeRow> Rows(const Composition& composition, size_t top);

struct CompositionOptions {
  ProgressCallback progress = {};
  std::stop_token stop = {};
};

Composition MeasureComposition(Context& context, const Model& model,
                               const CompositionOptions& options = {});

// Fills the edges' effects. The sender's output is replaced by its mean over
// the window. Throws Error(kUnsupported) for encoder–decoders.
void MeasureEffects(Context& context, const Model& model,
                    std::span<const TokenWindow> windows,
                    const CompositionOptions& options,
                    Composition& composition);

// Highest effect first instead.
void SortByEffect(Composition& composition);

// "headwise.composition/1" with the first `top` edges, above chance or not;
// 0: all.
Json ToJson(const Composition& composition, size_t top = 0);

// Shown(top) edges as a graph for Graphviz, layers from left to right.
std::string ToDot(const Composition& composition, size_t top);

}  // namespace headwise
