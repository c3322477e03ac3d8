// headwise vocab: learn a vocabulary from text files, of byte-level BPE or of
// whole words.
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
#include "headwise/tokenizer/word_trainer.h"
#include "progress_bar.h"
#include "text_argument.h"

namespace headwise {
namespace vocab_command {
namespace {

struct Options {
  std::vector<std::string> text;
  std::string out;
  bool json = false;
  std::string kind = "bpe";
  bool cased = false;
  std::vector<std::string> include;
  BpeTraining training;
};

std::string Learn(TextSource& texts, const Options& options) {
  const BpeTraining& given = options.training;
  ProgressBar bar;
  if (options.kind == "bpe") {
    if (options.cased) throw UsageError("--cased is of --kind words");
    if (!options.include.empty()) {
      throw UsageError("--include is of --kind words");
    }
    return TrainByteLevelBpe(texts, given, bar.on_progress());
  }
  if (given.bos != BpeTraining().bos) {
    throw UsageError(
        "--bos is of --kind bpe: words stand between [CLS] "
        "and [SEP]");
  }
  return TrainWords(texts,
                    {.size = given.size,
                     .min_count = given.min_count,
                     .lowercase = !options.cased,
                     .special_tokens = given.special_tokens,
                     .include = options.include},
                    bar.on_progress());
}

int Run(const Options& options) {
  RequireWritable(options.out);
  RequireTexts(options.text);
  TextSource texts(options.text);
  const std::string file = Learn(texts, options);
  const uint64_t bytes = texts.text_bytes();
  const auto tokenizer = ParseTokenizerJson(file, options.out);
  WriteFileAtomically(options.out, file);
  if (options.json) {
    WriteJson(fmt::format("{{\"out\": {}, \"entries\": {}, \"bytes\": {}}}",
                          Json(options.out).dump(), tokenizer->vocab_size(),
                          bytes));
  } else {
    WriteStdout("{}", Wrap(fmt::format("{}: {} entries from {:.{}f} MB of text",
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
  line.Option("--kind", options->kind,
              "bpe: pieces of bytes, which spell everything; words: the most "
              "frequent whole words, others unknown, with [CLS], [SEP] and "
              "[MASK], for encoders")
      .OneOf({"bpe", "words"})
      .ShowDefault();
  line.Flag("--cased", options->cased,
            "words: tell Apple from apple; else all is lower case");
  line.Option("--include", options->include,
              "words: these too, however rare: mat,phone")
      .Commas();
  line.Flag("--json", options->json, "Print JSON");
  AddFlags(line, options->training);
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace vocab_command

const Command kVocabCommand = {
    .name = "vocab",
    .group = Group::kTrain,
    .summary = "Learn a vocabulary from text files: byte-level BPE or words",
    .examples =
        "  headwise vocab --text novels/ --out model/tokenizer.json\n"
        "  headwise vocab --text news.jsonl.gz --out tokenizer.json\n"
        "  headwise vocab --text a.txt --size 1024 --out tokenizer.json\n"
        "  headwise vocab --text novels/ --kind words --size 8192 --out "
        "words.json",
    .setup = vocab_command::Setup,
    .lower = "the amount of text"};

}  // namespace headwise
