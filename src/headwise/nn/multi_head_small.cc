// Calls of MultiHeadAttention so small that a layer around the operators would
// cost more than they do. Door: multi_head_call.h.
#include "headwise/nn/multi_head_call.h"
#include "headwise/ops/attention/small_layer.h"

namespace headwise {
namespace {

// Nothing is asked for but the output.
bool IsPlain(const MultiHeadAttentionInput& input) {
  return input.x && input.x.rank == 3 && !input.source &&
         !input.query_lengths && !input.key_lengths && !input.gates &&
         !input.replacement && input.active_heads.is_all() &&
         input.observation == nullptr && input.cache == nullptr;
}

}  // namespace

bool MultiHeadAttention::Call::RunSmall(Context& context,
                                        const MultiHeadAttention& module,
                                        const MultiHeadAttentionInput& input,
                                        const TensorView& out) {
  const MultiHeadAttentionConfig& config = module.config();
  if (!IsPlain(input) || input.x.shape[2] != config.d_model ||
      module.rope_ != nullptr || !config.output_projection ||
      config.source_dim != config.d_model) {
    return false;
  }
  const MultiHeadAttentionParameters& p = module.parameters_;
  SmallLayer layer;
  layer.heads = config.heads;
  layer.kv_heads = config.kv_heads;
  layer.head_dim = config.head_dim;
  layer.mask = input.mask;
  layer.x = input.x;
  layer.w_q = p.w_q.view();
  layer.w_k = p.w_k.view();
  layer.w_v = p.w_v.view();
  layer.w_o = p.w_o.view();
  layer.b_q = p.b_q.view();
  layer.b_k = p.b_k.view();
  layer.b_v = p.b_v.view();
  layer.b_o = p.b_o.view();
  layer.out = out;
  return RunSmallLayer(context, layer);
}

}  // namespace headwise
