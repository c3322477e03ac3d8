// headwise patch: which heads a prediction comes from.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "commands.h"
#include "console.h"
#include "flags.h"
#include "headwise/base/json.h"
#include "headwise/drawing/terminal.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/patch.h"
#include "headwise/text_input.h"
#include "interrupt.h"
#include "open_model.h"
#include "progress_bar.h"
#include "run_flags.h"
#include "text_argument.h"

namespace headwise {
namespace patch_command {
namespace {

struct Options {
  RunFlags run;
  std::string prompt;
  std::string counterfactual;
  std::vector<std::string> answers;
  std::string prompts;
  int64_t most = 0;
  PatchJob patch;
  ReadingFlags reading;
};

// Lines {"prompt", "counterfactual", "answers": [a, b]}; also with the names
// of indirect-object data: "abc" for the counterfactual, "io" and "s".
PatchText ReadLine(const JsonCursor& line) {
  PatchText texts;
  texts.prompt = line["prompt"].String();
  for (const char* key : {"counterfactual", "abc"}) {
    if (const auto found = line.Find(key)) {
      texts.counterfactual = found->String();
    }
  }
  if (const auto answers = line.Find("answers")) {
    const std::vector<JsonCursor> two = answers->Items();
    if (two.size() != 2) answers->Fail("two answers");
    texts.answer = two[0].String();
    texts.other = two[1].String();
  } else {
    texts.answer = line["io"].String();
    texts.other = line["s"].String();
  }
  return texts;
}

std::vector<PatchText> ReadPrompts(const Options& options) {
  if (options.prompts.empty()) {
    return {{options.prompt, options.counterfactual, options.answers[0],
             options.answers[1]}};
  }
  std::vector<PatchText> texts;
  int64_t number = 0;
  for (const std::string& line : ReadLines(options.prompts)) {
    ++number;
    if (line.find_first_not_of(" \t") == line.npos) continue;
    if (options.most > 0 && std::ssize(texts) >= options.most) break;
    const std::string where = fmt::format("{}:{}", options.prompts, number);
    const Json json = ParseJson(line, where);
    texts.push_back(ReadLine(JsonCursor(json, where)));
  }
  return texts;
}

// layer × head, "+0.12"
StudyTable Grid(std::span<const HeadRef> heads, std::span<const double> values,
                std::string title) {
  StudyTable table;
  table.title = std::move(title);
  table.columns = {"layer"};
  int64_t most = 0;
  for (const HeadRef& head : heads) most = std::max(most, head.head + 1);
  for (int64_t h = 0; h < most; ++h) {
    table.columns.push_back(std::to_string(h));
  }
  for (size_t i = 0; i < heads.size(); ++i) {
    const auto layer = static_cast<size_t>(heads[i].layer);
    while (table.rows.size() <= layer) {
      table.rows.push_back({std::to_string(table.rows.size())});
    }
    table.rows[layer].push_back(fmt::format("{:+.2f}", values[i]));
  }
  for (std::vector<std::string>& row : table.rows) {
    row.resize(table.columns.size());
  }
  return table;
}

void Print(const StudyTable& table, const Console& console) {
  WriteDrawn("\n{}{}", Wrap(table.title, console.width),
             DrawTable(table, console));
}

// "9.9 +2.31, 9.6 +1.10": the largest by size.
std::string Largest(const PatchResult& result, std::span<const double> values) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(5, order.size()); ++i) {
    text += fmt::format("{}{} {:+.2f}", i > 0 ? ", " : "",
                        ToString(result.heads[order[i]]), values[order[i]]);
  }
  return text;
}

double Total(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

void PrintText(const PatchResult& result) {
  const Console console = StdoutConsole();
  auto say = [&](const std::string& text) {
    WriteStdout("{}", Wrap(text, console.width));
  };
  say(fmt::format(
      "{} prompt{}; the answer's logit is larger in {:.0f} %. Logit difference "
      "{:+.3f}{}.",
      result.cases, result.cases == 1 ? "" : "s", 100 * result.preferred,
      result.difference.value,
      result.patched.empty() ? ""
                             : fmt::format(", {:+.3f} after the counterfactual",
                                           result.counterfactual.value)));
  if (result.unequal + result.ambiguous > 0) {
    say(
        fmt::format("Left out: {} whose counterfactual has another number of "
                    "tokens, {} whose answers begin alike.",
                    result.unequal, result.ambiguous));
  }
  const LogitParts& direct = result.direct;
  Print(Grid(result.heads, direct.heads,
             "Direct logit attribution: what each head adds (layer × head)"),
        console);
  say(
      fmt::format("Heads {:+.3f}, feed-forward {:+.3f}, embedding {:+.3f}, "
                  "biases {:+.3f}: together {:+.3f}. Largest: {}.",
                  Total(direct.heads), Total(direct.mlps), direct.embedding,
                  Total(direct.biases) + direct.constant, direct.Sum(),
                  Largest(result, direct.heads)));
  if (result.patched.empty()) return;
  Print(Grid(result.heads, result.share,
             "Activation patching: share of the difference lost when the head "
             "comes from the counterfactual (layer × head)"),
        console);
  say(fmt::format("Largest: {}.", Largest(result, result.share)));
}

// Parts of a difference that points the other way explain the wrong answer.
void WarnOfWrongAnswers(const PatchResult& result) {
  if (result.difference.value > 0 && result.preferred >= 0.5) return;
  const auto right = static_cast<int64_t>(
      std::lround(result.preferred * static_cast<double>(result.cases)));
  WriteStderr(
      "warning: [patch] expected the clean run to prefer the right "
      "answer; found it ahead in {} of {} prompts, by {:+.3f} in the "
      "mean; what is attributed and patched then makes the wrong one\n",
      right, result.cases, result.difference.value);
}

int Run(const Options& options) {
  options.run.engine.Require();
  if (options.prompts.empty() == options.prompt.empty()) {
    throw UsageError("expected either --prompt or --prompts");
  }
  if (options.prompts.empty() && options.answers.size() != 2) {
    throw UsageError("expected two --answers");
  }
  PatchJob job = options.patch;
  job.partial = KeptBy(job.partial, options.run, "patch");
  job.stop = StopOnInterrupt();
  Transformer model =
      OpenTransformer(options.run.model, options.run.engine, options.reading);
  PatchResult result;
  {
    ProgressBar bar;
    job.on_progress = bar.on_progress();
    result = PatchHeads(model, ReadPrompts(options), job);
  }
  WarnOfWrongAnswers(result);
  if (options.run.json) {
    WriteJson(WithModel(options.run.model, JsonText(result)).dump(2));
  } else {
    PrintText(result);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run, "A causal model's folder");
  AddWeightMemoryFlag(line, options->run.engine);
  line.Option("--prompt", options->prompt, "Text before the answer");
  line.Option("--counterfactual", options->counterfactual,
              "The prompt with what matters changed, of as many tokens; "
              "without one nothing is patched");
  line.Option("--answers", options->answers,
              "The right answer and a wrong one (their first tokens are "
              "compared): --answers \" Mary\" \" John\"")
      .Words(2);
  line.Option("--prompts", options->prompts,
              "Many at once: JSON lines with \"prompt\", "
              "\"counterfactual\", \"answers\": [right, wrong]");
  line.Option("--most", options->most, "Most prompts of the file; 0: all")
      .ShowDefault()
      .NotNegative();
  AddFlags(line, options->patch);
  AddReadingFlags(line, options->reading);
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace patch_command

const Command kPatchCommand = {
    .name = "patch",
    .group = Group::kAnalyse,
    .summary = "Which heads a prediction comes from",
    .examples =
        "  headwise patch models/gpt2 \\\n"
        "      --prompt \"When Mary and John went out, John gave a drink to\" "
        "\\\n"
        "      --counterfactual \"When Mary and John went out, Anna gave a "
        "drink to\" \\\n"
        "      --answers \" Mary\" \" John\"\n"
        "  headwise patch models/minimind2-small --prompts ioi.jsonl --json",
    .setup = patch_command::Setup,
    .ranks = true};

}  // namespace headwise
