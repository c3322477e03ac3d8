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

// Rows of the numbers of a step: its tokens, their positions, rows that the
// cache holds before and after.
enum Number : uint8_t { kIds, kPositions, kHeld, kFilled, kNumbers };

// The same under a policy: rows on their way join those of a window, so that
// many of them would take more memory than the window saves.
int64_t ChunkFor(const KvPolicy* policy) {
  return policy == nullptr ? kChunk
                           : std::clamp<int64_t>(policy->window, 16, kChunk);
}

void RequirePolicy(const Context& context, const Model& model,
                   const KvPolicy* policy) {
  if (policy == nullptr) return;
  if (!context.device().is_cpu()) {
    throw Error(
        ErrorCode::kUnsupported,
        {"session", "the CPU for a cache by role", ToString(context.device()),
         "leave the policy out, or run on the CPU"});
  }
  RequireKvPolicy(*policy, model);
}

int64_t Capacity(const Model& model, int64_t asked) {
  return asked > 0 ? asked : model.config().context;
}

}  // namespace

Session::Session(Context& context, const Model& model, SessionOptions options)
    : context_(context),
      model_(model),
      options_(options),
      chunk_(ChunkFor(options.policy)) {
  const int64_t capacity = Capacity(model, options.capacity);
  if (!model.config().causal && !model.config().encoder_decoder()) {
    throw Error(ErrorCode::kUnsupported,
                {"session", "a model that predicts what follows",
                 "the encoder " + model.config().model_type,
                 "run whole texts through an encoder instead"});
  }
  RequirePolicy(context, model, options.policy);
  cache_ = KvCache(context, {.stack = &model.predictor(),
                             .side = CacheSide::kSelf,
                             .sequences = options.sequences,
                             .capacity = capacity,
                             .type = model.type(),
                             .policy = options.policy});
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
    model_.decoder()->blocks[i].cross().FillCache(
        context_, Reshaped(copies.view(), {sequences * rows, width}),
        cross_cache_.views()[i]);
  }
  cross_cache_.Advance(rows);
  cache_.Clear();
}

const Tensor& Session::Feed(std::span<const int32_t> ids) {
  const int64_t rows = RowsOf(ids);
  if (rows == 1 && StepsOnDevice()) {
    Step(ids);
    return logits_;
  }
  FeedAll(ids, rows, {});
  model_.Logits(context_, std::as_const(last_).view(), logits_.view());
  return logits_;
}

Tensor Session::FeedStates(std::span<const int32_t> ids) {
  const int64_t rows = RowsOf(ids);
  Tensor states(context_, model_.type(),
                {options_.sequences, rows, model_.config().width});
  FeedAll(ids, rows, states.view());
  return states;
}

// Rows of each sequence. Throws where they differ or are too many.
int64_t Session::RowsOf(std::span<const int32_t> ids) const {
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
  return rows;
}

// states [sequences, rows, d]; null: only those of the last row are kept.
void Session::FeedAll(std::span<const int32_t> ids, int64_t rows,
                      TensorView states) {
  std::vector<int32_t> chunk;
  const int64_t call_length = position() + rows;
  for (int64_t begin = 0; begin < rows; begin += chunk_) {
    const int64_t count = std::min(chunk_, rows - begin);
    chunk.clear();
    for (int64_t s = 0; s < options_.sequences; ++s) {
      const auto from = ids.begin() + s * rows + begin;
      chunk.insert(chunk.end(), from, from + count);
    }
    FeedChunk(chunk, count, call_length,
              Slice(states, 1, begin, begin + count));
  }
}

void Session::FeedChunk(std::span<const int32_t> ids, int64_t rows,
                        int64_t call_length, TensorView states) {
  const int64_t width = model_.config().width;
  const std::vector<int64_t> lengths(options_.sequences, rows);
  SequenceBatch batch = MakeBatch(lengths);
  for (int32_t& p : batch.positions) p += static_cast<int32_t>(position());
  batch.call_length = call_length;
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
                  {"session", "Encode before Feed", "no source",
                   "call Encode with the source first"});
    }
    input.caches.cross = cross_cache_.views();
  }
  input.hooks = options_.hooks;
  model_.Run(context_, model_.predictor(), input, memory.view());
  cache_.Advance(rows);
  const TensorView all =
      Reshaped(memory.view(), {options_.sequences, rows, width});
  Copy(context_, At(all, 1, rows - 1), last_.view());
  if (states) Copy(context_, all, states);
}

// Where all that changes from token to token can lie on the device.
bool Session::StepsOnDevice() const {
  const ModelConfig& config = model_.config();
  if (context_.device().is_cpu() || !options_.hooks.empty() ||
      config.encoder_decoder() || config.positions == Positions::kSinusoid ||
      position() >= config.context) {
    return false;
  }
  const auto views = cache_.views();
  return std::all_of(views.begin(), views.end(), [&](const CacheView& view) {
    return view.lengths.data() == views[0].lengths.data();
  });
}

