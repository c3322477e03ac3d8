// Attention with its projections, as transformers use it: self- or
// cross-attention over packed sequences or a key/value cache, with rotary
// positions, query/key norms, gates and observation through RunHooks. The
// public MultiHeadAttention is a door to it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "headwise/nn/alibi_slopes.h"
#include "headwise/nn/head_gates.h"
#include "headwise/nn/head_norms.h"
#include "headwise/nn/head_span.h"
#include "headwise/nn/hooks.h"
#include "headwise/nn/latent_projections.h"
#include "headwise/nn/linear.h"
#include "headwise/nn/norm.h"
#include "headwise/nn/output_gate.h"
#include "headwise/nn/relative_bias.h"
#include "headwise/nn/rope_table.h"
#include "headwise/nn/shared_keys.h"
#include "headwise/ops/attention/head_widths.h"
#include "headwise/ops/rope/rope.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// Numbers of the host as a device reads them: copied at first use, for all
// layers of a run.
class NumbersOnDevice {
 public:
  // i32 [N], valid while this lives and `values` are neither changed nor gone.
  ConstTensorView view(Context& context,
                       const std::vector<int32_t>& values) const;
  // The values are there already, and whoever changes them there keeps them
  // alive.
  void Set(const std::vector<int32_t>& values, const ConstTensorView& there);

 private:
  mutable const int32_t* from_ = nullptr;
  mutable Device device_;
  mutable std::shared_ptr<const Tensor> copy_;
  mutable ConstTensorView view_;
};

// Sequences end to end: sequence b is rows starts[b] … starts[b + 1] − 1. Not
// changed once it was run, by one context at a time.
struct SequenceBatch {
  std::vector<int32_t> starts = {};     // sequences + 1
  std::vector<int32_t> positions = {};  // one a row: the place in its sequence
  NumbersOnDevice starts_there = {}, positions_there = {};
  // Positions up to the end of the call that this is a part of; 0: it is all.
  int64_t call_length = 0;

  // On the context's device.
  ConstTensorView StartsOn(Context& context) const {
    return starts_there.view(context, starts);
  }
  ConstTensorView PositionsOn(Context& context) const {
    return positions_there.view(context, positions);
  }
  int64_t sequences() const { return static_cast<int64_t>(starts.size()) - 1; }
  int64_t total() const { return starts.back(); }
  int64_t longest() const;
  // The call's largest position + 1.
  int64_t CallLength() const;
};

// Positions count from 0 in each sequence of the given lengths.
SequenceBatch MakeBatch(std::span<const int64_t> lengths);

enum class AttentionPass : uint8_t;  // of the operator
struct CacheSplit;                   // cache_split.h
class AttentionByHead;               // attention_by_head.h
struct HeadRowsRun;

// Keys and values of earlier calls, one slot a sequence. The caller owns the
// memory and advances `lengths` once all layers have run.
struct CacheView {
  // [B, capacity, G, D] and [B, capacity, G, E] of the layer's type; or wider
  // (CacheWidths), with zeros in the columns that no head has.
  TensorView k = {};
  TensorView v = {};
  std::span<int32_t> lengths = {};  // [B] rows held before this call
  // i32 [B] on the device, the same numbers and those after the call; null:
  // each call copies them.
  ConstTensorView held = {}, filled = {};
  // Where heads keep different parts of the past; k and v are then not given.
  // Hooks set gates there and see neither keys nor what came out.
  const CacheSplit* split = nullptr;
};

struct AttentionLayerConfig {
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t head_dim = 0;
  int64_t value_dim = 0;  // 0: head_dim
  AttentionMask mask;     // query_offset is set by the call
  float scale = 0;        // 0: 1/√head_dim
  float soft_cap = 0;
  // Heads are run with zero columns up to a multiple of it; 0: where that lets
  // a faster implementation take them.
  int64_t head_multiple = 0;
  // A head's value is its key's projection before the norm and the rotation:
  // the weights have no columns of values.
  bool keys_are_values = false;
  // The earlier layer of the stack whose keys and values are attended to, for
  // which the weights then have no columns; negative: its own.
  int64_t keys_of = -1;
  // Later layers attend to its keys and values.
  bool shares_keys = false;
};

