/// @file
/// Multi-head attention as people know it, with every head open to look into:
///
///   MHA(X) = Concat(H_1 … H_h) W_O + b_O,   H_i = softmax(Q_i K_iᵀ/√d_k) V_i
///   Q_i = X W_Q^i,  K_i = S W_K^i,  V_i = S W_V^i,   S = X for self-attention
///
/// which is the same as the sum over heads Σ_i A_i S W_V^i W_O^i. One head is
/// simply heads = 1. This is the layer that the library's models run, rotary
/// positions, a cache of keys and values, gates and observation included. The
/// operator below it is attention.h.
///
/// Letters in shapes: B sequences, M queries, N keys, d d_model, s source_dim,
/// H heads, G kv_heads, D head_dim. All tensors are f32 on the host; views may
/// have any strides as long as the last is 1.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "headwise/export.h"
#include "headwise/tensor.h"

namespace headwise {

struct MultiHeadAttentionConfig {
  int64_t d_model = 0;
  int64_t heads = 1;
  int64_t head_dim = 0;    ///< 0: d_model / heads, which must divide
  int64_t kv_heads = 0;    ///< 0: heads; fewer: grouped or multi-query
  int64_t source_dim = 0;  ///< width of the cross-attention source; 0: d_model
  bool bias = false;
  bool output_projection = true;  ///< without: the heads side by side, H·D wide
  /// Rotary positions: the base of their frequencies, most often 10000; 0:
  /// none. Queries and keys of one sequence turn, so not with a source.
  double rotary_base = 0;
  int64_t rotary_dim = 0;  ///< first dimensions that turn, even; 0: head_dim

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("d_model", self.d_model, "width of the input");
    visit("heads", self.heads, "attention heads");
    visit("head_dim", self.head_dim, "width of one head; 0: d_model / heads");
    visit("kv_heads", self.kv_heads,
          "heads of keys and values, a divisor of heads; 0: heads");
    visit("source_dim", self.source_dim,
          "width of the source attended to; 0: d_model");
    visit("bias", self.bias, "add a bias to each projection");
    visit("output_projection", self.output_projection,
          "mix the heads with W_O; without it they stand side by side");
    visit("rotary_base", self.rotary_base,
          "base of the rotary frequencies; 0: no rotary positions");
    visit("rotary_dim", self.rotary_dim,
          "dimensions of a head that turn; 0: head_dim");
  }
};

/// Fills in what is 0 and checks the rest. Throws Error(kInvalidArgument) that
/// says which sizes do not fit, and why.
HEADWISE_API MultiHeadAttentionConfig
Resolve(const MultiHeadAttentionConfig& config);

/// 4·d² for any number of heads when head_dim = d/heads; 3·d² without W_O.
HEADWISE_API int64_t ParameterCount(const MultiHeadAttentionConfig& config);

/// The weights, or their gradients. Absent ones (no bias, no W_O) are empty.
struct MultiHeadAttentionParameters {
  Tensor w_q;  ///< [d, H·D]; head h owns columns h·D … (h + 1)·D − 1
  Tensor w_k;  ///< [s, G·D]
  Tensor w_v;  ///< [s, G·D]
  Tensor w_o;  ///< [H·D, d]; head h owns the same rows
  Tensor b_q;  ///< [H·D]
  Tensor b_k;  ///< [G·D]
  Tensor b_v;  ///< [G·D]
  Tensor b_o;  ///< [d]

  MultiHeadAttentionParameters() = default;
  /// Zeros of the right shapes: where gradients accumulate.
  HEADWISE_API explicit MultiHeadAttentionParameters(
      const MultiHeadAttentionConfig& config);

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("w_q", self.w_q, "query projection");
    visit("w_k", self.w_k, "key projection");
    visit("w_v", self.w_v, "value projection");
    visit("w_o", self.w_o, "output projection");
    visit("b_q", self.b_q, "query bias");
    visit("b_k", self.b_k, "key bias");
    visit("b_v", self.b_v, "value bias");
    visit("b_o", self.b_o, "output bias");
  }
};

/// Keys and values of earlier calls, so that sequences can grow step by step:
///
///   MultiHeadAttentionCache cache(context, attention.config(), 1, 1024);
///   attention.Forward(context, {.x = prompt, .mask = AttentionMask::Causal(),
///                               .cache = &cache});
///   attention.Forward(context, {.x = next, .mask = AttentionMask::Causal(),
///                               .cache = &cache});  // as at the prompt's end
///
/// One calling thread at a time: a call while another thread's is on throws
/// Error(kInvalidArgument).
class HEADWISE_API MultiHeadAttentionCache {
 public:
  /// Room for `capacity` positions of each of `batch` sequences, on the
  /// context's device; empty. Throws Error(kInvalidArgument) for sizes below 1.
  MultiHeadAttentionCache(Context& context,
                          const MultiHeadAttentionConfig& config, int64_t batch,
                          int64_t capacity);

  int64_t batch() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t capacity() const { return k_.shape(1); }
  int64_t length() const { return lengths_[0]; }  ///< positions held
  void Clear();

 private:
  friend class MultiHeadAttention;
  Tensor k_, v_;                  ///< [B, capacity, G, D]
  std::vector<int32_t> lengths_;  ///< all the same
  bool of_source_ = false;
  /// The thread whose call is on; none: no thread's id.
  std::unique_ptr<std::atomic<std::thread::id>> thread_;
};

