// headwise generate: text that continues a prompt, or its translation, with
// any heads switched off.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cache_flags.h"
#include "command.h"
#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "flags.h"
#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/format/token_ids.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/text_frame.h"
#include "headwise/report/text.h"
#include "headwise/runtime/gates.h"
#include "headwise/runtime/generate.h"
#include "headwise/tokenizer/tokenizer.h"
#include "interrupt.h"
#include "past_context.h"
#include "progress_bar.h"
#include "text_argument.h"
#include "text_reading.h"

namespace headwise {
namespace {

struct Options {
  std::string model;
  std::string prompt;
  std::string file;
  std::string out;
  std::vector<int32_t> ids;
  std::string drop;
  GenerateOptions generate;
  CacheFlags cache;
  EngineFlags engine;
  bool truncate = false;
  bool json = false;
  ReadingFlags reading;
};

// Null for a model without one, where the prompt is ids: ids in, ids out.
const Tokenizer* TokenizerFor(const Options& options,
                              const Checkpoint& checkpoint) {
  try {
    return &checkpoint.tokenizer();
  } catch (const Error&) {
    if (options.ids.empty() || !options.prompt.empty()) throw;
    return nullptr;
  }
}

// Nothing at all is begun by the begin token, unless none was wanted.
std::vector<int32_t> TextIds(std::string_view text, const Model& model,
                             const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = Framer(tokenizer, model.config()).Encode(text).ids;
  if (ids.empty() && tokenizer.bos().asked != BosChoice::kNo) {
    ids = FrameOf(model.config()).before;
  }
  return ids;
}

std::vector<int32_t> PromptIds(const Options& options, const Model& model,
                               const Tokenizer* tokenizer) {
  if (!options.ids.empty()) {
    RequireTokenIds(options.ids, model.config().vocabulary, "generate");
    return options.ids;
  }
  WarnUnknownScript(*tokenizer, options.prompt);
  return TextIds(options.prompt, model, *tokenizer);
}

// The last tokens that leave room for at least one more.
void Truncate(const Options& options, const Model& model,
              std::vector<int32_t>& ids) {
  const int64_t capacity = options.generate.capacity > 0
                               ? options.generate.capacity
                               : model.config().context;
  const int64_t count = static_cast<int64_t>(ids.size());
  if (count <= capacity) return;
  if (!options.truncate) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"generate", fmt::format("a prompt of at most {} tokens", capacity),
         std::to_string(count), "--truncate keeps the last ones"});
  }
  ids.erase(ids.begin(), ids.end() - capacity);
}

// A --context beyond the model's own, where positions allow it and `most`
// tokens may come to use it.
void CheckContext(const Options& options, const Model& model, int64_t most) {
  const int64_t asked = options.generate.capacity;
  if (asked == 0) return;
  WarnPastContext(model.config(),
                  std::min(ContextOf(model.config(), asked), most));
}

