// Weights and sizes as llama.cpp names them. Door: gguf.h.
#include "headwise/export/gguf.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/export/source.h"
#include "headwise/ops/rope/rope.h"
#include "headwise/tensor/places.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

[[noreturn]] void Refuse(const Checkpoint& checkpoint,
                         const std::string& expected, const std::string& found,
                         const std::string& hint = "") {
  throw Error(ErrorCode::kUnsupported,
              {checkpoint.folder().string(), expected, found, hint});
}

bool HasHeadNorms(const Model& model) {
  return static_cast<bool>(
      model.stack().blocks[0].parts().attention.weights().query_norm);
}

// llama.cpp calculates Yarn's frequencies and scale itself.
void RequireKnownRope(const Checkpoint& checkpoint) {
  const RopeConfig& rope = checkpoint.config().rope;
  if (rope.scaling != RopeScaling::kYarn) return;
  const RopeConfig usual;
  const bool known = rope.kept_turns == usual.kept_turns &&
                     rope.divided_turns == usual.divided_turns &&
                     rope.whole_pairs && rope.scale == YarnScale(rope.factor);
  if (known) return;
  Refuse(checkpoint,
         "yarn with the usual beta_fast, beta_slow, truncate and "
         "attention_factor",
         "another", "llama.cpp calculates them from the factor alone");
}

std::string ChooseArchitecture(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  if (config.family != "llama") {
    Refuse(checkpoint, "a model of the Llama family for GGUF",
           config.model_type);
  }
  if (config.activation != Activation::kSilu) {
    Refuse(checkpoint, "the activation silu", "another",
           "llama.cpp has no other here");
  }
  RequireKnownRope(checkpoint);
  for (const LayerShape& layer : config.layers) {
    if (layer.window == 0 || layer.window >= config.context) continue;
    Refuse(checkpoint, "layers that see the whole context", "a window",
           "llama.cpp knows none in this architecture");
  }
  const bool uniform = FindUniformHeads(config).has_value();
  if (HasHeadNorms(checkpoint.model())) {
    if (uniform && !HasOutputBias(checkpoint.model())) return "qwen3";
    Refuse(checkpoint,
           "the same heads in every layer and no bias of the output, as "
           "llama.cpp's qwen3 has it",
           uniform ? "a bias" : "layers that differ",
           "prune with --uniform and --repair none");
  }
  if (uniform) return "llama";
  // deci takes the width of heads from its first layer, and passes by the
  // whole attention where a layer has no heads.
  if (config.layers[0].heads == 0) {
    Refuse(checkpoint, "heads in the first layer", "none");
  }
  for (const Block& block : checkpoint.model().stack().blocks) {
    const AttentionLayer& layer = block.parts().attention;
    if (layer.config().heads == 0 && layer.weights().output.parts()[0].bias) {
      Refuse(checkpoint, "no bias in a layer without heads", "one",
             "prune without --allow-empty, or with --repair none");
    }
  }
  return "deci";
}

// llama.cpp turns neighbours (2i, 2i + 1) where checkpoints of transformers
// turn (i, i + D/2): rows change places within each head.
Tensor Interleaved(const Tensor& rows, int64_t head_dim,
                   const std::string& name) {
  std::vector<int64_t> sources;
  const int64_t half = head_dim / 2;
  for (int64_t row = 0; row < rows.shape(0); ++row) {
    const int64_t in_head = row % head_dim;
    sources.push_back(row - in_head + in_head / 2 + in_head % 2 * half);
  }
  return Select(rows.view(), 0, sources, name);
}

// A folder's own name, which need not be UTF-8; a file's texts must be.
std::string NameOf(const std::filesystem::path& folder) {
  std::error_code code;
  const std::filesystem::path real = std::filesystem::canonical(folder, code);
  return ReplaceInvalidUtf8((code ? folder : real).filename().string());
}

enum class Rows : uint8_t { kAsTheyAre, kInterleaved };

