// A model from its folder, ready to run: text in, logits, losses and named
// activations out, with any head switched off, turned down or replaced, and any
// activation changed on the way. Weights are never edited.
//
//   headwise::Transformer model("assets/novels");
//   const auto text = headwise::TextInput::Files({"novel.txt"});
//   double whole = model.Loss(text).loss.value;
//   auto edit = model.Edit({.drop = {{.layer = 5, .head = 1}}});
//   double without = model.Loss(text).loss.value;
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/context.h"
#include "headwise/device.h"
#include "headwise/export.h"
#include "headwise/heads.h"
#include "headwise/keep.h"
#include "headwise/observation.h"
#include "headwise/tensor.h"
#include "headwise/tokenizer.h"

namespace headwise {

/// Is told what may make results worse than they look: when a model is opened,
/// "[weights] expected nothing but the model's tensors; found 2 …",
/// "[`weight_memory`] expected 0.9 GiB …"; once for
/// each text that is read and before it is run, "[context] expected at most 512
/// tokens at once, …", "[text] expected letters that the tokenizer knows; …".
/// Called by the thread that works.
using OnNotice = std::function<void(std::string_view notice)>;

/// Where and how a model runs.
struct OpenOptions {
  Device device = {};
  /// What it computes in, whatever its file stores; nothing: f32 on the CPU,
  /// which has no other, and bf16 on a GPU.
  std::optional<DType> type = {};
  int threads = 0;                   ///< as in ContextOptions
  std::string implementations = {};  ///< as in ContextOptions
  /// Bytes of memory for weights that are packed for products, on the CPU;
  /// nothing: no limit, and up to 4 bytes for each weight, 6 where the file
  /// stores f16. Weights beyond it are packed at each product anew: less
  /// memory, the same results, slower. `on_notice` is told if it is too little
  /// for all. Throws Error(kInvalidArgument) on a GPU, which keeps a copy of
  /// all weights.
  std::optional<uint64_t> weight_memory = {};
  /// Whether texts begin with the model's begin token.
  BosChoice bos = BosChoice::kAuto;
  OnNotice on_notice = {};
};

/// "cpu", "cuda", "cuda:1", or "auto": a GPU where there is one. Throws
/// Error(kInvalidArgument) for another word.
HEADWISE_API Device ParseDevice(std::string_view word);

/// "f32", "bf16", "f16". Throws Error(kInvalidArgument) for another word.
HEADWISE_API DType ParseType(std::string_view word);

/// One layer of a model; layers may differ in every number.
struct LayerInfo {
  int64_t heads = 0;
  int64_t kv_heads = 0;     ///< heads of keys and values
  int64_t cross_heads = 0;  ///< decoders of encoder–decoders
  int64_t window = 0;       ///< keys a query sees; 0: all
  int64_t head_dim = 0;
  int64_t value_dim = 0;  ///< 0: head_dim
  int64_t keys_of = -1;   ///< reads that layer's keys and values; −1: its own
};

/// What a model is, from its headers.
struct ModelInfo {
  std::string name = {};        ///< of its folder
  std::string family = {};      ///< "llama"
  std::string model_type = {};  ///< "qwen2"
  int64_t width = 0;            ///< d_model
  int64_t head_dim = 0;         ///< of layers that say no other
  int64_t feed_forward = 0;     ///< width of the other half of a layer
  int64_t decoder_feed_forward = 0;
  bool gated = false;          ///< that half multiplies two projections
  bool pre_norm = false;       ///< norms stand before the halves of a layer
  std::string positions = {};  ///< "none", "learned", "sinusoid", "rotary"
  double rotary_base = 0;
  std::string gates = {};    ///< of heads: "open", "hard_concrete", "mixture"
  int64_t shared_heads = 0;  ///< of a mixture: those that every token uses
  int64_t active_heads = 0;  ///< of a mixture: those that a token uses
  int64_t span_ramp = 0;     ///< learned spans of heads; 0: none
  int64_t vocabulary = 0;
  int64_t context = 0;  ///< positions it knows
  bool causal = false;
  bool encoder_decoder = false;
  bool predicts_tokens = false;        ///< it has a vocabulary head
  bool classifies = false;             ///< it has a head for classes of texts
  std::vector<LayerInfo> layers = {};  ///< of the encoder, where there are two
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

/// The same without opening the model: from headers alone, also of a folder
/// whose weights are not the configuration's (predicts_tokens is then false and
/// unread empty).
/// Throws Error: kNotFound, kCorrupt naming file and key, kUnsupported.
HEADWISE_API ModelInfo ReadModelInfo(const std::filesystem::path& folder);

/// Where sequences lie in the rows of a table that they are padded to, as the
/// mask of a tokenizer says.
struct SequencePlaces {
  int64_t width = 0;  ///< positions of a row; 0: of the longest sequence
  /// The first position of each sequence; empty: 0.
  std::vector<int64_t> first = {};
  int64_t target_width = 0;  ///< the same of targets
  std::vector<int64_t> target_first = {};
};

/// What a model wants around a text.
struct TextFrame {
  std::vector<int32_t> before = {};
  std::vector<int32_t> after = {};
  std::vector<std::string> before_pieces = {};
  std::vector<std::string> after_pieces = {};
  std::string why = {};  ///< what decided on `before`, in words
};
/// Of a folder's model and tokenizer; nothing where it holds no tokenizer.
HEADWISE_API std::optional<TextFrame> ReadTextFrame(
    const std::filesystem::path& folder, BosChoice bos = BosChoice::kAuto);

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
  double maps_bytes = 0;    ///< what keeping every attention map would take

