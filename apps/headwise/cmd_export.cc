// headwise export: a model as other programs read it.
#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <string>

#include "commands.h"
#include "console.h"
#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/export/huggingface.h"
#include "headwise/export/source.h"
#include "headwise/model/checkpoint.h"

namespace headwise {
namespace {

struct Options {
  std::string model;
  std::string to;
  std::string out;
  std::string type;
  bool twin = false;
  bool force = false;
  bool json = false;
};

// Says it before the model is opened.
std::optional<DType> CheckUsage(const Options& options) {
  if (options.to != "huggingface") {
    throw UsageError("--to: expected huggingface; found " + options.to);
  }
  const auto type = ParseWeightType(options.type);
  return type;
}

int Run(const Options& options) {
  const auto type = CheckUsage(options);
  const Replace replace = options.force ? Replace::kAllowed : Replace::kRefused;
  RequireNewFolder(options.out, replace);
  const Checkpoint checkpoint(options.model);
  Context context;
  const std::string architecture = ExportHuggingFace(context, checkpoint,
                                                     {.out = options.out,
                                                      .twin = options.twin,
                                                      .type = type,
                                                      .replace = replace});
  if (options.json) {
    const Json json = {{"format", "headwise.export/1"},
                       {"to", options.to},
                       {"architecture", architecture},
                       {"out", options.out}};
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("Written to {}, as {}.\n", Visible(options.out), architecture);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder").Required();
  line.Option("--to", options->to, "For whom: huggingface").Required();
  line.Option("--out", options->out, "The folder to write").Required();
  line.Option("--type", options->type,
              "Of the weights: f32, f16, bf16; without it as they are stored");
  line.Flag("--twin", options->twin,
            "huggingface: the shapes of the original, with zeros for heads "
            "that were removed");
  line.Flag("--force", options->force, "Replace what is at --out");
  line.Flag("--json", options->json, "Print JSON");
  return [options] { return Run(*options); };
}

}  // namespace

const Command kExportCommand = {
    .name = "export",
    .group = Group::kPrune,
    .summary = "Write a model, pruned or not, for other programs",
    .examples =
        "  headwise export smaller --to huggingface --out smaller-hf\n"
        "  headwise export smaller --to huggingface --twin --out twin",
    .setup = Setup};

}  // namespace headwise
