// headwise vocab: learn a byte-level BPE vocabulary from text files.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/tokenizer/bpe_trainer.h"
#include "headwise/tokenizer/tokenizer_json.h"
#include "text_argument.h"

namespace headwise {
namespace {

struct Options {
  std::vector<std::string> text;
  std::string out;
  bool json = false;
  BpeTraining training;
};

int Run(const Options& options) {
  RequireWritable(options.out);
  RequireTexts(options.text);
  TextSource texts(options.text);
  const std::string file = TrainByteLevelBpe(texts, options.training);
  const uint64_t bytes = texts.text_bytes();
  const auto tokenizer = ParseTokenizerJson(file, options.out);
  WriteFileAtomically(options.out, file);
  if (options.json) {
    fmt::print("{{\"out\": {}, \"entries\": {}, \"bytes\": {}}}\n",
               Json(options.out).dump(), tokenizer->vocab_size(), bytes);
  } else {
    fmt::print("{}", Wrap(fmt::format("{}: {} entries from {:.{}f} MB of text",
                                      options.out, tokenizer->vocab_size(),
                                      static_cast<double>(bytes) / 1e6,
                                      bytes < 1'000'000 ? 3 : 1),
                          StdoutConsole().width));
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("--text", options->text,
              "Files or folders of text (.gz, .xz, .zst, .jsonl too); - is "
              "standard input")
      .Required()
      .Several();
  line.Option("--out", options->out, "The tokenizer.json to write").Required();
  line.Flag("--json", options->json, "Print JSON");
  AddFlags(line, options->training);
  return [options] { return Run(*options); };
}

}  // namespace

const Command kVocabCommand = {
    .name = "vocab",
    .group = Group::kTrain,
    .summary = "Learn a byte-level BPE vocabulary from text files",
    .examples =
        "  headwise vocab --text novels/ --out model/tokenizer.json\n"
        "  headwise vocab --text news.jsonl.gz --out tokenizer.json\n"
        "  headwise vocab --text a.txt --size 1024 --out tokenizer.json",
    .setup = Setup,
    .lower = "the amount of text"};

}  // namespace headwise
