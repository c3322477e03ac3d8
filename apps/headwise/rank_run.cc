// Door: rank_run.h.
#include "rank_run.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <set>
#include <string>

#include "headwise/version.h"

namespace headwise {
namespace {

// What each rank may have of its own.
bool MayDiffer(const std::string& flag) {
  static const std::set<std::string> flags = {"--device", "--threads"};
  return flags.contains(flag);
}

// Files and folders that are read, by content.
bool IsRead(const std::string& flag) {
  static const std::set<std::string> flags = {
      "--text",  "--ids",  "--profile", "--patterns", "--conllu", "--coref",
      "--pairs", "--mean", "--judge",   "--plan",     "--prompts"};
  return flags.contains(flag);
}

// Models are compared when they are open (ShareWork), configurations of runs
// field by field (RunTraining).
bool IsComparedLater(const std::string& flag) {
  return flag == "MODEL" || flag == "--against" || flag == "CONFIG" ||
         flag == "--set";
}

}  // namespace

std::vector<RunField> DescribeRun(const Command& command, const CLI::App& app) {
  std::vector<RunField> fields = {
      {"command", command.name},
      {"program",
       HEADWISE_VERSION_STRING ", " + DescribeFiles({"/proc/self/exe"})}};
  for (const CLI::Option* option : app.get_options()) {
    const std::string flag = option->get_name();
    if (option->count() == 0 || MayDiffer(flag) || IsComparedLater(flag)) {
      continue;
    }
    fields.push_back(
        {flag, IsRead(flag)
                   ? DescribeFiles(option->results())
                   : fmt::format("{}", fmt::join(option->results(), " "))});
  }
  return fields;
}

}  // namespace headwise
