// What the CUDA attention kernels are told, as plain data: pointers, strides
// in elements, sizes. Filled by arguments.cc and observation.cc
// from AttentionProblem and AttentionArgs.
#pragma once

#include <cstdint>

#include "headwise/ops/attention/cuda/schedule.h"

namespace headwise::attention_cuda {

// [B, position, head, dim], the last dense.
struct Strided {
  void* data = nullptr;
  int64_t batch = 0;
  int64_t row = 0;
  int64_t head = 0;
};

// [B, H, M], the last dense.
struct RowResult {
  void* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
};

// What q, k, v, out and their gradients are made of.
enum class Element : uint8_t { kBf16, kF16, kF32 };

// What scores go through besides the scale.
struct ScoreShape {
  float soft_cap = 0;            // 0: none
  const float* alibi = nullptr;  // [H] slopes
  int64_t alibi_head = 0;
  const float* table = nullptr;  // [H, 2·reach + 1], the last dense
  int64_t table_head = 0;
  int reach = 0;
  HEADWISE_HD bool any() const {
    return soft_cap != 0 || alibi != nullptr || table != nullptr;
  }
};

struct ForwardParams {
  int query_len = 0;  // packed: the longest sequence's
  int key_len = 0;
  int head_dim = 0;
  int value_dim = 0;
  int queries_per_kv = 1;
  int query_offset = 0;
  bool packed = false;
  Element element = Element::kBf16;
  // Whether q and k have to be read element by element: rows of f32, of odd
  // widths, or not aligned to 16 bytes.
  bool is_loose = false;
  float scale = 0;
  float scale_log2 = 0;  // scale · log2 e
  ScoreShape shape;
  const float* sink_logits = nullptr;  // [H]; null: none
  Band band;
  WorkOrder order;

  Strided q, k, v;
  Strided out;      // [B, M, H, E]
  Strided ungated;  // [B, M, H, E], may be null

  // Per sequence, each may be null.
  const int32_t* query_lengths = nullptr;  // [B]
  const int32_t* key_lengths = nullptr;    // [B]
  const int32_t* query_starts = nullptr;   // [B + 1]
  const int32_t* key_starts = nullptr;     // [B + 1]
  const int32_t* query_offsets = nullptr;  // [B]
  const int32_t* active_heads = nullptr;   // [order.heads]

  // Gates [B, M, H] and replacement [B, M, H, E], f32, strides may be 0.
  const float* gates = nullptr;
  int64_t gate_batch = 0, gate_row = 0, gate_head = 0;
  const float* replacement = nullptr;
  int64_t replacement_batch = 0, replacement_row = 0, replacement_head = 0;

  // f32 (argmax: i32), each may be null.
  RowResult lse, entropy, max_probability, argmax, distance;