class Exporter {
 public:
  Exporter(Context& context, const Checkpoint& checkpoint,
           const GgufOptions& options)
      : context_(context),
        model_(checkpoint.model()),
        config_(checkpoint.config()),
        options_(options),
        architecture_(ChooseArchitecture(checkpoint)) {}

  const std::string& architecture() const { return architecture_; }

  void AddSizes(const std::string& name, GgufWriter& writer) const {
    writer.AddText("general.architecture", architecture_);
    writer.AddText("general.name", name);
    const DType type = TypeOf(model_.stack().embeddings.tokens.value);
    writer.AddCount("general.file_type", type == DType::kF32   ? 0
                                         : type == DType::kF16 ? 1
                                                               : 32);
    const std::string a = architecture_ + ".";
    writer.AddCount(a + "vocab_size", config_.vocabulary);
    writer.AddCount(a + "context_length", config_.context);
    writer.AddCount(a + "embedding_length", config_.width);
    writer.AddCount(a + "block_count", std::ssize(config_.layers));
    writer.AddCount(a + "feed_forward_length", config_.hidden);
    writer.AddCount(a + "attention.key_length", config_.head_dim);
    writer.AddCount(a + "attention.value_length", config_.head_dim);
    writer.AddCount(a + "rope.dimension_count", config_.head_dim);
    writer.AddNumber(a + "rope.freq_base",
                     static_cast<float>(config_.rope.base));
    writer.AddNumber(a + "attention.layer_norm_rms_epsilon",
                     config_.norm_epsilon);
    AddRopeScaling(a + "rope.scaling.", writer);
    AddHeadCounts(a, writer);
  }

  void AddWeights(GgufWriter& writer) const {
    AddMatrix("token_embd.weight", model_.stack().embeddings.tokens, writer);
    AddVector("output_norm.weight",
              model_.stack().final_norm.weight_parameter(), writer);
    const Parameter& head = model_.head().vocabulary.parts()[0].weight;
    if (head.name != model_.stack().embeddings.tokens.name) {
      AddMatrix("output.weight", head, writer);
    }
    if (config_.rope.scaling == RopeScaling::kLlama3) AddFrequencies(writer);
    for (size_t i = 0; i < model_.stack().blocks.size(); ++i) {
      AddBlock("blk." + std::to_string(i) + ".",
               model_.stack().blocks[i].parts(), writer);
    }
  }

 private:
  DType TypeOf(const ConstTensorView& view) const {
    return options_.type.value_or(view.type);
  }

  // Llama 3's frequencies are a tensor.
  void AddRopeScaling(const std::string& a, GgufWriter& writer) const {
    const RopeConfig& rope = config_.rope;
    const bool yarn = rope.scaling == RopeScaling::kYarn;
    if (!yarn && rope.scaling != RopeScaling::kLinear) return;
    writer.AddText(a + "type", yarn ? "yarn" : "linear");
    writer.AddNumber(a + "factor", static_cast<float>(rope.factor));
    if (yarn) {
      writer.AddCount(a + "original_context_length", rope.original_context);
    }
  }

  void AddHeadCounts(const std::string& a, GgufWriter& writer) const {
    if (const auto all = FindUniformHeads(config_)) {
      writer.AddCount(a + "attention.head_count", all->heads);
      writer.AddCount(a + "attention.head_count_kv", all->kv_heads);
      return;
    }
    std::vector<int64_t> heads, groups;
    for (const LayerShape& layer : config_.layers) {
      heads.push_back(layer.heads);
      groups.push_back(layer.kv_heads);
    }
    writer.AddCounts(a + "attention.head_count", heads);
    writer.AddCounts(a + "attention.head_count_kv", groups);
  }