  double flops() const {
    return projection_flops + attention_flops + mlp_flops + head_flops;
  }
};
HEADWISE_API TextCost CostOf(const ModelInfo& info, int64_t tokens);

/// What attention heads are of a model: no more can be saved by taking heads
/// out. Shares are from 0 to 1.
struct HeadShare {
  int64_t head_bytes = 0;  ///< attention's matrices and their biases, as stored
  int64_t bytes = 0;       ///< all weights
  int64_t tokens = 0;      ///< of a text: 512, or as many as the model knows
  /// Of the operations of that text, by the stack that predicts: counted, not
  /// measured.
  double prefill = 0;
  /// Of the bytes of weights that the next token reads, by which the speed of
  /// generating goes: exact. 0 for models that generate nothing.
  double decode = 0;

  double of_bytes() const {
    return bytes > 0
               ? static_cast<double>(head_bytes) / static_cast<double>(bytes)
               : 0;
  }
};

/// Text for a model: given itself, as files, or as token ids; one of the three.
struct TextInput {
  /// Documents themselves. Encoder–decoders: lines source<TAB>target.
  std::vector<std::string> texts = {};
  /// Files (.gz, .xz, .zst, JSON lines with "text" too), folders, or "-".
  std::vector<std::string> files = {};
  /// Rows as the model reads them: nothing is added around.
  std::vector<std::vector<int32_t>> ids = {};
  /// Tokens of a window; 0: what suits the work (losses and rankings 256,
  /// else 512, for profiles of encoders 128), or what the model knows.
  int64_t context = 0;
  /// Stop after so many tokens, at the end of a window (ids are cut there);
  /// 0: read everything; nothing: what suits the work (ids and profiles
  /// everything, effects of composition 256, all else 8192).
  std::optional<int64_t> tokens = {};

  static TextInput Of(std::string text) { return {.texts = {std::move(text)}}; }
  static TextInput Files(std::vector<std::string> paths) {
    return {.files = std::move(paths)};
  }
  static TextInput Ids(std::vector<int32_t> row) {
    return {.ids = {std::move(row)}};
  }
  bool empty() const { return texts.empty() && files.empty() && ids.empty(); }
};

/// Mean outputs of heads before W_O by site ("layer.3.attention"), f32
/// [1, heads, E]. Shared and never changed.
using HeadMeans =
    std::shared_ptr<const std::map<std::string, Tensor, std::less<>>>;

/// Heads switched off or turned down: out = g · O + (1 − g) · μ.
struct HeadEdit {
  std::vector<HeadRef> drop = {};        ///< g = 0
  std::map<HeadRef, double> gates = {};  ///< g of these
  HeadMeans means = {};                  ///< μ (MeanOutputs); null: 0
};

/// Is called with what flows past a place of a running model, and may change it
/// in place. x lies on the model's device, in its type, valid during the call;
/// device work of the callback must be done when it returns. Shapes: [tokens,
/// heads, dim] of query, key, value and head_output, else [tokens, width].
/// It must not run the model. What it throws ends the run and reaches the
/// caller.
using HookCallback = std::function<void(std::string_view site, TensorView x)>;

/// Holds an edit or a hook in place; the end of it takes that away. May outlive
/// the model. Its end may come in any thread: one that comes while a hook or
/// another thread's call is on counts from the next call on.
class HEADWISE_API Intervention {
 public:
  Intervention();
  ~Intervention();
  Intervention(Intervention&& other) noexcept;
  Intervention& operator=(Intervention&& other) noexcept;
  /// Takes it away now. Throws Error(kInvalidArgument) while another thread
  /// uses the model.
  void Remove();

