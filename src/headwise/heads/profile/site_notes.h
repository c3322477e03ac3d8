// A batch as one kind of attention sees it: which rows count, what each row
// could have looked at, and the operator's inputs (features, labels, excluded
// keys). Made once a batch and shared by all layers with the same mask.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/head_ref.h"
#include "headwise/heads/profile/notes.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/rows/head_rows.h"
#include "headwise/observation.h"

namespace headwise {

// A sequence of a batch: notes on both sides; `target` is empty but for
// encoder–decoders.
struct SequenceNotes {
  TokenNotes source;
  TokenNotes target;
  uint64_t key = 0;
};

struct SiteNotes {
  struct Sequence {
    int64_t query_begin = 0, queries = 0;  // rows of the batch
    int64_t key_begin = 0, keys = 0;
    const TokenNotes* query_notes = nullptr;
    const TokenNotes* key_notes = nullptr;
    uint64_t key = 0;
    int64_t counted = 0;  // rows that count
    // The one of them with the smallest hash, which is the same for every head;
    // −1: none counts.
    int64_t sample = -1;
    uint64_t sample_hash = 0;
  };
  using Row = RowNotes;

  AttentionMask mask;
  bool cross = false;
  bool causal = false;
  std::vector<Sequence> sequences;
  std::vector<Row> rows;  // one a query of the batch

  // For the operator, on the host until MoveTo; T queries and S keys of the
  // batch.
  Tensor features;      // f32 [1, S, kKeyFeatures]
  Tensor query_labels;  // i32 [L, 1, T]; none (size 0) where pairs serve
  Tensor key_labels;    // i32 [L, 1, S]
  Tensor excluded;      // u8 [1, S]: the first and special keys
  Tensor weights;       // f32 [1, T]: 1 for rows that count
  // i32 [S]: how many rows that count see a key; 0 where they are too few for
  // it to be a sink of one head.
  Tensor seen;
  // Whether a row sees more special keys than features tell apart, the end one
  // of them.
  bool has_unclear_ends = false;

  // Listed pairs: keys of row pair_rows[r] are pair_keys[pair_offsets[r] …];
  // the first `pair_split[r]` of them are duplicates, the others follow one.
  // In cross-attention all are keys near the diagonal.
  std::vector<RowRef> pair_rows;
  std::vector<int64_t> pair_offsets;
  std::vector<int32_t> pair_split;
  std::vector<int32_t> pair_keys;

  // The operator's inputs to the context's device.
  void MoveTo(Context& context);

  // Whether key j of a sequence is among the sinks that every head has.
  static bool IsSink(const Sequence& sequence, int64_t j) {
    return j == 0 || sequence.key_notes->special[j] != 0;
  }
};

// Of a row of a window with this key (SequenceNotes::key).
uint64_t RowHash(uint64_t window, int64_t row);

enum class SiteSide : uint8_t { kSource, kTarget, kCross };
SiteSide SideOf(AttentionKind kind);

// Notes on windows, by the context's threads. `counts` may be null.
std::vector<SequenceNotes> AnnotateAll(Context& context,
                                       std::span<const TokenWindow> windows,
                                       const TokenTable& table,
                                       const TokenCounts* counts);

// Rows count that are neither special nor first (in cross-attention: not
// special) and see at least min_visible keys. Made by the context's threads, on
// the host.
SiteNotes MakeSiteNotes(Context& context,
                        std::span<const SequenceNotes> sequences, SiteSide side,
                        const AttentionMask& mask, int64_t min_visible);

}  // namespace headwise
