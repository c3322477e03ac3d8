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
#include "headwise/head_edit.h"
#include "headwise/head_ref.h"
#include "headwise/loss.h"
#include "headwise/model_info.h"
#include "headwise/progress.h"
#include "headwise/tensor.h"
#include "headwise/text_input.h"
#include "headwise/tokenizer.h"

namespace headwise {

/// Where and how a model runs.
struct OpenOptions {
  Device device = {};
  /// The type of activations, whatever the file stores; nothing: f32 on the
  /// CPU, which has no other, and bf16 on a GPU.
  std::optional<DType> type = {};
  int threads = 0;                   ///< as in ContextOptions
  std::string implementations = {};  ///< as in ContextOptions
  /// Bytes of memory for weights that are packed for products, on the CPU;
  /// nothing: no limit, and up to 4 bytes for each weight, 6 where the file
  /// stores f16. Weights beyond it are packed at each product anew: less
  /// memory, the same results, slower. `on_notice` gets a warning if it is too
  /// little for all. Throws Error(kInvalidArgument) on a GPU, which keeps a
  /// copy of all weights.
  std::optional<uint64_t> weight_memory = {};
  /// Whether texts begin with the model's begin token.
  BosChoice bos = BosChoice::kAuto;
  OnNotice on_notice = {};

  /// The fields that training has too.
  template <typename Self, typename Visit>
  static void VisitEngine(Self& self, Visit&& visit) {
    visit("device", self.device,
          "cpu, cuda, cuda:1, or auto: a GPU where there is one");
    visit(
        "type", self.type,
        "what it computes in, f32, bf16 or f16; without it f32 on the CPU and "
        "bf16 on a GPU");
    visit("threads", self.threads, "0: every core; results do not depend on it",
          AtLeast(0));
  }
  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    VisitEngine(self, visit);
    visit("bos", self.bos,
          "whether texts begin with the begin token; auto: as its files say");
    visit("implementations", self.implementations,
          "implementations of operators to take: operator=name,…");
    visit("weight_memory", self.weight_memory,
          "bytes for weights that are packed for products, on the CPU; without "
          "it no limit; weights beyond it are packed at each product anew: the "
          "same results, slower",
          AtLeast(0));
  }
};

/// "cpu", "cuda", "cuda:1", or "auto": a GPU where there is one. Throws
/// Error(kInvalidArgument) for another word.
HEADWISE_API Device ParseDevice(std::string_view word);

/// "f32", "bf16", "f16". Throws Error(kInvalidArgument) for another word.
HEADWISE_API DType ParseType(std::string_view word);

/// Where sequences lie in the rows of a table that they are padded to, as the
/// mask of a tokenizer says.
struct SequencePlaces {
  int64_t width = 0;  ///< positions of a row; 0: of the longest sequence
  /// The first position of each sequence; empty: 0.
  std::vector<int64_t> first = {};
  int64_t target_width = 0;  ///< the same of targets
  std::vector<int64_t> target_first = {};
};

/// Called with an activation of a running model, which it may change in place.
/// x is on the model's device, in its type, valid during the call; device work
/// of the callback must be done when it returns. Shapes: [tokens, heads, dim]
/// of query, key, value and head_output, else [tokens, width]. It must not run
/// the model. What it throws ends the run and reaches the caller.
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
  std::optional<std::string> target = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("cache", self.cache,
          "names of activations to keep; * and ? match: layer.*.attention.*");
    visit("out", self.out, "the logits, which are large for long texts");
    visit("target", self.target, "encoder–decoders: what the decoder reads");
  }
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
  std::optional<std::string> target = {};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("top", self.top,
          "also so many keys that each of top_queries reads most", AtLeast(0));
    visit("top_queries", self.top_queries, "positions of these queries");
    visit("received", self.received, "also what each key gets of all queries");
    visit("target", self.target, "encoder–decoders: what the decoder reads");
  }
};

/// Where a head looks. O(tokens) memory besides what is asked for, at any
/// length of text.
struct MappedAttention {
  int64_t queries = 0;      ///< positions of the text
  int64_t keys = 0;         ///< positions of the text
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
  DType type() const;  ///< type of activations

  /// Throws Error(kNotFound) for a folder that holds none.
  const Tokenizer& tokenizer() const;
  bool has_tokenizer() const;
  /// The text as the model reads it, with what it wants around (`<bos>` …).
  Encoding Encode(std::string_view text) const;
  /// Encodes the text that the decoder of an encoder–decoder reads.
  Encoding EncodeTarget(std::string_view text) const;
  /// The text of a token ("Ġthe" for " the"); special ones as the
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
