// headwise merge: profiles of parts of a corpus become the profile of all.
#include <fmt/core.h>

#include <memory>
#include <string>

#include "commands.h"
#include "console.h"
#include "headwise/heads/profile/profile_json.h"
#include "profile_title.h"

namespace headwise {
namespace {

struct Options {
  std::vector<std::string> profiles;
  std::string out;
  bool json = false;
};

int Run(const Options& options) {
  Profile merged = Profile::Load(options.profiles.front());
  for (size_t i = 1; i < options.profiles.size(); ++i) {
    merged.Merge(Profile::Load(options.profiles[i]));
  }
  merged.Save(options.out);
  if (options.json) {
    fmt::print("{}\n",
               ProfileJson(merged).dump(
                   2, ' ', false, nlohmann::json::error_handler_t::replace));
    return kSucceeded;
  }
  fmt::print("{}", Wrap(fmt::format("{}, written to {}.", ProfileTitle(merged),
                                    options.out),
                        StdoutConsole().width));
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("PROFILE", options->profiles,
              "Profiles of one model, in any order")
      .Required()
      .Several();
  line.Option("-o,--out", options->out, "The profile to write").Required();
  line.Flag("--json", options->json, "Print every metric as JSON");
  return [options] { return Run(*options); };
}

}  // namespace

const Command kMergeCommand = {
    .name = "merge",
    .group = Group::kAnalyse,
    .summary = "Profiles of parts of a corpus as the profile of all of it",
    .examples = "  headwise merge part1.heads part2.heads -o whole.heads",
    .setup = Setup};

}  // namespace headwise