struct AttentionWeights {
  // Queries of x, and where there is no memory keys and values behind them.
  Linear of_x;
  LatentProjections latent;  // instead of of_x; may be absent
  Linear of_memory;          // cross: keys, values
  Linear output;             // absent: the heads stand side by side, d is H·E
  HeadNorms query_norm;      // may be absent
  HeadNorms key_norm;
  Norm value_norm;  // of each head, without weights; may be absent
  std::shared_ptr<const RopeTable> rope;  // null: none
  HeadGates gates;
  HeadSpans spans;
  // Of scores, by distance; null: none. Not with spans, nor of a memory.
  std::shared_ptr<const RelativeBias> bias;
  AlibiSlopes alibi;       // likewise; may be absent
  Values sinks;            // [H]: a logit in the denominator; may be absent
  OutputGate output_gate;  // may be absent
};

// What a backward needs of a forward besides its input. No attention map: the
// operator computes it again from q, k and the rows' log-sum-exp.
struct AttentionSaved {
  Temp projected;         // [T, query (and key, value) columns]
  LatentSaved latent;     // of what it was projected from
  Temp memory_projected;  // cross: [S, key and value columns]
  Temp values;            // [S, G·D] of keys that are values
  Temp unnormed;          // both of these before the query and key norms
  Temp memory_unnormed;
  HeadNormsSaved query_norm;
  HeadNormsSaved key_norm;
  Temp unnormed_values;  // [S, G·E], where they have a norm
  NormSaved value_norm;
  Temp heads;  // [T, H·E] that W_O reads
  Temp lse;
  Temp ungated;  // where there are gates
  GateSaved gates;
  SpanSaved spans;
  OutputGateSaved output_gate;
  // Keys and values that layers share: its own or an earlier one's.
  std::shared_ptr<SharedKeys::Layer> shared;
  AttentionProblem problem;  // as it was run
  AttentionArgs args;
  std::vector<Temp> numbers;  // of args: copies on a device
  // Where rows were grouped by head all that is needed is here.
  std::shared_ptr<const HeadRowsRun> by_head;
};

struct AttentionInput {
  ConstTensorView x;  // [T, d]
  const SequenceBatch* batch = nullptr;
  // Cross-attention: what is attended to, [S, d], and its sequences.
  ConstTensorView memory;
  const SequenceBatch* memory_batch = nullptr;
  // All sequences are equally long, and so are all of the memory: the operator
  // is given them side by side, [B, M, …], and not packed. A hook can then set
  // query_lengths and key_lengths, and observes in these shapes.
  bool side_by_side = false;
  // With a cache every sequence has the same number of new rows. A cross cache
  // holds all keys and values already (FillCache); `memory` is not read then.
  const CacheView* cache = nullptr;
  // The run's, where layers attend to others' keys and values; what it holds
  // is kept for Backward.
  SharedKeys* shared = nullptr;
  // Null: the layer's.
  const AttentionMask* mask = nullptr;
  HookList hooks = {};
  GateDraw gate_draw = {};
  // Kept for Backward; null: nothing is. Not with a cache.
  AttentionSaved* saved = nullptr;
};

class AttentionLayer {
 public:
  AttentionLayer() = default;
  AttentionLayer(AttentionLayerConfig config, AttentionWeights weights,
                 AttentionSite site);

  const AttentionLayerConfig& config() const { return config_; }
  const AttentionWeights& weights() const { return weights_; }
  const AttentionSite& site() const { return site_; }
  bool cross() const { return static_cast<bool>(weights_.of_memory); }
  bool has_own_keys() const { return config_.keys_of < 0; }
  int64_t value_dim() const {
    return config_.value_dim > 0 ? config_.value_dim : config_.head_dim;
  }
  // Columns that the weights make keys and values of.
  int64_t key_columns() const {
    return has_own_keys() ? config_.kv_heads * config_.head_dim : 0;
  }
  int64_t value_columns() const {
    return has_own_keys() && !config_.keys_are_values
               ? config_.kv_heads * value_dim()
               : 0;
  }
  // One number of the output gate for each channel, not for each head.
  bool gates_channels() const {
    return weights_.output_gate &&
           weights_.output_gate.width() != config_.heads;
  }
  // The first thing that few programs know: "sink logits", "an output gate",
  // "keys as values"; null: none.
  const char* Special() const;
  // What is added to scores by distance: "learned spans", "a relative bias",
  // "slopes (ALiBi)"; null: nothing.
  const char* BiasName() const;
  // The columns of a relative bias, or of slopes, that its heads have; none
  // without.
  std::span<const int32_t> bias_columns() const;
  // Columns that x is projected to: queries, and keys and values of x.
  int64_t projected_columns() const {
    return weights_.latent ? weights_.latent.columns() : weights_.of_x.out();
  }
  // The dimension of a head from which on positions turn it.
  int64_t first_turned() const {
    return weights_.latent ? config_.head_dim - weights_.latent.shared() : 0;
  }
  // Matrices of queries, keys and values; in cross-attention those of x first.
  std::vector<const Linear*> inputs() const;
  // Those that read x, or the memory, themselves: not what is behind latents.
  std::vector<const Linear*> inputs_of_x() const;
  const Linear& output() const { return weights_.output; }

