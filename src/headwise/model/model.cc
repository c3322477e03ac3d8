// Running a transformer, forward and backward. Door: model.h.
#include "headwise/model/model.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/model/summary.h"
#include "headwise/nn/finite.h"
#include "headwise/nn/release.h"
#include "headwise/ops/activation/activation.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/embedding/embedding.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

void Tell(const StackInput& input, const std::string& part) {
  if (input.on_backward != nullptr) (*input.on_backward)(part);
}

// Where the decoder's dropout streams begin, above any encoder's.
constexpr uint64_t kDecoderStreams = uint64_t{1} << 19;

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
         "shorten the input or `truncate` it"});
  }
  return ids;
}

constexpr int64_t kNothingLearns = std::numeric_limits<int64_t>::max();

// The lowest layer of a stack that learns, −1 where its embeddings do, what
// follows its blocks included; kNothingLearns.
int64_t LowestLearning(const Stack& stack) {
  const auto trainable = [](const Parameter& parameter) {
    return parameter.trainable();
  };
  const auto learns = [&](const Norm& norm) {
    return norm && (trainable(norm.weight_parameter()) ||
                    trainable(norm.bias_parameter()));
  };
  const Embeddings& e = stack.embeddings;
  if (trainable(e.tokens) || trainable(e.positions) || trainable(e.types) ||
      learns(e.norm) ||
      std::ranges::any_of(
          e.token_projection.parameters(),
          [](const Parameter* one) { return one->trainable(); })) {
    return -1;
  }
  for (const Parameter* weight : e.projection.parameters()) {
    if (trainable(*weight)) return -1;
  }
  const auto count = static_cast<int64_t>(stack.blocks.size());
  for (int64_t layer = 0; layer < count; ++layer) {
    if (stack.blocks[layer].Learns()) return layer;
  }
  return learns(stack.final_norm) ? count : kNothingLearns;
}

// Layers that attend to the keys of an earlier one fit it.
void RequireSharedKeys(const Stack& stack) {
  for (size_t i = 0; i < stack.blocks.size(); ++i) {
    const AttentionLayer& layer = stack.blocks[i].attention();
    if (layer.has_own_keys()) continue;
    const int64_t from = layer.config().keys_of;
    if (from < static_cast<int64_t>(i)) {
      const AttentionLayer& source = stack.blocks[from].attention();
      const AttentionLayerConfig &a = layer.config(), &b = source.config();
      if (b.shares_keys && a.kv_heads == b.kv_heads &&
          a.head_dim == b.head_dim && layer.value_dim() == source.value_dim()) {
        continue;
      }
    }
    throw Error(ErrorCode::kInvalidArgument,
                {layer.site().name,
                 "an earlier layer that shares keys and values of its sizes",
                 "layer " + std::to_string(from), ""});
  }
}

// A block's forward once more, from its input, and its backward. Penalties were
// counted before; x is not asked for again.
void RunAgain(Context& context, const Block& block, BlockInput input, Temp& x,
              const TensorView& dx, const TensorView& dmemory) {
  GateTraining training;
  double counted = 0;
  if (input.gate_training != nullptr) {
    training = *input.gate_training;
    training.loss = &counted;
    input.gate_training = &training;
  }
  BlockSaved saved;
  input.saved = &saved;
  block.Forward(context, input, x.view());
  x = {};
  block.Backward(context, input, dx, dmemory);
}

// Numbers of the host as the context's device reads them, while this lives.
class DeviceNumbers {
 public:
  DeviceNumbers(Context& context, std::span<const int32_t> values)
      : view_(OnDevice(context, ViewOf(values), copy_)) {}
  operator const ConstTensorView&() const { return view_; }  // NOLINT

 private:
  Temp copy_;
  ConstTensorView view_;
};

}  // namespace

