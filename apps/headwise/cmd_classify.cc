// headwise classify: classes of texts or of their tokens, by the head that the
// checkpoint has for them.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "flags.h"
#include "headwise/base/json.h"
#include "headwise/classify.h"
#include "headwise/drawing/terminal.h"
#include "headwise/model.h"
#include "open_model.h"
#include "text_argument.h"

namespace headwise {
namespace classify_command {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> texts;
  ClassifyJob job;
  bool json = false;
  EngineFlags engine;
  ReadingFlags reading;
};

// Of one row: a softmax, or of a single number its sigmoid.
std::vector<double> Probabilities(const float* logits, int64_t classes) {
  if (classes == 1) return {1 / (1 + std::exp(-double{logits[0]}))};
  const double most = *std::max_element(logits, logits + classes);
  std::vector<double> shares;
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    shares.push_back(std::exp(logits[c] - most));
    sum += shares.back();
  }
  for (double& share : shares) share /= sum;
  return shares;
}

// What a row is of, and its probabilities.
struct ClassRow {
  std::string of;
  const float* logits = nullptr;
  std::vector<double> probabilities;
};

std::vector<ClassRow> RowsOf(const Options& options, const Transformer& model,
                             const TextClasses& result) {
  const int64_t classes = result.logits.shape(1);
  std::vector<ClassRow> rows;
  const auto add = [&](std::string of) {
    const float* logits =
        result.logits.As<float>() + std::ssize(rows) * classes;
    rows.push_back({std::move(of), logits, Probabilities(logits, classes)});
  };
  for (size_t t = 0; t < result.ids.size(); ++t) {
    if (!result.of_tokens) {
      add(options.texts[t]);
      continue;
    }
    for (const int32_t id : result.ids[t]) {
      add(model.tokenizer().Token(id).value_or(""));
    }
  }
  return rows;
}

Json ToJson(const Options& options, const TextClasses& result,
            const std::vector<ClassRow>& rows) {
  const int64_t classes = result.logits.shape(1);
  Json list = Json::array();
  for (const ClassRow& row : rows) {
    list.push_back(
        {{result.of_tokens ? "token" : "text", row.of},
         {"logits", std::vector<float>(row.logits, row.logits + classes)},
         {"probabilities", row.probabilities}});
  }
  return {{"format", "headwise.classes/1"},
          {"model", options.model},
          {"labels", result.labels},
          {"rows", std::move(list)}};
}

int Run(const Options& options) {
  options.engine.Require();
  Transformer model =
      OpenTransformer(options.model, options.engine, options.reading);
  const TextClasses result = ClassifyTexts(model, options.texts, options.job);
  if (result.cut > 0) {
    WriteStderr("warning: {} of {} texts are cut\n", result.cut,
                options.texts.size());
  }
  const std::vector<ClassRow> rows = RowsOf(options, model, result);
  if (options.json) {
    WriteJson(ToJson(options, result, rows).dump());
    return kSucceeded;
  }
  StudyTable table;
  table.columns = {result.of_tokens ? "token" : "text", "class", "probability"};
  for (const ClassRow& row : rows) {
    const auto best = std::ranges::max_element(row.probabilities);
    constexpr int kShown = 48;  // columns
    table.rows.push_back(
        {Shorten(row.of, kShown),
         result.labels[static_cast<size_t>(best - row.probabilities.begin())],
         fmt::format("{:.4f}", *best)});
  }
  WriteDrawn("{}", DrawTable(table, StdoutConsole()));
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder").Required();
  line.Option("TEXT", options->texts, "Texts").Required().Several();
  ClassifyJob::VisitFields(options->job, FlagMaker(line, {}));
  AddReadingFlags(line, options->reading);
  AddEngineFlags(line, options->engine);
  line.Flag("--json", options->json, "Print JSON, with logits");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace classify_command

const Command kClassifyCommand = {
    .name = "classify",
    .group = Group::kAnalyse,
    .summary = "Classes of texts or of tokens, by a model's head for them",
    .examples =
        "  headwise classify models/sst2 \"A fine film.\" \"A bore.\"\n"
        "  headwise classify models/ner \"Ada lives in London.\" --json\n"
        "\"architectures\" of config.json says which head it is: "
        "…ForSequenceClassification, …ForTokenClassification, "
        "ElectraForPreTraining.",
    .setup = classify_command::Setup};

}  // namespace headwise
