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
#include "headwise/model/family.h"
#include "headwise/nn/head_slices.h"
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
      model.stack().blocks[0].attention().weights().query_norm);
}

// Steps that llama.cpp's architectures here do not have, by name.
void RequireKnownSteps(const Checkpoint& checkpoint) {
  for (const Block& block : checkpoint.model().stack().blocks) {
    for (const BlockStep& step : block.steps()) {
      const std::string name = block.name() + "." + step.name();
      if (step.input != StepInput::kStream) {
        Refuse(checkpoint, "steps one behind the other",
               name + " beside the one before");
      }
      if (!step.is_plain() || !step.before) {
        Refuse(checkpoint, "steps with a norm before and none behind",
               "another in " + name);
      }
      if (step.before.kind() != NormKind::kRms) {
        Refuse(checkpoint,
               "a model of the Llama family for GGUF: root-mean-square norms",
               "a layer norm in " + name);
      }
      if (step.kind == StepKind::kFeedForward && !step.mlp.gated()) {
        Refuse(checkpoint, "a gated feed-forward step", "another in " + name);
      }
    }
  }
}

// Whether frequencies are told by factors in tensors.
bool HasRopeFactors(const RopeConfig& rope) {
  return rope.scaling == RopeScaling::kLlama3 ||
         rope.scaling == RopeScaling::kLongrope;
}

