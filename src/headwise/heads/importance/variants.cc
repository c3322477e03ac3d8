// Shared prefixes and stacked variants. Door: variants.h.
#include "headwise/heads/importance/variants.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "headwise/base/stop.h"

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

// [rows, …] → [copies · rows, …]
Tensor Repeat(const Tensor& tensor, int64_t copies) {
  Tensor all =
      tensor.rank() == 2
          ? Tensor(DType::kF32, {copies * tensor.shape(0), tensor.shape(1)})
          : Tensor(DType::kF32, {copies * tensor.shape(0), tensor.shape(1),
                                 tensor.shape(2)});
  for (int64_t c = 0; c < copies; ++c) {
    std::memcpy(all.As<float>() + c * tensor.size(), tensor.As<float>(),
                tensor.bytes());
  }
  return all;
}

// The residual stream of some copies of a batch, between two layers.
class Streams {
 public:
  Streams(Context& context, const Model& model, const ExampleBatch& batch)
      : Streams(context, model, batch, 1) {
    x_ = Embedded(model.stack(), ids_, sources_, nullptr);
  }

  // Several copies of what this has come to.
  Streams Stacked(int64_t copies) const {
    Streams all(context_, model_, batch_, copies);
    all.depth_ = depth_;
    all.x_ = Repeat(x_, copies);
    if (memory_.size() > 0) all.memory_ = Repeat(memory_, copies);
    return all;
  }

  int64_t depth() const { return depth_; }
  bool ended() const { return depth_ == Layers(model_); }
  Tensor& x() { return x_; }

  void Step(RunHooks* hooks) {
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
                   RunHooks* hooks) const {
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
                  const SequenceBatch& batch, RunHooks* hooks) const {
    Tensor x(DType::kF32, {batch.total(), model_.config().width});
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

Tensor Copy(ConstTensorView view) {
  Tensor copy =
      view.rank == 2
          ? Tensor(DType::kF32, {view.shape[0], view.shape[1]})
          : Tensor(DType::kF32, {view.shape[0], view.shape[1], view.shape[2]});
  std::memcpy(copy.As<float>(), view.As<float>(), copy.bytes());
  return copy;
}

constexpr std::string_view kHeadOutput = ".head_output";

std::string_view SiteOfOutput(std::string_view name) {
  return name.substr(0, name.size() - kHeadOutput.size());
}

class HeadOutputTaker : public RunHooks {
 public:
  HeadOutputTaker(CleanRun& run, std::string embedding)
      : run_(run), embedding_(std::move(embedding)) {}

  bool Wants(std::string_view name) const override {
    return name == embedding_ || name.ends_with(kHeadOutput);
  }
  void Take(std::string_view name, ConstTensorView value) override {
    if (name == embedding_) {
      run_.embedding = Copy(value);
    } else {
      run_.outputs[std::string(SiteOfOutput(name))] = Copy(value);
    }
  }

 private:
  CleanRun& run_;
  std::string embedding_;
};

}  // namespace

CleanRun RunClean(Context& context, const Model& model,
                  const ExampleBatch& batch) {
  CleanRun run;
  HeadOutputTaker taker(run, model.predictor().prefix + "embedding");
  Streams streams(context, model, batch);
  if (model.decoder() == nullptr) run.embedding = Copy(streams.x().view());
  while (!streams.ended()) streams.Step(&taker);
  run.stream = Copy(streams.x().view());
  streams.Finish();
  run.final = std::move(streams.x());
  return run;
}

StackedGates::StackedGates(const Model& model, const ExampleBatch& batch,
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
      const int64_t count = layer.config().heads;
      Site& site = sites_[layer.site().name];
      site.gates.resize(copies * rows * count, 1.0f);
      for (int64_t t = c * rows; t < (c + 1) * rows; ++t) {
        site.gates[t * count + head.head] = 0;
      }
    }
  }
  if (replacement == nullptr) return;
  for (auto& [name, site] : sites_) {
    const auto found = replacement->find(name);
    if (found == replacement->end()) continue;
    if (found->second.shape(0) == 1) {
      site.same = &found->second;
    } else {
      site.replacement = Repeat(found->second, copies);
    }
  }
}

void StackedGates::BeforeAttention(const AttentionSite& site,
                                   const AttentionProblem& problem,
                                   AttentionArgs& args) {
  const auto found = sites_.find(site.name);
  if (found == sites_.end()) return;
  const Site& closed = found->second;
  const int64_t rows = args.q.shape[1], width = args.v.shape[3];
  args.gates = View(closed.gates.data(), {1, rows, problem.heads});
  if (closed.same != nullptr) {
    args.replacement =
        View(closed.same->As<float>(), {1, rows, problem.heads, width});
    args.replacement.stride[0] = args.replacement.stride[1] = 0;
  } else if (closed.replacement.size() > 0) {
    args.replacement =
        View(closed.replacement.As<float>(), {1, rows, problem.heads, width});
  }
}

namespace {

// Gates, and the ear of a job that wants to see what heads give under them.
class HeardGates : public StackedGates {
 public:
  HeardGates(StackedGates gates, const VariantJob& job,
             std::span<const int64_t> indices)
      : StackedGates(std::move(gates)), job_(job), indices_(indices) {}

  bool Wants(std::string_view name) const override {
    return job_.outputs && name.ends_with(kHeadOutput);
  }
  void Take(std::string_view name, ConstTensorView value) override {
    job_.outputs(indices_, SiteOfOutput(name), value);
  }

 private:
  const VariantJob& job_;
  std::span<const int64_t> indices_;
};

}  // namespace

int64_t LayersToRun(const Model& model, const HeadSet& heads) {
  int64_t most = 0;
  for (const HeadRef& head : heads) {
    most = std::max(most, Layers(model) - Depth(model, head));
  }
  return most;
}

void RunVariants(Context& context, const Model& model,
                 const ExampleBatch& batch, const VariantJob& job) {
  // Variants by the layer in which they begin.
  std::map<int64_t, std::vector<int64_t>> by_depth;
  for (size_t v = 0; v < job.variants.size(); ++v) {
    const int64_t first = Layers(model) - LayersToRun(model, job.variants[v]);
    by_depth[first].push_back(static_cast<int64_t>(v));
  }
  const int64_t rows =
      std::max(batch.sequences.total(), batch.decoder_sequences.total());
  const int64_t together = std::max<int64_t>(1, job.most_rows / rows);
  Streams prefix(context, model, batch);
  for (const auto& [depth, indices] : by_depth) {
    while (prefix.depth() < depth) prefix.Step(nullptr);
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
      HeardGates gates(StackedGates(model, batch, heads, job.replacement), job,
                       some);
      Streams streams = prefix.Stacked(static_cast<int64_t>(some.size()));
      while (!streams.ended()) {
        const bool heard = streams.depth() <= last || job.outputs;
        streams.Step(heard ? &gates : nullptr);
      }
      streams.Finish();
      job.done(some, std::as_const(streams.x()).view());
    }
  }
}

}  // namespace headwise
