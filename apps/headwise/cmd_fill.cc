// headwise fill: the words that an encoder puts in the place of [MASK], with
// any heads switched off.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "headwise/base/json.h"
#include "headwise/drawing/text.h"
#include "headwise/error.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/text_frame.h"
#include "headwise/runtime/fill.h"
#include "headwise/runtime/gates.h"
#include "text_reading.h"

namespace headwise {
namespace fill_command {
namespace {

struct Options {
  std::string model;
  std::string text;
  std::string drop;
  int64_t top = 5;
  ReadingFlags reading;
  EngineFlags engine;
  bool json = false;
};

// A text may write the mask of another model.
std::string WithMask(std::string text, std::string_view own) {
  for (const std::string_view name : {"[MASK]", "<mask>"}) {
    if (name == own) continue;
    for (size_t at = text.find(name); at != text.npos; at = text.find(name)) {
      text.replace(at, name.size(), own);
    }
  }
  return text;
}

std::string WordOf(const Tokenizer& tokenizer, int32_t id) {
  const std::vector<int32_t> one = {id};
  const std::string text = tokenizer.Decode(one);
  return text.empty() ? tokenizer.Token(id).value_or("?") : text;
}

Json ToJson(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
            const std::vector<FilledMask>& filled) {
  Json masks = Json::array();
  for (const FilledMask& mask : filled) {
    Json guesses = Json::array();
    for (const MaskGuess& guess : mask.guesses) {
      guesses.push_back({{"token", WordOf(tokenizer, guess.id)},
                         {"id", guess.id},
                         {"probability", guess.probability}});
    }
    masks.push_back({{"position", mask.position}, {"guesses", guesses}});
  }
  return {{"ids", ids}, {"masks", masks}};
}

int Run(const Options& options) {
  options.engine.Require();
  const Checkpoint checkpoint(options.model, options.reading.options(),
                              options.engine.compute());
  const Model& model = checkpoint.model();
  const Tokenizer& tokenizer = checkpoint.tokenizer();
  const auto mask = MaskToken(tokenizer);
  if (!mask) {
    throw Error(ErrorCode::kUnsupported,
                {options.model, "a tokenizer with [MASK] or <mask>", "none",
                 "causal models continue texts: headwise generate"});
  }
  const std::string text =
      WithMask(options.text, tokenizer.Token(*mask).value_or("[MASK]"));
  WarnUnknownScript(tokenizer, text);
  const std::vector<int32_t> ids =
      Framer(tokenizer, model.config()).Encode(text).ids;
  ClosedHeads closed(model, ParseHeads(options.drop, model));
  Context context(options.engine.context());
  const std::vector<FilledMask> filled =
      FillMasks(context, model, ids, *mask, options.top,
                options.drop.empty() ? nullptr : &closed);
  if (options.json) {
    WriteJson(ToJson(tokenizer, ids, filled).dump(2));
    return kSucceeded;
  }
  for (size_t i = 0; i < filled.size(); ++i) {
    if (filled.size() > 1) WriteStdout("{}mask {}\n", i > 0 ? "\n" : "", i + 1);
    for (const MaskGuess& guess : filled[i].guesses) {
      WriteStdout("{:6.3f}  {}\n", guess.probability,
                  WordOf(tokenizer, guess.id));
    }
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder").Required();
  line.Option("TEXT", options->text, "A text with [MASK] in it").Required();
  line.Option("--top", options->top, "Words to show for each mask")
      .ShowDefault()
      .Positive();
  line.Option("--drop", options->drop,
              "Heads to switch off: 5.1,6.0 (layer.head, from 0)");
  AddReadingFlags(line, options->reading);
  AddEngineFlags(line, options->engine);
  line.Flag("--json", options->json, "Print JSON");
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