  void Add(const std::string& name, const Parameter& parameter, DType type,
           Rows rows, GgufWriter& writer) const {
    const ConstTensorView view = parameter.value;
    const Shape shape(
        std::span(view.shape.data(), static_cast<size_t>(view.rank)));
    writer.AddTensor(name, type, shape, [this, view, type, rows, name] {
      Tensor tensor = Converted(context_, view, type, name);
      if (rows == Rows::kAsTheyAre) return tensor;
      return Interleaved(tensor, config_.head_dim, name);
    });
  }
  void AddMatrix(const std::string& name, const Parameter& parameter,
                 GgufWriter& writer, Rows rows = Rows::kAsTheyAre) const {
    Add(name, parameter, TypeOf(parameter.value), rows, writer);
  }
  // llama.cpp multiplies and adds vectors in f32 only.
  void AddVector(const std::string& name, const Parameter& parameter,
                 GgufWriter& writer, Rows rows = Rows::kAsTheyAre) const {
    if (parameter) Add(name, parameter, DType::kF32, rows, writer);
  }

  void AddLinear(const std::string& name, const Linear::Part& part,
                 GgufWriter& writer, Rows rows = Rows::kAsTheyAre) const {
    AddMatrix(name + ".weight", part.weight, writer, rows);
    AddVector(name + ".bias", part.bias, writer, rows);
  }

  // By what the frequencies are divided.
  void AddFrequencies(GgufWriter& writer) const {
    RopeConfig plain = config_.rope;
    plain.scaling = RopeScaling::kNone;
    const int64_t pairs = config_.head_dim / 2;
    writer.AddTensor("rope_freqs.weight", DType::kF32, {pairs},
                     [config = config_.rope, plain, pairs] {
                       const auto scaled = RopeFrequencies(config);
                       const auto before = RopeFrequencies(plain);
                       Tensor factors(DType::kF32, {pairs});
                       for (int64_t i = 0; i < pairs; ++i) {
                         factors.As<float>()[i] = before[i] / scaled[i];
                       }
                       return factors;
                     });
  }

  void AddAttention(const std::string& name, const AttentionLayer& layer,
                    GgufWriter& writer) const {
    const AttentionWeights& weights = layer.weights();
    const char* const names[] = {"attn_q", "attn_k", "attn_v"};
    for (size_t i = 0; i < weights.qkv.parts().size(); ++i) {
      const Linear::Part& part = weights.qkv.parts()[i];
      const bool turns = i < 2 && architecture_ != "qwen3";
      const Rows rows = turns ? Rows::kInterleaved : Rows::kAsTheyAre;
      AddLinear(name + names[i], part, writer, rows);
    }
    AddLinear(name + "attn_output", weights.output.parts()[0], writer);
    if (architecture_ != "qwen3") return;
    AddVector(name + "attn_q_norm.weight",
              weights.query_norm.weight_parameter(), writer);
    AddVector(name + "attn_k_norm.weight", weights.key_norm.weight_parameter(),
              writer);
  }

  void AddBlock(const std::string& name, const BlockParts& parts,
                GgufWriter& writer) const {
    if (parts.attention.config().heads > 0) {
      AddVector(name + "attn_norm.weight",
                parts.attention_norm.weight_parameter(), writer);
      AddAttention(name, parts.attention, writer);
    }
    AddVector(name + "ffn_norm.weight", parts.mlp_norm.weight_parameter(),
              writer);
    // Gate and input stand side by side.
    const auto& in = parts.mlp.in().parts();
    AddLinear(name + "ffn_gate", in[0], writer);
    AddLinear(name + "ffn_up", in[1], writer);
    AddLinear(name + "ffn_down", parts.mlp.down().parts()[0], writer);
  }

  Context& context_;
  const Model& model_;
  const ModelConfig& config_;
  const GgufOptions& options_;
  std::string architecture_;
};

}  // namespace

std::string ExportGguf(Context& context, const Checkpoint& checkpoint,
                       const GgufOptions& options) {
  RequirePlain(checkpoint.config(), checkpoint.folder().string());
  const Exporter exporter(context, checkpoint, options);
  GgufWriter writer;
  exporter.AddSizes(NameOf(checkpoint.folder()), writer);
  if (options.tokenizer) {
    AddGgufTokenizer(checkpoint, writer);
  } else {
    writer.AddText("tokenizer.ggml.model", "none");
  }
  exporter.AddWeights(writer);
  writer.Write(options.out);
  return exporter.architecture();
}

}  // namespace headwise
