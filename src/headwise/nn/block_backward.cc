// Block, backwards. Door: block.h.
#include <utility>

#include "headwise/nn/block.h"
#include "headwise/nn/block_run.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"

namespace headwise {

// Gradients that parallel steps share on the way back.
struct Block::Returning {
  Temp dsum;    // by the x that all of them were added to
  Temp dinput;  // by an input that a later step read too
};

// dinput [T, d] is overwritten.
void Block::WorkBackward(const Run& run, size_t index, ConstTensorView dy,
                         TensorView dinput, TensorView dmemory) const {
  const BlockStep& step = steps_[index];
  const StepSaved& saved = *run.Saved(index);
  const ConstTensorView in = saved.input.view();
  if (step.experts) {
    return step.experts.Backward(run.context, in, saved.experts, dy, dinput);
  }
  if (step.kind == StepKind::kFeedForward) {
    return step.mlp.Backward(run.context, in, saved.mlp, dy, dinput);
  }
  AttentionInput attention = run.Attention(step, index);
  attention.x = in;
  const bool cross = step.kind == StepKind::kCross;
  step.attention.Backward(run.context, attention, saved.attention, dy, dinput,
                          cross ? dmemory : TensorView());
}

// dx: by x behind the step, then by x before it.
void Block::StepBackward(const Run& run, size_t index, TensorView dx,
                         TensorView dmemory, Returning& returning) const {
  const BlockStep& step = steps_[index];
  const StepSaved& saved = *run.Saved(index);
  Context& context = run.context;
  const Shape shape = {dx.shape[0], dx.shape[1]};
  if (step.joined) {
    step.joined.Backward(context, saved.joined.x.view(), saved.joined.norm, dx,
                         dx);
  }
  if (step.stream_scale != 1) Scale(context, step.stream_scale, dx, dx);
  const bool beside = step.input != StepInput::kStream;
  if (beside && !returning.dsum) returning.dsum = CopyOf(context, dx);
  ConstTensorView dadded = returning.dsum ? returning.dsum.view() : dx;
  Temp memory;
  const DropoutMask dropout = run.Dropout(step);
  if (dropout.rate > 0 || step.after || step.scale != 1) {
    memory = Temp(context, dx.type, shape);
    const TensorView own = memory.view();
    dropout.rate > 0 ? headwise::Dropout(context, dropout, {dadded, own})
                     : Copy(context, dadded, own);
    if (step.scale != 1) Scale(context, step.scale, own, own);
    if (step.after) {
      step.after.Backward(context, saved.after.x.view(), saved.after.norm, own,
                          own);
    }
    dadded = own;
  }
  Temp input_memory(context, dx.type, shape);
  const TensorView dinput = input_memory.view();
  WorkBackward(run, index, dadded, dinput, dmemory);
  if (returning.dinput) AddTo(context, returning.dinput.view(), dinput);
  returning.dinput = Temp();
  if (!beside) returning.dsum = Temp();
  if (step.input == StepInput::kShared) {
    returning.dinput = std::move(input_memory);
  } else if (step.before) {
    step.before.Backward(context, saved.before.x.view(), saved.before.norm,
                         dinput, dx, dx);
  } else {
    AddTo(context, dinput, dx);
  }
}

void Block::Backward(Context& context, const BlockInput& input, TensorView dx,
                     TensorView dmemory) const {
  size_t end = 0;
  while (!input.input_gradient && end + 1 < steps_.size() &&
         !steps_[end].Learns()) {
    ++end;
  }
  const Run run = {context, input};
  Returning returning;
  for (size_t i = steps_.size(); i > end; --i) {
    StepBackward(run, i - 1, dx, dmemory, returning);
  }
}

}  // namespace headwise
