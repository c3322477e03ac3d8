// Processes that share one piece of work: who they are, and what they tell each
// other. One process by default; many under mpirun or srun. The door of the
// folder.
//
// What is shared is cut so that no result depends on how many there are: the
// callers' parts have fixed bounds, and whoever adds them up does so in the
// order of the parts, not of the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/dist/launch.h"
#include "headwise/tensor.h"

namespace headwise::dist {

// Messages of one channel from one rank arrive in the order they were posted.
enum class Channel : uint8_t { kCollective, kWork };

struct Message {
  int from = 0;
  std::string bytes = {};
};

// One thread at a time, whichever. Ranks must call collectives in the same
// order. Everything that waits throws Error(kIo) naming the rank that it waits
// for where that one has ended, or has sent nothing for too long
// (wait_limit.h).
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The one that prints and writes.
  bool is_first() const { return rank() == 0; }
  bool is_single() const { return size() == 1; }

  // Sends without waiting for the other side.
  virtual void Post(int to, Channel channel, std::string bytes) = 0;
  // The next message of a rank; waits for it.
  virtual std::string Take(int from, Channel channel) = 0;
  // A message of any rank; nothing, where none comes within so many seconds.
  virtual std::optional<Message> Poll(Channel channel, double seconds) = 0;

  // The last call: waits until all ranks are here and all messages are gone,
  // however long the first is still at work.
  virtual void Leave() = 0;
  // Ends every rank at once with this exit code. Returns where it is alone.
  virtual void Abort(int code) noexcept = 0;

  void Barrier();
  // Rank 0's bytes on every rank. The size may be the first rank's alone.
  void Broadcast(std::string& bytes);
  // The values of rank `from` on every rank. Views lie on the host.
  void Broadcast(const TensorView& view, int from = 0);
  // Values for one other rank, which takes them by as large a view.
  void Send(int to, const ConstTensorView& view);
  void Receive(int from, const TensorView& view);
  // Every rank's bytes on rank 0, in the order of ranks; nothing on others.
  std::vector<std::string> Gather(std::string bytes);
  // The same on every rank.
  std::vector<std::string> AllGather(std::string bytes);
  // Σ over ranks, on all of them, added in the order of ranks: sums of doubles
  // depend on how many there are, those of integers do not.
  void AllReduce(std::span<double> values);
  void AllReduce(std::span<int64_t> values);
};

// One process alone.
std::unique_ptr<Group> MakeSingleGroup();

// The processes of the launcher, through OpenMPI's library, which is loaded
// here. Throws Error(kUnsupported) in a build without it, where the library is
// not there, and where the launcher is of another MPI.
std::unique_ptr<Group> MakeMpiGroup(const Launch& launch);
// Whether this build can.
bool HasMpi();

// The group that the launcher asks for.
std::unique_ptr<Group> JoinGroup(const Launch& launch);

}  // namespace headwise::dist
