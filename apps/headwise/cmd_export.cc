// headwise export: a model as other programs read it.
#include <memory>
#include <optional>
#include <string>

#include "commands.h"
#include "console.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/model.h"
#include "headwise/train.h"

namespace headwise {
namespace export_command {
namespace {

struct Options {
  std::string model;
  std::string to;
  std::string out;
  std::string type;
  bool twin = false;
  bool no_tokenizer = false;
  bool force = false;
  bool json = false;
};

// Says it before the model is opened.
std::optional<DType> CheckUsage(const Options& options) {
  if (options.to != "huggingface" && options.to != "gguf" &&
      options.to != "onnx") {
    throw UsageError("--to: expected huggingface, gguf or onnx; found " +
                     options.to);
  }
  if (options.twin && options.to != "huggingface") {
    throw UsageError(
        "--twin is for huggingface: other targets take the "
        "heads that are left");
  }
  if (options.to == "onnx" && !options.type.empty() && options.type != "f32") {
    throw UsageError("--type: ONNX files have f32");
  }
  if (options.no_tokenizer && options.to != "gguf") {
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
  const auto type = CheckUsage(options);
  const std::string architecture =
      Export(options.model, {.to = ParseExportTarget(options.to),
                             .out = options.out,
                             .type = type,
                             .twin = options.twin,
                             .tokenizer = !options.no_tokenizer,
                             .replace = options.force});
  if (options.json) {
    const Json json = {{"format", "headwise.export/1"},
                       {"to", options.to},
                       {"architecture", architecture},
                       {"out", options.out}};
    WriteJson(json.dump(2));
  } else {
    WriteStdout("Written to {}, as {}.\n", options.out, architecture);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("MODEL", options->model, "A model's folder").Required();
  line.Option(
          "--to", options->to,
          "For whom: huggingface (transformers), gguf (llama.cpp), onnx (ONNX "
          "Runtime)")
      .Required();
  line.Option("--out", options->out,
              "The folder (huggingface) or file (gguf, onnx) to write")
      .Required();
  line.Option("--type", options->type,
              "Of the weights: f32, f16, bf16; without it as they are stored");
  line.Flag("--twin", options->twin,
            "huggingface: the shapes of the original, with zeros for heads "
            "that were removed");
  line.Flag("--no-tokenizer", options->no_tokenizer,
            "gguf: weights only, for ids");
  line.Flag("--force", options->force,
            "Replace what is at --out: a file, or a folder with a model and "
            "nothing else");
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
