// headwise dump: named activations of a run as a safetensors file: the door to
// NumPy.
#include <algorithm>
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
#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/head_ref.h"
#include "headwise/head_weights.h"
#include "headwise/model.h"
#include "headwise/text_input.h"
#include "headwise/tokenizer.h"
#include "open_model.h"
#include "text_argument.h"

namespace headwise {
namespace dump_command {
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

using Named = std::pair<std::string, ConstTensorView>;

IdRows OneRow(const Encoding& encoding) {
  if (!encoding.ids.empty()) return {.rows = {encoding.ids}};
  throw Error(
      ErrorCode::kInvalidArgument,
      {"dump", "a text of at least one token", "none", "give a longer text"});
}

// The tokens of a run as --input takes them, and in words.
class WrittenTokens {
 public:
  // model: null where the ids came from a file.
  WrittenTokens(const IdRows& given, const Transformer* model) {
    const std::vector<std::vector<int32_t>>& rows = given.rows;
    const auto count = std::ssize(rows);
    int64_t width = given.width;
    for (const auto& row : rows) width = std::max(width, std::ssize(row));
    ids_ = Tensor(DType::kI32, {count, width});
    mask_ = Tensor(DType::kI32, {count, width});
    for (int64_t b = 0; b < count; ++b) {
      Json pieces = Json::array();
      const int64_t begin =
          b * width + (given.first.empty() ? 0 : given.first[b]);
      for (int64_t i = 0; i < std::ssize(rows[b]); ++i) {
        ids_.As<int32_t>()[begin + i] = rows[b][i];
        mask_.As<int32_t>()[begin + i] = 1;
        if (model != nullptr) pieces.push_back(model->Piece(rows[b][i]));
      }
      pieces_.push_back(std::move(pieces));
    }
    has_pieces_ = model != nullptr;
  }

  // input_ids, attention_mask [B, N] and the metadata "pieces", each name after
  // a prefix.
  void AddTo(const std::string& prefix, std::vector<Named>& tensors,
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
  IdRows source;
  IdRows target;  // encoder–decoders
};

Input ReadInput(const Options& options, Transformer& model) {
  const bool pairs = model.info().encoder_decoder;
  if (!options.input.empty()) {
    Input input = {.source = ReadIdRows(options.input)};
    if (pairs) {
      input.target = ReadIdRows(options.input, "decoder_input_ids",
                                "decoder_attention_mask");
    }
    return input;
  }
  const std::string text = ReadText(options.text);
  WarnUnknownScript(model.tokenizer(), text);
  if (!pairs) return {OneRow(model.Encode(text)), {}};
  const std::string line = text.substr(0, text.find('\n'));
  const size_t tab = line.find('\t');
  if (tab == line.npos && options.target.empty()) {
    throw UsageError("an encoder–decoder also needs --target TEXT");
  }
  return {OneRow(model.Encode(line.substr(0, tab))),
          OneRow(model.EncodeTarget(
              options.target.empty() ? line.substr(tab + 1) : options.target))};
}

// A line each, or two where the console is narrow.
void Print(const std::vector<Named>& tensors) {
  const int width = StdoutConsole().width;
  int widest = 0;
  for (const auto& [name, view] : tensors) {
    widest = std::max(widest, DisplayWidth(name));
  }
  for (const auto& [name, view] : tensors) {
    const std::string shape = ToString(view);
    const bool fits = widest + 2 + DisplayWidth(shape) <= width;
    WriteStdout("{}{}{}\n", fits ? PadRight(name, widest) : name,
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
  std::vector<Named> tensors;
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
  SaveTensors(options.out, {tensors.begin(), tensors.end()},
              {{"format", "headwise.dump/1"}});
  Print(tensors);
  return kSucceeded;
}

int Run(const Options& options) {
  options.engine.Require();
  if (!options.weights.empty()) return DumpWeights(options);
  Transformer model =
      OpenTransformer(options.model, options.engine, options.reading);
  if (options.list) {
    for (const std::string& name : model.ActivationNames()) {
      WriteStdout("{}\n", name);
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
  if (options.input.empty()) model.tokenizer();  // throws where there is none
  const Input given = ReadInput(options, model);
  const auto taken =
      model.RunRows(given.source.rows, options.names, given.target.rows,
                    {given.source.width, given.source.first, given.target.width,
                     given.target.first});
  std::vector<Named> tensors;
  for (const auto& [name, tensor] : taken) {
    tensors.push_back({name, tensor.view()});
  }
  std::map<std::string, std::string> notes = {{"format", "headwise.dump/1"}};
  const Transformer* pieces = options.input.empty() ? &model : nullptr;
  const WrittenTokens of_source(given.source, pieces);
  of_source.AddTo("", tensors, notes);
  const WrittenTokens of_target(given.target, pieces);
  if (!given.target.rows.empty()) of_target.AddTo("decoder_", tensors, notes);
  SaveTensors(options.out, {tensors.begin(), tensors.end()}, notes);
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
              "decoder_input_ids where needed; what is written has the same "
              "positions, with zeros where the mask has them");
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
  AddWeightMemoryFlag(line, options->engine);
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace dump_command

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
    .setup = dump_command::Setup,
    .lower = "the number of names or the length of the text"};

}  // namespace headwise