// llama.cpp turns heads of these architectures whole and in every layer alike,
// and calculates Yarn's frequencies and scale itself.
void RequireKnownRope(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  const auto first = [](const LayerShape& layer) { return layer.rope == 0; };
  if (config.ropes.size() != 1 || !std::ranges::all_of(config.layers, first)) {
    Refuse(checkpoint, "the same rotary positions in every layer", "others",
           "llama.cpp has one kind in this architecture");
  }
  const RopeConfig& rope = config.ropes[0];
  if (rope.dims() != config.head_dim ||
      rope.scaling == RopeScaling::kProportional) {
    Refuse(checkpoint, "rotary positions of whole heads",
           std::to_string(rope.dims()) + " of " +
               std::to_string(config.head_dim) + " dimensions",
           "llama.cpp knows no share in this architecture");
  }
  if (rope.pairs != RopePairs::kHalves) {
    Refuse(checkpoint, "rotary pairs of the halves of a head", "neighbours");
  }
  if (rope.scaling == RopeScaling::kDynamic) {
    Refuse(checkpoint,
           "rotary positions of the type default, linear, llama3, yarn or "
           "longrope",
           "dynamic", "llama.cpp has frequencies of one length");
  }
  if (HasRopeFactors(rope) && HasHeadNorms(checkpoint.model())) {
    Refuse(checkpoint,
           "rotary positions of the type default, linear or yarn in a model "
           "with norms of query and key heads",
           "llama3 or longrope", "llama.cpp's qwen3 reads no factors");
  }
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
  const char* family = FindFamily(config.model_type).gguf;
  RequireKnownSteps(checkpoint);
  if (family == nullptr) {
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
  if (uniform) return family;
  // deci takes the width of heads from its first layer, and passes by the
  // whole attention where a layer has no heads.
  if (config.layers[0].heads == 0) {
    Refuse(checkpoint, "heads in the first layer", "none");
  }
  for (const Block& block : checkpoint.model().stack().blocks) {
    const AttentionLayer& layer = block.attention();
    if (layer.config().heads == 0 && layer.output().has_bias()) {
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
  Exporter(Context& context, const Checkpoint& checkpoint, const ExportJob& job)
      : context_(context),
        model_(checkpoint.model()),
        config_(checkpoint.config()),
        job_(job),
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
    writer.AddNumber(a + "rope.freq_base", static_cast<float>(rope().base));
    writer.AddNumber(a + "attention.layer_norm_rms_epsilon",
                     config_.norm_epsilon);
    AddRopeScaling(a + "rope.scaling.", writer);
    AddHeadCounts(a, writer);
  }

  void AddWeights(GgufWriter& writer) {
    AddMatrix("token_embd.weight", model_.stack().embeddings.tokens, writer);
    AddVector("output_norm.weight",
              model_.stack().final_norm.weight_parameter(), writer);
    const Parameter& head = model_.head().vocabulary.weight();
    if (head.name != model_.stack().embeddings.tokens.name) {
      AddMatrix("output.weight", head, writer);
    }
    AddFactors(writer);
    for (size_t i = 0; i < model_.stack().blocks.size(); ++i) {
      AddBlock("blk." + std::to_string(i) + ".", model_.stack().blocks[i],
               writer);
    }
  }

 private:
  DType TypeOf(const ConstTensorView& view) const {
    return job_.type.value_or(view.type);
  }

  const RopeConfig& rope() const { return config_.ropes[0]; }

  // Llama 3's and longrope's frequencies are tensors.
  void AddRopeScaling(const std::string& a, GgufWriter& writer) const {
    const bool yarn = rope().scaling == RopeScaling::kYarn;
    const bool longrope = rope().scaling == RopeScaling::kLongrope;
    if (!yarn && !longrope && rope().scaling != RopeScaling::kLinear) return;
    writer.AddText(a + "type", yarn       ? "yarn"
                               : longrope ? "longrope"
                                          : "linear");
    if (yarn || longrope) {
      writer.AddCount(a + "original_context_length", rope().original_context);
    }
    if (longrope) {
      writer.AddNumber(a + "attn_factor", static_cast<float>(rope().scale));
    } else {
      writer.AddNumber(a + "factor", static_cast<float>(rope().factor));
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

  void AddLinear(const std::string& name, const StoredMatrix& matrix,
                 GgufWriter& writer, Rows rows = Rows::kAsTheyAre) {
    AddMatrix(name + ".weight", matrix.weight, writer, rows);
    AddVector(name + ".bias", matrix.bias, writer, rows);
    // The writer reads them later.
    copies_.insert(copies_.end(), matrix.copies.begin(), matrix.copies.end());
  }
  void AddLinear(const std::string& name, const Linear& linear,
                 GgufWriter& writer) {
    AddLinear(name, linear.Stored(0, linear.out()), writer);
  }

  // By what the frequencies are divided. Of longrope's two, llama.cpp takes
  // the long ones where it is given room for more than the original context.
  void AddFactors(GgufWriter& writer) const {
    if (rope().scaling == RopeScaling::kLlama3) {
      AddFactors("rope_freqs.weight", 0, writer);
    } else if (rope().scaling == RopeScaling::kLongrope) {
      const int64_t longer = rope().original_context + 1;
      AddFactors("rope_factors_long.weight", longer, writer);
      AddFactors("rope_factors_short.weight", 0, writer);
    }
  }
  // In calls of such a length.
  void AddFactors(const std::string& name, int64_t length,
                  GgufWriter& writer) const {
    RopeConfig plain = rope();
    plain.scaling = RopeScaling::kNone;
    const int64_t pairs = config_.head_dim / 2;
    writer.AddTensor(name, DType::kF32, {pairs},
                     [config = rope(), plain, pairs, length] {
                       const auto scaled = RopeFrequencies(config, length);
                       const auto before = RopeFrequencies(plain);
                       Tensor factors(DType::kF32, {pairs});
                       for (int64_t i = 0; i < pairs; ++i) {
                         factors.As<float>()[i] = before[i] / scaled[i];
                       }
                       return factors;
                     });
  }

  void AddAttention(const std::string& name, const AttentionLayer& layer,
                    GgufWriter& writer) {
    const Rows turned =
        architecture_ != "qwen3" ? Rows::kInterleaved : Rows::kAsTheyAre;
    AddLinear(name + "attn_q", StoredOf(layer, HeadMatrix::kQuery), writer,
              turned);
    AddLinear(name + "attn_k", StoredOf(layer, HeadMatrix::kKey), writer,
              turned);
    AddLinear(name + "attn_v", StoredOf(layer, HeadMatrix::kValue), writer);
    AddLinear(name + "attn_output", layer.output(), writer);
    if (architecture_ != "qwen3") return;
    const AttentionWeights& weights = layer.weights();
    AddVector(name + "attn_q_norm.weight",
              weights.query_norm.norms()[0].weight_parameter(), writer);
    AddVector(name + "attn_k_norm.weight",
              weights.key_norm.norms()[0].weight_parameter(), writer);
  }

  void AddFeedForward(const std::string& name, const Mlp& mlp,
                      GgufWriter& writer) {
    AddLinear(name + "ffn_gate", mlp.gate(), writer);
    AddLinear(name + "ffn_up", mlp.up(), writer);
    AddLinear(name + "ffn_down", mlp.down(), writer);
  }

  void AddBlock(const std::string& name, const Block& block,
                GgufWriter& writer) {
    for (const BlockStep& step : block.steps()) {
      const bool feeds = step.kind == StepKind::kFeedForward;
      if (!feeds && step.attention.config().heads == 0) continue;
      AddVector(name + (feeds ? "ffn_norm.weight" : "attn_norm.weight"),
                step.before.weight_parameter(), writer);
      feeds ? AddFeedForward(name, step.mlp, writer)
            : AddAttention(name, step.attention, writer);
    }
  }

  Context& context_;
  const Model& model_;
  const ModelConfig& config_;
  const ExportJob& job_;
  std::string architecture_;
  std::vector<std::shared_ptr<const Tensor>> copies_;
};

}  // namespace

std::string ExportGguf(Context& context, const Checkpoint& checkpoint,
                       const ExportJob& job) {
  RequirePlain(checkpoint.model(), checkpoint.folder().string());
  RequireOneWidth(checkpoint.model(), checkpoint.folder().string());
  Exporter exporter(context, checkpoint, job);
  GgufWriter writer;
  exporter.AddSizes(NameOf(checkpoint.folder()), writer);
  if (job.tokenizer) {
    AddGgufTokenizer(checkpoint, writer);
  } else {
    writer.AddText("tokenizer.ggml.model", "none");
  }
  exporter.AddWeights(writer);
  writer.Write(job.out);
  return exporter.architecture();
}

}  // namespace headwise
