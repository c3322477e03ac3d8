// headwise dump: named activations of a run as a safetensors file: the door to
// NumPy.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "free_memory.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/byte_size.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/format/token_ids.h"
#include "headwise/heads.h"
#include "headwise/model.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/text_frame.h"
#include "headwise/runtime/activations.h"
#include "headwise/tokenizer/piece_text.h"
#include "headwise/tokenizer/tokenizer.h"
#include "ids_file.h"
#include "past_context.h"
#include "text_argument.h"
#include "text_reading.h"

namespace headwise {
namespace {

struct Options {
  std::string model;
  TextArgument text;
  std::string target;
  std::string input;
  std::vector<std::string> names = {"logits"};
  std::string weights;
  std::string out;
  bool list = false;
  EngineFlags engine;
  ReadingFlags reading;
};

// The sequences of a run, end to end.
struct Sequences {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
};

Sequences FromFile(const Safetensors& file, const char* ids, const char* mask) {
  Sequences sequences;
  for (const std::vector<int32_t>& row : ReadIdRows(file, ids, mask, 1)) {
    sequences.ids.insert(sequences.ids.end(), row.begin(), row.end());
    sequences.lengths.push_back(static_cast<int64_t>(row.size()));
  }
  return sequences;
}

Sequences FromText(const Framer& framer, const std::string& text) {
  Sequences sequences;
  sequences.ids = framer.Encode(text).ids;
  if (sequences.ids.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"dump", "a text of at least one token", "none", ""});
  }
  sequences.lengths = {static_cast<int64_t>(sequences.ids.size())};
  return sequences;
}

// The tokens of a run as --input takes them, and in words.
class WrittenTokens {
 public:
  WrittenTokens(const Sequences& sequences, const Tokenizer* tokenizer) {
    const auto rows = std::ssize(sequences.lengths);
    const int64_t longest = rows == 0 ? 0 : std::ranges::max(sequences.lengths);
    ids_ = Tensor(DType::kI32, {rows, longest});
    mask_ = Tensor(DType::kI32, {rows, longest});
    auto next = sequences.ids.begin();
    for (int64_t row = 0; row < rows; ++row) {
      Json pieces = Json::array();
      for (int64_t i = 0; i < sequences.lengths[row]; ++i, ++next) {
        ids_.As<int32_t>()[row * longest + i] = *next;
        mask_.As<int32_t>()[row * longest + i] = 1;
        if (tokenizer != nullptr)
          pieces.push_back(PieceText(*tokenizer, *next));
      }
      pieces_.push_back(std::move(pieces));
    }
    has_pieces_ = tokenizer != nullptr;
  }

  // input_ids, attention_mask [B, N] and the metadata "pieces", each name after
  // a prefix.
  void AddTo(const std::string& prefix, std::vector<NamedTensor>& tensors,
             std::map<std::string, std::string>& notes) const {
    tensors.push_back({prefix + "input_ids", ids_.view()});
    tensors.push_back({prefix + "attention_mask", mask_.view()});
    if (has_pieces_) notes[prefix + "pieces"] = pieces_.dump();
  }

 private:
  Tensor ids_, mask_;
  Json pieces_ = Json::array();
  bool has_pieces_ = false;
};

struct Input {
  Sequences source;
  Sequences target;  // encoder–decoders

  ForwardInput view() const {
    return {.ids = source.ids,
            .lengths = source.lengths,
            .decoder_ids = target.ids,
            .decoder_lengths = target.lengths};
  }
};

Input ReadInput(const Options& options, const Model& model,
                const Tokenizer* tokenizer) {
  Input input;
  const bool pairs = model.decoder() != nullptr;
  if (!options.input.empty()) {
    const Safetensors file = Safetensors::Open(options.input);
    input.source = FromFile(file, "input_ids", "attention_mask");
    if (pairs) {
      input.target =
          FromFile(file, "decoder_input_ids", "decoder_attention_mask");
    }
    return input;
  }
  const std::string text =
      ReadText(options.text, std::numeric_limits<size_t>::max()).text;
  WarnUnknownScript(*tokenizer, text);
  const Framer framer(*tokenizer, model.config());
  if (!pairs) {
    input.source = FromText(framer, text);
    return input;
  }
  const std::string line = text.substr(0, text.find('\n'));
  const size_t tab = line.find('\t');
  if (tab == line.npos && options.target.empty()) {
    throw UsageError("an encoder–decoder also needs --target TEXT");
  }
  input.source = FromText(framer, line.substr(0, tab));
  input.target =
      FromText(Framer(*tokenizer, TargetFrameOf(model.config())),
               options.target.empty() ? line.substr(tab + 1) : options.target);
  return input;
}

// Activations are written when all are there.
void RequireMemory(const Options& options, const Model& model,
                   const ForwardInput& input) {
  const uint64_t needed = ActivationBytes(model, input, options.names);
  const auto free = FreeMemory();
  if (!free || needed <= *free) return;
  throw Error(
      ErrorCode::kOutOfMemory,
      {"dump", ByteSize(needed) + " of memory for these activations",
       ByteSize(*free) + " free", "take fewer names or a shorter text"});
}