 private:
  friend class Transformer;
  void Leave();
  struct State;
  std::unique_ptr<State> state_;
};

/// One run of a text.
struct RunOutput {
  std::vector<int32_t> ids = {};  ///< as they were run, of the (source) text
  /// f32 [1, tokens, vocabulary] on the host; models without a vocabulary head:
  /// final states [1, tokens, width]. Empty where not wanted.
  Tensor out = {};
  /// By name, f32 on the host: [1, tokens, …]; "….probs" [1, heads, queries,
  /// keys].
  std::map<std::string, Tensor> cache = {};
};

struct RunJob {
  /// Names of activations to keep, * and ? match: "layer.*.attention.*". See
  /// Transformer::ActivationNames.
  std::vector<std::string> cache = {};
  bool out = true;  ///< RunOutput::out; of long texts it is large
  /// Encoder–decoders: what the decoder reads, where the text has no tab.
  std::string target = {};
};

/// What a model's loss on a text is.
struct TextLoss {
  LossKind kind = LossKind::kNextToken;
  int64_t sequences = 0;
  int64_t tokens = 0;
  Interval loss = {};  ///< nats a prediction, with its 95 % interval
};

struct LossJob {
  uint64_t seed = 0;  ///< of masks and intervals
  /// Of all but Transformer::Loss, which runs under edits and keeps nothing.
  PartialWork partial = {};
  OnProgress on_progress = {};
  std::stop_token stop = {};
};

/// Which part of a head's attention is wanted. Ends of 0: all there is.
struct MapJob {
  HeadRef head = {};
  int64_t query_begin = 0;
  int64_t query_end = 0;
  int64_t key_begin = 0;
  int64_t key_end = 0;
  /// At most so many rows and columns, each cell the largest weight of those
  /// that fall into it; 0: every query and key, at most 2^28 cells.
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t top = 0;  ///< also the keys that each query of top_queries reads most
  std::vector<int64_t> top_queries = {};
  bool received = false;  ///< also what each key gets of all queries
  /// Encoder–decoders: what the decoder reads, where the text has no tab.
  std::string target = {};
};

/// Where a head looks. O(tokens) memory besides what is asked for, at any
/// length of text.
struct MappedAttention {
  int64_t queries = 0;      ///< of the text
  int64_t keys = 0;         ///< of the text
  Tensor weights = {};      ///< f32 [rows, columns]
  Tensor top_keys = {};     ///< i32 [top_queries, top]; −1 past the visible
  Tensor top_weights = {};  ///< f32 [top_queries, top], largest first
  Tensor received = {};     ///< f32 [keys]: column sums over all queries
  std::vector<std::string> query_tokens = {};  ///< as written beside pictures
  std::vector<std::string> key_tokens = {};
};

/// A model with its tokenizer, where it has one, and the Context that it runs
/// in. Any number of threads may call what is const, also while the model runs.
/// All else, and functions that take it as Transformer&, are for one calling
/// thread at a time: a call while another thread's is on throws
/// Error(kInvalidArgument). Distinct Transformers are independent; those of the
/// same files on one device share the mapped weights and what products make of
/// them.
class HEADWISE_API Transformer {
 public:
  /// A folder with config.json, safetensors and, for texts, a tokenizer.
  /// Weights are mapped: what a run does not touch is never loaded. Throws
  /// Error: kNotFound, kCorrupt naming file and key, kUnsupported for an
  /// unknown model_type or a device that is not here, kInvalidArgument for a
  /// type that the device does not compute in.
  explicit Transformer(const std::filesystem::path& folder,
                       const OpenOptions& options = {});
  ~Transformer();
  Transformer(Transformer&&) noexcept;
  Transformer& operator=(Transformer&&) noexcept;

  const std::filesystem::path& folder() const;
  const ModelInfo& info() const;
  /// Over names, types, shapes and bytes of the weights; reads them once.
  const std::string& hash() const;
  Context& context();
  DType type() const;  ///< of activations

