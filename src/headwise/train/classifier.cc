// Classification heads. Door: classifier.h.
#include "headwise/train/classifier.h"

#include <algorithm>
#include <string>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/task_head.h"
#include "headwise/ops/activation/activation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

Linear Dense(const ParameterStore& store, const std::string& name, int64_t in,
             int64_t out, const Start& start, bool bias) {
  return Linear(
      {{store.Get(name + ".weight", {out, in}, start),
        bias ? store.Get(name + ".bias", {out}, Start::Zero()) : Parameter{}}},
      WeightLayout::kOutIn);
}

// Rows whose largest number, the first of equal ones, is where it should be.
int64_t CountHits(Context& context, const ConstTensorView& logits,
                  const std::vector<int32_t>& wanted) {
  const std::vector<float> z = ToVector<float>(context, logits);
  const int64_t classes = logits.shape[1];
  int64_t hits = 0;
  for (size_t r = 0; r < wanted.size(); ++r) {
    const auto row = z.begin() + static_cast<int64_t>(r) * classes;
    if (std::max_element(row, row + classes) - row == wanted[r]) ++hits;
  }
  return hits;
}

}  // namespace

const char* ClassifierArchitecture(const std::string& model_type) {
  const TaskHeadNames* names = FindTaskHead(model_type, TaskKind::kText);
  return names != nullptr ? names->architecture : "";
}

Classifier::Classifier(const ModelConfig& config, ParameterStore& store,
                       int64_t classes) {
  const TaskHeadNames* names = FindTaskHead(config.model_type, TaskKind::kText);
  if (names != nullptr && names->norm != nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {"classification", "a head without a norm", names->architecture,
                 "train another model_type"});
  }
  if (names == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {"classification", "a causal model or an encoder",
                 config.model_type, "train another model_type"});
  }
  store.AllowNew(config);
  const int64_t width = config.width;
  if (names->dense != nullptr) {
    dense_ = Dense(store, names->dense, width, width, Start::Normal(), true);
    activation_ = names->activation;
  }
  output_ =
      Dense(store, names->output, width, classes, names->start, names->bias);
}

double Classifier::Loss(Context& context, ConstTensorView x,
                        const HeadTargets& targets, TensorView dx,
                        int64_t* hits) const {
  const int64_t width = x.shape[1];
  std::vector<int32_t> chosen, wanted;
  for (size_t t = 0; t < targets.targets.size(); ++t) {
    if (targets.targets[t] == kIgnoreTarget) continue;
    chosen.push_back(static_cast<int32_t>(t));
    wanted.push_back(targets.targets[t]);
  }
  if (dx) Fill(context, 0, dx);
  const int64_t rows = static_cast<int64_t>(chosen.size());
  if (rows == 0) return 0;
  const Temp in(context, DType::kF32, {rows, width});
  Temp numbers;
  const ConstTensorView places = OnDevice(context, ViewOf(chosen), numbers);
  GatherRows(context, x, places, in.view());
  Temp dense, hidden;
  ConstTensorView last = in.view();
  if (dense_) {
    dense = Temp(context, DType::kF32, {rows, width});
    hidden = Temp(context, DType::kF32, {rows, width});
    dense_.Forward(context, in.view(), dense.view());
    ActivationForward(context, {activation_},
                      {.x = dense.view(), .y = hidden.view()});
    last = hidden.view();
  }
  const Temp logits(context, DType::kF32, {rows, classes()});
  output_.Forward(context, last, logits.view());
  if (hits != nullptr) *hits += CountHits(context, logits.view(), wanted);
  const Temp losses(context, DType::kF32, {rows});
  Temp copy;
  CrossEntropy(context,
               {.smoothing = targets.smoothing, .scale = targets.scale},
               {.logits = logits.view(),
                .targets = OnDevice(context, ViewOf(wanted), copy),
                .losses = losses.view(),
                .dlogits = dx ? logits.view() : TensorView()});
  double total = 0;
  for (const float loss : ToVector<float>(context, losses.view())) {
    total += loss;
  }
  if (!dx) return total;
  const Temp din(context, DType::kF32, {rows, width});
  output_.Backward(context, last, logits.view(), din.view());
  if (dense_) {
    ActivationBackward(context, {activation_}, {.x = dense.view()},
                       {.dy = din.view(), .dx = din.view()});
    // The dense layer's output is no longer needed: its memory is free.
    dense_.Backward(context, in.view(), din.view(), dense.view());
  }
  ScatterRows(context, dense_ ? dense.view() : din.view(), places, dx);
  return total;
}

}  // namespace headwise
