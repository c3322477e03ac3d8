// Door: ranks.h.
#include "ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "console.h"
#include "headwise/version.h"

namespace headwise {
namespace {

// How long a rank that fails waits for the first, which as a rule fails with
// the same words and ends all.
constexpr std::chrono::seconds kPatience{3};

const Launch& Started() {
  static const Launch launch = FindLaunch();
  return launch;
}

std::optional<WorkGroup>& Joined() {
  static std::optional<WorkGroup> group;
  return group;
}

// Flags that may differ between ranks.
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

// The program, the command, and every flag that was given; of flags that name
// what is read, the contents. What follows from a command's own files, such as
// a run's configuration, is compared where it is read.
std::vector<RunField> DescribeRun(const Command& command, const CLI::App& app) {
  std::vector<RunField> fields = {
      {"command", command.name},
      {"program",
       HEADWISE_VERSION_STRING ", " + DescribeFiles({"/proc/self/exe"})}};
  for (const auto& [flag, words] : GivenFlags(app)) {
    if (MayDiffer(flag) || IsComparedLater(flag)) continue;
    fields.push_back({flag, IsRead(flag)
                                ? DescribeFiles(words)
                                : fmt::format("{}", fmt::join(words, " "))});
  }
  return fields;
}

}  // namespace

void PrepareRanks() {
  if (IsFirstRank()) return;
  (void)!std::freopen("/dev/null", "w", stdout);
  SilenceStderr();
}

bool IsFirstRank() { return Started().rank == 0; }

WorkGroup& RankGroup() {
  if (!Joined()) Joined().emplace();
  return *Joined();
}

void JoinRanks(const Command& command, const CLI::App& app) {
  if (Started().size == 1) return;
  if (!command.ranks) {
    throw UsageError(fmt::format(
        "expected one process, since {} does not share its work among ranks; "
        "found {}, started by {}",
        command.name, Started().size, Started().launcher));
  }
  Joined().emplace(Started());
  Joined()->RequireSame(DescribeRun(command, app));
}

int LeaveRanks(int code) {
  if (code == kSucceeded) {
    try {
      if (Joined()) Joined()->Leave();
      return code;
    } catch (const std::exception& error) {
      WriteStderr("error: {}\n", error.what());
      code = kFailed;
    }
  }
  if (!IsFirstRank()) {
    std::this_thread::sleep_for(kPatience);
    SpeakAs(fmt::format("rank {}: ", Started().rank));
  }
  if (Joined()) Joined()->Abort(code);
  return code;
}

int ThreadsOfRank() {
  if (Started().size == 1 || std::getenv("HEADWISE_THREADS") != nullptr) {
    return 0;
  }
  const auto ours = static_cast<int>(std::thread::hardware_concurrency());
  const auto all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return std::max(1, std::min(ours, all / Started().local_size));
}

void RequireFiles(const std::vector<std::string>& texts) {
  if (Started().size == 1 || std::ranges::find(texts, "-") == texts.end()) {
    return;
  }
  throw UsageError(
      "expected files or folders of text, which every rank reads; found "
      "standard input");
}

}  // namespace headwise
