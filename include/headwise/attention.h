/// @file
/// The attention operator: forward, backward, and what a caller may observe of
/// every head's distribution while it streams (observation.h).
///
///   z_ij = softcap(scale · q_i · k_j) + bias(h, j − p_i),  p_i = i + offset
///   A_ij = exp(z_ij − LSE_i) where the mask lets i see j, else 0
///   LSE_i = ln(Σ_j exp z_ij + exp s_h), where there is a sink logit s_h
///   O_i  = Σ_j A_ij v_j,   out_i = g_i · O_i + (1 − g_i) · μ_i
///
/// Letters in shapes: B sequences, M queries, N keys, H heads, G key/value
/// heads, D head_dim, E value_dim. Views are [batch, position, head, dim] with
/// any strides as long as the last is 1, so a projection's output needs no
/// transpose. Packed problems have one row of sequences end to end: wherever a
/// shape says [B, M, …] or [B, N, …] it is then [1, total, …].
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/export.h"
#include "headwise/tensor.h"

namespace headwise {

struct Observation;  // observation.h

inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

/// Which keys a query sees: a band around its position, plus sinks. Query i
/// stands at p = i + query_offset and sees key j when
///   p − before ≤ j ≤ p + after,  or  j < sinks and j ≤ p + after.
struct AttentionMask {
  int64_t before = kUnlimited;
  int64_t after = kUnlimited;
  int64_t query_offset = 0;
  /// The first keys of each sequence that stay visible outside the band.
  int64_t sinks = 0;

  static AttentionMask None() { return {}; }
  static AttentionMask Causal(int64_t offset = 0) {
    return {kUnlimited, 0, offset, 0};
  }
  /// Causal, and no further back than window − 1 positions.
  static AttentionMask SlidingWindow(int64_t window, int64_t offset = 0,
                                     int64_t sinks = 0) {
    return {window - 1, 0, offset, sinks};
  }
  friend bool operator==(const AttentionMask&, const AttentionMask&) = default;
};

enum class AttentionBias : uint8_t {
  kNone,
  kAlibi,     ///< − slope_h · |p − j|
  kRelative,  ///< table_h[clamp(j − p, −R, R) + R], table [H, 2R + 1]
};

/// Which heads a call computes. All, unless it is made of a list; then those of
/// the list and no other: an empty list is no head at all. What it is made of
/// must outlive it.
class HeadFilter {
 public:
  HeadFilter() = default;
  /// Of these heads, ascending.
  HeadFilter(std::span<const int32_t> heads)  // NOLINT: implicit on purpose
      : heads_(heads), is_all_(false) {}
  HeadFilter(const std::vector<int32_t>& heads)  // NOLINT: likewise
      : HeadFilter(std::span<const int32_t>(heads)) {}
  template <size_t count>
  HeadFilter(const int32_t (&heads)[count])  // NOLINT: likewise
      : HeadFilter(std::span<const int32_t>(heads)) {}

  static HeadFilter All() { return {}; }
  static HeadFilter None() { return std::span<const int32_t>(); }

  bool is_all() const { return is_all_; }
  bool is_none() const { return !is_all_ && heads_.empty(); }
  /// The list that it was made of; nothing for All().
  std::span<const int32_t> heads() const { return heads_; }
  bool Has(int64_t head) const {
    return is_all_ ||
           std::find(heads_.begin(), heads_.end(), head) != heads_.end();
  }

 private:
  std::span<const int32_t> heads_ = {};
  bool is_all_ = true;
};

/// Sizes and options: printable, comparable, no pointers.
struct AttentionProblem {
  int64_t batch = 1;  ///< sequences
  int64_t heads = 1;
  int64_t kv_heads = 1;      ///< heads is a multiple of it
  int64_t query_len = 0;     ///< packed: the longest sequence's
  int64_t key_len = 0;       ///< packed: the longest sequence's
  int64_t head_dim = 0;      ///< of q and k
  int64_t value_dim = 0;     ///< of v and out; 0: head_dim
  DType type = DType::kF32;  ///< of q, k, v, out: kF32, kBF16, kF16
  Device device = {};        ///< the context's, and of all views
  AttentionMask mask = {};
  AttentionBias bias = AttentionBias::kNone;
  int64_t relative_reach = 0;  ///< R of kRelative
  float scale = 0;             ///< 0: 1/√head_dim
  float soft_cap = 0;          ///< 0: none, else z = cap · tanh(z / cap)
  bool packed = false;         ///< variable-length sequences end to end
  /// The type that operands of products are rounded to: q, k, v and A, in the
  /// backward also the gradients of O and of the scores. Sums and statistics
  /// stay f32. An implementation without such products refuses the problem.
  Precision precision = Precision::kStored;

