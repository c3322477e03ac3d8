// Sums the metrics of the table (metrics.h) over the rows of each sequence, on
// the device that holds the rows: a profile copies back a few numbers a head.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/heads/profile/metrics.h"
#include "headwise/tensor.h"

namespace headwise {

// Columns of the key features that rows have their mass by.
enum KeyFeature : int {
  kFirstKey,
  kLastKey,
  kSeparatorKey,  // special, but not the first
  kPunctuationKey,
  kRareKey,
  kContentKey,  // neither first nor special
  kKeyFeatures,
};

// Channels of the labels. Under a causal mask equal labels at or before the
// query are what is wanted; elsewhere listed pairs are.
enum LabelChannel : int { kSameToken, kAfterSameToken, kLabelChannels };

// How many targets of a kind a row can see.
struct RowTargets {
  int32_t seen = 0;     // keys that are a target
  int32_t content = 0;  // of them, neither the first key nor special
};

// A row as it is known before any head looks at it.
struct RowNotes {
  int32_t low = 0, high = 0;  // keys [low, high) are seen
  float log_visible = 0;
  RowTargets separator, punctuation, rare, duplicate, induction;
  int32_t rarest = -1;  // key, where this row counts for it
  int32_t pairs = -1;   // its entry of the listed pairs
  bool counted = false;

  int32_t visible() const { return high - low; }
};

// So many special keys besides the first are told apart by their features: the
// end, and the rest of their sum.
inline constexpr int32_t kSeparatorsTold = 2;

// Rows that a sequence shows best; see HeadRowsArgs::best_rows.
enum BestRow : int { kBestKept, kBestInduction, kBestDuplicate, kBestRows };

// n, Σw, Σx, Σw², Σw·x, Σx² over sequences with a weight.
inline constexpr int kTallyNumbers = 6;
// Sinks of one head in one sequence, at most.
inline constexpr int kMostOwnSinks = 64;

struct HeadRowsProblem {
  bool cross = false;
  bool causal = false;
  int64_t before = 0, after = 0;  // of the band, at most kFarthestOffset
  // To what tallies and histogram_sums hold; else they are overwritten.
  bool adds = false;

  friend bool operator==(const HeadRowsProblem&,
                         const HeadRowsProblem&) = default;
};

// Results of a packed call: B sequences of T queries and S keys in all, H
// heads; and what is known of its tokens. Dense. Rows count that the notes
// count and whose entropy is finite.
struct HeadRowsArgs {
  ConstTensorView entropy = {};          // f32 [1, H, T]
  ConstTensorView max_probability = {};  // f32 [1, H, T]
  ConstTensorView argmax = {};           // i32 [1, H, T]
  ConstTensorView distance = {};         // f32 [1, H, T]
  ConstTensorView kept_max = {};         // f32 [1, H, T]
  ConstTensorView kept_argmax = {};      // i32 [1, H, T]; past own sinks
  ConstTensorView feature_mass = {};     // f32 [1, H, T, kKeyFeatures]
  ConstTensorView label_mass = {};  // f32 [1, H, T, kLabelChannels]; causal
  ConstTensorView band = {};  // f32 [1, H, T, before + after + 1]; no cross
  ConstTensorView below_end = {};  // f32 [1, H, T]; null: no row asks for it

  ConstTensorView query_starts = {};  // i32 [B + 1]
  ConstTensorView key_starts = {};    // i32 [B + 1]
  ConstTensorView notes = {};         // u8 [T, sizeof(RowNotes)]
  ConstTensorView special = {};       // u8 [S]
  ConstTensorView punctuation = {};   // u8 [S]
  ConstTensorView rare = {};          // u8 [S]
  ConstTensorView ids = {};           // i32 [S]

  // Listed pairs, P of R rows: RowNotes::pairs; null: none.
  ConstTensorView pair_offsets = {};  // i64 [R + 1]
  ConstTensorView pair_split = {};    // i32 [R]: so many are duplicates
  ConstTensorView pair_keys = {};     // i32 [P]
  ConstTensorView pair_mass = {};     // f32 [H, P]

  // Keys that are sinks of one head only, by sequence and then by head; null:
  // there are none. N sinks, at most kMostOwnSinks of a head and sequence.
  ConstTensorView sink_starts = {};  // i32 [B · H + 1]
  ConstTensorView sink_keys = {};    // i32 [N]
  ConstTensorView sink_at = {};      // i64 [N]: where its mass begins, one a
                                     // query of the sequence
  ConstTensorView sink_mass = {};    // f32 [M]

  ConstTensorView histogram = {};  // f64 [B, H, C]; may be null

  TensorView tallies = {};         // f64 [H, kHeadSlots, kTallyNumbers]
  TensorView histogram_sums = {};  // f64 [H, C], over sequences
  // The first of the rows with the largest share off the sinks, mass on tokens
  // after the same one, and on the same one; the latter two of causal calls,
  // among rows with such targets. −1: none above 0. May be null.
  TensorView best_rows = {};    // i32 [B, H, kBestRows]
  TensorView best_scores = {};  // f32 [B, H, kBestRows]
};

// In an order that does not depend on threads. Throws Error(kInvalidArgument)
// naming the view that does not fit.
void HeadRowTallies(Context& context, const HeadRowsProblem& problem,
                    const HeadRowsArgs& args);

}  // namespace headwise
