// A transformer as its parts: embeddings, blocks, final norm, vocabulary head.
// One class runs every family; family/*.cc say how each is put together.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/config.h"
#include "headwise/model/sinusoids.h"
#include "headwise/nn/block.h"
#include "headwise/nn/linear.h"
#include "headwise/nn/norm.h"

namespace headwise {

// From ids to the residual stream: tokens (· scale), whose rows may be
// projected,
// + positions + types, then a norm and a projection where the family has them.
// Tables are e wide, which is d where there is no projection.
struct Embeddings {
  Parameter tokens;         // [vocabulary, e]
  Linear token_projection;  // of the tokens' rows alone (OPT); may be absent
  Parameter positions;      // [context, e]; d wide where tokens are projected
  // Instead of a table, sines and cosines of position + first_sinusoid;
  // negative: none.
  int64_t first_sinusoid = -1;
  SinusoidRule sinusoids = SinusoidRule::kWidth;
  int64_t position_offset = 0;
  Parameter types;  // [types, e]; every token is of type 0
  float scale = 1;
  Norm norm;
  Linear projection;  // e → d; may be absent
};

// Embeddings and blocks that share one residual stream.
struct Stack {
  std::string prefix;  // of its activations: "", "encoder.", "decoder."
  Embeddings embeddings;
  std::vector<Block> blocks;
  Norm final_norm;  // may be absent
};

// From the residual stream to logits.
struct VocabularyHead {
  // Masked-LM heads: dense, activation, norm. Without a norm it is dense alone,
  // to the width of the vocabulary's rows.
  Linear transform;
  Activation activation = Activation::kGelu;
  Norm norm;
  float scale = 1;     // of what the vocabulary is multiplied with
  Linear vocabulary;   // absent: the model has no head
  Parameter bias;      // [vocabulary] or [1, vocabulary]; may be absent
  float soft_cap = 0;  // c: logits are c · tanh(logits / c); 0: none

  // Whether logits are one product with the vocabulary's matrix, and no more
  // but biases.
  bool is_product() const { return !transform && scale == 1 && soft_cap == 0; }
};

// Results of a stack's forward that its backward reads.
struct StackSaved {
  Temp embedded;   // [T, e] before the embeddings' norm
  Temp projected;  // [T, e] that the projection read
  NormSaved embedding_norm;
  std::vector<BlockSaved> blocks;
  std::vector<Temp> inputs;  // [T, d] of blocks that are run again instead
  Temp last;                 // [T, d] before the final norm
  NormSaved final_norm;
  SharedKeys shared;
};

// The targets of the rows of a stack's output.
struct HeadTargets {
  std::span<const int32_t> targets;  // one a row; kIgnoreTarget: nothing
  float smoothing = 0;
  // Gradients are of scale · Σ losses.
  float scale = 1;
};

// Told of each part of a model (model_parts.h) whose backward is done: "head",
// "final", "layer.3", "embedding", in this order. Its gradients are complete
// but for what a later part shares.
using PartDone = std::function<void(const std::string& part)>;

// Caches of one run, one a layer; null where there is none.
struct StackCaches {
  std::span<const CacheView> self;   // one a layer
  std::span<const CacheView> cross;  // decoders
};

struct StackInput {
  std::span<const int32_t> ids;  // one a row of the batch
  // i32 on the device: the same numbers; null: the run copies them.
  ConstTensorView ids_there = {};
  const SequenceBatch* batch = nullptr;
  ConstTensorView memory;  // decoders: the encoder's output
  const SequenceBatch* memory_batch = nullptr;
  StackCaches caches;
  HookList hooks = {};
  // For callers that run layer by layer without `saved`: keys and values
  // that layers share.
  SharedKeys* shared = nullptr;
  // Site of a layer of the model: the run ends after its attention; null: it
  // does not. Not where a backward follows.
  const AttentionSite* stop_after = nullptr;
  // Training: dropout, its streams counted from this one (a step has 2^20),
  // and what is kept for Backward.
  DropoutMask dropout = {};
  const GateTraining* gate_training = nullptr;
  StackSaved* saved = nullptr;
  // Only a block's input is kept: Backward runs it again, with the same
  // results. Not where hooks listen.
  bool recompute = false;
  const PartDone* on_backward = nullptr;  // null: nobody asks

  bool RunsAgain() const {
    return saved != nullptr && recompute && hooks.empty();
  }
};

// Every run throws Error(kCorrupt) where its numbers are not finite, with the
// first layer and the weight at fault; models in training are their trainer's.
//
// Immutable once built (but for trainable parameters, whose owner changes
// them between runs); runs may come from several threads, each with its own
// Context.
class Model {
 public:
  struct Parts {
    ModelConfig config;
    Stack stack;                   // the encoder, where there are two
    std::optional<Stack> decoder;  // of an encoder–decoder
    VocabularyHead head;
    std::shared_ptr<const void> weights;  // keeps mapped files open
    // What was made of weights that no product reads as they are stored.
    std::vector<std::shared_ptr<const Tensor>> made = {};
    DType type = DType::kF32;  // of activations
    // Names of tensors of the checkpoint that none of these is.
    std::vector<std::string> unread = {};
  };
  explicit Model(Parts parts);

