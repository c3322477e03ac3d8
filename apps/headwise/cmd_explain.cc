// `headwise explain`: every implementation of an operator, best first, with
// "runs" or the reason why it does not take the problem.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "console.h"
#include "headwise/backend/cpu/isa.h"
#include "headwise/drawing/text.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/padding.h"
#include "headwise/ops/matmul/implementation.h"
#include "problem_flags.h"

namespace headwise {
namespace explain_command {
namespace {

struct Entry {
  std::string name;
  std::string why_not;
  std::string passes;
};

struct Explained {
  std::string problem;
  std::string padded;  // "heads are run as 8 wide, …"; empty: as they are
  std::vector<Entry> entries;
};

// "forward, rows, …; not band: has no band pass" where the forward runs.
std::string Passes(const AttentionImplementation& one,
                   const AttentionProblem& problem) {
  std::string runs, refused;
  for (const AttentionPass pass : kAttentionPasses) {
    const std::string reason = WhyNot(one, pass, problem);
    if (reason.empty()) {
      runs += (runs.empty() ? "" : ", ") + std::string(Name(pass));
    } else {
      refused += fmt::format("; not {}: {}", Name(pass), reason);
    }
  }
  return runs + refused;
}

Entry Explain(const AttentionImplementation& one,
              const AttentionProblem& problem) {
  const std::string reason = WhyNot(one, AttentionPass::kForward, problem);
  return {one.name, reason, reason.empty() ? Passes(one, problem) : ""};
}

// What AttentionForward makes of heads that a faster implementation takes only
// with zero columns behind their own.
std::string Padding(const AttentionProblem& problem) {
  const HeadWidths widths = BestWidths(AttentionImplementations(), "",
                                       AttentionPass::kForward, problem);
  if (widths == OwnWidths(problem)) return "";
  const AttentionProblem wide = Widened(problem, widths);
  for (const auto& one : AttentionImplementations().entries) {
    if (!WhyNot(one, AttentionPass::kForward, wide).empty()) continue;
    return fmt::format(
        "heads are run with zero columns, {} wide, by {}",
        widths.head_dim == widths.value_dim
            ? std::to_string(widths.head_dim)
            : fmt::format("{} and {}", widths.head_dim, widths.value_dim),
        one.name);
  }
  return "";
}

Precision PrecisionOf(std::string_view word) {
  for (const Precision one : {Precision::kBF16, Precision::kF16}) {
    if (word == Name(one)) return one;
  }
  return Precision::kStored;
}

std::vector<Explained> ExplainAll(const ProblemFlags& flags,
                                  Precision precision) {
  std::vector<Explained> all;
  for (const bench::Config& config : flags.Problems()) {
    if (flags.op == "matmul") {
      for (MatmulProblem problem : bench::MatmulShapes(config)) {
        problem.precision = precision;
        Explained explained{ToString(problem), "", {}};
        const MatmulArgs no_views;
        for (const auto& one : MatmulImplementations().entries) {
          explained.entries.push_back(
              {one.name, one.why_not({problem, no_views}), ""});
        }
        all.push_back(std::move(explained));
      }
      continue;
    }
    for (const std::string& mask : config.mask) {
      AttentionProblem problem = bench::MakeProblem(config, mask);
      problem.precision = precision;
      Explained explained{ToString(problem), Padding(problem), {}};
      for (const AttentionImplementation& one :
           AttentionImplementations().entries) {
        explained.entries.push_back(Explain(one, problem));
      }
      all.push_back(std::move(explained));
    }
  }
  return all;
}

void Print(const ProblemFlags& flags, const std::vector<Explained>& all) {
  const int width = StdoutConsole().width;
  // `text` in lines that begin in column `indent`.
  const auto wrapped = [&](const std::string& text, int indent) {
    return Wrap(text, width, indent).substr(indent);
  };
  WriteStdout("{}", Wrap(fmt::format("instruction set: {} (HEADWISE_MAX_ISA "
                                     "caps it)",
                                     ActiveIsa()),
                         width));
  for (const Explained& explained : all) {
    WriteStdout("\n{}", Wrap(flags.op + ": " + explained.problem, width));
    if (!explained.padded.empty()) {
      WriteStdout("{}", Wrap(explained.padded, width, 2));
    }
    for (const Entry& entry : explained.entries) {
      WriteStdout("  {:<16}{}", entry.name,
                  wrapped(entry.why_not.empty() ? "runs" : entry.why_not, 18));
      if (!entry.passes.empty())
        WriteStdout("{}", Wrap(entry.passes, width, 20));
    }
  }
}

void PrintJson(const ProblemFlags& flags, const std::vector<Explained>& all) {
  Json document;
  document["isa"] = ActiveIsa();
  document["problems"] = Json::array();
  for (const Explained& explained : all) {
    Json problem;
    problem["op"] = flags.op;
    problem["problem"] = explained.problem;
    if (!explained.padded.empty()) problem["padded"] = explained.padded;
    problem["implementations"] = Json::array();
    for (const Entry& entry : explained.entries) {
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
    const std::vector<Explained> all =
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