Model::Model(Parts parts)
    : parts_(std::move(parts)), head_bias_(parts_.head.bias) {
  trained_ = !parts_.stack.embeddings.tokens.fixed();
  RequireSharedKeys(stack());
  if (decoder() != nullptr) RequireSharedKeys(*decoder());
  learns_from_ = {LowestLearning(stack()), 0};
  tables_.emplace_back(stack().embeddings, config());
  if (decoder() != nullptr) {
    tables_.emplace_back(decoder()->embeddings, config());
    // The encoder learns through every layer of the decoder.
    learns_from_[1] =
        learns_from_[0] < kNothingLearns ? -1 : LowestLearning(*decoder());
  }
  KeepTogether(PreparedOfAll());
}

std::vector<std::shared_ptr<PreparedWeights>> Model::PreparedOfAll() const {
  std::vector<const Linear*> linears = LinearsOf(stack());
  linears.push_back(&parts_.head.transform);
  linears.push_back(&parts_.head.vocabulary);
  if (decoder() != nullptr) {
    const std::vector<const Linear*> more = LinearsOf(*decoder());
    linears.insert(linears.end(), more.begin(), more.end());
  }
  std::vector<std::shared_ptr<PreparedWeights>> weights;
  // Layers may share theirs.
  std::set<const PreparedWeights*> known;
  for (const Linear* linear : linears) {
    const auto& own = linear->weights();
    if (own && known.insert(own.get()).second) weights.push_back(own);
  }
  return weights;
}

void Model::LimitPreparedWeights(const std::shared_ptr<MemoryBudget>& budget) {
  LimitPrepared(PreparedOfAll(), budget);
}

uint64_t Model::MostPreparedBytes() const {
  uint64_t bytes = 0;
  for (const auto& one : PreparedOfAll()) {
    bytes += headwise::MostPreparedBytes(*one);
  }
  return bytes;
}

Model::Tables::Tables(const Embeddings& embeddings, const ModelConfig& config)
    : tokens(embeddings.tokens, Values::Type::kStored),
      positions(embeddings.positions, Values::Type::kStored),
      types(embeddings.types, Values::Type::kStored) {
  if (embeddings.positions || embeddings.first_sinusoid < 0) return;
  sinusoids = std::make_shared<const Sinusoids>(embeddings.sinusoids,
                                                embeddings.first_sinusoid,
                                                config.width, config.context);
}

const Model::Tables& Model::TablesOf(const Stack& stack) const {
  return tables_[&stack == decoder() ? 1 : 0];
}

void Model::AddPositions(Context& context, const Stack& stack,
                         const StackInput& input, TensorView x) const {
  const Embeddings& e = stack.embeddings;
  const Tables& tables = TablesOf(stack);
  // Those of a batch that was made here; Session checks its own.
  const std::vector<int32_t> ids = PositionRows(
      e, *input.batch,
      tables.positions ? e.positions.value.shape[0] : parts_.config.context);
  if (ids.empty()) return;
  std::shared_ptr<const Tensor> made;  // kept while it is read
  ConstTensorView table = tables.positions.view(context);
  if (tables.sinusoids != nullptr) {
    const int64_t last = *std::max_element(ids.begin(), ids.end());
    made = tables.sinusoids->Table(context, last + 1);
    table = made->view();
  }
  // Position p is row p + offset.
  EmbeddingForward(context, {EmbeddingWrite::kAdd},
                   {Rows(table, e.position_offset, table.shape[0]),
                    input.batch->PositionsOn(context), x});
}

// The rows of the tokens, scaled.
void Model::LookUp(Context& context, const Stack& stack,
                   const StackInput& input, TensorView rows) const {
  const Embeddings& e = stack.embeddings;
  Temp copy;
  const ConstTensorView ids = input.ids_there
                                  ? input.ids_there
                                  : OnDevice(context, ViewOf(input.ids), copy);
  EmbeddingForward(context, {},
                   {TablesOf(stack).tokens.view(context), ids, rows});
  ReleaseTable(e.tokens, input.ids.size());
  if (e.scale != 1) Scale(context, e.scale, rows, rows);
}

