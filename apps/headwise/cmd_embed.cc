// headwise embed: one vector a text, pooled as the model's files say.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/drawing/terminal.h"
#include "headwise/drawing/text.h"
#include "headwise/embed.h"
#include "headwise/error.h"
#include "headwise/model.h"
#include "headwise/text_input.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"
#include "text_argument.h"

namespace headwise {
namespace embed_command {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> texts;
  std::string file;
  std::string out;
  EmbedJob job;
  bool json = false;
  EngineFlags engine;
  ReadingFlags reading;
};

// Its lines, of which empty ones are none.
std::vector<std::string> TextsOf(const std::string& path) {
  std::vector<std::string> lines = ReadLines(path);
  std::erase(lines, "");
  return lines;
}

double Cosine(const EmbeddedTexts& of, int64_t a, int64_t b) {
  const int64_t width = of.vectors.shape(1);
  const float* x = of.vectors.As<float>() + a * width;
  const float* y = of.vectors.As<float>() + b * width;
  double xy = 0, xx = 0, yy = 0;
  for (int64_t i = 0; i < width; ++i) {
    xy += double{x[i]} * y[i];
    xx += double{x[i]} * x[i];
    yy += double{y[i]} * y[i];
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

Json ToJson(const Options& options, const std::vector<std::string>& texts,
            const EmbeddedTexts& result) {
  const int64_t width = result.vectors.shape(1);
  Json list = Json::array();
  for (size_t i = 0; i < texts.size(); ++i) {
    const float* row =
        result.vectors.As<float>() + static_cast<int64_t>(i) * width;
    list.push_back({{"text", texts[i]},
                    {"tokens", result.tokens[i]},
                    {"vector", std::vector<float>(row, row + width)}});
  }
  return {{"format", "headwise.embed/1"},
          {"model", options.model},
          {"pooling", result.how},
          {"prompt", result.prompt},
          {"width", width},
          {"texts", std::move(list)}};
}

// A text in a table.
std::string Title(std::string text) {
  constexpr int kShown = 32;  // columns
  std::ranges::replace(text, '\n', ' ');
  return Shorten(text, kShown);
}

// Each text with the nearest of the others.
void Print(const std::vector<std::string>& texts, const EmbeddedTexts& result) {
  const Console console = StdoutConsole();
  StudyTable table;
  table.columns = {"text", "tokens", "nearest other", "cosine"};
  for (size_t i = 0; i < texts.size(); ++i) {
    double best = -2;
    size_t nearest = i;
    for (size_t j = 0; j < texts.size(); ++j) {
      const double cosine = i == j ? -2
                                   : Cosine(result, static_cast<int64_t>(i),
                                            static_cast<int64_t>(j));
      if (cosine > best) {
        best = cosine;
        nearest = j;
      }
    }
    const bool alone = nearest == i;
    table.rows.push_back({Title(texts[i]), std::to_string(result.tokens[i]),
                          alone ? "" : Title(texts[nearest]),
                          alone ? "" : fmt::format("{:.4f}", best)});
  }
  WriteDrawn("{}", DrawTable(table, console));
  WriteStdout("{} numbers a text: {}\n", result.vectors.shape(1), result.how);
}

int Run(const Options& options) {
  options.engine.Require();
  if (options.texts.empty() == options.file.empty()) {
    throw UsageError("expected TEXT … or --file FILE");
  }
  if (!options.out.empty()) RequireWritable(options.out);
  const std::vector<std::string> texts =
      options.file.empty() ? options.texts : TextsOf(options.file);
  Transformer model =
      OpenTransformer(options.model, options.engine, options.reading);
  EmbedJob job = options.job;
  ProgressBar bar;
  job.on_progress = bar.on_progress();
  job.stop = StopOnInterrupt();
  const EmbeddedTexts result = EmbedTexts(model, texts, job);
  if (result.cut > 0) {
    WriteStderr("warning: {} of {} texts are cut, to {} tokens\n", result.cut,
                texts.size(), std::ranges::max(result.tokens));
  }
  if (!options.out.empty()) {
    SaveTensors(options.out, {{"embeddings", result.vectors.view()}},
                {{"format", "headwise.embed/1"}, {"pooling", result.how}});
  }
  if (options.json) {
    WriteJson(ToJson(options, texts, result).dump());
  } else {
    Print(texts, result);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder").Required();
  line.Option("TEXT", options->texts, "Texts, a vector each").Several();
  line.Option("--file", options->file, "A file instead, of a text a line");
  line.Option("--out", options->out,
              "A safetensors file to write: embeddings [texts, width]");
  EmbedJob::VisitFields(options->job, FlagMaker(line, {}));
  AddReadingFlags(line, options->reading);
  AddEngineFlags(line, options->engine);
  line.Flag("--json", options->json, "Print JSON, with the vectors");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace embed_command

const Command kEmbedCommand = {
    .name = "embed",
    .group = Group::kAnalyse,
    .summary = "A vector a text, pooled as sentence-transformers does it",
    .examples =
        "  headwise embed models/minilm-l6 \"A cat sat.\" \"A dog sat.\"\n"
        "  headwise embed models/minilm-l6 --file lines.txt --out "
        "vectors.safetensors\n"
        "  headwise embed models/bert \"A cat sat.\" --pooling cls --normalize "
        "yes --json\n"
        "modules.json beside the model says how (1_Pooling, 2_Dense, "
        "2_Normalize); without it states are averaged.",
    .setup = embed_command::Setup};

}  // namespace headwise
