// Running a transformer. Door: model.h.
#include "headwise/model/model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/backend/cpu/workspace.h"
#include "headwise/error.h"
#include "headwise/ops/activation/activation.h"
#include "headwise/ops/embedding/embedding.h"

namespace headwise {
namespace {

void Tap(RunHooks* hooks, const std::string& name, const TensorView& x) {
  if (hooks != nullptr && hooks->Wants(name)) hooks->Take(name, x);
}

// The rows of the position table that a batch reads.
std::vector<int32_t> PositionRows(const Embeddings& embeddings,
                                  const SequenceBatch& batch, int64_t rows) {
  std::vector<int32_t> ids = batch.positions;
  for (int32_t& id : ids) {
    id += static_cast<int32_t>(embeddings.position_offset);
    if (id < rows) continue;
    throw Error(
        ErrorCode::kInvalidArgument,
        {"model",
         "at most " + std::to_string(rows - embeddings.position_offset) +
             " positions",
         std::to_string(id - embeddings.position_offset + 1),
         "shorten the input or cut it with --truncate"});
  }
  return ids;
}

}  // namespace

Tensor Sinusoids(int64_t count, int64_t width, int64_t first) {
  Tensor table(DType::kF32, {count, width});
  const int64_t half = width / 2;
  for (int64_t row = 0; row < count; ++row) {
    float* values = table.As<float>() + row * width;
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(first + row) *
                           std::pow(10000.0, -static_cast<double>(i) /
                                                 static_cast<double>(half));
      values[i] = static_cast<float>(std::sin(angle));
      values[half + i] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

Model::Model(Parts parts) : parts_(std::move(parts)) {
  if (parts_.head.bias) head_bias_ = ToF32(parts_.head.bias);
}

void Model::Embed(Context& context, const Stack& stack, const StackInput& input,
                  TensorView x) const {
  const Embeddings& e = stack.embeddings;
  EmbeddingForward(context, e.tokens.value, input.ids, x);
  const int64_t count = x.shape[0] * x.shape[1];
  if (e.scale != 1) {
    for (int64_t i = 0; i < count; ++i) x.As<float>()[i] *= e.scale;
  }
  const ConstTensorView table =
      e.positions ? e.positions.value : e.sinusoids.view();
  if (table) {
    EmbeddingForward(context, table,
                     PositionRows(e, *input.batch, table.shape[0]), x,
                     EmbeddingWrite::kAdd);
  }
  if (e.types) {
    const std::vector<int32_t> types(input.ids.size(), 0);
    EmbeddingForward(context, e.types.value, types, x, EmbeddingWrite::kAdd);
  }
  if (e.norm) e.norm.Forward(context, x, x);
  Tap(input.hooks, stack.prefix + "embedding", x);
}

void Model::RunLayer(Context& context, const Stack& stack, int64_t layer,
                     const StackInput& input, TensorView x) const {
  BlockInput block;
  block.batch = input.batch;
  block.memory = input.memory;
  block.memory_batch = input.memory_batch;
  if (!input.caches.self.empty()) block.cache = &input.caches.self[layer];
  if (!input.caches.cross.empty()) {
    block.cross_cache = &input.caches.cross[layer];
  }
  block.hooks = input.hooks;
  stack.blocks[layer].Forward(context, block, x);
}

void Model::Finish(Context& context, const Stack& stack, RunHooks* hooks,
                   TensorView x) const {
  if (stack.final_norm) stack.final_norm.Forward(context, x, x);
  Tap(hooks, stack.prefix + "final", x);
}

void Model::Run(Context& context, const Stack& stack, const StackInput& input,
                TensorView x) const {
  Embed(context, stack, input, x);
  for (size_t layer = 0; layer < stack.blocks.size(); ++layer) {
    RunLayer(context, stack, static_cast<int64_t>(layer), input, x);
  }
  Finish(context, stack, input.hooks, x);
}

void Model::Logits(Context& context, ConstTensorView x,
                   TensorView logits) const {
  const VocabularyHead& head = parts_.head;
  if (!has_head()) {
    throw Error(ErrorCode::kUnsupported,
                {parts_.config.model_type, "a model with a vocabulary head",
                 "an encoder without one",
                 "its last hidden states can be read "
                 "as the activation \"final\""});
  }
  const int64_t rows = x.shape[0];
  Scratch memory;
  if (head.transform) {
    const int64_t width = head.transform.out();
    memory = context.workspace().TakeArray<float>(rows * width);
    float* data = memory.As<float>();
    const TensorView y = View(data, {rows, width});
    head.transform.Forward(context, x, y);
    ActivationForward(context,
                      {head.activation, rows * width, data, nullptr, data});
    head.norm.Forward(context, y, y);
    x = y;
  }
  head.vocabulary.Forward(context, x, logits);
  if (head_bias_.size() == 0) return;
  const int64_t classes = logits.shape[1];
  for (int64_t row = 0; row < rows; ++row) {
    float* z = logits.As<float>() + row * logits.stride[0];
    for (int64_t c = 0; c < classes; ++c) z[c] += head_bias_.As<float>()[c];
  }
}

}  // namespace headwise
