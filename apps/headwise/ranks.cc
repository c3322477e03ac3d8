// Door: ranks.h.
#include "ranks.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <thread>

#include "console.h"
#include "rank_run.h"

namespace headwise {
namespace {

// How long a rank that fails waits for the first, which as a rule fails with
// the same words and ends all.
constexpr std::chrono::seconds kPatience{3};

const dist::Launch& Started() {
  static const dist::Launch launch = dist::FindLaunch();
  return launch;
}

std::unique_ptr<dist::Group>& Joined() {
  static std::unique_ptr<dist::Group> group;
  return group;
}

}  // namespace

void PrepareRanks() {
  if (IsFirstRank()) return;
  (void)!std::freopen("/dev/null", "w", stdout);
  SilenceStderr();
}

bool IsFirstRank() { return Started().rank == 0; }

dist::Group& RankGroup() {
  if (Joined() == nullptr) Joined() = dist::MakeSingleGroup();
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
  Joined() = dist::JoinGroup(Started());
  dist::RequireSameRun(*Joined(), DescribeRun(command, app));
}

int LeaveRanks(int code) {
  if (code == kSucceeded) {
    try {
      if (Joined() != nullptr) Joined()->Leave();
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
  if (Joined() != nullptr) Joined()->Abort(code);
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