  // Columns of the keys and values of a cache in the context's memory: the
  // heads' own, or as many as they are run with.
  HeadWidths CacheWidths(const Context& context, DType type) const;

  // y [T, d] = or += Concat(heads) · W_O + b_O.
  void Forward(Context& context, const AttentionInput& input, TensorView y,
               Store store) const;

  // input and what it points to as in the forward call. dy [T, d]; dx [T, d]
  // is overwritten; cross-attention adds to dmemory [S, d], since all layers
  // read one memory.
  void Backward(Context& context, const AttentionInput& input,
                const AttentionSaved& saved, ConstTensorView dy, TensorView dx,
                TensorView dmemory) const;

  // Cross-attention: keys and values of memory [B·S, d] into the cache.
  void FillCache(Context& context, ConstTensorView memory,
                 const CacheView& cache) const;

 private:
  struct Projections;
  void RequireSense() const;
  void FindKeys(Context& context, const TensorView& rows, int64_t begin,
                Projections& p) const;
  void UseShared(const AttentionInput& input, Projections& p) const;
  void ProjectMemory(Context& context, ConstTensorView memory,
                     Projections& p) const;
  Projections Project(Context& context, const AttentionInput& input) const;
  void Rotate(Context& context, const AttentionInput& input,
              Projections& p) const;
  void NormValues(Context& context, const AttentionInput& input,
                  const Projections& p) const;
  RopeArgs Turned(Context& context, const AttentionInput& input,
                  TensorView x) const;
  void Turn(Context& context, const AttentionInput& input, TensorView x,
            RopeDirection direction) const;
  // Without sizes of a call.
  AttentionProblem ProblemOf(const Context& context, DType type) const;
  AttentionProblem ProblemOf(const Context& context,
                             const AttentionInput& input) const;
  HeadWidths WidthsOf(const Context& context, AttentionPass pass,
                      const AttentionProblem& problem) const;
  struct Call;
  void UseCache(Context& context, const AttentionInput& input,
                const Projections& p, TensorView heads, Call& call) const;
  void UseSequences(Context& context, const AttentionInput& input,
                    const Projections& p, TensorView heads, Call& call) const;
  void Attend(Context& context, const AttentionInput& input,
              const Projections& p, TensorView heads, Call& call) const;
  void Offer(const AttentionInput& input, const Projections& p) const;
  void Show(const AttentionInput& input, const Call& call,
            const TensorView& heads) const;
  static void Keep(Call& call, AttentionSaved& saved);
  void AttendSplit(Context& context, const AttentionInput& input,
                   const Projections& p, TensorView heads, Call& call) const;
  void Choose(Context& context, const AttentionInput& input, Call& call) const;
  ConstTensorView OwnGates(Context& context, const AttentionInput& input,
                           Call& call) const;
  void HoldReplacement(const AttentionInput& input, Call& call) const;
  void AddReplacement(Context& context, const Call& call,
                      TensorView heads) const;
  Temp GateChannels(Context& context, const AttentionInput& input,
                    ConstTensorView heads, Call& call) const;
  void Mix(Context& context, ConstTensorView heads, TensorView y,
           Store store) const;
  struct ProjectionGrads;
  ProjectionGrads MakeGrads(Context& context, const AttentionInput& input,
                            const AttentionSaved& saved, DType type) const;
  ConstTensorView GatesOf(const AttentionSaved& saved) const;
  void MixBackward(Context& context, const AttentionSaved& saved,
                   ConstTensorView dy, TensorView dheads, Temp& dgate) const;
  void GatesBackward(Context& context, const AttentionInput& input,
                     const AttentionSaved& saved, TensorView dgates,
                     TensorView dx) const;
  Temp AttendBackward(Context& context, const AttentionInput& input,
                      const AttentionSaved& saved, AttentionGrads& grads) const;
  void ReturnToProjections(Context& context, const AttentionInput& input,
                           const AttentionSaved& saved,
                           const ProjectionGrads& grads) const;

  AttentionLayerConfig config_;
  AttentionWeights weights_;
  AttentionSite site_;
  std::shared_ptr<const AttentionByHead> by_head_;  // of a mixture
};

}  // namespace headwise
