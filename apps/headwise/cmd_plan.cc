// headwise plan: what a large profile or training run would take on many GPUs,
// and where more of them stop to help.
#include <fmt/core.h>

#include <memory>
#include <string>

#include "commands.h"
#include "console.h"
#include "flags.h"
#include "headwise/base/fields.h"
#include "headwise/base/json.h"
#include "headwise/drawing/terminal.h"
#include "headwise/scale.h"

namespace headwise {
namespace plan_command {
namespace {

struct Options {
  std::string model;
  ScaleJob asked;
  ScaleMachine machine;
  bool json = false;
};

// "12 s", "3.4 h", "5.6 days", "7.8 years"
std::string Time(double seconds) {
  constexpr double kHour = 3600, kDay = 24 * kHour, kYear = 365 * kDay;
  if (seconds < 600) return fmt::format("{:.3g} s", seconds);
  if (seconds < 2 * kDay) return fmt::format("{:.3g} h", seconds / kHour);
  if (seconds < kYear) return fmt::format("{:.3g} days", seconds / kDay);
  return fmt::format("{:.3g} years", seconds / kYear);
}

std::string Limit(const ScalePlan& plan, const Options& options) {
  if (plan.limit.empty()) {
    return fmt::format("All of {} GPUs are used to at least a half.",
                       plan.useful_gpus);
  }
  const bool trains = options.asked.work == ScaleTask::kTrain;
  const std::string why =
      plan.limit == "reading"
          ? "every rank reads and cuts the whole text, and that does not "
            "shrink"
      : trains
          ? fmt::format(
                "each step of {:.3g} tokens moves {:.3g} GB of gradients "
                "{}, however many share its work",
                plan.step_tokens, 4e-9 * plan.parameters,
                options.asked.ring ? "round the ring" : "up and down a tree")
          : std::string("rank 0 receives the sums of all blocks");
  return fmt::format("Beyond {} GPUs more than half of the time is lost: {}.",
                     plan.useful_gpus, why);
}

void Print(const ScalePlan& plan, const Options& options) {
  const Console console = StdoutConsole();
  StudyTable table;
  table.columns = {"GPUs", "time", "computing", "links", "reading", "used"};
  for (const ScaleRow& row : plan.rows) {
    table.rows.push_back({fmt::format("{}", row.gpus), Time(row.seconds()),
                          Time(row.compute), Time(row.links), Time(row.reading),
                          fmt::format("{:.0f} %", 100 * plan.Efficiency(row))});
  }
  std::string head = fmt::format(
      "To {} {:.3g} tokens with {:.3g} parameters, {:.3g} operations a token, "
      "windows of {}.",
      FieldWord(options.asked.work), options.asked.tokens, plan.parameters,
      plan.flops_a_token, options.asked.context);
  if (plan.copy_gpus > 1) {
    head += fmt::format(
        " One copy takes {:.4g} GB and so {} GPUs: its layers would have to be "
        "split, which Headwise does not do; the sums of their halves are "
        "counted among the links.",
        plan.copy_bytes / 1e9, plan.copy_gpus);
  }
  WriteDrawn("{}{}{}{}", Wrap(head, console.width), DrawTable(table, console),
             Wrap(Limit(plan, options), console.width),
             Wrap("A calculation from rates that --help lists; nothing was "
                  "run.",
                  console.width));
}

Json ToJson(const ScalePlan& plan) {
  Json rows = Json::array();
  for (const ScaleRow& row : plan.rows) {
    rows.push_back({{"gpus", row.gpus},
                    {"seconds", row.seconds()},
                    {"compute", row.compute},
                    {"links", row.links},
                    {"reading", row.reading},
                    {"efficiency", plan.Efficiency(row)}});
  }
  return {{"parameters", plan.parameters},
          {"flops_a_token", plan.flops_a_token},
          {"copy_bytes", plan.copy_bytes},
          {"copy_gpus", plan.copy_gpus},
          {"useful_gpus", plan.useful_gpus},
          {"limit", plan.limit},
          {"rows", rows}};
}

int Run(const Options& options) {
  const ScalePlan plan =
      PlanScale(options.model, options.asked, options.machine);
  if (options.json) {
    WriteJson(ToJson(plan).dump(2));
  } else {
    Print(plan, options);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("--model", options->model,
              "A folder with a config.json; weights are not needed")
      .Required();
  AddFlags(line, options->asked);
  AddFlags(line, options->machine);
  line.Flag("--json", options->json, "Print JSON");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace plan_command

const Command kPlanCommand = {
    .name = "plan",
    .group = Group::kTools,
    .summary = "Time of a profile or a training run on many GPUs",
    .examples =
        "  headwise plan --model examples/plan/70b --gpus 1024 --tokens 1e12\n"
        "  headwise plan --model assets/novels --work train --tokens 1e9 \\\n"
        "      --step-tokens 65536 --gpus 64",
    .setup = plan_command::Setup};

}  // namespace headwise
