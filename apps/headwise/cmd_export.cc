// headwise export: a model as other programs read it.
#include <memory>
#include <optional>
#include <string>

#include "commands.h"
#include "console.h"
#include "flags.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/export_model.h"
#include "headwise/model.h"

namespace headwise {
namespace export_command {
namespace {

struct Options {
  std::string model;
  std::string type;
  ExportJob job;
  bool json = false;
};

// Says it before the model is opened.
std::optional<DType> CheckUsage(const Options& options) {
  const ExportTarget to = options.job.to;
  if (options.job.twin && to != ExportTarget::kHuggingFace) {
    throw UsageError(
        "--twin is for huggingface: other targets take the "
        "heads that are left");
  }
  if (to == ExportTarget::kOnnx && !options.type.empty() &&
      options.type != "f32") {
    throw UsageError("--type: ONNX files have f32");
  }
  if (!options.job.tokenizer && to != ExportTarget::kGguf) {
    throw UsageError("--no-tokenizer is for gguf");
  }
  if (options.type.empty()) return std::nullopt;
  try {
    return ParseType(options.type);
  } catch (const Error&) {
    throw UsageError("--type: expected f32, f16 or bf16; found " +
                     options.type);
  }
}

int Run(const Options& options) {
  ExportJob job = options.job;
  job.type = CheckUsage(options);
  const std::string architecture = Export(options.model, job);
  if (options.json) {
    const Json json = {{"format", "headwise.export/1"},
                       {"to", FieldWord(job.to)},
                       {"architecture", architecture},
                       {"out", job.out.string()}};
    WriteJson(json.dump(2));
  } else {
    WriteStdout("Written to {}, as {}.\n", job.out.string(), architecture);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder").Required();
  AddFlags(line, options->job);
  line.Require("--to");
  line.Require("--out");
  line.Option(
      "--type", options->type,
      "Type of the weights: f32, f16, bf16; without it as they are stored");
  line.Flag("--json", options->json, "Print JSON");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace export_command

const Command kExportCommand = {
    .name = "export",
    .group = Group::kPrune,
    .summary = "Write a model, pruned or not, for other programs",
    .examples =
        "  headwise export smaller --to huggingface --out smaller-hf\n"
        "  headwise export smaller --to huggingface --twin --out twin\n"
        "  headwise export smaller --to gguf --type f16 --out smaller.gguf\n"
        "  headwise export smaller --to onnx --out smaller.onnx",
    .setup = export_command::Setup};

}  // namespace headwise
