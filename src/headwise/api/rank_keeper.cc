// Door: rank_keeper.h.
#include "headwise/api/rank_keeper.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "headwise/error.h"

namespace headwise {

RankKeeper::RankKeeper(std::string path, LossesKey key, double seconds)
    : path_(std::move(path)),
      losses_(std::move(key)),
      seconds_(seconds),
      last_(std::chrono::steady_clock::now()) {}

void RankKeeper::Resume() {
  KeptLosses kept = KeptLosses::Load(path_);
  const LossesKey& ours = losses_.key();
  const LossesKey& theirs = kept.key();
  if (!(ours == theirs)) {
    const char* other = ours.model != theirs.model ? "another model"
                        : ours.text != theirs.text ? "another text"
                                                   : "other settings";
    throw Error(
        ErrorCode::kInvalidArgument,
        {path_, "losses of the same model, text and settings",
         std::string("those of ") + other, "without `resume` it begins anew"});
  }
  losses_ = std::move(kept);
  ours_ = true;
}

void RankKeeper::Tick() {
  if (seconds_ <= 0 || failed_) return;
  const auto now = std::chrono::steady_clock::now();
  if (std::chrono::duration<double>(now - last_).count() < seconds_) return;
  if (losses_.Done() > 0) Save();
  last_ = std::chrono::steady_clock::now();
}

void RankKeeper::Finish() {
  if (!ours_) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void RankKeeper::ThrowInterrupted() {
  if (losses_.Done() == 0) {
    throw Error(ErrorCode::kCancelled, {"rank", "to finish", "an interruption",
                                        "nothing was measured yet"});
  }
  throw Error(ErrorCode::kCancelled,
              {"rank", "to finish", "an interruption",
               Save() ? "what it has is kept in " + path_ +
                            "; the same command with `resume` goes on"
                      : "what it has could not be written to " + path_});
}

bool RankKeeper::Save() {
  try {
    losses_.Save(path_);
    ours_ = true;
  } catch (const Error&) {
    failed_ = true;
  }
  return !failed_;
}

}  // namespace headwise
