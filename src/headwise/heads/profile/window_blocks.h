// A profile that is added up block by block: each block of kBlockWindows
// windows from zero, and whole blocks to their sum in order. Which bits come
// out then depends neither on where a run was interrupted nor on who summed
// which block.
#pragma once

#include <cstdint>

#include "headwise/heads/profile/profile.h"

namespace headwise {

// What the profile holds of windows, out of it: zeros are left, in place.
WindowSums TakeSums(Profile& profile);
// Into the profile, to what it holds.
void AddSums(const WindowSums& sums, Profile& profile);

// While it grows, the profile itself holds the open block's sums, and this
// class those of the whole blocks. What is exact in any order (counts, sinks,
// examples) and what comes from the model alone stays in the profile.
class WindowBlocks {
 public:
  // Windows that the open block still takes.
  static int64_t Room(const Profile& profile) {
    return kBlockWindows - profile.counts.windows % kBlockWindows;
  }

  // Takes profile.blocks. Throws Error(kInvalidArgument) where it has none.
  void Resume(Profile& profile);
  // The open block is full.
  void Close(Profile& profile) { Add(TakeSums(profile)); }
  // The sums of a whole block, the next in order.
  void Add(const WindowSums& block) { whole_.Add(block); }
  // Makes the profile that of all windows so far, with `blocks` to resume it
  // from and without the metrics that nothing was counted for.
  void Total(Profile& profile) const;

 private:
  WindowSums whole_;
};

}  // namespace headwise