  // Two zeros in device memory: the next work item, and the blocks that have
  // finished. The last block zeroes them again. Two more follow, for a kernel
  // that starts under the end of another.
  int* counters = nullptr;
};

// The part of a row that one run of keys gives, in units of 2^reference.
struct RowPartial {
  float reference, sum, entropy, distance, best;
  int place;
};

// A decoding step: forward, cut into runs of keys.
struct DecodeParams {
  ForwardParams forward;
  SplitPlan plan;
  int kv_heads = 1;
  int row_blocks = 1;                  // of kDecodeRows, each key/value head
  const uint8_t* is_active = nullptr;  // [H]; null: all
  bool is_half = false;                // f16, else bf16
  // Null where a row's keys are one run. Scratch: [sequences, kv_heads,
  // row_blocks, splits, kDecodeRows] of parts, and kDecodeColumns outputs each.
  RowPartial* parts = nullptr;
  float* outputs = nullptr;
  // [sequences, kv_heads, row_blocks]: how many of the splits are done.
  int* done = nullptr;
};

// Any strides, in elements.
template <class T>
struct View3 {
  T* data = nullptr;
  int64_t stride[3] = {};
  HEADWISE_HD T* At(int64_t a, int64_t b, int64_t c) const {
    return data + a * stride[0] + b * stride[1] + c * stride[2];
  }
};

// Statistics beyond the core, by a pass over (q, k, LSE) after the forward or
// by the forward itself.
struct ObserveParams {
  ForwardParams forward;  // order: blocks of the kernel's; a pass reads lse
  bool is_half = false;
  bool sides_only = false;  // features, labels, and what is kept of excluded
  RowResult varentropy, sum_squares, kept_max, kept_argmax;  // may be null
  bool kept_is_max = false;  // no key is excluded: the forward pass knows
  // Rows of several numbers, [B, H, M, …], the last dense, may be null.
  View3<float> histogram, feature_mass, label_mass;
  View3<const float> features;  // [B, N, C]
  int feature_count = 0;
  // Scratch: the features as products read them, [parts, 2, B·N, 8] bf16: of
  // each 8 the values, then what rounding left of them.
  void* split_features = nullptr;
  int key_rows = 0, key_batches = 0;              // N and B of the views
  View3<const int32_t> query_labels, key_labels;  // [L, B, M], [L, B, N]
  int label_count = 0;
  View3<const uint8_t> excluded;  // [B, N], the last stride unused
  View3<const float> weights;     // [B, M], alike
  // Weighted sums of each block's rows, [sequences, heads of the order, blocks,
  // width]: histogram, features, labels. Null: not wanted.
  double* partials = nullptr;
  int width = 0;
  int blocks = 0;  // of kObserveRows queries (plain kernels: kPlainRows)
};
inline constexpr int kObserveRows = 64;
inline constexpr int kPlainRows = 8;  // of a block of the plain kernels

HEADWISE_HD const ForwardParams& ForwardOf(const ForwardParams& p) { return p; }
HEADWISE_HD const ForwardParams& ForwardOf(const ObserveParams& p) {
  return p.forward;
}

// Features that one block takes; further ones take further blocks.
inline constexpr int kObserveFeatures = 8;
inline constexpr int kMostLabels = 4;

// Sums over rows, per sequence and head.
struct SumParams {
  ForwardParams forward;  // with core row results
  RowResult varentropy, sum_squares, kept_max;
  bool full = false;
  View3<const float> weights;
  View3<double> sums, histogram, feature_mass, label_mass;  // [S, H, columns]
  int feature_count = 0, label_count = 0;
  const double* partials = nullptr;  // ObserveParams'
  int width = 0, blocks = 0;
};

// Second passes over (q, k, LSE); each uses its part.
struct WindowPlace {
  int sequence, head, first_query, queries, first_key, keys;
};
struct PassRow {
  int sequence, query;
};
struct SecondPassParams {
  ForwardParams forward;
  bool is_half = false;
  const PassRow* rows = nullptr;  // of each row, or of each pair
  View3<float> values;  // rows, top: [rows, H, …]; pairs: [H, pairs];
                        // window: maximum [rows, columns]
  View3<float> dense;   // top: [rows, H, N]
  View3<int32_t> keys;  // top: [rows, H, top]
  int top = 0;
  const int32_t* pair_keys = nullptr;  // [pairs]
  int pairs = 0;
  View3<const int32_t> argmax;  // [B, H, M]
  View3<uint8_t> is_argmax;     // [H, pairs]
  WindowPlace window = {};
  View3<float> mean;  // [rows, columns]
};
struct BandParams {
  ForwardParams forward;
  bool is_half = false;
  int before = 0, width = 1;  // entry c is key p − before + c
  float* mass = nullptr;      // [B, H, M, width], the last dense
  int64_t mass_batch = 0, mass_head = 0, mass_row = 0;
  RowResult first;  // f32 [B, H, M]: of key 0; null: not wanted
};
struct ReceivedParams {
  ForwardParams forward;
  bool is_half = false;
  View3<const float> weights;  // [B, M]
  View3<float> received;       // [B, H, N]
};

// Bhattacharyya coefficients between the heads of several calls.
struct GramSource {
  ForwardParams forward;
  bool is_half = false;
};
struct GramHead {
  int source, head, index;  // index: row of the result
};
struct GramParams {
  const GramSource* sources = nullptr;
  const GramHead* heads = nullptr;  // [head_count]
  int head_count = 0, sequences = 0, query_len = 0, chunks = 0;
  View3<const float> weights;    // [B, M]
  float* row_weights = nullptr;  // scratch [sequences, query_len]
  double* partials = nullptr;    // scratch [sequences·chunks, heads, heads]
  View3<double> gram;            // [ΣH, ΣH]
};
inline constexpr int kGramQueries = 64;  // of a chunk

// The backward pass reads what the forward pass was given and left.
struct BackwardParams {
  ForwardParams forward;  // order: of query blocks; lse is read
  Strided o;              // [B, M, H, E] before the gate
  Strided dout;           // [B, M, H, E] as given
  Strided dq, dk, dv;     // as q, k, v; each may be null
  // ∂L/∂g [B, M, H] f32, may be null.
  float* dgates = nullptr;
  int64_t dgate_batch = 0, dgate_row = 0, dgate_head = 0;
  RowResult received;             // [B, H, N] f32, may be null
  View3<const float> dentropy;    // ∂L/∂H [B, H, M], may be null
  float* dsink_logits = nullptr;  // [H], is added to; may be null
  // ∂L/∂table [H, 2·reach + 1], the last dense, is added to; may be null.
  float* dtable = nullptr;
  int64_t dtable_head = 0;

