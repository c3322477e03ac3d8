// The weights of single heads.
#pragma once

#include <optional>
#include <vector>

#include "headwise/export.h"
#include "headwise/head_ref.h"
#include "headwise/tensor.h"

namespace headwise {

class Transformer;  // model.h

/// The weights of one head, in the mathematician's orientation (x is a row):
/// q = x·W_Q, k = x·W_K, v = x·W_V, and what it writes is v·W_O. Heads of one
/// group share W_K and W_V. f32 on the host. Gains of norms of queries and keys
/// are part of W_Q and W_K.
struct HeadMatrices {
  Tensor q = {};   ///< W_Q [d, D]
  Tensor k = {};   ///< W_K [d, D]; cross-attention: of the source's width
  Tensor v = {};   ///< W_V [d, E]
  Tensor o = {};   ///< W_O [E, d]; empty where the layer has none
  Tensor qk = {};  ///< W_Q·W_Kᵀ [d, d]: how it matches, at equal positions
  Tensor ov = {};  ///< W_V·W_O [d, d]: what it writes of what it reads
};

/// Copies of one head's weights. Throws Error: kInvalidArgument for a head that
/// the model does not have, kCorrupt for weights that are not finite.
HEADWISE_API HeadMatrices WeightsOfHead(Transformer& model,
                                        const HeadRef& head);

/// How large a head's matrices are, and what was learned of its use.
struct HeadSize {
  HeadRef head = {};
  double qk_norm = 0;  ///< Frobenius norm of W_Q·W_Kᵀ
  double ov_norm = 0;  ///< Frobenius norm of W_V·W_O
  /// Queries and keys are normed: their scale is then not in the scores.
  bool query_norms = false;
  std::optional<double> gate = {};  ///< from 0 to 1, of hard concrete gates
  std::optional<double> span = {};  ///< tokens, of learned spans
};

/// Weights of every head, in the order of HeadsOf.
HEADWISE_API std::vector<HeadSize> SizesOfHeads(Transformer& model);

}  // namespace headwise