void Model::Embed(Context& context, const Stack& stack, const StackInput& input,
                  TensorView x) const {
  const Linear& projection = stack.embeddings.projection;
  if (projection) {
    Temp rows(context, x.type, {x.shape[0], projection.in()});
    EmbedRows(context, stack, input, rows.view());
    projection.Forward(context, rows.view(), x);
    RequireFiniteEmbedding(context, stack, input, x);
    if (input.saved != nullptr) input.saved->projected = std::move(rows);
  } else {
    EmbedRows(context, stack, input, x);
  }
  input.hooks.Change(stack.prefix + "embedding", x);
}

// x [T, e]: all but the projection.
void Model::EmbedRows(Context& context, const Stack& stack,
                      const StackInput& input, TensorView x) const {
  const Embeddings& e = stack.embeddings;
  const Tables& tables = TablesOf(stack);
  if (e.token_projection) {
    const Temp rows(context, x.type, {x.shape[0], e.token_projection.in()});
    LookUp(context, stack, input, rows.view());
    e.token_projection.Forward(context, rows.view(), x);
  } else {
    LookUp(context, stack, input, x);
  }
  if (tables.positions || tables.sinusoids != nullptr) {
    AddPositions(context, stack, input, x);
  }
  if (tables.types) {
    const std::vector<int32_t> types(input.ids.size(), 0);
    EmbeddingForward(
        context, {EmbeddingWrite::kAdd},
        {tables.types.view(context), DeviceNumbers(context, types), x});
  }
  StackSaved* saved = input.saved;
  RequireFiniteEmbedding(context, stack, input, x);
  if (e.norm) {
    if (saved != nullptr) saved->embedded = CopyOf(context, x);
    e.norm.Forward(context, x, x,
                   saved != nullptr ? &saved->embedding_norm : nullptr);
    RequireFiniteEmbedding(context, stack, input, x);
  }
  if (const DropoutMask mask = EmbeddingDropout(stack, input); mask.rate > 0) {
    Dropout(context, mask, {x, x});
  }
}

void Model::RequireFiniteEmbedding(Context& context, const Stack& stack,
                                   const StackInput& input,
                                   TensorView x) const {
  if (trained_ || !ChecksEachStep(context)) return;
  if (AllWithin(context, x, kMostFinite)) return;
  const Embeddings& e = stack.embeddings;
  // Only the rows that were read: a table may be large, and bad elsewhere.
  Parameter token = e.tokens;
  const int64_t row = FirstBeyond(context, x, kMostFinite) / x.shape[1];
  token.value = Rows(token.value, input.ids[row], input.ids[row] + 1);
  token.name += " of token " + std::to_string(input.ids[row]);
  NumberSource source{stack.prefix + "embedding",
                      {&token, &e.positions, &e.types,
                       &e.norm.weight_parameter(), &e.norm.bias_parameter()}};
  std::ranges::copy(e.projection.parameters(),
                    std::back_inserter(source.weights));
  ThrowNotFinite(context, source, x);
}

void Model::RequireFiniteEnd(Context& context, const Stack& stack,
                             TensorView x) const {
  if (trained_ || AllWithin(context, x, kMostFinite)) return;
  const Norm& norm = stack.final_norm;
  ThrowNotFinite(context,
                 {stack.prefix + "final",
                  {&norm.weight_parameter(), &norm.bias_parameter()}},
                 x);
}

// A weight that is not finite shows in every row, so that two of them tell;
// looking at all would take as long as a thin model's product.
void Model::RequireFiniteLogits(Context& context, TensorView logits) const {
  const int64_t rows = logits.shape[0], classes = logits.shape[1];
  if (trained_ || rows == 0 || !ChecksEachStep(context)) return;
  for (const int64_t row : {int64_t{0}, rows - 1}) {
    const ConstTensorView values = Rows(logits, row, row + 1);
    // Padding may be shut out by −∞.
    const int64_t pad = std::clamp<int64_t>(parts_.config.pad, -1, classes - 1);
    const ConstTensorView before =
        Columns(values, 0, std::max<int64_t>(pad, 0));
    const ConstTensorView after = Columns(values, pad + 1, classes);
    if (AllWithin(context, before, kMostFinite) &&
        AllWithin(context, after, kMostFinite)) {
      continue;
    }
    const VocabularyHead& head = parts_.head;
    NumberSource source{"logits", {&head.bias}};
    for (const Linear* linear : {&head.transform, &head.vocabulary}) {
      const auto own = linear->parameters();
      source.weights.insert(source.weights.end(), own.begin(), own.end());
    }
    source.weights.insert(source.weights.end(), {&head.norm.weight_parameter(),
                                                 &head.norm.bias_parameter()});
    ThrowNotFinite(context, source, values);
  }
}

