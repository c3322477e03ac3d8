// SequencePass. Door: sequence_pass.h.
#include "headwise/model/sequence_pass.h"

#include "headwise/ops/copy/copy.h"

namespace headwise {

SequencePass::SequencePass(const Model& model, const PassInput& input)
    : model_(model) {
  input_.ids = input.ids;
  input_.ids_there = input.ids_there;
  input_.batch = input.batch;
  input_.hooks = input.hooks;
  input_.stop_after = input.stop_after;
  input_.dropout = input.dropout;
  input_.gate_training = input.gate_training;
  input_.recompute = input.recompute;
  input_.on_backward = input.on_backward;
  if (input.keep) input_.saved = &saved_;
  if (!paired()) return;
  decoder_ = input_;
  decoder_.ids = input.decoder_ids;
  decoder_.ids_there = input.decoder_ids_there;
  decoder_.batch = input.decoder_batch;
  decoder_.memory_batch = input.batch;
  if (input.keep) decoder_.saved = &decoder_saved_;
}

void SequencePass::Forward(Context& context, TensorView x) {
  if (!paired()) {
    model_.Run(context, model_.stack(), input_, x);
    return;
  }
  memory_ = Temp(context, model_.type(),
                 {input_.batch->total(), model_.config().width});
  if (!model_.Run(context, model_.stack(), input_, memory_.view())) return;
  decoder_.memory = memory_.view();
  model_.Run(context, *model_.decoder(), decoder_, x);
}

void SequencePass::Backward(Context& context, TensorView dx) {
  if (!paired()) return model_.Backward(context, model_.stack(), input_, dx);
  const Temp dmemory(context, model_.type(),
                     {input_.batch->total(), model_.config().width});
  Fill(context, 0, dmemory.view());
  model_.Backward(context, *model_.decoder(), decoder_, dx, dmemory.view());
  model_.Backward(context, model_.stack(), input_, dmemory.view());
}

}  // namespace headwise
