// gpt-oss (OpenAI 2025): pre-norm decoder whose layers are all mixtures of
// experts, every second one with a window. Each head has a logit that takes
// part in its softmax and stands for no token; gate and up of an expert lie by
// turns and are clamped. Experts may be stored in mxfp4. Door: ../family.h.
#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/fp4_stack.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

// The rotary positions of transformers where a file says none.
RopeConfig DefaultGptOssRope(int64_t head_dim) {
  RopeConfig rope;
  rope.head_dim = head_dim;
  rope.base = 150000;
  rope.scaling = RopeScaling::kYarn;
  rope.factor = 32;
  rope.original_context = 4096;
  rope.kept_turns = 32;
  rope.divided_turns = 1;
  rope.whole_pairs = false;
  rope.scale = YarnScale(rope.factor);
  return rope;
}

ModelConfig ReadGptOss(const ConfigReader& reader) {
  ModelConfig config = ReadDecoder(
      reader, {.other_epsilon = 1e-5, .other_kv_heads = 8, .head_dim = 64});
  reader.Require("hidden_act", "silu", "gate and up are clamped around it");
  reader.Require("swiglu_limit", kClampedSiluLimit);
  config.activation = Activation::kClampedSilu;
  config.ropes = {reader.Has("rope_parameters") || reader.Has("rope_scaling")
                      ? ReadRope(reader, config.head_dim,
                                 {.other_base = 150000, .shares = false})
                      : DefaultGptOssRope(config.head_dim)};
  config.attention_bias = reader.Flag("attention_bias", true);
  config.output_bias = config.attention_bias;
  config.mixture = ReadMixture(reader, {.experts = "num_local_experts",
                                        .other_experts = 128,
                                        .other_active = 4});
  config.mixture.hidden = config.hidden;
  config.mixture.router.normalized = true;
  for (LayerShape& layer : config.layers) SetMixture(config, layer);
  const bool none =
      reader.json().contains("sliding_window") && !reader.Has("sliding_window");
  ReadWindows(
      reader, none ? 0 : reader.Size({"sliding_window"}, 128),
      "sliding_attention needs sliding_window",
      [](int64_t layer) { return layer % 2 == 0; }, config);
  return config;
}

class GptOssBuilder : public DecoderBuilder {
 public:
  using DecoderBuilder::DecoderBuilder;

 private:
  void Complete(const DecoderLayer& layer, const std::string& attn,
                AttentionLayerConfig&, AttentionWeights& weights) const final {
    if (layer.shape.heads == 0) return;
    weights.sinks = Values(
        weights_.Get(attn + "sinks", {layer.shape.heads}, Start::Zero()));
  }

  void Feed(const DecoderLayer& layer, BlockStep& step) const final {
    const std::string name = layer.name + "mlp.";
    const int64_t experts = config_.mixture.experts, d = config_.width;
    const int64_t hidden = config_.mixture.hidden;
    ExpertStacks stacks;
    stacks.activation = config_.activation;
    stacks.interleaved = true;
    if (HasFp4Stack(weights_, name + "experts.gate_up_proj")) {
      stacks.in =
          Unpacked(name + "experts.gate_up_proj", {experts, 2 * hidden, d});
      stacks.down = Unpacked(name + "experts.down_proj", {experts, d, hidden});
    } else {
      stacks.layout = WeightLayout::kInOut;
      stacks.in = weights_.Get(name + "experts.gate_up_proj",
                               {experts, d, 2 * hidden}, Start::Normal());
      stacks.down = weights_.Get(name + "experts.down_proj",
                                 {experts, hidden, d}, Start::ToStream());
    }
    stacks.in_bias = weights_.Get(name + "experts.gate_up_proj_bias",
                                  {experts, 2 * hidden}, Start::Zero());
    stacks.down_bias = weights_.Get(name + "experts.down_proj_bias",
                                    {experts, d}, Start::Zero());
    step.experts = Experts(
        {.name = layer.site + ".mlp",
         .config = config_.mixture.router,
         .router = Dense({Part(name + "router", d, experts, Start::Normal())}),
         .experts = ExpertsOf(stacks)});
  }

  Parameter Unpacked(const std::string& name, const Shape& shape) const {
    std::shared_ptr<const Tensor> made;
    Parameter stack = UnpackFp4Stack(weights_, name, shape, made);
    Keep(std::move(made));
    return stack;
  }
};

}  // namespace

const Family kGptOssFamily = {.name = "gpt_oss",
                              .model_types = {"gpt_oss"},
                              .read_config = ReadGptOss,
                              .build = BuildDecoder<GptOssBuilder>,
                              .quantization = "mxfp4"};

}  // namespace headwise
