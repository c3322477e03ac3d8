// Block: residual steps around attention and feed-forward. Door: block.h.
#include "headwise/nn/block.h"

#include <algorithm>
#include <utility>

#include "headwise/backend/cpu/workspace.h"

namespace headwise {

Block::Block(BlockParts parts) : parts_(std::move(parts)) {}

// One residual step. inner(in, y, store) writes f(in) to y or adds it.
template <typename Inner>
void Block::Residual(Context& context, RunHooks* hooks, const char* name,
                     const Norm& norm, TensorView x, const Inner& inner) const {
  const int64_t rows = x.shape[0], width = x.shape[1];
  const bool pre = parts_.place == NormPlace::kPre;
  const std::string activation = parts_.name + name;
  const bool wanted = hooks != nullptr && hooks->Wants(activation);
  Scratch input_memory = context.workspace().TakeArray<float>(rows * width);
  const TensorView input = View(input_memory.As<float>(), {rows, width});
  if (pre) {
    norm.Forward(context, x, input);
  } else {
    std::copy_n(x.As<float>(), rows * width, input.As<float>());
  }
  if (wanted) {
    Scratch memory = context.workspace().TakeArray<float>(rows * width);
    const TensorView output = View(memory.As<float>(), {rows, width});
    inner(input, output, Store::kOverwrite);
    hooks->Take(activation, output);
    for (int64_t i = 0; i < rows * width; ++i) {
      x.As<float>()[i] += output.As<float>()[i];
    }
  } else {
    inner(input, x, Store::kAccumulate);
  }
  if (!pre) norm.Forward(context, x, x);
}

void Block::Forward(Context& context, const BlockInput& input,
                    TensorView x) const {
  RunHooks* hooks = input.hooks;
  auto take = [&](const char* suffix) {
    const std::string name = parts_.name + suffix;
    if (hooks != nullptr && hooks->Wants(name)) hooks->Take(name, x);
  };
  take(".input");
  Residual(context, hooks, ".attention.output", parts_.attention_norm, x,
           [&](ConstTensorView in, TensorView y, Store store) {
             AttentionInput attention;
             attention.x = in;
             attention.batch = input.batch;
             attention.cache = input.cache;
             attention.hooks = hooks;
             parts_.attention.Forward(context, attention, y, store);
           });
  if (parts_.has_cross) {
    Residual(context, hooks, ".cross.output", parts_.cross_norm, x,
             [&](ConstTensorView in, TensorView y, Store store) {
               AttentionInput cross;
               cross.x = in;
               cross.batch = input.batch;
               cross.memory = input.memory;
               cross.memory_batch = input.memory_batch;
               cross.cache = input.cross_cache;
               cross.hooks = hooks;
               parts_.cross.Forward(context, cross, y, store);
             });
  }
  Residual(context, hooks, ".mlp.output", parts_.mlp_norm, x,
           [&](ConstTensorView in, TensorView y, Store store) {
             parts_.mlp.Forward(context, in, y, store);
           });
  take(".output");
}

}  // namespace headwise
