/// @file
/// Statistics of every head's distribution, all exact, none of them
/// through an N × N buffer. `Observation` rides along a forward call;
/// the functions below it are second passes over (q, k, LSE).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headwise/attention.h"

namespace headwise {

/// Signed log2 distance histogram: bucket kHistogramCenter holds p − j = 0,
/// center + b holds 2^(b−1) ≤ p − j < 2^b (keys before the query), center − b
/// the same distances after it; the outermost buckets hold all that is further.
inline constexpr int kHistogramCenter = 21;
inline constexpr int kHistogramBuckets = 2 * kHistogramCenter + 1;
HEADWISE_API int HistogramBucket(int64_t distance);

enum class Statistics : uint8_t {
  kNone,
  kCore,  ///< LSE, entropy, maximum and argmax, distance, missing mass
  kFull,  ///< and varentropy, Σp², histogram, maximum among kept keys
};

inline constexpr int kMaxLabelChannels = 4;

/// Per-query results, [B, H, M]; each view may be null. Rows that see nothing
/// get 0 (argmax −1); rows with a NaN or +∞ score get NaN (argmax undefined).
/// Keys are numbered within their sequence. All are of A as it is: where a sink
/// takes mass (args.sink_logits), entropy is −Σ A ln A over keys and varentropy
/// Σ A ln² A − entropy², the variance of a surprise that is 0 at the sink.
struct RowStatistics {
  TensorView entropy = {};          ///< f32, nats
  TensorView max_probability = {};  ///< f32
  TensorView argmax = {};           ///< i32, first of equal keys
  TensorView distance = {};         ///< f32, Σ A·|p − j|
  TensorView missing = {};          ///< f32, 1 − Σ A: what a sink took
  TensorView varentropy = {};       ///< f32, nats²
  TensorView sum_squares = {};      ///< f32, Σ A²
  TensorView kept_max = {};         ///< f32, maximum over keys not excluded
  TensorView kept_argmax = {};      ///< i32
  TensorView histogram = {};        ///< f32 [B, H, M, kHistogramBuckets]
  TensorView feature_mass = {};     ///< f32 [B, H, M, C]
  TensorView label_mass = {};       ///< f32 [B, H, M, L]
};

/// Sums over the counted rows of one sequence and head.
enum SumColumn : int {
  kSumCount,              ///< Σ w: rows that count
  kSumEntropy,            ///< Σ w · H
  kSumNormalizedEntropy,  ///< Σ w · H / ln(visible keys); rows that see 1 add 0
  kSumMaxProbability,
  kSumDistance,
  kSumArgmaxDistance,  ///< Σ w · |p − argmax|
  kSumVarentropy,
  kSumSquares,
  kSumKeptMax,
  kSumVisible,  ///< Σ w · visible keys
  kSumMissing,  ///< Σ w · (1 − Σ A): what a sink took
  /// Rows whose statistics are not finite, unweighted; they add nothing else.
  kSumNonFinite,
  kSumColumns,
};

/// Sums per head and sequence, in double, in an order that does not depend on
/// threads. Overwritten. Each view may be null. Columns of kFull are 0 under
/// kCore.
struct SummedStatistics {
  TensorView sums = {};          ///< f64 [B, H, kSumColumns]
  TensorView histogram = {};     ///< f64 [B, H, kHistogramBuckets]
  TensorView feature_mass = {};  ///< f64 [B, H, C]
  TensorView label_mass = {};    ///< f64 [B, H, L]
};

struct Observation {
  Statistics statistics = Statistics::kCore;

  /// Inputs.
  ConstTensorView key_features =
      {};  ///< [B, N, C] f32, finite: any real feature
  ConstTensorView query_labels = {};  ///< [L, B, M] i32, L ≤ kMaxLabelChannels
  ConstTensorView key_labels = {};    ///< [L, B, N] i32; −1 matches nothing
  ConstTensorView excluded_keys = {};  ///< [B, N] u8: 1 = not kept
  ConstTensorView query_weights = {};  ///< [B, M] f32, for the sums; null: 1

