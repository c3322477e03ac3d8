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
#include "flags.h"
#include "headwise/base/json.h"
#include "headwise/drawing/text.h"
#include "headwise/profile.h"
#include "headwise/train.h"
#include "interrupt.h"
#include "progress_bar.h"
#include "ranks.h"
#include "word_materials.h"

namespace headwise {
namespace train_command {
namespace {

struct Options {
  std::string config;
  TrainJob train;
  EngineFlags engine;
  bool json = false;
};

// Steps on standard error: one line that changes on a terminal; otherwise, and
// for evaluations, lines that stay.
class StepPrinter {
 public:
  StepPrinter() : terminal_(::isatty(STDERR_FILENO) != 0) {
    winsize size{};
    if (terminal_ && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 &&
        size.ws_col > 0) {
      width_ = size.ws_col;
    }
  }
  ~StepPrinter() {
    if (drawn_) WriteStatus("");
  }
  StepPrinter(const StepPrinter&) = delete;
  StepPrinter& operator=(const StepPrinter&) = delete;

  // before: steps that earlier pieces of the run did.
  void Begin(int64_t before) { before_ = before; }

  void Show(const TrainStep& step) {
    const int64_t done = step.step + 1;
    tokens_ += static_cast<double>(step.tokens);
    const bool evaluated = step.validation.has_value();
    const double every = terminal_ ? 0.2 : 10;
    if (!evaluated && step.seconds - shown_ < every) return;
    shown_ = step.seconds;
    const auto steps_here = static_cast<double>(done - before_);
    const double left =
        static_cast<double>(step.steps - done) * step.seconds / steps_here;
    std::string text =
        fmt::format("step {}/{}  loss {:.3f}", done, step.steps, step.loss);
    if (step.assigned > 0) {
      text += fmt::format("  assigned {:.3f}", step.assigned);
    }
    if (evaluated) text += fmt::format("  validation {:.3f}", *step.validation);
    text += fmt::format("  {:.0f} tokens/s", tokens_ / step.seconds);
    if (done < step.steps) text += "  " + Duration(left) + " left";
    const bool stays = !terminal_ || evaluated;
    if (terminal_) WriteStatus("");
    WriteStderr("{}{}", Shorten(text, width_ - 1), stays ? "\n" : "");
    drawn_ = !stays;
  }

 private:
  int64_t before_ = 0;
  bool terminal_;
  int width_ = 80;
  bool drawn_ = false;
  double tokens_ = 0;
  double shown_ = 0;
};

std::optional<double> ValidationAt(const TrainOutcome& run, int64_t step) {
  for (const auto& [at, loss] : run.validation) {
    if (at == step) return loss;
  }
  return {};
}

Json ModelJson(const std::filesystem::path& folder, const TrainOutcome& run,
               int64_t step) {
  if (folder.empty()) return nullptr;
  Json json = {{"folder", folder.string()}, {"step", step}};
  if (const auto loss = ValidationAt(run, step)) json["validation"] = *loss;
  return json;
}

// Which folder holds which model.
std::string ModelLines(const TrainOutcome& run) {
  const auto line = [&](const char* which, const std::filesystem::path& folder,
                        int64_t step) {
    const std::optional<double> loss = ValidationAt(run, step);
    return fmt::format("{}: {}, step {}{}\n", which,
                       VisibleName(folder.string()), step,
                       loss ? fmt::format(", validation {:.3f}", *loss) : "");
  };
  if (run.best.empty() || run.best_step == run.steps) {
    return line(run.best.empty() ? "last" : "last and best", run.last,
                run.steps);
  }
  return line("last", run.last, run.steps) +
         line("best", run.best, *run.best_step);
}

void PrintResult(const Options& options, const TrainOutcome& run) {
  const double loss = run.losses.empty() ? NAN : run.losses.back();
  if (options.json) {
    Json json = {{"out", run.out.string()},
                 {"finished", run.finished},
                 {"steps", run.steps},
                 {"parameters", run.parameters},
                 {"loss", loss},
                 {"tokens", run.tokens},
                 {"seconds", run.seconds}};
    if (!run.validation.empty()) {
      json["validation"] = run.validation.back().second;
    }
    json["last"] = ModelJson(run.last, run, run.steps);
    json["best"] = ModelJson(run.best, run, run.best_step.value_or(0));
    WriteJson(json.dump(2));
    return;
  }
  std::string text =
      fmt::format("{}: {}, {:.1f} M parameters, loss {:.3f}",
                  VisibleName(run.out.string()), Counted(run.steps, "step"),
                  static_cast<double>(run.parameters) / 1e6, loss);
  if (!run.validation.empty()) {
    text += fmt::format(", validation {:.3f}", run.validation.back().second);
  }
  text +=
      fmt::format(", {:.2f} M tokens in {}",
                  static_cast<double>(run.tokens) / 1e6, Duration(run.seconds));
  WriteStdout("{}{}", Wrap(text, StdoutConsole().width), ModelLines(run));
}

TrainJob JobOf(const Options& options) {
  const ContextOptions context = options.engine.context();
  TrainJob job = options.train;
  job.file = options.config;
  job.device = context.device;
  job.threads = context.threads;
  job.type = options.engine.compute();
  job.observe = true;
  job.group = &RankGroup();
  job.words = WithSamples(job.words);
  job.stop = StopOnInterrupt();
  return job;
}

int Run(const Options& options) {
  options.engine.Require();
  TrainJob job = JobOf(options);
  auto bar = std::make_unique<ProgressBar>();
  job.on_progress = bar->on_progress();
  if (!IsFirstRank()) {
    return Train(job).finished ? kSucceeded : kFailed;
  }
  StepPrinter printer;
  job.on_start = [&](int64_t step) {
    bar.reset();
    printer.Begin(step);
  };
  job.on_step = [&](const TrainStep& step) { printer.Show(step); };
  const TrainOutcome run = Train(job);
  PrintResult(options, run);
  if (run.finished) return kSucceeded;
  WriteStderr("stopped at step {} of {}; --resume continues\n", run.steps,
              run.planned_steps);
  return kFailed;
}

std::string FieldList() {
  std::string text = "Fields of CONFIG (JSON), with their defaults:\n";
  for (const TrainField& field : TrainFields()) {
    text += fmt::format("  {} {}\n{}\n", field.name, field.value,
                        Wrap(field.help, 76, 6));
  }
  return text;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("CONFIG", options->config, "The run's configuration (JSON)")
      .Required();
  line.Option("--set", options->train.settings,
              "key=value over the file: steps=200, model.hidden_size=128")
      .OneWord();
  AddFlags(line, options->train,
           {"resume", "force", "conllu", "coref", "timeline"});
  AddEngineFlags(line, options->engine);
  line.Flag("--json", options->json, "Print the result as JSON");
  line.AddFooter(FieldList());
  AddSampleNote(line);
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace train_command

const Command kTrainCommand = {
    .name = "train",
    .group = Group::kTrain,
    .summary = "Train a transformer from a configuration file",
    .examples =
        "  headwise train examples/train/novels.json\n"
        "  headwise train examples/train/novels.json --set steps=200 --set "
        "out=/tmp/short\n"
        "  headwise train examples/train/novels.json --resume --threads 16",
    .setup = train_command::Setup,
    .ranks = true};

}  // namespace headwise
