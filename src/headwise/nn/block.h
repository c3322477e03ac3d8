// One layer of a transformer: self-attention, cross-attention in decoders, and
// the feed-forward half, each around a residual stream x.
//
//   pre-norm:  x += f(norm(x))        post-norm:  x = norm(x + f(x))
#pragma once

#include <cstdint>
#include <string>

#include "headwise/context.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/mlp.h"
#include "headwise/nn/norm.h"

namespace headwise {

enum class NormPlace : uint8_t { kPre, kPost };

// What a call brings besides x.
struct BlockInput {
  const SequenceBatch* batch = nullptr;
  ConstTensorView memory;  // decoders: the encoder's output, [S, d]
  const SequenceBatch* memory_batch = nullptr;
  const CacheView* cache = nullptr;        // of self-attention
  const CacheView* cross_cache = nullptr;  // of cross-attention
  RunHooks* hooks = nullptr;
};

struct BlockParts {
  std::string name;  // prefix of its activations: "layer.3"
  NormPlace place = NormPlace::kPre;
  AttentionLayer attention;
  Norm attention_norm;
  bool has_cross = false;
  AttentionLayer cross;
  Norm cross_norm;
  Mlp mlp;
  Norm mlp_norm;
};

class Block {
 public:
  explicit Block(BlockParts parts);

  const BlockParts& parts() const { return parts_; }

  // x [T, d] in place.
  void Forward(Context& context, const BlockInput& input, TensorView x) const;

 private:
  template <typename Inner>
  void Residual(Context& context, RunHooks* hooks, const char* name,
                const Norm& norm, TensorView x, const Inner& inner) const;

  BlockParts parts_;
};

}  // namespace headwise
