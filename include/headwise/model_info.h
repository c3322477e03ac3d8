// Kind, sizes and cost of a model, from its headers alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/export.h"
#include "headwise/tokenizer.h"

namespace headwise {

class Transformer;  // model.h

/// One layer of a model; layers may differ in every number.
struct LayerInfo {
  int64_t heads = 0;
  int64_t kv_heads = 0;     ///< heads of keys and values
  int64_t cross_heads = 0;  ///< decoders of encoder–decoders
  int64_t window = 0;       ///< keys a query sees; 0: all
  int64_t head_dim = 0;
  int64_t value_dim = 0;  ///< 0: head_dim
  int64_t keys_of = -1;   ///< reads that layer's keys and values; −1: its own
  /// Columns of its other half that serve a token; 0: the model's.
  int64_t feed_forward = 0;
  bool mixture = false;  ///< that half is a mixture of experts
  /// The first layer that has these weights, where layers share them: a head is
  /// then one head, used in all of these; −1: it shares none.
  int64_t weights_of = -1;
};

/// Kind and sizes of a model, from its headers.
struct ModelInfo {
  std::string name = {};        ///< name of its folder
  std::string family = {};      ///< "llama"
  std::string model_type = {};  ///< "qwen2"
  int64_t width = 0;            ///< d_model
  int64_t embedding_width = 0;  ///< of token tables, which may be projected
  int64_t head_dim = 0;         ///< where a layer says no other
  int64_t feed_forward = 0;     ///< width of the other half of a layer
  int64_t decoder_feed_forward = 0;
  int64_t experts = 0;              ///< of a mixture; 0: no layer is one
  int64_t active_experts = 0;       ///< that a token uses
  int64_t expert_width = 0;         ///< of each
  int64_t shared_expert_width = 0;  ///< of the one of every token; 0: none
  bool gated = false;               ///< that half multiplies two projections
  bool pre_norm = false;       ///< norms stand before the halves of a layer
  std::string positions = {};  ///< "none", "learned", "sinusoid", "rotary",
                               ///< "relative"
  double rotary_base = 0;
  std::string gates =
      {};  ///< kind of head gates: "open", "hard_concrete", "mixture"
  int64_t shared_heads = 0;  ///< of a mixture: heads that every token uses
  int64_t active_heads = 0;  ///< of a mixture: heads that a token uses
  int64_t span_ramp = 0;     ///< learned spans of heads; 0: none
  int64_t vocabulary = 0;
  int64_t context = 0;  ///< positions it knows
  bool causal = false;
  bool encoder_decoder = false;
  bool predicts_tokens = false;  ///< it has a vocabulary head
  bool classifies = false;       ///< it has a head for classes of texts
  std::vector<LayerInfo> layers =
      {};  ///< the encoder's, where there are two stacks
  std::vector<LayerInfo> decoder_layers = {};
  int64_t tensors = 0;
  /// Names of tensors that the folder holds and the model does not read;
  /// those that models of its family are known to do without are left out.
  std::vector<std::string> unread = {};
  int64_t parameters = 0;
  int64_t embedding_parameters = 0;  ///< token, position and type tables
  int64_t file_bytes = 0;
  std::map<std::string, int64_t> types = {};  ///< parameters by stored type
};

/// ModelInfo without opening the model: from headers alone, also of a folder
/// whose weights are not the configuration's (predicts_tokens is then false and
/// unread empty).
/// Throws Error: kNotFound, kCorrupt naming file and key, kUnsupported.
HEADWISE_API ModelInfo ReadModelInfo(const std::filesystem::path& folder);

/// The tokens that a model expects around a text.
struct TextFrame {
  std::vector<int32_t> before = {};
  std::vector<int32_t> after = {};
  std::vector<std::string> before_pieces = {};
  std::vector<std::string> after_pieces = {};
  std::string why = {};  ///< the reason for `before`, in words
};

/// The frame of a folder's model; nothing where it holds no tokenizer.
HEADWISE_API std::optional<TextFrame> ReadTextFrame(
    const std::filesystem::path& folder, BosChoice bos = BosChoice::kAuto);
/// The frame by an open tokenizer, and the model of `path` where that is a
/// folder with a config.json.
HEADWISE_API TextFrame ReadTextFrame(const Tokenizer& tokenizer,
                                     const std::filesystem::path& path);

/// The tokens of a text within a frame, as Transformer::Encode gives them.
HEADWISE_API Encoding EncodeFramed(const Tokenizer& tokenizer,
                                   const TextFrame& frame,
                                   std::string_view text);

/// Work and memory of one text, by the stack that predicts (the encoder where
/// there is no decoder).
struct TextCost {
  int64_t tokens = 0;
  double projection_flops = 0;  ///< attention's four matrices
  double attention_flops = 0;   ///< scores and mixtures over visible pairs
  double mlp_flops = 0;
  double head_flops = 0;    ///< the vocabulary
  double cache_bytes = 0;   ///< keys and values, f32
  double stream_bytes = 0;  ///< activations of a run: O(tokens · width)
  double maps_bytes = 0;    ///< every attention map, if they were kept

  double flops() const {
    return projection_flops + attention_flops + mlp_flops + head_flops;
  }
};

HEADWISE_API TextCost CostOf(const ModelInfo& info, int64_t tokens);

/// The share of attention heads in a model: no more can be saved by taking
/// heads out. Shares are from 0 to 1.
struct HeadShare {
  int64_t head_bytes = 0;  ///< attention's matrices and their biases, as stored
  int64_t bytes = 0;       ///< all weights
  int64_t tokens = 0;      ///< of the text: 512, or as many as the model knows
  /// Share of the operations of that text, by the stack that predicts: counted,
  /// not measured.
  double prefill = 0;
  /// Share of the bytes of weights that the next token reads, by which the
  /// speed of generating goes: exact. 0 for models that generate nothing.
  double decode = 0;

  double of_bytes() const {
    return bytes > 0
               ? static_cast<double>(head_bytes) / static_cast<double>(bytes)
               : 0;
  }
};

HEADWISE_API HeadShare ShareOfHeads(const Transformer& model);

/// A matrix [outputs, inputs], and how many of its rows are linearly
/// independent (to within the rounding of f32).
struct MatrixSize {
  int64_t outputs = 0;
  int64_t inputs = 0;
  int64_t rank = 0;
};

/// One expert of a mixture.
struct ExpertSize {
  int64_t layer = 0;
  int64_t expert = 0;    ///< −1: the one that every token uses
  MatrixSize gate = {};  ///< 0 × 0 where it has none
  MatrixSize up = {};
  MatrixSize down = {};
};

/// Of all mixtures; none of other models. Takes about as many operations as
/// running a token for each column of an expert.
HEADWISE_API std::vector<ExpertSize> SizesOfExperts(Transformer& model);

}  // namespace headwise