// A step of one token asks for hundreds of small kernels, and asking takes
// longer than their work. From token to token they differ in four numbers only,
// which kernels read from `numbers_`: so a step is recorded once and then run
// again as one (on CUDA, a graph), with new numbers before each run. Kernels
// are shared out by the rows that the cache reserves, not by what it holds;
// when it grows, to twice the size, the step is recorded anew, and so it is
// when rotary positions get other frequencies. The first step of a size or of
// frequencies runs by itself: it makes what is made once, which a record
// cannot.
void Session::Step(std::span<const int32_t> ids) {
  cache_.Reserve(context_, position() + 1);
  const int64_t reserved = cache_.reserved();
  const size_t count = ids.size();
  std::vector<int32_t> numbers(kNumbers * count,
                               static_cast<int32_t>(position()));
  std::copy(ids.begin(), ids.end(), numbers.begin());
  std::fill(numbers.begin() + kFilled * count, numbers.end(),
            static_cast<int32_t>(position() + 1));
  if (!numbers_.view()) {
    numbers_ = Tensor(context_, DType::kI32,
                      {int64_t{kNumbers}, static_cast<int64_t>(count)});
  }
  Copy(context_,
       Reshaped(ViewOf(numbers),
                {int64_t{kNumbers}, static_cast<int64_t>(count)}),
       numbers_.view());
  std::vector<int64_t> rope_lengths;
  for (const RopeConfig& rope : model_.config().ropes) {
    rope_lengths.push_back(RopeLength(rope, position() + 1));
  }
  if (rope_lengths != rope_lengths_) {
    rope_lengths_ = std::move(rope_lengths);
    recorded_.reset();
    run_reserved_ = 0;
  }
  if (recorded_reserved_ != reserved) recorded_.reset();
  if (recorded_ == nullptr && records_ && options_.record &&
      run_reserved_ == reserved) {
    recorded_ = context_.backend()->Record([&] { RunStep(ids); });
    recorded_reserved_ = reserved;
    records_ = recorded_ != nullptr;
  }
  if (recorded_ != nullptr) {
    recorded_->Run();
  } else {
    RunStep(ids);
    run_reserved_ = reserved;
  }
  cache_.Advance(1);
}

// All that depends on the step is read from `numbers_`.
void Session::RunStep(std::span<const int32_t> ids) {
  const auto numbers = [&](Number which) {
    return At(std::as_const(numbers_).view(), 0, which);
  };
  const std::vector<int64_t> lengths(options_.sequences, 1);
  SequenceBatch batch = MakeBatch(lengths);
  for (int32_t& p : batch.positions) p += static_cast<int32_t>(position());
  batch.positions_there.Set(batch.positions, numbers(kPositions));
  std::vector<CacheView> caches(cache_.views().begin(), cache_.views().end());
  for (CacheView& cache : caches) {
    cache.held = numbers(kHeld);
    cache.filled = numbers(kFilled);
  }
  StackInput input;
  input.ids = ids;
  input.ids_there = numbers(kIds);
  input.batch = &batch;
  input.caches.self = caches;
  model_.Run(context_, model_.predictor(), input, last_.view());
  model_.Logits(context_, std::as_const(last_).view(), logits_.view());
}

void Session::Clear() { cache_.Clear(); }

void Session::Reorder(std::span<const int32_t> order) {
  // All sequences attend to the same source: the cross cache stays.
  cache_.Reorder(context_, order);
  recorded_.reset();  // the rows lie elsewhere now
  run_reserved_ = 0;
}

namespace {

Tensor RunStacks(Context& context, const Model& model, const PassInput& input) {
  SequencePass pass(model, input);
  Tensor x(context, model.type(), {pass.rows(), model.config().width});
  pass.Forward(context, x.view());
  return x;
}

// The last attention of a run; null: there is none.
const AttentionSite* LastSite(const Model& model) {
  const AttentionSite* last = nullptr;
  for (const Block& block : model.predictor().blocks) {
    for (const BlockStep& step : block.steps()) {
      if (step.kind != StepKind::kFeedForward) last = &step.attention.site();
    }
  }
  return last;
}

}  // namespace

Tensor Forward(Context& context, const Model& model,
               const ForwardInput& input) {
  const SequenceBatch batch = MakeBatch(input.lengths);
  const SequenceBatch target = MakeBatch(input.decoder_lengths);
  return RunStacks(context, model,
                   {.ids = input.ids,
                    .batch = &batch,
                    .decoder_ids = input.decoder_ids,
                    .decoder_batch = &target,
                    .hooks = input.hooks,
                    .stop_after = input.stop_after});
}

void ForwardToLastAttention(Context& context, const Model& model,
                            const ForwardInput& input) {
  ForwardInput run = input;
  run.stop_after = LastSite(model);
  Forward(context, model, run);
}

void ForwardToLastAttention(Context& context, const Model& model,
                            const PreparedInput& source,
                            const PreparedInput& target,
                            const HookList& hooks) {
  RunStacks(context, model,
            {.ids = source.ids,
             .ids_there = source.ids_there.view(),
             .batch = &source.batch,
             .decoder_ids = target.ids,
             .decoder_ids_there = target.ids_there.view(),
             .decoder_batch = &target.batch,
             .hooks = hooks,
             .stop_after = LastSite(model)});
}

}  // namespace headwise
