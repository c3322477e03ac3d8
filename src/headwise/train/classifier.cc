// Classification heads. Door: classifier.h.
#include "headwise/train/classifier.h"

#include <algorithm>
#include <string>
#include <vector>

#include "headwise/backend/cpu/workspace.h"
#include "headwise/error.h"
#include "headwise/ops/activation/activation.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// How a family names its head.
struct Names {
  const char* type;
  const char* architecture;
  const char* dense;  // before the activation; null: none
  const char* output;
  bool bias;
  Activation activation;
};

constexpr Names kNames[] = {
    {"gpt2", "GPT2ForSequenceClassification", nullptr, "score", false, {}},
    {"llama", "LlamaForSequenceClassification", nullptr, "score", false, {}},
    {"mistral",
     "MistralForSequenceClassification",
     nullptr,
     "score",
     false,
     {}},
    {"qwen2", "Qwen2ForSequenceClassification", nullptr, "score", false, {}},
    {"qwen3", "Qwen3ForSequenceClassification", nullptr, "score", false, {}},
    {"bert", "BertForSequenceClassification", "bert.pooler.dense", "classifier",
     true, Activation::kTanh},
    {"roberta", "RobertaForSequenceClassification", "classifier.dense",
     "classifier.out_proj", true, Activation::kTanh},
    {"distilbert", "DistilBertForSequenceClassification", "pre_classifier",
     "classifier", true, Activation::kRelu},
};

const Names* Find(const std::string& type) {
  for (const Names& names : kNames) {
    if (type == names.type) return &names;
  }
  return nullptr;
}

Linear Dense(const ParameterStore& store, const std::string& name, int64_t in,
             int64_t out, bool bias) {
  return Linear({{store.Get(name + ".weight", {out, in}),
                  bias ? store.Get(name + ".bias", {out}) : Parameter{}}},
                WeightLayout::kOutIn);
}

}  // namespace

const char* ClassifierArchitecture(const std::string& model_type) {
  const Names* names = Find(model_type);
  return names != nullptr ? names->architecture : "";
}

Classifier::Classifier(const ModelConfig& config, ParameterStore& store,
                       int64_t classes) {
  const Names* names = Find(config.model_type);
  if (names == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {"classification", "a causal model or an encoder",
                 config.model_type, ""});
  }
  store.AllowNew(config);
  const int64_t width = config.width;
  if (names->dense != nullptr) {
    dense_ = Dense(store, names->dense, width, width, true);
    activation_ = names->activation;
  }
  output_ = Dense(store, names->output, width, classes, names->bias);
}

double Classifier::Loss(Context& context, ConstTensorView x,
                        const HeadTargets& targets, TensorView dx,
                        int64_t* hits) const {
  const int64_t width = x.shape[1];
  std::vector<int64_t> chosen;
  std::vector<int32_t> wanted;
  for (size_t t = 0; t < targets.targets.size(); ++t) {
    if (targets.targets[t] == kIgnoreTarget) continue;
    chosen.push_back(static_cast<int64_t>(t));
    wanted.push_back(targets.targets[t]);
  }
  if (dx) std::fill_n(dx.As<float>(), dx.shape[0] * width, 0.0f);
  const int64_t rows = static_cast<int64_t>(chosen.size());
  if (rows == 0) return 0;
  Tensor in(DType::kF32, {rows, width}), din(DType::kF32, {rows, width});
  Tensor dense(DType::kF32, {rows, width}), hidden(DType::kF32, {rows, width});
  Tensor logits(DType::kF32, {rows, classes()});
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(x.As<float>() + chosen[r] * width, width,
                in.As<float>() + r * width);
  }
  ConstTensorView last = in.view();
  if (dense_) {
    dense_.Forward(context, in.view(), dense.view());
    ActivationForward(context, {activation_},
                      {.x = dense.view(), .y = hidden.view()});
    last = hidden.view();
  }
  output_.Forward(context, last, logits.view());
  for (int64_t r = 0; r < rows && hits != nullptr; ++r) {
    const float* z = logits.As<float>() + r * classes();
    if (std::max_element(z, z + classes()) - z == wanted[r]) ++*hits;
  }
  std::vector<float> losses(chosen.size());
  CrossEntropy(context,
               {.smoothing = targets.smoothing, .scale = targets.scale},
               {.logits = logits.view(),
                .targets = ViewOf(wanted),
                .losses = View(losses.data(), {rows}),
                .dlogits = dx ? logits.view() : TensorView()});
  double total = 0;
  for (const float loss : losses) total += loss;
  if (!dx) return total;
  output_.Backward(context, last, logits.view(), din.view());
  if (dense_) {
    ActivationBackward(context, {activation_}, {.x = dense.view()},
                       {.dy = din.view(), .dx = din.view()});
    Tensor dhidden = std::move(din);
    din = Tensor(DType::kF32, {rows, width});
    dense_.Backward(context, in.view(), dhidden.view(), din.view());
  }
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(din.As<float>() + r * width, width,
                dx.As<float>() + chosen[r] * width);
  }
  return total;
}

}  // namespace headwise