  /// Throws Error(kNotFound) for a folder that holds none.
  const Tokenizer& tokenizer() const;
  bool has_tokenizer() const;
  /// The text as the model reads it, with what it wants around (`<bos>` …).
  Encoding Encode(std::string_view text) const;
  /// The same of what the decoder of an encoder–decoder reads.
  Encoding EncodeTarget(std::string_view text) const;
  /// What a token stands for ("Ġthe" for " the"); special ones as the
  /// vocabulary writes them, bytes of a part of a character as "⟨e8 b9⟩".
  std::string Piece(int32_t id) const;
  /// Special tokens are left out.
  std::string Decode(std::span<const int32_t> ids) const;

  /// Every name that a run can give: "layer.3.attention.head_output", ….
  std::vector<std::string> ActivationNames() const;
  /// Names of weights in the checkpoint.
  std::vector<std::string> WeightNames() const;
  /// A copy of one of them, f32 on the host. Throws Error(kNotFound).
  Tensor Weight(const std::string& name);

  // ---- Edits and hooks, in the order in which they were made. Runs, Loss, Map
  // ---- and Generate obey them; analyses of heads refuse to run under them.

  /// Throws Error(kInvalidArgument) for a head that the model does not have.
  [[nodiscard]] Intervention Edit(HeadEdit edit);
  /// site: a name of ActivationNames, * and ? match. What it changes is what
  /// the run goes on with; ".key" and ".value" can be changed in whole runs
  /// only. Attention rows (".probs") are never built and logits are no part of
  /// the stream: neither has a hook. Throws Error(kNotFound) with the nearest
  /// name.
  [[nodiscard]] Intervention Hook(std::string site, HookCallback callback);
  /// Whether one is in place.
  bool edited() const;

  // ---- Running.

  RunOutput Run(std::string_view text, const RunJob& job = {});
  /// As they are. Throws Error(kInvalidArgument) for ids outside the
  /// vocabulary.
  RunOutput Run(std::span<const int32_t> ids, const RunJob& job = {});

  /// Activations of several sequences at once, by name: [sequences, width, …],
  /// padded with zeros. targets: what the decoder of an encoder–decoder
  /// reads, one a sequence. names as RunJob::cache. places: where both lie in
  /// what is given. Throws Error:
  /// kInvalidArgument for ids outside the vocabulary; kNotFound with the
  /// nearest name; kOutOfMemory, before the run, for more than there is room
  /// for.
  std::map<std::string, Tensor> RunRows(
      std::span<const std::vector<int32_t>> rows,
      const std::vector<std::string>& names,
      std::span<const std::vector<int32_t>> targets = {},
      const SequencePlaces& places = {});

  /// The loss that the model is judged by, as `headwise evaluate` gives it.
  TextLoss Loss(const TextInput& text, const LossJob& job = {});

  /// Where a head looks. The text is run up to that head's layer.
  MappedAttention Map(std::string_view text, const MapJob& job);
  MappedAttention Map(std::span<const int32_t> ids, const MapJob& job);