  /// Results.
  RowStatistics rows = {};
  SummedStatistics summed = {};
};

// ---- Second passes: args need q, k, masks, biases and sink logits, and lse
// ---- of a forward call; v and out are not read. Rows without a finite LSE
// ---- count as zero in sums over queries.

struct RowRef {
  int64_t sequence = 0;
  int64_t query = 0;
};

/// Dense probabilities of chosen rows: probabilities f32 [rows, H, N] (packed:
/// N is the longest sequence, rows zero-padded).
HEADWISE_API void AttentionRows(Context& context,
                                const AttentionProblem& problem,
                                const AttentionArgs& args,
                                std::span<const RowRef> rows,
                                TensorView probabilities);

/// The k largest keys of chosen rows, largest first, equal keys by index:
/// keys i32 [rows, H, k] (−1 past the visible ones), probabilities f32
/// [rows, H, k].
HEADWISE_API void AttentionTopK(Context& context,
                                const AttentionProblem& problem,
                                const AttentionArgs& args,
                                std::span<const RowRef> rows, TensorView keys,
                                TensorView probabilities);

/// Mass on listed (query → key) pairs: pairs of row r are
/// keys[offsets[r] … offsets[r + 1] − 1].
struct PairList {
  std::span<const RowRef> rows = {};
  std::span<const int64_t> offsets = {};  ///< rows + 1
  std::span<const int32_t> keys = {};
};
/// mass f32 [H, pairs]; is_argmax u8 [H, pairs] may be null and needs `argmax`
/// (rows.argmax of the forward call).
HEADWISE_API void AttentionPairs(Context& context,
                                 const AttentionProblem& problem,
                                 const AttentionArgs& args,
                                 const PairList& pairs, ConstTensorView argmax,
                                 TensorView mass, TensorView is_argmax);

/// Mass near the diagonal, by exact offset: entry c of mass f32
/// [B, H, M, before + after + 1] is key p − before + c; 0 where it is not seen.
/// first f32 [B, H, M], if given: mass on the first key of each sequence.
HEADWISE_API void AttentionBand(Context& context,
                                const AttentionProblem& problem,
                                const AttentionArgs& args, int64_t before,
                                int64_t after, TensorView mass,
                                TensorView first = {});

/// Column sums Σ_i w_i A_ij: received f32 [B, H, N]; weights [B, M] or null.
HEADWISE_API void ReceivedAttention(Context& context,
                                    const AttentionProblem& problem,
                                    const AttentionArgs& args,
                                    ConstTensorView query_weights,
                                    TensorView received);

/// A rectangle of one sequence and head as a small picture: queries
/// [query_begin, query_end) × keys [key_begin, key_end) pooled to
/// maximum and mean, each f32 [rows, columns] and possibly null. Cell (r, c)
/// covers queries query_begin + ⌊r·span/rows⌋ … (at least one), keys alike.
struct WindowRequest {
  int64_t sequence = 0;
  int64_t head = 0;
  int64_t query_begin = 0, query_end = 0;
  int64_t key_begin = 0, key_end = 0;
};
HEADWISE_API void AttentionWindow(Context& context,
                                  const AttentionProblem& problem,
                                  const AttentionArgs& args,
                                  const WindowRequest& window,
                                  TensorView maximum, TensorView mean);

/// One layer's scores, for comparisons between layers.
struct HeadSource {
  AttentionProblem problem = {};
  AttentionArgs args = {};  ///< with lse
};
/// Bhattacharyya coefficients Σ_j √(A^a_ij A^b_ij) between all heads of all
/// sources, averaged over rows with weight w (null: 1) that see a key in every
/// head: gram f64 [ΣH, ΣH]. All sources have the same batch, lengths and mask.
HEADWISE_API void HeadGram(Context& context,
                           std::span<const HeadSource> sources,
                           ConstTensorView query_weights, TensorView gram);

}  // namespace headwise
