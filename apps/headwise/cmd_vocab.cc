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
#include "headwise/vocabulary.h"
#include "progress_bar.h"
#include "text_argument.h"

namespace headwise {
namespace vocab_command {
namespace {

struct Options {
  std::vector<std::string> text;
  std::string out;
  bool json = false;
  VocabularyJob job;
};

int Run(const Options& options) {
  RequireWritable(options.out);
  RequireTexts(options.text);
  ProgressBar bar;
  VocabularyJob job = options.job;
  job.on_progress = bar.on_progress();
  const LearnedVocabulary learned = LearnVocabulary(options.text, job);
  WriteFileAtomically(options.out, learned.json);
  if (options.json) {
    WriteJson(fmt::format("{{\"out\": {}, \"entries\": {}, \"bytes\": {}}}",
                          Json(options.out).dump(), learned.entries,
                          learned.bytes));
  } else {
    WriteStdout("{}", Wrap(fmt::format("{}: {} entries from {:.{}f} MB of text",
                                       options.out, learned.entries,
                                       static_cast<double>(learned.bytes) / 1e6,
                                       learned.bytes < 1'000'000 ? 3 : 1),
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
  AddFlags(line, options->job);
  line.Flag("--json", options->json, "Print JSON");
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
