// headwise patch: which heads a prediction comes from.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "commands.h"
#include "console.h"
#include "headwise/base/json.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/heads/importance/patching.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/model/checkpoint.h"
#include "headwise/report/terminal.h"
#include "headwise/runtime/windows.h"
#include "interrupt.h"
#include "past_context.h"
#include "progress_bar.h"
#include "run_flags.h"
#include "text_reading.h"

namespace headwise {
namespace {

struct Options {
  RunFlags run;
  std::string prompt;
  std::string counterfactual;
  std::vector<std::string> answers;
  std::string prompts;
  int64_t most = 0;
  ReadingFlags reading;
};

struct Texts {
  std::string prompt, counterfactual, answer, other;
};

// Lines {"prompt", "counterfactual", "answers": [a, b]}; also with the names
// of indirect-object data: "abc" for the counterfactual, "io" and "s".
Texts ReadLine(const JsonCursor& line) {
  Texts texts;
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

std::vector<Texts> ReadPrompts(const Options& options) {
  if (options.prompts.empty()) {
    return {{options.prompt, options.counterfactual, options.answers[0],
             options.answers[1]}};
  }
  const MappedFile file(options.prompts);
  const std::string_view all = file.text();
  std::vector<Texts> texts;
  int64_t number = 0;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find('\n', at), all.size());
    const std::string_view line = all.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \r\t") == line.npos) continue;
    if (options.most > 0 &&
        static_cast<int64_t>(texts.size()) >= options.most) {
      break;
    }
    const std::string where = fmt::format("{}:{}", options.prompts, number);
    const Json json = ParseJson(line, where);
    texts.push_back(ReadLine(JsonCursor(json, where)));
  }
  return texts;
}

// Prompts as token ids, and how many were left out because they could not be
// compared.
struct Cases {
  std::vector<PatchCase> cases;
  int64_t unequal = 0;    // prompt and counterfactual differ in length
  int64_t ambiguous = 0;  // both answers begin with the same token
};

Cases Tokenise(const std::vector<Texts>& texts, const Tokenizer& tokenizer,
               const ModelConfig& config) {
  const Framer framer(tokenizer, config);
  auto encode = [&](const std::string& text) {
    return framer.Encode(text).ids;
  };
  auto first = [&](const std::string& text) {
    const Encoding encoding =
        tokenizer.Encode(text, {.add_special_tokens = false});
    if (encoding.ids.empty()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {"patch", "answers of at least one token", "\"" + text + "\"", ""});
    }
    return encoding.ids[0];
  };
  Cases result;
  for (const Texts& text : texts) {
    PatchCase one;
    one.prompt = encode(text.prompt);
    if (!text.counterfactual.empty()) {
      one.counterfactual = encode(text.counterfactual);
    }
    one.answer = first(text.answer);
    one.other = first(text.other);
    if (texts.size() > 1) {
      if (one.answer == one.other) {
        ++result.ambiguous;
        continue;
      }
      if (!one.counterfactual.empty() &&
          one.counterfactual.size() != one.prompt.size()) {
        ++result.unequal;
        continue;
      }
    }
    result.cases.push_back(std::move(one));
  }
  if (result.cases.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"patch",
                 "prompts as long as their counterfactuals, with answers that "
                 "begin with different tokens",
                 fmt::format("none among {}", texts.size()), ""});
  }
  if (result.cases.size() == 1 &&
      result.cases[0].answer == result.cases[0].other) {
    throw Error(ErrorCode::kInvalidArgument,
                {"patch", "answers that begin with different tokens",
                 "the same token twice", ""});
  }
  return result;
}

int64_t Longest(const Cases& cases) {
  int64_t most = 0;
  for (const PatchCase& one : cases.cases) {
    most = std::max(most, std::ssize(one.prompt));
  }
  return most;
}

