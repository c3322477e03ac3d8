// How long a rank waits for another's message before it gives up: one that
// hangs, or that ended on another machine, would else be waited for for ever.
#pragma once

#include <functional>
#include <string>

namespace headwise::dist {

class WaitLimit {
 public:
  // Seconds without a message; 0: no limit. While ranks find each other they
  // have nothing else to do, and so less time.
  static constexpr double kSeconds = 3600;
  static constexpr double kJoinSeconds = 120;

  explicit WaitLimit(double seconds) : seconds_(seconds) {}

  // A message came.
  void Heard() { waited_ = 0; }
  // Some time passed in waiting for a rank; −1: for any. Throws Error(kIo)
  // where that is too long since a message came.
  void Add(int whom, double seconds);

  double seconds() const { return seconds_; }
  bool is_none() const { return seconds_ <= 0; }

 private:
  double seconds_;
  double waited_ = 0;
};

// $HEADWISE_RANK_WAIT, or `otherwise` where it is not set. Throws
// Error(kInvalidArgument) for what is no number from 0 on. `lookup` gives a
// variable's text or null, as getenv does.
double RankWaitSeconds(const std::function<const char*(const char*)>& lookup,
                       double otherwise);
double RankWaitSeconds(double otherwise);

// What to do about a wait that was too short or too long, for messages.
std::string HowToWait();

}  // namespace headwise::dist
