// headwise vocab: learn a byte-level BPE vocabulary from text files.
#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"
#include "commands.h"
#include "flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/tokenizer/bpe_trainer.h"
#include "headwise/tokenizer/tokenizer_json.h"

namespace headwise {
namespace {

struct Options {
  std::vector<std::string> text;
  std::string out;
  bool json = false;
  BpeTraining training;
};

int Run(const Options& options) {
  const std::vector<std::filesystem::path> files(options.text.begin(),
                                                 options.text.end());
  uintmax_t bytes = 0;
  for (const auto& path : files) bytes += MappedFile(path).size();
  if (bytes == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {options.text.front(), "text to learn from", "none", ""});
  }
  const std::string file = TrainByteLevelBpe(files, options.training);
  const auto tokenizer = ParseTokenizerJson(file, options.out);
  WriteFileAtomically(options.out, file);
  if (options.json) {
    fmt::print("{{\"out\": {}, \"entries\": {}, \"bytes\": {}}}\n",
               nlohmann::json(options.out).dump(), tokenizer->vocab_size(),
               bytes);
  } else {
    fmt::print("{}: {} entries from {:.{}f} MB of text\n", options.out,
               tokenizer->vocab_size(), static_cast<double>(bytes) / 1e6,
               bytes < 1'000'000 ? 3 : 1);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("--text", options->text, "Text files in UTF-8")
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
        "  headwise vocab --text novels/*.txt --out model/tokenizer.json\n"
        "  headwise vocab --text a.txt --size 1024 --out tokenizer.json",
    .setup = Setup};

}  // namespace headwise
