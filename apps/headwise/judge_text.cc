// Door: judge_text.h.
#include "judge_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "console.h"
#include "headwise/drawing/terminal.h"
#include "headwise/drawing/text.h"
#include "headwise/error.h"
#include "headwise/evaluate.h"
#include "headwise/generate.h"
#include "headwise/heads/importance/interval_json.h"
#include "headwise/loss.h"
#include "headwise/model.h"
#include "headwise/session.h"
#include "headwise/text_input.h"
#include "interrupt.h"
#include "progress_bar.h"

namespace headwise {
namespace {

std::string PercentText(const Interval& share) {
  return fmt::format("{:.1f} %", 100 * share.value);
}

std::string ChangeText(const Interval& change) {
  if (!std::isfinite(change.low) || !std::isfinite(change.high)) {
    return fmt::format("{:+.3f} [?, ?]", change.value);  // of one sequence
  }
  return fmt::format("{:+.3f} [{:+.3f}, {:+.3f}]", change.value, change.low,
                     change.high);
}

// The legend of a table with these rows.
struct JudgedColumns {
  bool tokens = false;     // predictions are compared
  bool sentences = false;  // embeddings are
};
JudgedColumns ColumnsOf(std::span<const ModelJudgement> rows) {
  JudgedColumns columns;
  for (const ModelJudgement& row : rows) {
    columns.tokens |= row.agreement.divergence.has_value();
    columns.sentences |= row.agreement.cosine.has_value();
  }
  return columns;
}

std::vector<std::string> RowOf(const ModelJudgement& row,
                               const JudgedColumns& columns) {
  const auto number = [](const Interval& value) {
    return fmt::format("{:.3f}", value.value);
  };
  std::vector<std::string> cells = {
      Visible(row.domain) + (row.chose ? " (also chose)" : ""),
      number(row.loss.whole), number(row.loss.other),
      ChangeText(row.loss.change)};
  const auto add = [&](bool shown, const std::optional<Interval>& value,
                       const auto& text) {
    if (shown) cells.push_back(value ? text(*value) : "");
  };
  add(columns.tokens, row.agreement.divergence, number);
  add(columns.tokens, row.agreement.same_token, PercentText);
  add(columns.sentences, row.agreement.cosine, number);
  add(columns.sentences, row.agreement.same_neighbour, PercentText);
  return cells;
}

}  // namespace

void PrintJudged(std::span<const ModelJudgement> rows, const char* whole,
                 const char* other) {
  const JudgedColumns columns = ColumnsOf(rows);
  StudyTable table;
  WriteStdout("{} loss, and agreement with the whole model, by text:\n\n",
              Capital(Name(rows[0].kind)));
  table.columns = {"text", whole, other, "change"};
  if (columns.tokens) {
    table.columns.insert(table.columns.end(), {"KL", "same token"});
  }
  if (columns.sentences) {
    table.columns.insert(table.columns.end(), {"cosine", "neighbour"});
  }
  for (const ModelJudgement& row : rows) {
    table.rows.push_back(RowOf(row, columns));
  }
  WriteDrawn("{}", DrawTable(table, StdoutConsole()));
  if (columns.tokens) {
    WriteStdout(
        "KL: of the whole model's predictions from the other's, nats; same "
        "token: the\nlikeliest one is the same.\n");
  }
  if (columns.sentences) {
    WriteStdout(
        "Cosine: of a sentence's two embeddings; neighbour: its nearest other "
        "sentence\nis the same.\n");
  }
}

Json ToJson(std::span<const ModelJudgement> rows) {
  Json all = Json::array();
  for (const ModelJudgement& row : rows) {
    Json json = {{"domain", row.domain},
                 {"chose", row.chose},
                 {"loss_kind", Name(row.kind)},
                 {"sequences", row.sequences},
                 {"tokens", row.tokens},
                 {"whole", ToJson(row.loss.whole)},
                 {"other", ToJson(row.loss.other)},
                 {"change", ToJson(row.loss.change)}};
    const Agreement& agreement = row.agreement;
    const auto add = [&](const char* name,
                         const std::optional<Interval>& value) {
      if (value) json[name] = ToJson(*value);
    };
    add("divergence", agreement.divergence);
    add("same_token", agreement.same_token);
    if (agreement.sentences > 0) json["sentences"] = agreement.sentences;
    add("cosine", agreement.cosine);
    add("same_neighbour", agreement.same_neighbour);
    all.push_back(std::move(json));
  }
  return all;
}

std::string WarnOneDomain(std::span<const ModelJudgement> rows) {
  if (rows.empty() || !std::ranges::all_of(rows, &ModelJudgement::chose)) {
    return "";
  }
  return "Judged on " + Visible(rows[0].domain) +
         " alone, whose other parts chose what left: on other text the model "
         "may be far worse. --judge FILE judges on it, too.";
}

PromptAnswers::PromptAnswers(const std::string& path) {
  if (path.empty()) return;
  prompts_ = ReadLines(path);
  std::erase(prompts_, "");
  if (!prompts_.empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              {path, "a prompt a line", "an empty file", "write some prompts"});
}

void PromptAnswers::Ask(Transformer& model) {
  if (prompts_.empty()) return;
  GenerateJob job;
  job.max_tokens = 40;
  job.truncate = true;
  job.stop = StopOnInterrupt();
  ProgressBar bar;
  job.on_progress = bar.on_progress();
  std::vector<std::string>& texts = answers_.emplace_back();
  for (Generated& one : GenerateEach(model, prompts_, job)) {
    std::ranges::replace(one.text, '\n', ' ');
    texts.push_back(std::move(one.text));
  }
  if (!job.stop.stop_requested()) return;
  throw Error(ErrorCode::kCancelled,
              {"prompts", "an answer to each", "a stop", ""});
}

void PromptAnswers::Print(const char* first, const char* second) const {
  if (answers_.size() < 2) return;
  WriteStdout("\nAnswers, greedy, of at most 40 tokens:\n");
  for (size_t i = 0; i < prompts_.size(); ++i) {
    WriteStdout("\n{}\n  {}: {}\n  {}: {}\n", Visible(prompts_[i]), first,
                Visible(answers_[0][i]), second, Visible(answers_[1][i]));
  }
}

void PromptAnswers::AddTo(Json& json) const {
  if (answers_.size() < 2) return;
  Json all = Json::array();
  for (size_t i = 0; i < prompts_.size(); ++i) {
    all.push_back({{"prompt", prompts_[i]},
                   {"whole", answers_[0][i]},
                   {"other", answers_[1][i]}});
  }
  json["answers"] = std::move(all);
}

}  // namespace headwise
