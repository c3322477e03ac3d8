// headwise train: a transformer from a configuration file, in pieces if need
// be.
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "headwise/base/fields.h"
#include "headwise/base/json.h"
#include "headwise/heads/importance/head_life.h"
#include "headwise/heads/profile/words/word_materials.h"
#include "headwise/heads/roles/role_life.h"
#include "headwise/report/text.h"
#include "headwise/runtime/windows.h"
#include "headwise/train/run.h"
#include "interrupt.h"
#include "life_chart.h"
#include "loss_curve.h"
#include "progress_bar.h"
#include "ranks.h"
#include "role_chart.h"
#include "word_materials.h"

namespace headwise {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> settings;
  bool resume = false;
  bool force = false;
  WordFiles words;
  EngineFlags engine;
  bool json = false;
};

// Steps on standard error: one line that changes on a terminal; otherwise, and
// for evaluations, lines that stay.
class StepPrinter {
 public:
  explicit StepPrinter(int64_t steps)
      : steps_(steps), terminal_(::isatty(STDERR_FILENO) != 0) {
    winsize size{};
    if (terminal_ && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 &&
        size.ws_col > 0) {
      width_ = size.ws_col;
    }
  }
  ~StepPrinter() {
    if (drawn_) WriteStderr("\r\x1b[K");
  }
  StepPrinter(const StepPrinter&) = delete;
  StepPrinter& operator=(const StepPrinter&) = delete;

  void Show(const StepView& view) {
    const int64_t done = view.report.step + 1;
    tokens_ += static_cast<double>(view.report.tokens);
    const bool evaluated = !std::isnan(view.validation);
    const double every = terminal_ ? 0.2 : 10;
    if (!evaluated && view.seconds - shown_ < every) return;
    shown_ = view.seconds;
    const auto steps_here = static_cast<double>(done - view.steps_before);
    const double left =
        static_cast<double>(steps_ - done) * view.seconds / steps_here;
    std::string text =
        fmt::format("step {}/{}  loss {:.3f}", done, steps_, view.report.loss);
    if (view.report.assigned > 0) {
      text += fmt::format("  assigned {:.3f}", view.report.assigned);
    }
    if (evaluated) text += fmt::format("  validation {:.3f}", view.validation);
    text += fmt::format("  {:.0f} tokens/s", tokens_ / view.seconds);
    if (done < steps_) text += "  " + Duration(left) + " left";
    const bool stays = !terminal_ || evaluated;
    WriteStderr("{}{}{}", terminal_ ? "\r\x1b[K" : "",
                Shorten(text, width_ - 1), stays ? "\n" : "");
    drawn_ = !stays;
  }

 private:
  int64_t steps_;
  bool terminal_;
  int width_ = 80;
  bool drawn_ = false;
  double tokens_ = 0;
  double shown_ = 0;
};

// Observes every head before the first step and every so many: OUT/heads.jsonl
// and heads.svg, and the scores of every role, roles.jsonl and roles.svg.
class LifeWriter {
 public:
  LifeWriter(Context& context, const TrainConfig& config,
             const WordFiles& words)
      : context_(context), config_(config), words_(words), out_(config.out) {}

  void Begin(const Model& model, int64_t step) {
    if (config_.observe_every <= 0) return;
    if (step == 0) {
      Observe(model, step);
    } else {  // what a lost piece of the run saw is seen again
      life_ = ReadLife(out_ / "heads.jsonl", step);
      roles_ = ReadRoleLife(out_ / "roles.jsonl", step);
    }
  }

  void Show(const StepView& view) {
    const int64_t done = view.report.step + 1;
    if (config_.observe_every <= 0) return;
    if (done % config_.observe_every != 0 && done != config_.steps) return;
    Observe(view.model, done);
  }

 private:
  static constexpr int64_t kTokens = 2048;  // of an observation

  void Observe(const Model& model, int64_t step) {
    if (!observer_) Prepare(model);
    Profile profile;
    life_.push_back(observer_->Observe(model, step, &profile));
    materials_->AddTo(context_, model, *tokenizer_, {}, profile);
    roles_.push_back(RolesAt(profile, step));
    WriteLife(out_ / "heads.jsonl", life_);
    WriteLifeChart(out_ / "heads.svg", life_);
    WriteRoleLife(out_ / "roles.jsonl", roles_);
    WriteRoleChart(out_ / "roles.svg", roles_);
  }

  void Prepare(const Model& model) {
    tokenizer_ = Tokenizer::Load(config_.tokenizer.empty() ? config_.start
                                                           : config_.tokenizer);
    const WindowCutter cutter(*tokenizer_, model.config(),
                              {.context = config_.sequence});
    observer_.emplace(
        context_, *tokenizer_, model.config(),
        ReadWindows(
            config_.validation.empty() ? config_.data : config_.validation,
            cutter, kTokens));
    materials_.emplace(WithSamples(words_), model, tokenizer_.get(),
                       config_.out);
  }

  Context& context_;
  const TrainConfig& config_;
  const WordFiles& words_;
  std::filesystem::path out_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<LifeObserver> observer_;
  std::optional<WordMaterials> materials_;
  std::vector<LifeMoment> life_;
  std::vector<RoleMoment> roles_;
};

double ValidationAt(const TrainingRecord& record, int64_t step) {
  for (const auto& [at, loss] : record.validation) {
    if (at == step) return loss;
  }
  return NAN;
}

