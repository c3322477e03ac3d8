// Blocks of windows shared among ranks: each rank runs whole blocks, and rank 0
// adds their sums in the order of blocks, so that the profile is that of one
// process, bit for bit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "headwise/dist/group.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/window_blocks.h"

namespace headwise {

// Every rank reads the whole text and counts all its windows; it runs those of
// its own blocks.
class SharedBlocks {
 public:
  // Borrows the group. `profile`: what is gone on with, or empty, as
  // WindowBlocks::Resume left it; only what this rank needs of it stays.
  SharedBlocks(dist::Group& group, Profile& profile);

  bool Owns(int64_t block) const {
    return block % group_.size() == group_.rank();
  }
  // A window of a block that this rank owns was run.
  void Count(int64_t tokens, uint64_t key);
  // The block is over: its sums go from the profile to rank 0.
  void Give(int64_t block, Profile& profile);

  // Rank 0: takes what has come within so many seconds, the sums of whole
  // blocks into `blocks`. On others it only lets what was given go.
  void Collect(double seconds, WindowBlocks& blocks);
  // Rank 0: the first block that is not there yet.
  int64_t next() const { return next_; }
  // Rank 0: what is there as a profile to go on from; settings and what the
  // model alone gives come from `profile`.
  Profile SoFar(Profile profile, const WindowBlocks& blocks) const;

 private:
  struct Share {
    ProfileCounts counts;
    WindowSums sums;
    std::vector<std::map<std::string, int64_t>> sinks;
    std::vector<std::vector<Example>> examples;  // of all the rank's blocks
  };
  static std::string Pack(int64_t block, const Share& share);
  static std::pair<int64_t, Share> Unpack(const std::string& bytes);
  void Add(Share share, WindowBlocks& blocks);

  dist::Group& group_;
  ProfileCounts counts_;  // of the open block, where this rank owns it
  // Rank 0:
  std::map<int64_t, Share> waiting_;  // for those before them
  int64_t next_ = 0;
  Profile all_;                     // counts, sinks and examples so far
  std::optional<WindowSums> open_;  // of a block that is not whole
};

}  // namespace headwise
