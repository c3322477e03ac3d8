// What models are and cost. Door: include/headwise/model_info.h.
#include "headwise/api/model_info.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "headwise/api/state.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/head_weights.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/summary.h"
#include "headwise/model/text_frame.h"
#include "headwise/nn/experts.h"
#include "headwise/nn/head_weights.h"
#include "headwise/tensor/matrix.h"
#include "headwise/tokenizer.h"

namespace headwise {
namespace {

// The folder's own name, whatever the form of its path (".", "gpt2/", a link).
std::string FolderName(const std::filesystem::path& folder) {
  std::error_code unknown;
  auto path = std::filesystem::weakly_canonical(folder, unknown);
  if (unknown) path = folder.lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

const char* NameOf(Positions positions) {
  switch (positions) {
    case Positions::kNone:
      return "none";
    case Positions::kLearned:
      return "learned";
    case Positions::kSinusoid:
      return "sinusoid";
    case Positions::kRotary:
      return "rotary";
    case Positions::kRelative:
      return "relative";
  }
  return "";
}

std::vector<LayerInfo> LayersOf(const ModelConfig& config,
                                const std::vector<LayerShape>& shapes) {
  std::vector<LayerInfo> layers;
  for (const LayerShape& shape : shapes) {
    layers.push_back({shape.heads, shape.kv_heads, shape.cross_heads,
                      shape.window, config.HeadDim(shape),
                      config.ValueDim(shape), shape.keys_of, shape.hidden,
                      shape.mixture, shape.weights_of});
  }
  return layers;
}

std::vector<LayerShape> ShapesOf(const std::vector<LayerInfo>& layers) {
  std::vector<LayerShape> shapes;
  for (const LayerInfo& layer : layers) {
    LayerShape& shape = shapes.emplace_back();
    shape.heads = layer.heads;
    shape.kv_heads = layer.kv_heads;
    shape.cross_heads = layer.cross_heads;
    shape.window = layer.window;
    shape.head_dim = layer.head_dim;
    shape.value_dim = layer.value_dim;
    shape.keys_of = layer.keys_of;
    shape.hidden = layer.feed_forward;
    shape.mixture = layer.mixture;
    shape.weights_of = layer.weights_of;
  }
  return shapes;
}

const Model* FindModel(const Checkpoint& checkpoint) {
  try {
    return &checkpoint.model();
  } catch (const Error&) {  // what the folder says can still be told
    return nullptr;
  }
}

// By what config.json says.
bool Classifies(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return false;
  const Json json = ReadJson(file);
  if (!json.is_object() || !json.contains("architectures") ||
      !json["architectures"].is_array()) {
    return false;
  }
  for (const Json& name : json["architectures"]) {
    if (name.is_string() &&
        name.get<std::string>().ends_with("ForSequenceClassification")) {
      return true;
    }
  }
  return false;
}

// [outputs, inputs], of all parts below each other.
Matrix WholeMatrix(Context& context, const Linear& linear) {
  Matrix all(linear.out(), linear.in());
  int64_t at = 0;
  for (const Linear::Part& part : linear.parts()) {
    Matrix own = FromTensor(ToF32(context, part.weight));
    if (linear.layout() == WeightLayout::kInOut) own = Transpose(own);
    std::copy(own.values.begin(), own.values.end(),
              all.values.begin() + at * all.columns);
    at += own.rows;
  }
  return all;
}

// Rows first, first + step, …, `count` of them.
MatrixSize SizeOf(const Matrix& of, int64_t first, int64_t step,
                  int64_t count) {
  Matrix rows(count, of.columns);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < of.columns; ++c) {
      rows(r, c) = of(first + r * step, c);
    }
  }
  return {count, of.columns, RankOf(std::move(rows))};
}

ExpertSize SizeOf(Context& context, const Mlp& expert) {
  ExpertSize size;
  const Matrix in = WholeMatrix(context, expert.in());
  const int64_t hidden = expert.hidden();
  const int64_t step = expert.interleaved() ? 2 : 1;
  const int64_t up = !expert.gated() ? 0 : expert.interleaved() ? 1 : hidden;
  if (expert.gated()) size.gate = SizeOf(in, 0, step, hidden);
  size.up = SizeOf(in, up, step, hidden);
  const Matrix down = WholeMatrix(context, expert.down());
  size.down = SizeOf(down, 0, 1, down.rows);
  return size;
}

}  // namespace

