// Writing models for transformers. Door: huggingface.h.
//
// What stock code (transformers 5) takes, by architecture:
//   llama     heads that divide the width, of any head_dim; with attention_bias
//             biases on q, k, v and o together
//   mistral, ministral   any number of heads, a window or none; no biases
//   qwen2     any number of heads; biases on q, k, v, none on o
//   qwen3     any number of heads; attention_bias as llama's
//   seed_oss  any number of heads; biases on q, k, v and on o by two switches
//   gpt2, bert, roberta, distilbert, marian: heads · head_dim = width
#include "headwise/export/huggingface.h"

#include <fmt/core.h>

#include <utility>

#include "headwise/error.h"
#include "headwise/export/source.h"
#include "headwise/export/twin.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/family.h"
#include "headwise/model/head_ref.h"

namespace headwise {
namespace {

[[noreturn]] void RefuseFolder(const Checkpoint& checkpoint,
                               const std::string& expected,
                               const std::string& found,
                               const std::string& hint) {
  throw Error(ErrorCode::kUnsupported,
              {checkpoint.folder().string(), expected, found, hint});
}

std::string CountsOf(const ModelConfig& config) {
  std::string text;
  for (const LayerShape& layer : config.layers) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", layer.heads);
  }
  return text;
}

// What a stock architecture is told about the model.
struct Target {
  std::string type;  // model_type
  std::string architecture;
  UniformHeads counts;
  bool input_bias = false;   // on q, k, v
  bool output_bias = false;  // on o
};

Target Named(std::string type, UniformHeads counts) {
  const char* architecture = type == "mistral"     ? "MistralForCausalLM"
                             : type == "ministral" ? "MinistralForCausalLM"
                             : type == "qwen2"     ? "Qwen2ForCausalLM"
                             : type == "qwen3"     ? "Qwen3ForCausalLM"
                             : type == "seed_oss"  ? "SeedOssForCausalLM"
                                                   : "LlamaForCausalLM";
  return {std::move(type), architecture, counts};
}

// Of the Llama family: the model's own architecture where it takes the counts
// and the biases, else the nearest one.
Target ChooseLlama(const Checkpoint& checkpoint, UniformHeads counts) {
  const ModelConfig& config = checkpoint.config();
  const bool in = HasInputBias(checkpoint.model());
  const bool out = HasOutputBias(checkpoint.model());
  const bool divides = config.width % counts.heads == 0;
  std::string type = config.model_type;
  if (type == "llama" && !divides) type = "mistral";
  const bool both = (type == "llama" || type == "qwen3") && (in || out);
  const bool fits = both || (!in && !out && type != "qwen2") ||
                    (type == "qwen2" && in && !out);
  // "mlp_bias", which the others do not read.
  const bool mlp = HasMlpBias(checkpoint.model());
  if (fits && (!mlp || type == "llama")) {
    Target target = Named(type, counts);
    target.input_bias = target.output_bias = both;
    if (type == "qwen2") target.input_bias = true;
    return target;
  }
  if (HasWindow(config)) {
    RefuseFolder(checkpoint, "no window where attention has biases",
                 "a window and a bias of the output",
                 "prune without folding (--repair none)");
  }
  Target target = Named("seed_oss", counts);
  target.input_bias = in;
  target.output_bias = out;
  return target;
}

void SetConfig(const Target& target, const ModelConfig& model, Json& config) {
  config["num_attention_heads"] = target.counts.heads;
  config["num_key_value_heads"] = target.counts.kv_heads;
  config["head_dim"] = model.head_dim;
  const bool renamed = config["model_type"] != target.type;
  config["model_type"] = target.type;
  config["architectures"] = {target.architecture};
  if (target.type == "mistral" && !HasWindow(model)) {
    config["sliding_window"] = nullptr;
  }
  if (target.type == "llama" || target.type == "qwen3") {
    config["attention_bias"] = target.input_bias;
  }
  if (target.type == "seed_oss") {
    config["attention_bias"] = target.input_bias;
    config["attention_out_bias"] = target.output_bias;
    config["attention_dropout"] = 0.0;
    config["residual_dropout"] = 0.0;
    // Its own defaults are others' tokens.
    for (const char* key : {"pad_token_id", "bos_token_id", "eos_token_id"}) {
      if (!config.contains(key)) config[key] = nullptr;
    }
  }
  if (!renamed) return;
  for (const char* key : {"auto_map", "pretraining_tp", "layer_types"}) {
    config.erase(key);
  }
}

// Biases of zeros where the target has some and a layer has none: stock code
// would begin them anew.
void AddBiases(const Model& model, const Target& target,
               ChangedTensors& changed) {
  const auto add = [&](const Linear& linear) {
    for (const Parameter* weight : linear.WeightsWithoutBias()) {
      const auto spread = changed.find(weight->name);
      const int64_t outs = spread == changed.end() ? weight->stored().shape[0]
                                                   : spread->second.shape(0);
      changed[BiasNameOf(*weight)] = Tensor(weight->value.type, {outs});
    }
  };
  for (const auto* layer : AttentionLayers(model, AttentionKind::kSelf)) {
    if (target.input_bias) {
      for (const Linear* inputs : layer->inputs_of_x()) add(*inputs);
    }
    if (target.output_bias) add(layer->output());
  }
}

void ConvertAll(Context& context, const std::filesystem::path& folder,
                DType type, ChangedTensors& changed) {
  const Safetensors file = Safetensors::Open(folder);
  for (const auto& [name, view] : file.tensors()) {
    if (changed.contains(name) || view.type == type) continue;
    if (view.type != DType::kF32 && view.type != DType::kF16 &&
        view.type != DType::kBF16) {
      continue;  // indices, masks
    }
    changed[name] = Converted(context, view, type, name);
  }
  for (auto& [name, tensor] : changed) {
    if (tensor.type() != type) {
      tensor = Converted(context, tensor.view(), type, name);
    }
  }
}

// transformers makes weights of the type that the configuration names.
void NameType(DType type, Json& config) {
  config.erase("torch_dtype");
  config["dtype"] = type == DType::kF32   ? "float32"
                    : type == DType::kF16 ? "float16"
                                          : "bfloat16";
}

// A folded bias, where stock code has one by a switch that is off.
void SwitchOnBiases(const Model& model, ChangedTensors& changed, Json& config) {
  if (HasInputBias(model) || !HasOutputBias(model)) return;
  Target target;
  target.input_bias = target.output_bias = true;
  AddBiases(model, target, changed);
  config["attention_bias"] = true;
}

// Means of removed heads become such a bias.
void RequireStockBias(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  const auto has_one = FindFamily(config.model_type).stock_output_bias;
  if (has_one == nullptr || has_one(config)) return;
  if (!HasOutputBias(checkpoint.model())) return;
  RefuseFolder(checkpoint,
               "no bias behind the heads, where transformers' " +
                   config.model_type + " has none",
               "one", "prune without folding (--repair none)");
}

// WriteChanged writes a configuration beside changed tensors only.
void TouchOne(Context& context, const Model& model, ChangedTensors& changed) {
  if (!changed.empty()) return;
  const Parameter& one =
      model.stack().blocks[0].steps()[0].norms()[0]->weight_parameter();
  changed[one.name] = Converted(context, one.value, one.value.type, one.name);
}

// Families whose heads are as wide as their number leaves.
void RequireStockCounts(const Checkpoint& checkpoint, bool spread) {
  if (!spread) return;
  RefuseFolder(checkpoint,
               "the original number of heads: stock code of " +
                   checkpoint.config().model_type + " has one for all layers",
               "layers of " + CountsOf(checkpoint.config()) + " heads",
               "a twin has heads of zeros in their place (--twin)");
}

UniformHeads CountsFor(const Checkpoint& checkpoint, bool twin,
                       const Json& config) {
  const ModelConfig& model = checkpoint.config();
  if (twin) {
    return *FindUniformHeads(ReadConfig(ConfigOfTwin(config), "config.json"));
  }
  if (const auto counts = FindUniformHeads(model)) return *counts;
  RefuseFolder(
      checkpoint, "the same number of heads in every layer", CountsOf(model),
      "prune with --uniform, or write a twin with heads of zeros in their "
      "place (--twin)");
}

}  // namespace