// A line each, or two where the console is narrow.
void Print(const std::vector<NamedTensor>& tensors) {
  const int width = StdoutConsole().width;
  int widest = 0;
  for (const NamedTensor& tensor : tensors) {
    widest = std::max(widest, DisplayWidth(tensor.name));
  }
  for (const NamedTensor& tensor : tensors) {
    const std::string shape = ToString(tensor.view);
    const bool fits = widest + 2 + DisplayWidth(shape) <= width;
    fmt::print("{}{}{}\n", fits ? PadRight(tensor.name, widest) : tensor.name,
               fits ? "  " : "\n  ", shape);
  }
}

// "head.5.1.w_q" and so on, of each head.
int DumpWeights(const Options& options) {
  if (options.out.empty()) throw UsageError("expected --out FILE");
  RequireWritable(options.out);
  Transformer model(options.model);
  const std::vector<HeadRef> heads = options.weights == "all"
                                         ? HeadsOf(model)
                                         : ParseHeads(options.weights, model);
  std::vector<HeadMatrices> kept;
  for (const HeadRef& head : heads) kept.push_back(WeightsOfHead(model, head));
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < heads.size(); ++i) {
    const HeadMatrices& m = kept[i];
    const std::string name = "head." + ToString(heads[i]);
    for (const auto& [end, matrix] :
         {std::pair(".w_q", &m.q), std::pair(".w_k", &m.k),
          std::pair(".w_v", &m.v), std::pair(".w_o", &m.o),
          std::pair(".qk", &m.qk), std::pair(".ov", &m.ov)}) {
      if (matrix->size() > 0) tensors.push_back({name + end, matrix->view()});
    }
  }
  WriteSafetensors(options.out, tensors, {{"format", "headwise.dump/1"}});
  Print(tensors);
  return kSucceeded;
}

int Run(const Options& options) {
  options.engine.Require();
  if (!options.weights.empty()) return DumpWeights(options);
  const Checkpoint checkpoint(options.model, options.reading.options(),
                              options.engine.compute());
  const Model& model = checkpoint.model();
  if (options.list) {
    for (const std::string& name : ActivationNames(model)) {
      fmt::print("{}\n", name);
    }
    return kSucceeded;
  }
  if (options.out.empty()) throw UsageError("expected --out FILE");
  if (options.input.empty()) {
    options.text.Require();
  } else if (!options.text.sentence.empty() || !options.text.path.empty()) {
    throw UsageError("--input takes the place of TEXT and --text");
  }
  RequireWritable(options.out);
  const Tokenizer* tokenizer =
      options.input.empty() ? &checkpoint.tokenizer() : nullptr;
  const Input given = ReadInput(options, model, tokenizer);
  const ForwardInput input = given.view();
  for (const std::span<const int32_t> ids : {input.ids, input.decoder_ids}) {
    RequireTokenIds(ids, model.config().vocabulary, "dump");
  }
  RequireMemory(options, model, input);
  RequireRoom(model.config(), std::ssize(given.source.ids));
  WarnPastContext(model.config(), std::ranges::max(given.source.lengths));
  Context context(options.engine.context());
  const auto taken = RecordActivations(context, model, input, options.names);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : taken) {
    tensors.push_back({name, tensor.view()});
  }
  std::map<std::string, std::string> notes = {{"format", "headwise.dump/1"}};
  const WrittenTokens of_source(given.source, tokenizer);
  of_source.AddTo("", tensors, notes);
  const WrittenTokens of_target(given.target, tokenizer);
  if (model.decoder() != nullptr) of_target.AddTo("decoder_", tensors, notes);
  WriteSafetensors(options.out, tensors, notes);
  Print(tensors);
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder").Required();
  options->text.Declare(line);
  line.Option("--target", options->target,
              "Encoder–decoders: what the decoder reads, if the text does not "
              "hold source<TAB>target");
  line.Option("--input", options->input,
              "Safetensors with input_ids [B, N], and attention_mask, "
              "decoder_input_ids where needed");
  line.Option("--names", options->names, "Activations to write; * and ? match")
      .Commas()
      .ShowDefault();
  line.Option("--weights", options->weights,
              "Instead of a run's activations, the matrices of these heads "
              "(5.1,6.0 or all): W_Q, W_K, W_V, W_O, W_Q·W_Kᵀ, W_V·W_O");
  line.Option("--out", options->out, "The safetensors file to write");
  AddReadingFlags(line, options->reading);
  line.Flag("--list", options->list,
            "Name every activation that the model has");
  AddEngineFlags(line, options->engine);
  return [options] { return Run(*options); };
}

}  // namespace

const Command kDumpCommand = {
    .name = "dump",
    .group = Group::kAnalyse,
    .summary = "Named activations of a run as safetensors, for NumPy",
    .examples =
        "  headwise dump models/minilm-l6 --list\n"
        "  headwise dump models/minilm-l6 \"The cat sat\" \\\n"
        "      --names 'layer.*.attention.probs,final' --out cat.safetensors\n"
        "  headwise dump models/gpt2 --weights 5.1 --out head.safetensors\n"
        "  headwise dump models/gpt2 --input ids.safetensors \\\n"
        "      --names logits --out logits.safetensors",
    .setup = Setup,
    .lower = "the number of names or the length of the text"};

}  // namespace headwise