ModelInfo InfoOf(const Checkpoint& checkpoint, const Model* model) {
  const ModelSummary summary = Summarise(checkpoint);
  const ModelConfig& config = summary.config;
  ModelInfo info;
  info.name = FolderName(checkpoint.folder());
  info.family = config.family;
  info.model_type = config.model_type;
  info.width = config.width;
  info.embedding_width = config.EmbeddingWidth();
  info.head_dim = config.head_dim;
  info.feed_forward = config.hidden;
  info.decoder_feed_forward = config.decoder_hidden;
  if (config.mixture.experts > 0) {
    info.experts = config.mixture.experts;
    info.active_experts = config.mixture.router.active;
    info.expert_width = config.mixture.hidden;
    info.shared_expert_width = config.mixture.shared_hidden;
  }
  info.gated = config.gated;
  info.pre_norm = config.norm_place == NormPlace::kPre;
  info.positions = NameOf(config.positions);
  info.rotary_base =
      (config.ropes.empty() ? RopeConfig() : config.ropes[0]).base;
  info.gates = Name(config.gates.kind);
  info.shared_heads = config.gates.shared;
  info.active_heads = config.gates.active;
  info.span_ramp = config.spans.ramp;
  info.vocabulary = config.vocabulary;
  info.context = config.context;
  info.causal = config.causal;
  info.encoder_decoder = config.encoder_decoder();
  if (model != nullptr) {
    info.predicts_tokens = model->has_head();
    info.unread = model->unread();
  }
  info.classifies = Classifies(checkpoint.folder());
  info.layers = LayersOf(config, config.layers);
  info.decoder_layers = LayersOf(config, config.decoder);
  info.tensors = summary.tensors;
  info.parameters = summary.parameters;
  info.embedding_parameters = summary.embedding_parameters;
  info.file_bytes = summary.file_bytes;
  info.types = summary.types;
  return info;
}

ModelInfo ReadModelInfo(const std::filesystem::path& folder) {
  const Checkpoint checkpoint(folder);
  return InfoOf(checkpoint, FindModel(checkpoint));
}

TextFrame ReadTextFrame(const Tokenizer& tokenizer,
                        const std::filesystem::path& path) {
  const auto pieces = [&](const std::vector<int32_t>& ids) {
    std::vector<std::string> texts;
    for (const int32_t id : ids) texts.push_back(PieceText(tokenizer, id));
    return texts;
  };
  const bool has_model = std::filesystem::exists(path / "config.json");
  TokenFrame frame =
      FrameOf(tokenizer, has_model ? OpenConfig(path) : ModelConfig());
  TextFrame result;
  result.before_pieces = pieces(frame.before);
  result.after_pieces = pieces(frame.after);
  result.before = std::move(frame.before);
  result.after = std::move(frame.after);
  result.why = std::move(frame.why);
  return result;
}

std::optional<TextFrame> ReadTextFrame(const std::filesystem::path& folder,
                                       BosChoice bos) {
  const auto tokenizer = Tokenizer::Find(folder, {.bos = bos});
  if (tokenizer == nullptr) return {};
  return ReadTextFrame(*tokenizer, folder);
}

Encoding EncodeFramed(const Tokenizer& tokenizer, const TextFrame& frame,
                      std::string_view text) {
  return Framer(tokenizer,
                TokenFrame{.before = frame.before, .after = frame.after})
      .Encode(text);
}

