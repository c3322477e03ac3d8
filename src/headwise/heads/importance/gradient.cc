// One forward and one backward pass with gates observed. Door: gradient.h.
#include "headwise/heads/importance/gradient.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

// Takes ∂L/∂g of every row and head from the backward of each attention call.
class GateHooks : public RunHooks {
 public:
  void BeforeAttentionBackward(const AttentionSite& site,
                               const AttentionProblem& problem,
                               const AttentionArgs& args,
                               AttentionGrads& grads) override {
    Tensor& gates = gates_[site.name];
    gates =
        Tensor(DType::kF32, {args.q.shape[0], args.q.shape[1], problem.heads});
    grads.dgates = gates.view();
  }

  const Tensor& At(const std::string& site) const {
    return gates_.find(site)->second;
  }

 private:
  std::map<std::string, Tensor> gates_;  // [1, rows, heads]
};

void RunBothWays(Context& context, const Model& model,
                 const ExampleBatch& batch, GateHooks& hooks) {
  const int64_t width = model.config().width;
  StackSaved saved;
  StackInput input;
  input.ids = batch.ids;
  input.batch = &batch.sequences;
  input.hooks = &hooks;
  input.saved = &saved;
  Tensor x(DType::kF32, {batch.sequences.total(), width});
  model.Run(context, model.stack(), input, x.view());
  const HeadTargets targets = {batch.targets, 0, 1};
  if (model.decoder() == nullptr) {
    Tensor dx(DType::kF32, {batch.sequences.total(), width});
    model.HeadLoss(context, std::as_const(x).view(), targets, dx.view());
    model.Backward(context, model.stack(), input, dx.view());
    return;
  }
  StackSaved decoder_saved;
  StackInput decoder;
  decoder.ids = batch.decoder_ids;
  decoder.batch = &batch.decoder_sequences;
  decoder.memory = std::as_const(x).view();
  decoder.memory_batch = &batch.sequences;
  decoder.hooks = &hooks;
  decoder.saved = &decoder_saved;
  const int64_t rows = batch.decoder_sequences.total();
  Tensor y(DType::kF32, {rows, width}), dy(DType::kF32, {rows, width});
  model.Run(context, *model.decoder(), decoder, y.view());
  model.HeadLoss(context, std::as_const(y).view(), targets, dy.view());
  Tensor dmemory(DType::kF32, {batch.sequences.total(), width});
  model.Backward(context, *model.decoder(), decoder, dy.view(), dmemory.view());
  model.Backward(context, model.stack(), input, dmemory.view());
}

}  // namespace

std::vector<std::vector<GateGradient>> GateGradients(
    Context& context, const Model& model, const ExampleBatch& batch,
    std::span<const HeadRef> heads) {
  if (!model.has_head()) {
    throw Error(ErrorCode::kUnsupported,
                {"gradient", "a model with a vocabulary head",
                 model.config().model_type,
                 "its distance from itself has gradient 0: rank it by "
                 "ablation"});
  }
  GateHooks hooks;
  RunBothWays(context, model, batch, hooks);
  std::vector<std::vector<GateGradient>> gradients;
  for (const HeadRef& head : heads) {
    const AttentionLayer& layer =
        *AttentionLayers(model, head.kind)[head.layer];
    const Tensor& gates = hooks.At(layer.site().name);
    const SequenceBatch& sequences = head.kind == AttentionKind::kSelf
                                         ? batch.sequences
                                         : batch.decoder_sequences;
    std::vector<GateGradient>& own = gradients.emplace_back(batch.size());
    for (int64_t b = 0; b < batch.size(); ++b) {
      for (int64_t t = sequences.starts[b]; t < sequences.starts[b + 1]; ++t) {
        const double gradient =
            gates.As<float>()[t * gates.shape(2) + head.head] /
            batch.weights[b];
        own[b].sum += gradient;
        own[b].absolute += std::abs(gradient);
      }
    }
  }
  return gradients;
}

}  // namespace headwise
