// headwise merge: profiles of parts of a corpus become the profile of all.
#include <fmt/core.h>

#include <map>
#include <memory>
#include <string>

#include "commands.h"
#include "console.h"
#include "headwise/error.h"
#include "headwise/profile.h"
#include "profile_title.h"

namespace headwise {
namespace merge_command {
namespace {

struct Options {
  std::vector<std::string> profiles;
  std::string out;
  bool json = false;
};

// A text that is counted twice would make intervals too narrow. names: of the
// profiles so far, by their texts.
void RequireNewText(const Profile& profile, const std::string& name,
                    std::map<uint64_t, std::string>& names) {
  if (profile.counts.text_key == 0) return;  // none: random repeats alone
  const auto [at, is_new] = names.try_emplace(profile.counts.text_key, name);
  if (is_new) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"merge", "profiles of different texts",
               fmt::format("{} and {}, of the same", at->second, name),
               "leave out one of them"});
}

int Run(const Options& options) {
  std::map<uint64_t, std::string> names;
  Profile merged = Profile::Load(options.profiles.front());
  RequireNewText(merged, options.profiles.front(), names);
  for (size_t i = 1; i < options.profiles.size(); ++i) {
    const Profile part = Profile::Load(options.profiles[i]);
    RequireNewText(part, options.profiles[i], names);
    merged.Merge(part);
  }
  merged.Save(options.out);
  if (options.json) {
    WriteJson(JsonText(merged));
    return kSucceeded;
  }
  WriteStdout("{}", Wrap(fmt::format("{}, written to {}.", ProfileTitle(merged),
                                     options.out),
                         StdoutConsole().width));
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("PROFILE", options->profiles,
              "Profiles of one model on different texts, in any order")
      .Required()
      .Several();
  line.Option("-o,--out", options->out, "The profile to write").Required();
  line.Flag("--json", options->json, "Print every metric as JSON");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace merge_command

const Command kMergeCommand = {
    .name = "merge",
    .group = Group::kAnalyse,
    .summary = "Profiles of parts of a corpus as the profile of all of it",
    .examples = "  headwise merge part1.heads part2.heads -o whole.heads",
    .setup = merge_command::Setup};

}  // namespace headwise