// layer × head, "+0.12"
StudyTable Grid(const Model& model, std::span<const double> values,
                std::string title) {
  StudyTable table;
  table.title = std::move(title);
  table.columns = {"layer"};
  const auto layers = AttentionLayers(model, AttentionKind::kSelf);
  int64_t most = 0;
  for (const AttentionLayer* layer : layers) {
    most = std::max(most, layer->config().heads);
  }
  for (int64_t h = 0; h < most; ++h) {
    table.columns.push_back(std::to_string(h));
  }
  size_t at = 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    std::vector<std::string> row = {std::to_string(l)};
    for (int64_t h = 0; h < most; ++h) {
      row.push_back(h < layers[l]->config().heads
                        ? fmt::format("{:+.2f}", values[at++])
                        : "");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

void Print(const StudyTable& table, const Console& console) {
  fmt::print("\n{}{}", Wrap(table.title, console.width),
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

void PrintText(const Model& model, const Cases& cases,
               const PatchResult& result) {
  const Console console = StdoutConsole();
  auto say = [&](const std::string& text) {
    fmt::print("{}", Wrap(text, console.width));
  };
  say(fmt::format(
      "{} prompt{}; the answer's logit is larger in {:.0f} %. Logit difference "
      "{:+.3f}{}.",
      result.cases, result.cases == 1 ? "" : "s", 100 * result.preferred,
      result.difference.value,
      result.patched.empty() ? ""
                             : fmt::format(", {:+.3f} after the counterfactual",
                                           result.counterfactual.value)));
  if (cases.unequal + cases.ambiguous > 0) {
    say(
        fmt::format("Left out: {} whose counterfactual has another number of "
                    "tokens, {} whose answers begin alike.",
                    cases.unequal, cases.ambiguous));
  }
  const LogitParts& direct = result.direct;
  Print(Grid(model, direct.heads,
             "Direct logit attribution: what each head adds (layer × head)"),
        console);
  say(
      fmt::format("Heads {:+.3f}, feed-forward {:+.3f}, embedding {:+.3f}, "
                  "biases {:+.3f}: together {:+.3f}. Largest: {}.",
                  Total(direct.heads), Total(direct.mlps), direct.embedding,
                  Total(direct.biases) + direct.constant, direct.Sum(),
                  Largest(result, direct.heads)));
  if (result.patched.empty()) return;
  Print(Grid(model, result.share,
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

Json ToJson(const Options& options, const Cases& cases,
            const PatchResult& result) {
  Json json = {{"model", options.run.model},
               {"format", "headwise.patch/1"},
               {"prompts", result.cases},
               {"left_out",
                {{"lengths_differ", cases.unequal},
                 {"answers_begin_alike", cases.ambiguous}}},
               {"preferred", result.preferred},
               {"difference", ToJson(result.difference)}};
  if (!result.patched.empty()) {
    json["counterfactual"] = ToJson(result.counterfactual);
  }
  Json heads = Json::array();
  for (size_t i = 0; i < result.heads.size(); ++i) {
    Json head = {{"layer", result.heads[i].layer},
                 {"head", result.heads[i].head},
                 {"kind", Name(result.heads[i].kind)},
                 {"direct", result.direct.heads[i]}};
    if (!result.patched.empty()) {
      head["patched"] = ToJson(result.patched[i]);
      head["share"] = result.share[i];
    }
    heads.push_back(std::move(head));
  }
  json["heads"] = std::move(heads);
  json["feed_forward"] = result.direct.mlps;
  json["output_biases"] = result.direct.biases;
  json["embedding"] = result.direct.embedding;
  json["constant"] = result.direct.constant;
  return json;
}

int Run(const Options& options) {
  options.run.engine.Require();
  if (options.prompts.empty() == options.prompt.empty()) {
    throw UsageError("expected either --prompt or --prompts");
  }
  if (options.prompts.empty() && options.answers.size() != 2) {
    throw UsageError("expected two --answers");
  }
  PatchOptions patch;
  patch.stop = StopOnInterrupt();
  const Checkpoint checkpoint(options.run.model, options.reading.options(),
                              options.run.engine.compute());
  const Model& model = checkpoint.model();
  const Tokenizer& tokenizer = checkpoint.tokenizer();
  const Cases cases = Tokenise(ReadPrompts(options), tokenizer, model.config());
  WarnPastContext(model.config(), Longest(cases));
  if (!options.prompt.empty()) WarnUnknownScript(tokenizer, options.prompt);
  Context context(options.run.engine.context());
  PatchResult result;
  {
    ProgressBar bar;
    patch.progress = bar.callback();
    result = Patch(context, model, cases.cases, patch);
  }
  WarnOfWrongAnswers(result);
  if (options.run.json) {
    fmt::print("{}\n", ToJson(options, cases, result).dump(2));
  } else {
    PrintText(model, cases, result);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  AddRunFlags(line, options->run, "A causal model's folder");
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
  AddReadingFlags(line, options->reading);
  return [options] { return Run(*options); };
}

}  // namespace

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
    .setup = Setup};

}  // namespace headwise
