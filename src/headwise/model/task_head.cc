// Door: task_head.h.
#include "headwise/model/task_head.h"

#include <utility>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {
namespace {

constexpr TaskHeadNames Score(const char* type, const char* architecture) {
  return {type, TaskKind::kText, architecture, nullptr, "score", false};
}
constexpr TaskHeadNames OfTokens(const char* type, const char* architecture) {
  return {type, TaskKind::kToken, architecture, nullptr, "classifier"};
}
// RoBERTa's way: a dense layer and the output, both within "classifier".
constexpr TaskHeadNames Within(const char* type, const char* architecture,
                               Activation activation = Activation::kTanh) {
  return {.type = type,
          .kind = TaskKind::kText,
          .architecture = architecture,
          .dense = "classifier.dense",
          .output = "classifier.out_proj",
          .activation = activation,
          .start = Start::ToStream()};
}
constexpr TaskHeadNames Modern(TaskKind kind, const char* architecture) {
  return {.type = "modernbert",
          .kind = kind,
          .architecture = architecture,
          .dense = "head.dense",
          .output = "classifier",
          .norm = "head.norm",
          .as_head = true};
}

constexpr TaskHeadNames kTaskHeads[] = {
    Score("gpt2", "GPT2ForSequenceClassification"),
    Score("llama", "LlamaForSequenceClassification"),
    Score("mistral", "MistralForSequenceClassification"),
    Score("qwen2", "Qwen2ForSequenceClassification"),
    Score("qwen3", "Qwen3ForSequenceClassification"),
    {"bert", TaskKind::kText, "BertForSequenceClassification",
     "bert.pooler.dense", "classifier"},
    OfTokens("bert", "BertForTokenClassification"),
    Within("roberta", "RobertaForSequenceClassification"),
    OfTokens("roberta", "RobertaForTokenClassification"),
    Within("xlm-roberta", "XLMRobertaForSequenceClassification"),
    OfTokens("xlm-roberta", "XLMRobertaForTokenClassification"),
    Within("camembert", "CamembertForSequenceClassification"),
    OfTokens("camembert", "CamembertForTokenClassification"),
    {"distilbert", TaskKind::kText, "DistilBertForSequenceClassification",
     "pre_classifier", "classifier", true, Activation::kRelu},
    OfTokens("distilbert", "DistilBertForTokenClassification"),
    Within("electra", "ElectraForSequenceClassification", Activation::kGelu),
    OfTokens("electra", "ElectraForTokenClassification"),
    {.type = "electra",
     .kind = TaskKind::kToken,
     .architecture = "ElectraForPreTraining",
     .dense = "discriminator_predictions.dense",
     .output = "discriminator_predictions.dense_prediction",
     .as_layers = true},
    Modern(TaskKind::kText, "ModernBertForSequenceClassification"),
    Modern(TaskKind::kToken, "ModernBertForTokenClassification"),
    {"albert", TaskKind::kText, "AlbertForSequenceClassification",
     "albert.pooler", "classifier"},
    OfTokens("albert", "AlbertForTokenClassification"),
    Within("mpnet", "MPNetForSequenceClassification"),
    OfTokens("mpnet", "MPNetForTokenClassification")};

// The class in config.json, "" where it names none.
std::string ArchitectureOf(const Json& json) {
  const auto found = json.find("architectures");
  if (found == json.end() || !found->is_array() || found->empty() ||
      !found->front().is_string()) {
    return "";
  }
  return found->front().get<std::string>();
}

const TaskHeadNames& NamesOf(const Json& json, const ModelConfig& config) {
  const std::string architecture = ArchitectureOf(json);
  std::string known;
  for (const TaskHeadNames& names : kTaskHeads) {
    if (config.model_type != names.type) continue;
    if (architecture == names.architecture) return names;
    known += (known.empty() ? "" : ", ") + std::string(names.architecture);
  }
  throw Error(ErrorCode::kUnsupported,
              {"config.json",
               "\"architectures\" to name a head of classes" +
                   (known.empty() ? " of a known family" : ": " + known),
               architecture.empty() ? "none" : architecture, ""});
}

// Names of classes by number, LABEL_0 … where none are given.
std::vector<std::string> LabelsOf(const Json& json, int64_t classes) {
  const JsonCursor config(json, "config.json");
  const auto given = config.Find("id2label");
  std::vector<std::string> labels;
  for (int64_t i = 0; i < classes; ++i) {
    const std::string number = std::to_string(i);
    labels.push_back(given ? given->String(number, "LABEL_" + number)
                           : "LABEL_" + number);
  }
  return labels;
}

Linear DenseOf(const WeightSource& weights, const std::string& name, int64_t in,
               int64_t out, bool biased) {
  return Linear({{weights.Get(name + ".weight", {out, in}, Start::Absent()),
                  biased ? weights.Get(name + ".bias", {out}, Start::Absent())
                         : Parameter{}}},
                WeightLayout::kOutIn);
}

}  // namespace

const TaskHeadNames* FindTaskHead(const std::string& model_type,
                                  TaskKind kind) {
  for (const TaskHeadNames& names : kTaskHeads) {
    if (model_type == names.type && kind == names.kind) return &names;
  }
  return nullptr;
}

TaskHead ReadTaskHead(const Json& json, const ModelConfig& config,
                      const WeightSource& weights) {
  const TaskHeadNames& names = NamesOf(json, config);
  const int64_t d = config.width;
  TaskHead head;
  head.kind = names.kind;
  head.activation = names.as_layers ? config.activation
                    : names.as_head ? config.head_activation
                                    : names.activation;
  if (names.dense != nullptr) {
    head.dense = DenseOf(weights, names.dense, d, d,
                         !names.as_head || config.transform_bias);
  }
  if (names.norm != nullptr) {
    const std::string norm = names.norm;
    head.norm = Norm(NormKind::kLayer, config.norm_epsilon,
                     weights.Get(norm + ".weight", {d}, Start::Absent()),
                     weights.Maybe(norm + ".bias", {d}, Start::Absent()));
    head.averages =
        JsonCursor(json, "config.json").String("classifier_pooling", "cls") ==
        "mean";
  }
  const ConstTensorView output =
      weights
          .Get(std::string(names.output) + ".weight", {WeightSource::kAny, d},
               Start::Absent())
          .value;
  head.output = DenseOf(weights, names.output, d, output.shape[0], names.bias);
  head.labels = LabelsOf(json, head.classes());
  return head;
}

Temp TaskHead::Run(Context& context, ConstTensorView x) const {
  const int64_t rows = x.shape[0], width = x.shape[1];
  Temp in(context, DType::kF32, {rows, width});
  Copy(context, x, in.view());
  if (dense) {
    Temp made(context, DType::kF32, {rows, width});
    dense.Forward(context, in.view(), made.view());
    ActivationForward(context, {activation},
                      {.x = made.view(), .y = in.view()});
    if (norm) norm.Forward(context, in.view(), in.view());
  }
  Temp logits(context, DType::kF32, {rows, classes()});
  output.Forward(context, in.view(), logits.view());
  return logits;
}

}  // namespace headwise
