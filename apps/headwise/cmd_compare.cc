// headwise compare: one head beside many on a sentence.
#include <fmt/core.h>

#include <memory>
#include <string>

#include "commands.h"
#include "console.h"
#include "flags.h"
#include "headwise/base/atomic_file.h"
#include "headwise/context.h"
#include "headwise/report/compare_page.h"
#include "headwise/report/compare_report.h"
#include "headwise/study/comparison.h"

namespace headwise {
namespace {

struct Options {
  std::string sentence;
  ComparisonOptions comparison;
  std::string page;
  std::string svg;
  bool json = false;
};

int Run(const Options& options) {
  Context context;
  const Comparison comparison =
      CompareHeads(context, options.sentence, options.comparison);
  if (!options.page.empty()) {
    WriteFileAtomically(options.page, ComparePage(comparison));
  }
  if (!options.svg.empty()) {
    WriteFileAtomically(options.svg, CompareSvg(comparison));
  }
  if (options.json) {
    // Words that are no UTF-8 are replaced rather than refused.
    fmt::print("{}\n",
               CompareJson(comparison)
                   .dump(2, ' ', false,
                         nlohmann::ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{}", CompareText(comparison, StdoutConsole()));
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("SENTENCE", options->sentence, "The sentence, in quotes")
      .Required();
  AddFlags(line, options->comparison);
  line.Option("--out", options->page, "Write an HTML page to this file");
  line.Option("--svg", options->svg, "Write the figure to this file");
  line.Flag("--json", options->json, "Print JSON");
  return [options] { return Run(*options); };
}

}  // namespace

const Command kCompareCommand = {
    .name = "compare",
    .group = Group::kUnderstand,
    .summary = "one head beside many on your sentence",
    .examples =
        "  headwise compare \"The cat sat on the mat\"\n"
        "  headwise compare \"The cat sat on the mat\" --out compare.html\n"
        "  headwise compare \"Apple released a new phone because it is tasty\" "
        "--heads 1,2,8\n"
        "Weights are untrained: words and layers are drawn from --seed.",
    .setup = Setup};

}  // namespace headwise
