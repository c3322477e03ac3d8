// headwise generate: text that continues a prompt, or its translation, with
// any heads switched off.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache_flags.h"
#include "command.h"
#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/cache.h"
#include "headwise/drawing/text.h"
#include "headwise/error.h"
#include "headwise/generate.h"
#include "headwise/head_edit.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/session.h"
#include "headwise/text_input.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"
#include "text_argument.h"

namespace headwise {
namespace generate_command {
namespace {

struct Options {
  std::string model;
  std::string prompt;
  std::string file;
  std::string out;
  std::vector<int32_t> ids;
  std::string drop;
  GenerateJob generate;
  CacheFlags cache;
  EngineFlags engine;
  bool json = false;
  ReadingFlags reading;
};

// Prints text as it grows. A token may end inside a character: what is not
// yet whole waits for the next.
class Printer {
 public:
  explicit Printer(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  void Add(int32_t id) {
    ids_.push_back(id);
    if (tokenizer_ == nullptr) {
      WriteStdout("{}{}", ids_.size() > 1 ? " " : "", id);
      ids_ = {id};
    } else {
      // Decoded with a few before it: a first token may lose its space, and
      // one may end inside a character.
      const std::string text = tokenizer_->Decode(ids_);
      const bool whole = !text.ends_with("\xEF\xBF\xBD");
      if (whole && text.size() > printed_) {
        WriteStdout("{}", std::string_view(text).substr(printed_));
        ids_.erase(ids_.begin(), ids_.end() - std::min<ptrdiff_t>(
                                                  kContext, std::ssize(ids_)));
        printed_ = tokenizer_->Decode(ids_).size();
      }
    }
    std::fflush(stdout);
  }

 private:
  // Tokens that are decoded once more with the next one.
  static constexpr ptrdiff_t kContext = 8;

  const Tokenizer* tokenizer_;
  std::vector<int32_t> ids_;  // the last few
  size_t printed_ = 0;        // bytes of their text
};

// Which heads keep what, if that was asked for, and the largest cache of the
// texts. Lives as long as it is generated.
class CacheWatch {
 public:
  CacheWatch(Options& options, Transformer& model)
      : choice_(ChooseCache(options.cache, model)) {
    if (!choice_) return;
    options.generate.policy = &choice_->policy;
    options.generate.on_cache = [this](const CacheBytes& bytes) {
      if (bytes.kept > most_.kept) most_ = bytes;
    };
  }
  CacheWatch(const CacheWatch&) = delete;
  CacheWatch& operator=(const CacheWatch&) = delete;

  void AddTo(Json& json, const Transformer& model) const {
    if (choice_) json["cache"] = ToJson(*choice_, most_, model.hash());
  }
  // Beside the text, which has standard output to itself.
  void Print() const {
    if (choice_) WriteStderr("{}\n", ToText(*choice_, most_));
  }

