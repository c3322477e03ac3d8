// One forward and one backward pass with gates observed. Door: gradient.h.
#include "headwise/heads/importance/gradient.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/heads/importance/host_values.h"
#include "headwise/model/sequence_pass.h"

namespace headwise {
namespace {

// Takes ∂L/∂g of every row and head from the backward of each attention call.
class GateHooks : public RunHooks {
 public:
  explicit GateHooks(Context& context) : context_(context) {}

  void BeforeAttentionBackward(const AttentionSite& site,
                               const AttentionProblem& problem,
                               const AttentionArgs& args,
                               AttentionGrads& grads) override {
    Tensor& gates = gates_[site.name];
    gates = Tensor(context_, DType::kF32,
                   {args.q.shape[0], args.q.shape[1], problem.heads});
    grads.dgates = gates.view();
  }

  // [1, rows, heads] on the host.
  const Tensor& At(const std::string& site) {
    Tensor& gates = gates_.find(site)->second;
    if (!gates.device().is_cpu()) gates = ToHost(context_, gates.view());
    return gates;
  }

 private:
  Context& context_;
  std::map<std::string, Tensor> gates_;
};

// Mean-pooled embeddings of one half of each text: unit vectors [B, d] and the
// lengths that they had.
struct Pooled {
  int64_t width = 0;
  std::vector<double> units;
  std::vector<double> norms;
  const double* At(int64_t b) const { return units.data() + b * width; }
};

// Sequences 2b + half of x [rows, d].
Pooled Pool(const SequenceBatch& halves, const ConstTensorView& x,
            int64_t half) {
  Pooled pooled;
  pooled.width = x.shape[1];
  const int64_t count = halves.sequences() / 2;
  pooled.units.assign(count * pooled.width, 0.0);
  for (int64_t b = 0; b < count; ++b) {
    double* unit = pooled.units.data() + b * pooled.width;
    const int64_t begin = halves.starts[2 * b + half];
    const int64_t end = halves.starts[2 * b + half + 1];
    for (int64_t t = begin; t < end; ++t) {
      const float* row = x.As<float>() + t * pooled.width;
      for (int64_t i = 0; i < pooled.width; ++i) {
        unit[i] += row[i] / static_cast<double>(end - begin);
      }
    }
    double square = 0;
    for (int64_t i = 0; i < pooled.width; ++i) square += unit[i] * unit[i];
    pooled.norms.push_back(std::max(std::sqrt(square), 1e-12));
    for (int64_t i = 0; i < pooled.width; ++i) unit[i] /= pooled.norms[b];
  }
  return pooled;
}

constexpr double kTemperature = 0.05;

// ∂(Σ losses)/∂cosine, [B, B] by first and second half: softmax less the truth,
// along rows and along columns, half each.
std::vector<double> CosineGradients(const Pooled& first, const Pooled& second) {
  const int64_t count = static_cast<int64_t>(first.norms.size());
  std::vector<double> odds(count * count), rows(count, 0), columns(count, 0);
  for (int64_t a = 0; a < count; ++a) {
    for (int64_t b = 0; b < count; ++b) {
      const double cosine = std::inner_product(
          first.At(a), first.At(a) + first.width, second.At(b), 0.0);
      // At most e^20: no shift is needed.
      odds[a * count + b] = std::exp(cosine / kTemperature);
      rows[a] += odds[a * count + b];
      columns[b] += odds[a * count + b];
    }
  }
  for (int64_t a = 0; a < count; ++a) {
    for (int64_t b = 0; b < count; ++b) {
      double& one = odds[a * count + b];
      one = (0.5 * (one / rows[a] + one / columns[b]) - (a == b ? 1 : 0)) /
            kTemperature;
    }
  }
  return odds;
}

// The rows of one half get the gradient of their mean.
void Unpool(const SequenceBatch& halves, const Pooled& own,
            const std::vector<double>& towards, int64_t half, Tensor& dx) {
  const int64_t width = own.width;
  for (int64_t b = 0; b < halves.sequences() / 2; ++b) {
    const double* unit = own.At(b);
    const double* to = towards.data() + b * width;
    const double along = std::inner_product(unit, unit + width, to, 0.0);
    const int64_t begin = halves.starts[2 * b + half];
    const int64_t end = halves.starts[2 * b + half + 1];
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < width; ++i) {
        dx.As<float>()[t * width + i] =
            static_cast<float>((to[i] - along * unit[i]) / own.norms[b] /
                               static_cast<double>(end - begin));
      }
    }
  }
}