TextCost CostOf(const ModelInfo& info, int64_t tokens) {
  ModelConfig config;
  config.width = info.width;
  config.embedding_width = info.embedding_width;
  config.head_dim = info.head_dim;
  config.hidden = info.feed_forward;
  config.decoder_hidden = info.decoder_feed_forward;
  config.gated = info.gated;
  config.vocabulary = info.vocabulary;
  config.causal = info.causal;
  config.layers = ShapesOf(info.layers);
  config.decoder = ShapesOf(info.decoder_layers);
  const RunCost cost = CostOf(config, tokens);
  return {.tokens = cost.tokens,
          .projection_flops = cost.projection_flops,
          .attention_flops = cost.attention_flops,
          .mlp_flops = cost.mlp_flops,
          .head_flops = cost.head_flops,
          .cache_bytes = cost.cache_bytes,
          .stream_bytes = cost.stream_bytes,
          .maps_bytes = cost.maps_bytes};
}

HeadShare ShareOfHeads(const Transformer& model) {
  constexpr int64_t kShareTokens = 512;
  const Model& of = model.state().model();
  const ModelInfo& info = model.info();
  int64_t token = WeightBytesOfToken(of), token_heads = 0;
  HeadShare share;
  for (const AttentionKind kind :
       {AttentionKind::kSelf, AttentionKind::kDecoder, AttentionKind::kCross}) {
    const bool predicts =
        (kind == AttentionKind::kSelf) != info.encoder_decoder;
    for (const AttentionLayer* layer : AttentionLayers(of, kind)) {
      const auto inputs = layer->inputs();
      const int64_t read =
          inputs[0]->stored_bytes() + layer->output().stored_bytes();
      // Of the memory: made once a text.
      const int64_t once = layer->cross() ? inputs[1]->stored_bytes() : 0;
      share.head_bytes += read + once;
      if (!predicts) continue;
      token_heads += read;
      token -= once;
    }
  }
  share.bytes = info.file_bytes;
  share.tokens =
      info.context > 0 ? std::min(kShareTokens, info.context) : kShareTokens;
  const TextCost cost = CostOf(info, share.tokens);
  share.prefill = (cost.projection_flops + cost.attention_flops) / cost.flops();
  if (info.predicts_tokens && (info.causal || info.encoder_decoder)) {
    share.decode =
        static_cast<double>(token_heads) / static_cast<double>(token);
  }
  return share;
}

std::vector<HeadSize> SizesOfHeads(Transformer& model) {
  const ModelUse use(model);
  Context& context = model.context();
  std::vector<HeadSize> sizes;
  for (const HeadRef& head : HeadsOf(model)) {
    const AttentionLayer& layer =
        *AttentionLayers(model.state().model(), head.kind)[head.layer];
    const HeadWeights weights = WeightsOfHead(context, layer, head.head);
    HeadSize& size = sizes.emplace_back();
    size.head = head;
    size.qk_norm = QkNorm(context, weights);
    size.ov_norm = OvNorm(context, weights);
    size.query_norms = NormsQueries(layer);
    if (const Parameter& gate = layer.weights().gates.weights().log_alpha) {
      size.gate = ConcreteGate(ToF32(context, gate).As<float>()[head.head]);
    }
    if (const Parameter& span = layer.weights().spans.spans()) {
      size.span =
          static_cast<double>(layer.weights().spans.config().limit) *
          std::clamp(ToF32(context, span).As<float>()[head.head], 0.0f, 1.0f);
    }
  }
  return sizes;
}

std::vector<ExpertSize> SizesOfExperts(Transformer& model) {
  const ModelUse use(model);
  Context& context = model.context();
  std::vector<ExpertSize> sizes;
  const std::vector<Block>& blocks = model.state().model().stack().blocks;
  for (size_t layer = 0; layer < blocks.size(); ++layer) {
    for (const BlockStep& step : blocks[layer].steps()) {
      if (!step.experts) continue;
      const auto add = [&](const Mlp& expert, int64_t number) {
        ExpertSize& size = sizes.emplace_back(SizeOf(context, expert));
        size.layer = static_cast<int64_t>(layer);
        size.expert = number;
      };
      const std::vector<Mlp>& experts = step.experts.experts();
      for (size_t e = 0; e < experts.size(); ++e) {
        add(experts[e], static_cast<int64_t>(e));
      }
      if (step.experts.has_shared()) add(step.experts.shared(), -1);
    }
  }
  return sizes;
}

}  // namespace headwise
