// Shared prefixes and stacked variants. Door: variants.h.
#include "headwise/heads/importance/variants.h"

#include <algorithm>
#include <utility>

#include "headwise/base/stop.h"
#include "headwise/nn/finite.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// Layers below a head: those of the encoder come first.
int64_t Depth(const Model& model, const HeadRef& head) {
  return head.kind == AttentionKind::kSelf
             ? head.layer
             : static_cast<int64_t>(model.stack().blocks.size()) + head.layer;
}

int64_t Layers(const Model& model) {
  return static_cast<int64_t>(
      model.stack().blocks.size() +
      (model.decoder() == nullptr ? 0 : model.decoder()->blocks.size()));
}

SequenceBatch Repeat(const SequenceBatch& batch, int64_t copies) {
  SequenceBatch all;
  all.starts.push_back(0);
  for (int64_t c = 0; c < copies; ++c) {
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      all.starts.push_back(
          static_cast<int32_t>(c * batch.total() + batch.starts[b + 1]));
    }
    all.positions.insert(all.positions.end(), batch.positions.begin(),
                         batch.positions.end());
  }
  return all;
}

template <typename T>
std::vector<T> Repeat(const std::vector<T>& values, int64_t copies) {
  std::vector<T> all;
  all.reserve(values.size() * copies);
  for (int64_t c = 0; c < copies; ++c) {
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// [rows, …] → [copies · rows, …] of this type on the context's device.
Tensor Repeat(Context& context, const ConstTensorView& values, int64_t copies,
              DType type) {
  Temp memory;
  const ConstTensorView from = OnDevice(context, values, memory);
  std::vector<int64_t> sizes = {copies};
  sizes.insert(sizes.end(), from.shape.begin(), from.shape.begin() + from.rank);
  const Shape apart(sizes);
  sizes[1] *= copies;
  Tensor all = Tensor::Undefined(context, type,
                                 std::span(std::as_const(sizes)).subspan(1));
  Copy(context, Broadcast(from, apart), Reshaped(all.view(), apart));
  return all;
}

// The residual stream of some copies of a batch, between two layers.
class Streams {
 public:
  Streams(Context& context, const Model& model, const ExampleBatch& batch)
      : Streams(context, model, batch, 1) {
    x_ = Embedded(model.stack(), ids_, sources_, {});
  }

  // Several copies of what this has come to.
  Streams Stacked(int64_t copies) const {
    Streams all(context_, model_, batch_, copies);
    all.depth_ = depth_;
    all.x_ = Repeat(context_, x_.view(), copies, x_.type());
    if (memory_.size() > 0) {
      all.memory_ = Repeat(context_, memory_.view(), copies, memory_.type());
    }
    return all;
  }

  int64_t depth() const { return depth_; }
  bool ended() const { return depth_ == Layers(model_); }
  Tensor& x() { return x_; }

  void Step(const HookList& hooks) {
    if (depth_ < encoder()) {
      model_.RunLayer(context_, model_.stack(), depth_,
                      Input(ids_, sources_, hooks), x_.view());
    } else {
      model_.RunLayer(context_, *model_.decoder(), depth_ - encoder(),
                      Input(decoder_ids_, targets_, hooks), x_.view());
    }
    ++depth_;
    if (depth_ == encoder() && decoder() > 0) {
      model_.Finish(context_, model_.stack(), hooks, x_.view());
      memory_ = std::move(x_);
      x_ = Embedded(*model_.decoder(), decoder_ids_, targets_, hooks);
    }
  }

  void Finish() {
    model_.Finish(context_, model_.predictor(), nullptr, x_.view());
  }

 private:
  Streams(Context& context, const Model& model, const ExampleBatch& batch,
          int64_t copies)
      : context_(context),
        model_(model),
        batch_(batch),
        ids_(Repeat(batch.ids, copies)),
        sources_(Repeat(batch.sequences, copies)) {
    if (decoder() == 0) return;
    decoder_ids_ = Repeat(batch.decoder_ids, copies);
    targets_ = Repeat(batch.decoder_sequences, copies);
  }

  int64_t encoder() const {
    return static_cast<int64_t>(model_.stack().blocks.size());
  }
  int64_t decoder() const {
    return model_.decoder() == nullptr
               ? 0
               : static_cast<int64_t>(model_.decoder()->blocks.size());
  }

  StackInput Input(const std::vector<int32_t>& ids, const SequenceBatch& batch,
                   const HookList& hooks) const {
    StackInput input;
    input.ids = ids;
    input.batch = &batch;
    input.hooks = hooks;
    if (memory_.size() > 0) {
      input.memory = memory_.view();
      input.memory_batch = &sources_;
    }
    return input;
  }

  Tensor Embedded(const Stack& stack, const std::vector<int32_t>& ids,
                  const SequenceBatch& batch, const HookList& hooks) const {
    Tensor x = Tensor::Undefined(context_, model_.type(),
                                 {batch.total(), model_.config().width});
    model_.Embed(context_, stack, Input(ids, batch, hooks), x.view());
    return x;
  }

  Context& context_;
  const Model& model_;
  const ExampleBatch& batch_;
  std::vector<int32_t> ids_, decoder_ids_;
  SequenceBatch sources_, targets_;
  int64_t depth_ = 0;
  Tensor x_;
  Tensor memory_;  // the encoder's output, once it has run
};

constexpr std::string_view kHeadOutput = ".head_output";

std::string_view SiteOfOutput(std::string_view name) {
  return name.substr(0, name.size() - kHeadOutput.size());
}

// Where nobody looked after each step.
void RequireFiniteEnd(Context& context, const Model& model,
                      const ConstTensorView& x) {
  if (ChecksEachStep(context) || AllWithin(context, x, kMostFinite)) return;
  const Stack& stack = model.predictor();
  ThrowNotFinite(context,
                 {stack.prefix + "final",
                  {&stack.final_norm.weight_parameter(),
                   &stack.final_norm.bias_parameter()}},
                 x);
}

}  // namespace

CleanRun RunClean(Context& context, const Model& model,
                  const ExampleBatch& batch,
                  const std::function<void()>& after_layer) {
  CleanRun run;
  const std::string embedding = model.predictor().prefix + "embedding";
  ActivationTaker taker(
      [&](std::string_view name) {
        return name == embedding || name.ends_with(kHeadOutput);
      },
      [&](std::string_view name, ConstTensorView value) {
        Tensor& to = name == embedding
                         ? run.embedding
                         : run.outputs[std::string(SiteOfOutput(name))];
        to = ToDevice(context, value);
      });
  Streams streams(context, model, batch);
  if (model.decoder() == nullptr) {
    run.embedding = ToDevice(context, streams.x().view());
  }
  while (!streams.ended()) {
    streams.Step(&taker);
    if (after_layer) after_layer();
  }
  run.stream = ToDevice(context, streams.x().view());
  streams.Finish();
  RequireFiniteEnd(context, model, streams.x().view());
  run.final = std::move(streams.x());
  return run;
}

StackedGates::StackedGates(Context& context, const Model& model,
                           const ExampleBatch& batch,
                           std::span<const HeadSet> heads,
                           const HeadOutputs* replacement) {
  const int64_t copies = static_cast<int64_t>(heads.size());
  for (int64_t c = 0; c < copies; ++c) {
    for (const HeadRef& head : heads[c]) {
      const AttentionLayer& layer =
          *AttentionLayers(model, head.kind)[head.layer];
      const int64_t rows = head.kind == AttentionKind::kSelf
                               ? batch.sequences.total()
                               : batch.decoder_sequences.total();
      Tensor& gates = sites[layer.site().name].rows;
      if (gates.size() == 0) {
        gates = Tensor::Undefined(context, DType::kF32,
                                  {copies * rows, layer.config().heads});
        Fill(context, 1, gates.view());
      }
      Fill(context, 0,
           Columns(Rows(gates.view(), c * rows, (c + 1) * rows), head.head,
                   head.head + 1));
    }
  }
  if (replacement == nullptr) return;
  for (auto& [name, site] : sites) {
    const auto found = replacement->find(name);
    if (found == replacement->end()) continue;
    site.replacement = found->second.view();
    const bool same = site.replacement.shape[0] == 1;
    const bool there = site.replacement.device == context.device() &&
                       site.replacement.type == DType::kF32;
    if (same && there) continue;
    site.memory =
        Repeat(context, site.replacement, same ? 1 : copies, DType::kF32);
    site.replacement = std::as_const(site.memory).view();
  }
}

int64_t LayersToRun(const Model& model, const HeadSet& heads) {
  int64_t most = 0;
  for (const HeadRef& head : heads) {
    most = std::max(most, Layers(model) - Depth(model, head));
  }
  return most;
}

int64_t RowsTogether(const Context& context, const Model& model) {
  constexpr int64_t kHostRows = 4096, kDeviceRows = int64_t{1} << 17;
  if (context.device().is_cpu()) return kHostRows;
  // Some 4 GiB of activations.
  constexpr int64_t kMostValues = int64_t{1} << 27;
  return std::clamp(kMostValues / model.config().width, kHostRows, kDeviceRows);
}

void RunVariants(Context& context, const Model& model,
                 const ExampleBatch& batch, const VariantJob& job) {
  // Variants by the layer in which they begin.
  std::map<int64_t, std::vector<int64_t>> by_depth;
  for (size_t v = 0; v < job.variants.size(); ++v) {
    const int64_t first = Layers(model) - LayersToRun(model, job.variants[v]);
    by_depth[first].push_back(static_cast<int64_t>(v));
  }
  const int64_t rows = batch.rows();
  const int64_t most =
      job.most_rows > 0 ? job.most_rows : RowsTogether(context, model);
  const int64_t together = std::max<int64_t>(1, most / rows);
  Streams prefix(context, model, batch);
  for (const auto& [depth, indices] : by_depth) {
    while (prefix.depth() < depth) prefix.Step({});
    const int64_t count = static_cast<int64_t>(indices.size());
    for (int64_t begin = 0; begin < count; begin += together) {
      ThrowIfStopped(job.stop, "ablation");
      const auto some =
          std::span(indices).subspan(begin, std::min(together, count - begin));
      std::vector<HeadSet> heads;
      int64_t last = 0;
      for (const int64_t v : some) {
        heads.push_back(job.variants[v]);
        for (const HeadRef& head : heads.back()) {
          last = std::max(last, Depth(model, head));
        }
      }
      StackedGates gates(context, model, batch, heads, job.replacement);
      ActivationTaker taker(
          [&](std::string_view name) { return name.ends_with(kHeadOutput); },
          [&](std::string_view name, ConstTensorView value) {
            job.outputs(some, SiteOfOutput(name), value);
          });
      const HookList hooks = {&gates, job.outputs ? &taker : nullptr};
      Streams streams = prefix.Stacked(static_cast<int64_t>(some.size()));
      while (!streams.ended()) {
        const bool heard = streams.depth() <= last || job.outputs;
        streams.Step(heard ? hooks : HookList());
      }
      streams.Finish();
      job.done(some, std::as_const(streams.x()).view());
    }
  }
}

}  // namespace headwise
