// One layer of a transformer: self-attention, cross-attention in decoders, and
// the feed-forward half, each around a residual stream x.
//
//   pre-norm:  x += f(norm(x))        post-norm:  x = norm(x + f(x))
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/mlp.h"
#include "headwise/nn/norm.h"
#include "headwise/ops/dropout/dropout.h"

namespace headwise {

enum class NormPlace : uint8_t { kPre, kPost };

// What a backward needs of one residual step, both [T, d].
struct ResidualSaved {
  Temp input;   // of f
  Temp stream;  // of the norm: x before it, or the sum after f
  NormSaved norm;
};

// What a backward needs of a block's forward.
struct BlockSaved {
  ResidualSaved attention_step;
  AttentionSaved attention;
  ResidualSaved cross_step;
  AttentionSaved cross;
  ResidualSaved mlp_step;
  MlpSaved mlp;
};

// What a call brings besides x.
struct BlockInput {
  const SequenceBatch* batch = nullptr;
  ConstTensorView memory;  // decoders: the encoder's output, [S, d]
  const SequenceBatch* memory_batch = nullptr;
  const CacheView* cache = nullptr;        // of self-attention
  const CacheView* cross_cache = nullptr;  // of cross-attention
  RunHooks* hooks = nullptr;
  bool attention_only = false;  // nobody reads x: no feed-forward
  // Whether Backward's dx by the input, and dmemory, are asked for.
  bool input_gradient = true;
  // Training: dropout of what each residual step adds, its streams counted
  // from this one, and what is kept for Backward.
  DropoutMask dropout = {};
  const GateTraining* gate_training = nullptr;
  BlockSaved* saved = nullptr;
};

struct BlockParts {
  std::string name;  // prefix of its activations: "layer.3"
  NormPlace place = NormPlace::kPre;
  AttentionLayer attention;
  Norm attention_norm;
  bool has_cross = false;
  AttentionLayer cross;
  Norm cross_norm;
  Mlp mlp;  // may be absent: attention alone
  Norm mlp_norm;
};

enum class BlockHalf : uint8_t { kAttention, kCross, kMlp };

class Block {
 public:
  explicit Block(BlockParts parts);

  const BlockParts& parts() const { return parts_; }

  // The matrices, biases and norms of one half, those that the model has; not
  // what chooses heads.
  std::vector<const Parameter*> WeightsOf(BlockHalf half) const;
  // Whether anything in a half learns, what chooses its heads included.
  bool Learns(BlockHalf half) const;
  bool Learns() const;

  // x [T, d] in place.
  void Forward(Context& context, const BlockInput& input, TensorView x) const;

  // input as in the forward call, with what it saved. dx [T, d] in place: by
  // the output, then by the input. Cross-attention adds to dmemory [S, d].
  // Without input_gradient it ends with the last half that learns.
  void Backward(Context& context, const BlockInput& input, TensorView dx,
                TensorView dmemory) const;

 private:
  struct Step;
  template <typename Inner>
  void Residual(Context& context, const Step& step, TensorView x,
                const Inner& inner) const;
  // Throws Error(kCorrupt) for x that is not finite (finite.h).
  void RequireFinite(Context& context, const Step& step, TensorView x) const;
  template <typename Inner>
  void ResidualBackward(Context& context, const Step& step, TensorView dx,
                        const Inner& inner) const;
  Step AttentionStep(const BlockInput& input) const;
  Step CrossStep(const BlockInput& input) const;
  Step MlpStep(const BlockInput& input) const;
  AttentionInput Attention(const BlockInput& input) const;
  AttentionInput Cross(const BlockInput& input) const;

  BlockParts parts_;
  bool trained_ = false;  // its numbers are the trainer's to check
};

}  // namespace headwise
