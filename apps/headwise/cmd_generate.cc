// headwise generate: text that continues a prompt, or its translation, with
// any heads switched off.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>

#include "command.h"
#include "commands.h"
#include "flags.h"
#include "headwise/error.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/gates.h"
#include "headwise/runtime/generate.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {
namespace {

struct Options {
  std::string model;
  std::string prompt;
  std::vector<int32_t> ids;
  std::string drop;
  GenerateOptions generate;
  int threads = 0;
  bool truncate = false;
  bool json = false;
};

// Ctrl-C ends the text, not the line: what was generated stays whole.
volatile std::sig_atomic_t interrupted = 0;
extern "C" void OnInterrupt(int) { interrupted = 1; }

// Null for a model without one, where the prompt is ids: ids in, ids out.
std::unique_ptr<Tokenizer> LoadTokenizer(const Options& options) {
  try {
    return Tokenizer::Load(options.model);
  } catch (const Error&) {
    if (options.ids.empty() || !options.prompt.empty()) throw;
    return nullptr;
  }
}

std::vector<int32_t> PromptIds(const Options& options, const Model& model,
                               const Tokenizer* tokenizer) {
  if (!options.ids.empty()) return options.ids;
  std::vector<int32_t> ids = tokenizer->Encode(options.prompt).ids;
  const int64_t bos = model.config().bos;
  if (ids.empty() && bos >= 0) ids.push_back(static_cast<int32_t>(bos));
  return ids;
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
        fmt::print("{}", std::string_view(text).substr(printed_));
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

void PrintJson(const Tokenizer* tokenizer, const std::vector<int32_t>& prompt,
               const std::vector<int32_t>& tokens, double seconds) {
  nlohmann::ordered_json json = {
      {"prompt_ids", prompt}, {"ids", tokens}, {"seconds", seconds}};
  if (tokenizer != nullptr) json["text"] = tokenizer->Decode(tokens);
  fmt::print("{}\n", json.dump(2));
}

int Run(Options& options) {
  const auto model = OpenModel(options.model);
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(options);
  std::vector<int32_t> prompt = PromptIds(options, *model, tokenizer.get());
  Truncate(options, *model, prompt);
  ClosedHeads closed(*model, ParseHeads(options.drop, *model));
  if (!options.drop.empty()) options.generate.hooks = &closed;
  Context context({.threads = options.threads, .implementations = ""});
  std::stop_source stop;
  options.generate.stop = stop.get_token();
  Printer printer(tokenizer.get());
  const bool streams = !options.json && options.generate.beam == 1;
  if (streams) {
    std::signal(SIGINT, OnInterrupt);
    options.generate.on_token = [&](int32_t id) {
      printer.Add(id);
      if (interrupted != 0) stop.request_stop();
    };
  }
  const auto start = std::chrono::steady_clock::now();
  const std::vector<int32_t> tokens =
      Generate(context, *model, prompt, options.generate);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  if (options.json) {
    PrintJson(tokenizer.get(), prompt, tokens, took.count());
  } else {
    if (!streams) {
      for (const int32_t id : tokens) printer.Add(id);
    }
    fmt::print("\n");
  }
  return kSucceeded;
}

std::function<int()> Setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "A model's folder")->required();
  app.add_option("PROMPT", options->prompt,
                 "Text to continue, or to translate (encoder–decoders)");
  app.add_option("--ids", options->ids, "The prompt as token ids")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--drop", options->drop,
                 "Heads to switch off: 5.1,6.0 (layer.head, from 0); "
                 "cross:5.1 and decoder:5.1 in encoder–decoders");
  app.add_option("--max-tokens", options->generate.max_tokens,
                 "Most new tokens")
      ->capture_default_str();
  app.add_option("--context", options->generate.capacity,
                 "Most positions; 0: as many as the model knows")
      ->capture_default_str();
  app.add_option("--beam", options->generate.beam,
                 "Beams of an encoder–decoder")
      ->capture_default_str();
  AddFlags(app, options->generate.sampler);
  app.add_flag("--truncate", options->truncate,
               "Keep the last tokens of a prompt that is too long");
  app.add_option("--threads", options->threads,
                 "Threads to use; 0: all cores. Results do not depend on it");
  app.add_flag("--json", options->json, "Print JSON");
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
        "  headwise generate models/marian \"Guten Tag\" --beam 4",
    .setup = Setup};

}  // namespace headwise
