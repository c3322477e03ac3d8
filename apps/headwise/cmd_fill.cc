// headwise fill: the words that an encoder puts in the place of [MASK], with
// any heads switched off.
#include <memory>
#include <string>

#include "commands.h"
#include "console.h"
#include "flags.h"
#include "headwise/base/json.h"
#include "headwise/fill.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "open_model.h"

namespace headwise {
namespace fill_command {
namespace {

struct Options {
  RunFlags run;
  std::string text;
  std::string drop;
  ReadingFlags reading;
  FillJob job;
};

Json ToJson(const FilledText& filled) {
  Json masks = Json::array();
  for (const FilledMask& mask : filled.masks) {
    Json guesses = Json::array();
    for (const MaskGuess& guess : mask.guesses) {
      guesses.push_back({{"token", guess.token},
                         {"id", guess.id},
                         {"probability", guess.probability}});
    }
    masks.push_back({{"position", mask.position}, {"guesses", guesses}});
  }
  return {{"ids", filled.ids}, {"masks", masks}};
}

int Run(const Options& options) {
  options.run.engine.Require();
  Transformer model =
      OpenTransformer(options.run.model, options.run.engine, options.reading);
  Intervention closed;
  if (!options.drop.empty()) {
    closed = model.Edit({.drop = ParseHeads(options.drop, model)});
  }
  const FilledText filled = FillMasks(model, options.text, options.job);
  if (options.run.json) {
    WriteJson(ToJson(filled).dump(2));
    return kSucceeded;
  }
  for (size_t i = 0; i < filled.masks.size(); ++i) {
    if (filled.masks.size() > 1) {
      WriteStdout("{}mask {}\n", i > 0 ? "\n" : "", i + 1);
    }
    for (const MaskGuess& guess : filled.masks[i].guesses) {
      WriteStdout("{:6.3f}  {}\n", guess.probability, guess.token);
    }
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run);
  line.Option("TEXT", options->text, "A text with [MASK] in it").Required();
  AddFlags(line, options->job);
  line.Option("--drop", options->drop,
              "Heads to switch off: 5.1,6.0 (layer.head, from 0)");
  AddReadingFlags(line, options->reading);
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace fill_command

const Command kFillCommand = {
    .name = "fill",
    .group = Group::kTrain,
    .summary = "Guess the masked words of a text, with any heads switched off",
    .examples =
        "  headwise fill models/bert \"The cat [MASK] on the mat.\"\n"
        "  headwise fill models/bert \"The [MASK] sat on the [MASK].\" --drop "
        "2.1",
    .setup = fill_command::Setup};

}  // namespace headwise