 private:
  std::optional<CacheChoice> choice_;
  CacheBytes most_;
};

std::vector<std::string> ReadPrompts(const std::string& path) {
  std::vector<std::string> lines = ReadLines(path);
  if (lines.empty()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {path, "at least one line", "an empty file", "write a prompt a line"});
  }
  return lines;
}

// Heads that --drop names, closed as long as it lives.
Intervention Drop(const Options& options, Transformer& model) {
  if (options.drop.empty()) return {};
  HeadEdit edit;
  edit.drop = ParseHeads(options.drop, model);
  return model.Edit(std::move(edit));
}

// Every line of a file.
std::vector<std::string> GenerateLines(Options& options, Transformer& model) {
  const std::vector<std::string> prompts = ReadPrompts(options.file);
  options.generate.stop = StopOnInterrupt();
  ProgressBar bar;
  options.generate.on_progress = bar.on_progress();
  std::vector<std::string> texts;
  for (Generated& one : GenerateEach(model, prompts, options.generate)) {
    // A line stays a line.
    std::replace(one.text.begin(), one.text.end(), '\n', ' ');
    texts.push_back(std::move(one.text));
  }
  if (options.generate.stop.stop_requested()) {
    throw Error(ErrorCode::kCancelled,
                {"generate", "all lines of " + options.file, "a stop", ""});
  }
  return texts;
}

int RunFile(Options& options) {
  if (!options.prompt.empty() || !options.ids.empty()) {
    throw UsageError("--file takes the place of PROMPT and --ids");
  }
  RequireWritable(options.out);
  Transformer model =
      OpenTransformer(options.model, options.engine, options.reading);
  const Intervention closed = Drop(options, model);
  CacheWatch cache(options, model);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::string> texts = GenerateLines(options, model);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  if (!options.out.empty()) {
    WriteFileAtomically(options.out,
                        fmt::format("{}\n", fmt::join(texts, "\n")));
  }
  if (options.json) {
    Json json = {{"seconds", took.count()}, {"texts", texts}};
    cache.AddTo(json, model);
    WriteJson(json.dump(2));
  } else if (options.out.empty()) {
    for (const std::string& text : texts) WriteStdout("{}\n", text);
  } else {
    WriteStdout("{}: {} in {}\n", options.out,
                Counted(static_cast<int64_t>(texts.size()), "line"),
                Duration(took.count()));
  }
  if (!options.json) cache.Print();
  return kSucceeded;
}

int Run(Options& options) {
  options.engine.Require();
  RequireCacheFlags(options.cache, options.engine);
  if (!options.file.empty()) return RunFile(options);
  if (!options.out.empty()) throw UsageError("--out needs --file");
  if (!options.prompt.empty() && !options.ids.empty()) {
    throw UsageError("expected either PROMPT or --ids");
  }
  HintAtFile(options.prompt, "--file " + options.prompt);
  Transformer model =
      OpenTransformer(options.model, options.engine, options.reading);
  const Intervention closed = Drop(options, model);
  CacheWatch cache(options, model);
  // Ctrl-C ends the text, not the line: what was generated stays whole.
  options.generate.stop = StopOnInterrupt();
  Printer printer(model.has_tokenizer() ? &model.tokenizer() : nullptr);
  const bool streams = !options.json && options.generate.beam == 1;
  if (streams) {
    options.generate.on_token = [&](int32_t id) { printer.Add(id); };
  }
  const auto start = std::chrono::steady_clock::now();
  const Generated made = options.ids.empty()
                             ? Generate(model, options.prompt, options.generate)
                             : Generate(model, options.ids, options.generate);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  if (options.json) {
    Json json = {{"prompt_ids", made.prompt},
                 {"ids", made.ids},
                 {"seconds", took.count()}};
    if (model.has_tokenizer()) json["text"] = made.text;
    cache.AddTo(json, model);
    WriteJson(json.dump(2));
  } else {
    if (!streams) {
      for (const int32_t id : made.ids) printer.Add(id);
    }
    WriteStdout("\n");
    cache.Print();
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder").Required();
  line.Option("PROMPT", options->prompt,
              "Text to continue, or to translate (encoder–decoders)");
  line.Option("--ids", options->ids, "The prompt as token ids: 1,15,7")
      .Commas();
  line.Option("--file", options->file,
              "Prompts (sources of encoder–decoders), one a line");
  line.Option("--out", options->out,
              "Write the texts of --file here, one a line");
  line.Option("--drop", options->drop,
              "Heads to switch off: 5.1,6.0 (layer.head, from 0); "
              "cross:5.1 and decoder:5.1 in encoder–decoders");
  AddCacheFlags(line, options->cache);
  AddFlags(line, options->generate);
  AddReadingFlags(line, options->reading);
  AddEngineFlags(line, options->engine);
  AddWeightMemoryFlag(line, options->engine);
  line.Flag("--json", options->json, "Print JSON");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace generate_command

const Command kGenerateCommand = {
    .name = "generate",
    .group = Group::kTrain,
    .summary = "Continue a text, with any heads switched off",
    .examples =
        "  headwise generate models/minimind2-small \"The capital of France\"\n"
        "  headwise generate models/stories --ids 1 --max-tokens 40\n"
        "  headwise generate models/minimind2-small \"Once\" --drop 5.1,5.0\n"
        "  headwise generate models/marian \"Guten Tag\" --beam 4\n"
        "  headwise generate models/marian --file source.txt --beam 4 --out "
        "out.txt\n"
        "  headwise generate models/minimind2-small \"Once\" --kv-policy "
        "roles\n"
        "Control characters of a text are printed as ⟨1b⟩; --json and --out "
        "have them\nas they are.",
    .setup = generate_command::Setup,
    .lower = "--context, --beam or --threads"};

}  // namespace headwise
