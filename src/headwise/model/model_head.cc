// Logits of a model and their loss, forward and backward. Door: model.h.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/model.h"
#include "headwise/ops/activation/activation.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

// How many of `count` rows of logits are held at a time: on a device as many
// as fill it, in blocks of one size, whole tiles of a product.
int64_t HeadRows(const Context& context, DType type, int64_t classes,
                 int64_t count) {
  if (context.device().is_cpu()) return std::min(count, kHeadRows);
  constexpr int64_t kMostBytes = int64_t{1} << 30, kTile = 128;
  const int64_t row = classes * ElementSize(type);
  const int64_t most = std::max(kHeadRows, kMostBytes / row);
  const int64_t blocks = (count + most - 1) / most;
  const int64_t even = (count + blocks - 1) / blocks;
  return std::min(count, (even + kTile - 1) / kTile * kTile);
}

// Columns that rows of logits lie apart: on a GPU so many that every row begins
// where products may read and write wide.
int64_t LogitStride(const Context& context, int64_t classes) {
  constexpr int64_t kWide = 64;
  if (context.device().is_cpu()) return classes;
  return (classes + kWide - 1) / kWide * kWide;
}

}  // namespace

// The head's intermediate results on some rows, [rows, transform.out()] each;
// unused where the head is one product.
struct Model::HeadRun {
  Temp dense;      // before the activation
  Temp activated;  // before the norm
  Temp normed;
  Temp scaled;    // what the vocabulary is multiplied with
  Temp uncapped;  // logits / soft_cap; of a backward
  NormSaved norm;
};

void Model::RequireHead() const {
  if (has_head()) return;
  throw Error(ErrorCode::kUnsupported,
              {parts_.config.model_type, "a model with a vocabulary head",
               "an encoder without one",
               "its last hidden states can be read "
               "as the activation \"final\""});
}

void Model::RunHead(Context& context, ConstTensorView x, TensorView logits,
                    HeadRun& run) const {
  const VocabularyHead& head = parts_.head;
  const int64_t rows = x.shape[0];
  if (head.transform) {
    run.dense = Temp(context, x.type, {rows, head.transform.out()});
    head.transform.Forward(context, x, run.dense.view());
    x = run.dense.view();
  }
  if (head.norm) {
    for (Temp* part : {&run.activated, &run.normed}) {
      *part = Temp(context, x.type, {rows, head.transform.out()});
    }
    ActivationForward(context, {head.activation},
                      {.x = run.dense.view(), .y = run.activated.view()});
    head.norm.Forward(context, run.activated.view(), run.normed.view(),
                      &run.norm);
    x = run.normed.view();
  }
  if (head.scale != 1) {
    run.scaled = Temp(context, x.type, {rows, x.shape[1]});
    Scale(context, head.scale, x, run.scaled.view());
    x = run.scaled.view();
  }
  head.vocabulary.Forward(context, x, logits);
  AddHeadBias(context, logits);
  CapLogits(context, logits, run);
}

void Model::AddHeadBias(Context& context, TensorView logits) const {
  if (!parts_.head.bias) return;
  ConstTensorView bias = head_bias_.view(context);
  Temp rounded;
  if (bias.type != logits.type) {
    rounded = Temp(context, logits.type, ShapeOf(bias));
    Copy(context, bias, rounded.view());
    bias = rounded.view();
  }
  AddTo(context, Broadcast(bias, {logits.shape[0], logits.shape[1]}), logits);
}

void Model::CapLogits(Context& context, TensorView logits, HeadRun& run) const {
  const float cap = parts_.head.soft_cap;
  if (cap == 0) return;
  Scale(context, 1 / cap, logits, logits);
  run.uncapped = CopyOf(context, logits);
  ActivationForward(context, {Activation::kTanh}, {.x = logits, .y = logits});
  Scale(context, cap, logits, logits);
}

