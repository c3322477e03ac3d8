// Session and whole-sequence runs. Door: session.h.
#include "headwise/runtime/session.h"

#include <algorithm>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/model/sequence_pass.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

// Rows of a prompt that pass through the layers together.
constexpr int64_t kChunk = 512;

int64_t Capacity(const Model& model, int64_t asked) {
  return asked > 0 ? asked : model.config().context;
}

}  // namespace

Session::Session(Context& context, const Model& model, SessionOptions options)
    : context_(context), model_(model), options_(options) {
  const int64_t capacity = Capacity(model, options.capacity);
  if (!model.config().causal && !model.config().encoder_decoder()) {
    throw Error(ErrorCode::kUnsupported,
                {"session", "a model that predicts what follows",
                 "the encoder " + model.config().model_type, ""});
  }
  cache_ = KvCache(context, {.stack = &model.predictor(),
                             .side = CacheSide::kSelf,
                             .sequences = options.sequences,
                             .capacity = capacity,
                             .type = model.type()});
  last_ =
      Tensor(context, model.type(), {options.sequences, model.config().width});
  logits_ = Tensor(context, model.type(),
                   {options.sequences, model.config().vocabulary});
}

void Session::Encode(std::span<const int32_t> source) {
  if (!model_.config().encoder_decoder()) {
    throw Error(ErrorCode::kUnsupported, {"session", "an encoder–decoder",
                                          model_.config().model_type, ""});
  }
  const int64_t rows = static_cast<int64_t>(source.size());
  const int64_t width = model_.config().width;
  const int64_t lengths[] = {rows};
  const SequenceBatch batch = MakeBatch(lengths);
  const Temp memory(context_, model_.type(), {rows, width});
  StackInput input;
  input.ids = source;
  input.batch = &batch;
  input.hooks = options_.hooks;
  model_.Run(context_, model_.stack(), input, memory.view());

  // Every sequence attends to its own copy, as after a reordering.
  const int64_t sequences = options_.sequences;
  cross_cache_ = KvCache(context_, {.stack = model_.decoder(),
                                    .side = CacheSide::kCross,
                                    .sequences = sequences,
                                    .capacity = rows,
                                    .type = model_.type()});
  cross_cache_.Reserve(context_, rows);
  const Temp copies(context_, model_.type(), {sequences, rows, width});
  Copy(context_, Broadcast(memory.view(), {sequences, rows, width}),
       copies.view());
  for (size_t i = 0; i < model_.decoder()->blocks.size(); ++i) {
    model_.decoder()->blocks[i].parts().cross.FillCache(
        context_, Reshaped(copies.view(), {sequences * rows, width}),
        cross_cache_.views()[i]);
  }
  cross_cache_.Advance(rows);
  cache_.Clear();
}

const Tensor& Session::Feed(std::span<const int32_t> ids) {
  const int64_t rows = static_cast<int64_t>(ids.size()) / options_.sequences;
  if (rows == 0 ||
      rows * options_.sequences != static_cast<int64_t>(ids.size())) {
    throw Error(ErrorCode::kInvalidArgument,
                {"session",
                 "the same number of tokens, at least 1, for each of " +
                     std::to_string(options_.sequences) + " sequences",
                 std::to_string(ids.size()), ""});
  }
  if (position() + rows > cache_.capacity()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"session",
         "at most " + std::to_string(cache_.capacity()) + " tokens of context",
         std::to_string(position() + rows),
         "shorten the prompt or `truncate` it"});
  }
  std::vector<int32_t> chunk;
  for (int64_t begin = 0; begin < rows; begin += kChunk) {
    const int64_t count = std::min(kChunk, rows - begin);
    chunk.clear();
    for (int64_t s = 0; s < options_.sequences; ++s) {
      const auto from = ids.begin() + s * rows + begin;
      chunk.insert(chunk.end(), from, from + count);
    }
    FeedChunk(chunk, count);
  }
  model_.Logits(context_, std::as_const(last_).view(), logits_.view());
  return logits_;
}

void Session::FeedChunk(std::span<const int32_t> ids, int64_t rows) {
  const int64_t width = model_.config().width;
  const std::vector<int64_t> lengths(options_.sequences, rows);
  SequenceBatch batch = MakeBatch(lengths);
  for (int32_t& p : batch.positions) p += static_cast<int32_t>(position());
  const int64_t total = rows * options_.sequences;
  cache_.Reserve(context_, position() + rows);
  const Temp memory(context_, model_.type(), {total, width});
  StackInput input;
  input.ids = ids;
  input.batch = &batch;
  input.caches.self = cache_.views();
  if (model_.config().encoder_decoder()) {
    if (cross_cache_.capacity() == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"session", "Encode before Feed", "no source", ""});
    }
    input.caches.cross = cross_cache_.views();
  }
  input.hooks = options_.hooks;
  model_.Run(context_, model_.predictor(), input, memory.view());
  cache_.Advance(rows);
  const TensorView all =
      Reshaped(memory.view(), {options_.sequences, rows, width});
  Copy(context_, At(all, 1, rows - 1), last_.view());
}

void Session::Clear() { cache_.Clear(); }

void Session::Reorder(std::span<const int32_t> order) {
  // All sequences attend to the same source: the cross cache stays.
  cache_.Reorder(context_, order);
}

namespace {

Tensor RunStacks(Context& context, const Model& model,
                 const ForwardInput& input, bool hooks_only) {
  const SequenceBatch batch = MakeBatch(input.lengths);
  const SequenceBatch target = MakeBatch(input.decoder_lengths);
  SequencePass pass(model, {.ids = input.ids,
                            .batch = &batch,
                            .decoder_ids = input.decoder_ids,
                            .decoder_batch = &target,
                            .hooks = input.hooks,
                            .hooks_only = hooks_only});
  Tensor x(context, model.type(), {pass.rows(), model.config().width});
  pass.Forward(context, x.view());
  return x;
}

}  // namespace

Tensor Forward(Context& context, const Model& model,
               const ForwardInput& input) {
  return RunStacks(context, model, input, false);
}

void ForwardToLastAttention(Context& context, const Model& model,
                            const ForwardInput& input) {
  RunStacks(context, model, input, true);
}

}  // namespace headwise