// Prints text as it grows. A token may end inside a character: what is not
// yet whole waits for the next.
class Printer {
 public:
  explicit Printer(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  void Add(int32_t id) {
    ids_.push_back(id);
    if (tokenizer_ == nullptr) {
      fmt::print("{}{}", ids_.size() > 1 ? " " : "", id);
      ids_ = {id};
    } else {
      // Decoded with a few before it: a first token may lose its space, and
      // one may end inside a character.
      const std::string text = tokenizer_->Decode(ids_);
      const bool whole = !text.ends_with("\xEF\xBF\xBD");
      if (whole && text.size() > printed_) {
        fmt::print("{}", Visible(std::string_view(text).substr(printed_)));
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
  CacheWatch(Options& options, const Checkpoint& checkpoint)
      : choice_(ChooseCache(options.cache, options.engine, options.model,
                            checkpoint)) {
    if (!choice_) return;
    options.generate.policy = &choice_->policy;
    options.generate.on_cache = [this](const CacheBytes& bytes) {
      const std::lock_guard lock(mutex_);
      if (bytes.kept > most_.kept) most_ = bytes;
    };
  }
  CacheWatch(const CacheWatch&) = delete;
  CacheWatch& operator=(const CacheWatch&) = delete;

  void AddTo(Json& json, const Checkpoint& checkpoint) const {
    if (choice_) json["cache"] = ToJson(*choice_, most_, checkpoint.hash());
  }
  // Beside the text, which has standard output to itself.
  void Print() const {
    if (choice_) WriteStderr("{}\n", ToText(*choice_, most_));
  }

 private:
  std::optional<CacheChoice> choice_;
  std::mutex mutex_;
  CacheBytes most_;
};

Json TextJson(const Tokenizer* tokenizer, const std::vector<int32_t>& prompt,
              const std::vector<int32_t>& tokens, double seconds) {
  Json json = {{"prompt_ids", prompt}, {"ids", tokens}, {"seconds", seconds}};
  if (tokenizer != nullptr) json["text"] = tokenizer->Decode(tokens);
  return json;
}

std::vector<std::string> ReadPrompts(const std::string& path) {
  const MappedFile file(path);
  std::vector<std::string> lines;
  for (std::string_view rest = file.text(); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (lines.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {path, "at least one line", "an empty file", ""});
  }
  return lines;
}

// Every line of a file, as many at a time as there are threads: a text grows
// token by token, and small models have no work for several threads in one.
std::vector<std::string> GenerateLines(Options& options, const Model& model,
                                       const Tokenizer& tokenizer) {
  const std::vector<std::string> prompts = ReadPrompts(options.file);
  std::vector<std::string> texts(prompts.size());
  Context context(options.engine.context());
  std::vector<std::unique_ptr<Context>> own(context.threads());
  ContextOptions alone = options.engine.context();
  alone.threads = 1;
  for (auto& one : own) one = std::make_unique<Context>(alone);
  options.generate.stop = StopOnInterrupt();
  ProgressBar bar;
  std::mutex mutex;
  double done = 0;
  context.pool().ParallelFor(
      static_cast<int64_t>(prompts.size()), [&](int64_t i, int worker) {
        if (options.generate.stop.stop_requested()) return;
        std::vector<int32_t> ids = TextIds(prompts[i], model, tokenizer);
        if (ids.empty()) return;
        Truncate(options, model, ids);
        std::string text = tokenizer.Decode(
            Generate(*own[worker], model, ids, options.generate));
        // A line stays a line.
        std::replace(text.begin(), text.end(), '\n', ' ');
        texts[i] = std::move(text);
        std::lock_guard lock(mutex);
        bar.Show(
            {"generate", ++done, static_cast<double>(prompts.size()), "lines"});
      });
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
  const Checkpoint checkpoint(options.model, options.reading.options(),
                              options.engine.compute());
  const Model& model = checkpoint.model();
  const Tokenizer& tokenizer = checkpoint.tokenizer();
  WarnUnknownScript(tokenizer, MappedFile(options.file).text());
  CheckContext(options, model, options.generate.capacity);
  ClosedHeads closed(model, ParseHeads(options.drop, model));
  if (!options.drop.empty()) options.generate.hooks = &closed;
  CacheWatch cache(options, checkpoint);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::string> texts =
      GenerateLines(options, model, tokenizer);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  if (!options.out.empty()) {
    WriteFileAtomically(options.out,
                        fmt::format("{}\n", fmt::join(texts, "\n")));
  }
  if (options.json) {
    Json json = {{"seconds", took.count()}, {"texts", texts}};
    cache.AddTo(json, checkpoint);
    fmt::print("{}\n", json.dump(2));
  } else if (options.out.empty()) {
    for (const std::string& text : texts) fmt::print("{}\n", Visible(text));
  } else {
    fmt::print("{}: {} in {}\n", Visible(options.out),
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
  const Checkpoint checkpoint(options.model, options.reading.options(),
                              options.engine.compute());
  const Model& model = checkpoint.model();
  const Tokenizer* tokenizer = TokenizerFor(options, checkpoint);
  std::vector<int32_t> prompt = PromptIds(options, model, tokenizer);
  Truncate(options, model, prompt);
  CheckContext(options, model,
               std::ssize(prompt) + options.generate.max_tokens);
  ClosedHeads closed(model, ParseHeads(options.drop, model));
  if (!options.drop.empty()) options.generate.hooks = &closed;
  CacheWatch cache(options, checkpoint);
  Context context(options.engine.context());
  const int64_t most = options.generate.capacity > 0 ? options.generate.capacity
                                                     : model.config().context;
  RequireRoom(context, model,
              std::min(most, std::ssize(prompt) + options.generate.max_tokens));
  // Ctrl-C ends the text, not the line: what was generated stays whole.
  options.generate.stop = StopOnInterrupt();
  Printer printer(tokenizer);
  const bool streams = !options.json && options.generate.beam == 1;
  if (streams) {
    options.generate.on_token = [&](int32_t id) { printer.Add(id); };
  }
  const auto start = std::chrono::steady_clock::now();
  const std::vector<int32_t> tokens =
      Generate(context, model, prompt, options.generate);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  if (options.json) {
    Json json = TextJson(tokenizer, prompt, tokens, took.count());
    cache.AddTo(json, checkpoint);
    fmt::print("{}\n", json.dump(2));
  } else {
    if (!streams) {
      for (const int32_t id : tokens) printer.Add(id);
    }
    fmt::print("\n");
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
  line.Option("--max-tokens", options->generate.max_tokens, "Most new tokens")
      .ShowDefault()
      .NotNegative();
  line.Option("--context", options->generate.capacity,
              "Most positions; 0: as many as the model knows")
      .ShowDefault()
      .NotNegative();
  line.Option("--beam", options->generate.beam, "Beams of an encoder–decoder")
      .ShowDefault();
  AddCacheFlags(line, options->cache);
  AddFlags(line, options->generate.sampler);
  AddReadingFlags(line, options->reading);
  line.Flag("--truncate", options->truncate,
            "Keep the last tokens of a prompt that is too long");
  AddEngineFlags(line, options->engine);
  line.Flag("--json", options->json, "Print JSON");
  return [options] { return Run(*options); };
}

}  // namespace

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
    .setup = Setup,
    .lower = "--context, --beam or --threads"};

}  // namespace headwise
