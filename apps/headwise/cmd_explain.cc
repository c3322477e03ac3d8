// `headwise explain`: every implementation of an operator, best first, with
// "runs" or the reason why it does not take the problem.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "console.h"
#include "headwise/attention.h"
#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/drawing/text.h"
#include "headwise/implementations.h"
#include "problem_flags.h"

namespace headwise {
namespace explain_command {
namespace {

Precision PrecisionOf(std::string_view word) {
  if (word == "bf16") return Precision::kBF16;
  return word == "f16" ? Precision::kF16 : Precision::kStored;
}

std::vector<Implementations> ExplainAll(const ProblemFlags& flags,
                                        Precision precision) {
  std::vector<Implementations> all;
  for (const bench::Config& config : flags.Problems()) {
    if (flags.op == "matmul") {
      for (const MatmulProblem& shape : bench::MatmulShapes(config)) {
        all.push_back(ExplainProduct({shape.m, shape.n, shape.k, precision}));
      }
      continue;
    }
    for (const std::string& mask : config.mask) {
      AttentionProblem problem = bench::MakeProblem(config, mask);
      problem.precision = precision;
      all.push_back(ExplainAttention(problem));
    }
  }
  return all;
}

void Print(const ProblemFlags& flags, const std::vector<Implementations>& all) {
  const int width = StdoutConsole().width;
  // `text` in lines that begin in column `indent`.
  const auto wrapped = [&](const std::string& text, int indent) {
    return Wrap(text, width, indent).substr(indent);
  };
  WriteStdout("{}", Wrap(fmt::format("instruction set: {} (HEADWISE_MAX_ISA "
                                     "caps it)",
                                     InstructionSet()),
                         width));
  for (const Implementations& explained : all) {
    WriteStdout("\n{}", Wrap(flags.op + ": " + explained.problem, width));
    if (!explained.padded.empty()) {
      WriteStdout("{}", Wrap(explained.padded, width, 2));
    }
    for (const ImplementationNote& entry : explained.entries) {
      WriteStdout("  {:<16}{}", entry.name,
                  wrapped(entry.why_not.empty() ? "runs" : entry.why_not, 18));
      if (!entry.passes.empty())
        WriteStdout("{}", Wrap(entry.passes, width, 20));
    }
  }
}

void PrintJson(const ProblemFlags& flags,
               const std::vector<Implementations>& all) {
  Json document;
  document["isa"] = InstructionSet();
  document["problems"] = Json::array();
  for (const Implementations& explained : all) {
    Json problem;
    problem["op"] = flags.op;
    problem["problem"] = explained.problem;
    if (!explained.padded.empty()) problem["padded"] = explained.padded;
    problem["implementations"] = Json::array();
    for (const ImplementationNote& entry : explained.entries) {
      problem["implementations"].push_back(
          {{"name", entry.name}, {"why_not", entry.why_not}});
    }
    document["problems"].push_back(std::move(problem));
  }
  WriteJson(document.dump(1));
}

std::function<int()> Setup(CommandLine line) {
  auto flags = std::make_shared<ProblemFlags>();
  auto json = std::make_shared<bool>(false);
  auto precision = std::make_shared<std::string>("stored");
  flags->Declare(line, "attention or matmul");
  line.Option("--precision", *precision,
              "operands are rounded to it for products: stored (as they are), "
              "bf16 or f16")
      .OneOf({"stored", "bf16", "f16"})
      .ShowDefault();
  line.Flag("--json", *json, "for machines");
  return [flags, json, precision] {
    const std::vector<Implementations> all =
        ExplainAll(*flags, PrecisionOf(*precision));
    *json ? PrintJson(*flags, all) : Print(*flags, all);
    return kSucceeded;
  };
}

}  // namespace
}  // namespace explain_command

const Command kExplainCommand = {
    "explain", Group::kTools, "Which implementations run a problem, or why not",
    "  headwise explain attention\n"
    "  headwise explain attention --type bf16 --head-dim 128 --mask causal\n"
    "  headwise explain matmul --m 128 --n 384 --k 384 --precision bf16",
    explain_command::Setup};

}  // namespace headwise
