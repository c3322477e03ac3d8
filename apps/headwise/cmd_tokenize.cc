// headwise tokenize: the tokens of a text, or the text of tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "headwise/base/json.h"
#include "headwise/drawing/terminal.h"
#include "headwise/drawing/text.h"
#include "headwise/error.h"
#include "headwise/model_info.h"
#include "headwise/text_input.h"
#include "headwise/tokenizer.h"
#include "text_argument.h"

namespace headwise {
namespace tokenize_command {
namespace {

struct Options {
  std::string model;
  std::string text;
  std::vector<std::string> paths;
  std::vector<int32_t> ids;
  ReadingFlags reading;
  bool json = false;
};

// Texts are shown token by token, of which so many bytes make millions.
constexpr uint64_t kMostTextBytes = uint64_t{16} << 20;

// "\n" and other controls as escapes, so that a token stays on its line.
std::string OneLine(const std::string& text) {
  const std::string quoted = Json(text).dump();
  return quoted.substr(1, quoted.size() - 2);
}

Json TokenJson(const Tokenizer& tokenizer, const Encoding& encoding, size_t i) {
  const TokenId id = encoding.ids[i];
  return {{"id", id},
          {"token", tokenizer.Token(id).value_or("")},
          {"text", PieceText(tokenizer, id)},
          {"begin", encoding.spans[i].begin},
          {"end", encoding.spans[i].end},
          {"added", encoding.added[i] != 0}};
}

void PrintTable(const Tokenizer& tokenizer, const Encoding& encoding,
                const Console& console) {
  // So many rows are laid out at once, below a title of their own.
  constexpr size_t kRows = 10'000;
  size_t i = 0;
  do {
    StudyTable table;
    table.columns = {"place", "id", "piece", "bytes"};
    for (const size_t end = std::min(i + kRows, encoding.size()); i < end;
         ++i) {
      const TokenId id = encoding.ids[i];
      const auto [from, to] = encoding.spans[i];
      table.rows.push_back(
          {std::to_string(i), std::to_string(id),
           fmt::format("\"{}\"", OneLine(PieceText(tokenizer, id))),
           encoding.added[i] != 0 ? "added"
                                  : fmt::format("{} to {}", from, to)});
    }
    WriteDrawn("{}", DrawTable(table, console));
  } while (i < encoding.size());
}

// A token a line: as one value it would take a kilobyte for each.
void PrintJson(const Options& options, const Tokenizer& tokenizer,
               const std::string& begin,
               std::span<const TextDocument> documents,
               std::span<const Encoding> encodings) {
  WriteJson(fmt::format(
      R"({{"format":"headwise.tokens/1","model":{},"begin":{},"texts":[)",
      Json(options.model).dump(), Json(begin).dump()));
  for (size_t d = 0; d < documents.size(); ++d) {
    WriteJson(fmt::format(R"({}{{"name":{},"tokens":[)", d > 0 ? "," : "",
                          Json(documents[d].name).dump()));
    for (size_t i = 0; i < encodings[d].size(); ++i) {
      WriteJson((i > 0 ? "," : "") +
                TokenJson(tokenizer, encodings[d], i).dump());
    }
    WriteJson("]}");
  }
  WriteJson("]}");
}

int RunTexts(const Options& options, const Tokenizer& tokenizer) {
  const TextFrame frame = ReadTextFrame(tokenizer, options.model);
  const std::vector<TextDocument> documents =
      options.paths.empty() ? std::vector<TextDocument>{{"", options.text}}
                            : ReadTexts(options.paths, kMostTextBytes);
  const Console console = StdoutConsole();
  std::vector<Encoding> encodings;
  for (const TextDocument& document : documents) {
    WarnUnknownScript(tokenizer, document.text);
    encodings.push_back(EncodeFramed(tokenizer, frame, document.text));
    if (options.json) continue;
    if (!document.name.empty()) {
      WriteStdout("{}\n", VisibleName(document.name));
    }
    PrintTable(tokenizer, encodings.back(), console);
    WriteStdout("{} tokens. Begin: {}\n", encodings.back().size(), frame.why);
    encodings.pop_back();
  }
  if (options.json) {
    PrintJson(options, tokenizer, frame.why, documents, encodings);
  }
  return kSucceeded;
}

int RunIds(const Options& options, const Tokenizer& tokenizer) {
  Json pieces = Json::array();
  for (const TokenId id : options.ids) {
    if (!tokenizer.Token(id)) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {"tokenize",
           fmt::format("ids of tokens, below {}", tokenizer.vocab_size()),
           std::to_string(id), "headwise tokenize MODEL TEXT shows ids"});
    }
    pieces.push_back(PieceText(tokenizer, id));
  }
  const std::string text =
      tokenizer.Decode(options.ids, {.skip_special_tokens = false});
  if (!options.json) {
    WriteStdout("{}\n", text);
    return kSucceeded;
  }
  const Json json = {{"format", "headwise.tokens/1"},
                     {"model", options.model},
                     {"ids", options.ids},
                     {"pieces", pieces},
                     {"text", text}};
  WriteJson(json.dump());
  return kSucceeded;
}

int Run(const Options& options, bool has_text) {
  const int given = (has_text ? 1 : 0) + (options.paths.empty() ? 0 : 1) +
                    (options.ids.empty() ? 0 : 1);
  if (given != 1) throw UsageError("expected one of TEXT, --text and --ids");
  const auto tokenizer =
      Tokenizer::Load(options.model, options.reading.options());
  return options.ids.empty() ? RunTexts(options, *tokenizer)
                             : RunIds(options, *tokenizer);
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model,
              "A model's folder, or a tokenizer's file")
      .Required();
  line.Option("TEXT", options->text, "The text itself");
  line.Option("--text", options->paths,
              "Files or folders of text instead; - is standard input")
      .Several();
  line.Option("--ids", options->ids, "Ids to turn back into text: 1,15,7")
      .Commas();
  AddReadingFlags(line, options->reading);
  line.Flag("--json", options->json, "Print JSON");
  return [options, line] { return Run(*options, line.Given("TEXT")); };
}

}  // namespace
}  // namespace tokenize_command

const Command kTokenizeCommand = {
    .name = "tokenize",
    .group = Group::kTools,
    .summary = "The tokens of a text, as a model reads it",
    .examples =
        "  headwise tokenize assets/novels \"The captain looked at\"\n"
        "  headwise tokenize models/gpt2 --text novel.txt --json\n"
        "  headwise tokenize models/gpt2 --ids 464,3797,3332\n"
        "  headwise tokenize models/gpt2/tokenizer.json \"The cat\" --bos no\n"
        "Control characters of a text are printed as ⟨1b⟩; --json has them as "
        "they are.",
    .setup = tokenize_command::Setup};

}  // namespace headwise