// The backward of Embed: dx [T, d] by its result, which is overwritten.
void Model::EmbedBackward(Context& context, const Stack& stack,
                          const StackInput& input, TensorView dx) const {
  const Linear& projection = stack.embeddings.projection;
  if (!projection) return EmbedRowsBackward(context, stack, input, dx);
  const Temp drows(context, dx.type, {dx.shape[0], projection.in()});
  projection.Backward(context, input.saved->projected.view(), dx, drows.view());
  EmbedRowsBackward(context, stack, input, drows.view());
}

void Model::EmbedRowsBackward(Context& context, const Stack& stack,
                              const StackInput& input, TensorView dx) const {
  const Embeddings& e = stack.embeddings;
  if (const DropoutMask mask = EmbeddingDropout(stack, input); mask.rate > 0) {
    Dropout(context, mask, {dx, dx});
  }
  if (e.norm) {
    e.norm.Backward(context, input.saved->embedded.view(),
                    input.saved->embedding_norm, dx, dx);
  }
  if (e.positions.trainable()) {
    const auto ids = PositionRows(e, *input.batch, e.positions.value.shape[0]);
    EmbeddingBackward(context, DeviceNumbers(context, ids),
                      {dx, e.positions.gradient});
  }
  if (e.types.trainable()) {
    const std::vector<int32_t> types(input.ids.size(), 0);
    EmbeddingBackward(context, DeviceNumbers(context, types),
                      {dx, e.types.gradient});
  }
  if (!e.token_projection) return LookUpBackward(context, stack, input, dx);
  const Shape shape = {dx.shape[0], e.token_projection.in()};
  const Temp rows(context, dx.type, shape), drows(context, dx.type, shape);
  LookUp(context, stack, input, rows.view());
  e.token_projection.Backward(context, rows.view(), dx, drows.view());
  LookUpBackward(context, stack, input, drows.view());
}

// drows by the rows of the tokens, which is overwritten.
void Model::LookUpBackward(Context& context, const Stack& stack,
                           const StackInput& input, TensorView drows) const {
  const Embeddings& e = stack.embeddings;
  if (!e.tokens.trainable()) return;
  // Where padding stands for nothing its row does not learn from what it was
  // fed.
  std::vector<float> scales;
  for (const int32_t id : input.ids) {
    const bool still = id == config().pad && !config().padding_learns;
    scales.push_back(still ? 0 : e.scale);
  }
  if (std::any_of(scales.begin(), scales.end(),
                  [](float scale) { return scale != 1; })) {
    const Shape rows = {drows.shape[0], 1},
                all = {drows.shape[0], drows.shape[1]};
    const Temp factors(context, drows.type, rows);
    Copy(context, Reshaped(ViewOf(scales), rows), factors.view());
    Multiply(context, drows, Broadcast(factors.view(), all), drows);
  }
  EmbeddingBackward(context, DeviceNumbers(context, input.ids),
                    {drows, e.tokens.gradient});
}

// Streams of a step: 4 a layer, the encoder's first, then the decoder's.
DropoutMask Model::EmbeddingDropout(const Stack& stack,
                                    const StackInput& input) const {
  DropoutMask mask = input.dropout;
  mask.stream += (&stack == decoder() ? kDecoderStreams : 0) + 3;
  return mask;
}