// Σ_b of the contrastive loss: dx [rows, d] of its halves' final states, all on
// the host.
void ContrastiveGradient(const SequenceBatch& halves, const ConstTensorView& x,
                         Tensor& dx) {
  const Pooled first = Pool(halves, x, 0), second = Pool(halves, x, 1);
  const std::vector<double> slopes = CosineGradients(first, second);
  const int64_t count = halves.sequences() / 2, width = first.width;
  std::vector<double> of_first(count * width, 0), of_second(count * width, 0);
  for (int64_t a = 0; a < count; ++a) {
    for (int64_t b = 0; b < count; ++b) {
      const double slope = slopes[a * count + b];
      for (int64_t i = 0; i < width; ++i) {
        of_first[a * width + i] += slope * second.At(b)[i];
        of_second[b * width + i] += slope * first.At(a)[i];
      }
    }
  }
  Unpool(halves, first, of_first, 0, dx);
  Unpool(halves, second, of_second, 1, dx);
}

// Each text of a batch as two, framed as it was.
struct HalfTexts {
  std::vector<int32_t> ids;
  SequenceBatch sequences;
};

HalfTexts Halve(const ExampleBatch& batch) {
  HalfTexts halves;
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < batch.size(); ++b) {
    int64_t begin = batch.sequences.starts[b];
    int64_t end = batch.sequences.starts[b + 1];
    const int64_t first = begin, last = end;
    while (begin < end && batch.added[begin] != 0) ++begin;
    while (end > begin && batch.added[end - 1] != 0) --end;
    if (end - begin < 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"gradient", "texts of at least two tokens",
                   std::to_string(end - begin), "give longer texts"});
    }
    const int64_t middle = begin + (end - begin) / 2;
    for (const auto& [from, to] :
         {std::pair{begin, middle}, std::pair{middle, end}}) {
      const size_t before = halves.ids.size();
      const auto add = [&](int64_t a, int64_t z) {
        halves.ids.insert(halves.ids.end(), batch.ids.begin() + a,
                          batch.ids.begin() + z);
      };
      add(first, begin);
      add(from, to);
      add(end, last);
      lengths.push_back(static_cast<int64_t>(halves.ids.size() - before));
    }
  }
  halves.sequences = MakeBatch(lengths);
  return halves;
}

void RunHalves(Context& context, const Model& model, const HalfTexts& halves,
               GateHooks& hooks) {
  if (halves.sequences.sequences() < 4) {
    throw Error(ErrorCode::kInvalidArgument,
                {"gradient", "at least two sequences to tell apart", "one",
                 "give more text or a smaller `context`"});
  }
  const int64_t rows = halves.sequences.total();
  StackSaved saved;
  StackInput input;
  input.ids = halves.ids;
  input.batch = &halves.sequences;
  input.hooks = &hooks;
  input.saved = &saved;
  const Shape shape = {rows, model.config().width};
  Tensor x(context, model.type(), shape), copy, dx(DType::kF32, shape);
  model.Run(context, model.stack(), input, x.view());
  ContrastiveGradient(halves.sequences, HostF32(context, x.view(), copy), dx);
  const Temp down(context, model.type(), shape);
  Copy(context, dx.view(), down.view());
  model.Backward(context, model.stack(), input, down.view());
}

void RunBothWays(Context& context, const Model& model,
                 const ExampleBatch& batch, GateHooks& hooks) {
  SequencePass pass(model, {.ids = batch.ids,
                            .batch = &batch.sequences,
                            .decoder_ids = batch.decoder_ids,
                            .decoder_batch = &batch.decoder_sequences,
                            .hooks = &hooks,
                            .keep = true});
  const Shape shape = {pass.rows(), model.config().width};
  Tensor x(context, model.type(), shape), dx(context, model.type(), shape);
  pass.Forward(context, x.view());
  model.HeadLoss(context, x.view(), {batch.targets, 0, 1}, dx.view());
  pass.Backward(context, dx.view());
}

}  // namespace

LossKind GradientLossOf(const Model& model) {
  const LossKind loss = LossOf(model);
  return loss == LossKind::kEmbeddingCosine ? LossKind::kContrastive : loss;
}

std::vector<std::vector<GateGradient>> GateGradients(
    Context& context, const Model& model, const ExampleBatch& batch,
    std::span<const HeadRef> heads) {
  GateHooks hooks(context);
  const bool halved = GradientLossOf(model) == LossKind::kContrastive;
  const HalfTexts halves = halved ? Halve(batch) : HalfTexts();
  if (halved) {
    RunHalves(context, model, halves, hooks);
  } else {
    RunBothWays(context, model, batch, hooks);
  }
  std::vector<std::vector<GateGradient>> gradients;
  for (const HeadRef& head : heads) {
    const AttentionLayer& layer =
        *AttentionLayers(model, head.kind)[head.layer];
    const Tensor& gates = hooks.At(layer.site().name);
    const SequenceBatch& sequences = halved ? halves.sequences
                                     : head.kind == AttentionKind::kSelf
                                         ? batch.sequences
                                         : batch.decoder_sequences;
    const int64_t parts = halved ? 2 : 1;
    std::vector<GateGradient>& own = gradients.emplace_back(batch.size());
    for (int64_t b = 0; b < batch.size(); ++b) {
      for (int64_t t = sequences.starts[parts * b];
           t < sequences.starts[parts * (b + 1)]; ++t) {
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