  /// For the library.
  struct State;
  State& state() { return *state_; }
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// How large a head's matrices are, and what was learned of its use.
struct HeadSize {
  HeadRef head = {};
  double qk_norm = 0;  ///< Frobenius norm of W_Q·W_Kᵀ
  double ov_norm = 0;  ///< Frobenius norm of W_V·W_O
  /// Queries and keys are normed: their scale is then not in the scores.
  bool query_norms = false;
  std::optional<double> gate = {};  ///< from 0 to 1, of hard concrete gates
  std::optional<double> span = {};  ///< tokens, of learned spans
};
/// Of every head, in the order of HeadsOf.
HEADWISE_API std::vector<HeadSize> SizesOfHeads(Transformer& model);

HEADWISE_API HeadShare ShareOfHeads(const Transformer& model);

/// What every head gives in the mean over a text: HeadEdit::means.
HEADWISE_API HeadMeans MeanOutputs(Transformer& model, const TextInput& text,
                                   const LossJob& job = {});

/// Those that a profile holds (ProfileJob::means). Throws
/// Error(kInvalidArgument) for a profile of another model, or one without.
HEADWISE_API HeadMeans MeanOutputs(Transformer& model, const Profile& profile);

// ---- Judging a model beside itself with heads closed.

/// One figure of the whole model and of the other. The change is taken sequence
/// by sequence, so that what makes one hard cancels out.
struct Compared {
  Interval whole = {};
  Interval other = {};
  Interval change = {};
};

struct EvaluateJob {
  std::vector<HeadRef> closed = {};  ///< none: the other model is the whole one
  HeadMeans means = {};  ///< what stands in for them (MeanOutputs); null: 0
  /// Means over this text stand in for them instead, measured first.
  std::optional<TextInput> mean_text = {};
  uint64_t seed = 0;  ///< of masks and intervals
  PartialWork partial = {};
  OnProgress on_progress = {};
  std::stop_token stop = {};
};

struct HeadEvaluation {
  LossKind kind = LossKind::kNextToken;
  int64_t sequences = 0;
  int64_t tokens = 0;
  Compared loss = {};  ///< nats a prediction
  /// The share of the predictions whose likeliest token is the right one;
  /// nothing for models that predict none.
  std::optional<Compared> right = {};
  /// Encoder–decoders: of greedy translations, 0 to 100.
  std::optional<Compared> bleu = {};
};

/// What `headwise evaluate` measures. Throws Error: as Loss does;
/// kInvalidArgument for heads that the model does not have or that are named
/// twice, and for a model under an edit or a hook.
HEADWISE_API HeadEvaluation EvaluateHeads(Transformer& model,
                                          const TextInput& text,
                                          const EvaluateJob& job = {});

/// How alike another model's answers are to the whole one's, whatever the text
/// says.
struct Agreement {
  /// Models that predict tokens: KL(whole ‖ other), nats a prediction, …
  std::optional<Interval> divergence = {};
  /// … and the share of predictions with the same likeliest token.
  std::optional<Interval> same_token = {};
  int64_t sentences = 0;  ///< encoders: of the text, at most 400
  /// Of a sentence's two mean-pooled embeddings, …
  std::optional<Interval> cosine = {};
  /// … and the share whose nearest other sentence is the same.
  std::optional<Interval> same_neighbour = {};
};

/// Another model beside the whole one on one text.
struct ModelJudgement {
  std::string domain = {};  ///< the text's name
  /// Other parts of this text chose heads or weights: on other text the model
  /// may do worse.
  bool chose = false;
  LossKind kind = LossKind::kNextToken;
  int64_t sequences = 0;
  int64_t tokens = 0;
  Compared loss = {};  ///< nats a prediction
  Agreement agreement = {};
};

/// Another model, as a smaller one that was made of it, beside the whole one,
/// on each text by itself; both read it by the whole one's tokenizer. Throws
/// Error: as Loss does; kInvalidArgument for a model of another kind or
/// vocabulary, and for one under an edit or a hook.
HEADWISE_API std::vector<ModelJudgement> CompareModels(
    Transformer& whole, Transformer& other, std::span<const TextInput> texts,
    const LossJob& job = {});

struct LabelEvaluation {
  int64_t texts = 0;
  Compared loss = {};      ///< nats a text
  Compared accuracy = {};  ///< the share of texts whose class is right
};

/// The same of a classifier (ModelInfo::classifies) on files of lines
/// text`<TAB>`label; closed heads give 0. Throws Error(kInvalidArgument) for
/// labels that the model does not know, for means, and for texts that are not
/// files.
HEADWISE_API LabelEvaluation EvaluateLabels(Transformer& model,
                                            const TextInput& text,
                                            const EvaluateJob& job = {});

/// The heads that a plan takes out ("headwise.plan/1", which `headwise prune`
/// writes). Throws Error: kNotFound; kCorrupt naming file and key;
/// kInvalidArgument for a plan of another model or with a head twice.
HEADWISE_API std::vector<HeadRef> ReadPlan(const std::filesystem::path& path,
                                           const Transformer& model);

/// Writes a safetensors file of tensors on the host, whole or not at all.
/// notes: its metadata. Throws Error(kInvalidArgument) for views that are not
/// dense.
HEADWISE_API void SaveTensors(
    const std::filesystem::path& path,
    const std::map<std::string, ConstTensorView>& tensors,
    const std::map<std::string, std::string>& notes = {});

/// A copy on the host, in the same type. Throws Error(kInvalidArgument) for a
/// view that is not given.
HEADWISE_API Tensor CopyToHost(Context& context, const ConstTensorView& view);

/// to = from, of one shape: between the host and the context's device, from any
/// type to floats; done when it returns. Throws Error(kInvalidArgument) naming
/// the view that does not fit.
HEADWISE_API void CopyTensor(Context& context, const ConstTensorView& from,
                             const TensorView& to);

}  // namespace headwise
