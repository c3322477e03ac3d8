// Door: ranks.h.
#include "ranks.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <thread>

#include "console.h"
#include "rank_run.h"

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
