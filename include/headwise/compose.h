// Which heads feed which.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"
#include "headwise/head_ref.h"
#include "headwise/progress.h"

namespace headwise {

struct TextInput;   // text_input.h
class Transformer;  // model.h

/// The input of the receiver that is fed.
enum class HeadInput : uint8_t { kQuery, kKey, kValue };

inline constexpr HeadInput kHeadInputs[] = {HeadInput::kQuery, HeadInput::kKey,
                                            HeadInput::kValue};

/// "q", "k", "v"
HEADWISE_API const char* Name(HeadInput input);

struct HeadEdge {
  size_t sender = 0;  ///< indices into Composition::heads
  size_t receiver = 0;
  HeadInput input = HeadInput::kQuery;
  double score = 0;
  /// Relative change of the receiver's queries, keys or values without the
  /// sender, √(Σ‖Δ‖² / Σ‖·‖²) over tokens; NaN where not measured.
  double effect = 0;
};

/// An edge as a list shows it, and whom it feeds: one head, or all that share
/// what is fed.
struct EdgeRow {
  HeadEdge edge = {};  ///< the strongest of them
  std::vector<size_t> receivers = {};
};

struct Composition {
  std::vector<HeadRef> heads = {};
  /// The score of a sender turned at random: 1/√width exactly, in the mean of
  /// squares, whatever the matrices.
  double baseline = 0;
  bool rotary = false;
  bool query_norms = false;  ///< queries and keys are normed head by head
  /// For each head, the first head that shares its keys and values.
  std::vector<size_t> key_group = {};
  /// Every pair that can feed and has weights; highest score first. A head that
  /// writes or reads nothing has no edges.
  std::vector<HeadEdge> edges = {};
  int64_t effect_tokens = 0;  ///< 0: effects were not measured
  const char* ablation = "";  ///< how the sender was taken away

  bool by_effect = false;  ///< edges are in the order of effects

  double Over(const HeadEdge& edge) const { return edge.score - baseline; }
  /// How many edges to list or draw: the first `top`, but none that chance
  /// gives just as well.
  HEADWISE_API size_t Shown(size_t top) const;
  /// The first `top` rows to list: edges that Shown would give, those into
  /// shared keys or values as one.
  HEADWISE_API std::vector<EdgeRow> Rows(size_t top) const;
  /// The heads that share this one's keys and values, itself among them.
  HEADWISE_API std::vector<size_t> Sharing(size_t head) const;
};

enum class EdgeOrder : uint8_t {
  kWeights,
  kEffect,  ///< needs a text
};
constexpr std::array<const char*, 2> FieldWords(EdgeOrder) {
  return {"weights", "effect"};
}

struct CompositionJob {
  EdgeOrder by = EdgeOrder::kWeights;
  OnProgress on_progress = {};
  std::stop_token stop = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("by", self.by, "order of edges");
  }
};

/// Which heads feed which, from the weights alone; with a text also how much
/// the receiver's input changes without the sender.
HEADWISE_API Composition ComposeHeads(Transformer& model,
                                      const CompositionJob& job = {});

HEADWISE_API Composition ComposeHeads(Transformer& model, const TextInput& text,
                                      const CompositionJob& job = {});

/// With the first `top` edges, above chance or not; 0: all.
HEADWISE_API std::string JsonText(const Composition& composition,
                                  size_t top = 0);

/// The first `top` edges as an SVG document.
HEADWISE_API std::string DrawComposition(const Composition& composition,
                                         size_t top, std::string_view title);

/// The graph as Graphviz reads it, layers from left to right.
HEADWISE_API std::string DotText(const Composition& composition, size_t top);

}  // namespace headwise