  // Scratch, made by the first kernel: of each row, LSE in base 2 (+∞ for rows
  // that see nothing and past the end, so that their probabilities vanish) and
  // δ = g·⟨dout, O⟩, [sequences, H, padded_len]; and dO = g·dout [B, M, H, E],
  // which is dout itself where there are no gates.
  float* lse_log2 = nullptr;
  float* delta = nullptr;
  int padded_len = 0;  // query_len up to a multiple of kRowPadding
  Strided d_o;
  // Where there is a dentropy or a dtable, ln 2 · ∂L/∂H of each row (0 without
  // dentropy), laid out as δ: −log_weight · log2 P joins dP, and δ is made
  // anew. Else null.
  float* log_weight = nullptr;
  // Where there is a dtable: [heads of the order, table_parts, 2·reach + 1].
  float* tables = nullptr;
  int table_parts = 0;

  const uint8_t* is_active = nullptr;  // [H]; null: all
  WorkOrder key_order;                 // blocks of keys, kv heads, sequences
  int heads = 1;
  int kv_heads = 1;
  int sequences = 1;
  float scale = 0;
  bool is_half = false;  // f16, else bf16
};

// The gradient of sink logits, from what the rows have left: per row δ, of
// which an entropy's part may stand apart, [sequences, heads, row_len] each.
struct SinkGradientParams {
  ForwardParams forward;  // lse is read
  const float* delta = nullptr;
  const float* entropy = nullptr;  // null: its part is in δ
  View3<const float> dentropy;     // ∂L/∂H [B, H, M], may be null
  float* dsink_logits = nullptr;   // [H], is added to
  int row_len = 0;
  int heads = 1;
};

// A multiple of every kernel's block of queries.
inline constexpr int kRowPadding = 384;

// The part of a problem that one block of queries sees.
struct Extent {
  int query_start = 0;  // row of the sequence's first query
  int key_start = 0;
  int query_len = 0;
  int key_len = 0;
  int offset = 0;  // position of the first query
};

HEADWISE_HD Extent ExtentOf(const ForwardParams& p, int sequence) {
  Extent e{0, 0, p.query_len, p.key_len, p.query_offset};
  if (p.packed) {
    e.query_start = p.query_starts[sequence];
    e.key_start = p.key_starts[sequence];
    e.query_len = p.query_starts[sequence + 1] - e.query_start;
    e.key_len = p.key_starts[sequence + 1] - e.key_start;
  }
  if (p.query_lengths != nullptr) e.query_len = p.query_lengths[sequence];
  if (p.key_lengths != nullptr) e.key_len = p.key_lengths[sequence];
  if (p.query_offsets != nullptr) e.offset = p.query_offsets[sequence];
  return e;
}

}  // namespace headwise::attention_cuda