  friend bool operator==(const AttentionProblem&,
                         const AttentionProblem&) = default;
};

/// "8 heads × 64, 2048 × 2048, causal, f32"
HEADWISE_API std::string ToString(const AttentionProblem& problem);

/// The tensors of one call. A view that is not given (null) is not used.
struct AttentionArgs {
  ConstTensorView q = {};  ///< [B, M, H, D]
  ConstTensorView k = {};  ///< [B, N, G, D]
  ConstTensorView v = {};  ///< [B, N, G, E]
  TensorView out = {};     ///< [B, M, H, E]

  /// Ragged batches: how many queries and keys of each sequence count, [B] i32.
  /// Queries past the end get zeros and count 0; keys past the end are unseen.
  ConstTensorView query_lengths = {};
  ConstTensorView key_lengths = {};
  /// Packed: sequence b is rows starts[b] … starts[b + 1] − 1, [B + 1] i32,
  /// from 0 to the total.
  ConstTensorView query_starts = {};
  ConstTensorView key_starts = {};
  /// Position of each sequence's first query, [B] i32, or of each query,
  /// [total] (packed, host, no bias or statistics; never falls); default
  /// mask.query_offset.
  ConstTensorView query_offsets = {};

  /// A sink logit s of each head: [H] f32, −∞ for a head without one. Rows of
  /// A sum to 1 − exp(s_h − LSE_i); that mass goes to no key and adds nothing
  /// to O. A logit that is NaN or +∞ acts like such a score. The backward and
  /// the second passes need the sink logits of the forward call.
  ConstTensorView sink_logits = {};

  ConstTensorView alibi_slopes = {};    ///< [H] f32
  ConstTensorView relative_table = {};  ///< [H, 2R + 1] f32

  /// Gates g and the replacement of a closed head, μ. Strides of 0 broadcast:
  /// one gate a head is {data, stride 0, 0, 1}. No gates: g = 1. No
  /// replacement: μ = 0.
  ConstTensorView gates = {};        ///< [B, M, H] f32
  ConstTensorView replacement = {};  ///< [B, M, H, E] f32

  /// Heads to compute. Others cost nothing and their part of every result is
  /// left untouched.
  HeadFilter active_heads = {};

  /// Besides the output, for the backward: log-sum-exp, and O before the gate
  /// (needed only where gates are given).
  TensorView lse = {};  ///< [B, H, M] f32; −∞ for a row that sees nothing
  TensorView ungated = {};  ///< [B, M, H, E]

  /// Statistics to observe; null: none. The same pass writes them.
  Observation* observation = nullptr;
};

/// Computes out (and lse, ungated, observation where given). Throws
/// Error(kInvalidArgument) naming the numbers for an impossible problem. NaN or
/// ∞ in q stays in its own rows; in k or v it reaches only rows that see it.
/// A row that sees no key gets out = (1 − g)·μ, LSE −∞, zero statistics, with
/// a sink too; so does one whose scores are all −∞. On a GPU results are there
/// when the context's queue has come to them (Context::Synchronize).
HEADWISE_API void AttentionForward(Context& context,
                                   const AttentionProblem& problem,
                                   const AttentionArgs& args);

/// The tensors of a backward call. Activation gradients are overwritten,
/// parameter gradients (relative_table, sink_logits) are added to. Null: not
/// wanted.
struct AttentionGrads {
  ConstTensorView dout = {};  ///< [B, M, H, E]
  /// ∂L/∂H of each row's entropy (nats), [B, H, M] f32; null: none.
  ConstTensorView dentropy = {};
  TensorView dq = {};  ///< [B, M, H, D]
  TensorView dk = {};  ///< [B, N, G, D]
  TensorView dv = {};  ///< [B, N, G, E]
  /// ∂L/∂g = ⟨dout, O − μ⟩ per query and head, [B, M, H] f32.
  TensorView dgates = {};
  TensorView drelative_table = {};  ///< [H, 2R + 1] f32, accumulated
  TensorView dsink_logits = {};     ///< [H] f32, accumulated
  /// Column sums of A over queries (received attention), [B, H, N] f32; rows
  /// that are not finite add nothing.
  TensorView received = {};
};

/// args as in the forward call, whose lse, and ungated (or out, where there are
/// no gates), are read. Inactive heads: their dq and dgates are left untouched;
/// dk and dv hold the active heads' part (zero where a group has none).
HEADWISE_API void AttentionBackward(Context& context,
                                    const AttentionProblem& problem,
                                    const AttentionArgs& args,
                                    const AttentionGrads& grads);

/// Floating-point operations of a forward pass over visible pairs only:
/// 2·(D + E) per visible (query, key) and head. Ragged inputs count as full.
HEADWISE_API double AttentionFlops(const AttentionProblem& problem);

}  // namespace headwise