BlockInput Model::LayerInput(const Stack& stack, int64_t layer,
                             const StackInput& input) const {
  BlockInput block;
  block.batch = input.batch;
  block.memory = input.memory;
  block.memory_batch = input.memory_batch;
  if (!input.caches.self.empty()) block.cache = &input.caches.self[layer];
  if (!input.caches.cross.empty()) {
    block.cross_cache = &input.caches.cross[layer];
  }
  block.hooks = input.hooks;
  block.shared = input.saved != nullptr ? &input.saved->shared : input.shared;
  block.stop_after = input.stop_after;
  block.dropout = input.dropout;
  block.gate_training = input.gate_training;
  block.dropout.stream += (&stack == decoder() ? kDecoderStreams : 0) +
                          4 * static_cast<uint64_t>(layer);
  const int64_t end = BackwardEnd(stack, input);
  if (input.saved != nullptr && layer >= end) {
    block.saved = &input.saved->blocks[layer];
  }
  block.input_gradient = layer > end;
  return block;
}

void Model::RunLayer(Context& context, const Stack& stack, int64_t layer,
                     const StackInput& input, TensorView x) const {
  stack.blocks[layer].Forward(context, LayerInput(stack, layer, input), x);
}

void Model::Finish(Context& context, const Stack& stack, const HookList& hooks,
                   TensorView x, StackSaved* saved) const {
  if (stack.final_norm) {
    if (saved != nullptr) saved->last = CopyOf(context, x);
    stack.final_norm.Forward(context, x, x,
                             saved != nullptr ? &saved->final_norm : nullptr);
    if (ChecksEachStep(context)) RequireFiniteEnd(context, stack, x);
  }
  hooks.Change(stack.prefix + "final", x);
}

bool Model::Run(Context& context, const Stack& stack, const StackInput& input,
                TensorView x) const {
  if (input.saved != nullptr) input.saved->blocks.resize(stack.blocks.size());
  if (input.RunsAgain()) input.saved->inputs.resize(stack.blocks.size());
  Embed(context, stack, input, x);
  SharedKeys shared;
  for (size_t layer = 0; layer < stack.blocks.size(); ++layer) {
    BlockInput block = LayerInput(stack, static_cast<int64_t>(layer), input);
    if (block.shared == nullptr) block.shared = &shared;
    if (input.RunsAgain() && block.saved != nullptr) {
      input.saved->inputs[layer] = CopyOf(context, x);
      BlockSaved unused;  // as the second run does, to the bit
      block.saved = &unused;
      stack.blocks[layer].Forward(context, block, x);
      continue;
    }
    if (!stack.blocks[layer].Forward(context, block, x)) return false;
  }
  Finish(context, stack, input.hooks, x, input.saved);
  // Whoever samples looks at the logits, and need not wait twice a token.
  if (!ChecksEachStep(context) && input.caches.self.empty()) {
    RequireFiniteEnd(context, stack, x);
  }
  return true;
}

void Model::Backward(Context& context, const Stack& stack,
                     const StackInput& input, TensorView dx,
                     TensorView dmemory) const {
  const int64_t end = BackwardEnd(stack, input);
  if (end == kNothingLearns) return;
  if (stack.final_norm) {
    stack.final_norm.Backward(context, input.saved->last.view(),
                              input.saved->final_norm, dx, dx);
    Tell(input, stack.prefix + "final");
  }
  for (int64_t layer = static_cast<int64_t>(stack.blocks.size()) - 1;
       layer >= std::max<int64_t>(end, 0); --layer) {
    const BlockInput block = LayerInput(stack, layer, input);
    if (input.RunsAgain()) {
      RunAgain(context, stack.blocks[layer], block, input.saved->inputs[layer],
               dx, dmemory);
    } else {
      stack.blocks[layer].Backward(context, block, dx, dmemory);
    }
    Tell(input, stack.blocks[layer].name());
  }
  if (end >= 0) return;
  EmbedBackward(context, stack, input, dx);
  Tell(input, stack.prefix + "embedding");
}

}  // namespace headwise