std::string ExportHuggingFace(Context& context, const Checkpoint& checkpoint,
                              const ExportJob& job) {
  const ModelConfig& model = checkpoint.config();
  RequireOpenHeads(checkpoint.model(), checkpoint.folder().string());
  if (model.family == "llama") {
    RequirePlain(checkpoint.model(), checkpoint.folder().string());
    RequireOneWidth(checkpoint.model(), checkpoint.folder().string());
  }
  if (model.model_type == "gpt-nano") {
    RefuseFolder(checkpoint, "a model_type that transformers knows", "gpt-nano",
                 "");
  }
  Json config = ReadJson(checkpoint.folder() / "config.json");
  const Json original = config;
  ChangedTensors changed =
      SpreadHeads(checkpoint.model(), checkpoint.weights(), config);
  const bool pruned = !changed.empty();
  if (FindFamily(model.model_type).stock_head_dim) {
    const UniformHeads counts = CountsFor(checkpoint, job.twin, config);
    if (!job.twin) changed.clear();
    const Target target = ChooseLlama(checkpoint, counts);
    config = ConfigOfTwin(std::move(config));
    AddBiases(checkpoint.model(), target, changed);
    // What stock code reads already stays as it is.
    if (pruned || !changed.empty() || target.type != model.model_type) {
      SetConfig(target, model, config);
    }
  } else {
    RequireStockCounts(checkpoint, pruned && !job.twin);
    RequireStockBias(checkpoint);
    config = ConfigOfTwin(std::move(config));
    SwitchOnBiases(checkpoint.model(), changed, config);
  }
  if (job.type) {
    ConvertAll(context, checkpoint.folder(), *job.type, changed);
    NameType(*job.type, config);
  }
  if (config != original) TouchOne(context, checkpoint.model(), changed);
  WriteChanged(checkpoint.folder(), job.out, changed, config,
               job.force ? Replace::kAllowed : Replace::kRefused);
  return config.at("model_type").get<std::string>();
}

}  // namespace headwise