Json ModelJson(const std::filesystem::path& folder,
               const TrainingRecord& record, int64_t step) {
  if (folder.empty()) return nullptr;
  Json json = {{"folder", folder.string()}, {"step", step}};
  const double loss = ValidationAt(record, step);
  if (!std::isnan(loss)) json["validation"] = loss;
  return json;
}

// Which folder holds which model.
std::string ModelLines(const RunResult& result) {
  const TrainingRecord& r = result.record;
  const auto line = [&](const char* which, const std::filesystem::path& folder,
                        int64_t step) {
    const double loss = ValidationAt(r, step);
    return fmt::format(
        "{}: {}, step {}{}\n", which, folder.string(), step,
        std::isnan(loss) ? "" : fmt::format(", validation {:.3f}", loss));
  };
  const auto best = r.Best();
  if (result.best.empty() || best->first == r.step) {
    return line(result.best.empty() ? "last" : "last and best", result.last,
                r.step);
  }
  return line("last", result.last, r.step) +
         line("best", result.best, best->first);
}

void PrintResult(const Options& options, const TrainConfig& config,
                 const RunResult& result) {
  const TrainingRecord& r = result.record;
  const double loss = r.losses.empty() ? NAN : r.losses.back();
  if (options.json) {
    Json json = {{"out", config.out},   {"finished", result.finished},
                 {"steps", r.step},     {"parameters", r.parameters},
                 {"loss", loss},        {"tokens", r.tokens},
                 {"seconds", r.seconds}};
    if (!r.validation.empty()) {
      json["validation"] = r.validation.back().second;
    }
    json["last"] = ModelJson(result.last, r, r.step);
    json["best"] =
        ModelJson(result.best, r, r.Best().value_or(std::pair{-1, 0.0}).first);
    fmt::print("{}\n", json.dump(2));
    return;
  }
  std::string text = fmt::format("{}: {}, {:.1f} M parameters, loss {:.3f}",
                                 config.out, Counted(r.step, "step"),
                                 static_cast<double>(r.parameters) / 1e6, loss);
  if (!r.validation.empty()) {
    text += fmt::format(", validation {:.3f}", r.validation.back().second);
  }
  text += fmt::format(", {:.2f} M tokens in {}",
                      static_cast<double>(r.tokens) / 1e6, Duration(r.seconds));
  fmt::print("{}{}", Wrap(text, StdoutConsole().width), ModelLines(result));
}

int Run(const Options& options) {
  options.engine.Require();
  if (options.resume && options.force) {
    throw UsageError("either --resume or --force, not both");
  }
  const std::stop_token stop = StopOnInterrupt();
  const TrainConfig config = ReadTrainConfig(options.config, options.settings);
  if (options.words.any() && config.observe_every == 0) {
    throw UsageError("--conllu and --coref need observe_every");
  }
  Context context(options.engine.context());
  RunOptions run;
  run.resume = options.resume;
  run.replace = options.force;
  run.type = options.engine.compute();
  run.group = &RankGroup();
  run.stop = stop;
  auto bar = std::make_unique<ProgressBar>();
  run.progress = bar->callback();
  StepPrinter printer(config.steps);
  LifeWriter life(context, config, options.words);
  if (!IsFirstRank()) {
    const bool finished = RunTraining(context, config, run).finished;
    return finished ? kSucceeded : kFailed;
  }
  run.on_start = [&](const Model& model, int64_t step) {
    bar.reset();
    life.Begin(model, step);
  };
  run.on_step = [&](const StepView& view) {
    printer.Show(view);
    life.Show(view);
  };
  const RunResult result = RunTraining(context, config, run);
  WriteLossCurve(std::filesystem::path(config.out) / "loss.svg", result.record);
  PrintResult(options, config, result);
  if (result.finished) return kSucceeded;
  WriteStderr("stopped at step {} of {}; --resume continues\n",
              result.record.step, config.steps);
  return kFailed;
}

std::string FieldList() {
  std::string text = "Fields of CONFIG (JSON), with their defaults:\n";
  const TrainConfig config;
  TrainConfig::VisitFields(
      config, [&](const char* name, const auto& value, const char* help) {
        text += fmt::format("  {} {}\n{}", name, FieldToJson(value).dump(),
                            Wrap(help, 76, 6) + "\n");
      });
  return text;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("CONFIG", options->config, "The run's configuration (JSON)")
      .Required();
  line.Option("--set", options->settings,
              "key=value over the file: steps=200, model.hidden_size=128")
      .OneWord();
  line.Flag("--resume", options->resume,
            "Continue the run in its folder, bit for bit");
  line.Flag("--force", options->force,
            "Begin anew in a folder that holds a run or a model, and replace "
            "it");
  line.Option("--conllu", options->words.conllu,
              "Observe syntactic roles too, on this treebank in CoNLL-U; "
              "shipped: the sample that comes along");
  line.Option("--coref", options->words.coref,
              "Observe coreference too, on this annotation in CoNLL; shipped: "
              "the sample that comes along");
  AddEngineFlags(line, options->engine);
  line.Flag("--json", options->json, "Print the result as JSON");
  line.AddFooter(FieldList());
  return [options] { return Run(*options); };
}

}  // namespace

const Command kTrainCommand = {
    .name = "train",
    .group = Group::kTrain,
    .summary = "Train a transformer from a configuration file",
    .examples =
        "  headwise train examples/train/novels.json\n"
        "  headwise train examples/train/novels.json --set steps=200 --set "
        "out=/tmp/short\n"
        "  headwise train examples/train/novels.json --resume --threads 16",
    .setup = Setup,
    .ranks = true};

}  // namespace headwise