/// Inputs and outputs of one call. Null views are not used; gates,
/// replacement, lengths, active heads and the observation mean what they mean
/// in AttentionArgs.
struct MultiHeadAttentionInput {
  ConstTensorView x = {};       ///< [B, M, d]
  ConstTensorView source = {};  ///< [B, N, s]; null: x (self-attention)
  AttentionMask mask = {};
  ConstTensorView query_lengths = {};  ///< [B] i32
  ConstTensorView key_lengths = {};    ///< [B] i32
  ConstTensorView gates = {};          ///< [B, M, H]
  ConstTensorView replacement = {};    ///< [B, M, H, D]
  HeadFilter active_heads = {};
  Observation* observation = nullptr;
  /// x continues the sequences that the cache holds, which then hold x too: the
  /// first query has position cache.length(), N = cache.length() + M. Or
  /// the cache holds a source (Remember), which x attends to. Not with a
  /// source, lengths, or a backward.
  MultiHeadAttentionCache* cache = nullptr;
};

/// Activations that the forward saves for the backward: scratch of its context,
/// which must outlive it. Views are null before a forward.
class HEADWISE_API MultiHeadAttentionActivations {
 public:
  MultiHeadAttentionActivations();
  ~MultiHeadAttentionActivations();
  MultiHeadAttentionActivations(MultiHeadAttentionActivations&&) noexcept;
  MultiHeadAttentionActivations& operator=(
      MultiHeadAttentionActivations&&) noexcept;

  ConstTensorView q() const;        ///< [B, M, H, D], turned where rotary
  ConstTensorView k() const;        ///< [B, N, G, D], likewise
  ConstTensorView v() const;        ///< [B, N, G, D]
  ConstTensorView heads() const;    ///< [B, M, H, D]: H_1 … H_h, gated
  ConstTensorView ungated() const;  ///< before the gates; null without gates
  ConstTensorView lse() const;      ///< [B, H, M]

 private:
  friend class MultiHeadAttention;
  struct Saved;
  std::unique_ptr<Saved> saved_;
};

/// Where gradients go; null: not wanted. Parameter gradients are added to,
/// activation gradients overwritten.
struct MultiHeadAttentionGradients {
  MultiHeadAttentionParameters* parameters = nullptr;
  TensorView dx = {};       ///< [B, M, d]; self-attention: through q, k and v
  TensorView dsource = {};  ///< [B, N, s]; cross-attention only
  TensorView dgates = {};   ///< [B, M, H]
  /// ∂L/∂H of each row's entropy in nats, [B, H, M]; null: none.
  ConstTensorView dentropy = {};
};

/// The directions that a head reads from an attended position, and writes.
struct HeadContent {
  Tensor value;   ///< W_V^h, [s, D]
  Tensor output;  ///< W_V^h W_O^h, [s, d]; without W_O the same as value
};

class AttentionLayer;  // of the library's inside, and
class RopeTable;

/// Any number of threads may call what is const, each with its own Context (and
/// cache); who changes the parameters sees to it that no call is on.
class HEADWISE_API MultiHeadAttention {
 public:
  /// Weights are uniform with variance 1/(input width), so that unit inputs
  /// give unit logits at any number of heads; biases are 0.
  explicit MultiHeadAttention(const MultiHeadAttentionConfig& config,
                              uint64_t seed = 0);

  /// Resolved: no size is 0.
  const MultiHeadAttentionConfig& config() const { return config_; }
  int64_t output_dim() const;  ///< d, or H·D without W_O

  /// To be written in place: after a tensor was put in another's place, as in a
  /// copy of the module, calls of more than a few rows ask for some memory.
  MultiHeadAttentionParameters& parameters() { return parameters_; }
  const MultiHeadAttentionParameters& parameters() const { return parameters_; }

  /// out: [B, M, output_dim]. `kept` is needed for a backward.
  void Forward(Context& context, const MultiHeadAttentionInput& input,
               TensorView out,
               MultiHeadAttentionActivations* kept = nullptr) const;
  Tensor Forward(Context& context, const MultiHeadAttentionInput& input) const;

  /// Keys and values of a source [B, N, s] into a cache, in place of what it
  /// held: calls with that cache attend to the source.
  void Remember(Context& context, ConstTensorView source,
                MultiHeadAttentionCache& cache) const;

  /// `input` and `kept` of the forward call; dout: [B, M, output_dim].
  void Backward(Context& context, const MultiHeadAttentionInput& input,
                const MultiHeadAttentionActivations& kept, ConstTensorView dout,
                const MultiHeadAttentionGradients& gradients) const;

  // ---- One head, 0-based. `input` as in Forward; its active heads and its
  // ---- observation are not used, and its cache does not grow.

  /// How head h matches: W_Q^h W_K^hᵀ, [d, s], of rank ≤ head_dim. Logits are
  /// x_i Metric s_jᵀ / √head_dim (and bias terms, where there are biases); with
  /// rotary positions at equal positions only.
  Tensor Metric(Context& context, int64_t head) const;

  /// Where it looks: A_h, [B, M, N]. Each row that sees a key sums to 1.
  Tensor Weights(Context& context, int64_t head,
                 const MultiHeadAttentionInput& input) const;

  HeadContent Content(Context& context, int64_t head) const;

  /// Its summand of the output: H_h W_O^h, [B, M, d]; without W_O H_h,
  /// [B, M, D]. Over all heads these sum to Forward less b_o.
  Tensor Output(Context& context, int64_t head,
                const MultiHeadAttentionInput& input) const;

 private:
  class Call;  // multi_head_call.h
  struct Lists;
  class SpareLists;
  void Run(Context& context, Call& call, TensorView out,
           MultiHeadAttentionActivations* kept) const;

  MultiHeadAttentionConfig config_;
  MultiHeadAttentionParameters parameters_;
  std::shared_ptr<const RopeTable> rope_;  ///< null: none
  std::shared_ptr<SpareLists> spare_;
  /// Over parameters_, where they lay when this was made; null with a source
  /// of another width.
  std::shared_ptr<const AttentionLayer> layer_;
};

}  // namespace headwise