// dx [rows, d] is overwritten, and dlogits too.
void Model::RunHeadBackward(Context& context, ConstTensorView x,
                            TensorView dlogits, const HeadRun& run,
                            TensorView dx) const {
  const VocabularyHead& head = parts_.head;
  if (head.soft_cap > 0) {
    ActivationBackward(context, {Activation::kTanh}, {.x = run.uncapped.view()},
                       {.dy = dlogits, .dx = dlogits});
  }
  if (head.bias.trainable()) {
    AddColumnSums(context, dlogits, head.bias.gradient);
  }
  Temp memory;
  TensorView d = dx;
  ConstTensorView multiplied = x;
  if (head.transform) {
    memory = Temp(context, x.type, {x.shape[0], head.transform.out()});
    d = memory.view();
    multiplied = head.norm ? run.normed.view() : run.dense.view();
  }
  if (run.scaled) multiplied = run.scaled.view();
  head.vocabulary.Backward(context, multiplied, dlogits, d);
  if (run.scaled) Scale(context, head.scale, d, d);
  if (!head.transform) return;
  if (head.norm) {
    head.norm.Backward(context, run.activated.view(), run.norm, d, d);
    ActivationBackward(context, {head.activation}, {.x = run.dense.view()},
                       {.dy = d, .dx = d});
  }
  head.transform.Backward(context, x, d, dx);
}

void Model::Logits(Context& context, ConstTensorView x,
                   TensorView logits) const {
  RequireHead();
  HeadRun run;
  RunHead(context, x, logits, run);
  RequireFiniteLogits(context, logits);
}

double Model::HeadLoss(Context& context, ConstTensorView x,
                       const HeadTargets& targets, TensorView dx) const {
  RequireHead();
  const int64_t width = x.shape[1], classes = parts_.head.vocabulary.out();
  std::vector<int32_t> chosen, wanted;
  for (size_t t = 0; t < targets.targets.size(); ++t) {
    if (targets.targets[t] == kIgnoreTarget) continue;
    chosen.push_back(static_cast<int32_t>(t));
    wanted.push_back(targets.targets[t]);
  }
  if (dx) Fill(context, 0, dx);
  const int64_t count = std::ssize(chosen);
  if (count == 0) return 0;
  Temp chosen_copy, wanted_copy;
  const ConstTensorView places =
      OnDevice(context, ViewOf(std::as_const(chosen)), chosen_copy);
  const ConstTensorView classes_wanted =
      OnDevice(context, ViewOf(std::as_const(wanted)), wanted_copy);
  const Temp losses(context, DType::kF32, {count});
  const int64_t block = HeadRows(context, x.type, classes, count);
  // Rows that lie together need not be gathered.
  const bool together = chosen.back() - chosen.front() == count - 1;
  Temp gathered, scattered;
  if (!together) {
    gathered = Temp(context, x.type, {block, width});
    scattered = Temp(context, x.type, {block, width});
  }
  const Temp logits(context, x.type, {block, LogitStride(context, classes)});
  for (int64_t begin = 0; begin < count; begin += block) {
    const int64_t end = std::min(count, begin + block), rows = end - begin;
    const ConstTensorView numbers = Rows(places, begin, end);
    const int64_t first = chosen[begin];
    ConstTensorView in = Rows(x, first, together ? first + rows : first);
    if (!together) {
      in = Rows(gathered.view(), 0, rows);
      GatherRows(context, x, numbers, Rows(gathered.view(), 0, rows));
    }
    const TensorView z = Columns(Rows(logits.view(), 0, rows), 0, classes);
    HeadRun run;
    RunHead(context, in, z, run);
    CrossEntropy(context,
                 {.smoothing = targets.smoothing, .scale = targets.scale},
                 {.logits = z,
                  .targets = Rows(classes_wanted, begin, end),
                  .losses = Rows(losses.view(), begin, end),
                  .dlogits = dx ? z : TensorView()});
    if (!dx) continue;
    const TensorView out = together ? Rows(dx, first, first + rows)
                                    : Rows(scattered.view(), 0, rows);
    RunHeadBackward(context, in, z, run, out);
    if (!together) ScatterRows(context, out, numbers, dx);
  }
  double total = 0;
  for (const float loss : ToVector<float>(context, losses.view())) {
    total += loss;
  }
  return total;
}

}  // namespace headwise