  const ModelConfig& config() const { return parts_.config; }
  // The type of what runs through the layers, and of logits.
  DType type() const { return parts_.type; }
  const Stack& stack() const { return parts_.stack; }
  const Stack* decoder() const {
    return parts_.decoder ? &*parts_.decoder : nullptr;
  }
  // The stack that predicts: the decoder, or the only one.
  const Stack& predictor() const {
    return parts_.decoder ? *parts_.decoder : parts_.stack;
  }
  const VocabularyHead& head() const { return parts_.head; }
  // Tensors of the checkpoint that are no part of the model, by name: another
  // program may compute with them.
  const std::vector<std::string>& unread() const { return parts_.unread; }
  bool has_head() const { return static_cast<bool>(parts_.head.vocabulary); }

  // Memory of the host for weights that are laid out anew for products; null:
  // no limit. Where it is used up, products read the weights as they are
  // stored: the same results, slower. Before the first run.
  void LimitPreparedWeights(const std::shared_ptr<MemoryBudget>& budget);
  // As much as that ever takes where nothing limits it.
  uint64_t MostPreparedBytes() const;

  // ids → x [T, d], through all layers and the final norm. Returns whether it
  // came so far: false after input.stop_after, when x is of no use.
  bool Run(Context& context, const Stack& stack, const StackInput& input,
           TensorView x) const;
  // A stack's token embeddings [vocabulary, e], on the context's device.
  ConstTensorView TokenEmbeddings(Context& context, const Stack& stack) const {
    return TablesOf(stack).tokens.view(context);
  }
  // The same in steps, for callers that stop between layers.
  void Embed(Context& context, const Stack& stack, const StackInput& input,
             TensorView x) const;
  void RunLayer(Context& context, const Stack& stack, int64_t layer,
                const StackInput& input, TensorView x) const;
  void Finish(Context& context, const Stack& stack, const HookList& hooks,
              TensorView x, StackSaved* saved = nullptr) const;

  // logits [rows, vocabulary] of x [rows, d] as Run left it. Throws
  // Error(kUnsupported) for a model without a head.
  void Logits(Context& context, ConstTensorView x, TensorView logits) const;

  // Backwards through what Run did, input being the same with what it saved:
  // dx [T, d] by the output is overwritten; gradients of trainable parameters
  // are added to; decoders add to dmemory [S, d]. Without hooks it ends where
  // nothing below learns.
  void Backward(Context& context, const Stack& stack, const StackInput& input,
                TensorView dx, TensorView dmemory = {}) const;

  // Σ cross-entropy (nats) of what x [rows, d], as Run left it, predicts. With
  // dx [rows, d], which is overwritten, also the head's backward. Never holds
  // the logits of more than kHeadRows rows. Throws as Logits does.
  double HeadLoss(Context& context, ConstTensorView x,
                  const HeadTargets& targets, TensorView dx = {}) const;

 private:
  struct HeadRun;
  // Those of all products, in the order in which a run reads them.
  std::vector<std::shared_ptr<PreparedWeights>> PreparedOfAll() const;
  // The tables that a stack's embeddings read, on the device.
  struct Tables {
    explicit Tables(const Embeddings& embeddings, const ModelConfig& config);
    Values tokens, positions, types;
    std::shared_ptr<const Sinusoids> sinusoids;  // may be absent
  };
  const Tables& TablesOf(const Stack& stack) const;
  void LookUp(Context& context, const Stack& stack, const StackInput& input,
              TensorView rows) const;
  void AddPositions(Context& context, const Stack& stack,
                    const StackInput& input, TensorView x) const;
  // As learns_from_; hooks that listen see every layer.
  int64_t BackwardEnd(const Stack& stack, const StackInput& input) const {
    return !input.hooks.empty() ? -1 : learns_from_[&stack == decoder()];
  }
  DropoutMask EmbeddingDropout(const Stack& stack,
                               const StackInput& input) const;
  BlockInput LayerInput(const Stack& stack, int64_t layer,
                        const StackInput& input) const;
  // These throw Error(kCorrupt) for numbers that are not finite (finite.h).
  void EmbedRows(Context& context, const Stack& stack, const StackInput& input,
                 TensorView x) const;
  void RequireFiniteEmbedding(Context& context, const Stack& stack,
                              const StackInput& input, TensorView x) const;
  void RequireFiniteEnd(Context& context, const Stack& stack,
                        TensorView x) const;
  void RequireFiniteLogits(Context& context, TensorView logits) const;
  void EmbedBackward(Context& context, const Stack& stack,
                     const StackInput& input, TensorView dx) const;
  void LookUpBackward(Context& context, const Stack& stack,
                      const StackInput& input, TensorView drows) const;
  void EmbedRowsBackward(Context& context, const Stack& stack,
                         const StackInput& input, TensorView dx) const;
  void RequireHead() const;
  void RunHead(Context& context, ConstTensorView x, TensorView logits,
               HeadRun& run) const;
  void AddHeadBias(Context& context, TensorView logits) const;
  void CapLogits(Context& context, TensorView logits, HeadRun& run) const;
  void RunHeadBackward(Context& context, ConstTensorView x, TensorView dlogits,
                       const HeadRun& run, TensorView dx) const;

  Parts parts_;
  std::vector<Tables> tables_;  // of the stack and the decoder
  // For each stack the lowest layer to which gradients must come, −1: to the
  // embeddings. What is frozen below needs none.
  std::array<int64_t, 2> learns_from_ = {};
  Values head_bias_;
  bool trained_ = false;  // its numbers are the trainer's to check
};

// Rows whose logits are held at a time while training.
inline constexpr int64_t kHeadRows = 512;

}  // namespace headwise
